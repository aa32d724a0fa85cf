//! A hang becomes a readable failure.
//!
//! A test runs on a thread of its own. If it has not ended after a while, what its runtimes are
//! doing is printed and the process aborts: threads that wait for each other cannot be unwound.

use std::io::Write;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use filch::{Builder, Handle, Runtime};

use crate::support::{Rig, remember_role};

/// What a test makes its runtimes with, so that they are known when it hangs.
#[derive(Clone, Default)]
pub struct Watchdog {
    runtimes: Arc<Mutex<Vec<Handle>>>,
}

/// How long a test may take. Far more than any needs: a slow machine is no failure.
fn patience() -> Duration {
    let seconds = std::env::var("FILCH_TEST_PATIENCE").ok().and_then(|s| s.parse().ok());
    Duration::from_secs(seconds.unwrap_or(60))
}

/// Runs a test that might hang.
#[track_caller]
pub fn watched(test: impl FnOnce(&Watchdog) + Send + 'static) {
    let dog = Watchdog::default();
    let (ended, end) = mpsc::channel::<()>();
    let thread = std::thread::Builder::new()
        .name(std::thread::current().name().unwrap_or("test").to_owned())
        .spawn({
            let dog = dog.clone();
            move || {
                // Dropped with the frame, also by a panic.
                let _ended = ended;
                test(&dog);
            }
        })
        .expect("a thread for the test");
    if end.recv_timeout(patience()) == Err(RecvTimeoutError::Timeout) {
        dog.bark();
    }
    if let Err(payload) = thread.join() {
        resume_unwind(payload);
    }
}

impl Watchdog {
    /// A runtime with so many workers of each kind, whose uncollected panics are kept.
    pub fn rig(&self, workers: usize) -> Rig {
        self.rig_of(Runtime::builder().workers(workers))
    }

    /// As `rig`, from a builder.
    pub fn rig_of(&self, builder: Builder) -> Rig {
        let uncollected = Arc::new(Mutex::new(Vec::new()));
        let sink = uncollected.clone();
        let runtime = builder
            .on_thread_start(remember_role)
            .on_panic(move |panic| sink.lock().unwrap().push(panic.message().to_owned()))
            .build()
            .expect("a runtime for the test");
        self.runtimes.lock().unwrap().push(runtime.handle());
        Rig::new(runtime, uncollected)
    }

    /// Says what every runtime is doing, and ends the process.
    fn bark(&self) -> ! {
        let name = std::thread::current().name().unwrap_or("the test").to_owned();
        // Written directly: the harness would lose what `eprintln` says before an abort.
        let mut out = std::io::stderr().lock();
        let _ = writeln!(out, "\n{name} hangs");
        for runtime in self.runtimes.lock().unwrap().iter() {
            let _ = writeln!(out, "{}", runtime.describe());
            for task in runtime.tasks() {
                let _ = writeln!(out, "  {task}");
            }
        }
        std::process::abort()
    }
}
