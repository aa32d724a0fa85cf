//! Chapters on computing: what a join, a loop and a sort cost.

use super::Shown;
use super::guide::{Bound, Guide, Says};
use super::seconds;

/// Rounds of each comparison.
const ROUNDS: usize = 3;

/// Fibonacci numbers by their definition: hardly anything but joins.
pub fn join(guide: &Guide) -> Shown {
    beside_rayon(guide, "fib", "recursive Fibonacci numbers, per join")
}

pub fn loops(guide: &Guide) -> Shown {
    beside_rayon(guide, "sum", "sum of a slice of numbers, per number")
}

pub fn sort(guide: &Guide) -> Shown {
    beside_rayon(guide, "sort", "stable sort of random numbers, per number")
}

fn beside_rayon(guide: &Guide, scenario: &str, what: &str) -> Shown {
    let compared = guide.measure(scenario, "rayon", Bound::Work, ROUNDS);
    compared.map_or_else(
        |failure| failure,
        |compared| format!("{what}: {}", compared.words(0, Says::Cost, |ns| seconds(ns / 1e9))),
    )
}
