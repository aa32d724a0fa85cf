//! Counters: what each worker did, always on.
//!
//! O1. A counter is written by its worker alone (plain add of two relaxed accesses), `rescues` by
//!     the sentry alone, and read by anybody; a snapshot is consistent per counter, not across counters.
//!
//! Not here: what is worth counting (`sched` decides), traces.

use crossbeam_utils::CachePadded;

use crate::base::shim::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What one worker, or all of them together, did since the start.
        ///
        /// ```
        /// let runtime = filch::Builder::new().workers(1).build()?;
        /// runtime.block_on(async { filch::spawn(async {}).await });
        /// assert!(runtime.snapshot().total().polls >= 1);
        /// # Ok::<(), filch::BuildError>(())
        /// ```
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The counters of one worker (O1).
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        impl Counters {
            pub(crate) fn read(&self) -> Counts {
                Counts { $($name: self.$name.get(),)* }
            }
        }

        impl std::ops::AddAssign for Counts {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Tasks run: polls of futures and calls of jobs.
    polls,
    /// Victims tried.
    steals_tried,
    /// Victims that gave something.
    steals_won,
    /// Tasks that stealing moved.
    stolen,
    /// Times the worker went to sleep.
    parks,
    /// Other workers that it woke.
    wakes,
    /// Times its ring was full.
    overflows,
    /// Times it took from the injector.
    injector_pulls,
    /// System-wide memory barriers that its steals paid for.
    heavy_barriers,
    /// Times it was replaced by a spare because it blocked.
    spares,
    /// Times it blocked with no spare left.
    spares_missing,
    /// Tasks taken from its slot by the sentry because it was stuck.
    rescues,
    /// Nanoseconds awake.
    busy_ns,
}

/// A number that one thread writes.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        // ORDERING: Relaxed, O1: one writer, and nothing is published by a count.
        let now = self.0.load(Ordering::Relaxed);
        // ORDERING: as above.
        self.0.store(now.wrapping_add(n), Ordering::Relaxed);
    }

    /// For the rare counts that another thread than the worker makes.
    pub(crate) fn add_shared(&self, n: u64) {
        // ORDERING: Relaxed, nothing is published by a count.
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // ORDERING: Relaxed, O1.
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters with a cache line of their own.
pub(crate) type PaddedCounters = CachePadded<Counters>;
