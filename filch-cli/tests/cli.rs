//! The program from outside: what it accepts, what it refuses, what it writes.

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The runtimes that take part in the benchmark: ours, with what bounds it, and its peers.
const OWN: [&str; 5] = ["filch", "closure", "seq", "filch-epoll", "threads"];
const PEERS: &[&str] = if cfg!(feature = "peers") {
    &[
        "tokio",
        "smol",
        "rayon",
        "chili",
        "compio",
        "tokio+rayon",
        "tokio+blocking",
        "rayon-dag",
        "vec",
    ]
} else {
    &[]
};

/// Every runtime that takes part.
fn known_runtimes() -> impl Iterator<Item = &'static str> {
    OWN.iter().chain(PEERS).copied()
}

fn filch(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_filch")).args(args).output().expect("the program starts")
}

/// Runs the program with a variable of the environment, and returns its exit code and what it says
/// besides its results, line by line.
fn refused(args: &[&str], variable: &str, value: &str) -> (Option<i32>, Vec<String>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_filch"));
    let output = command.args(args).env(variable, value).output().expect("the program starts");
    (output.status.code(), text(&output.stderr).lines().map(str::to_owned).collect())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// A path for this test alone, in the directory that cargo keeps for test files.
fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The scenarios, each with the runtimes that take part: a name at the start of a line, runtimes
/// in brackets at its end.
fn scenarios() -> Vec<(String, Vec<String>)> {
    let line = |line: &str| {
        let name = line.split(' ').next().expect("a name").to_owned();
        let (_, runtimes) = line.rsplit_once('[').expect("a bracket");
        let runtimes = runtimes.trim_end_matches(']').split(' ').map(str::to_owned);
        (name, runtimes.collect())
    };
    text(&filch(&["bench", "--list"]).stdout).lines().map(line).collect()
}

#[test]
fn unknown_scenario_is_refused_and_the_known_ones_are_listed() {
    let refused = filch(&["bench", "--only", "spawn_many_local,nonsense"]);
    assert_eq!(refused.status.code(), Some(2));
    let message = text(&refused.stderr);
    assert!(message.contains("'nonsense'"), "{message}");
    for (known, _) in scenarios() {
        assert!(message.contains(&known), "{known} is missing in: {message}");
    }
}

#[test]
fn unknown_runtime_is_refused_and_the_known_ones_are_listed() {
    let refused = filch(&["bench", "--runtimes", "nonsense"]);
    assert_eq!(refused.status.code(), Some(2));
    let message = text(&refused.stderr);
    for known in known_runtimes() {
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
fn every_scenario_yields_its_metrics_for_every_runtime_that_takes_part() {
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
    for (scenario, runtimes) in scenarios() {
        for runtime in runtimes {
            assert!(known_runtimes().any(|known| known == runtime), "{runtime}");
            let found = rows.iter().filter(|row| {
                row["scenario"] == scenario.as_str() && row["runtime"] == runtime.as_str()
            });
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
fn fork_join_stands_beside_its_peers_and_sequential_code() {
    const PROGRAMS: [&str; 8] =
        ["fib", "tree_1k", "tree_131k", "tree_16m", "nqueens", "matmul", "skynet", "uts"];
    let all: &[&str] = if cfg!(feature = "peers") {
        &["filch", "rayon", "chili", "seq"]
    } else {
        &["filch", "seq"]
    };
    for program in PROGRAMS {
        let (_, runtimes) =
            scenarios().into_iter().find(|(name, _)| name == program).expect(program);
        assert_eq!(runtimes, all, "{program}");
    }
    let run = filch(&["bench", "--quick", "--only", "fib,tree_1k", "--threads", "1"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    for runtime in all {
        assert_eq!(text(&run.stdout).matches(&format!("  {runtime} ")).count(), 2, "{runtime}");
    }
}

#[test]
fn scenario_without_any_runtime_asked_for_is_left_out() {
    let run = filch(&["bench", "--quick", "--only", "fib,yield_many", "--runtimes", "seq"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let words = text(&run.stdout);
    assert!(words.contains("fib") && !words.contains("yield_many"), "{words}");
}

/// The chapters of the tour, as its list names them: title and sentence.
fn chapters() -> Vec<(String, String)> {
    let chapter = |line: &str| {
        let (title, sentence) = line.split_once(' ').expect("a title and a sentence");
        (title.to_owned(), sentence.trim().to_owned())
    };
    text(&filch(&["tour", "--list"]).stdout).lines().map(chapter).collect()
}

/// Lines of a tour that are not indented: titles and sentences.
fn heads(output: &Output) -> Vec<String> {
    let words = text(&output.stdout);
    let heads = words.lines().filter(|line| !line.is_empty() && !line.starts_with(' '));
    heads.map(str::to_owned).collect()
}

/// Every chapter that measures only what it does itself, or little besides.
const CHEAP: &str = "machine,tasks,jobs,wait,block_on,group,scope,priorities,stealing,graph,hive,simulator,\
                     shutdown,counters";

#[test]
fn list_of_the_tour_names_what_only_accepts() {
    let chapters = chapters();
    for known in CHEAP.split(',').chain(["join", "sort", "sockets", "files", "timers", "pipeline"])
    {
        assert!(chapters.iter().any(|(title, _)| title == known), "{known} in {chapters:?}");
    }
    assert!(chapters.iter().all(|(_, sentence)| sentence.ends_with('.')), "{chapters:?}");
}

#[test]
fn unknown_chapter_is_refused_and_the_known_ones_are_listed() {
    let refused = filch(&["tour", "--only", "machine,nonsense"]);
    assert_eq!(refused.status.code(), Some(2));
    let message = text(&refused.stderr);
    assert!(message.contains("'nonsense'"), "{message}");
    for (known, _) in chapters() {
        assert!(message.contains(&known), "{known} is missing in: {message}");
    }
}

#[test]
fn tour_through_a_pipe_has_chosen_chapters_and_neither_escape_codes_nor_progress() {
    let run = filch(&["tour", "--quick", "--only", CHEAP, "--only", "profile"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert_eq!(text(&run.stderr), "", "the planted panic, and progress, are not for a pipe");
    let words = text(&run.stdout);
    assert!(!words.contains(['\x1b', '\r']), "{words:?}");
    let chosen: Vec<_> = CHEAP.split(',').chain(["profile"]).collect();
    let expected = chapters().into_iter().filter(|(title, _)| chosen.contains(&title.as_str()));
    let said = heads(&run);
    assert_eq!(said.len(), chosen.len(), "{words}");
    for ((title, sentence), said) in expected.zip(said) {
        assert!(said.starts_with(&title) && said.ends_with(&sentence), "{title}: {said}");
    }
    remove_trace(&words);
}

/// Reads the trace that a tour has written, and removes it.
fn remove_trace(words: &str) {
    let (_, rest) = words.split_once("trace in ").expect("a trace");
    let (path, _) = rest.split_once(';').expect("a path");
    let trace: Value =
        serde_json::from_str(&fs::read_to_string(path).expect("written")).expect("JSON");
    fs::remove_file(path).expect("ours");
    let events = trace["traceEvents"].as_array().expect("a list");
    for node in ["load", "settings", "part 6", "merge"] {
        assert!(events.iter().any(|event| event["name"] == node), "{node}");
    }
}

#[test]
fn comparisons_of_the_tour_name_filch_and_its_peers_if_there_are_any() {
    let only = "join,loops,sort,sockets,files,timers,pipeline,posts";
    let run = filch(&["tour", "--quick", "--only", only]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let words = text(&run.stdout);
    assert!(!words.contains("not measured"), "{words}");
    let compared = words.lines().filter(|line| line.contains(": filch ")).count();
    assert!(compared >= 9, "{words}");
    for peer in ["rayon", "Tokio", "Tokio + rayon"] {
        let named = words.lines().any(|line| line.contains(&format!(", {peer} ")));
        assert_eq!(named, cfg!(feature = "peers"), "{peer}: {words}");
    }
}

#[test]
fn tour_whose_trace_cannot_be_written_says_why_and_goes_on() {
    let nowhere = scratch("no such place");
    let run = Command::new(env!("CARGO_BIN_EXE_filch"))
        .args(["tour", "--quick", "--only", "files,profile,shutdown"])
        .env("TMPDIR", &nowhere)
        .output()
        .expect("the program starts");
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert_eq!(heads(&run).len(), 3);
    let words = text(&run.stdout);
    for refused in ["no trace in ", "no file in "] {
        let line = words.lines().find(|line| line.contains(refused)).expect(refused);
        assert!(line.contains("no such place: ") && line.contains("(os error 2)"), "{line}");
    }
}

#[test]
fn reader_who_closes_the_pipe_ends_the_tour_quietly() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_filch"));
    command.args(["tour", "--quick", "--only", "machine,wait,shutdown"]);
    let mut tour =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(tour.stdout.take());
    let end = tour.wait_with_output().expect("it ends");
    assert!(end.status.success());
    assert_eq!(text(&end.stderr), "");
}

#[test]
fn no_arguments_mean_the_tour() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_filch"));
    let mut tour = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut first = String::new();
    let stdout = tour.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut first).expect("UTF-8");
    // The pipe is closed by now, so the tour ends before its next chapter.
    assert!(tour.wait().expect("it ends").success());
    let (title, sentence) = &chapters()[0];
    assert!(first.starts_with(title) && first.contains(sentence), "{first}");
}

#[test]
fn a_configuration_that_makes_no_sense_is_told_in_one_line() {
    let (file, out) = (scratch("nonsense.conf"), scratch("untouched.conf"));
    fs::write(&file, "ring_capacity = 256\nio_affinity = 100000\n").expect("a file");
    let torn = scratch("torn.conf");
    fs::write(&torn, "io_workers = 2\nring_capacity = x\n").expect("a file");
    let path = |path: &PathBuf| path.to_str().expect("UTF-8").to_owned();
    let wrong = [
        ("FILCH_IO_WORKERS", "many".to_owned(), "FILCH_IO_WORKERS=\"many\""),
        ("FILCH_STACK_SIZE", "1".to_owned(), "FILCH_STACK_SIZE=\"1\""),
        ("FILCH_IO", "carrier pigeon".to_owned(), "FILCH_IO=\"carrier pigeon\""),
        ("FILCH_CONFIG", path(&file), "`io_affinity`: there is no CPU 100000"),
        ("FILCH_CONFIG", path(&torn), "line 2: `ring_capacity`"),
        ("FILCH_CONFIG", "/no such file".to_owned(), "/no such file"),
    ];
    for args in [
        &[][..],
        &["tour"],
        &["bench", "--quick", "--only", "fib"],
        &["tune", "--quick", "--budget", "0.001", "--output", &path(&out)],
    ] {
        for (variable, value, says) in &wrong {
            fs::write(&out, "# mine\n").expect("a file");
            let (code, lines) = refused(args, variable, value);
            assert_eq!(code, Some(2), "{args:?} with {variable}={value}: {lines:?}");
            assert_eq!(lines.len(), 1, "{args:?} with {variable}={value}: {lines:?}");
            assert!(lines[0].starts_with("filch: ") && lines[0].contains(says), "{lines:?}");
            let kept = fs::read_to_string(&out).expect("still there");
            assert_eq!(kept, "# mine\n", "tune writes nothing before it may start");
        }
    }
}
