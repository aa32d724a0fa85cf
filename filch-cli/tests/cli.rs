//! The program from outside: what it accepts, what it refuses, what it writes.

use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Every runtime that takes part in the benchmark.
const RUNTIMES: [&str; 3] = ["filch", "tokio", "smol"];

fn filch(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_filch")).args(args).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// A path for this test alone, in the directory that cargo keeps for test files.
fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn scenarios() -> Vec<String> {
    text(&filch(&["bench", "--list"]).stdout)
        .lines()
        .map(|line| line.split(' ').next().expect("a name").into())
        .collect()
}

#[test]
fn unknown_scenario_is_refused_and_the_known_ones_are_listed() {
    let refused = filch(&["bench", "--only", "spawn_many_local,nonsense"]);
    assert_eq!(refused.status.code(), Some(2));
    let message = text(&refused.stderr);
    assert!(message.contains("'nonsense'"), "{message}");
    for known in scenarios() {
        assert!(message.contains(&known), "{known} is missing in: {message}");
    }
}

#[test]
fn unknown_runtime_is_refused_and_the_known_ones_are_listed() {
    let refused = filch(&["bench", "--runtimes", "nonsense"]);
    assert_eq!(refused.status.code(), Some(2));
    let message = text(&refused.stderr);
    for known in RUNTIMES {
        assert!(message.contains(known), "{known} is missing in: {message}");
    }
}

#[test]
fn counts_that_make_no_sense_are_refused() {
    for args in [
        ["--threads", "0"],
        ["--threads", "1,0"],
        ["--threads", "two"],
        ["--threads", ""],
        ["--repeats", "0"],
    ] {
        let refused = filch(&["bench", args[0], args[1]]);
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        assert!(text(&refused.stderr).contains(args[0]), "{args:?}");
    }
}

#[test]
fn file_that_cannot_be_written_is_refused_before_anything_runs() {
    let path = scratch("no such directory/out.json");
    let refused = filch(&["bench", "--quick", "--json", path.to_str().expect("UTF-8")]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("no such directory"));
    assert!(!text(&refused.stdout).contains("spawn_many_local"));
}

#[test]
fn every_scenario_yields_its_metrics_for_every_runtime() {
    let (json, csv) = (scratch("all.json"), scratch("all.csv"));
    let path = |path: &PathBuf| path.to_str().expect("UTF-8").to_owned();
    let run = filch(&[
        "bench",
        "--quick",
        "--threads",
        "2",
        "--json",
        &path(&json),
        "--csv",
        &path(&csv),
    ]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(!text(&run.stdout).contains('\x1b'), "colour without a terminal");

    let report: Value =
        serde_json::from_str(&fs::read_to_string(json).expect("written")).expect("JSON");
    let rows = report["results"].as_array().expect("a list");
    for scenario in scenarios() {
        for runtime in RUNTIMES {
            let found = rows
                .iter()
                .filter(|row| row["scenario"] == scenario.as_str() && row["runtime"] == runtime);
            assert!(found.count() > 0, "{scenario} on {runtime} is missing");
        }
    }
    for row in rows {
        let value = |key: &str| row[key].as_f64().expect("a number");
        assert!(value("min") <= value("median") && value("median") <= value("max"), "{row}");
        assert!(value("min") >= 0.0, "{row}");
    }
    let lines = fs::read_to_string(csv).expect("written").lines().count();
    assert_eq!(lines, 1 + rows.len(), "one round each");
}

#[test]
fn no_arguments_mean_the_tour() {
    let (bare, tour) = (filch(&[]), filch(&["tour"]));
    assert!(bare.status.success() && tour.status.success());
    let titles = |output: &Output| -> Vec<String> {
        let words = text(&output.stdout);
        words.lines().filter(|line| !line.starts_with(' ')).map(str::to_owned).collect()
    };
    assert!(!titles(&bare).is_empty());
    assert_eq!(titles(&bare), titles(&tour));
}
