//! Random choices that a test has written down.
//!
//! Each purpose has its own list, so that workers who look for work do not use up what a post is meant to find.
//!
//! Not here: the numbers that come when a list is empty (`rng`).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Choices that a runtime makes at random, written down by a test.
///
/// A choice is the number of a candidate; one beyond the last counts on from the first. What is not written
/// down is left to chance. Clones share their lists.
///
/// ```
/// use std::time::Duration;
/// use filch::testkit::ScriptedRng;
/// let rng = ScriptedRng::new();
/// let builder = filch::Builder::new().io_workers(3).compute_workers(1).rng(rng.clone());
/// let runtime = builder.build()?;
/// // Worker 2 and, of the others, the first: both have no timer, so the one that was drawn first.
/// rng.push_posts([2, 0]);
/// drop(runtime.post_delayed(Duration::from_secs(1000), || ())?);
/// assert_eq!(runtime.snapshot().workers[2].timers, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScriptedRng(Arc<Lists>);

#[derive(Debug, Default)]
struct Lists {
    posts: Mutex<VecDeque<usize>>,
    victims: Mutex<VecDeque<usize>>,
}

fn lock(list: &Mutex<VecDeque<usize>>) -> MutexGuard<'_, VecDeque<usize>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The next choice among `candidates`, if one is written down.
fn next(list: &Mutex<VecDeque<usize>>, candidates: usize) -> Option<usize> {
    Some(lock(list).pop_front()? % candidates.max(1))
}

impl ScriptedRng {
    /// Nothing is written down.
    ///
    /// ```
    /// assert_eq!(filch::testkit::ScriptedRng::new().posts_left(), 0);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes down choices for [delayed posts](crate::Handle::post_delayed): each makes two, of an I/O worker
    /// and of another one.
    ///
    /// ```
    /// let rng = filch::testkit::ScriptedRng::new();
    /// rng.push_posts([0, 1]);
    /// assert_eq!(rng.posts_left(), 2);
    /// ```
    pub fn push_posts(&self, choices: impl IntoIterator<Item = usize>) {
        lock(&self.0.posts).extend(choices);
    }

    /// Writes down whom workers without work try next: a worker of their lane, or, beyond those, a part of the
    /// lane's injector.
    ///
    /// ```
    /// let rng = filch::testkit::ScriptedRng::new();
    /// rng.push_victims([1, 0]);
    /// assert_eq!(rng.victims_left(), 2);
    /// ```
    pub fn push_victims(&self, choices: impl IntoIterator<Item = usize>) {
        lock(&self.0.victims).extend(choices);
    }

    /// How many choices of posts were not made yet.
    ///
    /// ```
    /// assert_eq!(filch::testkit::ScriptedRng::new().posts_left(), 0);
    /// ```
    pub fn posts_left(&self) -> usize {
        lock(&self.0.posts).len()
    }

    /// How many choices of workers without work were not made yet.
    ///
    /// ```
    /// assert_eq!(filch::testkit::ScriptedRng::new().victims_left(), 0);
    /// ```
    pub fn victims_left(&self) -> usize {
        lock(&self.0.victims).len()
    }

    pub(crate) fn for_post(&self, candidates: usize) -> Option<usize> {
        next(&self.0.posts, candidates)
    }

    pub(crate) fn for_victim(&self, candidates: usize) -> Option<usize> {
        next(&self.0.victims, candidates)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::ScriptedRng;

    #[test]
    fn choices_come_in_their_order_to_their_purpose_and_then_no_more() {
        let rng = ScriptedRng::new();
        rng.push_posts([2, 5]);
        rng.push_victims([1]);
        let clone = rng.clone();
        assert_eq!([clone.for_post(3), rng.for_post(3), rng.for_post(3)], [Some(2), Some(2), None]);
        assert_eq!([rng.for_victim(1), rng.for_victim(1)], [Some(0), None]);
    }
}
