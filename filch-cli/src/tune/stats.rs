//! How sure is a mean? By resampling, with a seed.

use crate::bench::SplitMix;

/// A mean with the interval that holds it with a confidence of 95 per cent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub middle: f64,
    pub high: f64,
}

/// How often the values are drawn anew.
const DRAWS: usize = 2_000;

/// The mean of `values`, and where it lies in 95 of 100 draws of as many of them with repetition.
pub fn interval(values: &[f64], random: &mut SplitMix) -> Interval {
    assert!(!values.is_empty(), "an interval needs a value");
    let count = values.len();
    let draw = |random: &mut SplitMix| values[random.within(0..count as u64) as usize];
    let mut means: Vec<f64> =
        (0..DRAWS).map(|_| (0..count).map(|_| draw(random)).sum::<f64>() / count as f64).collect();
    means.sort_unstable_by(f64::total_cmp);
    Interval {
        low: means[DRAWS / 40],
        middle: values.iter().sum::<f64>() / count as f64,
        high: means[DRAWS - 1 - DRAWS / 40],
    }
}

#[cfg(test)]
mod tests {
    use super::interval;
    use crate::bench::SplitMix;

    #[test]
    fn an_interval_surrounds_the_mean_and_grows_with_the_spread() {
        let narrow = interval(&[1.0, 1.1, 0.9, 1.0], &mut SplitMix::new(1));
        let wide = interval(&[0.0, 3.0, -1.0, 2.0], &mut SplitMix::new(1));
        assert!((narrow.middle - 1.0).abs() < 1e-9 && (wide.middle - 1.0).abs() < 1e-9);
        assert!(narrow.low > 0.85 && narrow.high < 1.15);
        assert!(wide.low < 0.2 && wide.high > 1.8);
    }

    #[test]
    fn one_value_is_as_sure_as_it_says() {
        let single = interval(&[0.5], &mut SplitMix::new(1));
        assert_eq!((single.low, single.high), (0.5, 0.5));
    }
}
