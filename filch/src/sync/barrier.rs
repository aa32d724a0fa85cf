//! A place where so many wait for each other.
//!
//! R1. Whoever makes the count full is the leader, wakes the others and begins the next round.
//! R2. One that is dropped while it waits has not come: the count is as before it.

use std::task::{Context, Poll};

use super::coop;
use super::turn::{Step, Turn, poll_under};
use super::waiters::{Key, Waiters};
use crate::base::shim::Mutex;

/// Lets tasks go on when so many have come; then the next as many.
///
/// ```
/// use filch::sync::Barrier;
/// use std::sync::Arc;
///
/// let barrier = Arc::new(Barrier::new(3));
/// let leaders = filch::block_on(async {
///     let tasks: Vec<_> = (0..3)
///         .map(|_| {
///             let barrier = barrier.clone();
///             filch::spawn(async move { barrier.wait().await.is_leader() })
///         })
///         .collect();
///     filch::wait_all_async(tasks).await
/// });
/// assert_eq!(leaders.into_iter().filter(|leader| *leader).count(), 1);
/// ```
#[derive(Debug)]
pub struct Barrier {
    size: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    waiters: Waiters<Ticket>,
    /// Who has come in this round.
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ticket {
    Waits,
    /// The round is full.
    Goes,
}

impl Barrier {
    /// A barrier for `size` tasks; for none it is as for one.
    ///
    /// ```
    /// let alone = filch::sync::Barrier::new(1);
    /// assert!(filch::block_on(alone.wait()).is_leader());
    /// ```
    pub const fn new(size: usize) -> Self {
        let state = State { waiters: Waiters::new(), count: 0 };
        Self { size: if size == 0 { 1 } else { size }, state: Mutex::new(state) }
    }

    /// Waits until as many have come as the barrier is for.
    ///
    /// ```
    /// let barrier = filch::sync::Barrier::new(2);
    /// let (one, two) = filch::block_on(async { filch::join!(barrier.wait(), barrier.wait()) });
    /// assert!(one.is_leader() != two.is_leader());
    /// ```
    ///
    /// # Cancel safety
    /// Dropped before the barrier opens, it has not come, and another must come in its place.
    pub async fn wait(&self) -> BarrierWaitResult {
        coop::counted(Arrival { barrier: self, slot: None }).await
    }

    /// As [`Barrier::wait`], blocking. On a worker, a spare takes its place meanwhile.
    ///
    /// ```
    /// let barrier = filch::sync::Barrier::new(2);
    /// std::thread::scope(|s| {
    ///     s.spawn(|| barrier.blocking_wait());
    ///     barrier.blocking_wait();
    /// });
    /// ```
    pub fn blocking_wait(&self) -> BarrierWaitResult {
        coop::block_on(Arrival { barrier: self, slot: None })
    }
}

/// Says who made the [`Barrier`] open.
///
/// ```
/// let result: filch::sync::BarrierWaitResult = filch::sync::Barrier::new(1).blocking_wait();
/// assert!(result.is_leader());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult {
    leader: bool,
}

impl BarrierWaitResult {
    /// Whether this was the last to come: true for one of each round.
    ///
    /// ```
    /// assert!(filch::sync::Barrier::new(1).blocking_wait().is_leader());
    /// ```
    pub fn is_leader(&self) -> bool {
        self.leader
    }
}

struct Arrival<'a> {
    barrier: &'a Barrier,
    slot: Option<Key>,
}

impl Future for Arrival<'_> {
    type Output = BarrierWaitResult;

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<BarrierWaitResult> {
        let Self { barrier, slot } = &mut *self;
        poll_under(&barrier.state, cx, |state, turn, waker| {
            if let Some(key) = *slot {
                return match state.waiters.ticket(key) {
                    Ticket::Waits => turn.keep(&mut state.waiters, key, waker),
                    Ticket::Goes => {
                        turn.leave(&mut state.waiters, slot);
                        Step::Ready(BarrierWaitResult { leader: false })
                    }
                };
            }
            if state.count + 1 == barrier.size {
                state.open(turn);
                return Step::Ready(BarrierWaitResult { leader: true });
            }
            let step = turn.wait(&mut state.waiters, slot, waker, Ticket::Waits);
            state.count += usize::from(slot.is_some());
            step
        })
    }
}

impl State {
    /// R1.
    fn open(&mut self, turn: &mut Turn) {
        self.count = 0;
        while let Some(waker) = self.waiters.pop_front(Ticket::Goes) {
            turn.wakers.push(waker);
        }
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        if self.slot.is_none() {
            return;
        }
        Turn::take(&self.barrier.state, |state, turn| {
            if turn.leave(&mut state.waiters, &mut self.slot) == Some(Ticket::Waits) {
                state.count -= 1;
            }
        });
    }
}
