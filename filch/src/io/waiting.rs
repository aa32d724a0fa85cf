//! What has happened and was not told yet, because the worker has no room for it.
//!
//! F1. If there is room for all, all come out in the order in which they went in.
//! F2. Otherwise the newest come first: what a connection needs, in the kernel and here, is still in the
//!     cache. But every eighth is the oldest, so with *n* waiting none is overtaken by more than 8 *n*.
//! F3. What must keep its order among its like comes in that order. It shares the room with the rest, half
//!     each as far as both have so much: neither keeps the other waiting for ever.

use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// One in so many is the oldest (F2). Of 1, 4 and 8, measured: the rate rises with it, the slowest replies
/// become slower (ADR 0022).
const OLDEST: u32 = 8;

pub(crate) struct Waiting<T> {
    queue: VecDeque<T>,
    /// How many were taken while there was no room for all.
    taken: u32,
}

impl<T> Waiting<T> {
    pub(crate) fn new() -> Self {
        Self { queue: VecDeque::new(), taken: 0 }
    }

    pub(crate) fn push(&mut self, item: T) {
        self.queue.push_back(item);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Hands out up to `most`; how many.
    pub(crate) fn take(&mut self, most: usize, mut each: impl FnMut(T)) -> usize {
        if self.queue.len() <= most {
            let count = self.queue.len();
            self.queue.drain(..).for_each(each);
            return count;
        }
        for _ in 0..most {
            self.taken = self.taken.wrapping_add(1);
            let oldest = self.taken.is_multiple_of(OLDEST);
            let item = if oldest { self.queue.pop_front() } else { self.queue.pop_back() };
            each(item.expect("there are more than that"));
        }
        most
    }
}

/// Whose half is the larger one, if the room is odd (F3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Favour {
    Ordered,
    Others,
}

/// What waits with an order, and what waits without one.
pub(crate) struct Untold<T> {
    ordered: VecDeque<T>,
    others: Waiting<T>,
    favour: Favour,
}

impl<T> Untold<T> {
    pub(crate) fn new() -> Self {
        Self { ordered: VecDeque::new(), others: Waiting::new(), favour: Favour::Others }
    }

    pub(crate) fn push_ordered(&mut self, item: T) {
        self.ordered.push_back(item);
    }

    pub(crate) fn push(&mut self, item: T) {
        self.others.push(item);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ordered.is_empty() && self.others.is_empty()
    }

    /// Hands out up to `most`; how many.
    pub(crate) fn take(&mut self, most: usize, mut each: impl FnMut(T)) -> usize {
        let half = match self.favour {
            Favour::Ordered => most.div_ceil(2),
            Favour::Others => most / 2,
        };
        self.favour = match self.favour {
            Favour::Ordered => Favour::Others,
            Favour::Others => Favour::Ordered,
        };
        let left = most.saturating_sub(self.others.queue.len());
        let ordered = self.ordered.len().min(half.max(left));
        self.ordered.drain(..ordered).for_each(&mut each);
        ordered + self.others.take(most - ordered, each)
    }
}
