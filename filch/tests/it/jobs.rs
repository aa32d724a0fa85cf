//! Jobs with children: who waits for whom, what is dropped when, and what is refused.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use filch::{Job, Role, Shutdown};

use crate::support::{Drops, Gate, panic_of, role, until};
use crate::watchdog::watched;

mod loops;

/// A number that jobs add to.
#[derive(Clone, Default)]
struct Tally(Arc<AtomicUsize>);

impl Tally {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn a_job_that_is_run_and_waited_for_has_run() {
    watched(|dog| {
        dog.rig(2).everywhere(|| {
            let tally = Tally::default();
            let count = tally.clone();
            let job = Job::new(move |_| count.add());
            job.clone().run();
            job.wait();
            assert_eq!(tally.get(), 1);
            let count = tally.clone();
            Job::new(move |_| count.add()).run_and_wait();
            assert_eq!(tally.get(), 2);
        });
    });
}

#[test]
fn a_parent_ends_after_its_children_and_theirs() {
    watched(|dog| {
        dog.rig(2).everywhere(|| {
            let tally = Tally::default();
            let count = tally.clone();
            let parent = Job::new(move |job| {
                for _ in 0..10 {
                    let count = count.clone();
                    job.run_child(move |job| {
                        for _ in 0..10 {
                            let count = count.clone();
                            job.child(move |_| count.add()).run();
                        }
                        count.add();
                    });
                }
            });
            let waiter = parent.clone();
            parent.run();
            waiter.wait();
            assert!(waiter.is_finished());
            assert_eq!(tally.get(), 110);
        });
    });
}

#[test]
fn children_that_run_before_their_parent_are_joined_by_it() {
    watched(|dog| {
        dog.rig(2).everywhere(|| {
            let tally = Tally::default();
            let count = tally.clone();
            let parent = Job::new(move |_| count.add());
            let children: Vec<_> = (0..2)
                .map(|_| {
                    let count = tally.clone();
                    Job::child_of(&parent, move |_| count.add())
                })
                .collect();
            children.into_iter().for_each(Job::run);
            parent.run_and_wait();
            assert_eq!(tally.get(), 3);
        });
    });
}

#[test]
fn a_waiting_worker_runs_children_itself_when_it_is_the_only_one() {
    watched(|dog| {
        let builder = filch::Builder::new().workers(1).io_spares(0).compute_spares(0);
        let runtime = dog.rig_of(builder);
        let job = runtime.spawn_fn(|| {
            let tally = Tally::default();
            let count = tally.clone();
            Job::new(move |job| {
                for _ in 0..100 {
                    let count = count.clone();
                    job.run_child(move |job| job.run_child(move |_| count.add()));
                }
            })
            .run_and_wait();
            tally.get()
        });
        assert_eq!(runtime.block_on(job), 100);
    });
}

#[test]
fn a_lock_held_across_a_wait_is_not_wanted_by_what_the_waiter_runs() {
    watched(|dog| {
        let builder = filch::Builder::new().workers(1);
        let runtime = dog.rig_of(builder);
        let lock = Arc::new(Mutex::new(0));
        let stranger = lock.clone();
        let job = runtime.spawn_fn(move || {
            // Newer than the children, and no child: the waiter leaves it alone.
            let tree = Job::new(|job| (0..4).for_each(|_| job.run_child(|_| ())));
            tree.clone().run();
            drop(filch::spawn_fn({
                let lock = stranger.clone();
                move || *lock.lock().unwrap() += 1
            }));
            Job::new({
                let lock = stranger.clone();
                move |_| *lock.lock().unwrap() += 1
            })
            .run();
            let guard = stranger.lock().unwrap();
            tree.wait();
            drop(guard);
        });
        runtime.block_on(job);
        until(|| *lock.lock().unwrap() == 2);
    });
}

#[test]
fn a_child_that_is_never_run_holds_nobody_up() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let drops = Drops::default();
        runtime.block_on_fn(|| {
            let token = drops.token();
            let parent = Job::new(|_| ());
            let kept = parent.child(move |_| drop(token));
            parent.clone().run_and_wait();
            assert_eq!(drops.count(), 0);
            drop(kept);
            assert_eq!(drops.count(), 1, "dropped with its last handle");
        });
    });
}

#[test]
fn a_fresh_job_that_outlives_its_group_and_runtime_is_dropped_unrun() {
    watched(|dog| {
        let drops = Drops::default();
        for how in [Shutdown::Drain, Shutdown::Abort] {
            let runtime = dog.rig(1);
            let token = drops.token();
            let job = runtime.block_on_fn(|| {
                let parent = Job::new(|_| ());
                parent.child(move |_| drop(token))
            });
            let report = runtime.shutdown(how);
            assert!(report.unfinished.is_empty(), "{report}");
            drop(job);
        }
        assert_eq!(drops.count(), 2);
    });
}

#[test]
fn every_closure_is_dropped_once_however_it_ends() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let drops = Drops::default();
        let before = drops.clone();
        runtime.block_on_fn(move || {
            let drops = before;
            for round in 0..100 {
                let (a, b, c) = (drops.token(), drops.token(), drops.token());
                let parent = Job::new(move |job| {
                    let fresh = job.child(move |_| drop(b));
                    job.run_child(move |_| drop(c));
                    if round % 2 == 0 {
                        fresh.run();
                    }
                    drop(a);
                });
                parent.run_and_wait();
                assert_eq!(drops.count(), 3 * (round + 1));
            }
        });
        assert_eq!(runtime.tasks().len(), 0);
    });
}

#[test]
fn waiting_for_a_job_that_was_never_run_names_where_it_was_made() {
    let job = Job::new(|_| ());
    let text = panic_of(|| job.wait());
    assert!(text.contains("never run, made at") && text.contains("jobs.rs"), "{text}");
}

#[test]
fn running_a_job_twice_names_where_it_was_made() {
    watched(|dog| {
        dog.rig(1).everywhere(|| {
            let job = Job::new(|_| ());
            job.clone().run();
            let text = panic_of(|| job.clone().run());
            assert!(text.contains("run twice") && text.contains("jobs.rs"), "{text}");
            assert!(panic_of(|| job.clone().run_and_wait()).contains("run twice"));
            job.wait();
        });
    });
}

#[test]
fn two_threads_that_run_one_job_run_it_once() {
    watched(|dog| {
        let runtime = dog.rig(2);
        for _ in 0..200 {
            let tally = Tally::default();
            let count = tally.clone();
            let parent = runtime.block_on_fn(|| Job::new(|_| ()));
            let job = parent.child(move |_| count.add());
            let refused = std::thread::scope(|s| {
                let runs = [job.clone(), job.clone()].map(|job| {
                    let runtime = &runtime;
                    s.spawn(move || {
                        let run = || runtime.block_on_fn(|| job.run());
                        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err()
                    })
                });
                runs.map(|run| run.join().unwrap()).into_iter().filter(|&refused| refused).count()
            });
            job.wait();
            runtime.block_on_fn(|| parent.run_and_wait());
            assert_eq!((refused, tally.get()), (1, 1));
        }
    });
}

#[test]
fn a_child_of_a_parent_that_has_ended_is_refused_by_name() {
    watched(|dog| {
        dog.rig(1).everywhere(|| {
            let parent = Job::new(|_| ());
            let child = parent.child(|_| ());
            parent.clone().run_and_wait();
            let text = panic_of(|| child.run());
            assert!(text.contains("which has ended"), "{text}");
            assert!(panic_of(|| parent.run_child(|_| ())).contains("which has ended"));
        });
    });
}

#[test]
fn waiting_for_a_job_from_inside_of_it_is_refused() {
    watched(|dog| {
        dog.rig(1).everywhere(|| {
            let text = panic_of(|| Job::new(|job| job.wait()).run_and_wait());
            assert!(text.contains("from inside"), "{text}");
            let below = Job::new(|job| {
                let outer = job.clone();
                job.run_child(move |_| outer.wait());
            });
            let text = panic_of(|| below.run_and_wait());
            assert!(text.contains("from inside"), "{text}");
        });
    });
}

#[test]
fn a_panic_goes_to_whoever_waits_once() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.everywhere(|| {
            let job = Job::new(|_| panic!("mine"));
            job.clone().run();
            assert_eq!(panic_of(|| job.wait()), "mine");
            assert!(panic_of(|| job.wait()).contains("waited for before"));
        });
        assert!(runtime.drain().is_empty());
    });
}

#[test]
fn a_childs_panic_goes_to_whoever_waits_for_the_parent() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.everywhere(|| {
            let tally = Tally::default();
            let count = tally.clone();
            let job = Job::new(move |job| {
                job.run_child(|job| job.run_child(|_| panic!("deep")));
                job.run_child(move |_| count.add());
            });
            assert_eq!(panic_of(|| job.run_and_wait()), "deep");
            assert_eq!(tally.get(), 1, "siblings go on");
        });
        assert!(runtime.drain().is_empty());
    });
}

#[test]
fn a_panic_that_nobody_waits_for_goes_to_the_group() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let text = panic_of(|| runtime.block_on_fn(|| Job::new(|_| panic!("lost")).run()));
        assert_eq!(text, "lost");
        let text = panic_of(|| {
            runtime.block_on_fn(|| Job::new(|job| job.run_child(|_| panic!("deep"))).run());
        });
        assert_eq!(text, "deep");
        assert!(runtime.drain().is_empty());
    });
}

#[test]
fn a_panic_whose_handle_is_dropped_is_not_lost() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let job = runtime.block_on_fn(|| {
            let job = Job::new(|_| panic!("late"));
            job.clone().run();
            job
        });
        until(|| job.is_finished());
        drop(job);
        assert_eq!(runtime.drain(), ["late"]);
    });
}

#[test]
fn block_on_waits_for_jobs_that_were_run_in_it() {
    watched(|dog| {
        let runtime = dog.rig(2);
        for _ in 0..100 {
            let drops = Drops::default();
            runtime.block_on_fn(|| {
                let (a, b) = (drops.slow_token(), drops.slow_token());
                Job::new(move |job| {
                    job.child(move |_| drop(a)).run();
                    drop(b);
                })
                .run();
            });
            assert_eq!(drops.count(), 2);
        }
    });
}

#[test]
fn a_cancelled_group_drops_jobs_that_have_not_started() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let (drops, tally, gate) = (Drops::default(), Tally::default(), Gate::default());
        let (token, count, blocked) = (drops.token(), tally.clone(), gate.clone());
        let cancelled = Arc::new(Mutex::new(None));
        let seen = cancelled.clone();
        let result: Result<(), &str> = runtime.block_on(filch::group(async move |g| {
            drop(filch::spawn_fn({
                let gate = blocked.clone();
                move || gate.block()
            }));
            let job = Job::new(move |_| {
                count.add();
                drop(token);
            });
            job.clone().run();
            *seen.lock().unwrap() = Some(job);
            g.cancel();
            blocked.open();
            Err("cancelled")
        }));
        assert_eq!(result, Err("cancelled"));
        assert_eq!((drops.count(), tally.get()), (1, 0));
        let job = cancelled.lock().unwrap().take().unwrap();
        assert!(panic_of(|| job.wait()).contains("cancelled"));
    });
}

#[test]
fn an_aborted_runtime_drops_jobs_and_their_children() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let (drops, gate) = (Drops::default(), Gate::default());
        let started = Gate::default();
        let job = runtime.block_on_fn({
            let (drops, gate, started) = (drops.clone(), gate.clone(), started.clone());
            move || {
                let job = Job::new(move |job| {
                    for _ in 0..10 {
                        let token = drops.token();
                        job.run_child(move |_| drop(token));
                    }
                    started.open();
                    gate.block();
                });
                // In the runtime's own group: the abort, not this block, ends it.
                let keep = job.clone();
                drop(filch::Handle::current().spawn_fn(move || job.run()));
                keep
            }
        });
        started.block();
        let ender = std::thread::spawn(move || runtime.shutdown(Shutdown::Abort));
        gate.open();
        ender.join().unwrap();
        assert_eq!(drops.count(), 10);
        assert!(job.is_finished());
    });
}

#[test]
fn a_chain_of_a_hundred_thousand_parents_ends_without_a_deep_stack() {
    fn descend(job: &Job, left: usize, tally: &Tally) {
        tally.add();
        if left > 0 {
            let tally = tally.clone();
            job.run_child(move |job| descend(job, left - 1, &tally));
        }
    }
    watched(|dog| {
        dog.rig(2).everywhere(|| {
            let tally = Tally::default();
            let count = tally.clone();
            let last = Gate::default();
            let end = last.clone();
            Job::new(move |job| {
                job.run_child(move |job| descend(job, 100_000, &count));
                end.open();
            })
            .run_and_wait();
            assert!(last.is_open());
            assert_eq!(tally.get(), 100_001);
        });
    });
}

#[test]
fn a_chain_of_a_hundred_thousand_fresh_parents_is_dropped_without_a_deep_stack() {
    let drops = Drops::default();
    let token = drops.token();
    let mut job = Job::new(move |_| drop(token));
    for _ in 0..100_000 {
        let token = drops.token();
        job = job.child(move |_| drop(token));
    }
    drop(job);
    assert_eq!(drops.count(), 100_001);
}

#[test]
fn many_threads_of_every_kind_wait_for_one_job() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let gate = Gate::default();
        let closed = gate.clone();
        let job = runtime.block_on_fn(|| Job::new(move |_| closed.block()));
        let runner = job.clone();
        drop(runtime.spawn_fn(move || runner.run()));
        until(|| format!("{job:?}").contains("fresh: false"));
        let tally = Tally::default();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (job, count) = (job.clone(), tally.clone());
                std::thread::spawn(move || {
                    job.wait();
                    count.add();
                })
            })
            .collect();
        let (for_job, for_task) = ((job.clone(), tally.clone()), (job.clone(), tally.clone()));
        let on_compute = runtime.spawn_fn(move || {
            for_job.0.wait();
            for_job.1.add();
        });
        let on_io = runtime.spawn(async move {
            assert_eq!(role(), Some(Role::Io));
            for_task.0.wait();
            for_task.1.add();
        });
        gate.open();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        runtime.block_on(async { filch::wait_async((on_compute, on_io)).await });
        assert_eq!(tally.get(), 6);
    });
}

#[test]
fn an_adopted_thread_runs_jobs_and_leaves_nothing_behind() {
    watched(|dog| {
        let runtime = dog.rig_of(filch::Builder::new().workers(1).adoptable_threads(1));
        let tally = Tally::default();
        for round in 1..=20 {
            let adopted = runtime.adopt().unwrap();
            let count = tally.clone();
            let job = Job::new(move |job| {
                for _ in 0..10 {
                    let count = count.clone();
                    job.run_child(move |_| count.add());
                }
            });
            job.clone().run();
            job.wait();
            assert_eq!(tally.get(), 20 * round - 10);
            let count = tally.clone();
            let left = Job::for_each(0..10, 1, move |_| count.add());
            left.clone().run();
            drop(adopted);
            // Not waited for while it was a worker: others take it over.
            left.wait();
            assert_eq!(tally.get(), 20 * round);
        }
    });
}

#[test]
fn a_parent_that_is_never_run_may_be_dropped_before_its_children_end() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let drops = Drops::default();
        for _ in 0..20 {
            let before = drops.count();
            let (gate, tokens) = (Gate::default(), [drops.token(), drops.token()]);
            let others = runtime.block_on_fn(|| {
                let [first, second] = tokens;
                let grandparent = Job::new(move |_| drop(first));
                let parent = grandparent.child(move |_| drop(second));
                for _ in 0..3 {
                    let gate = gate.clone();
                    parent.run_child(move |_| gate.block());
                }
                drop((grandparent, parent));
                assert_eq!(drops.count(), before + 2);
                // In the cells of the two, if those were given back too early.
                let others: Vec<_> = (0..8).map(|_| Job::new(|_| ())).collect();
                gate.open();
                others
            });
            others.into_iter().for_each(Job::run_and_wait);
        }
        let text =
            panic_of(|| runtime.block_on_fn(|| Job::new(|_| ()).run_child(|_| panic!("left"))));
        assert_eq!(text, "left", "there is nobody above, so the group gets it");
        assert!(runtime.drain().is_empty());
    });
}

#[test]
fn both_halves_of_a_join_add_children() {
    const EACH: usize = 300;
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.block_on_fn(|| {
            for _ in 0..30 {
                let work = filch::spawn_fn(|| {
                    let tally = Tally::default();
                    let count = tally.clone();
                    let gates = [Gate::default(), Gate::default()];
                    Job::new(move |job| {
                        // At the same time, and so on two threads.
                        let half = |i: usize| {
                            gates[i].open();
                            gates[1 - i].block();
                            for _ in 0..EACH {
                                let count = count.clone();
                                job.run_child(move |_| count.add());
                            }
                        };
                        filch::join(|| half(0), || half(1));
                    })
                    .run_and_wait();
                    assert_eq!(tally.get(), 2 * EACH);
                });
                work.wait();
            }
        });
    });
}

#[test]
fn a_childs_panic_goes_to_whoever_waits_for_the_parent_in_a_group_too() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let result = runtime.block_on(filch::group(async |_| {
            let job = Job::new(|job| job.run_child(|_| panic!("deep")));
            assert_eq!(panic_of(|| job.run_and_wait()), "deep");
            let job = Job::new(|job| job.child(|job| job.run_child(|_| panic!("deeper"))).run());
            job.clone().run();
            assert_eq!(panic_of(|| job.wait()), "deeper");
            Ok::<_, ()>(())
        }));
        assert_eq!(result, Ok(()), "the group has heard of no panic");
        assert!(runtime.drain().is_empty());
    });
}

#[test]
fn a_child_with_two_handles_that_is_refused_stays_fresh() {
    watched(|dog| {
        let runtime = dog.rig(1);
        let drops = Drops::default();
        runtime.block_on_fn(|| {
            let token = drops.token();
            let parent = Job::new(|_| ());
            let child = parent.child(move |_| drop(token));
            parent.run_and_wait();
            for _ in 0..2 {
                assert!(panic_of(|| child.clone().run()).contains("which has ended"));
                assert!(panic_of(|| child.wait()).contains("never run"));
            }
            assert_eq!(drops.count(), 0);
            drop(child);
            assert_eq!(drops.count(), 1);
        });
    });
}

#[test]
fn an_adopted_thread_that_has_waited_for_a_job_does_not_hold_up_the_end() {
    watched(|dog| {
        let runtime = dog.rig_of(filch::Builder::new().workers(1).adoptable_threads(1));
        let (ran, over) = (Gate::default(), Gate::default());
        std::thread::scope(|threads| {
            let handle = runtime.handle();
            let (ran_here, goes) = (ran.clone(), over.clone());
            threads.spawn(move || {
                let _adopted = handle.adopt().unwrap();
                let here = std::thread::current().id();
                while !ran_here.is_open() {
                    let ran = ran_here.clone();
                    let job = Job::new(move |_| {
                        if std::thread::current().id() == here {
                            ran.open();
                        }
                    });
                    job.clone().run();
                    job.wait();
                }
                goes.block();
            });
            ran.block();
            // The thread may still be inside its last wait, but not for long.
            let report = runtime.shutdown(Shutdown::Drain);
            assert!(report.unfinished.is_empty(), "{report}");
            over.open();
        });
    });
}
