//! A pause before the next try, longer each time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::io::descriptor::Descriptor;
use crate::io::engine::Engine;
use crate::io::op::{Op, Operation};
use crate::io::request::Request;
use crate::io::slots::{Completion, Late};
use crate::io::sys;

/// The first pause, and the longest. Guessed.
const FIRST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(100);

/// A time that passes.
pub(super) struct Pause(Box<libc::timespec>);

struct LatePause(#[expect(dead_code, reason = "held, not used")] Box<libc::timespec>);

// SAFETY: the time is on the heap, and the late one keeps it.
unsafe impl Operation for Pause {
    type Output = ();

    fn request(&mut self) -> Request {
        Request::Pause { time: &raw const *self.0 }
    }

    fn descriptor(&self) -> Option<&Descriptor> {
        None
    }

    fn finish(self, _: Completion) {}

    fn into_late(self) -> Box<dyn Late> {
        Box::new(LatePause(self.0))
    }
}

impl Late for LatePause {
    fn finish(self: Box<Self>, _: Completion) {}
}

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
        error.raw_os_error().is_some_and(|errno| short.contains(&errno))
    }

    pub(super) fn pause<'e>(&mut self, engine: &'e Arc<Engine>) -> Op<'e, Pause> {
        let next = LONGEST.min(2 * self.0);
        let time = sys::timespec(std::mem::replace(&mut self.0, next)).expect("a short time");
        Op::new(engine, Pause(Box::new(time)))
    }
}
