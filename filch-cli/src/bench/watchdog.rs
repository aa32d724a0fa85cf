//! Watchdog: a sample that hangs ends the program with its name instead of freezing the suite.
//!
//! Each sample has a thread of its own that sleeps until the sample is over, so none runs while
//! one is measured.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a sample may take; guessed, two orders above the slowest.
const LIMIT: Duration = Duration::from_secs(120);

/// The sample is over when this goes.
#[must_use]
pub struct Watch(Option<(Sender<()>, JoinHandle<()>)>);

/// Aborts the process if the result lives for longer than the limit.
pub fn watch(what: String) -> Watch {
    watch_for(LIMIT, move || {
        eprintln!("filch bench: no end after {} s: {what}", LIMIT.as_secs());
        std::process::abort();
    })
}

fn watch_for(limit: Duration, on_timeout: impl FnOnce() + Send + 'static) -> Watch {
    let (alive, over) = mpsc::channel();
    let thread = thread::spawn(move || {
        if over.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            on_timeout();
        }
    });
    Watch(Some((alive, thread)))
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some((alive, thread)) = self.0.take() {
            drop(alive);
            thread.join().expect("the watchdog does not panic");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::watch_for;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn a_sample_past_the_limit_is_reported() {
        let (report, reported) = mpsc::channel();
        let _watch = watch_for(Duration::from_millis(1), move || report.send(()).unwrap());
        assert_eq!(reported.recv(), Ok(()));
    }

    #[test]
    fn a_sample_that_ends_is_not_reported() {
        let (report, reported) = mpsc::channel::<()>();
        drop(watch_for(Duration::from_secs(600), move || report.send(()).unwrap()));
        assert!(reported.recv().is_err(), "the reporter is gone without a report");
    }
}
