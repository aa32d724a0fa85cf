//! An idle runtime sleeps: no polling, no timeouts, whatever it did before.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use filch::{Builder, Runtime};

use crate::kit::{Gate, eventually, in_child};

/// The processor time of this process.
fn process_cpu_time() -> Duration {
    // SAFETY: all zeroes is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to an rusage of ours.
    let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    assert_eq!(result, 0);
    let span = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    span(usage.ru_utime) + span(usage.ru_stime)
}

/// How often each thread of this process's runtimes went to sleep so far, by name and number: a
/// thread that wakes for a moment shows here, and one that spins in the processor time.
fn sleeps() -> BTreeMap<(String, String), u64> {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux lists its threads");
    let sleeps = tasks.filter_map(|task| {
        let task = task.expect("Linux lists its threads");
        // A thread may end between the listing and the reading.
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("{name} of a thread")).trim().to_owned()
        };
        let count = field("voluntary_ctxt_switches:").parse().expect("a count");
        Some(((field("Name:"), task.file_name().to_string_lossy().into_owned()), count))
    });
    sleeps.filter(|((name, _), _)| name.starts_with("filch")).collect()
}

/// How often the sentry of a resting runtime wakes to give memory back, over all time.
const TRIMS: u64 = 2;

/// In two seconds none of the runtime's `threads` wakes up, but for the sentry, which gives memory back
/// twice at most; and each second costs less than a millisecond. The two seconds are the measure, they
/// order nothing.
#[track_caller]
fn assert_idle(runtime: &Runtime, threads: usize) {
    eventually("all sleep, and the spares have gone", || {
        runtime.snapshot().lanes.iter().all(|lane| lane.awake == 0 && lane.stuck == 0)
            && sleeps().len() == threads
    });
    // The sentry notices within some periods that it is not needed.
    std::thread::sleep(Duration::from_millis(100));
    let parks = runtime.snapshot().total().parks;
    let before = sleeps();
    let cpu_before = process_cpu_time();
    std::thread::sleep(Duration::from_secs(2));
    let spent = process_cpu_time() - cpu_before;
    let after = sleeps();
    assert!(before.keys().eq(after.keys()), "threads came or went: {before:?} {after:?}");
    for ((thread, before), after) in before.iter().zip(after.values()) {
        let allowed = if thread.0 == "filch-sentry" { TRIMS } else { 0 };
        assert!(after - before <= allowed, "{thread:?} woke up {} times", after - before);
    }
    assert!(spent < Duration::from_millis(2), "two idle seconds cost {spent:?}");
    assert_eq!(runtime.snapshot().total().parks, parks, "a worker woke up");
}

#[test]
fn a_fresh_runtime_uses_no_processor_time() {
    in_child("idle_cpu::a_fresh_runtime_uses_no_processor_time", &[], || {
        assert_idle(&Builder::new().workers(4).build().unwrap(), 4 + 4 + 1);
    });
}

#[test]
fn a_runtime_that_has_worked_uses_no_processor_time() {
    in_child("idle_cpu::a_runtime_that_has_worked_uses_no_processor_time", &[], || {
        let keep_alive = Duration::from_millis(5);
        let runtime = Builder::new().workers(2).spare_keep_alive(keep_alive).build().unwrap();
        let idlers: Vec<_> =
            (0..100).map(|_| runtime.spawn(std::future::pending::<()>())).collect();
        // Spares of both lanes come, and stand by.
        let (gate, opener) = Gate::new();
        let blockers: Vec<_> = (0..3)
            .map(|_| {
                let gate = gate.clone();
                runtime.spawn(async move { gate.pass() })
            })
            .collect();
        assert_eq!(runtime.spawn_fn(|| filch::spawn(async { 1 }).wait()).wait(), 1);
        drop(opener);
        filch::wait_all(blockers);
        assert_idle(&runtime, 2 + 2 + 1);
        drop(idlers);
    });
}

#[test]
fn a_single_thread_uses_no_processor_time() {
    in_child("idle_cpu::a_single_thread_uses_no_processor_time", &[], || {
        let runtime = Builder::new().single_thread(true).build().unwrap();
        runtime.block_on(async { filch::spawn(async {}).await });
        // One worker and the sentry.
        assert_idle(&runtime, 2);
    });
}
