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
//! R7. Nobody sleeps beside bytes that are there. Whatever comes to the stash, or an error of R6, wakes all who wait
//!     for readiness, for the stream or for an abandoned receive. What is in flight on a ring by itself, a receive
//!     or a wait for something to read, is called back, also when a stream begins: its future goes to the start.
//!     Whoever begins to wait looks once more afterwards, or does both under the lock.
//! R8. What is in flight is not counted, but searched for on the drivers where it may be (`io/plain.rs`). So a read that
//!     is in flight looks whether the socket is still plain and its driver known.
//! R9. Bytes that come with a receive that was called back go behind the stash: they may be newer. The order of reads
//!     that are under way at the same time is open.
//! R10. A chunk of a stream is taken, and its rest put into the stash, under one lock: of two who take, none gets
//!     ahead of the other's rest.
//!
//! Not here: the futures (`receive`), looks that take nothing or wait for nothing (`read/look.rs`).

use std::collections::VecDeque;
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::sync::{Arc, PoisonError};
use std::task::{Poll, ready};

use crate::base::shim::{AtomicBool, Mutex, MutexGuard, Ordering};
use crate::io::buffers::Pool;
use crate::io::cause::{answer_of, error_of, is_lost};
use crate::io::descriptor::Descriptor;
use crate::io::engine::Ticket;
use crate::io::plain::{Drivers, Plain, Standing};
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
    /// flight. Written under the lock (R8).
    plain: Plain,
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
    /// Where reads may be in flight by themselves (R8).
    drivers: Drivers,
}

impl State {
    fn standing(&self) -> Standing {
        let nothing = self.stash.is_empty() && self.failed.is_none();
        let plain = nothing && self.abandoned == 0 && self.stream.is_none();
        if plain { Standing::Plain } else { Standing::Special }
    }
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

/// What a read that gives up leaves in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaves {
    Nothing,
    /// A receive (R2).
    Receive,
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
        let (plain, drained) = (Plain::new(), AtomicBool::new(false));
        Self { plain, drained, descriptor, state: Mutex::new(State::default()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_plain(&self) -> bool {
        self.plain.is_plain()
    }

    fn note(&self, state: &State) {
        self.plain.set(state.standing(), state.drivers);
    }

    /// Whether a read that is in flight by itself may stay there (R7, R8).
    pub(super) fn goes_on(&self, ticket: Ticket) -> bool {
        self.plain.is_known(ticket.driver()) || self.goes_on_there(ticket)
    }

    #[cold]
    fn goes_on_there(&self, ticket: Ticket) -> bool {
        let mut state = self.lock();
        let plain = state.standing() == Standing::Plain;
        if plain {
            state.drivers.add(ticket.driver());
            self.note(&state);
        }
        plain
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

    /// A read gives up. What it has received comes before everything else (R1), and what it may still receive, if
    /// it leaves a receive in flight, right behind that (R2). One step: nobody takes the one without knowing of the other.
    pub(super) fn give_up(&self, bytes: &[u8], leaves: Leaves) {
        let mut state = self.lock();
        state.abandoned += usize::from(leaves == Leaves::Receive);
        if bytes.is_empty() {
            self.note(&state);
            return;
        }
        state.stash.push_front(Chunk::from_vec(bytes.to_vec()));
        self.tell(state);
    }

    /// R7, of what was put into the state.
    fn tell(&self, mut state: MutexGuard<'_, State>) {
        let stream = state.stream.as_ref().map(|stream| stream.ticket);
        let waiters = std::mem::take(&mut state.waiters);
        let drivers = std::mem::take(&mut state.drivers);
        self.note(&state);
        drop(state);
        waiters.wake();
        self.descriptor.wake(Direction::Read);
        let engine = self.descriptor.engine();
        if let Some(ticket) = stream {
            engine.wake_stream(ticket);
        }
        engine.call_back_all(self.descriptor.raw(), drivers);
    }

    /// An abandoned receive has ended, with these bytes (R1) or the number of an error (R6).
    pub(super) fn abandoned_ends(&self, bytes: &[u8], error: Option<i32>) {
        let mut state = self.lock();
        state.abandoned -= 1;
        let of_its_own = |errno: &i32| ![libc::ECANCELED, libc::EINTR].contains(errno);
        let error = error.filter(of_its_own);
        state.failed = error.or(state.failed);
        if !bytes.is_empty() {
            state.stash.push_back(Chunk::from_vec(bytes.to_vec()));
        }
        if error.is_some() || !bytes.is_empty() {
            return self.tell(state);
        }
        // Nothing has come: only those who waited for the last of them may go on.
        let last = state.abandoned == 0;
        let waiters = if last { std::mem::take(&mut state.waiters) } else { Waiters::new() };
        self.note(&state);
        drop(state);
        waiters.wake();
    }

    /// A receive that was called back has ended with these bytes (R9), or with an error. Gives the result back if
    /// it may be told at once, because there is nothing before it.
    pub(super) fn comes_back(&self, result: io::Result<&[u8]>) -> Option<io::Result<usize>> {
        let mut state = self.lock();
        match result {
            Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => return None,
            result if state.stash.is_empty() => return Some(result.map(<[u8]>::len)),
            // The end is told again.
            Ok([]) => return None,
            Ok(bytes) => state.stash.push_back(Chunk::from_vec(bytes.to_vec())),
            Err(error) => state.failed = Some(-answer_of(&error)),
        }
        self.tell(state);
        None
    }

    /// What `take` takes of the next chunk of stash or stream, if there is either (R1, R2, R3). The rest is for
    /// the next one. An empty chunk is the end. If there is no stream, one is started that brings what is said.
    fn poll_take<T>(
        &self,
        who: Waiter<'_>,
        starts: Option<Brings>,
        take: impl FnOnce(&mut Chunk) -> T,
    ) -> Poll<Found<T>> {
        // Before the lock, so that it is dropped behind it: a waker is the user's.
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
            let Some(stream) = &state.stream else {
                let Some(brings) = starts else { return Poll::Ready(Found::Nothing) };
                if let Err(error) = self.start_stream(state, brings) {
                    return Poll::Ready(Found::Bytes(Err(error)));
                }
                continue;
            };
            // R7, R10: under the lock.
            match self.descriptor.engine().poll_stream_with(stream.ticket, who, &mut clone) {
                Next::Pending => return Poll::Pending,
                Next::WantsWaker => {
                    drop(state);
                    clone = Some(who.waker().clone());
                }
                Next::Ended => self.end_stream(state, starts),
                Next::Item(completion) => match (completion.result, &stream.pool) {
                    // Stopped at its cap, moved, or interrupted: it has ended.
                    (CANCELED, _) => {}
                    (0.., Some(pool)) => {
                        let mut chunk = pool.chunk(completion).unwrap_or_default();
                        let taken = take(&mut chunk);
                        if !chunk.is_empty() {
                            // No news: whoever waits has been woken by the chunk.
                            state.stash.push_back(std::mem::take(&mut chunk));
                        }
                        drop(state);
                        drop(chunk);
                        return Poll::Ready(Found::Bytes(Ok(taken)));
                    }
                    // Of a stream without buffers only news was lost with the ring.
                    (error, pool)
                        if error < 0
                            && error != -libc::ENOBUFS
                            && (pool.is_some() || !is_lost(error)) =>
                    {
                        let error = error_of(error);
                        return Poll::Ready(Found::Bytes(Err(error)));
                    }
                    // R5. What has told that was the last of it.
                    _ => {
                        let engine = self.descriptor.engine();
                        let ended = engine.poll_stream_with(stream.ticket, who, &mut clone);
                        debug_assert_eq!(ended, Next::Ended);
                        self.end_stream(state, None);
                        return Poll::Ready(Found::NoBuffers);
                    }
                },
            }
        }
    }

    /// The stream has ended. If the next is about to be started, the socket does not become plain in between.
    fn end_stream(&self, mut state: MutexGuard<'_, State>, starts: Option<Brings>) {
        state.stream = None;
        if starts.is_none() {
            self.note(&state);
        }
    }

    /// Bytes of stash or stream, copied (R3). An empty answer is the end.
    pub(super) fn poll_copy(
        &self,
        who: Waiter<'_>,
        into: &mut [MaybeUninit<u8>],
    ) -> Poll<Found<usize>> {
        self.poll_take(who, None, |chunk| chunk.drain_into(into))
    }

    /// As `poll_copy`, a chunk as it is.
    fn poll_chunk(&self, who: Waiter<'_>) -> Poll<Found<Chunk>> {
        self.poll_take(who, None, std::mem::take)
    }

    /// The next chunk, of a stream that is started if there is none.
    pub(super) fn poll_recv(&self, who: Waiter<'_>) -> Poll<io::Result<Chunk>> {
        let calls = self.descriptor.tells_readiness();
        let mut brings = Brings::Chunks;
        loop {
            let found = match calls && self.is_plain() {
                true => Found::Nothing,
                false => {
                    ready!(self.poll_take(who, (!calls).then_some(brings), std::mem::take))
                }
            };
            match found {
                Found::Bytes(result) => return Poll::Ready(result),
                Found::Nothing => {
                    debug_assert!(calls, "a stream is started where there are any");
                    let poll = self.poll_own(who);
                    // R7.
                    if poll.is_ready() || self.is_plain() {
                        return poll;
                    }
                }
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
        let calls = self.descriptor.tells_readiness();
        let mut brings = Brings::Chunks;
        loop {
            let found = match calls && self.is_plain() {
                true => Found::Nothing,
                false => {
                    let take = |chunk: &mut Chunk| chunk.drain_into(into);
                    ready!(self.poll_take(who, (!calls).then_some(brings), take))
                }
            };
            match found {
                Found::Bytes(result) => return Poll::Ready(result),
                Found::Nothing => {
                    debug_assert!(calls, "a stream is started where there are any");
                    let poll = self.poll_receive(who, into);
                    // R7.
                    if poll.is_ready() || self.is_plain() {
                        return poll;
                    }
                }
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

    /// Starts a stream (R4, R7); there is none.
    fn start_stream(&self, mut state: MutexGuard<'_, State>, brings: Brings) -> io::Result<()> {
        let (engine, fd) = (self.descriptor.engine(), self.descriptor.raw());
        let request = match brings {
            Brings::Chunks => Request::RecvMany { fd },
            Brings::News => Request::Poll { fd, direction: Direction::Read },
        };
        // SAFETY: the descriptor is kept by us, and then by what we leave behind.
        let started = unsafe { engine.start_stream(&request, CAP) };
        let mut drivers = Drivers::default();
        let result = started.map(|(ticket, pool)| {
            debug_assert!(pool.is_none() || brings == Brings::Chunks);
            state.stream = Some(Stream { ticket, pool });
            drivers = std::mem::take(&mut state.drivers);
        });
        self.note(&state);
        drop(state);
        engine.call_back_all(fd, drivers);
        result
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
