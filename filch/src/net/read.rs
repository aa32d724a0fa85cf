//! The reading side of a socket: whose bytes are these, and in what order?
//!
//! R1. Bytes are returned in the order in which they arrived, each once: what dropped reads have
//!     received (the stash) comes before anything newer.
//! R2. While an abandoned receive is in flight, no other is started: it may still take bytes, and they
//!     come first.
//! R3. A receive goes straight into the caller's buffer, unless the socket has a stream (many receives by
//!     one operation, for `recv` and `futures-io`): then it is copied from a chunk of that.
//! R4. A stream holds at most `CAP` unread chunks, and some that were on their way; then it is stopped,
//!     and the other side is slowed down by TCP. It is started again by who finds it empty.
//! R5. When the kernel finds no free buffer, the receive is made into memory of the socket's own, so
//!     chunks that somebody holds starve nobody. If nothing is there to receive either, the stream is
//!     one that only tells when something is: to ask for buffers again would be answered at once.
//!
//! R6. An error that an abandoned receive has met is told by the next read, behind the stash: the kernel
//!     tells it once, and then the end, which would look as if all had come.
//!
//! R7. Whatever comes to the stash, or an error of R6, wakes all who wait for readiness, for the stream or for an
//!     abandoned receive: it may be what they wait for. Who begins to wait looks at the stash once more
//!     afterwards. Only what is in flight on a ring, a receive or a wait for something to read, is let be: it
//!     ends when the other side sends more.
//!
//! Not here: the futures (`receive`), looks that take nothing or wait for nothing (`read/look.rs`).

use std::collections::VecDeque;
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::sync::{Arc, PoisonError};
use std::task::{Poll, ready};

use crate::base::shim::{AtomicBool, Mutex, MutexGuard, Ordering};
use crate::io::buffers::Pool;
use crate::io::cause::{error_of, is_lost};
use crate::io::descriptor::Descriptor;
use crate::io::engine::Ticket;
use crate::io::readiness::Direction;
use crate::io::request::{First, Request};
use crate::io::slots::{CANCELED, Completion, Dispose, Next};
use crate::io::waiters::{Awaited, WaitId, Waiter, Waiters};
use crate::io::{Chunk, sys};

mod look;

/// Unread chunks of a socket at which its stream is stopped (R4). Guessed.
const CAP: usize = 16;

/// Bytes of a receive into the socket's own memory (R5), and where there are no streams. Guessed.
const OWN: usize = 8 * 1024;

/// Most bytes that one call asks for: the kernel cuts there anyway.
pub(super) const MOST: usize = 1 << 30;

/// What a socket knows about its reads. Each read needs the fields up to `descriptor`.
#[repr(C)]
pub(crate) struct ReadSide {
    /// Whether a read may go straight to the kernel: no stash, no stream, nothing abandoned in
    /// flight. Written under the lock.
    plain: AtomicBool,
    /// Whether the last receive has left nothing behind, as far as is known: the next waits first.
    drained: AtomicBool,
    descriptor: Arc<Descriptor>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Bytes that were received and not returned (R1).
    stash: VecDeque<Chunk>,
    /// Abandoned receives in flight (R2).
    abandoned: usize,
    /// The number of an error that nobody has heard of (R6).
    failed: Option<i32>,
    stream: Option<Stream>,
    /// Who waits for an abandoned receive.
    waiters: Waiters,
}

#[derive(Clone)]
struct Stream {
    ticket: Ticket,
    /// Where its chunks lie; nowhere if it only tells that there is something (R5).
    pool: Option<Arc<Pool>>,
}

/// What a stream brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Brings {
    Chunks,
    /// News that there is something to receive (R5).
    News,
}

/// What a read finds before it asks the kernel.
pub(super) enum Found<T> {
    /// Bytes, an end without any, or an error.
    Bytes(io::Result<T>),
    /// Neither stash nor stream: nothing stands in the way of a receive of its own.
    Nothing,
    /// The stream has found no free buffer, or tells that there is something without one, and ends (R5).
    NoBuffers,
}

impl ReadSide {
    /// The end of what each read needs.
    pub(super) const HOT: usize = offset_of!(Self, descriptor);

    pub(super) fn new(descriptor: Arc<Descriptor>) -> Self {
        // Who connects nearly always speaks first: what it says has come before anybody reads.
        let (plain, drained) = (AtomicBool::new(true), AtomicBool::new(false));
        Self { plain, drained, descriptor, state: Mutex::new(State::default()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_plain(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `note`: who finds it plain comes after who made
        // it so. It becomes special by the caller's own doing, or by a concurrent reader, whose
        // order relative to this read is open.
        self.plain.load(Ordering::Acquire)
    }

    fn note(&self, state: &State) {
        let nothing = state.stash.is_empty() && state.failed.is_none();
        let plain = nothing && state.abandoned == 0 && state.stream.is_none();
        // ORDERING: Release pairs with the Acquire in `is_plain`.
        self.plain.store(plain, Ordering::Release);
    }

    /// What a receive should try first.
    pub(super) fn first(&self) -> First {
        // ORDERING: Relaxed, a guess.
        if self.drained.load(Ordering::Relaxed) { First::Wait } else { First::Try }
    }

    /// Learns from a receive whether the next one will have to wait.
    pub(super) fn learn(&self, completion: Completion, asked: usize) {
        let full = usize::try_from(completion.result).is_ok_and(|count| count == asked);
        let drained = !(full || io_uring::cqueue::sock_nonempty(completion.flags));
        // ORDERING: Relaxed, a guess.
        self.drained.store(drained, Ordering::Relaxed);
    }

    /// Puts bytes before everything else (R1).
    pub(super) fn stash_first(&self, bytes: &[u8]) {
        self.put_back(Chunk::from_vec(bytes.to_vec()));
    }

    /// Puts what is left of a chunk before everything else (R1, R7).
    fn put_back(&self, chunk: Chunk) {
        if !chunk.is_empty() {
            let mut state = self.lock();
            state.stash.push_front(chunk);
            self.note(&state);
            self.tell(state);
        }
    }

    /// R7.
    fn tell(&self, mut state: MutexGuard<'_, State>) {
        let stream = state.stream.as_ref().map(|stream| stream.ticket);
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        waiters.wake();
        self.descriptor.wake(Direction::Read);
        if let Some(ticket) = stream {
            self.descriptor.engine().wake_stream(ticket);
        }
    }

    /// A receive is about to be abandoned in flight (R2).
    pub(super) fn abandons(&self) {
        let mut state = self.lock();
        state.abandoned += 1;
        self.note(&state);
    }

    /// An abandoned receive has ended, with these bytes (R1) or the number of an error (R6).
    pub(super) fn abandoned_ends(&self, bytes: &[u8], error: Option<i32>) {
        let mut state = self.lock();
        state.abandoned -= 1;
        let of_its_own = |errno: &i32| ![libc::ECANCELED, libc::EINTR].contains(errno);
        state.failed = error.filter(of_its_own).or(state.failed);
        if !bytes.is_empty() {
            state.stash.push_back(Chunk::from_vec(bytes.to_vec()));
        }
        self.note(&state);
        self.tell(state);
    }

    /// What `take` takes of the next chunk of stash or stream, if there is either (R1, R2, R3). The rest is for
    /// the next one. An empty chunk is the end.
    fn poll_take<T>(&self, who: Waiter<'_>, take: impl FnOnce(&mut Chunk) -> T) -> Poll<Found<T>> {
        let mut clone = None;
        loop {
            let mut state = self.lock();
            if let Some(chunk) = state.stash.front_mut() {
                let taken = take(chunk);
                let spent = if chunk.is_empty() { state.stash.pop_front() } else { None };
                self.note(&state);
                drop(state);
                drop(spent);
                return Poll::Ready(Found::Bytes(Ok(taken)));
            }
            if state.abandoned > 0 {
                if let Some(waker) = clone.take() {
                    let before = state.waiters.add(who, waker);
                    drop(state);
                    drop(before);
                    return Poll::Pending;
                }
                drop(state);
                // Cloned without the lock: a clone is the user's.
                clone = Some(who.waker().clone());
                continue;
            }
            if let Some(errno) = state.failed.take() {
                self.note(&state);
                return Poll::Ready(Found::Bytes(Err(error_of(-errno))));
            }
            let Some(stream) = state.stream.clone() else { return Poll::Ready(Found::Nothing) };
            drop(state);
            match self.descriptor.engine().poll_stream(stream.ticket, who) {
                Next::Pending | Next::WantsWaker => {
                    let state = self.lock();
                    // R7.
                    if state.stash.is_empty() && state.failed.is_none() {
                        return Poll::Pending;
                    }
                }
                Next::Ended => {
                    let mut state = self.lock();
                    state.stream.take_if(|now| now.ticket == stream.ticket);
                    self.note(&state);
                }
                Next::Item(completion) => match completion.result {
                    // Stopped at its cap, moved, or interrupted: it has ended.
                    CANCELED => {}
                    error if error == -libc::ENOBUFS => return Poll::Ready(Found::NoBuffers),
                    // Only news was lost with the ring.
                    error if stream.pool.is_none() && is_lost(error) => {
                        return Poll::Ready(Found::NoBuffers);
                    }
                    error if error < 0 => {
                        let error = error_of(error);
                        return Poll::Ready(Found::Bytes(Err(error)));
                    }
                    _ => {
                        let Some(pool) = &stream.pool else {
                            return Poll::Ready(Found::NoBuffers);
                        };
                        let mut chunk = pool.chunk(completion).unwrap_or_default();
                        let taken = take(&mut chunk);
                        self.put_back(chunk);
                        return Poll::Ready(Found::Bytes(Ok(taken)));
                    }
                },
            }
        }
    }

    /// Bytes of stash or stream, copied (R3). An empty answer is the end.
    pub(super) fn poll_copy(
        &self,
        who: Waiter<'_>,
        into: &mut [MaybeUninit<u8>],
    ) -> Poll<Found<usize>> {
        self.poll_take(who, |chunk| chunk.drain_into(into))
    }

    /// As `poll_copy`, a chunk as it is.
    fn poll_chunk(&self, who: Waiter<'_>) -> Poll<Found<Chunk>> {
        self.poll_take(who, std::mem::take)
    }

    /// The next chunk, of a stream that is started if there is none.
    pub(super) fn poll_recv(&self, who: Waiter<'_>) -> Poll<io::Result<Chunk>> {
        let calls = self.descriptor.tells_readiness();
        let mut brings = Brings::Chunks;
        loop {
            let found = match calls && self.is_plain() {
                true => Found::Nothing,
                false => ready!(self.poll_chunk(who)),
            };
            match found {
                Found::Bytes(result) => return Poll::Ready(result),
                Found::Nothing if calls => {
                    let poll = self.poll_own(who);
                    // R7.
                    if poll.is_ready() || self.is_plain() {
                        return poll;
                    }
                }
                Found::Nothing => self.start_stream(brings)?,
                Found::NoBuffers => {
                    // R5.
                    let mut bytes = Vec::with_capacity(OWN);
                    match self.receive_now(bytes.spare_capacity_mut()) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            brings = Brings::News;
                        }
                        Err(error) => return Poll::Ready(Err(error)),
                        Ok(count) => {
                            // SAFETY: so many bytes were received.
                            unsafe { bytes.set_len(count) };
                            return Poll::Ready(Ok(Chunk::from_vec(bytes)));
                        }
                    }
                }
            }
        }
    }

    /// Bytes into memory that is the caller's during the call.
    pub(super) fn poll_read(
        &self,
        who: Waiter<'_>,
        into: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        if self.descriptor.tells_readiness() && self.is_plain() {
            let poll = self.poll_receive(who, into);
            // R7.
            if poll.is_ready() || self.is_plain() {
                return poll;
            }
        }
        self.poll_read_ahead(who, into)
    }

    /// As `poll_read`, of stash and stream, which is started if there is none.
    fn poll_read_ahead(
        &self,
        who: Waiter<'_>,
        into: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        let mut brings = Brings::Chunks;
        loop {
            let found =
                if self.is_plain() { Found::Nothing } else { ready!(self.poll_copy(who, into)) };
            match found {
                Found::Bytes(result) => return Poll::Ready(result),
                Found::Nothing if self.descriptor.tells_readiness() => {
                    let poll = self.poll_receive(who, into);
                    // R7.
                    if poll.is_ready() || self.is_plain() {
                        return poll;
                    }
                }
                Found::Nothing => self.start_stream(brings)?,
                // R5.
                Found::NoBuffers => match self.receive_now(into) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        brings = Brings::News;
                    }
                    result => return Poll::Ready(result),
                },
            }
        }
    }

    /// A receive into memory of its own, where the kernel tells readiness only.
    fn poll_own(&self, who: Waiter<'_>) -> Poll<io::Result<Chunk>> {
        let mut bytes = Vec::new();
        let completion = ready!(self.descriptor.poll_with(Direction::Read, who, || {
            bytes.reserve(OWN);
            self.receive(bytes.spare_capacity_mut())
        }));
        let count = completion.to_io()? as usize;
        // SAFETY: so many bytes were received.
        unsafe { bytes.set_len(count) };
        Poll::Ready(Ok(Chunk::from_vec(bytes)))
    }

    #[inline]
    fn poll_receive(
        &self,
        who: Waiter<'_>,
        into: &mut [MaybeUninit<u8>],
    ) -> Poll<io::Result<usize>> {
        let call = || self.receive(into);
        let completion = ready!(self.descriptor.poll_with(Direction::Read, who, call));
        Poll::Ready(completion.to_io().map(|count| count as usize))
    }

    /// A call that does not wait: its answer, and whether it has left nothing behind.
    fn receive(&self, into: &mut [MaybeUninit<u8>]) -> (i32, bool) {
        let len = into.len().min(MOST) as u32;
        // SAFETY: `into` may be written.
        let result = unsafe { sys::recv(self.descriptor.raw(), into.as_mut_ptr().cast(), len, 0) };
        (result, u32::try_from(result).is_ok_and(|count| 0 < count && count < len))
    }

    fn receive_now(&self, into: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        loop {
            match sys::to_io(self.receive(into).0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map(|count| count as usize),
            }
        }
    }

    /// Starts a stream, unless another has (R4).
    fn start_stream(&self, brings: Brings) -> io::Result<()> {
        let mut state = self.lock();
        if state.stream.is_none() {
            let fd = self.descriptor.raw();
            let request = match brings {
                Brings::Chunks => Request::RecvMany { fd },
                Brings::News => Request::Poll { fd, direction: Direction::Read },
            };
            // SAFETY: the descriptor is kept by us, and then by what we leave behind.
            let (ticket, pool) = unsafe { self.descriptor.engine().start_stream(&request, CAP) }?;
            debug_assert!(pool.is_none() || brings == Brings::Chunks);
            state.stream = Some(Stream { ticket, pool });
            self.note(&state);
        }
        Ok(())
    }
}

impl Awaited for ReadSide {
    fn give_up(&self, id: WaitId) {
        self.descriptor.give_up(id);
        let mut state = self.lock();
        let stream = state.stream.as_ref().map(|stream| stream.ticket);
        let waker = state.waiters.remove(id);
        drop(state);
        drop(waker);
        if let Some(ticket) = stream {
            self.descriptor.engine().give_up(ticket, id);
        }
    }
}

impl Drop for ReadSide {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(Stream { ticket, pool }) = state.stream.take() {
            let descriptor = self.descriptor.clone();
            let unread = Arc::new(Unread { descriptor, pool });
            self.descriptor.engine().abandon_stream(ticket, unread);
        }
    }
}

/// Takes the chunks of a socket that is gone, and keeps its descriptor until the end.
struct Unread {
    #[expect(dead_code, reason = "held, not used")]
    descriptor: Arc<Descriptor>,
    pool: Option<Arc<Pool>>,
}

impl Dispose for Unread {
    fn dispose(&self, completion: Completion) {
        drop(self.pool.as_ref().and_then(|pool| pool.chunk(completion)));
    }
}
