//! Calls that are made when a descriptor is ready for them.
//!
//! K1. The call is made while the future is polled, and at no other time: it may use memory that is
//!     borrowed. Whoever drops the future has lost nothing, because nothing was under way but a
//!     wait.
//! K2. The call comes first and the wait after it: what is ready costs one system call.
//!
//! Not here: operations that are left to the kernel with their buffers (`receive`, `write`).

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use crate::io::descriptor::Descriptor;
use crate::io::op::{Op, Operation};
use crate::io::readiness::Direction;
use crate::io::request::Request;
use crate::io::slots::{Completion, Late};
use crate::io::sys;
use crate::task::budget::poll_proceed;

/// A wait for readiness on a ring.
struct Wait {
    descriptor: Arc<Descriptor>,
    direction: Direction,
}

/// Keeps the descriptor until a wait that nobody needs has ended.
struct LateWait(#[expect(dead_code, reason = "held, not used")] Arc<Descriptor>);

// SAFETY: the request points to nothing; the late one keeps the descriptor.
unsafe impl Operation for Wait {
    type Output = io::Result<u32>;

    fn request(&mut self) -> Request {
        Request::Poll { fd: self.descriptor.raw(), direction: self.direction }
    }

    fn descriptor(&self) -> Option<&Descriptor> {
        None
    }

    fn finish(self, completion: Completion) -> io::Result<u32> {
        completion.to_io()
    }

    fn into_late(self) -> Box<dyn Late> {
        Box::new(LateWait(self.descriptor))
    }
}

impl Late for LateWait {
    fn finish(self: Box<Self>, _: Completion) {}
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
                let wait = Wait { descriptor: descriptor.clone(), direction };
                Op::new(descriptor.engine(), wait).await?;
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
    let completion = poll_fn(|cx| {
        descriptor.poll_with(direction, cx, || match call() {
            Ok(value) => {
                answer = Some(value);
                (0, false)
            }
            Err(error) => (-error.raw_os_error().unwrap_or(libc::EIO), false),
        })
    })
    .await;
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
