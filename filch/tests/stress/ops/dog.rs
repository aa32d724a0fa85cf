//! Says what hangs, and ends the process.

use std::io::Write;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use filch::Handle;

use super::Epoch;

/// An epoch in which nothing happens for so long hangs.
const CALM: Duration = Duration::from_secs(40);

/// Watches over one epoch.
pub struct Dog {
    epoch: &'static Epoch,
    thread: JoinHandle<()>,
}

/// Starts to watch.
pub fn watch(epoch: &'static Epoch, runtimes: Vec<Handle>) -> Dog {
    Dog { epoch, thread: std::thread::spawn(move || sit(epoch, &runtimes)) }
}

fn sit(epoch: &'static Epoch, runtimes: &[Handle]) {
    let (mut last, mut since) = (0, Instant::now());
    while last != usize::MAX {
        std::thread::park_timeout(Duration::from_millis(100));
        let steps = epoch.steps.load(SeqCst);
        if steps != last {
            (last, since) = (steps, Instant::now());
        }
        if since.elapsed() > CALM || epoch.failures.load(SeqCst) > 0 {
            bark(epoch, runtimes);
        }
    }
}

impl Dog {
    /// The epoch is over.
    pub fn leave(self) {
        self.epoch.steps.store(usize::MAX, SeqCst);
        self.thread.thread().unpark();
        self.thread.join().unwrap();
    }
}

fn bark(epoch: &Epoch, runtimes: &[Handle]) -> ! {
    // Written directly: the harness would lose what `eprintln` says before an abort.
    let mut out = std::io::stderr().lock();
    let _ = writeln!(
        out,
        "\nepoch {} hangs, or {} actors have panicked; {} of {} have ended; reproduce with \
         FILCH_SEED_STRESS={}",
        epoch.number,
        epoch.failures.load(SeqCst),
        epoch.ended.load(SeqCst),
        epoch.begun.load(SeqCst),
        epoch.seed,
    );
    for runtime in runtimes {
        let _ = writeln!(out, "{}", runtime.describe());
        for task in runtime.tasks() {
            let _ = writeln!(out, "  {task}");
        }
    }
    std::process::abort()
}
