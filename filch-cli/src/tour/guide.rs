//! Guide: what a chapter may ask for while it runs, and comparisons in words.
//!
//! V1. A comparison names both figures, and who is better: us or the peer, by the same rule.
//! V2. Differences below a tenth are called none.
//!
//! Not here: how a scenario is measured (`bench`).

use super::{Shown, workers};
use crate::bench::{BASE, Series, Trial, median};
use crate::style::show_progress;
use std::io::{IsTerminal, stdout};
use std::time::Duration;

/// A difference that is worth a word (V2).
const NOTEWORTHY: f64 = 1.1;

/// A comparison gets no further round after this, so that a busy machine makes no long tour. Guessed: twice what
/// the longest takes on two idle cores.
const PATIENCE: Duration = Duration::from_secs(6);

/// How much work a chapter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Enough to compare.
    Full,
    /// Small samples where speed decides how long they take: this program was built without optimisation.
    Debug,
    /// Enough to see that it works.
    Quick,
}

impl Effort {
    pub fn of_build() -> Self {
        if cfg!(debug_assertions) { Self::Debug } else { Self::Full }
    }
}

/// What decides how long a sample takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Its work, which is little under `--quick`, and in a debug build.
    Work,
    /// Time, so much of it if that can be chosen.
    Time(Option<Duration>),
    /// Work that is little enough in any build.
    Little,
}

/// Leads through one chapter. Its progress line is erased when it is dropped.
pub struct Guide {
    effort: Effort,
    /// Which chapter this is.
    place: String,
    is_watched: bool,
}

impl Guide {
    pub fn new(effort: Effort, place: String) -> Self {
        let guide = Self { effort, place, is_watched: stdout().is_terminal() };
        guide.tell("running");
        guide
    }

    /// Tells what goes on, on a terminal.
    pub fn tell(&self, what: &str) {
        if self.is_watched {
            show_progress(&format!("{}: {what}", self.place));
        }
    }

    /// Measures a scenario of `filch bench` on filch and a peer, in turns, for so many rounds.
    pub fn measure(
        &self,
        scenario: &str,
        peer: &str,
        bound: Bound,
        rounds: usize,
    ) -> Result<Comparison, Shown> {
        let is_quick = self.effort == Effort::Quick;
        let trial = Trial {
            scenario,
            runtimes: &[BASE, peer],
            threads: workers(),
            rounds: if is_quick { 1 } else { rounds },
            quick: match bound {
                Bound::Work => self.effort != Effort::Full,
                Bound::Time(_) => is_quick,
                Bound::Little => true,
            },
            duration: match bound {
                Bound::Time(window) if !is_quick => window,
                _ => None,
            },
            patience: PATIENCE,
        };
        let series = trial.run(|what| self.tell(&format!("measuring {what}")));
        series.map(Comparison).map_err(|error| format!("not measured: {error}"))
    }
}

impl Drop for Guide {
    fn drop(&mut self) {
        if self.is_watched {
            show_progress("");
        }
    }
}

/// What was measured of filch and, if this program was built with it, of a peer.
pub struct Comparison(Series);

/// What a figure says of its runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// The less, the faster.
    Cost,
    /// The more, the faster.
    Rate,
    /// The more, the later.
    Delay,
    /// The more, the longer.
    Latency,
}

impl Comparison {
    /// The medians of one metric, and who is better.
    pub fn words(&self, metric: usize, says: Says, show: impl Fn(f64) -> String) -> String {
        let median_of = |(name, rounds): (&'static str, Vec<f64>)| (name, median(&rounds));
        let mut medians =
            self.0.runtimes.iter().map(|it| median_of((it.runtime, it.metric(metric))));
        let (_, ours) = medians.next().expect("filch takes part in all");
        let peer = medians.next().map(|(name, value)| (called(name), value));
        words(says, (says.value(ours), peer.map(|(name, value)| (name, says.value(value)))), show)
    }
}

impl Says {
    /// Scenarios measure what one operation costs.
    fn value(self, measured: f64) -> f64 {
        if self == Self::Rate { 1e9 / measured } else { measured }
    }
}

/// A runtime of the benchmark in a text.
fn called(name: &'static str) -> &'static str {
    match name {
        "tokio" => "Tokio",
        "tokio+rayon" => "Tokio + rayon",
        "seq" => "one thread",
        name => name,
    }
}

fn words(
    says: Says,
    (ours, peer): (f64, Option<(&str, f64)>),
    show: impl Fn(f64) -> String,
) -> String {
    let Some((name, theirs)) = peer else { return format!("filch {}", show(ours)) };
    let figures = format!("filch {}, {name} {}", show(ours), show(theirs));
    let (less, more, ratio) = match ours <= theirs {
        true => (BASE, name, theirs / ours),
        false => (name, BASE, ours / theirs),
    };
    let times = figure_of_ratio(ratio);
    let verdict = match says {
        _ if ratio < NOTEWORTHY => "about equal".into(),
        Says::Cost => format!("{less} is {times} × as fast"),
        Says::Rate => format!("{more} is {times} × as fast"),
        Says::Delay => format!("{more} is {times} × as late"),
        Says::Latency => format!("{more} takes {times} × as long"),
    };
    format!("{figures} ({verdict})")
}

fn figure_of_ratio(ratio: f64) -> String {
    if ratio < 9.95 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
}

#[cfg(test)]
mod tests {
    use super::{Says, words};
    use crate::style::figure;

    fn compared(says: Says, ours: f64, theirs: f64) -> String {
        words(says, (ours, Some(("Tokio", theirs))), figure)
    }

    #[test]
    fn a_comparison_names_who_is_better_by_the_same_rule() {
        for (says, ours, theirs, verdict) in [
            (Says::Cost, 40.0, 120.0, "filch is 3.0 × as fast"),
            (Says::Cost, 120.0, 40.0, "Tokio is 3.0 × as fast"),
            (Says::Rate, 40.0, 120.0, "Tokio is 3.0 × as fast"),
            (Says::Rate, 120.0, 40.0, "filch is 3.0 × as fast"),
            (Says::Delay, 40.0, 1_000.0, "Tokio is 25 × as late"),
            (Says::Delay, 30.0, 20.0, "filch is 1.5 × as late"),
            (Says::Latency, 20.0, 30.0, "Tokio takes 1.5 × as long"),
        ] {
            let expected = format!("filch {}, Tokio {} ({verdict})", figure(ours), figure(theirs));
            assert_eq!(compared(says, ours, theirs), expected);
        }
    }

    #[test]
    fn small_differences_are_none() {
        assert_eq!(compared(Says::Cost, 100.0, 109.0), "filch 100, Tokio 109 (about equal)");
        assert_eq!(compared(Says::Cost, 109.0, 100.0), "filch 109, Tokio 100 (about equal)");
    }

    #[test]
    fn filch_alone_is_compared_with_nobody() {
        assert_eq!(words(Says::Cost, (40.0, None), figure), "filch 40.0");
    }
}
