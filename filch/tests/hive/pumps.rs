//! The pump: a main worker in the frames of somebody else's loop.

use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use filch::testkit::{Clock, Condvar, ManualClock, Mutex, Sim};
use filch::{Builder, Pump, Pumped, Runtime, Shutdown, worker};

use crate::support::{Drops, Gate, receive, until, watched};

const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(100);

/// A pump, and how often it has asked for a frame.
fn counted(hive: Runtime) -> (Pump, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    (hive.pump(move || _ = count.fetch_add(1, Ordering::SeqCst)).unwrap(), asked)
}

#[test]
fn a_resting_pump_asks_for_one_frame_when_there_is_work() {
    watched(|| {
        let hive = Builder::new().io_workers(1).hive().unwrap();
        let ui = hive.workers()[0].id;
        let (mut pump, asked) = counted(hive);
        assert_eq!(pump.run(LONG), Pumped::Idle);
        assert_eq!(asked.load(Ordering::SeqCst), 0);
        let (send, ran) = mpsc::channel();
        for i in 0..3 {
            let send = send.clone();
            let tell = move || send.send((i, std::thread::current().id())).unwrap();
            pump.handle().post_to(ui, tell).unwrap();
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1, "it knows after the first");
        assert!(ran.try_recv().is_err(), "nothing runs outside of a frame");
        assert_eq!(pump.run(LONG), Pumped::Idle);
        let here = std::thread::current().id();
        (0..3).for_each(|i| assert_eq!(receive(&ran), (i, here)));
        assert!(worker::current().is_none(), "between frames the thread is no worker");
    });
}

#[test]
fn a_frame_ends_with_its_budget_and_asks_for_another_while_work_is_left() {
    watched(|| {
        let hive = Builder::new().io_workers(1).hive().unwrap();
        let ui = hive.workers()[0].id;
        let (mut pump, asked) = counted(hive);
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let ran = ran.clone();
            let task = move || _ = ran.fetch_add(1, Ordering::SeqCst);
            pump.handle().post_to(ui, task).unwrap();
        }
        let mut frames = 0;
        loop {
            let before = (ran.load(Ordering::SeqCst), asked.load(Ordering::SeqCst));
            let pumped = pump.run(Duration::ZERO);
            let ran = ran.load(Ordering::SeqCst) - before.0;
            let asked = asked.load(Ordering::SeqCst) - before.1;
            assert!(ran <= 1, "one task after the budget is spent, and no more");
            frames += 1;
            match pumped {
                Pumped::More => assert_eq!(asked, 1),
                Pumped::Idle => break,
                Pumped::Stopped => panic!("nobody has asked for it"),
            }
        }
        assert_eq!(ran.load(Ordering::SeqCst), 10);
        assert!(frames >= 10);
    });
}

#[test]
fn results_of_computing_come_back_to_the_pumps_thread() {
    watched(|| {
        let hive = Builder::new().io_workers(2).compute_workers(2).hive().unwrap();
        let ui = hive.workers()[0].id;
        let (send, frames) = mpsc::channel();
        let mut pump = hive
            .pump(move || {
                let _ = send.send(());
            })
            .unwrap();
        let handle = pump.handle().clone();
        let program = pump.handle().spawn_to(ui, move || {
            let (here, state) = (std::thread::current().id(), Rc::new(()));
            async move {
                for i in 0..50u64 {
                    assert_eq!(filch::cpu(move || i * i).await, i * i);
                    assert_eq!(std::thread::current().id(), here);
                }
                drop(state);
            }
        });
        let program = program.unwrap();
        while !program.is_finished() {
            receive(&frames);
            assert_ne!(pump.run(2 * MS), Pumped::Stopped);
        }
        handle.request_stop();
        loop {
            receive(&frames);
            if pump.run(2 * MS) == Pumped::Stopped {
                break;
            }
        }
        assert!(pump.finish(Shutdown::Abort).unfinished.is_empty());
    });
}

#[test]
fn a_timer_of_a_resting_pump_asks_for_a_frame_when_it_is_due() {
    watched(|| {
        let hive = Builder::new().io_workers(1).hive().unwrap();
        let (send, frames) = mpsc::channel();
        let mut pump = hive
            .pump(move || {
                let _ = send.send(Instant::now());
            })
            .unwrap();
        for _ in 0..5 {
            let begin = Instant::now();
            let post = pump.handle().post_delayed(3 * MS, || ()).unwrap();
            while !post.is_finished() {
                if pump.run(LONG) == Pumped::Idle && !post.is_finished() {
                    receive(&frames);
                }
            }
            assert!(begin.elapsed() >= 3 * MS);
        }
    });
}

#[test]
fn a_clock_that_is_moved_by_hand_asks_for_a_frame() {
    watched(|| {
        let clock = Arc::new(ManualClock::new());
        let builder = Builder::new().io_workers(1).clock(Clock::Manual(clock.clone()));
        let (mut pump, asked) = counted(builder.hive().unwrap());
        let post = pump.handle().post_delayed(5 * MS, || ()).unwrap();
        assert_eq!(pump.run(LONG), Pumped::Idle);
        let before = asked.load(Ordering::SeqCst);
        clock.advance(5 * MS);
        assert_eq!(asked.load(Ordering::SeqCst), before + 1);
        assert_eq!(pump.run(LONG), Pumped::Idle);
        assert!(post.is_finished());
    });
}

#[test]
fn what_a_frame_leaves_is_taken_by_others_while_the_loop_is_stuck() {
    watched(|| {
        let hive = Builder::new().io_workers(2).compute_workers(1).hive().unwrap();
        let (ui, other) = (hive.workers()[0].id, hive.workers()[1].id);
        let (mut pump, _asked) = counted(hive);
        let gate = Gate::default();
        crate::support::occupy(pump.handle(), other, &gate);
        let (handle, ran) = (pump.handle().clone(), Arc::new(AtomicUsize::new(0)));
        let counted = ran.clone();
        let task = move || {
            for _ in 0..10 {
                let ran = counted.clone();
                handle.post(move || _ = ran.fetch_add(1, Ordering::SeqCst)).unwrap();
            }
        };
        pump.handle().post_to(ui, task).unwrap();
        while pump.run(Duration::ZERO) != Pumped::More || ran.load(Ordering::SeqCst) == 0 {}
        // No frame from here on.
        gate.open();
        until(|| ran.load(Ordering::SeqCst) == 10);
    });
}

#[test]
fn dropping_a_pump_drops_every_task_and_finishing_it_drains() {
    watched(|| {
        let drops = Drops::default();
        let hive = Builder::new().io_workers(1).compute_workers(1).hive().unwrap();
        let ui = hive.workers()[0].id;
        let (mut pump, _) = counted(hive);
        let token = drops.token();
        let made = pump.handle().spawn_to(ui, move || async move {
            std::future::pending::<()>().await;
            drop(token);
        });
        drop(made.unwrap());
        assert_eq!(pump.run(LONG), Pumped::Idle);
        drop(pump);
        assert_eq!(drops.count(), 1);

        let (pump, _) = counted(Builder::new().io_workers(1).hive().unwrap());
        let ran = Arc::new(AtomicUsize::new(0));
        let count = ran.clone();
        let later = move || _ = count.fetch_add(1, Ordering::SeqCst);
        drop(pump.handle().post_delayed(MS, later).unwrap());
        assert!(pump.finish(Shutdown::Drain).unfinished.is_empty());
        assert_eq!(ran.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_pump_without_an_io_worker_is_an_error() {
    watched(|| {
        let hive = Builder::new().compute_workers(1).hive().unwrap();
        let error = hive.pump(|| ()).unwrap_err();
        assert!(error.to_string().contains("a pump is an I/O worker"), "{error}");
    });
}

#[test]
#[should_panic(expected = "use `Builder::hive`")]
fn a_pump_of_a_runtime_that_has_started_is_a_mistake() {
    let _ = Builder::new().workers(1).build().unwrap().pump(|| ());
}

#[test]
fn a_frame_without_end_runs_what_there_is_and_returns() {
    watched(|| {
        let (mut pump, _) = counted(Builder::new().io_workers(1).hive().unwrap());
        let ran = Arc::new(AtomicUsize::new(0));
        let count = ran.clone();
        let tasks = (0..1000).map(move |_| {
            let ran = count.clone();
            move || _ = ran.fetch_add(1, Ordering::SeqCst)
        });
        pump.handle().post_batch(tasks).unwrap();
        assert_eq!(pump.run(Duration::MAX), Pumped::Idle);
        assert_eq!(ran.load(Ordering::SeqCst), 1000);
    });
}

#[test]
fn a_task_that_panics_ends_neither_its_frame_nor_the_pump() {
    watched(|| {
        let hive = Builder::new().io_workers(1).hive().unwrap();
        let ui = hive.workers()[0].id;
        let (mut pump, asked) = counted(hive);
        let ran = Arc::new(AtomicUsize::new(0));
        for i in 0..4 {
            let ran = ran.clone();
            let task = move || match i % 2 {
                0 => std::panic::resume_unwind(Box::new(())),
                _ => _ = ran.fetch_add(1, Ordering::SeqCst),
            };
            pump.handle().post_to(ui, task).unwrap();
        }
        assert_eq!(pump.run(LONG), Pumped::Idle);
        assert_eq!(ran.load(Ordering::SeqCst), 2);
        let before = asked.load(Ordering::SeqCst);
        pump.handle().post_to(ui, || ()).unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), before + 1, "it rests as before");
    });
}

#[test]
fn a_stop_before_the_first_frame_is_heard_in_one_and_for_ever() {
    watched(|| {
        let hive = Builder::new().io_workers(1).compute_workers(1).hive().unwrap();
        let ui = hive.workers()[0].id;
        hive.request_stop();
        let (mut pump, _) = counted(hive);
        while pump.run(MS) != Pumped::Stopped {
            std::thread::yield_now();
        }
        assert_eq!(pump.run(LONG), Pumped::Stopped);
        let handle = pump.handle().clone();
        assert!(handle.post_to(ui, || ()).is_err());
        assert!(pump.finish(Shutdown::Drain).unfinished.is_empty());
        assert!(handle.post_to(ui, || ()).is_err());
    });
}

#[test]
fn the_pumps_worker_cannot_be_detached() {
    watched(|| {
        let hive = Builder::new().io_workers(2).hive().unwrap();
        let ui = hive.workers()[0].id;
        let (mut pump, _) = counted(hive);
        let error = pump.handle().detach(ui).wait().unwrap_err();
        assert!(matches!(error, filch::DetachError::Main), "{error}");
        pump.handle().post_to(ui, || ()).unwrap();
        assert_eq!(pump.run(LONG), Pumped::Idle);
    });
}

/// A hive that counts up to 20 on the thread that pumps it, with a computation between any two.
fn counting() -> (Pump, Arc<AtomicUsize>) {
    let hive = Builder::new().io_workers(1).compute_workers(1).hive().unwrap();
    let ui = hive.workers()[0].id;
    let (pump, _) = counted(hive);
    let done = Arc::new(AtomicUsize::new(0));
    let count = done.clone();
    let program = pump.handle().spawn_to(ui, move || async move {
        let here = std::thread::current().id();
        for i in 1..=20 {
            count.store(filch::cpu(move || i).await, Ordering::SeqCst);
            assert_eq!(std::thread::current().id(), here);
        }
    });
    drop(program.unwrap());
    (pump, done)
}

#[test]
fn two_pumps_take_turns_on_one_thread() {
    watched(|| {
        let ((mut a, a_done), (mut b, b_done)) = (counting(), counting());
        while a_done.load(Ordering::SeqCst) < 20 || b_done.load(Ordering::SeqCst) < 20 {
            assert_ne!(a.run(MS), Pumped::Stopped);
            assert_ne!(b.run(MS), Pumped::Stopped);
        }
        drop(a);
        b.handle().post(|| ()).unwrap();
        assert_eq!(b.run(LONG), Pumped::Idle);
    });
}

#[test]
fn a_task_in_a_frame_pumps_a_hive_of_its_own() {
    watched(|| {
        let hive = Builder::new().io_workers(1).hive().unwrap();
        let ui = hive.workers()[0].id;
        let (mut pump, _) = counted(hive);
        let (send, ran) = mpsc::channel();
        let nested = move || {
            let outer = worker::current().unwrap().id();
            let (mut inner, done) = counting();
            while done.load(Ordering::SeqCst) < 20 {
                assert_ne!(inner.run(MS), Pumped::Stopped);
            }
            inner.finish(Shutdown::Drain);
            send.send(worker::current().unwrap().id() == outer).unwrap();
        };
        pump.handle().post_to(ui, nested).unwrap();
        assert_eq!(pump.run(LONG), Pumped::Idle);
        assert!(receive(&ran));
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_callers_thread_goes_before_who_computes_while_it_is_the_main_worker() {
    use crate::support::slice;
    watched(|| {
        let own = slice();
        let hive = || Builder::new().io_workers(1).compute_workers(1);
        let (mut pump, _) = counted(hive().hive().unwrap());
        let described = pump.handle().describe().slices;
        let lent = if described.starts_with("0.1 ms") { 100_000 } else { own };
        assert_eq!(slice(), lent, "{described}");
        let _ = pump.run(LONG);
        assert_eq!(slice(), lent, "between frames, too");
        let (other, _) = counted(hive().hive().unwrap());
        drop(pump);
        assert_eq!(slice(), lent, "the other one goes on");
        drop(other);
        assert_eq!(slice(), own);

        let (pump, _) = counted(hive().lane_slices(false).hive().unwrap());
        assert_eq!(slice(), own);
        drop(pump);

        let hive = hive().hive().unwrap();
        let (send, seen) = mpsc::channel();
        let (ui, handle) = (hive.workers()[0].id, hive.handle());
        let tell = move || {
            send.send(slice()).unwrap();
            handle.request_stop();
        };
        hive.post_to(ui, tell).unwrap();
        hive.run().unwrap();
        assert_eq!((receive(&seen), slice()), (lent, own));
    });
}

#[test]
fn a_pump_in_a_simulation_serves_posts_timers_and_results_under_many_schedules() {
    Sim::new().check(0..300, || {
        let hive = Builder::new().io_workers(2).compute_workers(1).io_spares(1).hive().unwrap();
        let ui = hive.workers()[0].id;
        let bell = Arc::new((Mutex::new(false), Condvar::new()));
        let rung = bell.clone();
        let wake = move || {
            *rung.0.lock().unwrap() = true;
            rung.1.notify_all();
        };
        let mut pump = hive.pump(wake).unwrap();
        let (handle, other) = (pump.handle().clone(), pump.handle().clone());
        let program = pump.handle().spawn_to(ui, move || async move {
            filch::time::sleep(Duration::from_micros(50)).await;
            assert_eq!(filch::cpu(|| 3).await, 3);
            let posted = handle.post_delayed(Duration::from_micros(20), || 4).unwrap();
            assert_eq!(posted.await, 4);
            handle.request_shutdown(Shutdown::Drain);
        });
        drop(program.unwrap());
        let poster = filch::testkit::spawn_thread(move || {
            for _ in 0..5 {
                let _ = other.post_to(ui, || ());
                let _ = other.post(|| ());
            }
        });
        while pump.run(Duration::from_micros(10)) != Pumped::Stopped {
            let mut rung = bell.0.lock().unwrap();
            while !*rung {
                rung = bell.1.wait(rung).unwrap();
            }
            *rung = false;
        }
        poster.join().unwrap();
        assert!(pump.finish(Shutdown::Drain).unfinished.is_empty());
    });
}

#[test]
fn delayed_posts_for_anybody_need_no_frame() {
    watched(|| {
        let hive = Builder::new().io_workers(2).hive().unwrap();
        let (pump, _) = counted(hive);
        let (send, ran) = mpsc::channel();
        for i in 0..32 {
            let send = send.clone();
            drop(pump.handle().post_delayed(MS, move || send.send(i).unwrap()).unwrap());
        }
        let mut all: Vec<_> = (0..32).map(|_| receive(&ran)).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..32), "each once, and no frame was pumped");
        drop(pump);
    });
}

#[test]
fn a_worker_that_waits_for_a_post_is_replaced_though_no_frame_comes() {
    Sim::new().check(0..200, || {
        let hive = Builder::new().io_workers(2).io_spares(1).hive().unwrap();
        let other = hive.workers()[1].id;
        let (pump, _) = counted(hive);
        let (open, gate) = filch::sync::oneshot::channel();
        let (end, ended) = filch::sync::oneshot::channel();
        let wait = move || end.send(gate.blocking_recv().unwrap()).unwrap();
        pump.handle().post_to(other, wait).unwrap();
        // The pump rests, and nobody pumps it.
        pump.handle().post(move || open.send(7).unwrap()).unwrap();
        assert_eq!(ended.blocking_recv().unwrap(), 7);
        drop(pump);
    });
}

#[test]
fn delayed_posts_that_were_made_before_a_pump_need_no_frame_of_it() {
    watched(|| {
        let hive = Builder::new().io_workers(2).compute_workers(1).hive().unwrap();
        // Chance picks the wheel: of so many some would lie in that of the worker that is pumped.
        let posts: Vec<_> = (0..64).map(|i| hive.post_delayed(MS, move || i).unwrap()).collect();
        let pump = hive.pump(|| ()).unwrap();
        assert_eq!(pump.handle().snapshot().workers[0].timers, 0);
        assert_eq!(filch::wait_all(posts), (0..64).collect::<Vec<_>>());
    });
}

#[test]
fn a_pump_knows_when_its_next_timer_is_due() {
    watched(|| {
        let clock = Arc::new(ManualClock::new());
        let builder = Builder::new().io_workers(1).clock(Clock::Manual(clock.clone()));
        let (mut pump, asked) = counted(builder.hive().unwrap());
        assert_eq!(pump.next_deadline(), None);
        let begin = clock.now();
        let late = pump.handle().post_delayed(9 * MS, || ()).unwrap();
        let soon = pump.handle().post_delayed(5 * MS, || ()).unwrap();
        assert_eq!(pump.run(LONG), Pumped::Idle);
        assert_eq!(pump.next_deadline(), Some(begin + 5 * MS));
        let frames = asked.load(Ordering::SeqCst);
        clock.advance(5 * MS);
        assert!(asked.load(Ordering::SeqCst) > frames, "the callback is called, too");
        assert_eq!(pump.run(LONG), Pumped::Idle);
        assert!(soon.is_finished());
        assert_eq!(pump.next_deadline(), Some(begin + 9 * MS));
        clock.advance(4 * MS);
        assert_eq!(pump.run(LONG), Pumped::Idle);
        assert!(late.is_finished());
        assert_eq!(pump.next_deadline(), None);
    });
}
