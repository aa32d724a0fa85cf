//! Measures settings: samples of `filch bench`, each in a process of its own that loads them from a file.
//!
//! Old and new alternate, and who begins does too. A sample's value is the mean of the logarithms of its
//! metrics, so a latency counts like a throughput.

use super::search::{Judge, Settings};
use crate::bench::sample_with_config;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Told before each comparison: the share of the budget that is spent, and what is tried.
pub type Progress<'a> = &'a dyn Fn(f64, &str);

/// The machine at hand.
pub struct Bench<'a> {
    pub threads: u16,
    pub quick: bool,
    pub budget: Duration,
    pub started: Instant,
    pub progress: Progress<'a>,
    /// Where the settings of a sample are written.
    pub file: Scratch,
}

/// A file of this process, removed at the end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        Self(std::env::temp_dir().join(format!("filch-tune-{}.conf", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It may never have been written.
        let _ = fs::remove_file(&self.0);
    }
}

impl Bench<'_> {
    fn sample(&self, scenario: &str, settings: &Settings) -> io::Result<Vec<f64>> {
        let lines: String =
            settings.iter().map(|(field, value)| format!("{field} = {value}\n")).collect();
        fs::write(&self.file.0, lines)?;
        sample_with_config(scenario, self.threads, self.quick, &self.file.0)
    }
}

impl Judge for Bench<'_> {
    fn compare(
        &mut self,
        old: &Settings,
        new: &Settings,
        scenarios: &[&'static str],
        rounds: usize,
    ) -> io::Result<Vec<Vec<f64>>> {
        let mut logs = vec![Vec::with_capacity(rounds); scenarios.len()];
        for round in 0..rounds {
            for (logs, scenario) in logs.iter_mut().zip(scenarios) {
                (self.progress)(self.spent(), &describe(old, new, scenario));
                let (before, after) = if round % 2 == 0 {
                    let before = self.sample(scenario, old)?;
                    (before, self.sample(scenario, new)?)
                } else {
                    let after = self.sample(scenario, new)?;
                    (self.sample(scenario, old)?, after)
                };
                logs.push(mean_log_ratio(&before, &after));
            }
        }
        Ok(logs)
    }

    fn spent(&self) -> f64 {
        self.started.elapsed().as_secs_f64() / self.budget.as_secs_f64()
    }
}

/// What the new settings have that the old have not.
fn describe(old: &Settings, new: &Settings, scenario: &str) -> String {
    let added = new.iter().filter(|&(field, value)| old.get(field) != Some(value));
    let list: Vec<_> = added.map(|(field, value)| format!("{field} = {value}")).collect();
    format!("{} in {scenario}", list.join(", "))
}

/// Over the metrics that were not 0 on either side; they are times, so less is better.
fn mean_log_ratio(old: &[f64], new: &[f64]) -> f64 {
    let measured = old.iter().zip(new).filter(|&(&old, &new)| old > 0.0 && new > 0.0);
    let logs: Vec<f64> = measured.map(|(old, new)| (old / new).ln()).collect();
    if logs.is_empty() { 0.0 } else { logs.iter().sum::<f64>() / logs.len() as f64 }
}

#[cfg(test)]
mod tests {
    use super::{Settings, describe, mean_log_ratio};

    #[test]
    fn metrics_count_alike_and_zeros_do_not() {
        assert_eq!(mean_log_ratio(&[2.0, 8.0], &[1.0, 16.0]), 0.0);
        assert_eq!(mean_log_ratio(&[0.0, 4.0], &[1.0, 4.0]), 0.0);
        assert_eq!(mean_log_ratio(&[0.0], &[0.0]), 0.0);
        assert!(mean_log_ratio(&[3.0], &[2.0]) > 0.4, "half again as fast");
    }

    #[test]
    fn a_comparison_is_described_by_what_is_new() {
        let old = Settings::from([("slot_streak", "6")]);
        let new = Settings::from([("slot_streak", "6"), ("io_interval", "31")]);
        assert_eq!(describe(&old, &new, "echo_64"), "io_interval = 31 in echo_64");
    }
}
