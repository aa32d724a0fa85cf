//! Calls that are made when a descriptor is ready for them.
//!
//! K1. The call is made while the future is polled, and at no other time: it may use memory that is
//!     borrowed. Whoever drops the future has lost nothing, because nothing was under way but a
//!     wait.
//! K2. The call comes first and the wait after it: what is ready costs one system call.
//! K3. A ring tells the end of what the other side sends to every wait, also to one for room: while
//!     that side reads slowly, each wait would end at once, and none with room. So the next wait
//!     goes through an epoll descriptor, which tells what it was asked for.
//!
//! Not here: operations that are left to the kernel with their buffers (`receive`, `write`).

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::task::Poll;

use crate::io::cause::is_lost;
use crate::io::descriptor::Descriptor;
use crate::io::op::{Op, Operation};
use crate::io::readiness::Direction;
use crate::io::request::Request;
use crate::io::slots::{Completion, Late};
use crate::io::sys;
use crate::io::waiters::Waits;
use crate::task::budget::poll_proceed;

/// A wait for readiness on a ring.
pub(super) struct Wait {
    descriptor: Arc<Descriptor>,
    direction: Direction,
    /// K3.
    through: Option<OwnedFd>,
}

impl Wait {
    pub(super) fn new(descriptor: &Arc<Descriptor>, direction: Direction) -> Self {
        Self { descriptor: descriptor.clone(), direction, through: None }
    }

    /// The wait that is needed after this one has ended, if it has not told what it was to tell (K3).
    pub(super) fn next(&self, told: Completion) -> Option<io::Result<Self>> {
        let aside = self.direction == Direction::Write && told.result == i32::from(libc::POLLRDHUP);
        aside.then(|| {
            let through = sys::watch_room(self.descriptor.raw())?;
            Ok(Self { through: Some(through), ..Self::new(&self.descriptor, self.direction) })
        })
    }
}

// SAFETY: the request points to nothing; the late one keeps the descriptors.
unsafe impl Operation for Wait {
    type Output = (Self, Completion);

    fn request(&mut self) -> Request {
        match &self.through {
            None => Request::Poll { fd: self.descriptor.raw(), direction: self.direction },
            Some(epoll) => Request::Poll { fd: epoll.as_raw_fd(), direction: Direction::Read },
        }
    }

    fn descriptor(&self) -> Option<&Descriptor> {
        None
    }

    fn finish(self, completion: Completion) -> Self::Output {
        // A wait that was lost with its ring is one that has ended too early.
        let told = if is_lost(completion.result) {
            Completion { result: 0, flags: 0 }
        } else {
            completion
        };
        (self, told)
    }

    fn into_late(self) -> Box<dyn Late> {
        Box::new(self)
    }
}

impl Late for Wait {
    fn finish(self: Box<Self>, _: Completion) {}
}

/// Waits on a ring until a descriptor is ready.
async fn wait(descriptor: &Arc<Descriptor>, direction: Direction) -> io::Result<()> {
    let mut wait = Wait::new(descriptor, direction);
    loop {
        let (over, told) = Op::new(descriptor.engine(), wait).await;
        match over.next(told) {
            Some(next) => wait = next?,
            None => return told.to_io().map(drop),
        }
    }
}

/// Makes a call that does not block, again and again until it does not answer that it would.
pub(super) async fn when<T>(
    descriptor: &Arc<Descriptor>,
    direction: Direction,
    mut call: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    poll_fn(|cx| poll_proceed(cx)).await;
    if descriptor.tells_readiness() {
        return when_told(descriptor, direction, call).await;
    }
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(descriptor, direction).await?;
            }
            result => return result,
        }
    }
}

/// As `when`, where the kernel tells readiness only.
async fn when_told<T>(
    descriptor: &Arc<Descriptor>,
    direction: Direction,
    mut call: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let mut answer = None;
    let mut call = || match call() {
        Ok(value) => {
            answer = Some(value);
            (0, false)
        }
        Err(error) => (-error.raw_os_error().unwrap_or(libc::EIO), false),
    };
    let waits = Waits::at(&**descriptor);
    let completion = waits.until(|at, who| at.poll_with(direction, who, &mut call)).await;
    completion.to_io()?;
    Ok(answer.expect("a call that succeeds answers"))
}

/// Waits until a descriptor is ready.
pub(super) async fn ready(descriptor: &Arc<Descriptor>, direction: Direction) -> io::Result<()> {
    when(descriptor, direction, || sys::to_io(sys::is_ready(descriptor.raw(), direction)))
        .await
        .map(drop)
}

/// Makes a call that does not block, once, whatever signal comes.
pub(super) fn once<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// What a poll that would wait answers to a call that must not.
pub(super) fn at_once<T>(poll: Poll<T>) -> io::Result<T> {
    match poll {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}
