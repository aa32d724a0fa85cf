//! The simulator: what a seed decides, what it finds, and what it says.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use filch::testkit::{
    Condvar, FailureKind, Mutex, RwLock, Sim, now, random, sleep, spawn_thread, switch_point,
};

use crate::kit::in_child;
use crate::support::panic_of;
use crate::watchdog::watched;

/// A bit of everything: both lanes, structure, foreign threads, locks, time, a wait that brings a
/// spare, a detached task that is dropped at the end.
fn mixed() -> usize {
    let sum = Arc::new(Mutex::new(0));
    let count = {
        let sum = sum.clone();
        move |n: usize| *sum.lock().unwrap() += n
    };
    filch::spawn(std::future::pending::<()>()).detach();
    let threads = [1, 2].map(|i| {
        let count = count.clone();
        spawn_thread(move || {
            sleep(Duration::from_millis(random() % 20));
            filch::spawn(async move { count(i) }).wait();
        })
    });
    filch::block_on(async {
        let jobs: Vec<_> = (0..4)
            .map(|i| {
                let count = count.clone();
                filch::spawn_fn(move || {
                    let (a, b) = filch::join(|| i, || filch::spawn(async move { i }).wait());
                    count(a + b);
                })
            })
            .collect();
        for job in jobs {
            filch::yield_now().await;
            job.await;
        }
    });
    filch::scope(|s| (0..3).for_each(|_| s.spawn(|_| count(1))));
    let _ = threads.map(|thread| thread.join().unwrap());
    let sum = *sum.lock().unwrap();
    assert_eq!(sum, 3 + 12 + 3);
    sum
}

#[test]
fn same_seed_gives_the_same_run_and_others_give_others() {
    watched(|_| {
        let trace = |seed| Sim::new().seed(seed).try_run(mixed).unwrap().trace;
        let first: Vec<u64> = (0..100).map(trace).collect();
        let again: Vec<u64> = (0..100).rev().map(trace).collect();
        assert!(first.iter().eq(again.iter().rev()));
        assert_eq!(first.iter().collect::<HashSet<_>>().len(), 100);
    });
}

#[test]
fn simulations_beside_each_other_do_not_disturb() {
    watched(|_| {
        let traces = || (0..20).map(|seed| Sim::new().seed(seed).try_run(mixed).unwrap().trace);
        let expected: Vec<u64> = traces().collect();
        let threads = [(); 3].map(|()| std::thread::spawn(move || traces().collect::<Vec<_>>()));
        for thread in threads {
            assert_eq!(thread.join().unwrap(), expected);
        }
    });
}

#[test]
fn every_configuration_runs_the_same_program() {
    watched(|_| {
        let mut small = filch::Config::default();
        (small.io_workers, small.compute_workers, small.ring_capacity) = (2, 2, 2);
        for sim in [
            Sim::new().single_thread(),
            Sim::new().workers(1),
            Sim::new().io_workers(1).compute_workers(4),
            Sim::new().config(small),
        ] {
            (0..25).for_each(|seed| assert_eq!(sim.clone().seed(seed).run(mixed), 18));
        }
    });
}

#[test]
fn runtime_of_the_programs_own_takes_part() {
    watched(|_| {
        let program = || {
            let begin = now();
            let runtime = filch::Builder::new().workers(1).build().unwrap();
            let (a, b) = (runtime.spawn(async { 1 }), runtime.spawn_fn(|| 2));
            assert_eq!(filch::wait((a, b)), (1, 2));
            drop(runtime);
            now() - begin
        };
        let run = |seed| Sim::new().seed(seed).try_run(program).unwrap();
        (0..20).for_each(|seed| assert_eq!(run(seed), run(seed)));
    });
}

/// A flag that tasks await. `second_look` is what makes it right.
#[derive(Default)]
struct Flag {
    set: AtomicBool,
    waiter: StdMutex<Option<Waker>>,
}

impl Flag {
    fn set(&self) {
        self.set.store(true, SeqCst);
        switch_point();
        let waiter = self.waiter.lock().unwrap().take();
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }

    async fn wait(&self, second_look: bool) {
        poll_fn(|cx| {
            if self.set.load(SeqCst) {
                return Poll::Ready(());
            }
            switch_point();
            *self.waiter.lock().unwrap() = Some(cx.waker().clone());
            match second_look && self.set.load(SeqCst) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

fn wait_for_a_flag(second_look: bool) {
    let flag = Arc::new(Flag::default());
    let setter = flag.clone();
    let waiter =
        filch::task().name("the waiter").spawn(async move { flag.wait(second_look).await });
    drop(filch::spawn_fn(move || setter.set()));
    waiter.wait();
}

#[test]
fn lost_wake_up_is_found_and_the_waiting_task_is_named() {
    watched(|_| {
        let failure = Sim::new().find(0..2000, || wait_for_a_flag(false)).expect("it is there");
        assert_eq!(failure.kind(), FailureKind::Deadlock);
        let text = failure.to_string();
        assert!(text.contains("\"the waiter\" spawned at "), "{text}");
        assert!(text.contains("tests/it/sim.rs") && text.contains(", waiting,"), "{text}");
        assert!(text.contains(&format!("FILCH_SIM_SEED={}", failure.seed())), "{text}");
        // The seed replays it exactly.
        let replay = || Sim::new().seed(failure.seed()).try_run(|| wait_for_a_flag(false));
        assert_eq!(replay().unwrap_err().to_string(), text);
        assert_eq!(replay().unwrap_err().to_string(), text);
        // The right one is clean.
        Sim::new().check(0..300, || wait_for_a_flag(true));
    });
}

/// Runs something once; `atomic` is what makes it right.
fn run_once(atomic: bool) {
    let (done, runs) = (AtomicBool::new(false), AtomicUsize::new(0));
    let once = || {
        let first = if atomic {
            !done.swap(true, SeqCst)
        } else {
            let seen = done.load(SeqCst);
            switch_point();
            done.store(true, SeqCst);
            !seen
        };
        if first {
            runs.fetch_add(1, SeqCst);
        }
    };
    filch::join(once, once);
    assert_eq!(runs.into_inner(), 1, "it ran twice");
}

#[test]
fn double_run_is_found() {
    watched(|_| {
        let failure = Sim::new().find(0..2000, || run_once(false)).expect("it is there");
        assert_eq!(failure.kind(), FailureKind::Panic);
        assert!(failure.to_string().contains("it ran twice"), "{failure}");
        Sim::new().check(0..300, || run_once(true));
    });
}

#[test]
fn locks_in_opposite_order_are_found_and_their_holders_named() {
    watched(|_| {
        let failure = Sim::new().find(0..2000, || {
            let (a, b) = (Mutex::new(()), Mutex::new(()));
            filch::join(
                || {
                    let _a = a.lock().unwrap();
                    let _b = b.lock().unwrap();
                },
                || {
                    let _b = b.lock().unwrap();
                    let _a = a.lock().unwrap();
                },
            );
        });
        let failure = failure.expect("it is there");
        assert_eq!(failure.kind(), FailureKind::Deadlock);
        let text = failure.to_string();
        assert_eq!(text.matches("waits for a lock at").count(), 2, "{text}");
        assert_eq!(text.matches(", held by ").count(), 2, "{text}");
    });
}

#[test]
fn std_lock_held_across_a_switch_is_reported_as_such() {
    watched(|_| {
        let failure = Sim::new().find(0..2000, || {
            let lock = StdMutex::new(());
            let hold = || {
                let _guard = lock.lock().unwrap();
                switch_point();
            };
            filch::join(hold, hold);
        });
        let failure = failure.expect("it is there");
        assert_eq!(failure.kind(), FailureKind::Blocked);
        let text = failure.to_string();
        assert!(text.contains("blocks outside of filch: a std lock held across"), "{text}");
    });
}

#[test]
fn worker_that_sleeps_an_hour_is_replaced_in_virtual_time() {
    watched(|_| {
        Sim::new().io_workers(1).check(0..50, || {
            let begin = now();
            let sleeper = filch::spawn(async { sleep(Duration::from_secs(3600)) });
            let others: Vec<_> = (0..3).map(|i| filch::spawn(async move { i })).collect();
            assert_eq!(filch::wait(others), [0, 1, 2]);
            assert!(now() - begin < Duration::from_secs(1));
            sleeper.wait();
            let passed = now() - begin;
            assert!((3600..3602).contains(&passed.as_secs()), "{passed:?}");
        });
    });
}

#[test]
fn sleepers_wake_in_the_order_of_their_deadlines() {
    watched(|_| {
        Sim::new().check(0..50, || {
            let order = Arc::new(StdMutex::new(Vec::new()));
            let threads = [300, 100, 200].map(|time| {
                let order = order.clone();
                spawn_thread(move || {
                    sleep(Duration::from_secs(time));
                    order.lock().unwrap().push(time);
                })
            });
            let _ = threads.map(|thread| thread.join().unwrap());
            assert_eq!(*order.lock().unwrap(), [100, 200, 300]);
        });
    });
}

#[test]
fn readers_share_and_writers_do_not() {
    watched(|_| {
        let most_readers = Arc::new(AtomicUsize::new(0));
        let most = most_readers.clone();
        Sim::new().check(0..100, move || {
            let (lock, readers) = (RwLock::new(0), AtomicUsize::new(0));
            let read = || {
                let _guard = lock.read().unwrap();
                most.fetch_max(readers.fetch_add(1, SeqCst) + 1, SeqCst);
                switch_point();
                readers.fetch_sub(1, SeqCst);
            };
            let write = || {
                let mut guard = lock.write().unwrap();
                let seen = *guard;
                switch_point();
                assert_eq!(readers.load(SeqCst), 0);
                *guard = seen + 1;
            };
            filch::join(|| filch::join(read, write), || filch::join(write, read));
            assert_eq!(lock.into_inner().unwrap(), 2);
        });
        assert!(most_readers.load(SeqCst) > 1, "no seed let two read at a time");
    });
}

#[test]
fn notify_one_that_reaches_the_wrong_waiter_is_found() {
    watched(|_| {
        let failure = Sim::new().find(0..500, || {
            let place = Arc::new((Mutex::new([false; 2]), Condvar::new()));
            let waiters = [0, 1].map(|me| {
                let place = place.clone();
                spawn_thread(move || {
                    let flags = place.0.lock().unwrap();
                    drop(place.1.wait_while(flags, |flags| !flags[me]).unwrap());
                })
            });
            for flag in 0..2 {
                place.0.lock().unwrap()[flag] = true;
                place.1.notify_one();
            }
            let _ = waiters.map(|waiter| waiter.join().unwrap());
        });
        let failure = failure.expect("it is there");
        assert_eq!(failure.kind(), FailureKind::Deadlock);
        assert!(failure.to_string().contains("waits for a condition at"), "{failure}");
    });
}

#[test]
fn poisoned_lock_says_so_and_a_panic_of_a_thread_reaches_its_join() {
    watched(|_| {
        Sim::new().check(0..20, || {
            let lock = Arc::new(Mutex::new(()));
            let other = lock.clone();
            let thread = spawn_thread(move || {
                let _guard = other.lock();
                panic!("on purpose");
            });
            assert!(thread.join().is_err());
            assert!(lock.lock().is_err());
        });
    });
}

#[test]
fn group_is_not_finished_before_a_thread_that_it_started() {
    watched(|_| {
        Sim::new().check(0..50, || {
            let ended = Arc::new(AtomicBool::new(false));
            let end = ended.clone();
            filch::block_on_fn(move || {
                drop(spawn_thread(move || {
                    sleep(Duration::from_secs(1));
                    let last = filch::spawn_fn(move || end.store(true, SeqCst));
                    drop(last);
                }));
            });
            assert!(ended.load(SeqCst));
        });
    });
}

#[test]
fn failing_check_names_its_seed_and_says_how_to_replay_it() {
    watched(|_| {
        let text = panic_of(|| {
            Sim::new().check(0..1000, || assert_ne!(random() % 8, 0, "unlucky"));
        });
        assert!(text.contains("unlucky") && text.contains("FILCH_SIM_SEED="), "{text}");
        let text = panic_of(|| Sim::new().check(0..10, || Err::<(), _>("sorry")));
        assert!(text.contains("seed 0: the program returned an error"), "{text}");
    });
}

#[test]
fn seed_of_the_environment_is_the_only_one_that_runs() {
    let test = "sim::seed_of_the_environment_is_the_only_one_that_runs";
    in_child(test, &[("FILCH_SIM_SEED", "5")], || {
        let draws = Arc::new(StdMutex::new(Vec::new()));
        let sink = draws.clone();
        Sim::new().check(0..100, move || sink.lock().unwrap().push(random()));
        assert_eq!(*draws.lock().unwrap(), [Sim::new().seed(5).run(random)]);
    });
}

#[test]
fn simulation_inside_of_a_simulation_is_refused() {
    watched(|_| {
        let failure = Sim::new().find(0..1, || Sim::new().run(|| ())).unwrap();
        assert!(failure.to_string().contains("a simulation inside of a simulation"));
    });
}

#[test]
fn program_that_waits_for_itself_at_the_end_is_a_deadlock() {
    watched(|_| {
        let failure = Sim::new().find(0..1, || {
            let lock = Mutex::new(());
            let _first = lock.lock().unwrap();
            filch::spawn(async {}).wait();
            let _second = lock.lock().unwrap();
        });
        let text = failure.unwrap().to_string();
        assert!(text.contains("held by program since"), "{text}");
    });
}

#[filch::test(sim, seeds = 50)]
async fn macro_of_an_async_function() -> Result<(), String> {
    let value = filch::spawn(async { 3 }).await;
    if value == 3 { Ok(()) } else { Err("not three".to_owned()) }
}

#[filch::test(sim, seeds = 50, workers = 3)]
fn macro_of_a_plain_function() {
    assert_eq!(filch::Handle::current().config().compute_workers, 3);
    assert_eq!(filch::join(|| 1, || 2), (1, 2));
}

#[filch::test(sim, single_thread)]
#[should_panic(expected = "on purpose")]
async fn macro_of_a_function_that_panics() {
    filch::spawn(async { panic!("on purpose") }).await
}

#[test]
fn run_that_kills_the_process_names_its_seed() {
    let test = "sim::run_that_kills_the_process_names_its_seed";
    let text = panic_of(|| {
        in_child(test, &[("FILCH_SIM_SEED", "1234567890")], || {
            Sim::new().check(0..1, || filch::spawn_fn(|| std::process::abort()).wait());
        });
    });
    assert!(text.contains("simulation with seed 1234567890;"), "{text}");
}
