//! Report: the table for people, JSON and CSV for programs.
//!
//! The JSON holds summaries in a fixed schema; the CSV holds every counted round.

use super::machine::Setting;
use super::peers::BASE;
use super::runner::{RuntimeSeries, Series};
use super::scenarios::{Entry, Metric};
use super::stats::{Summary, median_ratio};
use crate::style::{Style, figure, grouped};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// A peer counts as slower or faster beyond this; below is code layout (measured).
const NOTEWORTHY: f64 = 0.2;

/// The JSON file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub machine: Setting,
    pub results: Vec<Row>,
}

/// One metric of one scenario on one runtime; lower is better.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub scenario: String,
    pub metric: String,
    pub threads: usize,
    pub runtime: String,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub unit: String,
}

impl Report {
    pub fn add(&mut self, entry: &Entry, series: &Series) {
        for (index, metric) in entry.metrics.iter().enumerate() {
            for runtime in &series.runtimes {
                let summary = Summary::of(&runtime.metric(index));
                self.results.push(Row {
                    scenario: entry.name.into(),
                    metric: metric.name.into(),
                    threads: series.threads,
                    runtime: runtime.runtime.into(),
                    median: summary.median,
                    min: summary.min,
                    max: summary.max,
                    unit: metric.unit.into(),
                });
            }
        }
    }

    pub fn write_json(&self, mut out: impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut out, self)?;
        writeln!(out)
    }
}

pub fn write_csv_head(mut out: impl Write) -> io::Result<()> {
    writeln!(out, "scenario,metric,threads,runtime,round,value,unit")
}

/// One line per counted round; no name or unit contains a comma.
pub fn write_csv(mut out: impl Write, entry: &Entry, series: &Series) -> io::Result<()> {
    for (index, metric) in entry.metrics.iter().enumerate() {
        for runtime in &series.runtimes {
            for (round, value) in runtime.metric(index).into_iter().enumerate() {
                writeln!(
                    out,
                    "{},{},{},{},{round},{value},{}",
                    entry.name, metric.name, series.threads, runtime.runtime, metric.unit
                )?;
            }
        }
    }
    Ok(())
}

/// The heading of a scenario and of its columns.
pub fn print_head(style: Style, entry: &Entry) {
    println!("\n{}  {}", style.bold(entry.name), style.dim(entry.about));
    let columns = format!(
        "  {:<17}{:>3}  {:<8}{:>9}{:>9}{:>9}{:>9}{:>13}  {}",
        "metric", "thr", "runtime", "median", "min", "max", "spread", "ops/s", "peer/filch"
    );
    println!("{}", style.dim(columns));
}

/// The rows of a scenario for one number of workers.
pub fn print_series(style: Style, entry: &Entry, series: &Series) {
    let base = series.runtimes.iter().find(|peer| peer.runtime == BASE);
    for (index, metric) in entry.metrics.iter().enumerate() {
        for runtime in &series.runtimes {
            let summary = Summary::of(&runtime.metric(index));
            let spread =
                summary.spread_percent().map_or("–".into(), |percent| format!("{percent:.0} %"));
            println!(
                "  {:<17}{:>3}  {:<8}{:>9}{:>9}{:>9}{spread:>9}{:>13}  {}",
                metric.name,
                series.threads,
                runtime.runtime,
                figure(summary.median),
                figure(summary.min),
                figure(summary.max),
                rate(metric, &summary),
                ratio(style, runtime, base, index),
            );
        }
    }
}

/// Operations a second, of what is measured in time for each.
fn rate(metric: &Metric, summary: &Summary) -> String {
    match metric.name {
        "ns_per_op" if summary.median > 0.0 => grouped((1e9 / summary.median) as u64),
        _ => String::new(),
    }
}

fn ratio(style: Style, peer: &RuntimeSeries, base: Option<&RuntimeSeries>, index: usize) -> String {
    let Some(base) = base.filter(|base| base.runtime != peer.runtime) else {
        return String::new();
    };
    match median_ratio(&peer.metric(index), &base.metric(index)) {
        Some(ratio) if ratio > 1.0 + NOTEWORTHY => style.good(format!("{ratio:.2}×")),
        Some(ratio) if ratio < 1.0 - NOTEWORTHY => style.bad(format!("{ratio:.2}×")),
        Some(ratio) => format!("{ratio:.2}×"),
        None => "–".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Report, Row, ratio, write_csv, write_csv_head};
    use crate::bench::machine::{Machine, Setting};
    use crate::bench::runner::{RuntimeSeries, Series};
    use crate::bench::scenarios::catalogue;
    use crate::style::Style;
    use serde_json::Value;

    fn series() -> Series {
        let runtime = |runtime, rounds: [f64; 3]| RuntimeSeries {
            runtime,
            rounds: rounds.map(|value| vec![value]).to_vec(),
        };
        Series {
            threads: 2,
            runtimes: vec![
                runtime("filch", [10.0, 30.0, 20.0]),
                runtime("tokio", [25.0, 60.0, 40.0]),
            ],
        }
    }

    fn report() -> Report {
        let mut report = Report {
            machine: Setting { machine: Machine::describe(), repeats: 3, quick: true },
            results: Vec::new(),
        };
        report.add(&catalogue()[0], &series());
        report
    }

    #[test]
    fn json_round_trip_keeps_everything() {
        let mut text = Vec::new();
        report().write_json(&mut text).unwrap();
        assert_eq!(serde_json::from_slice::<Report>(&text).unwrap(), report());
    }

    #[test]
    fn json_has_the_agreed_fields_and_no_others() {
        let value: Value = serde_json::to_value(report()).unwrap();
        let keys = |value: &Value| {
            let mut keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
            keys.sort_unstable();
            keys
        };
        assert_eq!(keys(&value), ["machine", "results"]);
        assert_eq!(
            keys(&value["results"][0]),
            ["max", "median", "metric", "min", "runtime", "scenario", "threads", "unit"]
        );
    }

    #[test]
    fn rows_hold_the_summary_of_each_runtime() {
        let expected = Row {
            scenario: "spawn_many_local".into(),
            metric: "ns_per_op".into(),
            threads: 2,
            runtime: "tokio".into(),
            median: 40.0,
            min: 25.0,
            max: 60.0,
            unit: "ns".into(),
        };
        assert_eq!(report().results[1], expected);
    }

    #[test]
    fn csv_has_a_line_per_round() {
        let mut text = Vec::new();
        write_csv_head(&mut text).unwrap();
        write_csv(&mut text, &catalogue()[0], &series()).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.lines().count(), 1 + 6);
        assert_eq!(text.lines().nth(4), Some("spawn_many_local,ns_per_op,2,tokio,0,25,ns"));
    }

    #[test]
    fn ratio_stands_at_peers_and_not_at_the_base() {
        let series = series();
        let [base, peer] = &series.runtimes[..] else { unreachable!() };
        assert_eq!(ratio(Style::Plain, peer, Some(base), 0), "2.00×");
        assert_eq!(ratio(Style::Plain, base, Some(base), 0), "");
        assert_eq!(ratio(Style::Plain, peer, None, 0), "");
    }
}
