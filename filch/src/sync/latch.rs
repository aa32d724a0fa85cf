//! A count that goes down, and opens at zero for good.
//!
//! The permits are closed when it opens: whoever waits for one is refused, which is what it waits for.

use super::coop;
use super::permits::Permits;
use crate::base::shim::{AtomicUsize, Ordering};

/// Opens when it has been counted down to zero, and stays open.
///
/// ```
/// use filch::sync::Latch;
/// use std::sync::Arc;
///
/// let done = Arc::new(Latch::new(3));
/// filch::block_on(async {
///     for _ in 0..3 {
///         let done = done.clone();
///         drop(filch::spawn(async move { done.count_down() }));
///     }
///     done.wait().await;
///     assert!(done.is_open());
/// });
/// ```
#[derive(Debug)]
pub struct Latch {
    count: AtomicUsize,
    /// Never given out, closed at zero.
    gate: Permits,
}

impl Latch {
    /// A latch that opens after `count` calls of [`Latch::count_down`]; for none, an open one.
    ///
    /// ```
    /// assert!(filch::sync::Latch::new(0).is_open());
    /// ```
    pub const fn new(count: usize) -> Self {
        Self { count: AtomicUsize::new(count), gate: Permits::new(0) }
    }

    /// Counts one down.
    ///
    /// ```
    /// let latch = filch::sync::Latch::new(1);
    /// latch.count_down();
    /// assert!(latch.is_open());
    /// ```
    ///
    /// # Panics
    /// If it is open.
    #[track_caller]
    pub fn count_down(&self) {
        self.count_down_by(1);
    }

    /// Counts `n` down.
    ///
    /// ```
    /// let latch = filch::sync::Latch::new(3);
    /// latch.count_down_by(2);
    /// assert_eq!(latch.count(), 1);
    /// ```
    ///
    /// # Panics
    /// If the count is less.
    #[track_caller]
    pub fn count_down_by(&self, n: usize) {
        // ORDERING: AcqRel; Release pairs with the Acquire in `count`, and with that of the last to
        // count, whose `close` passes on to those who wait what all did before.
        let before = self
            .count
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| count.checked_sub(n));
        match before {
            Ok(before) if before == n => self.gate.close(),
            Ok(_) => {}
            Err(_) => panic!("the latch is counted below zero"),
        }
    }

    /// What is left to count.
    ///
    /// ```
    /// assert_eq!(filch::sync::Latch::new(3).count(), 3);
    /// ```
    pub fn count(&self) -> usize {
        // ORDERING: Acquire pairs with the Release in `count_down_by`.
        self.count.load(Ordering::Acquire)
    }

    /// Whether nothing is left to count.
    ///
    /// ```
    /// assert!(!filch::sync::Latch::new(3).is_open());
    /// ```
    pub fn is_open(&self) -> bool {
        self.count() == 0
    }

    /// Waits until it is open.
    ///
    /// ```
    /// let latch = filch::sync::Latch::new(1);
    /// filch::block_on(async { filch::join!(latch.wait(), async { latch.count_down() }) });
    /// assert!(latch.is_open());
    /// ```
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait(&self) {
        match self.is_open() {
            true => coop::proceed().await,
            false => {
                let _closed = coop::counted(self.gate.take(1)).await;
            }
        }
    }

    /// Counts one down and waits until it is open.
    ///
    /// ```
    /// let latch = filch::sync::Latch::new(2);
    /// filch::block_on(async { filch::join!(latch.arrive_and_wait(), latch.arrive_and_wait()) });
    /// assert!(latch.is_open());
    /// ```
    ///
    /// # Panics
    /// If it is open.
    ///
    /// # Cancel safety
    /// Dropped after its first poll, it has counted.
    pub async fn arrive_and_wait(&self) {
        self.count_down();
        self.wait().await;
    }

    /// As [`Latch::wait`], blocking. On a worker, a spare takes its place meanwhile.
    ///
    /// ```
    /// let latch = filch::sync::Latch::new(1);
    /// std::thread::scope(|s| {
    ///     s.spawn(|| latch.count_down());
    ///     latch.blocking_wait();
    ///     assert!(latch.is_open());
    /// });
    /// ```
    pub fn blocking_wait(&self) {
        if !self.is_open() {
            let _closed = coop::block_on(self.gate.take(1));
        }
    }
}
