//! A pause before the next try, longer each time.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use crate::io::cause::Cause;
use crate::time::{Sleep, sleep};

/// The first pause, and the longest. Guessed.
const FIRST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(100);

/// A time that passes, by a timer: a driver may be what is missing.
pub(super) type Pause = Pin<Box<Sleep>>;

/// How long the next pause is.
#[derive(Debug)]
pub(super) struct Backoff(Duration);

impl Backoff {
    pub(super) fn new() -> Self {
        Self(FIRST)
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

    pub(super) fn pause(&mut self) -> Pause {
        let next = LONGEST.min(2 * self.0);
        Box::pin(sleep(std::mem::replace(&mut self.0, next)))
    }
}
