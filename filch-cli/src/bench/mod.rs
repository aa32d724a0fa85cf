//! `filch bench`: filch and its peers side by side in one run.
//!
//! Reading order: `peers`, `pools`, `servers`, `hives`, `frames`, `load`, `scenarios`, `runner`, `report`.

mod frames;
mod hives;
mod load;
mod machine;
mod peers;
mod pools;
mod report;
mod runner;
mod scenarios;
mod servers;
mod stats;
mod watchdog;

pub use load::load;
pub use machine::Machine;
pub use peers::BASE;
pub use runner::Series;
pub use stats::{SplitMix, median};

use crate::check_configuration;
use crate::style::{Style, show_progress};
use clap::Args;
use clap::builder::PossibleValuesParser;
use machine::Setting;
use report::Report;
use runner::Plan;
use scenarios::{Entry, Load, Size, Workers, catalogue, runtimes};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Rounds per series under `--quick`.
const QUICK_REPEATS: usize = 1;

/// Compare filch with its peers.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// Scenarios to run, instead of all; --list shows them
    #[arg(long, value_delimiter = ',', value_name = "NAME", hide_possible_values = true,
          value_parser = PossibleValuesParser::new(catalogue().iter().map(|entry| entry.name)))]
    only: Vec<String>,

    /// Runtimes that take part
    #[arg(long, value_delimiter = ',', value_name = "NAME", default_values = runtimes(),
          value_parser = PossibleValuesParser::new(runtimes()))]
    runtimes: Vec<String>,

    /// Numbers of workers
    #[arg(long, value_delimiter = ',', value_name = "N", default_values_t = [1, 2],
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,

    /// Counted rounds [default: 7, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    repeats: Option<u16>,

    /// Tasks that are posted at once, where tasks are posted
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,

    /// Seconds of a sample, where that is a matter of time [default: the scenario's]
    #[arg(long, value_name = "S", value_parser = seconds)]
    duration: Option<Duration>,

    /// Write medians, least and greatest values to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write every counted round to this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Show the scenarios and stop
    #[arg(long)]
    list: bool,

    /// Small samples: shows that it works, compares nothing
    #[arg(long)]
    quick: bool,
}

/// One sample for a parent process.
#[derive(Args, Debug)]
pub struct SampleArgs {
    scenario: String,
    runtime: String,
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    #[arg(long)]
    quick: bool,
    #[arg(long, default_value_t = 1)]
    batch: u32,
    #[arg(long, value_parser = seconds)]
    duration: Option<Duration>,
}

/// A time on the command line: more than nothing, an hour at most.
fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 3600.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("more than 0 and at most 3600 seconds".into()),
    }
}

/// One client for a parent process.
#[derive(Args, Debug)]
pub struct LoadArgs {
    /// In JSON
    pub order: String,
}

/// Runs `filch bench`.
pub fn bench(args: &BenchArgs) -> io::Result<()> {
    let style = Style::detect();
    if args.list {
        list(style);
        return Ok(());
    }
    check_configuration()?;
    let plan = plan(args);
    let mut json = create(args.json.as_deref())?;
    let mut csv = create(args.csv.as_deref())?;
    let mut report = Report {
        machine: Setting { machine: Machine::describe(), repeats: plan.repeats, quick: args.quick },
        results: Vec::new(),
    };
    introduce(style, &report.machine);
    if let Some(csv) = &mut csv {
        report::write_csv_head(csv)?;
    }
    for entry in chosen(args) {
        report::print_head(style, &entry);
        for series in plan.run(&entry, show_progress)? {
            report::print_series(style, &entry, &series);
            report.add(&entry, &series);
            if let Some(csv) = &mut csv {
                report::write_csv(csv, &entry, &series)?;
            }
        }
    }
    match &mut json {
        Some(json) => report.write_json(json),
        None => Ok(()),
    }
}

/// Runs `filch sample`.
pub fn sample(args: &SampleArgs) -> io::Result<std::convert::Infallible> {
    let run = catalogue()
        .into_iter()
        .filter(|entry| entry.name == args.scenario)
        .flat_map(|entry| entry.runs)
        .find(|run| run.runtime == args.runtime)
        .ok_or_else(|| io::Error::other("no such scenario or runtime"))?;
    let load = Load {
        threads: args.threads.into(),
        size: size(args.quick),
        batch: args.batch as usize,
        duration: args.duration,
    };
    runner::sample_for_parent(run, load)
}

/// The names of all scenarios.
pub fn scenario_names() -> Vec<&'static str> {
    catalogue().iter().map(|entry| entry.name).collect()
}

/// A sample of filch in a process of its own, with the parameters of a configuration file.
pub fn sample_with_config(
    scenario: &str,
    threads: u16,
    quick: bool,
    config: &Path,
) -> io::Result<Vec<f64>> {
    let entry = catalogue().into_iter().find(|entry| entry.name == scenario);
    let workers = entry.ok_or_else(|| io::Error::other("no such scenario"))?.workers;
    let threads = match workers {
        Workers::Asked => threads.into(),
        Workers::Fixed(count) => count,
    };
    let load = Load { threads, size: size(quick), batch: 1, duration: None };
    let _watch = watchdog::watch(format!("{scenario} with {}", config.display()));
    runner::sample_in_child(scenario, peers::BASE, load, Some(config))
}

/// What the tour asks of a scenario.
pub struct Trial<'a> {
    pub scenario: &'a str,
    pub runtimes: &'a [&'a str],
    pub threads: usize,
    pub rounds: usize,
    /// As under `--quick`.
    pub quick: bool,
    /// As under `--duration`.
    pub duration: Option<Duration>,
    /// No further round begins when this has passed.
    pub patience: Duration,
}

impl Trial<'_> {
    /// The rounds of all runtimes that this program was built with, ours first.
    ///
    /// # Panics
    /// If there is no such scenario.
    pub fn run(&self, on_sample: impl FnMut(&str)) -> io::Result<Series> {
        let entry = catalogue().into_iter().find(|entry| entry.name == self.scenario);
        let plan = Plan {
            threads: vec![self.threads],
            repeats: self.rounds,
            size: size(self.quick),
            batch: 1,
            duration: self.duration,
            runtimes: self.runtimes.iter().map(|&name| name.to_owned()).collect(),
            patience: Some(self.patience),
        };
        let mut series = plan.run(&entry.expect("a scenario of the catalogue"), on_sample)?;
        Ok(series.remove(0))
    }
}

fn plan(args: &BenchArgs) -> Plan {
    let default_repeats = if args.quick { QUICK_REPEATS } else { 7 };
    Plan {
        threads: args.threads.iter().copied().map(usize::from).collect(),
        repeats: args.repeats.map_or(default_repeats, usize::from),
        size: size(args.quick),
        batch: args.batch as usize,
        duration: args.duration,
        runtimes: args.runtimes.clone(),
        patience: None,
    }
}

fn size(quick: bool) -> Size {
    if quick { Size::Quick } else { Size::Full }
}

fn chosen(args: &BenchArgs) -> impl Iterator<Item = Entry> {
    catalogue()
        .into_iter()
        .filter(|entry| args.only.is_empty() || args.only.iter().any(|name| name == entry.name))
        .filter(|entry| entry.has_any(&args.runtimes))
}

/// Files are created before minutes are spent on what cannot be written.
fn create(path: Option<&Path>) -> io::Result<Option<File>> {
    let open = |path: &Path| {
        File::create(path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    };
    path.map(open).transpose()
}

fn list(style: Style) {
    for entry in catalogue() {
        let metrics: Vec<_> = entry.metrics.iter().map(|metric| metric.name).collect();
        let runtimes: Vec<_> = entry.runs.iter().map(|run| run.runtime).collect();
        let rest = style.dim(format!("{} [{}]", metrics.join(" "), runtimes.join(" ")));
        println!("{:<21}{}  {rest}", entry.name, entry.about);
    }
}

fn introduce(style: Style, setting: &Setting) {
    println!("{}", style.dim(setting.machine.summary()));
    if setting.machine.debug_build {
        println!("{}", style.bad("debug build: these figures mean nothing; use --release"));
    }
    if setting.quick {
        println!("{}", style.dim("quick: samples are too small to compare"));
    }
}
