//! Statistics over rounds, and the small generator behind pauses and inputs.
//!
//! Not here: percentiles within a sample, which the scenario takes from its own histogram.

use std::ops::Range;

/// What is reported of one series of rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Summary {
    /// Summarises a series.
    ///
    /// # Panics
    /// If the series is empty.
    pub fn of(values: &[f64]) -> Self {
        Self {
            median: median(values),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// The distance from the least to the greatest value in per cent of the median; nothing for a
    /// median of 0.
    pub fn spread_percent(&self) -> Option<f64> {
        (self.median != 0.0).then(|| (self.max - self.min) / self.median * 100.0)
    }
}

/// The middle value, or the mean of the two in the middle.
///
/// # Panics
/// If there is no value.
pub fn median(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "a median needs a value");
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    }
}

/// The median over rounds of `peer / base`; a load that disturbs a whole round cancels out. Rounds
/// in which the base measured 0 say nothing; if there is no other there is no ratio.
pub fn median_ratio(peer: &[f64], base: &[f64]) -> Option<f64> {
    assert_eq!(peer.len(), base.len(), "a ratio pairs rounds");
    let ratios: Vec<f64> = peer
        .iter()
        .zip(base)
        .filter(|&(_, &base)| base != 0.0)
        .map(|(peer, base)| peer / base)
        .collect();
    (!ratios.is_empty()).then(|| median(&ratios))
}

/// What SplitMix64 adds for each value.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64: the same seed gives the same pauses to every peer.
pub struct SplitMix(u64);

impl SplitMix {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A value in the range, uniform but for a bias that does not matter for pauses.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        range.start + scramble(self.0) % (range.end - range.start)
    }
}

/// The factors of SplitMix64 and their inverses modulo 2^64.
const FACTORS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
const INVERSES: [u64; 2] = [inverse(FACTORS[0]), inverse(FACTORS[1])];

/// One step of SplitMix64 as a hash; `unmix` undoes it.
#[inline]
pub fn mix(x: u64) -> u64 {
    scramble(x.wrapping_add(STEP))
}

#[inline]
fn scramble(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(FACTORS[0]);
    x = (x ^ (x >> 27)).wrapping_mul(FACTORS[1]);
    x ^ (x >> 31)
}

/// The inverse of `mix`.
#[inline]
pub fn unmix(mut x: u64) -> u64 {
    x = (x ^ (x >> 31) ^ (x >> 62)).wrapping_mul(INVERSES[1]);
    x = (x ^ (x >> 27) ^ (x >> 54)).wrapping_mul(INVERSES[0]);
    (x ^ (x >> 30) ^ (x >> 60)).wrapping_sub(STEP)
}

/// By Newton's method: each round doubles the number of bits that are right, from three.
const fn inverse(odd: u64) -> u64 {
    let mut guess = odd;
    let mut round = 0;
    while round < 5 {
        guess = guess.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(guess)));
        round += 1;
    }
    guess
}

#[cfg(test)]
mod tests {
    use super::{SplitMix, Summary, median, median_ratio, mix, unmix};

    #[test]
    fn median_of_odd_and_even_series() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
    }

    #[test]
    #[should_panic(expected = "a median needs a value")]
    fn median_of_nothing_panics() {
        median(&[]);
    }

    #[test]
    fn summary_holds_median_and_extremes() {
        let summary = Summary::of(&[10.0, 30.0, 20.0]);
        assert_eq!(summary, Summary { median: 20.0, min: 10.0, max: 30.0 });
        assert_eq!(summary.spread_percent(), Some(100.0));
        assert_eq!(Summary::of(&[0.0]).spread_percent(), None);
    }

    #[test]
    fn ratio_is_taken_per_round_and_not_of_medians() {
        // The second round was disturbed for both alike.
        assert_eq!(median_ratio(&[20.0, 200.0, 30.0], &[10.0, 100.0, 10.0]), Some(2.0));
    }

    #[test]
    fn ratio_skips_rounds_whose_base_is_zero() {
        assert_eq!(median_ratio(&[5.0, 8.0], &[0.0, 2.0]), Some(4.0));
        assert_eq!(median_ratio(&[5.0], &[0.0]), None);
    }

    #[test]
    fn unmix_undoes_mix() {
        for x in [0, 1, 42, u64::MAX, 0x8000_0000_0000_0000] {
            assert_eq!(unmix(mix(x)), x);
            assert_eq!(mix(unmix(x)), x);
        }
    }

    #[test]
    fn pauses_stay_in_range_and_follow_the_seed() {
        let draw = |seed| {
            let mut pauses = SplitMix::new(seed);
            (0..1_000).map(|_| pauses.within(200..1_000)).collect::<Vec<_>>()
        };
        assert!(draw(1).iter().all(|pause| (200..1_000).contains(pause)));
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
