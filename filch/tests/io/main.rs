//! I/O: every test runs on io_uring and on epoll.

mod backend;
mod cancel;
mod copies;
mod datagrams;
mod denied;
mod denied_late;
mod edges;
mod ends;
mod faults;
mod files;
mod files_faults;
mod files_kept;
mod files_order;
mod files_random;
mod given_up;
mod halves;
mod lanes;
mod limits;
mod lines;
mod looks;
mod names;
mod odd;
mod pipes;
mod records;
mod refused;
mod shared;
mod streams;
mod uncopied;
mod unix;

#[allow(dead_code, reason = "shared with the tests of behaviour, which use more of it")]
#[path = "../it/support.rs"]
mod support;
#[allow(dead_code, reason = "as above")]
#[path = "../it/watchdog.rs"]
mod watchdog;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::task::Poll;

use filch::net::{TcpListener, TcpStream};
use filch::{Builder, IoBackend, Runtime};

use crate::watchdog::watched;

/// Makes two tests of each function: one on io_uring, one on epoll. Where the kernel refuses io_uring,
/// the first says so and does nothing.
macro_rules! on_each_backend {
    ($($(#[$meta:meta])* fn $name:ident($on:ident) $body:block)*) => {$(
        mod $name {
            #[allow(unused_imports, reason = "not every test needs all")]
            use super::*;

            fn situation($on: crate::On) $body

            $(#[$meta])*
            #[test]
            fn uring() {
                if crate::On::uring_is_there() {
                    crate::run(filch::IoBackend::Uring, situation);
                }
            }

            $(#[$meta])*
            #[test]
            fn epoll() {
                crate::run(filch::IoBackend::Epoll, situation);
            }
        }
    )*};
}
pub(crate) use on_each_backend;

/// The backend that a test runs on.
#[derive(Clone, Copy)]
pub struct On(IoBackend);

/// Tests that count descriptors run alone.
static ALONE: RwLock<()> = RwLock::new(());

thread_local! {
    static BESIDE: Cell<Option<RwLockReadGuard<'static, ()>>> = const { Cell::new(None) };
}

fn run(backend: IoBackend, situation: fn(On)) {
    watched(move |_| {
        BESIDE.set(Some(ALONE.read().unwrap_or_else(PoisonError::into_inner)));
        situation(On(backend));
        BESIDE.set(None);
    });
}

/// No other test runs beside this one from now on.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    BESIDE.set(None);
    ALONE.write().unwrap_or_else(PoisonError::into_inner)
}

impl On {
    fn uring_is_there() -> bool {
        let there = Builder::new().workers(1).io_backend(IoBackend::Uring).build();
        if let Err(error) = &there {
            eprintln!("\n*** NOT TESTED ON IO_URING: {error} ***\n");
        }
        there.is_ok()
    }

    /// Whether it is io_uring.
    pub fn is_uring(self) -> bool {
        self.0 == IoBackend::Uring
    }

    /// A builder of a runtime with two workers of each kind.
    pub fn builder(self) -> Builder {
        Builder::new().workers(2).io_backend(self.0)
    }

    /// What it builds.
    pub fn runtime(self) -> Runtime {
        self.builder().build().unwrap()
    }

    /// Runs a task on an I/O worker of a fresh runtime.
    pub fn on_worker<F>(self, future: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let runtime = self.runtime();
        let task = runtime.spawn(future);
        runtime.block_on(task)
    }

    /// Runs a future on the test's own thread, which is no worker.
    pub fn off_lane<F: Future>(self, future: F) -> F::Output {
        self.runtime().block_on(future)
    }
}

/// Both ends of a connection.
pub async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let client = TcpStream::connect(listener.local_addr()?).await?;
    let (server, peer) = listener.accept().await?;
    assert_eq!(peer, client.local_addr()?);
    Ok((client, server))
}

/// Polls once.
pub async fn poll_once<F: Future + ?Sized>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// Polls once and expects that it is not ready.
pub async fn begin<F: Future + ?Sized>(future: Pin<&mut F>) {
    assert!(poll_once(future).await.is_pending());
}

/// Bytes that tell their place.
pub fn pattern(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect()
}

/// Open descriptors of this process.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Bytes that are allocated and not freed.
pub fn allocated() -> usize {
    LIVE.load(Ordering::Relaxed)
}

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Counts bytes.
struct Counting;

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: by the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: by the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: by the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Waits until something that has been sent on the other side is there, and so is what came before.
pub async fn settle(stream: &TcpStream) {
    stream.read(vec![0; 1]).await.0.unwrap();
}

/// Waits for what another thread is about to do.
#[track_caller]
pub fn eventually(done: impl Fn() -> bool) {
    let begin = std::time::Instant::now();
    while !done() {
        assert!(begin.elapsed() < std::time::Duration::from_secs(30), "it never happened");
        std::thread::yield_now();
    }
}
