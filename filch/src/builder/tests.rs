use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use super::Builder;
use crate::config::hooks::{Hooks, LostWrite, PanicInfo, Role, WorkerInfo};
use crate::{
    base::cpus::Machine,
    config::{Affinity, Config, Level},
    error::BuildError,
};

/// A machine with `cpus` in its mask and neither quota nor topology.
fn machine(cpus: usize) -> Machine {
    Machine::read(Path::new("/nonexistent"), (0..cpus).collect())
}

fn on(cpus: usize, builder: Builder) -> Config {
    builder.resolve_on(|_| None, &machine(cpus)).expect("a sensible configuration")
}

fn counts(config: &Config) -> (usize, usize) {
    (config.io_workers, config.compute_workers)
}

#[test]
fn automatic_counts_are_all_usable_cpus_on_any_machine() {
    for cpus in [1, 2, 3, 33, 512] {
        assert_eq!(counts(&on(cpus, Builder::new())), (cpus, cpus));
    }
    assert_eq!(counts(&on(600, Builder::new())), (512, 512), "cut to max_workers");
}

#[test]
fn caller_that_works_costs_one_compute_worker_but_never_the_last() {
    for (cpus, compute) in [(1, 1), (2, 1), (8, 7)] {
        let config = on(cpus, Builder::new().caller_works(true));
        assert_eq!(counts(&config), (cpus, compute));
    }
    let explicit = on(8, Builder::new().compute_workers(4).caller_works(true));
    assert_eq!(explicit.compute_workers, 4);
}

#[test]
fn caller_is_subtracted_before_the_cut() {
    let config = on(8, Builder::new().caller_works(true).max_workers(4));
    assert_eq!(config.compute_workers, 4);
}

#[test]
fn role_confined_to_cpus_gets_no_more_automatic_workers() {
    let builder = Builder::new().io_affinity(Affinity::Cpus(vec![1, 2, 99]));
    assert_eq!(counts(&on(8, builder)), (2, 8), "CPU 99 is not ours");
}

#[test]
fn single_thread_has_one_worker_of_each_role() {
    let config = on(8, Builder::new().single_thread(true));
    assert_eq!(counts(&config), (1, 1));
    assert!(config.single_thread);
}

#[test]
fn environment_stands_between_program_and_machine() {
    let env = |name: &str| match name {
        "FILCH_WORKERS" => Some("3".into()),
        "FILCH_MAX_WORKERS" => Some("2".into()),
        "FILCH_THREAD_NAME" => Some("ops".into()),
        _ => None,
    };
    let resolve = |builder: Builder| builder.resolve_on(env, &machine(8)).expect("sensible");

    assert_eq!(counts(&resolve(Builder::new())), (2, 2), "cut to FILCH_MAX_WORKERS");
    assert_eq!(counts(&resolve(Builder::new().max_workers(9))), (3, 3));
    assert_eq!(counts(&resolve(Builder::new().max_workers(9).io_workers(7))), (7, 3));
    assert_eq!(counts(&resolve(Builder::new().config(Config::default()))), (3, 3));
    assert_eq!(resolve(Builder::new()).thread_name, "ops");
    assert_eq!(resolve(Builder::new().thread_name("filch")).thread_name, "filch");
    assert_eq!(resolve(Builder::new().config(Config::default())).thread_name, "filch");
}

#[test]
fn maximum_from_the_environment_spares_counts_of_the_program() {
    let env = |name: &str| (name == "FILCH_MAX_WORKERS").then(|| "2".into());
    let resolve = |builder: Builder| builder.resolve_on(env, &machine(8)).expect("sensible");

    let config = resolve(Builder::new().io_workers(5));
    assert_eq!(counts(&config), (5, 2));
    assert_eq!(config.max_workers, 5, "no count may exceed the resolved maximum");
    assert_eq!(counts(&resolve(Builder::new().io_workers(5).max_workers(3))), (3, 3));
}

#[test]
fn bad_parameter_and_bad_variable_are_told_apart() {
    let error = Builder::new().poll_budget(0).resolve_on(|_| None, &machine(1)).unwrap_err();
    assert!(matches!(error, BuildError::Config(e) if e.field() == "poll_budget"));
    let env = |name: &str| (name == "FILCH_SEED").then(|| "?".into());
    let error = Builder::new().seed(1).resolve_on(env, &machine(1)).unwrap_err();
    assert!(matches!(error, BuildError::Environment { variable: "FILCH_SEED", .. }));
}

#[test]
fn config_replaces_parameters_and_keeps_hooks() {
    let builder = Builder::new().io_level(Level::Urgent).on_panic(drop).config(Config::default());
    assert!(builder.hooks.on_panic.is_some());
    assert_eq!(on(1, builder).io_level, Level::Normal);
}

#[test]
fn hooks_hear_what_they_are_told_through_a_clone() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (starts, stops) = (heard.clone(), heard.clone());
    let (panics, losses) = (heard.clone(), heard.clone());
    let builder = Builder::new()
        .on_thread_start(move |w| starts.lock().unwrap().push(format!("start {}", w.role)))
        .on_thread_stop(move |w| stops.lock().unwrap().push(format!("stop {}", w.index)))
        .on_panic(move |p| panics.lock().unwrap().push(p.message().to_owned()))
        .on_lost_write(move |lost| losses.lock().unwrap().push(lost.to_string()));
    let Hooks { on_thread_start, on_thread_stop, on_panic, on_lost_write } = builder.hooks.clone();

    let worker = WorkerInfo { index: 4, role: Role::Compute };
    (on_thread_start.expect("set").call)(worker);
    (on_thread_stop.expect("set").call)(worker);
    let on_panic = on_panic.expect("set");
    for payload in [
        Box::new("static") as Box<dyn std::any::Any + Send>,
        Box::new("owned".to_owned()),
        Box::new(5),
    ] {
        let spawned_at = std::panic::Location::caller();
        on_panic(PanicInfo { payload, task: 1, name: None, spawned_at });
    }
    let (error, path) = (std::io::ErrorKind::StorageFull.into(), Some("/a/b".into()));
    on_lost_write.expect("set")(LostWrite { error, offset: Some(7), len: 3, path });
    let expected = [
        "start cpu",
        "stop 4",
        "static",
        "owned",
        "a payload that is no text",
        "a write of 3 bytes at offset 7 to /a/b was lost: no storage space",
    ];
    assert_eq!(*heard.lock().unwrap(), expected);
}

/// A file in the system's place for such things, gone when the test is.
struct TempFile(std::path::PathBuf);

impl TempFile {
    fn with(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("filch-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("the system has a place for temporary files");
        Self(path)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn program_wins_over_variables_and_these_over_the_file_that_one_of_them_names() {
    let text = "io_workers = 5\ncompute_workers = 6\nslot_streak = 7\nthread_name = file\nring_capacity = 64";
    let file = TempFile::with("layers", text);
    let lookup = |variable: &str| match variable {
        "FILCH_CONFIG" => Some(file.0.clone().into()),
        "FILCH_COMPUTE_WORKERS" => Some("3".into()),
        "FILCH_THREAD_NAME" => Some("ops".into()),
        _ => None,
    };
    let builder = Builder::new().slot_streak(3);
    let config = builder.resolve_on(lookup, &machine(2)).expect("a sensible configuration");
    assert_eq!((config.io_workers, config.compute_workers), (5, 3));
    assert_eq!(
        (config.slot_streak, config.ring_capacity),
        (3, 64),
        "3 was chosen, if it is the default"
    );
    assert_eq!(config.thread_name, "ops");
}

#[test]
fn a_file_that_is_missing_malformed_or_nonsense_is_an_error() {
    let missing = Builder::from_file("/nonexistent/filch.conf").unwrap_err();
    assert!(
        missing.to_string().starts_with("invalid configuration file /nonexistent/filch.conf: ")
    );
    let file = TempFile::with("malformed", "io_workers = 2\nring_capacity = x\n");
    let lookup = |variable: &str| (variable == "FILCH_CONFIG").then(|| file.0.clone().into());
    let error = Builder::new().resolve_on(lookup, &machine(2)).unwrap_err();
    assert!(error.to_string().contains("line 2: `ring_capacity`: \"x\""), "{error}");
    let file = TempFile::with("nonsense", "ring_capacity = 3\n");
    let error = Builder::from_file(&file.0).expect("well-formed").resolve().unwrap_err();
    assert!(matches!(error, BuildError::Config(e) if e.field() == "ring_capacity"));
}
