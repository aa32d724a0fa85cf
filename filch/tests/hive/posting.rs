//! Posts: where they run, whom they wake, when, and what becomes of those that are not taken.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use filch::testkit::{Clock, ManualClock};
use filch::{Builder, NewWorker, PostRefusal, Role, Runtime, Shutdown, worker};

use crate::support::{Books, Drops, Gate, occupy, receive, until, watched};

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_micro_task_runs_on_an_io_worker_and_a_compute_task_on_a_compute_worker() {
    watched(|| {
        let runtime = Builder::new().workers(2).build().unwrap();
        let (send, roles) = mpsc::channel();
        let tell = move || send.send(worker::current().unwrap().role()).unwrap();
        runtime.post(tell.clone()).unwrap();
        assert_eq!(receive(&roles), Role::Io);
        runtime.post_compute(tell.clone()).unwrap();
        assert_eq!(receive(&roles), Role::Compute);
        runtime.post_batch([tell.clone(), tell.clone()]).unwrap();
        assert_eq!([receive(&roles), receive(&roles)], [Role::Io; 2]);
        runtime.post_compute_batch([tell.clone(), tell]).unwrap();
        assert_eq!([receive(&roles), receive(&roles)], [Role::Compute; 2]);
    });
}

/// A runtime whose cores keep books, with all workers asleep.
fn booked(workers: usize) -> (Runtime, Books) {
    let books = Books::default();
    let cores = books.clone();
    let builder = Builder::new().workers(workers).explore_yields(0).io_spares(0);
    let runtime = builder.event_core(move |_| Box::new(cores.core())).build().unwrap();
    until(|| runtime.snapshot().lanes.iter().all(|lane| lane.asleep == workers));
    until(|| books.parks() >= 2 * workers);
    books.take();
    (runtime, books)
}

#[test]
fn a_post_wakes_one_sleeper_and_a_batch_wakes_one_who_passes_the_rest_on() {
    watched(|| {
        let (runtime, books) = booked(3);
        let ran = Arc::new(AtomicUsize::new(0));
        let count = {
            let ran = ran.clone();
            move || _ = ran.fetch_add(1, Ordering::SeqCst)
        };
        runtime.post(count.clone()).unwrap();
        assert_eq!(books.woken_by_me(), 1);
        until(|| ran.load(Ordering::SeqCst) == 1);
        until(|| runtime.snapshot().lanes[0].asleep == 3);
        books.take();
        // All three are needed at once: each waits for the others.
        let meet = Arc::new(std::sync::Barrier::new(3));
        let tasks = (0..3).map(|_| {
            let meet = meet.clone();
            move || _ = meet.wait()
        });
        runtime.post_batch(tasks).unwrap();
        assert_eq!(books.woken_by_me(), 1, "the chain wakes the others");
        runtime.shutdown(Shutdown::Drain);
    });
}

#[test]
fn a_batch_of_compute_tasks_wakes_one_who_passes_the_rest_on() {
    watched(|| {
        let (runtime, books) = booked(3);
        let meet = Arc::new(std::sync::Barrier::new(3));
        let tasks = (0..3).map(|_| {
            let meet = meet.clone();
            move || _ = meet.wait()
        });
        runtime.post_compute_batch(tasks).unwrap();
        assert_eq!(books.woken_by_me(), 1, "the chain wakes the others");
        runtime.shutdown(Shutdown::Drain);
    });
}

#[test]
fn a_batch_that_a_worker_posts_is_shared_while_it_is_inside_a_task() {
    watched(|| {
        let runtime = Builder::new().workers(3).build().unwrap();
        for at in [0, 3] {
            let (target, handle) = (runtime.workers()[at].clone(), runtime.handle());
            let (send, ended) = mpsc::channel();
            let post = move || {
                // Two of three are needed besides this one, which waits for them.
                let meet = Arc::new(std::sync::Barrier::new(3));
                let tasks: Vec<_> = (0..2)
                    .map(|_| {
                        let meet = meet.clone();
                        move || _ = meet.wait()
                    })
                    .collect();
                let posted = match target.role {
                    Role::Compute => handle.post_compute_batch(tasks),
                    _ => handle.post_batch(tasks),
                };
                posted.unwrap();
                meet.wait();
                send.send(()).unwrap();
            };
            runtime.post_to(runtime.workers()[at].id, post).unwrap();
            receive(&ended);
        }
    });
}

#[test]
fn a_batch_runs_in_its_order_on_one_worker_wherever_it_is_posted() {
    watched(|| {
        let runtime = Builder::new().workers(1).build().unwrap();
        let gate = Gate::default();
        for worker in runtime.workers() {
            let compute = worker.role == Role::Compute;
            let (send, order) = mpsc::channel();
            let (handle, pass) = (runtime.handle(), gate.clone());
            let post = move |name: &'static str| {
                let tasks = (0..5).map(|number| {
                    let send = send.clone();
                    move || send.send((name, number)).unwrap()
                });
                let posted = if compute {
                    handle.post_compute_batch(tasks)
                } else {
                    handle.post_batch(tasks)
                };
                posted.unwrap();
            };
            let from_there = post.clone();
            runtime
                .post_to(worker.id, move || {
                    pass.pass();
                    from_there("there");
                })
                .unwrap();
            post("elsewhere");
            gate.open();
            let ran: Vec<_> = (0..10).map(|_| receive(&order)).collect();
            for name in ["there", "elsewhere"] {
                let numbers = ran.iter().filter(|task| task.0 == name).map(|task| task.1);
                assert_eq!(numbers.collect::<Vec<_>>(), [0, 1, 2, 3, 4], "{name}: {ran:?}");
            }
        }
    });
}

#[test]
fn compute_tasks_are_taken_one_at_a_time() {
    watched(|| {
        let builder = Builder::new().io_workers(1).compute_workers(2).compute_spares(0);
        let runtime = builder.build().unwrap();
        let [first, second] = [1, 2].map(|at| runtime.workers()[at].id);
        let (gate, long, (send, ran)) = (Gate::default(), Gate::default(), mpsc::channel());
        occupy(&runtime, second, &gate);
        occupy(&runtime, first, &long);
        // The first of them is long. Whoever takes it has not taken others along.
        let (started, there) = mpsc::channel();
        let heavy = Gate::default();
        let block = heavy.clone();
        runtime
            .post_compute(move || {
                started.send(()).unwrap();
                block.pass();
            })
            .unwrap();
        let tasks = (0..20).map(|_| {
            let send = send.clone();
            move || send.send(worker::current().unwrap().id()).unwrap()
        });
        runtime.post_compute_batch(tasks).unwrap();
        long.open();
        receive(&there);
        gate.open();
        (0..20).for_each(|_| assert_eq!(receive(&ran), second));
        heavy.open();
    });
}

#[test]
fn a_backlog_of_one_behind_a_long_task_is_shared() {
    watched(|| {
        let builder = Builder::new().workers(2).io_spares(0).compute_spares(0);
        let runtime = builder.build().unwrap();
        let ids: Vec<_> = runtime.workers().iter().map(|worker| worker.id).collect();
        for (busy, idle) in [(ids[0], ids[1]), (ids[2], ids[3])] {
            let (handle, (send, ran)) = (runtime.handle(), mpsc::channel());
            let long = move || {
                let gate = Gate::default();
                let open = gate.clone();
                let task = move || {
                    send.send(worker::current().unwrap().id()).unwrap();
                    open.open();
                };
                match worker::current().unwrap().role() {
                    Role::Compute => handle.post_compute(task).unwrap(),
                    _ => handle.post(task).unwrap(),
                }
                gate.pass();
            };
            runtime.post_to(busy, long).unwrap();
            assert_eq!(receive(&ran), idle);
        }
    });
}

#[test]
fn a_post_that_finds_everybody_awake_wakes_nobody() {
    watched(|| {
        let (runtime, books) = booked(1);
        let gate = Gate::default();
        occupy(&runtime, runtime.workers()[0].id, &gate);
        books.take();
        runtime.post(|| ()).unwrap();
        runtime.post_to(runtime.workers()[0].id, || ()).unwrap();
        assert_eq!(books.woken_by_me(), 0);
        gate.open();
    });
}

#[test]
fn a_post_to_one_worker_wakes_it_and_no_other() {
    watched(|| {
        let books = [Books::default(), Books::default()];
        let cores = books.clone();
        let builder = Builder::new().io_workers(2).compute_workers(1).io_spares(0);
        let builder = builder.explore_yields(0).event_core(move |info| match info.role {
            Role::Io => Box::new(cores[info.index].core()),
            _ => Box::new(Books::default().core()),
        });
        let runtime = builder.build().unwrap();
        until(|| runtime.snapshot().lanes[0].asleep == 2);
        until(|| books.iter().all(|books| books.parks() > 0));
        let (send, there) = mpsc::channel();
        runtime.post_to(runtime.workers()[1].id, move || send.send(()).unwrap()).unwrap();
        receive(&there);
        assert_eq!([books[0].woken_by_me(), books[1].woken_by_me()], [0, 1]);
    });
}

#[test]
fn posts_to_one_worker_run_there_in_order_though_others_are_idle() {
    watched(|| {
        let runtime = Builder::new().workers(3).build().unwrap();
        for target in runtime.workers() {
            let order = Arc::new(Mutex::new(Vec::new()));
            for i in 0..100 {
                let order = order.clone();
                let note = move || {
                    assert_eq!(worker::current().unwrap().id(), target.id);
                    order.lock().unwrap().push(i);
                };
                runtime.post_to(target.id, note).unwrap();
            }
            until(|| order.lock().unwrap().len() == 100);
            assert!(order.lock().unwrap().is_sorted());
        }
    });
}

#[test]
fn a_post_to_a_stranger_or_to_one_that_left_hands_the_task_back() {
    watched(|| {
        let other = Builder::new().workers(1).build().unwrap();
        let runtime = Builder::new().workers(1).attachable_workers(1).build().unwrap();
        let refused = runtime.post_to(other.workers()[0].id, || ()).unwrap_err();
        assert_eq!(refused.reason, PostRefusal::UnknownWorker);
        let gone = runtime.attach(NewWorker::io()).unwrap();
        runtime.detach(gone).wait().unwrap();
        let refused = runtime.post_to(gone, || ()).map_err(|e| e.reason);
        assert_eq!(refused, Err(PostRefusal::Detached));
        assert!(runtime.spawn_to(gone, || async {}).is_err());
        assert_eq!(runtime.wake(gone).unwrap_err().reason, PostRefusal::Detached);
        // Its place is another's now.
        let next = runtime.attach(NewWorker::io()).unwrap();
        assert_ne!(gone, next);
        let refused = runtime.post_to(gone, || ()).unwrap_err();
        assert_eq!(refused.reason, PostRefusal::Detached);
        runtime.post_to(next, || ()).unwrap();
    });
}

#[test]
fn a_runtime_that_has_ended_hands_every_task_back() {
    watched(|| {
        let runtime = Builder::new().workers(1).build().unwrap();
        let (handle, worker) = (runtime.handle(), runtime.workers()[0].id);
        runtime.shutdown(Shutdown::Drain);
        let ended = PostRefusal::ShutDown;
        assert_eq!(handle.post(|| ()).unwrap_err().reason, ended);
        assert_eq!(handle.post_batch([|| ()]).unwrap_err().reason, ended);
        assert_eq!(handle.post_compute(|| ()).unwrap_err().reason, ended);
        assert_eq!(handle.post_to(worker, || ()).unwrap_err().reason, ended);
        assert_eq!(handle.post_delayed(MS, || ()).unwrap_err().reason, ended);
        assert!(handle.spawn_to(worker, || async {}).is_err());
    });
}

#[test]
fn a_task_posts_while_its_runtime_drains() {
    watched(|| {
        let runtime = Builder::new().workers(1).build().unwrap();
        let (gate, drops) = (Gate::default(), Drops::default());
        let (handle, token, pass) = (runtime.handle(), drops.token(), gate.clone());
        runtime
            .post(move || {
                pass.pass();
                handle.post(move || drop(token)).unwrap();
            })
            .unwrap();
        let end = std::thread::spawn(move || runtime.shutdown(Shutdown::Drain));
        gate.open();
        end.join().unwrap();
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn a_future_that_is_not_send_is_made_and_polled_on_its_worker() {
    watched(|| {
        let runtime = Builder::new().workers(2).build().unwrap();
        for target in runtime.workers() {
            let make = move || {
                let here = std::thread::current().id();
                let count = Rc::new(Cell::new(0));
                async move {
                    for _ in 0..10 {
                        filch::time::sleep(Duration::from_micros(50)).await;
                        filch::cpu(|| ()).await;
                        assert_eq!(std::thread::current().id(), here);
                        count.set(count.get() + 1);
                    }
                    assert_eq!(worker::current().unwrap().id(), target.id);
                    count.get()
                }
            };
            assert_eq!(runtime.spawn_to(target.id, make).unwrap().wait(), 10);
        }
    });
}

#[test]
fn a_panic_in_a_post_goes_to_the_hook_and_the_worker_goes_on() {
    watched(|| {
        let (send, panics) = mpsc::channel();
        let send = Mutex::new(send);
        let hook = move |panic: filch::PanicInfo| {
            send.lock().unwrap().send(panic.message().to_owned()).unwrap();
        };
        let runtime = Builder::new().workers(1).on_panic(hook).build().unwrap();
        let worker = runtime.workers()[0].id;
        runtime.post(|| panic!("micro")).unwrap();
        assert_eq!(receive(&panics), "micro");
        runtime.post_compute(|| panic!("compute")).unwrap();
        assert_eq!(receive(&panics), "compute");
        runtime.post_to(worker, || panic!("posted")).unwrap();
        assert_eq!(receive(&panics), "posted");
        assert_eq!(runtime.spawn(async { 1 }).wait(), 1);
    });
}

/// A runtime with a clock of its own, and no chance to look at the real one.
fn by_hand(io: usize) -> (Runtime, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let builder = Builder::new().io_workers(io).compute_workers(1);
    (builder.clock(Clock::Manual(clock.clone())).build().unwrap(), clock)
}

#[test]
fn delayed_posts_run_when_their_time_has_come_in_the_order_of_their_times() {
    watched(|| {
        let (runtime, clock) = by_hand(1);
        let order = Arc::new(Mutex::new(Vec::new()));
        for delay in [3, 1, 2] {
            let order = order.clone();
            let note = move || order.lock().unwrap().push(delay);
            drop(runtime.post_delayed(delay * MS, note).unwrap());
        }
        assert_eq!(runtime.snapshot().workers[0].timers, 3, "counted when the post returns");
        clock.advance(MS - Duration::from_nanos(1));
        runtime.spawn(async {}).wait();
        assert!(order.lock().unwrap().is_empty());
        clock.advance(Duration::from_nanos(1));
        until(|| *order.lock().unwrap() == [1]);
        clock.advance(MS);
        until(|| *order.lock().unwrap() == [1, 2]);
        clock.advance(MS);
        until(|| *order.lock().unwrap() == [1, 2, 3]);
        assert_eq!(runtime.snapshot().workers[0].timers, 0);
    });
}

#[test]
fn a_delayed_post_without_delay_does_not_run_on_the_posters_thread() {
    watched(|| {
        let runtime = Builder::new().workers(1).build().unwrap();
        let here = std::thread::current().id();
        let there = runtime.post_delayed(Duration::ZERO, || std::thread::current().id()).unwrap();
        assert_ne!(there.wait(), here);
    });
}

#[test]
fn a_cancelled_delayed_post_is_dropped_at_once_and_never_runs() {
    watched(|| {
        let (runtime, clock) = by_hand(1);
        let drops = Drops::default();
        let token = drops.token();
        let task = move || {
            let _token = &token;
            panic!("ran")
        };
        let post = runtime.post_delayed::<_, ()>(MS, task).unwrap();
        post.cancel();
        until(|| drops.count() == 1);
        assert_eq!(runtime.snapshot().workers[0].timers, 0);
        clock.advance(2 * MS);
        assert!(runtime.block_on(post.outcome()).unwrap_err().is_cancelled());
    });
}

#[test]
fn an_abort_drops_delayed_posts_and_a_drain_waits_for_them() {
    watched(|| {
        let (runtime, _clock) = by_hand(2);
        let drops = Drops::default();
        for _ in 0..10 {
            let token = drops.token();
            drop(runtime.post_delayed(MS, move || drop(token)).unwrap());
        }
        runtime.shutdown(Shutdown::Abort);
        assert_eq!(drops.count(), 10);

        let runtime = Builder::new().workers(1).build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let count = ran.clone();
        let post = runtime.post_delayed(MS, move || count.fetch_add(1, Ordering::SeqCst));
        drop(post.unwrap());
        runtime.shutdown(Shutdown::Drain);
        assert_eq!(ran.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_burst_of_delayed_posts_is_spread_by_two_choices_before_any_worker_has_looked() {
    watched(|| {
        const WORKERS: usize = 4;
        const POSTS: usize = 400;
        let (runtime, _clock) = by_hand(WORKERS);
        // Nobody can look: all are inside a task.
        let gate = Gate::default();
        for worker in runtime.workers().iter().filter(|worker| worker.role == Role::Io) {
            occupy(&runtime, worker.id, &gate);
        }
        for _ in 0..POSTS {
            drop(runtime.post_delayed(1000 * MS, || ()).unwrap());
        }
        let snapshot = runtime.snapshot();
        let timers: Vec<usize> = snapshot.workers[..WORKERS].iter().map(|w| w.timers).collect();
        gate.open();
        assert_eq!(timers.iter().sum::<usize>(), POSTS);
        // By chance alone they would differ by some 30; two choices keep them within a few.
        let (least, most) = (timers.iter().min().unwrap(), timers.iter().max().unwrap());
        assert!(most - least <= 8, "{timers:?}");
    });
}

#[test]
fn two_choices_spread_delayed_posts_whatever_the_seed() {
    watched(|| {
        // With draws that follow each other as their numbers do, the last three of these are uneven.
        for seed in [0, 1, 84, 240, 329].map(|n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)) {
            let clock = Clock::Manual(Arc::new(ManualClock::new()));
            let builder = Builder::new().io_workers(4).compute_workers(1).clock(clock);
            let runtime = builder.seed(seed).build().unwrap();
            for _ in 0..400 {
                drop(runtime.post_delayed(1000 * MS, || ()).unwrap());
            }
            let snapshot = runtime.snapshot();
            let timers: Vec<usize> = snapshot.workers[..4].iter().map(|w| w.timers).collect();
            let (least, most) = (timers.iter().min().unwrap(), timers.iter().max().unwrap());
            assert!(most - least <= 8, "{timers:?}, seed {seed}");
        }
    });
}

#[test]
fn a_worker_keeps_what_it_posts_to_itself_and_offers_what_it_posts_locally() {
    watched(|| {
        let runtime = Builder::new().io_workers(2).compute_workers(1).build().unwrap();
        let (first, second) = (runtime.workers()[0].id, runtime.workers()[1].id);
        let (send, ran) = mpsc::channel();
        let (blocked, gate) = (Gate::default(), Gate::default());
        let release = gate.clone();
        runtime
            .post_to(first, move || {
                let private = Rc::new(1);
                let tell = send.clone();
                let keep = move || tell.send((*private, worker::current().unwrap().id())).unwrap();
                worker::post_self(keep).unwrap();
                let tell = move || {
                    send.send((2, worker::current().unwrap().id())).unwrap();
                    release.open();
                };
                worker::post_local(tell).unwrap();
                blocked.open();
                // The other worker steals what is offered; what is kept waits for this one.
                gate.pass();
            })
            .unwrap();
        assert_eq!(receive(&ran), (2, second));
        assert_eq!(receive(&ran), (1, first));
    });
}

#[test]
fn local_posts_beyond_the_rings_capacity_are_there_for_others() {
    watched(|| {
        let builder = Builder::new().io_workers(2).compute_workers(1).ring_capacity(2);
        let runtime = builder.build().unwrap();
        let first = runtime.workers()[0].id;
        let ran = Arc::new(AtomicUsize::new(0));
        let counted = ran.clone();
        runtime
            .post_to(first, move || {
                for _ in 0..100 {
                    let ran = counted.clone();
                    let count = move || _ = ran.fetch_add(1, Ordering::SeqCst);
                    worker::post_local(count).unwrap();
                }
                // The other worker runs all of them while this one is inside a task.
                until(|| counted.load(Ordering::SeqCst) == 100);
            })
            .unwrap();
        until(|| ran.load(Ordering::SeqCst) == 100);
    });
}

#[test]
fn a_delayed_post_to_itself_runs_on_the_worker() {
    watched(|| {
        let runtime = Builder::new().workers(2).build().unwrap();
        let target = runtime.workers()[1].id;
        let (send, ran) = mpsc::channel();
        runtime
            .post_to(target, move || {
                for _ in 0..20 {
                    let send = send.clone();
                    let tell = move || send.send(worker::current().unwrap().id()).unwrap();
                    drop(worker::post_self_delayed(MS, tell).unwrap());
                }
            })
            .unwrap();
        (0..20).for_each(|_| assert_eq!(receive(&ran), target));
    });
}

#[test]
fn posts_to_the_worker_at_hand_are_handed_back_where_there_is_none() {
    assert_eq!(worker::post_self(|| ()).unwrap_err().reason, PostRefusal::NotOnWorker);
    assert_eq!(worker::post_local(|| ()).unwrap_err().reason, PostRefusal::NotOnWorker);
    assert_eq!(worker::post_self_delayed(MS, || ()).unwrap_err().reason, PostRefusal::NotOnWorker);
    assert!(worker::current().is_none());
}

/// What a worker posts to the hive can be taken by others while it is still inside the task: there is no
/// buffer that hides it.
#[test]
fn a_task_that_waits_for_what_it_has_posted_does_not_wait_for_ever() {
    watched(|| {
        let runtime = Builder::new().io_workers(2).compute_workers(1).build().unwrap();
        let (first, handle) = (runtime.workers()[0].id, runtime.handle());
        let (send, ended) = mpsc::channel();
        runtime
            .post_to(first, move || {
                let (gate, posts) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
                for _ in 0..5 {
                    let (gate, posts) = (gate.clone(), posts.clone());
                    let post = move || {
                        if posts.fetch_add(1, Ordering::SeqCst) == 4 {
                            gate.open();
                        }
                    };
                    handle.post(post).unwrap();
                }
                gate.pass();
                send.send(()).unwrap();
            })
            .unwrap();
        receive(&ended);
    });
}
