//! Runner: rounds, order and where a sample is taken.
//!
//! R1. Within a round every runtime takes one sample; the runtime that starts rotates from round
//!     to round.
//! R2. A warm-up round is run in full and thrown away when another one begins.
//! R3. Every sample has a fresh runtime (C2 of `scenarios`) and is watched.

use super::scenarios::{Entry, Load, Process, Run, Size, WarmUp, Workers};
use super::watchdog::watch;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// All counted rounds of one scenario with one number of workers.
pub struct Series {
    pub threads: usize,
    pub runtimes: Vec<RuntimeSeries>,
}

/// The values of one runtime: `rounds[round][metric]`.
pub struct RuntimeSeries {
    pub runtime: &'static str,
    pub rounds: Vec<Vec<f64>>,
}

impl RuntimeSeries {
    /// One metric over the rounds.
    pub fn metric(&self, index: usize) -> Vec<f64> {
        self.rounds.iter().map(|values| values[index]).collect()
    }
}

/// What the command line asked for.
pub struct Plan {
    pub threads: Vec<usize>,
    pub repeats: usize,
    pub size: Size,
    pub batch: usize,
    pub duration: Option<Duration>,
    pub runtimes: Vec<String>,
    /// No round begins when this has passed; then the warm-up counts if there is no other round.
    pub patience: Option<Duration>,
}

impl Plan {
    /// Runs a scenario for each number of workers that it makes sense with; `on_sample` hears of
    /// each before it starts.
    pub fn run(&self, entry: &Entry, mut on_sample: impl FnMut(&str)) -> io::Result<Vec<Series>> {
        let threads = match entry.workers {
            Workers::Asked => self.threads.clone(),
            Workers::Fixed(count) => vec![count],
        };
        threads.into_iter().map(|threads| self.series(entry, threads, &mut on_sample)).collect()
    }

    fn series(
        &self,
        entry: &Entry,
        threads: usize,
        on_sample: &mut impl FnMut(&str),
    ) -> io::Result<Series> {
        let load = Load { threads, size: self.size, batch: self.batch, duration: self.duration };
        let runs: Vec<Run> = entry
            .runs
            .iter()
            .copied()
            .filter(|run| self.runtimes.iter().any(|name| name == run.runtime))
            .collect();
        let mut runtimes: Vec<_> = runs
            .iter()
            .map(|run| RuntimeSeries {
                runtime: run.runtime,
                rounds: Vec::with_capacity(self.repeats),
            })
            .collect();
        let discarded = match entry.warm_up {
            WarmUp::OneRound => 1,
            WarmUp::Needless => 0,
        };
        let start = Instant::now();
        for round in 0..discarded + self.repeats {
            let is_over = |patience| round > 0 && start.elapsed() > patience;
            if self.patience.is_some_and(is_over) {
                break;
            }
            runtimes.iter_mut().filter(|_| round == discarded).for_each(|it| it.rounds.clear());
            for index in turn(round, runs.len()) {
                let run = runs[index];
                let what =
                    format!("{} on {}, {threads} threads, round {round}", entry.name, run.runtime);
                on_sample(&what);
                let values = sample(entry, run, load, what)?;
                runtimes[index].rounds.push(values);
            }
        }
        Ok(Series { threads, runtimes })
    }
}

/// Who comes when in a round: everyone once, and the start rotates.
fn turn(round: usize, runtimes: usize) -> impl Iterator<Item = usize> {
    (0..runtimes).map(move |place| (round + place) % runtimes)
}

fn sample(entry: &Entry, run: Run, load: Load, what: String) -> io::Result<Vec<f64>> {
    let _watch = watch(what);
    let values = match entry.process {
        Process::Shared => (run.sample)(load),
        Process::Fresh => sample_in_child(entry.name, run.runtime, load, None)?,
    };
    assert_eq!(values.len(), entry.metrics.len(), "C1");
    Ok(values)
}

/// A sample in a process of its own, whose runtimes load `config` if there is one.
pub fn sample_in_child(
    scenario: &str,
    runtime: &str,
    load: Load,
    config: Option<&Path>,
) -> io::Result<Vec<f64>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["sample", scenario, runtime, &load.threads.to_string()]);
    command.args(["--batch", &load.batch.to_string()]);
    if let Some(duration) = load.duration {
        command.args(["--duration", &duration.as_secs_f64().to_string()]);
    }
    if load.size == Size::Quick {
        command.arg("--quick");
    }
    if let Some(config) = config {
        command.env("FILCH_CONFIG", config);
    }
    let output = command.stderr(std::process::Stdio::inherit()).output()?;
    if !output.status.success() {
        let message = format!("{scenario} on {runtime}: the child ended with {}", output.status);
        return Err(io::Error::other(message));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The other side of `sample_in_child`: takes a sample, writes it as JSON and leaves without
/// clean-up, because the scenario may have left tasks that never end.
pub fn sample_for_parent(run: Run, load: Load) -> io::Result<std::convert::Infallible> {
    let _watch = watch(format!("{} in a child process", run.runtime));
    let values = (run.sample)(load);
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &values)?;
    out.flush()?;
    std::process::exit(0)
}

#[cfg(test)]
mod tests {
    use super::{Plan, turn};
    use crate::bench::scenarios::{
        Entry, Load, Metric, Process, Run, Size, WarmUp, Workers, runtimes,
    };
    use std::time::Duration;

    fn threads_as_value(load: Load) -> Vec<f64> {
        vec![load.threads as f64]
    }

    fn entry(workers: Workers, warm_up: WarmUp) -> Entry {
        Entry {
            name: "test",
            about: "",
            metrics: &[Metric { name: "threads", unit: "" }],
            workers,
            process: Process::Shared,
            warm_up,
            runs: runtimes()
                .into_iter()
                .map(|runtime| Run { runtime, sample: threads_as_value })
                .collect(),
        }
    }

    fn plan(repeats: usize) -> Plan {
        Plan {
            threads: vec![1, 3],
            repeats,
            size: Size::Quick,
            batch: 1,
            duration: None,
            runtimes: runtimes().into_iter().map(String::from).collect(),
            patience: None,
        }
    }

    #[test]
    fn start_rotates_and_everyone_comes_once() {
        let order: Vec<Vec<_>> = (0..4).map(|round| turn(round, 3).collect()).collect();
        assert_eq!(order, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
    }

    #[test]
    fn warm_up_round_is_run_and_not_counted() {
        let mut samples = 0;
        let series =
            plan(2).run(&entry(Workers::Asked, WarmUp::OneRound), |_| samples += 1).unwrap();
        assert_eq!(samples, 2 * 3 * runtimes().len());
        for (series, threads) in series.iter().zip([1.0, 3.0]) {
            for runtime in &series.runtimes {
                assert_eq!(runtime.metric(0), [threads, threads]);
            }
        }
    }

    #[test]
    fn warm_up_counts_if_the_plan_runs_out_of_patience_after_it() {
        let plan = Plan { patience: Some(Duration::ZERO), ..plan(5) };
        for warm_up in [WarmUp::OneRound, WarmUp::Needless] {
            let mut samples = 0;
            let series = plan.run(&entry(Workers::Fixed(1), warm_up), |_| samples += 1).unwrap();
            assert_eq!(samples, runtimes().len());
            assert!(series[0].runtimes.iter().all(|runtime| runtime.metric(0) == [1.0]));
        }
    }

    #[test]
    fn fixed_workers_ignore_the_command_line() {
        let series = plan(1).run(&entry(Workers::Fixed(2), WarmUp::Needless), |_| ()).unwrap();
        assert_eq!(series.len(), 1);
        assert_eq!(series[0].threads, 2);
    }

    #[test]
    fn only_the_runtimes_asked_for_take_part() {
        let mut plan = plan(1);
        plan.runtimes.truncate(1);
        let series = plan.run(&entry(Workers::Asked, WarmUp::Needless), |_| ()).unwrap();
        assert!(series.iter().all(|series| series.runtimes.len() == 1));
    }
}
