//! Loops of others at their worst: cores and callbacks that panic, that keep the runtime, that come late.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use filch::testkit::FakeCore;
use filch::{
    Builder, EventCore, EventSource, FdSource, Handle, Interest, IoBackend, NewWorker, PollCore,
    Pump, Pumped, SourceId, SourceKind, WatchRefusal, worker,
};

use crate::support::{Drops, Gate, PATIENCE, occupy, receive, until, watched};

const LONG: Duration = Duration::from_secs(100);

#[test]
fn a_polling_core_hears_every_wake_though_wakes_overlap_with_its_hearing() {
    const TURNS: usize = 20_000;
    watched(|| {
        let mut core = PollCore::new().unwrap();
        let (turns, waker) = (Arc::new(AtomicUsize::new(0)), core.waker());
        let ringers: Vec<_> = (0..2)
            .map(|_| {
                let (turns, waker) = (turns.clone(), waker.clone());
                std::thread::spawn(move || {
                    while turns.load(Ordering::Relaxed) < TURNS {
                        waker.wake_by_ref();
                    }
                })
            })
            .collect();
        for _ in 0..TURNS {
            let begin = Instant::now();
            core.park(Some(PATIENCE / 4));
            assert!(begin.elapsed() < PATIENCE / 4, "deaf, though somebody rings all the time");
            turns.fetch_add(1, Ordering::Relaxed);
        }
        ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
    });
}

/// A pump that rests, with another I/O worker that has fallen asleep before it.
fn resting_pump() -> (Pump, Arc<AtomicUsize>) {
    let hive = Builder::new().io_workers(2).io_spares(0).hive().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let mut pump = hive.pump(move || _ = count.fetch_add(1, Ordering::SeqCst)).unwrap();
    let asleep = |pump: &Pump| pump.handle().snapshot().lanes[0].asleep;
    until(|| pump.run(LONG) == Pumped::Idle && asleep(&pump) == 2);
    (pump, asked)
}

fn runs(handle: &Handle) {
    let (send, ran) = mpsc::channel();
    handle.post(move || send.send(()).unwrap()).unwrap();
    receive(&ran);
}

#[test]
fn tasks_for_anybody_do_not_wait_for_the_next_frame_while_another_worker_is_free() {
    watched(|| {
        let (pump, asked) = resting_pump();
        for _ in 0..10 {
            until(|| pump.handle().snapshot().lanes[0].asleep == 2);
            runs(pump.handle());
        }
        assert_eq!(asked.load(Ordering::SeqCst), 0, "nobody needs a frame");
    });
}

#[test]
fn a_frame_that_is_late_keeps_nobody_else_asleep() {
    watched(|| {
        let (pump, asked) = resting_pump();
        let (handle, gate) = (pump.handle().clone(), Gate::default());
        occupy(&handle, handle.workers()[1].id, &gate);
        let (send, ran) = mpsc::channel();
        handle.post(move || send.send(()).unwrap()).unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 1, "nobody else could run it");
        gate.open();
        // Still no frame.
        receive(&ran);
        until(|| handle.snapshot().lanes[0].asleep == 1);
        (0..10).for_each(|_| runs(&handle));
    });
}

#[test]
fn a_pump_that_is_gone_has_dropped_its_callback_though_that_knows_the_runtime() {
    watched(|| {
        let drops = Drops::default();
        let hive = Builder::new().io_workers(1).hive().unwrap();
        let kept = (drops.token(), hive.handle());
        let mut pump = hive.pump(move || _ = &kept).unwrap();
        assert_eq!(pump.run(LONG), Pumped::Idle);
        drop(pump);
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn a_run_that_has_ended_has_dropped_its_cores_and_their_sources() {
    watched(|| {
        let drops = Drops::default();
        let hive = Builder::new().hive().unwrap();
        let mut watchers = Vec::new();
        for _ in 0..2 {
            let core = PollCore::new().unwrap();
            let ui = hive.attach(NewWorker::io().event_core(core)).unwrap();
            let (here, there) = UnixStream::pair().unwrap();
            let kept = (drops.token(), hive.handle());
            let source = FdSource::new(here, Interest::READ, move |_, _| _ = &kept);
            watchers.push((hive.watch(ui, source).unwrap(), there));
        }
        let handle = hive.handle();
        let stop = move || handle.request_stop();
        drop(hive.post_delayed(Duration::from_millis(1), stop).unwrap());
        hive.run().unwrap();
        drop(watchers);
        assert_eq!(drops.count(), 2);
    });
}

#[test]
fn a_callback_that_panics_keeps_no_frame_from_its_tasks() {
    watched(|| {
        let hive = Builder::new().io_workers(1).hive().unwrap();
        let drops = Drops::default();
        // One to be asked for at the start, one that a frame leaves.
        for _ in 0..2 {
            let token = drops.token();
            hive.post(move || drop(token)).unwrap();
        }
        let mut pump = hive.pump(|| panic!("in the callback")).unwrap();
        assert_eq!(pump.run(Duration::ZERO), Pumped::More);
        assert_eq!(pump.run(LONG), Pumped::Idle);
        assert_eq!(drops.count(), 2);
    });
}

#[test]
fn a_handler_of_the_loop_spawns_what_stays_on_its_thread_and_asks_for_a_frame() {
    watched(|| {
        let (mut pump, asked) = resting_pump();
        let (here, state) = (std::thread::current().id(), Rc::new(Cell::new(0)));
        let (of_task, of_post) = (state.clone(), state.clone());
        let program = pump.enter(|| {
            worker::post_self(move || of_post.set(of_post.get() + 1)).unwrap();
            filch::spawn_local(async move {
                filch::yield_now().await;
                assert_eq!(std::thread::current().id(), here);
                of_task.set(of_task.get() + 1);
            })
        });
        assert_eq!((state.get(), asked.load(Ordering::SeqCst)), (0, 1), "not before a frame");
        assert_eq!(pump.run(LONG), Pumped::Idle);
        assert!(program.is_finished());
        assert_eq!(state.get(), 2);
        // A handler that panics leaves the pump as it was.
        let panic = catch_unwind(AssertUnwindSafe(|| pump.enter(|| panic!("in a handler"))));
        panic.unwrap_err();
        assert!(worker::current().is_none());
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        assert_eq!(pump.run(LONG), Pumped::Idle);
        (0..3).for_each(|_| runs(pump.handle()));
    });
}

#[test]
fn tasks_for_anybody_that_a_handler_posts_do_not_wait_for_a_frame() {
    watched(|| {
        let (mut pump, _) = resting_pump();
        let (send, ran) = mpsc::channel();
        let handle = pump.handle().clone();
        pump.enter(|| handle.post(move || send.send(()).unwrap()).unwrap());
        receive(&ran);
    });
}

/// A core whose turns panic now and then.
struct Clumsy {
    core: FakeCore,
    turns: usize,
}

impl Clumsy {
    fn stumble(&mut self) {
        self.turns += 1;
        assert!(!self.turns.is_multiple_of(3), "in a turn of the core");
    }
}

impl EventCore for Clumsy {
    fn poll(&mut self) -> usize {
        self.stumble();
        self.core.poll()
    }

    fn park(&mut self, timeout: Option<Duration>) {
        self.stumble();
        self.core.park(timeout);
    }

    fn waker(&self) -> Waker {
        self.core.waker()
    }
}

#[test]
fn a_core_that_panics_is_survived_by_its_worker() {
    watched(|| {
        let hive = Builder::new().hive().unwrap();
        let clumsy = || Clumsy { core: FakeCore::new(), turns: 0 };
        let ids = [0, 1].map(|_| hive.attach(NewWorker::io().event_core(clumsy())).unwrap());
        let handle = hive.handle();
        let thread = std::thread::spawn(move || drop(hive.run().unwrap()));
        for _ in 0..10 {
            for id in ids {
                let (send, ran) = mpsc::channel();
                handle.post_to(id, move || send.send(()).unwrap()).unwrap();
                receive(&ran);
            }
        }
        handle.request_stop();
        thread.join().unwrap();
    });
}

/// A core that panics when it is given a source.
struct Choosy(FakeCore);

const ANY: SourceKind = SourceKind::new("any");

impl EventCore for Choosy {
    fn poll(&mut self) -> usize {
        self.0.poll()
    }

    fn park(&mut self, timeout: Option<Duration>) {
        self.0.park(timeout);
    }

    fn waker(&self) -> Waker {
        self.0.waker()
    }

    fn source_kind(&self) -> Option<SourceKind> {
        Some(ANY)
    }

    fn add_source(&mut self, _: SourceId, _: Box<dyn EventSource>) -> io::Result<()> {
        panic!("in add_source")
    }
}

struct Anything;

impl EventSource for Anything {
    fn kind(&self) -> SourceKind {
        ANY
    }

    fn registration(&self) -> &dyn Any {
        &()
    }

    fn dispatch(&mut self, _: &dyn Any) {}
}

#[test]
fn a_watcher_whose_source_the_core_panics_at_is_stopped() {
    watched(|| {
        let hive = Builder::new().hive().unwrap();
        let ui = hive.attach(NewWorker::io().event_core(Choosy(FakeCore::new()))).unwrap();
        let watcher = hive.watch(ui, Anything).unwrap();
        let handle = hive.handle();
        let thread = std::thread::spawn(move || drop(hive.run().unwrap()));
        until(|| !watcher.is_started());
        handle.request_stop();
        thread.join().unwrap();
    });
}

#[test]
fn refusals_without_end_are_kept_as_the_first_few_and_a_count() {
    watched(|| {
        let hive = Builder::new().hive().unwrap();
        let ui = hive.attach(NewWorker::io().event_core(Choosy(FakeCore::new()))).unwrap();
        let watcher = hive.watch(ui, Anything).unwrap();
        let handle = hive.handle();
        let thread = std::thread::spawn(move || drop(hive.run().unwrap()));
        let mut before = handle.describe();
        for round in 1..=100 {
            until(|| !watcher.is_started());
            let now = handle.describe();
            assert_eq!(now.refusals.len() + now.more_refusals, round);
            assert!(now.refusals.len() <= 32 && now.refusals.starts_with(&before.refusals));
            before = now;
            watcher.start().unwrap();
        }
        assert!(before.to_string().contains("refused: 68 more"), "{before}");
        handle.request_stop();
        thread.join().unwrap();
    });
}

#[test]
fn a_source_for_a_runtime_that_has_ended_is_handed_back() {
    watched(|| {
        let hive = Builder::new().hive().unwrap();
        let ui = hive.attach(NewWorker::io().event_core(Choosy(FakeCore::new()))).unwrap();
        let handle = hive.handle();
        hive.request_stop();
        hive.run().unwrap();
        let refused = handle.watch(ui, Anything).unwrap_err();
        assert!(matches!(refused.reason, WatchRefusal::Worker(_)), "{refused}");
    });
}

/// A core whose waker panics when it is dropped.
struct Sour(FakeCore);

struct SourWaker(Waker);

impl Wake for SourWaker {
    fn wake(self: Arc<Self>) {
        self.0.wake_by_ref();
    }
}

impl Drop for SourWaker {
    fn drop(&mut self) {
        panic!("in the drop of a core's waker");
    }
}

impl EventCore for Sour {
    fn poll(&mut self) -> usize {
        self.0.poll()
    }

    fn park(&mut self, timeout: Option<Duration>) {
        self.0.park(timeout);
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::new(SourWaker(self.0.waker())))
    }
}

fn sour() -> NewWorker {
    NewWorker::io().event_core(Sour(FakeCore::new()))
}

#[test]
fn a_registered_worker_whose_cores_waker_panics_is_taken_back() {
    watched(|| {
        let hive = Builder::new().io_workers(1).attachable_workers(1).hive().unwrap();
        let id = hive.attach(sour()).unwrap();
        hive.detach(id).wait().unwrap();
        assert_eq!(hive.workers().len(), 1);
        let (next, handle) = (hive.attach(NewWorker::io()).unwrap(), hive.handle());
        hive.post_to(next, move || handle.request_stop()).unwrap();
        hive.run().unwrap();
    });
}

#[test]
fn a_worker_whose_cores_waker_panics_leaves() {
    watched(|| {
        let hive = Builder::new().io_workers(1).attachable_workers(1).hive().unwrap();
        let (id, handle) = (hive.attach(sour()).unwrap(), hive.handle());
        let thread = std::thread::spawn(move || drop(hive.run().unwrap()));
        let (gate, (send, asked)) = (Gate::default(), mpsc::channel());
        // It asks itself, once nobody else has its waker.
        let (pass, own) = (gate.clone(), handle.clone());
        let ask = move || {
            pass.pass();
            send.send(own.detach(id)).unwrap();
        };
        handle.post_to(id, ask).unwrap();
        gate.open();
        receive(&asked).wait().unwrap();
        let (next, stop) = (handle.attach(NewWorker::io()).unwrap(), handle.clone());
        handle.post_to(next, move || stop.request_stop()).unwrap();
        thread.join().unwrap();
    });
}

/// Panics when it is woken.
struct Grumpy;

impl Wake for Grumpy {
    fn wake(self: Arc<Self>) {
        panic!("in the wake of who waits for a socket");
    }
}

#[test]
fn a_registered_worker_whose_sockets_nobody_takes_is_taken_back_though_who_waits_panics() {
    watched(|| {
        let hive = Builder::new().io_backend(IoBackend::Epoll).hive().unwrap();
        hive.attach(NewWorker::io().event_core(FakeCore::new())).unwrap();
        let id = hive.attach(NewWorker::io()).unwrap();
        let handle = hive.handle();
        hive.block_on(async {
            let listener = filch::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut accept = std::pin::pin!(listener.accept());
            let waker = Waker::from(Arc::new(Grumpy));
            assert!(accept.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            handle.detach(id).wait().unwrap();
        });
        assert_eq!(hive.workers().len(), 1);
        hive.request_stop();
        hive.run().unwrap();
    });
}

/// A core without a waker.
struct Mute;

impl EventCore for Mute {
    fn poll(&mut self) -> usize {
        0
    }

    fn park(&mut self, _: Option<Duration>) {}

    fn waker(&self) -> Waker {
        panic!("when a core is asked for its waker")
    }
}

#[test]
fn an_attachment_that_panics_leaves_its_place_as_it_was() {
    watched(|| {
        let hive = Builder::new().io_workers(1).attachable_workers(1).hive().unwrap();
        let mute = || hive.attach(NewWorker::io().event_core(Mute));
        assert!(catch_unwind(AssertUnwindSafe(mute)).is_err());
        let (next, handle) = (hive.attach(NewWorker::io()).unwrap(), hive.handle());
        hive.post_to(next, move || handle.request_stop()).unwrap();
        hive.run().unwrap();
    });
}
