//! What a visit to a driver has brought, to be told when its lock is free.
//!
//! B1. Everything of the user's that a completion leads to happens here, without any lock: wakes, and
//!     the end of operations that nobody waits for.
//! B2. A panic of one does not keep the others from being told.

use std::sync::Arc;
use std::task::Waker;

use super::epoll::Events;
use super::slots::{Completion, Dispose, Late, Told};
use super::waiters::guard;

#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) wakers: Vec<Waker>,
    late: Vec<(Box<dyn Late>, Completion)>,
    disposed: Vec<(Arc<dyn Dispose>, Completion)>,
    /// Room for what a wait returns.
    pub(crate) events: Events,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn add(&mut self, told: Told) {
        match told {
            Told::Waiters => {}
            Told::Late(late, completion) => self.late.push((late, completion)),
            Told::Dispose(dispose, completion) => self.disposed.push((dispose, completion)),
        }
    }

    /// Whether there is nobody to tell.
    pub(crate) fn is_empty(&self) -> bool {
        self.wakers.is_empty() && self.late.is_empty() && self.disposed.is_empty()
    }

    /// Tells everybody (B1); how many.
    pub(crate) fn deliver(&mut self) -> usize {
        let count = self.wakers.len() + self.late.len() + self.disposed.len();
        for (late, completion) in self.late.drain(..) {
            guard(|| late.finish(completion));
        }
        for (dispose, completion) in self.disposed.drain(..) {
            guard(|| dispose.dispose(completion));
        }
        for waker in self.wakers.drain(..) {
            guard(|| waker.wake());
        }
        count
    }
}
