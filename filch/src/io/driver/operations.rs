//! What a driver is asked for: operations and streams, and sources of readiness.
//!
//! Not here: how the kernel hears of them and answers (`super`), how far they are (`slots`).

use std::os::fd::RawFd;
use std::sync::Arc;
use std::task::Waker;

use super::backend::{Backend, State};
use super::{Caller, Driver, Kind, Refused};
use crate::io::batch::Batch;
use crate::io::buffers::Pool;
use crate::io::epoll::SourceKey;
use crate::io::readiness::{Direction, Readiness};
use crate::io::request::Request;
use crate::io::slots::{Abandoned, CANCELED, Completion, Dispose, Key, Late, Next, Polled};
use crate::io::waiters::{WaitId, Waiter};

/// Who performs an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Performer {
    Ring,
    /// A call on a thread that may block, made by the engine: the driver only knows of it.
    Call,
}

/// Whether an abandoned operation is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancel {
    Yes,
    /// It runs to its end.
    No,
}

impl Driver {
    /// Opens the backend if nobody has, has `begin` put something there, and tells the owner.
    fn begin<T>(
        self: &Arc<Self>,
        caller: Caller,
        kind: Kind,
        begin: impl FnOnce(&mut State) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let mut state = self.open(self.lock(), kind)?;
        let begun = begin(&mut state)?;
        self.count(&state);
        drop(state);
        self.wake_if(caller);
        Ok(begun)
    }

    /// Queues a request. `waker` is woken by its completion.
    ///
    /// # Safety
    /// What the request points to is kept until the last completion: by the future that polls the key,
    /// or by what it leaves behind in `abandon` (O1 of `slots`).
    pub(crate) unsafe fn start(
        self: &Arc<Self>,
        caller: Caller,
        kind: Kind,
        request: &Request,
        performer: Performer,
        waker: Waker,
    ) -> Result<Key, Refused> {
        self.begin(caller, kind, |state| {
            let key = match *request {
                Request::SendUncopied { fd, .. } => state.slots.insert_uncopied(waker, fd),
                Request::Recv { fd, .. } | Request::Poll { fd, direction: Direction::Read } => {
                    state.slots.insert_read(waker, fd)
                }
                Request::File(ref read) if read.waits_for_a_device() => {
                    state.slots.insert_device_read(waker)
                }
                _ => state.slots.insert(waker),
            };
            state.hand_over(request, performer, key);
            Ok(key)
        })
    }

    /// As `start`, of an operation that nobody waits for: `late` keeps what it needs, and takes its
    /// result. It is given back if the driver does not take it.
    ///
    /// # Safety
    /// What the request points to is kept by `late`.
    pub(crate) unsafe fn start_orphan<L: Late + 'static>(
        self: &Arc<Self>,
        caller: Caller,
        kind: Kind,
        request: &Request,
        performer: Performer,
        late: Box<L>,
    ) -> Result<Key, Box<L>> {
        let mut late = Some(late);
        let begun = self.begin(caller, kind, |state| {
            let key = state.slots.insert_orphan(late.take().expect("begun once"));
            state.hand_over(request, performer, key);
            Ok(key)
        });
        begun.map_err(|_| late.expect("not begun"))
    }

    /// As `start`, of an operation with many completions.
    ///
    /// # Safety
    /// The descriptor stays open until the stream has ended.
    pub(crate) unsafe fn start_stream(
        self: &Arc<Self>,
        caller: Caller,
        kind: Kind,
        request: &Request,
        cap: usize,
    ) -> Result<(Key, Option<Arc<Pool>>), Refused> {
        self.begin(caller, kind, |state| {
            let pool = match request {
                Request::RecvMany { .. } => state.backend.pool().map_err(Refused::Failed)?.cloned(),
                _ => None,
            };
            let key = state.slots.insert_stream(cap);
            state.hand_over(request, Performer::Ring, key);
            Ok((key, pool))
        })
    }

    /// How far an operation is; `waker` is woken when it is over.
    pub(crate) fn poll(&self, key: Key, waker: &Waker) -> Polled {
        let mut clone = None;
        loop {
            let mut state = self.lock();
            let polled = state.slots.poll(key, waker, &mut clone);
            self.count(&state);
            drop(state);
            if polled != Polled::WantsWaker {
                return polled;
            }
            clone = Some(waker.clone());
        }
    }

    /// The next completion of a stream; who asks is woken when there is one.
    pub(crate) fn poll_stream(&self, key: Key, who: Waiter<'_>) -> Next {
        let mut clone = None;
        loop {
            let next = self.poll_stream_with(key, who, &mut clone);
            if next != Next::WantsWaker {
                return next;
            }
            clone = Some(who.waker().clone());
        }
    }

    /// As `poll_stream`, for a caller that holds a lock: `clone` is as for `Slots::poll_stream`.
    pub(crate) fn poll_stream_with(
        &self,
        key: Key,
        who: Waiter<'_>,
        clone: &mut Option<Waker>,
    ) -> Next {
        let mut state = self.lock();
        let next = state.slots.poll_stream(key, who, clone);
        self.count(&state);
        next
    }

    /// Who waited for the next of a stream does not any more.
    pub(crate) fn give_up(&self, key: Key, id: WaitId) {
        let waker = self.lock().slots.give_up(key, id);
        drop(waker);
    }

    /// Wakes all who wait for the next of a stream.
    pub(crate) fn wake_stream(&self, key: Key) {
        let waiters = self.lock().slots.take_waiters(key);
        waiters.wake();
    }

    /// Asks the kernel to cancel an operation. Its completion comes in any case.
    pub(crate) fn cancel(&self, caller: Caller, key: Key) {
        let mut state = self.lock();
        if state.slots.wish_to_cancel(key) {
            state.cancel(key);
            drop(state);
            self.wake_if(caller);
        }
    }

    /// Calls an operation back (O8 of `slots`).
    pub(crate) fn call_back(&self, caller: Caller, key: Key) {
        let mut state = self.lock();
        if state.slots.call_back(key) {
            state.call_back(key);
            drop(state);
            self.wake_if(caller);
        }
    }

    /// Calls back all that wait here for bytes of a socket (O8 of `slots`).
    pub(crate) fn call_back_all(&self, caller: Caller, fd: RawFd) {
        let mut state = self.lock();
        let called = state.slots.call_back_all(fd);
        called.iter().for_each(|&key| state.call_back(key));
        drop(state);
        if !called.is_empty() {
            self.wake_if(caller);
        }
    }

    /// Asks the kernel to end a stream. Its last completion comes in any case.
    pub(crate) fn stop_stream(&self, caller: Caller, key: Key) {
        let mut state = self.lock();
        if state.slots.stop_stream(key) {
            state.cancel(key);
            drop(state);
            self.wake_if(caller);
        }
    }

    /// The future of an operation goes; `late` keeps what the kernel may touch.
    pub(crate) fn abandon(&self, caller: Caller, key: Key, late: Box<dyn Late>, cancel: Cancel) {
        let mut state = self.lock();
        let (abandoned, waker) = state.slots.abandon(key, late);
        let cancels = cancel == Cancel::Yes && matches!(abandoned, Abandoned::InFlight);
        if cancels {
            state.cancel(key);
        }
        self.count(&state);
        drop(state);
        drop(waker);
        match abandoned {
            Abandoned::InFlight if cancels => self.wake_if(caller),
            Abandoned::InFlight => {}
            Abandoned::Done(late, completion) => late.finish(completion),
            Abandoned::Never(late) => late.finish(Completion { result: CANCELED, flags: 0 }),
        }
    }

    /// The owner of a stream goes; what is unread, and what comes, goes to `dispose`.
    pub(crate) fn abandon_stream(&self, caller: Caller, key: Key, dispose: Arc<dyn Dispose>) {
        let mut state = self.lock();
        let (cancels, unread, waiters) = state.slots.abandon_stream(key, dispose.clone());
        if cancels {
            state.cancel(key);
        }
        self.count(&state);
        drop(state);
        drop(waiters);
        unread.into_iter().for_each(|completion| dispose.dispose(completion));
        if cancels {
            self.wake_if(caller);
        }
    }

    /// A request that was performed by a call has ended.
    pub(crate) fn complete(&self, key: Key, completion: Completion) {
        let mut batch = Batch::new();
        let mut state = self.lock();
        let told = state.slots.complete_call(key, completion, &mut batch.wakers);
        self.count(&state);
        drop(state);
        batch.add(told);
        batch.deliver();
    }
}

/// Sources of readiness.
impl Driver {
    /// Registers a descriptor with the epoll descriptor (E1 of `epoll`).
    pub(crate) fn add_source(
        self: &Arc<Self>,
        fd: RawFd,
        readiness: Arc<Readiness>,
    ) -> Result<SourceKey, Refused> {
        let state = self.lock();
        let opens = matches!(state.backend, Backend::Unopened);
        let mut state = self.open(state, Kind::Epoll)?;
        let Backend::Epoll(epoll) = &mut state.backend else {
            unreachable!("sources are for drivers that tell readiness")
        };
        let key = epoll.add(fd, readiness).map_err(Refused::Failed)?;
        self.count(&state);
        drop(state);
        if opens {
            // On its bed, the owner would not hear of it.
            self.ring();
        }
        Ok(key)
    }

    /// Forgets a descriptor that is still open.
    pub(crate) fn remove_source(&self, fd: RawFd, key: SourceKey) {
        let mut state = self.lock();
        if let Backend::Epoll(epoll) = &mut state.backend {
            let readiness = epoll.remove(fd, key);
            self.count(&state);
            drop(state);
            drop(readiness);
        }
    }
}
