//! An idle runtime sleeps: no polling, no timeouts, whatever it did before.

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

/// Less than a millisecond in each second, and no worker wakes up. Two seconds are the measure,
/// they order nothing.
#[track_caller]
fn assert_idle(runtime: &Runtime) {
    eventually("all sleep", || {
        runtime.snapshot().lanes.iter().all(|lane| lane.awake == 0 && lane.stuck == 0)
    });
    // The sentry notices within some periods that it is not needed.
    std::thread::sleep(Duration::from_millis(100));
    let parks = runtime.snapshot().total().parks;
    let before = process_cpu_time();
    std::thread::sleep(Duration::from_secs(2));
    let spent = process_cpu_time() - before;
    assert!(spent < Duration::from_millis(2), "two idle seconds cost {spent:?}");
    assert_eq!(runtime.snapshot().total().parks, parks, "a worker woke up");
}

#[test]
fn a_fresh_runtime_uses_no_processor_time() {
    in_child("idle_cpu::a_fresh_runtime_uses_no_processor_time", &[], || {
        assert_idle(&Builder::new().workers(4).build().unwrap());
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
        assert_idle(&runtime);
        drop(idlers);
    });
}

#[test]
fn a_single_thread_uses_no_processor_time() {
    in_child("idle_cpu::a_single_thread_uses_no_processor_time", &[], || {
        let runtime = Builder::new().single_thread(true).build().unwrap();
        runtime.block_on(async { filch::spawn(async {}).await });
        assert_idle(&runtime);
    });
}
