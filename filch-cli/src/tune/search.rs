//! The search: which values are better than the defaults, and how sure is that?
//!
//! 1. **Screen.** Each value of each knob, in an order that the seed shuffles, is compared with the default
//!    in a few rounds. The best value of each knob goes on, if it was better at all.
//! 2. **Adopt.** The most promising first, each is added to what was adopted so far and compared with that
//!    in fresh rounds. It stays if the whole interval of confidence is above nothing gained, the gain is worth
//!    it (`WORTH`), and no scenario has surely lost more than `LOSS`.
//! 3. **Verify.** What was adopted is compared with the defaults in fresh rounds of every scenario. Only these
//!    figures are reported as gains: with a hundred values some look good by chance, and chance
//!    does not repeat.
//!
//! S1. A comparison is a ratio within a round, old and new alternating, so what disturbs both cancels out.
//! S2. Each step has a share of the budget; what is not reached is told.
//!
//! Not here: how a ratio is measured (`judge`).

use super::space::{KNOBS, Knob, knob};
use super::stats::{Interval, interval};
use crate::bench::SplitMix;
use std::collections::BTreeMap;
use std::io;

/// What differs from the defaults: parameter and value.
pub type Settings = BTreeMap<&'static str, &'static str>;

const SCREEN_ROUNDS: usize = 2;
const ADOPT_ROUNDS: usize = 7;
const VERIFY_ROUNDS: usize = 11;
/// Shares of the budget after which a step ends.
const SCREEN_UNTIL: f64 = 0.55;
const ADOPT_UNTIL: f64 = 0.8;
/// A smaller gain is no reason to leave a default: 1 per cent.
const WORTH: f64 = 0.01;
/// A scenario that surely loses more than this vetoes a value: 2 per cent.
const LOSS: f64 = -0.02;

/// Who measures.
pub trait Judge {
    /// Natural logarithms of old over new, for each scenario and round: above 0 the new one is faster.
    fn compare(
        &mut self,
        old: &Settings,
        new: &Settings,
        scenarios: &[&'static str],
        rounds: usize,
    ) -> io::Result<Vec<Vec<f64>>>;

    /// The share of the budget that is used up.
    fn spent(&self) -> f64;
}

/// A value that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    pub field: &'static str,
    pub value: &'static str,
    /// Over the scenarios of its knob.
    pub gain: Interval,
    pub verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Not better in the screening, or not the best of its knob.
    Screened,
    /// Better in the screening; the budget ended before it was tried again.
    NotReached,
    /// Better, but not surely, or not by enough.
    Unsure,
    /// Better on the whole, at the cost of a scenario.
    Vetoed(&'static str),
    Adopted,
}

/// What came out.
#[derive(Debug)]
pub struct Outcome {
    pub adopted: Settings,
    pub trials: Vec<Trial>,
    /// Values that the budget did not allow.
    pub not_reached: usize,
    /// The gain of everything that was adopted, by scenario.
    pub verified: Vec<(&'static str, Interval)>,
}

/// Searches within the judge's budget.
pub fn search(
    judge: &mut impl Judge,
    scenarios: &[&'static str],
    seed: u64,
) -> io::Result<Outcome> {
    let mut random = SplitMix::new(seed);
    let (mut trials, not_reached) = screen(judge, scenarios, &mut random)?;
    let adopted = adopt(judge, scenarios, &mut trials, &mut random)?;
    let mut verified = Vec::new();
    if !adopted.is_empty() {
        let logs = judge.compare(&Settings::new(), &adopted, scenarios, VERIFY_ROUNDS)?;
        for (&scenario, logs) in scenarios.iter().zip(&logs) {
            verified.push((scenario, interval(logs, &mut random)));
        }
    }
    Ok(Outcome { adopted, trials, not_reached, verified })
}

fn screen(
    judge: &mut impl Judge,
    scenarios: &[&'static str],
    random: &mut SplitMix,
) -> io::Result<(Vec<Trial>, usize)> {
    let values = |knob: &'static Knob| knob.values.iter().map(move |&value| (knob, value));
    let mut all: Vec<_> = KNOBS.iter().flat_map(values).collect();
    shuffle(&mut all, random);
    let (mut trials, mut not_reached) = (Vec::new(), 0);
    for (knob, value) in all {
        let felt = felt_in(knob, scenarios);
        if felt.is_empty() || judge.spent() > SCREEN_UNTIL {
            not_reached += 1;
            continue;
        }
        let new = Settings::from([(knob.field, value)]);
        let logs = judge.compare(&Settings::new(), &new, &felt, SCREEN_ROUNDS)?;
        let gain = interval(&by_round(&logs), random);
        trials.push(Trial { field: knob.field, value, gain, verdict: Verdict::Screened });
    }
    trials.sort_by(|a, b| b.gain.middle.total_cmp(&a.gain.middle));
    Ok((trials, not_reached))
}

fn adopt(
    judge: &mut impl Judge,
    scenarios: &[&'static str],
    trials: &mut [Trial],
    random: &mut SplitMix,
) -> io::Result<Settings> {
    let mut adopted = Settings::new();
    let mut seen = Vec::new();
    for trial in trials {
        if seen.contains(&trial.field) || trial.gain.middle <= 0.0 {
            continue;
        }
        seen.push(trial.field);
        if judge.spent() > ADOPT_UNTIL {
            trial.verdict = Verdict::NotReached;
            continue;
        }
        let felt = felt_in(knob(trial.field).expect("trials are of knobs"), scenarios);
        let mut new = adopted.clone();
        new.insert(trial.field, trial.value);
        let logs = judge.compare(&adopted, &new, &felt, ADOPT_ROUNDS)?;
        trial.gain = interval(&by_round(&logs), random);
        let hurt = felt.iter().zip(&logs).find(|(_, logs)| interval(logs, random).high < LOSS);
        trial.verdict = match hurt {
            _ if trial.gain.low <= 0.0 || trial.gain.middle < WORTH => Verdict::Unsure,
            Some((&scenario, _)) => Verdict::Vetoed(scenario),
            None => {
                adopted = new;
                Verdict::Adopted
            }
        };
    }
    Ok(adopted)
}

/// The scenarios of a knob that take part.
fn felt_in(knob: &Knob, scenarios: &[&'static str]) -> Vec<&'static str> {
    knob.scenarios.iter().copied().filter(|name| scenarios.contains(name)).collect()
}

/// The mean over the scenarios, round by round: every scenario counts alike.
fn by_round(logs: &[Vec<f64>]) -> Vec<f64> {
    let rounds = logs.first().map_or(0, Vec::len);
    (0..rounds)
        .map(|round| logs.iter().map(|logs| logs[round]).sum::<f64>() / logs.len() as f64)
        .collect()
}

fn shuffle<T>(items: &mut [T], random: &mut SplitMix) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.within(0..last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::{Judge, Outcome, Settings, Verdict, search};
    use crate::bench::SplitMix;
    use crate::tune::space::{KNOBS, scenarios};
    use std::collections::BTreeSet;
    use std::io;

    /// A machine that answers by formula, with noise, and counts what it is asked.
    struct Formula {
        noise: SplitMix,
        gain: fn(&Settings, &str) -> f64,
        asked: usize,
        most: usize,
    }

    impl Judge for Formula {
        fn compare(
            &mut self,
            old: &Settings,
            new: &Settings,
            scenarios: &[&'static str],
            rounds: usize,
        ) -> io::Result<Vec<Vec<f64>>> {
            self.asked += scenarios.len() * rounds;
            let log = |name: &str, noise: &mut SplitMix| {
                (self.gain)(new, name) - (self.gain)(old, name)
                    + (noise.within(0..2_001) as f64 - 1_000.0) * 1e-5
            };
            Ok(scenarios
                .iter()
                .map(|name| (0..rounds).map(|_| log(name, &mut self.noise)).collect())
                .collect())
        }

        fn spent(&self) -> f64 {
            self.asked as f64 / self.most as f64
        }
    }

    fn on(gain: fn(&Settings, &str) -> f64, most: usize) -> Outcome {
        let mut judge = Formula { noise: SplitMix::new(5), gain, asked: 0, most };
        search(&mut judge, &scenarios(), 7).expect("a formula does not fail")
    }

    #[test]
    fn what_helps_is_found_adopted_and_verified() {
        let outcome = on(
            |settings, scenario| {
                let streak = settings.get("slot_streak") == Some(&"6");
                if streak && scenario == "ping_pong" { 0.2 } else { 0.0 }
            },
            10_000,
        );
        assert_eq!(outcome.adopted, Settings::from([("slot_streak", "6")]));
        assert_eq!(outcome.not_reached, 0);
        let (_, gain) = outcome.verified.iter().find(|(name, _)| *name == "ping_pong").unwrap();
        assert!(gain.low > 0.15 && gain.high < 0.25, "{gain:?}");
    }

    #[test]
    fn what_helps_some_and_surely_hurts_another_is_vetoed() {
        let outcome = on(
            |settings, scenario| match (settings.get("slot_streak"), scenario) {
                (Some(&"6"), "ping_pong") => 0.5,
                (Some(&"6"), "yield_many") => -0.1,
                _ => 0.0,
            },
            10_000,
        );
        assert!(!outcome.adopted.contains_key("slot_streak"));
        let trial = outcome.trials.iter().find(|t| (t.field, t.value) == ("slot_streak", "6"));
        assert_eq!(trial.unwrap().verdict, Verdict::Vetoed("yield_many"));
    }

    #[test]
    fn what_looked_good_and_was_not_tried_again_is_told() {
        // All values are screened, and then hardly one is tried again.
        let values: usize = KNOBS.iter().map(|knob| knob.values.len() * knob.scenarios.len()).sum();
        let outcome =
            on(|settings, _| if settings.is_empty() { 0.0 } else { 0.1 }, 11 * values / 3);
        assert_eq!(outcome.not_reached, 0);
        let unreached = outcome.trials.iter().filter(|t| t.verdict == Verdict::NotReached);
        let fields: BTreeSet<_> = unreached.clone().map(|trial| trial.field).collect();
        assert_eq!(fields.len(), unreached.count(), "one value of each knob");
        assert!(!fields.is_empty());
    }

    #[test]
    fn a_small_budget_ends_the_search_and_says_what_was_not_tried() {
        let outcome = on(|_, _| 0.0, 40);
        let tried = outcome.trials.len();
        let values: usize = KNOBS.iter().map(|knob| knob.values.len()).sum();
        assert!(tried < 10);
        assert_eq!(tried + outcome.not_reached, values);
    }

    #[test]
    fn the_same_seed_searches_in_the_same_order() {
        let order = |_| {
            let outcome = on(|_, _| 0.0, 60);
            let mut tried: Vec<_> = outcome.trials.iter().map(|t| (t.field, t.value)).collect();
            tried.sort_unstable();
            tried
        };
        assert_eq!(order(0), order(1));
    }
}
