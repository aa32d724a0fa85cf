//! `filch tune`: finds parameters that suit this machine, says how sure that is, and writes them to a file.
//!
//! Reading order: `space`, `search`, `judge`, `stats`.

mod judge;
mod search;
mod space;
mod stats;

use crate::bench::Machine;
use crate::check_configuration;
use crate::style::Style;
use crate::style::show_progress;
use clap::Args;
use clap::builder::PossibleValuesParser;
use judge::{Bench, Scratch};
use search::{Outcome, Trial, Verdict, search};
use space::KEPT;
use stats::Interval;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Find parameters that suit this machine.
#[derive(Args, Debug)]
pub struct TuneArgs {
    /// Minutes to spend; the last comparison may take somewhat longer
    #[arg(long, value_name = "MINUTES", default_value_t = 20.0, value_parser = minutes)]
    budget: f64,

    /// Order of the search, and the resampling behind the confidence
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Workers of the measured runtimes [default: as many as CPUs, at most 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Scenarios to measure, instead of all that some parameter may show in
    #[arg(long, value_delimiter = ',', value_name = "NAME",
          value_parser = PossibleValuesParser::new(space::scenarios()))]
    only: Vec<String>,

    /// Where to write what was found, for `FILCH_CONFIG` and `Builder::from_file`
    #[arg(long, value_name = "FILE", default_value = "filch.conf")]
    output: PathBuf,

    /// Small samples: shows that it works, finds nothing
    #[arg(long)]
    quick: bool,
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if minutes > 0.0 && minutes <= 24.0 * 60.0 => Ok(minutes),
        _ => Err("is no number of minutes between 0 and a day".to_owned()),
    }
}

/// Runs `filch tune`.
pub fn tune(args: &TuneArgs) -> io::Result<()> {
    let style = Style::detect();
    let machine = Machine::describe();
    println!("{}", style.dim(machine.summary()));
    if machine.debug_build {
        println!("{}", style.bad("debug build: these figures mean nothing; use --release"));
    }
    check_configuration()?;
    // What cannot be written is no reason to measure for minutes.
    fs::write(&args.output, "").map_err(|error| {
        io::Error::new(error.kind(), format!("{}: {error}", args.output.display()))
    })?;
    let mut scenarios = space::scenarios();
    scenarios.retain(|name| args.only.is_empty() || args.only.iter().any(|only| only == name));
    let mut bench = Bench {
        threads: args.threads.unwrap_or_else(all_cpus),
        quick: args.quick,
        budget: Duration::from_secs_f64(args.budget * 60.0),
        started: Instant::now(),
        progress: &|spent, what| show_progress(&bar(spent, what)),
        file: Scratch::new(),
    };
    let outcome = search(&mut bench, &scenarios, args.seed)?;
    show_progress("");
    report(style, &outcome);
    fs::write(&args.output, to_file(&outcome, &machine.summary(), args.seed))?;
    println!("\nwritten to {}; FILCH_CONFIG={0} loads it", args.output.display());
    Ok(())
}

fn all_cpus() -> u16 {
    std::thread::available_parallelism().map_or(1, |n| n.get().min(8) as u16)
}

/// `[####......] 42 % what`.
fn bar(spent: f64, what: &str) -> String {
    const WIDTH: usize = 20;
    let done = ((spent * WIDTH as f64) as usize).min(WIDTH);
    let percent = (spent * 100.0).min(100.0);
    format!("[{}{}] {percent:3.0} % {what}", "#".repeat(done), ".".repeat(WIDTH - done))
}

fn report(style: Style, outcome: &Outcome) {
    println!("\n{}", style.bold("tried, the most promising first (gain over its scenarios, 95 %)"));
    for trial in &outcome.trials {
        println!("{}", line_of(style, trial));
    }
    if outcome.not_reached > 0 {
        println!("{}", style.dim(format!("{} values not reached", outcome.not_reached)));
    }
    println!("\n{}", style.bold("kept as they are"));
    for (field, why) in KEPT {
        println!("  {field:<20}{}", style.dim(why));
    }
    if outcome.adopted.is_empty() {
        println!("\nnothing that was tried again is surely better than the defaults here");
        let unreached = |trial: &&Trial| trial.verdict == Verdict::NotReached;
        match outcome.trials.iter().filter(unreached).count() {
            0 => {}
            count => println!("a larger budget would try {count} more that looked better at first"),
        }
        return;
    }
    println!("\n{}", style.bold("adopted, against the defaults, in fresh rounds"));
    for (scenario, gain) in &outcome.verified {
        let text = format!("  {scenario:<22}{}", percent(gain));
        let sure = gain.low > 0.0;
        println!("{}", if sure { style.good(text) } else { text });
    }
}

fn line_of(style: Style, trial: &Trial) -> String {
    let what = format!("{} = {}", trial.field, trial.value);
    let verdict = match trial.verdict {
        Verdict::Screened => style.dim("screened out"),
        Verdict::NotReached => style.dim("not tried again"),
        Verdict::Unsure => style.dim("not sure"),
        Verdict::Vetoed(scenario) => style.bad(format!("slows {scenario}")),
        Verdict::Adopted => style.good("adopted"),
    };
    format!("  {what:<32}{}  {verdict}", percent(&trial.gain))
}

/// `+3.2 % (+1.0 to +5.4)`.
fn percent(gain: &Interval) -> String {
    let percent = |log: f64| (log.exp() - 1.0) * 100.0;
    let (low, middle, high) = (percent(gain.low), percent(gain.middle), percent(gain.high));
    format!("{middle:+6.1} % ({low:+.1} to {high:+.1})")
}

fn to_file(outcome: &Outcome, machine: &str, seed: u64) -> String {
    let mut text = format!("# By `filch tune`, seed {seed}, on {machine}\n");
    for (scenario, gain) in &outcome.verified {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# {scenario:<22}{}", percent(gain));
    }
    if outcome.adopted.is_empty() {
        text.push_str("# Nothing was surely better than the defaults.\n");
    }
    for (field, value) in &outcome.adopted {
        let _ = writeln!(text, "{field} = {value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Outcome, bar, percent, to_file};
    use crate::tune::search::Settings;
    use crate::tune::stats::Interval;

    #[test]
    fn the_file_is_one_that_a_builder_reads() {
        let outcome = Outcome {
            adopted: Settings::from([("ring_capacity", "512"), ("sentry_period", "5ms")]),
            trials: Vec::new(),
            not_reached: 0,
            verified: vec![("echo_64", Interval { low: 0.01, middle: 0.02, high: 0.03 })],
        };
        let config: filch::Config = to_file(&outcome, "a machine", 3).parse().expect("a file");
        assert_eq!((config.ring_capacity, config.sentry_period.as_millis()), (512, 5));
    }

    #[test]
    fn gains_are_told_in_per_cent() {
        let gain = Interval { low: 0.0, middle: 2_f64.ln(), high: 3_f64.ln() };
        assert_eq!(percent(&gain), "+100.0 % (+0.0 to +200.0)");
    }

    #[test]
    fn the_bar_is_never_more_than_full() {
        assert_eq!(bar(0.5, "x"), "[##########..........]  50 % x");
        assert!(bar(1.7, "x").starts_with("[####################] 100 %"));
    }
}
