//! A small fast random number generator, one per worker: victims, start points, jitter.
//!
//! R1. The sequence is a function of the seed, so a run can be repeated by its seed.
//! R2. Every seed is good, zero too: the state walks through all 2⁶⁴ values.
//!
//! The generator is wyrand: a Weyl sequence mixed by one widening multiplication.
//!
//! Not here: anything that must not be guessed.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::sim;

/// Odd, so that the Weyl sequence has the full period.
const STEP: u64 = 0xa076_1d64_78bd_642f;
const MIX: u64 = 0xe703_7ed1_a0b4_28db;

/// See the file header.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The generator of `seed` after `count` numbers: for threads that share a sequence by a counter. Seeds that
    /// count up by one would not do: their first numbers are nearly as far from each other as the seeds.
    pub(crate) const fn after(seed: u64, count: u64) -> Self {
        Self(seed.wrapping_add(STEP.wrapping_mul(count)))
    }

    #[inline]
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let wide = u128::from(self.0) * u128::from(self.0 ^ MIX);
        (wide >> 64) as u64 ^ wide as u64
    }

    /// A number in `0..n`. The bias is below n / 2⁶⁴.
    ///
    /// # Panics
    ///
    /// In debug builds, if `n` is zero; otherwise the answer is then zero.
    #[inline]
    pub(crate) fn below(&mut self, n: usize) -> usize {
        debug_assert!(n > 0, "no number is below zero");
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }
}

/// A seed that differs from call to call and from process to process; in a simulation, the next
/// number of its own.
pub(crate) fn fresh_seed() -> u64 {
    sim::random().unwrap_or_else(|| RandomState::new().build_hasher().finish())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Rng, fresh_seed};

    #[test]
    fn same_seed_gives_the_same_numbers() {
        for seed in [0, 1, u64::MAX, fresh_seed()] {
            let (mut a, mut b) = (Rng::new(seed), Rng::new(seed));
            for _ in 0..100 {
                assert_eq!(a.next_u64(), b.next_u64(), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_sequence_can_be_entered_anywhere() {
        let seed = fresh_seed();
        let mut rng = Rng::new(seed);
        for count in 0..100 {
            assert_eq!(Rng::after(seed, count).next_u64(), rng.next_u64(), "seed {seed}");
        }
    }

    #[test]
    fn different_seeds_give_different_numbers() {
        let mut seen: Vec<u64> = (0..1000).map(|seed| Rng::new(seed).next_u64()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 1000);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes tens of thousands of numbers")]
    fn below_reaches_every_number_in_range_about_equally() {
        for n in [1, 2, 3, 7, 64] {
            let mut rng = Rng::new(n as u64);
            let mut hits = vec![0_u32; n];
            for _ in 0..n * 1000 {
                hits[rng.below(n)] += 1;
            }
            assert!(hits.iter().all(|h| (800..1200).contains(h)), "{n}: {hits:?}");
        }
    }

    #[test]
    fn below_of_the_largest_number_stays_in_range() {
        let mut rng = Rng::new(7);
        assert!((0..1000).all(|_| rng.below(usize::MAX) < usize::MAX));
    }

    #[test]
    fn fresh_seeds_differ() {
        assert_ne!(fresh_seed(), fresh_seed());
    }
}
