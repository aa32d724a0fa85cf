//! chili: join alone; the thread that opens a scope is one of those that compute.

use super::Pool;
use chili::{Config, Scope, ThreadPool};
use std::num::NonZero;

pub struct Chili(ThreadPool);

impl Pool for Chili {
    const NAME: &'static str = "chili";
    type Scope<'s> = Scope<'s>;

    fn start(threads: usize) -> Self {
        let config = Config { thread_count: NonZero::new(threads), ..Config::default() };
        Self(ThreadPool::with_config(config))
    }

    fn run<T, F>(&self, work: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&mut Scope<'_>) -> T + Send + 'static,
    {
        work(&mut self.0.scope())
    }

    /// chili calls its second argument first and queues the first one.
    #[inline(always)]
    fn join<A: Send, B: Send>(
        scope: &mut Scope<'_>,
        now: impl FnOnce(&mut Scope<'_>) -> A + Send,
        later: impl FnOnce(&mut Scope<'_>) -> B + Send,
    ) -> (A, B) {
        let (later, now) = scope.join(later, now);
        (now, later)
    }
}
