//! What the macros `select!`, `race!`, `join!` and `try_join!` expand to calls of.

use std::cell::RefCell;
use std::task::{Context, Poll};

use crate::base::rng::{Rng, fresh_seed};
use crate::base::sim;
use crate::task::budget;

/// Counts a macro that has nothing to wait for.
pub async fn proceed() {
    budget::proceed().await;
}

/// Polls the futures of a macro; it counts when it is ready, unless one of them has.
pub fn poll_counted<T>(
    cx: &Context<'_>,
    poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    budget::poll_counted(cx, poll)
}

/// Which of so many branches is polled first, in a fair `select!`: any, as likely as another.
pub fn start(branches: usize) -> usize {
    thread_local! {
        static RNG: RefCell<Option<Rng>> = const { RefCell::new(None) };
    }
    if let Some(number) = sim::random() {
        return (number % branches as u64) as usize;
    }
    RNG.with_borrow_mut(|rng| rng.get_or_insert_with(|| Rng::new(fresh_seed())).below(branches))
}
