//! Pools: every fork-join runtime under measurement behind one trait, so that a program is written
//! once and compiled for each.
//!
//! F1. `start(n)` is the pool as its own documentation builds it, with defaults otherwise, and
//!     exactly `n` threads compute.
//! F2. Each method is the call that a user of that pool would write; none adds an allocation, a
//!     lock or a call through a pointer.
//! F3. Of the two sides of `join`, the calling thread starts with `now`, and `later` is the one
//!     that others may take. Pools differ in which argument that is, so memory would be walked in
//!     different directions if the order were left to them.
//! F4. What `run` is given runs on one of the `n` threads.
//!
//! Not here: async runtimes (`peers`), what is measured (`scenarios`).

#[cfg(feature = "peers")]
mod chili;
mod filch;
#[cfg(feature = "peers")]
mod rayon;
mod seq;

#[cfg(feature = "peers")]
pub use chili::Chili;
pub use filch::Filch;
#[cfg(feature = "peers")]
pub use rayon::Rayon;
pub use seq::Seq;

use std::time::{Duration, Instant};

/// A pool that the benchmark can drive.
pub trait Pool: Sized {
    /// Its name in tables and files.
    const NAME: &'static str;

    /// What code on the pool hands down in order to fork; empty where a thread knows its pool.
    type Scope<'s>;

    /// Starts a pool in which so many threads compute.
    fn start(threads: usize) -> Self;

    /// Runs `work` on the pool while the calling thread waits, or is the one that runs it.
    fn run<T, F>(&self, work: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&mut Self::Scope<'_>) -> T + Send + 'static;

    /// Runs both, perhaps at the same time (F3).
    fn join<A: Send, B: Send>(
        scope: &mut Self::Scope<'_>,
        now: impl FnOnce(&mut Self::Scope<'_>) -> A + Send,
        later: impl FnOnce(&mut Self::Scope<'_>) -> B + Send,
    ) -> (A, B);

    /// Starts `child`, runs `body`, and waits for the child in the way that this pool has for it.
    fn with_child(
        scope: &mut Self::Scope<'_>,
        child: impl FnOnce() + Send,
        body: impl FnOnce(&mut Self::Scope<'_>) + Send,
    ) {
        Self::join(scope, body, |_| child());
    }
}

/// A pool that has parallel loops and sorts over slices.
pub trait Loops: Pool {
    fn for_each<T: Send>(data: &mut [T], body: impl Fn(&mut T) + Send + Sync);

    fn sum(data: &[u64]) -> u64;

    fn sort<T: Ord + Send>(data: &mut [T]);

    fn sort_unstable<T: Ord + Send>(data: &mut [T]);

    /// Calls `body` with every number below `count`, and may cut down to single ones.
    fn each_index(count: usize, body: impl Fn(usize) + Send + Sync);
}

/// A pool that has prefix sums.
pub trait Scans: Pool {
    /// Every element becomes the combination of all up to itself.
    fn scan<T: Copy + Send + Sync>(data: &mut [T], op: impl Fn(T, T) -> T + Send + Sync);
}

/// A pool that runs jobs which a parent waits for.
pub trait Jobs: Pool {
    /// One job is made, run and waited for.
    fn run_and_wait<J: Fn() + Copy + Send + 'static>(job: J);

    /// A parent is made with so many children, all run, and the parent is waited for.
    fn run_children<J: Fn() + Copy + Send + 'static>(children: usize, job: J);
}

/// Starts a pool and lets one piece of work through, so that thread creation is not measured.
pub fn started<P: Pool>(threads: usize) -> P {
    let pool = P::start(threads);
    pool.run(|_| ());
    pool
}

/// Runs `work` on the pool; the time is taken there (F4).
pub fn timed<P, T, F>(pool: &P, work: F) -> (T, Duration)
where
    P: Pool,
    T: Send + 'static,
    F: FnOnce(&mut P::Scope<'_>) -> T + Send + 'static,
{
    pool.run(|scope| {
        let start = Instant::now();
        let value = work(scope);
        (value, start.elapsed())
    })
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "peers")]
    use super::{Chili, Rayon};
    use super::{Filch, Jobs, Loops, Pool, Scans, Seq, started};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    fn sum<P: Pool>(scope: &mut P::Scope<'_>, first: u64, count: u64) -> u64 {
        if count == 1 {
            return first;
        }
        let half = count / 2;
        let (low, high) = P::join(
            scope,
            |scope| sum::<P>(scope, first, half),
            |scope| sum::<P>(scope, first + half, count - half),
        );
        low + high
    }

    fn forks_and_returns_both_values<P: Pool>() {
        for threads in [1, 3] {
            let pool = started::<P>(threads);
            assert_eq!(pool.run(|scope| sum::<P>(scope, 0, 1_000)), 499_500, "{}", P::NAME);
        }
    }

    fn waits_for_the_child<P: Pool>() {
        let done = started::<P>(1).run(|scope| {
            let done = AtomicUsize::new(0);
            // ORDERING: Relaxed on all, the wait orders them.
            let add = |n| done.fetch_add(n, Ordering::Relaxed);
            P::with_child(scope, || _ = add(1), |_| _ = add(10));
            done.into_inner()
        });
        assert_eq!(done, 11, "{}", P::NAME);
    }

    #[test]
    fn every_pool_forks_and_waits() {
        forks_and_returns_both_values::<Filch>();
        #[cfg(feature = "peers")]
        forks_and_returns_both_values::<Rayon>();
        #[cfg(feature = "peers")]
        forks_and_returns_both_values::<Chili>();
        forks_and_returns_both_values::<Seq>();
        waits_for_the_child::<Filch>();
        #[cfg(feature = "peers")]
        waits_for_the_child::<Rayon>();
        #[cfg(feature = "peers")]
        waits_for_the_child::<Chili>();
        waits_for_the_child::<Seq>();
    }

    #[test]
    fn work_runs_on_a_thread_of_the_pool() {
        fn elsewhere<P: Pool>() {
            let (pool, here) = (started::<P>(1), thread::current().id());
            for _ in 0..100 {
                assert_ne!(pool.run(|_| thread::current().id()), here, "{}", P::NAME);
            }
        }
        elsewhere::<Filch>();
        #[cfg(feature = "peers")]
        elsewhere::<Rayon>();
    }

    fn starts_with_now_where_nobody_helps<P: Pool>() {
        let order = started::<P>(1).run(|scope| {
            let next = AtomicUsize::new(0);
            // ORDERING: Relaxed, the join orders them.
            let take = || next.fetch_add(1, Ordering::Relaxed);
            P::join(scope, |_| take(), |_| take())
        });
        assert_eq!(order, (0, 1), "{}", P::NAME);
    }

    #[test]
    fn a_thread_alone_starts_with_the_same_side_on_every_pool() {
        starts_with_now_where_nobody_helps::<Filch>();
        #[cfg(feature = "peers")]
        starts_with_now_where_nobody_helps::<Rayon>();
        #[cfg(feature = "peers")]
        starts_with_now_where_nobody_helps::<Chili>();
        starts_with_now_where_nobody_helps::<Seq>();
    }

    #[test]
    fn loops_sorts_scans_and_jobs_do_what_they_say() {
        fn loops<P: Loops>() {
            started::<P>(2).run(|_| {
                let mut data: Vec<u64> = (0..5_000).rev().collect();
                P::for_each(&mut data, |x| *x += 1);
                assert_eq!(P::sum(&data), 5_000 * 5_001 / 2);
                P::sort(&mut data);
                assert!(data.iter().copied().eq(1..=5_000));
                data.reverse();
                P::sort_unstable(&mut data);
                assert!(data.iter().copied().eq(1..=5_000));
                let seen = AtomicUsize::new(0);
                // ORDERING: Relaxed, the loop's end orders it.
                P::each_index(10, |index| _ = seen.fetch_add(1 << index, Ordering::Relaxed));
                assert_eq!(seen.into_inner(), 1023);
            });
        }
        fn scans<P: Scans>() {
            started::<P>(2).run(|_| {
                let mut data = vec![1_u64; 5_000];
                P::scan(&mut data, |a, b| a + b);
                assert!(data.into_iter().eq(1..=5_000));
            });
        }
        fn jobs<P: Jobs>() {
            started::<P>(2).run(|_| {
                let ran: &'static AtomicUsize = Box::leak(Box::default());
                // ORDERING: Relaxed on all, the wait orders them.
                let job = || _ = ran.fetch_add(1, Ordering::Relaxed);
                P::run_and_wait(job);
                // ORDERING: as above.
                assert_eq!(ran.load(Ordering::Relaxed), 1);
                P::run_children(100, job);
                // ORDERING: as above.
                assert_eq!(ran.load(Ordering::Relaxed), 101);
            });
        }
        loops::<Filch>();
        #[cfg(feature = "peers")]
        loops::<Rayon>();
        loops::<Seq>();
        scans::<Filch>();
        scans::<Seq>();
        jobs::<Filch>();
        #[cfg(feature = "peers")]
        jobs::<Rayon>();
    }
}
