//! What a driver is made of, and how it takes requests and gives completions.
//!
//! Not here: the lock, and the ways into the kernel and back (`super`).

use std::io;
use std::sync::Arc;

use super::Performer;
use super::denied::Denied;
use crate::io::batch::Batch;
use crate::io::buffers::Pool;
use crate::io::epoll::Epoll;
use crate::io::fake::Fake;
use crate::io::request::Request;
use crate::io::slots::{Key, Slots, Then};
use crate::io::uring::Uring;

pub(super) enum Backend {
    /// V3.
    Unopened,
    Uring(Box<Uring>),
    Epoll(Epoll),
    Fake(Fake),
    /// V8.
    Denied(Box<Denied>),
    /// V5.
    Closed,
}

/// Whether a driver takes operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intake {
    Open,
    /// It is about to be closed, or is: what an end leads to goes elsewhere, or nowhere (V5).
    Shut,
}

pub(super) struct State {
    pub(super) slots: Slots,
    pub(super) backend: Backend,
    pub(super) intake: Intake,
    /// V7.
    pub(super) visitors: usize,
}

impl Backend {
    /// Hands a request over. Where the kernel tells readiness only, it is performed by a call.
    pub(super) fn start(&mut self, request: &Request, key: Key) {
        match self {
            Self::Uring(uring) => uring.start(request, key),
            Self::Fake(fake) => fake.start(request, key),
            Self::Denied(denied) => denied.fallback.start(request, key),
            Self::Epoll(_) => {}
            Self::Unopened | Self::Closed => unreachable!("opened before anything is started"),
        }
    }

    /// Queues the cancelling of an operation. A request that is performed by a call runs on.
    pub(super) fn cancel(&mut self, key: Key) {
        match self {
            Self::Uring(uring) => uring.cancel(key),
            Self::Fake(fake) => fake.cancel(key),
            Self::Denied(denied) => denied.cancel(key),
            Self::Epoll(_) | Self::Unopened | Self::Closed => {}
        }
    }

    /// The buffers that chunks are received into; none if there is nobody who picks from them.
    pub(super) fn pool(&mut self) -> io::Result<Option<&Arc<Pool>>> {
        match self {
            Self::Uring(uring) => uring.pool(),
            Self::Fake(fake) => Ok(Some(fake.pool())),
            Self::Denied(_) => Ok(None),
            Self::Epoll(_) | Self::Unopened | Self::Closed => {
                unreachable!("a driver that tells readiness has no streams")
            }
        }
    }
}

impl State {
    /// Hands a request over, unless a call performs it.
    pub(super) fn hand_over(&mut self, request: &Request, performer: Performer, key: Key) {
        match performer {
            Performer::Ring => self.backend.start(request, key),
            Performer::Call => self.slots.note_call(key),
        }
    }

    pub(super) fn cancel(&mut self, key: Key) {
        // A request that is performed by a call runs on.
        if !self.slots.is_called(key) {
            self.backend.cancel(key);
        }
    }

    /// Cancels what was called back (O8 of `slots`). A denied ring is not closed for that.
    pub(super) fn call_back(&mut self, key: Key) {
        match &mut self.backend {
            Backend::Denied(denied) => denied.call_back(key),
            _ => self.cancel(key),
        }
    }

    pub(super) fn reap(&mut self, most: usize, batch: &mut Batch) -> usize {
        let State { slots, backend, .. } = self;
        let (mut stops, mut again) = (Vec::new(), Vec::new());
        let tell = |key, completion| {
            let (told, then) = slots.complete(key, completion, &mut batch.wakers);
            batch.add(told);
            if then == Then::Stop {
                stops.push(key);
            }
        };
        let reaped = match backend {
            Backend::Uring(uring) => uring.reap(most, tell),
            Backend::Fake(fake) => fake.reap(most, tell),
            Backend::Denied(denied) => denied.reap(most, tell),
            Backend::Epoll(_) | Backend::Unopened | Backend::Closed => 0,
        };
        stops.into_iter().for_each(|key| backend.cancel(key));
        if let Backend::Uring(uring) = backend {
            // U8 of `uring`.
            while let Some(key) = uring.take_missed() {
                if slots.may_be_found_yet(key) {
                    again.push(key);
                }
            }
            again.into_iter().for_each(|key| uring.cancel(key));
        }
        reaped
    }

    /// Hands out what threads that may block are to perform (L3 of `fallback`).
    pub(super) fn take_calls(&mut self) -> Vec<(Key, Request)> {
        let Backend::Denied(denied) = &mut self.backend else { return Vec::new() };
        let calls = denied.fallback.take_calls();
        calls.iter().for_each(|&(key, _)| self.slots.note_call(key));
        calls
    }

    /// Ends what is in flight in a simulation; returns how much that was.
    pub(super) fn drain(&mut self, batch: &mut Batch) -> usize {
        let State { slots, backend, .. } = self;
        let Backend::Fake(fake) = backend else { return 0 };
        fake.drain(|key, completion| {
            let (told, _) = slots.complete(key, completion, &mut batch.wakers);
            batch.add(told);
        })
    }
}
