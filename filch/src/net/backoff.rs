//! A pause before the next try, longer each time.

use std::io::{self, Write as _};
use std::pin::Pin;
use std::time::Duration;

use crate::io::cause::Cause;
use crate::time::{Sleep, sleep};

/// The first pause, and the longest. Guessed.
const FIRST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(100);

/// Whoever waits longer than this learns the reason. Guessed.
const SILENT: Duration = Duration::from_secs(1);

/// A time that passes, by a timer: a driver may be what is missing.
pub(super) type Pause = Pin<Box<Sleep>>;

/// How long the next pause is.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    /// The sum of all pauses so far.
    waited: Duration,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self { next: FIRST, waited: Duration::ZERO }
    }

    /// Whether an error says that the system has run out of something, and may have it again later.
    pub(super) fn is_shortage(error: &io::Error) -> bool {
        let short = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
        let errno = match Cause::of(error) {
            Some(Cause::Unopened(errno)) => Some(errno),
            _ => error.raw_os_error(),
        };
        errno.is_some_and(|errno| short.contains(&errno))
    }

    /// The next pause.
    pub(super) fn pause(&mut self) -> Pause {
        let pause = self.next;
        self.waited += pause;
        self.next = LONGEST.min(2 * pause);
        Box::pin(sleep(pause))
    }

    /// As [`Backoff::pause`]. The pause that completes a second writes to the error output what is waited
    /// for, and the reason.
    pub(super) fn pause_or_tell(&mut self, what: &str, reason: &io::Error) -> Pause {
        let was_silent = self.waited < SILENT;
        let pause = self.pause();
        if was_silent && self.waited >= SILENT {
            // Not `eprintln`, which panics where there is no such output.
            let _ = writeln!(io::stderr(), "filch: {what} for a second, and goes on: {reason}");
        }
        pause
    }
}
