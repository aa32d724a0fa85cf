//! What keeps an operation from the kernel, in words: errors that no call of the system has answered.
//!
//! C1. Where a completion is a number, a cause is one too, below all error numbers of the system. So it
//!     reaches whoever awaits as what it is, and never as "Operation canceled", which is the answer to those who
//!     asked to cancel.

use std::error::Error;
use std::fmt;
use std::io;

use crate::base::thread::hint;

/// Codes of causes; the system's error numbers end at 4095.
const ENDED: i32 = -10_000;
const NOBODY: i32 = -10_001;
/// The error number is subtracted from these.
const UNOPENED: i32 = -20_000;
const NO_THREAD: i32 = -30_000;
const LOST: i32 = -40_000;

/// Why an operation was not begun, or was ended by nobody who waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The runtime that drives it has ended.
    Ended,
    /// No worker drives I/O.
    Nobody,
    /// The system refused what a driver is made of, with this error number.
    Unopened(i32),
    /// No thread could be started that would make the call, with this error number.
    NoThread(i32),
    /// The ring that it was in flight on was closed before it was heard of, because the system refuses entries
    /// with this error number.
    Lost(i32),
}

impl Cause {
    /// The cause as a completion has it (C1).
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Ended => ENDED,
            Self::Nobody => NOBODY,
            Self::Unopened(errno) => UNOPENED - errno,
            Self::NoThread(errno) => NO_THREAD - errno,
            Self::Lost(errno) => LOST - errno,
        }
    }

    fn of_code(code: i32) -> Option<Self> {
        match code {
            ENDED => Some(Self::Ended),
            NOBODY => Some(Self::Nobody),
            _ if code < LOST => Some(Self::Lost(LOST - code)),
            _ if code < NO_THREAD => Some(Self::NoThread(NO_THREAD - code)),
            _ if code < UNOPENED => Some(Self::Unopened(UNOPENED - code)),
            _ => None,
        }
    }

    /// What an error says, if it is one of these.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }

    /// The error that kept a driver from being opened.
    pub(crate) fn unopened(error: io::Error) -> io::Error {
        match error.raw_os_error() {
            Some(errno) => Self::Unopened(errno).into(),
            None => error,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("the runtime that drives this has ended"),
            Self::Nobody => f.write_str(
                "no worker of the runtime drives I/O: it has none yet, or theirs are the program's event cores",
            ),
            Self::Unopened(errno) => {
                let error = io::Error::from_raw_os_error(*errno);
                write!(f, "the runtime could not open what it drives I/O with: {error}")
            }
            Self::NoThread(errno) => {
                let error = io::Error::from_raw_os_error(*errno);
                let hint = hint(&error);
                write!(f, "no thread could be started for the system call: {error}{hint}")
            }
            Self::Lost(errno) => {
                let error = io::Error::from_raw_os_error(*errno);
                write!(f, "the system denies the ring that this was in flight on ({error}): what came of it is not known")
            }
        }
    }
}

impl Error for Cause {}

impl From<Cause> for io::Error {
    fn from(cause: Cause) -> Self {
        let kind = match cause {
            Cause::Ended | Cause::NoThread(_) | Cause::Lost(_) => io::ErrorKind::Other,
            Cause::Nobody => io::ErrorKind::Unsupported,
            Cause::Unopened(errno) => io::Error::from_raw_os_error(errno).kind(),
        };
        Self::new(kind, cause)
    }
}

/// The error of a negative answer: of the system, or a cause.
pub(crate) fn error_of(answer: i32) -> io::Error {
    debug_assert!(answer < 0);
    Cause::of_code(answer).map_or_else(|| io::Error::from_raw_os_error(-answer), io::Error::from)
}

/// Whether a negative answer says that the operation was lost with its ring.
#[cfg_attr(loom, allow(dead_code, reason = "models meet no system"))]
pub(crate) fn is_lost(answer: i32) -> bool {
    matches!(Cause::of_code(answer), Some(Cause::Lost(_)))
}

/// An error as the answer that stands for it.
pub(crate) fn answer_of(error: &io::Error) -> i32 {
    let known = error.raw_os_error().map(|errno| -errno);
    known.or_else(|| Cause::of(error).map(Cause::code)).unwrap_or(-libc::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_survive_being_numbers() {
        for cause in [
            Cause::Ended,
            Cause::Nobody,
            Cause::Unopened(libc::EMFILE),
            Cause::NoThread(libc::EAGAIN),
            Cause::Lost(libc::EPERM),
        ] {
            let error = error_of(answer_of(&cause.into()));
            assert_eq!(Cause::of(&error), Some(cause));
            assert_eq!(error.to_string(), cause.to_string());
        }
        assert_eq!(error_of(-libc::EPIPE).raw_os_error(), Some(libc::EPIPE));
    }

    #[test]
    fn what_could_not_be_opened_names_the_reason() {
        let text = io::Error::from(Cause::Unopened(libc::EMFILE)).to_string();
        assert!(text.contains("Too many open files"), "{text}");
    }
}
