//! Parallel loops, sorts and prefix sums over slices, with each pool's own calls.
//!
//! Every sample works on a fresh copy of the same input, and every result is checked.

use super::{Entry, Load, Metric, WarmUp, per_op, runs};
#[cfg(feature = "peers")]
use crate::bench::pools::Rayon;
use crate::bench::pools::{Filch, Loops, Pool, Scans, Seq, started, timed};
use crate::bench::stats::{SplitMix, median, mix, unmix};
use std::hint::spin_loop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Rounds of the operator of `scan_heavy` in each direction. Measured: 17 ns in all.
const HEAVY: usize = 2;

/// Pauses before a loop that starts from idle, in µs; long enough for every pool to fall asleep.
const PAUSE_US: std::ops::Range<u64> = 200..1_000;

/// How long a piece waits for the others to start.
const PATIENCE: Duration = Duration::from_millis(2);

/// The loop scenarios in the order in which they run.
pub fn entries() -> Vec<Entry> {
    vec![
        Entry::per_op(
            "for_each",
            "loop over 1e7 u64, changed in place, per element",
            runs!(self::for_each => Filch, [Rayon], Seq),
        ),
        Entry::per_op(
            "sum",
            "sum of 1e7 u64, per element",
            runs!(self::sum => Filch, [Rayon], Seq),
        ),
        Entry::per_op(
            "scan",
            "running sum of 1e7 u64, per element",
            runs!(self::scan => Filch, Seq),
        ),
        Entry::per_op(
            "scan_heavy",
            "running combination of 4e6 u64 by an operator of 20 ns, per element",
            runs!(self::scan_heavy => Filch, Seq),
        ),
        Entry::per_op(
            "sort",
            "stable sort of 1e7 u64, per element",
            runs!(self::sort => Filch, [Rayon], Seq),
        ),
        Entry::per_op(
            "sort_unstable",
            "unstable sort of 1e7 u64, per element",
            runs!(self::sort_unstable => Filch, [Rayon], Seq),
        ),
        Entry::per_op(
            "sort_strings",
            "stable sort of 5e5 strings, per string",
            runs!(self::sort_strings => Filch, [Rayon], Seq),
        ),
        Entry {
            metrics: &[Metric { name: "p50_us", unit: "us" }],
            warm_up: WarmUp::Needless,
            ..Entry::per_op(
                "loop_start_spread",
                "first to last start of a loop of a piece per worker, from idle",
                runs!(self::loop_start_spread => Filch, [Rayon]),
            )
        },
    ]
}

/// Numbers in no order, the same each time, small enough that their sum does not overflow.
fn numbers(load: Load) -> &'static [u64] {
    static NUMBERS: OnceLock<Vec<u64>> = OnceLock::new();
    NUMBERS.get_or_init(|| {
        let mut random = SplitMix::new(1);
        (0..load.pick(10_000_000, 20_000)).map(|_| random.within(0..1 << 40)).collect()
    })
}

fn for_each<P: Loops>(load: Load) -> Vec<f64> {
    let (input, times) = (numbers(load), load.pick(10, 2));
    let mut data = input.to_vec();
    let pool = started::<P>(load.threads);
    let (data, elapsed) = timed(&pool, move |_| {
        (0..times).for_each(|_| P::for_each(&mut data, |x| *x = 3 * *x % (1 << 32) + 1));
        data
    });
    let known = |x: u64| (0..times).fold(x, |x, _| 3 * x % (1 << 32) + 1);
    assert!(data.iter().zip(input).all(|(&x, &before)| x == known(before)));
    per_op(elapsed, times * input.len())
}

fn sum<P: Loops>(load: Load) -> Vec<f64> {
    let (data, times) = (numbers(load), load.pick(20, 2));
    let pool = started::<P>(load.threads);
    let (sum, elapsed) = timed(&pool, move |_| (0..times).map(|_| P::sum(data)).sum::<u64>());
    assert_eq!(sum, data.iter().sum::<u64>() * times as u64);
    per_op(elapsed, times * data.len())
}

fn scan<P: Scans>(load: Load) -> Vec<f64> {
    let data = numbers(load).to_vec();
    let op = |a: u64, b: u64| a.wrapping_add(b);
    scan_with::<P>(load, data, op, |data| data.iter().fold(0, |a, &b| op(a, b)))
}

/// The operator adds in disguise: it undoes a hash of both, adds, and hashes the sum. So it is
/// associative, cannot be seen through, and its result is known.
fn scan_heavy<P: Scans>(load: Load) -> Vec<f64> {
    let data = numbers(load)[..load.pick(4_000_000, 5_000)].to_vec();
    scan_with::<P>(
        load,
        data,
        |a, b| disguise(reveal(a).wrapping_add(reveal(b))),
        |data| disguise(data.iter().fold(0, |sum, &x| reveal(x).wrapping_add(sum))),
    )
}

fn disguise(x: u64) -> u64 {
    (0..HEAVY).fold(x, |x, _| mix(x))
}

fn reveal(x: u64) -> u64 {
    (0..HEAVY).fold(x, |x, _| unmix(x))
}

/// `total` tells what the last element of a prefix becomes.
fn scan_with<P: Scans>(
    load: Load,
    input: Vec<u64>,
    op: impl Fn(u64, u64) -> u64 + Send + Sync + 'static,
    total: impl Fn(&[u64]) -> u64,
) -> Vec<f64> {
    let mut data = input.clone();
    let pool = started::<P>(load.threads);
    let (data, elapsed) = timed(&pool, move |_| {
        P::scan(&mut data, op);
        data
    });
    for end in [1, input.len() / 3, input.len() / 2, input.len()] {
        assert_eq!(data[end - 1], total(&input[..end]));
    }
    per_op(elapsed, input.len())
}

fn sort<P: Loops>(load: Load) -> Vec<f64> {
    sort_with::<P, _>(load, numbers(load), P::sort)
}

fn sort_unstable<P: Loops>(load: Load) -> Vec<f64> {
    sort_with::<P, _>(load, numbers(load), P::sort_unstable)
}

fn sort_strings<P: Loops>(load: Load) -> Vec<f64> {
    static STRINGS: OnceLock<Vec<String>> = OnceLock::new();
    let strings = STRINGS.get_or_init(|| {
        let mut random = SplitMix::new(2);
        let mut string = |_| -> String {
            let letters = random.within(4..24);
            (0..letters).map(|_| char::from(random.within(97..123) as u8)).collect()
        };
        (0..load.pick(500_000, 2_000)).map(&mut string).collect()
    });
    sort_with::<P, _>(load, strings, P::sort)
}

fn sort_with<P: Pool, T: Ord + Clone + Send + 'static>(
    load: Load,
    input: &'static [T],
    sort: fn(&mut [T]),
) -> Vec<f64> {
    let mut data = input.to_vec();
    let pool = started::<P>(load.threads);
    let (data, elapsed) = timed(&pool, move |_| {
        sort(&mut data);
        data
    });
    assert!(data.is_sorted() && data.len() == input.len());
    assert!(input.iter().step_by(997).all(|element| data.binary_search(element).is_ok()));
    per_op(elapsed, input.len())
}

fn loop_start_spread<P: Loops>(load: Load) -> Vec<f64> {
    let (loops, pieces) = (load.pick(300, 10), load.threads);
    let pool = started::<P>(pieces);
    let mut pauses = SplitMix::new(loops);
    let spread = |_| {
        thread::sleep(Duration::from_micros(pauses.within(PAUSE_US)));
        pool.run(move |_| spread_us::<P>(pieces))
    };
    let spreads: Vec<f64> = (0..loops).map(spread).collect();
    vec![median(&spreads)]
}

/// Runs a loop whose pieces each wait until all have started, so that no worker takes two.
fn spread_us<P: Loops>(pieces: usize) -> f64 {
    let starts: Vec<OnceLock<Instant>> = vec![OnceLock::new(); pieces];
    let started = AtomicUsize::new(0);
    P::each_index(pieces, |piece| {
        let start = *starts[piece].get_or_init(Instant::now);
        // ORDERING: Relaxed, a count that publishes nothing.
        started.fetch_add(1, Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        while started.load(Ordering::Relaxed) < pieces && start.elapsed() < PATIENCE {
            spin_loop();
        }
    });
    let starts = || starts.iter().map(|start| *start.get().expect("every piece ran"));
    let (first, last) = (starts().min(), starts().max());
    (last.expect("a piece") - first.expect("a piece")).as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::{disguise, reveal, spread_us};
    use crate::bench::pools::Seq;

    #[test]
    fn what_is_disguised_can_be_revealed() {
        for x in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            assert_eq!(reveal(disguise(x)), x);
        }
    }

    #[test]
    fn pieces_that_nobody_shares_start_after_one_another() {
        assert!(spread_us::<Seq>(2) >= 2_000.0);
    }
}
