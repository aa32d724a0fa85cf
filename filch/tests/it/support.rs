//! What the tests have in common: runtimes that keep their panics, gates, and things that count
//! how often they are dropped.

use std::cell::Cell;
use std::future::Future;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};

use filch::{Role, Runtime, Shutdown, ShutdownReport, WorkerInfo};

thread_local! {
    static ROLE: Cell<Option<Role>> = const { Cell::new(None) };
}

pub fn remember_role(worker: WorkerInfo) {
    ROLE.set(Some(worker.role));
}

/// What kind of worker this thread is, if it is one.
pub fn role() -> Option<Role> {
    ROLE.get()
}

/// A runtime, and the panics that reached its hook.
pub struct Rig {
    runtime: Runtime,
    uncollected: Arc<Mutex<Vec<String>>>,
}

impl Deref for Rig {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

impl Rig {
    pub fn new(runtime: Runtime, uncollected: Arc<Mutex<Vec<String>>>) -> Self {
        Self { runtime, uncollected }
    }

    /// What reached the hook so far, in order.
    pub fn uncollected(&self) -> Vec<String> {
        self.uncollected.lock().unwrap().clone()
    }

    /// Ends the runtime when all tasks have run, and says what reached the hook.
    pub fn drain(self) -> Vec<String> {
        let report = self.runtime.shutdown(Shutdown::Drain);
        assert!(report.unfinished.is_empty());
        let uncollected = self.uncollected.lock().unwrap();
        uncollected.clone()
    }

    pub fn shutdown(self, how: Shutdown) -> ShutdownReport {
        self.runtime.shutdown(how)
    }

    /// Whether both lanes still run tasks, on every worker that is left.
    pub fn assert_alive(&self) {
        let sum: usize = self.block_on(async {
            let futures: Vec<_> = (0..64).map(|i| filch::spawn(async move { i })).collect();
            let jobs: Vec<_> = (0..64).map(|i| filch::spawn_fn(move || i)).collect();
            let (a, b) = filch::wait_async((futures, jobs)).await;
            a.into_iter().chain(b).sum()
        });
        assert_eq!(sum, 2 * 63 * 32);
    }

    /// Runs `test` inside this runtime on a foreign thread, a compute worker and an I/O worker.
    pub fn everywhere(&self, test: impl Fn() + Clone + Send + 'static) {
        assert_eq!(role(), None, "a test runs on no worker");
        self.block_on_fn(test.clone());
        // Awaited, because a thread that waits would run the job itself.
        let job = self.spawn_fn({
            let test = test.clone();
            move || {
                assert_eq!(role(), Some(Role::Compute));
                test();
            }
        });
        self.block_on(job);
        let task = self.spawn(async move {
            assert_eq!(role(), Some(Role::Io));
            test();
        });
        self.block_on(task);
    }
}

/// Counts how often its tokens were dropped.
#[derive(Clone, Default)]
pub struct Drops(Arc<AtomicUsize>);

/// See [`Drops`].
pub struct Token(Arc<AtomicUsize>);

impl Drops {
    pub fn token(&self) -> Token {
        Token(self.0.clone())
    }

    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A token whose drop takes its time, so that whoever does not wait for it is caught.
pub struct SlowToken(#[allow(dead_code, reason = "it is there to be dropped")] Token);

impl Drops {
    pub fn slow_token(&self) -> SlowToken {
        SlowToken(self.token())
    }
}

impl Drop for SlowToken {
    fn drop(&mut self) {
        for _ in 0..40 {
            std::thread::yield_now();
        }
    }
}

/// Something that tasks await and threads wait for, until it is opened.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Default)]
struct GateState {
    open: bool,
    wakers: Vec<Waker>,
}

impl Gate {
    pub fn open(&self) {
        let mut state = self.0.0.lock().unwrap();
        state.open = true;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.0.1.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub fn is_open(&self) -> bool {
        self.0.0.lock().unwrap().open
    }

    /// Blocks the thread, as a lock or a system call would.
    pub fn block(&self) {
        let mut state = self.0.0.lock().unwrap();
        while !state.open {
            state = self.0.1.wait(state).unwrap();
        }
    }

    /// How many wait in an await.
    pub fn waiters(&self) -> usize {
        self.0.0.lock().unwrap().wakers.len()
    }
}

impl Future for Gate {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.0.lock().unwrap();
        if state.open {
            return Poll::Ready(());
        }
        state.wakers.push(cx.waker().clone());
        Poll::Pending
    }
}

/// Polls until it holds; the watchdog bounds it. It soon leaves the core to others: they are who
/// makes it hold.
pub fn until(mut condition: impl FnMut() -> bool) {
    let mut looks = 0;
    while !condition() {
        looks += 1;
        match looks {
            ..16 => std::thread::yield_now(),
            _ => std::thread::sleep(std::time::Duration::from_micros(100)),
        }
    }
}

/// The text that `f` panics with.
#[track_caller]
pub fn panic_of<T>(f: impl FnOnce() -> T) -> String {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => panic!("it should have panicked"),
        Err(payload) => text_of(&*payload),
    }
}

/// The text of a panic's payload.
pub fn text_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).expect("a panic with a text")
}

/// A waker that counts.
#[derive(Default)]
pub struct CountingWaker(AtomicUsize);

impl CountingWaker {
    pub fn wakes(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl std::task::Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
