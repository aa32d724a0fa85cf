//! Panics in the halves of a join: both halves are called, and the first panic in order goes on.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use filch::par::{self, prelude::*};
use filch::{Builder, join, join_all, join_many};

use crate::kit::receive;
use crate::watchdog::{Watchdog, watched};

/// The message of what `f` panics with, if it does.
fn message(f: impl FnOnce()) -> Option<String> {
    let payload = catch_unwind(AssertUnwindSafe(f)).err()?;
    Some(payload.downcast_ref::<String>().expect("a message of `fall`").clone())
}

/// Panics without a word on the terminal.
fn fall(message: impl Into<String>) -> ! {
    resume_unwind(Box::new(message.into()))
}

/// On every kind of thread: with one worker and two, lent no deque, and outside of any runtime.
fn anywhere(dog: &Watchdog, test: impl Fn() + Clone + Send + 'static) {
    for workers in [1, 2] {
        dog.rig(workers).everywhere(test.clone());
    }
    dog.rig_of(Builder::new().workers(1).guest_threads(0)).everywhere(test.clone());
    let single = Builder::new().single_thread(true).build().expect("a runtime");
    single.block_on_fn(test.clone());
    test();
}

#[test]
fn both_halves_are_called_whichever_panics() {
    watched(|dog| {
        anywhere(dog, || {
            for (a_panics, b_panics, expected) in [
                (false, false, None),
                (true, false, Some("first")),
                (false, true, Some("second")),
                (true, true, Some("first")),
            ] {
                let called = [AtomicUsize::new(0), AtomicUsize::new(0)];
                let half = |n: usize, panics: bool, name: &'static str| {
                    assert!(!std::thread::panicking(), "the {name} half runs on its own");
                    called[n].fetch_add(1, Ordering::SeqCst);
                    if panics {
                        fall(name);
                    }
                };
                let seen = message(|| {
                    join(|| half(0, a_panics, "first"), || half(1, b_panics, "second"));
                });
                assert_eq!(seen.as_deref(), expected);
                assert_eq!(called.map(AtomicUsize::into_inner), [1, 1]);
            }
        });
    });
}

#[test]
fn a_stolen_half_is_waited_for_and_the_panic_of_the_first_goes_on() {
    watched(|dog| {
        dog.rig(2).everywhere(|| {
            for stolen_panics in [false, true] {
                let ended = AtomicBool::new(false);
                let seen = message(|| {
                    let (started, start) = mpsc::channel();
                    join(
                        move || {
                            // Panics only once a thief has begun the other half.
                            receive(&start, "a thief");
                            fall("first")
                        },
                        || {
                            started.send(()).expect("the first half waits");
                            join(|| (), || ended.store(true, Ordering::SeqCst));
                            if stolen_panics {
                                fall("second");
                            }
                        },
                    );
                });
                assert_eq!(seen.as_deref(), Some("first"));
                assert!(ended.into_inner(), "the stolen half ended before the panic went on");
            }
        });
    });
}

/// Calls leaf number `at`, or forks.
fn tree(leaves: std::ops::Range<usize>, leaf: &(impl Fn(usize) + Sync)) {
    match leaves.len() {
        1 => leaf(leaves.start),
        len => {
            let middle = leaves.start + len / 2;
            join(|| tree(leaves.start..middle, leaf), || tree(middle..leaves.end, leaf));
        }
    }
}

#[test]
fn every_leaf_of_a_tree_is_called_and_the_leftmost_panic_goes_on() {
    watched(|dog| {
        anywhere(dog, || {
            for bad in [&[0][..], &[63], &[31, 32], &[5, 40, 62]] {
                let calls = AtomicUsize::new(0);
                let leaf = |n: usize| {
                    calls.fetch_add(1, Ordering::SeqCst);
                    if bad.contains(&n) {
                        fall(n.to_string());
                    }
                };
                assert_eq!(message(|| tree(0..64, &leaf)), Some(bad[0].to_string()));
                assert_eq!(calls.into_inner(), 64);
            }
        });
    });
}

#[test]
fn every_closure_of_a_tuple_and_of_a_list_is_called() {
    watched(|dog| {
        anywhere(dog, || {
            let calls = AtomicUsize::new(0);
            let call = |n: usize| {
                calls.fetch_add(1, Ordering::SeqCst);
                if n == 1 || n == 6 {
                    fall(n.to_string());
                }
            };
            let three = message(|| _ = join_many((|| call(0), || call(1), || call(2))));
            assert_eq!((three.as_deref(), calls.swap(0, Ordering::SeqCst)), (Some("1"), 3));
            let eight = message(|| {
                join_many((
                    || call(0),
                    || call(1),
                    || call(2),
                    || call(3),
                    || call(4),
                    || call(5),
                    || call(6),
                    || call(7),
                ));
            });
            assert_eq!((eight.as_deref(), calls.swap(0, Ordering::SeqCst)), (Some("1"), 8));
            let list = message(|| _ = join_all((0..50).map(|n| move || call(n))));
            assert_eq!((list.as_deref(), calls.swap(0, Ordering::SeqCst)), (Some("1"), 50));
        });
    });
}

#[test]
fn a_loop_runs_its_other_pieces_to_their_ends() {
    watched(|dog| {
        anywhere(dog, || {
            let calls = AtomicUsize::new(0);
            let each = (0..100).into_par_iter().partition_by(par::dynamic(1));
            let seen = message(|| {
                each.for_each(|n| {
                    calls.fetch_add(1, Ordering::SeqCst);
                    if n == 31 || n == 77 {
                        fall(n.to_string());
                    }
                });
            });
            assert_eq!((seen.as_deref(), calls.into_inner()), (Some("31"), 100));
        });
    });
}

#[test]
fn a_second_half_that_panics_after_the_first_poisons_its_lock() {
    watched(|dog| {
        anywhere(dog, || {
            let lock = Mutex::new(0);
            let second = || {
                let _held = lock.lock().expect("no panic yet");
                fall("second")
            };
            let seen = message(|| _ = join(|| -> () { fall("first") }, || -> () { second() }));
            assert_eq!(seen.as_deref(), Some("first"));
            assert!(lock.is_poisoned(), "the half did not run while another panic unwound");
        });
    });
}

/// Panics when it is dropped, on a thread that does not unwind.
struct Falls;

impl Drop for Falls {
    fn drop(&mut self) {
        assert!(!std::thread::panicking(), "dropped while another panic unwinds");
        fall("drop");
    }
}

#[test]
fn what_a_second_half_leaves_may_panic_when_it_is_dropped() {
    watched(|dog| {
        anywhere(dog, || {
            let seen = message(|| _ = join(|| -> () { fall("first") }, || Falls));
            assert_eq!(seen.as_deref(), Some("first"));
        });
    });
}

#[test]
fn what_a_first_half_leaves_may_panic_when_it_is_dropped() {
    watched(|dog| {
        anywhere(dog, || {
            let seen = message(|| _ = join(|| Falls, || -> () { fall("second") }));
            assert_eq!(seen.as_deref(), Some("second"));
            // Found by a thief or not, below other entries or on top.
            let seen = message(|| {
                join(
                    || {
                        filch::spawn_fn(|| ()).detach();
                        Falls
                    },
                    || -> () { fall("second") },
                );
            });
            assert_eq!(seen.as_deref(), Some("second"));
        });
    });
}

#[test]
fn what_a_first_half_leaves_may_panic_after_a_stolen_half_has() {
    watched(|dog| {
        dog.rig(2).everywhere(|| {
            let seen = message(|| {
                let (started, start) = mpsc::channel();
                join(
                    move || {
                        receive(&start, "a thief");
                        Falls
                    },
                    || {
                        started.send(()).expect("the first half waits");
                        fall("second")
                    },
                );
            });
            assert_eq!(seen.as_deref(), Some("second"));
        });
    });
}

#[test]
fn a_panic_of_many_goes_on_though_the_values_of_others_panic_in_their_drops() {
    struct Falls;

    impl Drop for Falls {
        fn drop(&mut self) {
            fall("value");
        }
    }

    watched(|dog| {
        anywhere(dog, || {
            for panics in [0, 3, 6] {
                let make = |i| move || if i == panics { fall("closure") } else { Falls };
                let message = message(|| std::mem::forget(join_all((0..7).map(make))));
                assert_eq!(message.as_deref(), Some("closure"));
            }
        });
    });
}
