//! Which values make sense.
//!
//! V1. Every field that can be wrong has one check here, and its error names that field.
//! V2. After `validate`, a count of ticks, polls or tasks fits 32 bits, and a count of threads 16.

use std::time::Duration;

use crate::{
    config::{Affinity, Config},
    error::ConfigError,
};

/// Most threads of one kind: what 16 bits count, with room for a sign.
const THREADS: usize = 32_767;
/// Most slots for threads from outside: thieves look at all that were ever used. Guessed.
const GUESTS: usize = 1024;
/// Largest ring: its indices are halves of a word, and compare by wrapping distance.
const RING: usize = 32_768;
/// Largest budget or interval: what 32 bits count.
const COUNT: usize = u32::MAX as usize;
/// Most shards of the injector; beyond it a search costs more than contention saves. Guessed.
const SHARDS: usize = 1024;
/// Least stack in bytes: what the system itself demands of a thread.
const STACK: usize = 16 * 1024;
/// Longest wait before the sentry looks, so that a stuck worker holds nothing for long.
const SENTRY: Duration = Duration::from_millis(10);
/// Longest life of an idle spare: beyond it a timeout is a mistake in units.
const KEEP_ALIVE: Duration = Duration::from_secs(24 * 60 * 60);
/// Largest CPU index: more than any kernel is built for.
const CPU: usize = (1 << 20) - 1;

impl Config {
    /// Checks that every value makes sense.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut config = filch::Config::default();
    /// assert!(config.validate().is_ok());
    ///
    /// config.injector_shards = 0;
    /// assert_eq!(config.validate().unwrap_err().field(), "injector_shards");
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the first field, in the order of declaration, whose value makes no
    /// sense, and says why.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_counts()?;
        self.validate_search()?;
        self.validate_spares()?;
        self.validate_threads()
    }

    fn validate_counts(&self) -> Result<(), ConfigError> {
        between("io_workers", self.io_workers, 0, THREADS)?;
        between("compute_workers", self.compute_workers, 0, THREADS)?;
        between("max_workers", self.max_workers, 1, THREADS)?;
        if !(2..=RING).contains(&self.ring_capacity) || !self.ring_capacity.is_power_of_two() {
            let reason =
                format!("{} is not a power of two between 2 and {RING}", self.ring_capacity);
            return Err(ConfigError::new("ring_capacity", reason));
        }
        between("global_interval", self.global_interval, 1, COUNT)?;
        between("global_batch", self.global_batch, 1, COUNT)?;
        between("io_interval", self.io_interval, 1, COUNT)?;
        between("local_budget", self.local_budget, 1, COUNT)?;
        between("private_budget", self.private_budget, 1, COUNT)?;
        between("timer_budget", self.timer_budget, 1, COUNT)
    }

    fn validate_search(&self) -> Result<(), ConfigError> {
        if let Some(tries) = self.explore_tries {
            between("explore_tries", tries, 1, COUNT)?;
        }
        between("explore_yields", self.explore_yields, 0, COUNT)?;
        if let Some(searchers) = self.searcher_limit {
            between("searcher_limit", searchers, 1, THREADS)?;
        }
        between("slot_streak", self.slot_streak, 1, COUNT)
    }

    fn validate_spares(&self) -> Result<(), ConfigError> {
        between("io_spares", self.io_spares, 0, THREADS)?;
        if let Some(spares) = self.compute_spares {
            between("compute_spares", spares, 0, THREADS)?;
        }
        between("adoptable_threads", self.adoptable_threads, 0, GUESTS)?;
        if let Some(workers) = self.attachable_workers {
            between("attachable_workers", workers, 0, GUESTS)?;
        }
        between("guest_threads", self.guest_threads, 0, GUESTS)?;
        positive_up_to("spare_keep_alive", self.spare_keep_alive, KEEP_ALIVE)?;
        between("blocking_threads", self.blocking_threads, 1, THREADS)?;
        positive_up_to("blocking_keep_alive", self.blocking_keep_alive, KEEP_ALIVE)?;
        positive_up_to("sentry_period", self.sentry_period, SENTRY)?;
        if let Some(batch) = self.outbound_batch {
            between("outbound_batch", batch, 1, self.ring_capacity)?;
        }
        between("injector_shards", self.injector_shards, 1, SHARDS)?;
        between("poll_budget", self.poll_budget, 1, COUNT)
    }

    fn validate_threads(&self) -> Result<(), ConfigError> {
        if let Some(bytes) = self.stack_size {
            between("stack_size", bytes, STACK, isize::MAX as usize)?;
        }
        if self.thread_name.is_empty() {
            return Err(ConfigError::new("thread_name", "is empty"));
        }
        if self.thread_name.contains('\0') {
            let reason = format!("{:?} contains a NUL", self.thread_name);
            return Err(ConfigError::new("thread_name", reason));
        }
        affinity("io_affinity", &self.io_affinity)?;
        affinity("compute_affinity", &self.compute_affinity)?;
        let counts = (self.io_workers, self.compute_workers);
        if self.single_thread && (counts.0 > 1 || counts.1 > 1) {
            let reason = format!("contradicts {} I/O and {} compute workers", counts.0, counts.1);
            return Err(ConfigError::new("single_thread", reason));
        }
        Ok(())
    }
}

fn between(field: &'static str, value: usize, low: usize, high: usize) -> Result<(), ConfigError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(field, format!("{value} is not between {low} and {high}")))
}

fn positive_up_to(field: &'static str, value: Duration, high: Duration) -> Result<(), ConfigError> {
    if !value.is_zero() && value <= high {
        return Ok(());
    }
    Err(ConfigError::new(field, format!("{value:?} is not more than zero and at most {high:?}")))
}

fn affinity(field: &'static str, value: &Affinity) -> Result<(), ConfigError> {
    let Affinity::Cpus(cpus) = value else {
        return Ok(());
    };
    if cpus.is_empty() {
        return Err(ConfigError::new(field, "lists no CPU"));
    }
    let mut sorted = cpus.clone();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|w| w[0] == w[1]) {
        return Err(ConfigError::new(field, format!("lists CPU {} twice", twice[0])));
    }
    match sorted.last() {
        Some(&last) if last > CPU => {
            Err(ConfigError::new(field, format!("CPU {last} is not between 0 and {CPU}")))
        }
        _ => Ok(()),
    }
}
