//! Code of the program that calls back into the library from odd places: hooks, thread locals, event cores, wakers,
//! destructors. None of it leaves a thread with a worker that is gone, or waits for itself.

use std::cell::RefCell;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Wake, Waker};
use std::time::Duration;

use filch::{Adopted, Builder, EventCore, Graph, Handle, NewWorker, Pump, Runtime};
use filch::{Shutdown, join, worker};

use crate::support::{Gate, receive, until, watched};

const MS: Duration = Duration::from_millis(1);

thread_local! {
    static GUARD: RefCell<Option<Adopted>> = const { RefCell::new(None) };
    static PUMP: RefCell<Option<Pump>> = const { RefCell::new(None) };
    static RUNTIME: RefCell<Option<Runtime>> = const { RefCell::new(None) };
}

fn adopting() -> Runtime {
    Builder::new().workers(1).adoptable_threads(8).build().unwrap()
}

fn pump() -> Pump {
    Builder::new().io_workers(1).compute_workers(1).hive().unwrap().pump(|| ()).unwrap()
}

/// The text that `f` panics with.
#[track_caller]
fn panic_of<T>(f: impl FnOnce() -> T) -> String {
    let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else { panic!("it should have panicked") };
    let text = payload.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap()
}

#[test]
fn pump_that_ends_inside_of_its_own_call_panics_and_does_not_wait_for_itself() {
    const INSIDE: &str = "cannot end inside one of its own tasks";
    let ends: [fn(Pump); 4] = [
        drop,
        |pump| drop(pump.finish(Shutdown::Drain)),
        |pump| drop(pump.finish(Shutdown::AbortFor(MS))),
        |mut pump| {
            filch::scope(|_| {
                let _ = pump.run(Duration::ZERO);
                drop(pump);
            });
        },
    ];
    watched(move || {
        for end in ends {
            let (pump, mut other) = (pump(), self::pump());
            let handle = pump.handle().clone();
            let text = panic_of(|| handle.block_on_fn(|| other.enter(|| end(pump))));
            assert!(text.contains(INSIDE), "{text}");
        }
        let pump = pump();
        let handle = pump.handle().clone();
        // Dropped by another panic, it adds none.
        let text = panic_of(|| {
            handle.block_on_fn(|| {
                let _pump = pump;
                panic!("mine");
            })
        });
        assert_eq!(text, "mine");
    });
}

#[test]
fn threads_that_another_runtime_adopts_in_their_start_hook_work_for_their_own() {
    watched(|| {
        // The guard is dropped by the stop hook, by the end of the thread, in a task, or never.
        for dropped_by in 0..4 {
            let other = adopting();
            let (adopts, spawns) = (other.handle(), other.handle());
            let start = move |_| {
                match dropped_by {
                    3 => std::mem::forget(adopts.adopt().unwrap()),
                    _ => GUARD.set(Some(adopts.adopt().unwrap())),
                }
                assert_eq!(join(|| 1, || 2), (1, 2));
                assert_eq!(filch::block_on(async { filch::spawn(async { 3 }).await }), 3);
            };
            let stop = move |_| {
                if dropped_by == 0 {
                    drop(GUARD.take());
                }
                assert_eq!(spawns.spawn_fn(|| 4).wait(), 4);
            };
            let builder = Builder::new().workers(2).thread_name("own");
            let runtime = builder.on_thread_start(start).on_thread_stop(stop).build().unwrap();
            let name = runtime.block_on(runtime.spawn(async move {
                if dropped_by == 2 {
                    drop(GUARD.take());
                    filch::spawn_fn(|| drop(GUARD.take())).await;
                }
                filch::cpu(|| join(|| (), || ())).await;
                Handle::current().config().thread_name.clone()
            }));
            assert_eq!(name, "own");
            drop((runtime, other));
        }
    });
}

/// Dropped with its future; uses what the thread has left.
struct Stubborn;

impl Drop for Stubborn {
    fn drop(&mut self) {
        let spawned = filch::block_on(async { filch::spawn(async {}).outcome().await });
        assert!(spawned.is_err(), "its runtime aborts");
        let _ = GUARD.try_with(RefCell::take);
    }
}

#[test]
fn guards_pumps_and_runtimes_in_thread_locals_end_with_the_thread_in_any_order() {
    watched(|| {
        for order in ["GPR", "GRP", "PGR", "PRG", "RGP", "RPG"] {
            let runtime = Builder::new().workers(1).adoptable_threads(1).build().unwrap();
            let handle = runtime.handle();
            std::thread::spawn(move || {
                for first in order.chars() {
                    match first {
                        'G' => GUARD.with(|_| ()),
                        'P' => PUMP.with(|_| ()),
                        _ => RUNTIME.with(|_| ()),
                    }
                }
                let (adopted, mut pump) = (handle.adopt().unwrap(), pump());
                let never = async {
                    let _stubborn = Stubborn;
                    pending::<()>().await;
                };
                pump.enter(|| filch::spawn_local(never).detach());
                let _ = pump.run(MS);
                RUNTIME.set(Some(adopting()));
                GUARD.set(Some(adopted));
                PUMP.set(Some(pump));
            })
            .join()
            .unwrap();
            drop(runtime.adopt().expect("the place is free"));
        }
    });
}

#[test]
fn guard_in_a_pinned_future_ends_when_a_hive_on_top_of_it_drops_that() {
    let ends = [Shutdown::Abort, Shutdown::Drain, Shutdown::AbortFor(1000 * MS)];
    watched(move || {
        for how in ends.into_iter().chain([Shutdown::DrainFor(MS)]) {
            let runtime = Builder::new().workers(1).adoptable_threads(1).build().unwrap();
            let (adopted, mut pump) = (runtime.adopt().unwrap(), pump());
            let body = async move {
                let _adopted = adopted;
                if how != Shutdown::Drain {
                    pending::<()>().await;
                }
            };
            pump.enter(|| filch::spawn_local(body).detach());
            let _ = pump.run(MS);
            pump.finish(how);
            assert!(worker::current().is_none());
            drop(runtime.adopt().expect("the place is free"));
        }
    });
}

/// What an event core does to other runtimes, and to its own without waiting for it.
fn mischief(other: &Handle, turn: usize) {
    match turn % 10 {
        0 => assert_eq!(other.spawn_fn(|| 1).wait(), 1),
        1 => assert_eq!(join(|| 1, || 2), (1, 2)),
        2 => other.block_on(async { filch::spawn(async {}).await }),
        3 => {
            let runtime = adopting();
            drop(runtime.adopt());
            runtime.block_on(async { filch::cpu(|| ()).await });
        }
        4 => {
            let mut pump = pump();
            pump.enter(|| filch::spawn_local(async {}).detach());
            let _ = pump.run(MS);
        }
        5 => {
            let mut graph = Graph::new();
            let _ = graph.node("node", || ());
            graph.run();
        }
        6 => {
            let hive = Builder::new().workers(1).hive().unwrap();
            let handle = hive.handle();
            hive.post(move || handle.request_stop()).unwrap();
            hive.run().unwrap();
        }
        7 => drop((worker::post_self(|| ()), worker::post_local(|| ()))),
        8 => drop(catch_unwind(|| filch::spawn_local(async {}).detach())),
        _ => drop(other.adopt()),
    }
}

/// A core that makes mischief in each of its functions, in its waker, and when it is dropped.
struct Restless {
    turn: usize,
    other: Handle,
    bell: mpsc::Sender<()>,
    bells: mpsc::Receiver<()>,
}

struct RestlessBell(mpsc::Sender<()>, Handle, AtomicUsize);

impl Restless {
    fn new(other: &Handle) -> Self {
        let (bell, bells) = mpsc::channel();
        Self { turn: 0, other: other.clone(), bell, bells }
    }
}

impl EventCore for Restless {
    fn poll(&mut self) -> usize {
        let turn = self.turn;
        self.turn += 1;
        if turn < 20 {
            mischief(&self.other, turn);
        }
        usize::from(turn < 20)
    }

    fn park(&mut self, timeout: Option<Duration>) {
        self.turn += 1;
        if self.turn < 40 {
            return mischief(&self.other, [0, 2, 3, 4, 6, 7, 8][self.turn % 7]);
        }
        match timeout {
            None => drop(self.bells.recv()),
            Some(timeout) => drop(self.bells.recv_timeout(timeout)),
        }
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::new(RestlessBell(
            self.bell.clone(),
            self.other.clone(),
            AtomicUsize::new(0),
        )))
    }
}

impl Wake for RestlessBell {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
        // The mischief may wake this core again.
        let turn = self.2.fetch_add(1, Ordering::SeqCst);
        if turn < 10 {
            mischief(&self.1, [0, 2, 3, 4, 6, 8, 9][turn % 7]);
        }
    }
}

impl Drop for Restless {
    fn drop(&mut self) {
        (0..7).for_each(|turn| mischief(&self.other, turn));
    }
}

#[test]
fn event_cores_that_use_other_runtimes_in_every_call_do_no_harm() {
    watched(|| {
        let other = adopting();
        let handle = Mutex::new(other.handle());
        let cores = move |_| Box::new(Restless::new(&handle.lock().unwrap())) as Box<dyn EventCore>;
        let runtime = Builder::new().workers(1).event_core(cores).build().unwrap();
        let round = || async { filch::spawn(async { filch::cpu(|| ()).await }).await };
        (0..50).for_each(|_| runtime.block_on(round()));
        drop(runtime);

        let hive = Builder::new().compute_workers(1).hive().unwrap();
        hive.attach(NewWorker::io().event_core(Restless::new(&other))).unwrap();
        let (handle, adopted) = (hive.handle(), other.adopt().unwrap());
        let user = std::thread::spawn(move || {
            (0..50).for_each(|_| handle.spawn(round()).wait());
            handle.request_stop();
        });
        hive.run().unwrap();
        user.join().unwrap();
        drop(adopted);
        assert!(worker::current().is_none());
    });
}

const KEEP_ALIVE: Duration = Duration::from_millis(10);

/// A core of a spare that spawns once, while that stands by.
struct StandingBy {
    bell: mpsc::Sender<()>,
    bells: mpsc::Receiver<()>,
    spawned: Arc<AtomicBool>,
    ran: mpsc::Sender<()>,
}

struct Bell(mpsc::Sender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

impl StandingBy {
    /// Whether the regular worker is alone in the lane, and this is another one.
    fn stands_by() -> bool {
        let lane = &Handle::current().snapshot().lanes[0];
        std::thread::current().name() == Some("spares-io-1") && lane.awake + lane.asleep == 1
    }
}

impl EventCore for StandingBy {
    fn poll(&mut self) -> usize {
        0
    }

    fn park(&mut self, timeout: Option<Duration>) {
        if Self::stands_by() && !self.spawned.swap(true, Ordering::SeqCst) {
            let ran = self.ran.clone();
            let task = async move {
                filch::yield_now().await;
                ran.send(()).unwrap();
            };
            return filch::spawn_local(task).detach();
        }
        match timeout {
            None => drop(self.bells.recv()),
            Some(timeout) => drop(self.bells.recv_timeout(timeout)),
        }
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::new(Bell(self.bell.clone())))
    }
}

#[test]
fn spare_that_stands_by_stays_for_what_its_core_spawns_on_its_thread() {
    watched(|| {
        let mut config =
            Builder::new().workers(1).max_workers(1).thread_name("spares").resolve().unwrap();
        config.spare_keep_alive = KEEP_ALIVE;
        let (ran, runs) = mpsc::channel();
        let (ran, spawned) = (Mutex::new(ran), Arc::new(AtomicBool::new(false)));
        let cores = move |_| {
            let (bell, bells) = mpsc::channel();
            let (spawned, ran) = (spawned.clone(), ran.lock().unwrap().clone());
            Box::new(StandingBy { bell, bells, spawned, ran }) as Box<dyn EventCore>
        };
        let runtime = Builder::new().config(config).event_core(cores).build().unwrap();
        let (gate, began) = (Gate::default(), Arc::new(AtomicBool::new(false)));
        let (passes, begins) = (gate.clone(), began.clone());
        let stuck = runtime.spawn(async move {
            begins.store(true, Ordering::SeqCst);
            passes.pass();
        });
        until(|| began.load(Ordering::SeqCst));
        // By a spare, which is one too many once the gate is open.
        runtime.spawn(async {}).wait();
        gate.open();
        stuck.wait();
        receive(&runs);
        runtime.shutdown(Shutdown::Drain);
    });
}
