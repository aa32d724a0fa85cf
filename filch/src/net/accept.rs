//! How connections come in.
//!
//! A1. On a ring one operation accepts again and again; what it has accepted waits, in order, for
//!     whoever calls `accept`, up to a cap. A listener that goes closes what nobody took.
//! A2. A connection that ended before anybody saw it is skipped.
//! A3. When descriptors or memory run out, for the connection or for the driver, `accept` waits a little
//!     longer each time, and goes on when there are some again: an error in every call would make a loop
//!     around it spin. A timer ends each wait, which takes neither. After a second the error output has the
//!     reason.

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, ready};

use super::backoff::{Backoff, Pause};
use super::socket::Socket;
use super::tcp::TcpStream;
use crate::base::shim::Mutex;
use crate::io::cause::{error_of, is_lost};
use crate::io::descriptor::Descriptor;
use crate::io::engine::Ticket;
use crate::io::readiness::Direction;
use crate::io::request::Request;
use crate::io::slots::{CANCELED, Completion, Dispose, Next};
use crate::io::sys;
use crate::io::waiters::{Awaited, WaitId, Waiter, Waits};
use crate::task::budget::poll_counted;

/// Accepted connections that wait for `accept` at most. Guessed.
const CAP: usize = 64;

/// The accepting side of a listener.
pub(super) struct Acceptor {
    pub(super) socket: Socket,
    stream: Mutex<Option<Ticket>>,
}

impl Acceptor {
    pub(super) fn new(socket: Socket) -> Self {
        Self { socket, stream: Mutex::new(None) }
    }

    fn poll_accept(&self, who: Waiter<'_>) -> Poll<io::Result<OwnedFd>> {
        loop {
            let completion = if self.socket.descriptor.tells_readiness() {
                let fd = self.socket.descriptor.raw();
                let call = || (sys::accept(fd), false);
                ready!(self.socket.descriptor.poll_with(Direction::Read, who, call))
            } else {
                match ready!(self.poll_stream(who)) {
                    Ok(completion) => completion,
                    Err(error) => return Poll::Ready(Err(error)),
                }
            };
            match completion.result {
                // SAFETY: the kernel has just made the descriptor, for us alone.
                fd if fd >= 0 => return Poll::Ready(Ok(unsafe { OwnedFd::from_raw_fd(fd) })),
                // The stream was stopped at its cap, or has to move.
                CANCELED if !self.socket.descriptor.tells_readiness() => {}
                // A2.
                error if error == -libc::ECONNABORTED || error == -libc::EINTR => {}
                // So is one that was lost with its ring, if any was.
                error if is_lost(error) => {}
                error => return Poll::Ready(Err(error_of(error))),
            }
        }
    }

    /// The next completion of the stream, which is started if there is none (A1).
    fn poll_stream(&self, who: Waiter<'_>) -> Poll<io::Result<Completion>> {
        let engine = self.socket.descriptor.engine();
        loop {
            let ticket = match self.stream() {
                Ok(ticket) => ticket,
                Err(error) => return Poll::Ready(Err(error)),
            };
            match engine.poll_stream(ticket, who) {
                Next::Item(completion) => return Poll::Ready(Ok(completion)),
                Next::Ended => {
                    let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
                    stream.take_if(|now| *now == ticket);
                }
                Next::Pending | Next::WantsWaker => return Poll::Pending,
            }
        }
    }

    fn stream(&self) -> io::Result<Ticket> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ticket) = *stream {
            return Ok(ticket);
        }
        let request = Request::AcceptMany { fd: self.socket.descriptor.raw() };
        let engine = self.socket.descriptor.engine();
        // SAFETY: the descriptor is kept by us, and then by what we leave behind.
        let (ticket, _) = unsafe { engine.start_stream(&request, CAP) }?;
        Ok(*stream.insert(ticket))
    }
}

impl Acceptor {
    /// Stops accepting, and takes what was accepted and not taken.
    pub(super) async fn stop(&self) -> io::Result<Vec<OwnedFd>> {
        let stream = *self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(ticket) = stream else { return Ok(Vec::new()) };
        let engine = self.socket.descriptor.engine();
        engine.stop_stream(ticket);
        let mut accepted = Vec::new();
        let poll = |_: &Self, who: Waiter<'_>| match engine.poll_stream(ticket, who) {
            Next::Item(completion) => Poll::Ready(Some(completion)),
            Next::Ended => Poll::Ready(None),
            Next::Pending | Next::WantsWaker => Poll::Pending,
        };
        while let Some(completion) = Waits::at(self).until(poll).await {
            if completion.result >= 0 {
                // SAFETY: the kernel has made the descriptor, for us alone.
                accepted.push(unsafe { OwnedFd::from_raw_fd(completion.result) });
            }
        }
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(accepted)
    }
}

impl Awaited for Acceptor {
    fn give_up(&self, id: WaitId) {
        self.socket.descriptor.give_up(id);
        let stream = *self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ticket) = stream {
            self.socket.descriptor.engine().give_up(ticket, id);
        }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        let stream = self.stream.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(ticket) = stream {
            let descriptor = self.socket.descriptor.clone();
            descriptor.engine().clone().abandon_stream(ticket, Arc::new(Unwanted(descriptor)));
        }
    }
}

/// Closes what is accepted for a listener that is gone, and keeps its descriptor until the end.
struct Unwanted(Arc<Descriptor>);

impl Dispose for Unwanted {
    fn dispose(&self, completion: Completion) {
        debug_assert!(self.0.raw() >= 0);
        if completion.result >= 0 {
            // SAFETY: the kernel has just made the descriptor, and nobody else knows of it.
            unsafe { sys::close(completion.result) };
        }
    }
}

/// The next connection; see [`TcpListener::accept`](super::TcpListener::accept) and
/// [`UnixListener::accept`](super::UnixListener::accept).
#[must_use = "futures do nothing unless awaited"]
pub struct Accept<'a, S = TcpStream> {
    waits: Waits<'a, Acceptor>,
    backoff: Backoff,
    /// A3.
    pause: Option<Pause>,
    opens: PhantomData<fn() -> S>,
}

impl<'a, S> Accept<'a, S> {
    pub(super) fn new(acceptor: &'a Acceptor) -> Self {
        let (waits, backoff) = (Waits::at(acceptor), Backoff::new());
        Self { waits, backoff, pause: None, opens: PhantomData }
    }

    /// The next connection, as `open` makes it of a socket; it is not connected if it has ended
    /// already (A2).
    pub(super) fn poll_open<T>(
        &mut self,
        cx: &mut Context<'_>,
        open: fn(Socket) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            let waits = &mut self.waits;
            let poll = |cx: &mut Context<'_>| waits.poll(cx, |at, who| at.poll_accept(who));
            let accepted = ready!(poll_counted(cx, poll));
            let engine = self.waits.at.socket.descriptor.engine();
            match accepted {
                Ok(fd) => match Socket::from_fd(fd, engine).and_then(open) {
                    Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => {}
                    result => return Poll::Ready(result),
                },
                Err(error) if Backoff::is_shortage(&error) => {
                    let what = "`accept` has been waiting for descriptors or memory";
                    self.pause = Some(self.backoff.pause_or_tell(what, &error));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl<S> std::fmt::Debug for Accept<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accept").field("backoff", &self.backoff).finish_non_exhaustive()
    }
}
