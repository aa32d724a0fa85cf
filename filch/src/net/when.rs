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
//! K4. What the call is for may come by another way, of which readiness tells nothing. So whoever asks for that is
//!     asked once the wait has begun, and if something has come, the call is made instead.
//!
//! Not here: operations that are left to the kernel with their buffers (`receive`, `write`).

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::io::cause::is_lost;
use crate::io::descriptor::Descriptor;
use crate::io::engine::Ticket;
use crate::io::op::{Op, Operation};
use crate::io::readiness::Direction;
use crate::io::request::Request;
use crate::io::slots::{Completion, Late};
use crate::io::sys;
use crate::io::waiters::{Waiter, Waits};
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

/// Whether to wait on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goes {
    On,
    /// No: the call comes first (K4).
    Back,
}

/// Waits on a ring until a descriptor is ready, or somebody says that the call comes first (K4).
async fn wait(
    descriptor: &Arc<Descriptor>,
    direction: Direction,
    goes: impl Fn(Option<Ticket>) -> Goes,
) -> io::Result<()> {
    let mut wait = Wait::new(descriptor, direction);
    loop {
        let mut op = Op::new(descriptor.engine(), wait);
        let poll = |cx: &mut Context<'_>| match Pin::new(&mut op).poll(cx) {
            Poll::Ready(over) => Poll::Ready(Some(over)),
            Poll::Pending if goes(op.ticket()) == Goes::Back => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        };
        let Some((over, told)) = poll_fn(poll).await else { return Ok(()) };
        if told.is_called_back() {
            return Ok(());
        }
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
    call: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    when_unless(descriptor, direction, |_| Goes::On, call).await
}

/// As `when`. Whenever it is about to wait, `goes` is asked whether to, with the operation on a ring (K4).
pub(super) async fn when_unless<T>(
    descriptor: &Arc<Descriptor>,
    direction: Direction,
    goes: impl Fn(Option<Ticket>) -> Goes,
    mut call: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    poll_fn(|cx| poll_proceed(cx)).await;
    if descriptor.tells_readiness() {
        return when_told(descriptor, direction, goes, call).await;
    }
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(descriptor, direction, &goes).await?;
            }
            result => return result,
        }
    }
}

/// As `when`, where the kernel tells readiness only.
async fn when_told<T>(
    descriptor: &Arc<Descriptor>,
    direction: Direction,
    goes: impl Fn(Option<Ticket>) -> Goes,
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
    let poll = |at: &Descriptor, who: Waiter<'_>| {
        loop {
            let poll = at.poll_with(direction, who, &mut call);
            if poll.is_ready() || goes(None) == Goes::On {
                return poll;
            }
            match call().0 {
                again if [-libc::EAGAIN, -libc::EINTR].contains(&again) => {}
                result => return Poll::Ready(Completion { result, flags: 0 }),
            }
        }
    };
    Waits::at(&**descriptor).until(poll).await.to_io()?;
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
