//! Writes that borrow their bytes, and what else waits for the line.
//!
//! The bytes are written by calls that are made while the future is polled (K1 of `when`), with the line
//! held: so these keep W1, and one that is dropped before its call has succeeded has not happened.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::task::{Poll, ready};

use super::{Extent, FREE, HELD, WriteSide, request};
use crate::base::shim::Ordering;
use crate::io::readiness::Direction;
use crate::io::request::Request;
use crate::io::slots::Completion;
use crate::io::sys;
use crate::io::waiters::Waiter;
use crate::io::waiters::Waits;
use crate::net::calls::Calls;
use crate::net::when::{once, when};

/// The line, held until this is dropped (W1).
struct Turn<'a>(&'a WriteSide);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

/// The header of a message of these bytes, and no address.
fn header(bufs: &[IoSlice<'_>]) -> libc::msghdr {
    // SAFETY: a header of zeroes is a valid one.
    let mut msg: libc::msghdr = unsafe { std::mem::zeroed() };
    msg.msg_iov = bufs.as_ptr().cast_mut().cast();
    msg.msg_iovlen = bufs.len().min(libc::UIO_MAXIOV as usize) as _;
    msg
}

impl WriteSide {
    async fn turn(&self) -> Turn<'_> {
        Waits::at(self).until(|side, who| side.poll_take(who)).await;
        Turn(self)
    }

    fn try_turn(&self) -> io::Result<Turn<'_>> {
        // ORDERING: as in `poll_take`; SeqCst, on failure too, for W5: see `let_go`.
        self.line
            .compare_exchange(FREE, HELD, Ordering::SeqCst, Ordering::SeqCst)
            .map(|_| Turn(self))
            .map_err(|_| io::ErrorKind::WouldBlock.into())
    }

    fn send_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let msg = header(bufs);
        // SAFETY: std promises that a slice of these is one of `iovec`; they are borrowed.
        let result = unsafe { sys::sendmsg(self.descriptor.raw(), &raw const msg, 0) };
        sys::to_io(result).map(|count| count as usize)
    }

    /// Writes what fits of several buffers.
    pub(in crate::net) async fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let _turn = self.turn().await;
        when(&self.descriptor, Direction::Write, || self.send_vectored(bufs)).await
    }

    /// As `write_vectored`, for `futures-io`.
    pub(in crate::net) fn poll_write_vectored(
        &self,
        who: Waiter<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let msg = header(bufs);
        let request = Request::SendMsg { fd: self.descriptor.raw(), msg: &raw const msg, flags: 0 };
        // SAFETY: header and bytes live during the call.
        unsafe { self.poll_request(who, &request) }
    }

    /// Writes what fits now, if nobody else writes.
    pub(in crate::net) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let _turn = self.try_turn()?;
        let request = request(&self.descriptor, bytes, Extent::Some);
        // SAFETY: the bytes are borrowed during the call.
        once(|| sys::to_io(unsafe { request.call() })).map(|count| count as usize)
    }

    /// As `try_write`, of several buffers.
    pub(in crate::net) fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let _turn = self.try_turn()?;
        once(|| self.send_vectored(bufs))
    }

    /// Waits until everything that was begun has gone out.
    pub(in crate::net) async fn settled(&self) {
        drop(self.turn().await);
    }

    /// Shuts the direction after what was begun has gone out.
    pub(in crate::net) fn poll_shut(&self, who: Waiter<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_take(who));
        let _turn = Turn(self);
        Poll::Ready(match self.shut() {
            // There is nothing left to shut: the other side has reset it.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            result => result,
        })
    }

    fn shut(&self) -> io::Result<()> {
        Calls::from(&*self.descriptor).shutdown(Shutdown::Write)
    }

    /// A write has ended within its bytes, and nobody will hear of it (W2). The caller holds the line.
    pub(super) fn cut_off(&self) {
        // A connection that is gone needs no shutting.
        let _ = self.shut();
    }

    /// Shuts the direction as soon as nobody writes (W5).
    pub(in crate::net) fn shut_when_free(&self) {
        // ORDERING: SeqCst, see `let_go`.
        self.shuts.store(true, Ordering::SeqCst);
        // Whoever holds the line now sees it when it lets go.
        drop(self.try_turn());
    }

    pub(super) fn shut_if_wanted(&self) {
        // ORDERING: SeqCst, see `let_go`.
        if self.shuts.load(Ordering::SeqCst) {
            // A connection that is gone needs no shutting.
            let _ = self.shut();
        }
    }
}

/// Sends without a copy (W6).
impl WriteSide {
    /// Bytes from which on a write is sent without a copy, if the kernel can.
    pub(in crate::net) fn set_uncopied(&self, from: usize) {
        // ORDERING: Relaxed, a choice of means.
        self.uncopied.store(from, Ordering::Relaxed);
    }

    pub(in crate::net) fn uncopied(&self) -> usize {
        // ORDERING: Relaxed, a choice of means.
        self.uncopied.load(Ordering::Relaxed)
    }

    /// Whether a write of so many bytes is sent without a copy.
    pub(super) fn is_uncopied(&self, len: usize) -> bool {
        len >= self.uncopied()
    }

    /// A send by the means that its length asks for.
    pub(super) fn as_wished(&self, request: Request) -> Request {
        match request {
            Request::Send { fd, buf, len, flags } if self.is_uncopied(len as usize) => {
                Request::SendUncopied { fd, buf, len, flags }
            }
            request => request,
        }
    }

    /// Learns from a send whether the next one is to be copied. A kernel that cannot send without a copy
    /// has sent nothing: it is asked again, as an interrupted call is.
    pub(super) fn learn(&self, completion: Completion) -> Completion {
        let unable = [libc::ENOBUFS, libc::ENOMEM, libc::EOPNOTSUPP, libc::EINVAL];
        let refused = self.uncopied() != usize::MAX && unable.contains(&-completion.result);
        if refused || completion.was_copied() {
            self.set_uncopied(usize::MAX);
        }
        if refused { Completion { result: -libc::EINTR, flags: 0 } } else { completion }
    }
}
