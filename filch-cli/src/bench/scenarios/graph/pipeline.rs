//! Tokens through four stages of 100 ns each.

use crate::bench::pools::{Filch, Pool, Seq, started, timed};
use crate::bench::scenarios::{Entry, Load, Run, per_op};
use crate::bench::stats::mix;
use filch::Pipeline;

/// Rounds of the body of a stage. Measured: 100 ns.
const ROUNDS: usize = 28;

/// Tokens in flight.
const LINES: usize = 64;

/// The pipeline scenarios in the order in which they run.
pub fn entries() -> Vec<Entry> {
    vec![
        Entry::per_op(
            "pipeline",
            "1e6 tokens through serial, parallel, parallel, serial stages of 100 ns, per token",
            runs(filch::<Mixed>, seq),
        ),
        Entry::per_op(
            "pipeline_serial",
            "1e6 tokens through four serial stages of 100 ns, per token",
            runs(filch::<AllSerial>, seq),
        ),
    ]
}

fn runs(ours: fn(Load) -> Vec<f64>, sequential: fn(Load) -> Vec<f64>) -> Vec<Run> {
    vec![Run { runtime: Filch::NAME, sample: ours }, Run { runtime: Seq::NAME, sample: sequential }]
}

fn tokens(load: Load) -> u64 {
    load.pick(1_000_000, 5_000)
}

#[inline(never)]
fn stage(number: u64) -> u64 {
    (0..ROUNDS).fold(number, |number, _| mix(number))
}

/// What the last stage adds up.
fn known(load: Load) -> u64 {
    (0..tokens(load))
        .map(|token| (0..4).fold(token, |number, _| stage(number)))
        .fold(0, u64::wrapping_add)
}

fn seq(load: Load) -> Vec<f64> {
    let (sum, elapsed) = timed(&started::<Seq>(1), move |_| known(load));
    std::hint::black_box(sum);
    per_op(elapsed, tokens(load) as usize)
}

/// How the stages are put together.
trait Shape {
    fn make(tokens: u64, sum: &mut u64) -> Pipeline<'_>;
}

struct Mixed;

impl Shape for Mixed {
    fn make(tokens: u64, sum: &mut u64) -> Pipeline<'_> {
        Pipeline::new(LINES)
            .items((0..tokens).map(stage))
            .parallel(stage)
            .parallel(stage)
            .for_each(|number| *sum = sum.wrapping_add(stage(number)))
    }
}

struct AllSerial;

impl Shape for AllSerial {
    fn make(tokens: u64, sum: &mut u64) -> Pipeline<'_> {
        Pipeline::new(LINES)
            .items((0..tokens).map(stage))
            .serial(stage)
            .serial(stage)
            .for_each(|number| *sum = sum.wrapping_add(stage(number)))
    }
}

fn filch<S: Shape>(load: Load) -> Vec<f64> {
    let pool = started::<Filch>(load.threads);
    let (sum, elapsed) = timed(&pool, move |_| {
        let mut sum = 0;
        let run = S::make(tokens(load), &mut sum).run();
        assert_eq!(run.expect("no stage fails"), tokens(load));
        sum
    });
    assert_eq!(sum, known(load));
    per_op(elapsed, tokens(load) as usize)
}
