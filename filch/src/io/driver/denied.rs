//! A driver whose ring may not be entered any more (V8): new operations by calls when descriptors are ready, and what is in
//! flight on the ring until it has ended.
//!
//! N1. Only the owner's refusal counts. Another thread that is denied leaves the ring to its owner, whose filter
//!     may be another: such filters hold for threads.
//! N2. What was queued and never submitted has not happened: it begins anew, by calls. That is known only while
//!     nobody is in the kernel with the ring.
//! N3. What is in flight is cancelled at once, if the kernel takes that without an entry, and begins anew unless it has
//!     happened. Otherwise it goes on, and its result is read from shared memory (U6 of `uring`).
//! N4. If it cannot be cancelled when it has to be, the ring is closed with all that is in flight. These operations are told as
//!     lost when the kernel has let go of them (U7 of `uring`), and not before: they own what it may write to. A ring that
//!     cannot tell that is closed by an end only.
//! N5. An end waits for that for a bounded time. What the kernel still has then is leaked, with its driver.
//!
//! Not here: how calls perform requests (`fallback`).

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use super::backend::{Backend, State};
use super::{Caller, Driver, Ending};
use crate::base::shim::{Ordering, yield_now};
use crate::io::batch::Batch;
use crate::io::cause::Cause;
use crate::io::epoll;
use crate::io::fallback::{Fallback, Seen};
use crate::io::slots::{CANCELED, Completion, Key};
use crate::io::sys;
use crate::io::uring::{Closing, Uring, denial};

/// How long a thread sleeps before it tries again to open what it needs instead of a ring. Guessed.
pub(super) const AGAIN: Duration = Duration::from_millis(10);

/// How long an end waits for operations that it cannot cancel before the ring is closed with them (N4). Guessed:
/// what a file needs that is not on a device in trouble.
const GRACE: Duration = Duration::from_millis(50);

/// How long it waits for those that it has cancelled, and then for the kernel to let go of them (N5). Guessed.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Denied {
    pub(super) fallback: Fallback,
    rest: Rest,
    /// Why.
    errno: i32,
}

/// What is left of the ring.
enum Rest {
    Open {
        ring: Box<Uring>,
        cancels: Cancels,
    },
    /// N4.
    Closing(Closing),
    Closed,
}

/// Whether the kernel cancels without an entry (N3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cancels {
    Yes,
    No,
}

/// Whether something takes the place of a ring.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replaced {
    Yes,
    /// The system has no descriptor for it now.
    NotYet,
}

/// What has not happened.
const NEVER: Completion = Completion { result: CANCELED, flags: 0 };

impl Denied {
    /// Cancels a request that no other thread performs (N3, N4).
    pub(super) fn cancel(&mut self, key: Key) {
        self.take_over();
        if self.fallback.cancel(key) {
            return;
        }
        match &self.rest {
            // What takes longer was asked before, too.
            Rest::Open { ring, cancels: Cancels::Yes } if ring.cancel_by_register() => {}
            Rest::Open { ring, .. } if ring.tells_its_end() => self.close_early(),
            // It goes on: nobody would hear that the kernel has let go of it.
            Rest::Open { .. } | Rest::Closing(_) | Rest::Closed => {}
        }
    }

    /// Cancels a request that should look for bytes elsewhere. On the ring it goes on: to close that would cost others
    /// theirs.
    pub(super) fn call_back(&mut self, key: Key) {
        self.take_over();
        self.fallback.cancel(key);
    }

    /// Has the fallback tell what the ring has completed so far.
    fn take_over(&mut self) {
        if let Rest::Open { ring, .. } = &mut self.rest {
            ring.reap(usize::MAX, |key, completion| self.fallback.tell_later(key, completion));
        }
    }

    /// N4.
    fn close_early(&mut self) {
        self.take_over();
        match std::mem::replace(&mut self.rest, Rest::Closed) {
            Rest::Open { ring, .. } => {
                self.fallback.forget(ring.fd());
                let closing = ring.close_early();
                if let Some(end) = &closing.end {
                    // Refused, nobody hears of the end: as if there were none.
                    let _ = self.fallback.watch_end(end.as_raw_fd());
                }
                self.rest = Rest::Closing(closing);
            }
            rest => self.rest = rest,
        }
    }

    pub(super) fn reap(&mut self, most: usize, mut told: impl FnMut(Key, Completion)) -> usize {
        // What was taken over comes first: completions of a stream have an order.
        let mut count = self.fallback.reap(most, &mut told);
        if let Rest::Open { ring, .. } = &mut self.rest {
            count += ring.reap(most - count, &mut told);
            if ring.is_quiet() {
                self.fallback.forget(ring.fd());
                self.rest = Rest::Closed;
            } else if ring.keeps_completions() {
                self.close_early();
            }
        }
        count
    }

    /// Whether there is something to tell or to hand out.
    pub(super) fn is_ready(&mut self) -> bool {
        let ring = match &mut self.rest {
            Rest::Open { ring, .. } => ring.plan().ready,
            Rest::Closing(_) | Rest::Closed => false,
        };
        ring || self.fallback.is_ready()
    }

    /// Goes on with an end that has taken so long (N4, N5); whether it has to be waited for.
    fn end(&mut self, elapsed: Duration) -> Left {
        self.fallback.cancel_all();
        match &self.rest {
            Rest::Open { ring, cancels } => {
                let patience = if *cancels == Cancels::Yes { PATIENCE } else { GRACE };
                if elapsed >= patience || *cancels == Cancels::Yes && !ring.cancel_by_register() {
                    self.close_early();
                }
                Left::Something
            }
            Rest::Closing(_) if elapsed >= 2 * PATIENCE => Left::TooLong,
            Rest::Closing(_) => Left::Something,
            Rest::Closed if self.fallback.is_ready() => Left::Something,
            Rest::Closed => Left::Nothing,
        }
    }
}

/// What is left of an end.
enum Left {
    Nothing,
    Something,
    /// N5.
    TooLong,
}

impl State {
    /// The kernel has let go of a ring that was closed with operations in flight (N4).
    fn tell_lost(&mut self, batch: &mut Batch) {
        // What is known comes before.
        self.reap(usize::MAX, batch);
        let Self { slots, backend, .. } = self;
        let Backend::Denied(denied) = backend else { return };
        let Rest::Closing(closing) = &denied.rest else { return };
        if let Some(end) = &closing.end {
            denied.fallback.forget(end.as_raw_fd());
        }
        denied.rest = Rest::Closed;
        let others: HashSet<u64> =
            denied.fallback.keys().into_iter().map(Key::to_user_data).collect();
        let lost = Completion { result: Cause::Lost(denied.errno).code(), flags: 0 };
        for key in slots.in_flight() {
            if !slots.is_called(key) && !others.contains(&key.to_user_data()) {
                let (told, _) = slots.complete(key, lost, &mut batch.wakers);
                batch.add(told);
            }
        }
    }
}

impl Driver {
    /// Opens what takes the place of a ring that was granted when the runtime looked, and is not now.
    #[cold]
    pub(super) fn open_denied(&self, eventfd: &OwnedFd, error: io::Error) -> io::Result<Backend> {
        let Some(errno) = denial(&error) else { return Err(error) };
        let denied = Denied { fallback: Fallback::open(eventfd, None)?, rest: Rest::Closed, errno };
        self.note_denied(errno);
        Ok(Backend::Denied(Box::new(denied)))
    }

    fn note_denied(&self, errno: i32) {
        // ORDERING: Relaxed, for people.
        self.denied.store(errno.unsigned_abs(), Ordering::Relaxed);
    }

    /// An entry was refused with an error number; whether something takes the ring's place now.
    #[cold]
    pub(super) fn refused(&self, caller: Caller, errno: i32, batch: &mut Batch) -> Replaced {
        if caller == Caller::Other {
            // N1.
            return Replaced::Yes;
        }
        let mut state = self.lock();
        // N2: who comes now finds the lock taken, or another backend.
        while state.visitors > 0 {
            drop(state);
            yield_now();
            state = self.lock();
        }
        let State { slots, backend, .. } = &mut *state;
        let Backend::Uring(uring) = backend else { return Replaced::Yes };
        let eventfd = self.eventfd.get().expect("made with the ring");
        let Ok(fallback) = Fallback::open(eventfd, Some(uring.fd())) else {
            return Replaced::NotYet;
        };
        let Ok(unsubmitted) = uring.take_unsubmitted() else { return Replaced::NotYet };
        let Backend::Uring(ring) = std::mem::replace(backend, Backend::Unopened) else {
            unreachable!("matched above")
        };
        for key in unsubmitted.operations {
            let (told, _) = slots.complete(key, NEVER, &mut batch.wakers);
            batch.add(told);
        }
        // N3.
        let cancels = if ring.cancel_by_register() { Cancels::Yes } else { Cancels::No };
        let tells = ring.tells_its_end();
        let mut denied = Denied { fallback, rest: Rest::Open { ring, cancels }, errno };
        if cancels == Cancels::No && unsubmitted.cancels && tells {
            denied.close_early();
        }
        *backend = Backend::Denied(Box::new(denied));
        self.note_denied(errno);
        self.count(&state);
        Replaced::Yes
    }

    /// The error number with which the ring was denied, if it was.
    pub(crate) fn denied(&self) -> Option<i32> {
        // ORDERING: Relaxed, for people.
        let errno = self.denied.load(Ordering::Relaxed).cast_signed();
        (errno != 0).then_some(errno)
    }

    /// Waits for what the fallback waits for, and tells. Any thread may, without waiting.
    #[cold]
    pub(super) fn look_at_fallback(&self, fd: i32, timeout: Option<Duration>, batch: &mut Batch) {
        let mut events = std::mem::take(&mut batch.events);
        epoll::wait(fd, timeout, &mut events);
        let mut state = self.lock();
        let seen = match &mut state.backend {
            Backend::Denied(denied) => denied.fallback.tell(&events),
            _ => Seen::Nothing,
        };
        if seen == Seen::End {
            state.tell_lost(batch);
        }
        state.reap(self.room(), batch);
        let calls = state.take_calls();
        self.count(&state);
        drop(state);
        batch.events = events;
        for (key, request) in calls {
            match self.home.engine.upgrade() {
                // What was cancelled would begin anew, and here again (O5 of `slots`).
                Some(engine) => {
                    engine.offload(request, self.home.index, key, Cause::Ended.code());
                }
                None => self.complete(key, NEVER),
            }
        }
    }

    /// Ends what is left of a ring that was denied, and what was begun since (N5).
    pub(super) fn end_denied(
        &self,
        mut now: Ending,
        ending: impl Fn() -> Ending,
        batch: &mut Batch,
    ) -> Ending {
        let begin = Instant::now();
        loop {
            let mut state = self.lock();
            let State { slots, backend, .. } = &mut *state;
            let Backend::Denied(denied) = backend else { return now };
            if now == Ending::Close {
                // O7 of `slots`.
                slots.unnoticed().for_each(sys::reset);
            }
            match denied.end(begin.elapsed()) {
                Left::Nothing => return now,
                Left::TooLong => {
                    std::mem::forget(std::mem::replace(&mut denied.rest, Rest::Closed));
                    drop(state);
                    self.leak();
                    return now;
                }
                Left::Something => {}
            }
            let timeout = if denied.is_ready() { Duration::ZERO } else { AGAIN };
            let fd = denied.fallback.fd();
            drop(state);
            self.look_at_fallback(fd, Some(timeout), batch);
            batch.deliver();
            if now != Ending::Close && ending() == Ending::Close {
                now = Ending::Close;
                self.shut(now, batch);
            }
        }
    }

    /// Nothing takes the place of a denied ring, not even for an end: it stays open, and all that is in flight is leaked (N5).
    pub(super) fn leak_ring(&self) {
        let backend = std::mem::replace(&mut self.lock().backend, Backend::Unopened);
        std::mem::forget(backend);
        self.leak();
    }

    /// Keeps what is in flight for ever: the kernel may still write to it. A later ring of this driver does not have it,
    /// so it is neither cancelled there nor told as lost (O9 of `slots`).
    fn leak(&self) {
        let mut state = self.lock();
        for key in state.slots.in_flight() {
            state.slots.note_call(key);
        }
        drop(state);
        match self.home.engine.upgrade() {
            Some(engine) => std::mem::forget(engine.driver(self.home.index).clone()),
            None => std::mem::forget(std::mem::take(&mut self.lock().slots)),
        }
    }
}
