//! The writing side of a socket: who writes next, and what becomes of a write that nobody waits for.
//!
//! W1. One write at a time holds the line, from its first byte to its last. So writes do not mix, and a
//!     later one starts when the earlier has ended, whether anybody waits for that or not.
//! W2. A write that is dropped before its first byte has not happened. One that is dropped later runs
//!     to its end: what is left of it keeps the line, the bytes and the socket. Only the end of its runtime
//!     cuts it off, and then the direction is shut: nothing may follow half of a message.
//! W3. A line that is let go wakes all who wait for it; the first to come takes it.
//! W4. A write is tried by a call first, because most sockets take it at once; but a worker that
//!     many writes come from collects them for its ring. What does not fit is left to the ring, whole
//!     (`MSG_WAITALL`), or waits for readiness.
//! W5. A handle that goes and takes the direction with it shuts it when the line is free: what a dropped
//!     write has begun still goes out.
//! W6. A write that is sent without a copy keeps its bytes until the kernel has said that it lets go of
//!     them (O7 of `io/slots.rs`). As soon as the kernel says that it has copied after all, or cannot,
//!     the socket's writes are sent with a copy.
//! W7. Tasks that write by `futures-io` through references to one socket share a wait for readiness; its
//!     end wakes them all, because the one that polled last may have given up.

use std::future::Future;
use std::io;
use std::mem::offset_of;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

use super::read::MOST;
use super::socket::{Inner, Socket};
use super::when::Wait;
use crate::base::shim::{AtomicBool, AtomicU32, AtomicUsize, Mutex, OnceLock, Ordering};
use crate::io::IoBuf;
use crate::io::descriptor::Descriptor;
use crate::io::driver::Cancel;
use crate::io::engine::Ticket;
use crate::io::op::{Op, Operation};
use crate::io::readiness::Direction;
use crate::io::request::Request;
use crate::io::slots::{CANCELED, Completion, Late, Polled};
use crate::io::sys;
use crate::io::waiters::{Awaited, SharedWaiters, WaitId, Waiter, Waits};
use crate::task::budget::poll_counted;

mod turn;

/// Nobody writes.
const FREE: u32 = 0;
/// Somebody writes.
const HELD: u32 = 1;
/// Somebody writes, and others wait.
const AWAITED: u32 = 2;

/// The line that writers stand in (W1). Each write needs the fields from `uncopied` on.
#[repr(C)]
pub(crate) struct WriteSide {
    waiters: SharedWaiters,
    /// What writes by `futures-io` need on a ring.
    room: OnceLock<Box<Room>>,
    descriptor: Arc<Descriptor>,
    /// Bytes from which on a write is sent without a copy (W6).
    uncopied: AtomicUsize,
    line: AtomicU32,
    /// Whether the direction is to be shut when the line is free (W5).
    shuts: AtomicBool,
}

impl WriteSide {
    /// The start of what each write needs.
    pub(super) const HOT: usize = offset_of!(Self, uncopied);

    pub(super) fn new(descriptor: Arc<Descriptor>) -> Self {
        let (line, waiters) = (AtomicU32::new(FREE), SharedWaiters::default());
        let (shuts, uncopied) = (AtomicBool::new(false), AtomicUsize::new(usize::MAX));
        Self { line, waiters, descriptor, room: OnceLock::new(), shuts, uncopied }
    }

    /// Takes the line, or waits for it.
    fn poll_take(&self, who: Waiter<'_>) -> Poll<()> {
        // ORDERING: Acquire pairs with the Release in `let_go`: writes are in order. Relaxed on
        // failure, the swap below decides.
        let free =
            self.line.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if free { Poll::Ready(()) } else { self.wait(who) }
    }

    #[cold]
    fn wait(&self, who: Waiter<'_>) -> Poll<()> {
        // ORDERING: Acquire as in `poll_take`. Under the lock, so that who lets go of an AWAITED line
        // finds the waker.
        self.waiters.wait(who, || self.line.swap(AWAITED, Ordering::Acquire) != FREE)
    }

    fn let_go(&self) {
        // ORDERING: Release pairs with the Acquire in `poll_take` and `wait`. SeqCst, as the load in
        // `shut_if_wanted`: together with those in `shut_when_free`, one of the two sides sees the
        // other (W5).
        let before = self.line.swap(FREE, Ordering::SeqCst);
        self.shut_if_wanted();
        if before == AWAITED {
            self.waiters.wake_all();
        }
    }
}

impl Awaited for WriteSide {
    fn give_up(&self, id: WaitId) {
        self.waiters.give_up(id);
    }
}

/// Writes for `futures-io`.
impl WriteSide {
    /// Writes what fits by a call, when it is this write's turn and something does.
    pub(super) fn poll_write(&self, who: Waiter<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let request = request(&self.descriptor, bytes, Extent::Some);
        // SAFETY: the bytes are borrowed during the call.
        unsafe { self.poll_request(who, &request) }
    }

    /// Performs a request that writes, by a call, when it is its turn and the socket takes something.
    ///
    /// # Safety
    /// R1 of `io/request.rs` holds during the call.
    unsafe fn poll_request(&self, who: Waiter<'_>, request: &Request) -> Poll<io::Result<usize>> {
        ready!(self.poll_take(who));
        let written = loop {
            if self.descriptor.tells_readiness() {
                // SAFETY: by the caller's promise.
                break unsafe { self.descriptor.poll_call(request, Direction::Write, who) }
                    .map(Completion::to_io);
            }
            // SAFETY: by the caller's promise.
            let result = unsafe { request.call() };
            match result {
                _ if result == -libc::EINTR => {}
                _ if result != -libc::EAGAIN => break Poll::Ready(sys::to_io(result)),
                _ => match self.poll_ready(who) {
                    Poll::Pending => break Poll::Pending,
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                },
            }
        };
        self.let_go();
        written.map_ok(|count| count as usize)
    }

    /// Waits on a ring until the socket takes something.
    fn poll_ready(&self, who: Waiter<'_>) -> Poll<io::Result<()>> {
        let engine = self.descriptor.engine();
        let room = self.room.get_or_init(Box::default);
        // It waits in any case.
        let _ = room.bell.0.wait(who, || true);
        let waker = Waker::from(room.bell.clone());
        let mut under_way = room.wait.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wait = match under_way.take() {
            None => Wait::new(&self.descriptor, Direction::Write),
            Some((ticket, wait)) => match engine.poll(ticket, &waker) {
                Polled::Pending | Polled::WantsWaker => {
                    *under_way = Some((ticket, wait));
                    return Poll::Pending;
                }
                Polled::Moves => return Poll::Ready(Ok(())),
                Polled::Done(told) => match wait.next(told) {
                    Some(next) => next?,
                    None => return Poll::Ready(told.to_io().map(drop)),
                },
            },
        };
        // SAFETY: it points to nothing; the descriptors are kept by us, and then by what we leave behind.
        let ticket = unsafe { engine.start(&wait.request(), &waker) }?;
        *under_way = Some((ticket, wait));
        Poll::Pending
    }
}

impl Drop for WriteSide {
    fn drop(&mut self) {
        let Some(room) = self.room.get_mut() else { return };
        let under_way = room.wait.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((ticket, wait)) = under_way {
            self.descriptor.engine().abandon(ticket, wait.into_late(), Cancel::Yes);
        }
    }
}

/// A wait until a socket takes something, and who is woken when it ends (W7).
#[derive(Default)]
struct Room {
    wait: Mutex<Option<(Ticket, Wait)>>,
    bell: Arc<Bell>,
}

/// Whom the end of a wait for readiness concerns (W7).
#[derive(Default)]
struct Bell(SharedWaiters);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.wake_all();
    }
}

/// How much a write wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// What fits.
    Some,
    /// Everything.
    All,
}

/// Bytes on their way, of which the first `sent` are gone. Holds the line, and the socket, which it does
/// not borrow: a future that is forgotten must not leave the number of a closed descriptor behind.
struct Send<B> {
    inner: Arc<Inner>,
    buf: B,
    sent: usize,
    extent: Extent,
}

fn request(descriptor: &Descriptor, bytes: &[u8], extent: Extent) -> Request {
    let flags = if extent == Extent::All { libc::MSG_WAITALL } else { 0 };
    let len = bytes.len().min(MOST) as u32;
    Request::Send { fd: descriptor.raw(), buf: bytes.as_ptr(), len, flags }
}

// SAFETY: Q1 of `io/buf.rs`, the bytes stay where they are while the buffer moves; the late one keeps
// the buffer, and the descriptor too.
unsafe impl<B: IoBuf + Unpin> Operation for Send<B> {
    type Output = (Completion, B);

    fn request(&mut self) -> Request {
        let request =
            request(&self.inner.descriptor, &self.buf.as_init()[self.sent..], self.extent);
        self.inner.writes.as_wished(request)
    }

    fn descriptor(&self) -> Option<&Descriptor> {
        Some(&self.inner.descriptor)
    }

    fn finish(self, completion: Completion) -> (Completion, B) {
        (self.inner.writes.learn(completion), self.buf)
    }

    fn into_late(self) -> Box<dyn Late> {
        let Self { inner, buf, sent, extent } = self;
        Box::new(Leftover { inner, buf, sent, extent })
    }

    fn cancels(&self) -> Cancel {
        // W2.
        Cancel::No
    }
}

/// A write that nobody waits for (W2). Holds the line.
struct Leftover<B: IoBuf> {
    inner: Arc<Inner>,
    buf: B,
    sent: usize,
    extent: Extent,
}

impl<B: IoBuf> Leftover<B> {
    fn request(&self) -> Request {
        request(&self.inner.descriptor, &self.buf.as_init()[self.sent..], self.extent)
    }

    /// Goes on with the write; dropped, it lets go of the line.
    fn go_on(self: Box<Self>) {
        let descriptor = self.inner.descriptor.clone();
        if descriptor.tells_readiness() {
            return Arc::new(Pusher(Mutex::new(Some(self)))).push();
        }
        let request = self.request();
        // SAFETY: the leftover keeps what the request points to. Refused, it is dropped: the runtime
        // has ended.
        drop(unsafe { descriptor.engine().start_orphan(&request, self) });
    }

    fn is_done(&self) -> bool {
        self.extent == Extent::Some || self.sent == self.buf.bytes_init()
    }
}

impl<B: IoBuf> Late for Leftover<B> {
    fn finish(mut self: Box<Self>, completion: Completion) {
        let completion = self.inner.writes.learn(completion);
        match usize::try_from(completion.result) {
            Ok(count) => {
                self.sent += count;
                if !self.is_done() {
                    self.go_on();
                }
            }
            // The thread that had submitted it ended; or the runtime did, and refuses it next.
            Err(_) if [CANCELED, -libc::EINTR].contains(&completion.result) => self.go_on(),
            // Nobody is there to hear of it.
            Err(_) => {}
        }
    }
}

impl<B: IoBuf> Drop for Leftover<B> {
    fn drop(&mut self) {
        if self.sent > 0 && !self.is_done() {
            self.inner.writes.cut_off();
        }
        self.inner.writes.let_go();
    }
}

/// Goes on with a leftover whenever the kernel tells that the socket is ready.
struct Pusher<B: IoBuf>(Mutex<Option<Box<Leftover<B>>>>);

impl<B: IoBuf> Pusher<B> {
    fn push(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(leftover) = &mut *slot {
            let (descriptor, request) = (leftover.inner.descriptor.clone(), leftover.request());
            let who = Waiter::nameless(&waker);
            // SAFETY: the leftover keeps the bytes during the call.
            let Poll::Ready(completion) =
                (unsafe { descriptor.poll_call(&request, Direction::Write, who) })
            else {
                // The waker keeps it.
                return;
            };
            leftover.sent += usize::try_from(completion.result).unwrap_or(0);
            if completion.result < 0 || leftover.is_done() {
                let done = slot.take();
                // Whom the line wakes is woken without the lock.
                drop(slot);
                return drop(done);
            }
        }
    }
}

impl<B: IoBuf> Wake for Pusher<B> {
    fn wake(self: Arc<Self>) {
        self.push();
    }
}

/// A write under way; see [`TcpStream::write`](super::TcpStream::write).
#[must_use = "futures do nothing unless awaited"]
pub struct Write<'a, B: IoBuf + Unpin> {
    socket: &'a Socket,
    extent: Extent,
    sent: usize,
    cancelled: bool,
    stage: Stage<'a, B>,
}

enum Stage<'a, B: IoBuf + Unpin> {
    /// Without the line.
    Start(B, Waits<'a, WriteSide>),
    /// With the line.
    Send(Op<'a, Send<B>>),
    Over,
}

impl<'a, B: IoBuf + Unpin> Write<'a, B> {
    pub(super) fn new(socket: &'a Socket, buf: B, extent: Extent) -> Self {
        let stage = Stage::Start(buf, Waits::at(&socket.writes));
        Self { socket, extent, sent: 0, cancelled: false, stage }
    }

    /// Ends the write early: how many bytes are gone is its result, or an error if none is, and the
    /// buffer comes back in any case.
    ///
    /// ```
    /// use std::pin::pin;
    /// use filch::net::{TcpListener, TcpStream};
    /// # filch::block_on(async {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// let write = pin!(client.write_all(b"never".to_vec()));
    /// let (result, buffer) = write.cancel().await; // not even begun
    /// assert!(result.is_err());
    /// assert_eq!(buffer, b"never");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    pub async fn cancel(mut self: Pin<&mut Self>) -> (io::Result<usize>, B) {
        self.cancelled = true;
        if let Stage::Send(op) = &mut self.stage {
            op.cancel();
        }
        self.await
    }

    /// The write has ended, and the line is this write's.
    fn end(&mut self, result: io::Result<usize>, buf: B) -> Poll<(io::Result<usize>, B)> {
        self.socket.writes.let_go();
        self.stage = Stage::Over;
        Poll::Ready((result, buf))
    }

    /// Tries to write by calls (W4); the result if the write has ended.
    fn try_now(&mut self, buf: &B) -> Option<io::Result<usize>> {
        loop {
            let bytes = &buf.as_init()[self.sent..];
            let request = request(&self.socket.descriptor, bytes, self.extent);
            // SAFETY: the bytes are borrowed during the call.
            let result = unsafe { request.call() };
            match result {
                _ if result == -libc::EAGAIN => return None,
                _ if result == -libc::EINTR => {}
                _ => {
                    if let Some(result) = self.advance(result, buf) {
                        return Some(result);
                    }
                }
            }
        }
    }

    /// Takes an answer of the kernel into account; the result if the write has ended.
    fn advance(&mut self, result: i32, buf: &B) -> Option<io::Result<usize>> {
        match sys::to_io(result) {
            Ok(count) => self.sent += count as usize,
            Err(_) if self.cancelled && self.sent > 0 => return Some(Ok(self.sent)),
            // Begun anew, or, if it is not wanted any more, never begun.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                let cancelled = || Err(io::Error::from_raw_os_error(libc::ECANCELED));
                return self.cancelled.then(cancelled);
            }
            Err(error) => return Some(Err(error)),
        }
        let done = self.cancelled || self.extent == Extent::Some || self.sent == buf.bytes_init();
        done.then_some(Ok(self.sent))
    }

    /// Leaves the rest to the ring, or to readiness.
    fn begin_send(&mut self, buf: B) {
        let inner: &'a Arc<Inner> = self.socket;
        let work = Send { inner: inner.clone(), buf, sent: self.sent, extent: self.extent };
        self.stage = Stage::Send(Op::new(inner.descriptor.engine(), work));
    }
}

impl<B: IoBuf + Unpin> Future for Write<'_, B> {
    type Output = (io::Result<usize>, B);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        poll_counted(cx, |cx| self.advance_all(cx))
    }
}

impl<B: IoBuf + Unpin> Write<'_, B> {
    /// Goes as far as it can.
    fn advance_all(&mut self, cx: &mut Context<'_>) -> Poll<(io::Result<usize>, B)> {
        let this = self;
        loop {
            match std::mem::replace(&mut this.stage, Stage::Over) {
                Stage::Start(buf, mut waits) => {
                    if this.cancelled {
                        let error = io::Error::from_raw_os_error(libc::ECANCELED);
                        return Poll::Ready((Err(error), buf));
                    }
                    if waits.poll(cx, |writes, who| writes.poll_take(who)).is_pending() {
                        this.stage = Stage::Start(buf, waits);
                        return Poll::Pending;
                    }
                    let descriptor = &this.socket.descriptor;
                    let ring = !descriptor.tells_readiness()
                        && (this.socket.writes.is_uncopied(buf.bytes_init())
                            || descriptor.engine().prefers_ring());
                    match if ring { None } else { this.try_now(&buf) } {
                        Some(result) => return this.end(result, buf),
                        None => this.begin_send(buf),
                    }
                }
                Stage::Send(mut op) => {
                    let Poll::Ready((completion, buf)) = Pin::new(&mut op).poll(cx) else {
                        this.stage = Stage::Send(op);
                        return Poll::Pending;
                    };
                    match this.advance(completion.result, &buf) {
                        Some(result) => return this.end(result, buf),
                        None => this.begin_send(buf),
                    }
                }
                Stage::Over => panic!("a write was polled after its end"),
            }
        }
    }
}

impl<B: IoBuf + Unpin> Drop for Write<'_, B> {
    /// W2. What is in flight sees to itself; what waits for readiness goes on if it has begun.
    fn drop(&mut self) {
        let op = match &mut self.stage {
            Stage::Send(op) => op,
            Stage::Start(..) | Stage::Over => return,
        };
        let Some(Send { inner, buf, sent, extent }) = op.take_idle() else { return };
        let leftover = Box::new(Leftover { inner, buf, sent, extent });
        if sent > 0 {
            leftover.go_on();
        }
    }
}

impl<B: IoBuf + Unpin> std::fmt::Debug for Write<'_, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Write").field("sent", &self.sent).finish_non_exhaustive()
    }
}
