//! Pictures of a profile: a trace for Chrome and Perfetto, DOT with colours, a line for people.
//!
//! In a trace every worker has a track. Nodes of one run do not overlap on a worker, save async ones that wait, which have
//! tracks of their own.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::{self, Write};
use std::time::Duration;

use super::dump::Quoted;
use super::profile::{Profile, Span};

/// Microseconds with three decimals, as traces have times.
struct Micros(Duration);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        write!(f, "{}.{:03}", nanos / 1000, nanos % 1000)
    }
}

/// The number of a span's track: 0 for threads that are not workers.
fn track(span: &Span) -> usize {
    span.worker().map_or(0, |worker| worker + 1)
}

impl Profile<'_, '_> {
    /// The run as a JSON trace, for `chrome://tracing` or <https://ui.perfetto.dev>: one track for each worker, nodes on the critical path marked.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// g.node("load", || ());
    /// let (_, profile) = g.runner().profile();
    /// let trace = profile.to_trace();
    /// assert!(trace.starts_with(r#"{"traceEvents":["#));
    /// assert!(trace.contains(r#""name":"load","cat":"node","ph":"X""#));
    /// ```
    pub fn to_trace(&self) -> String {
        let mut out = String::new();
        self.write_trace(&mut out).expect("a string takes all");
        out
    }

    fn write_trace(&self, out: &mut String) -> fmt::Result {
        out.push_str("{\"traceEvents\":[");
        let tracks: BTreeSet<usize> = self.spans().iter().map(track).collect();
        for track in tracks {
            let name = if track > 0 { format!("worker {}", track - 1) } else { "outside".into() };
            let what = "\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1";
            writeln!(out, "{{{what},\"tid\":{track},\"args\":{{\"name\":\"{name}\"}}}},")?;
        }
        let critical: HashSet<_> =
            self.critical_spans().map(|span| (span.node(), span.start())).collect();
        for (number, span) in self.spans().iter().enumerate() {
            let is_critical = critical.contains(&(span.node(), span.start()));
            self.write_span(out, number, span, is_critical)?;
        }
        let what = "\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1";
        write!(out, "{{{what},\"args\":{{\"name\":\"graph\"}}}}],\"displayTimeUnit\":\"ns\"}}")
    }

    fn write_span(
        &self,
        out: &mut String,
        number: usize,
        span: &Span,
        is_critical: bool,
    ) -> fmt::Result {
        let name = self.graph.parts.name(span.node().index);
        let (start, end) = (Micros(span.start()), Micros(span.end()));
        let index = span.node().index();
        let head = format!("\"name\":{},\"cat\":\"node\"", Quoted(&name));
        let place = format!("\"pid\":1,\"tid\":{}", track(span));
        let args = format!("\"args\":{{\"node\":{index},\"critical\":{is_critical}}}");
        if span.away {
            writeln!(
                out,
                "{{{head},\"ph\":\"b\",\"id\":{number},\"ts\":{start},{place},{args}}},"
            )?;
            return writeln!(out, "{{{head},\"ph\":\"e\",\"id\":{number},\"ts\":{end},{place}}},");
        }
        let time = Micros(span.time());
        writeln!(out, "{{{head},\"ph\":\"X\",\"ts\":{start},\"dur\":{time},{place},{args}}},")
    }

    /// The graph in the language of Graphviz, with the time of each node: the longer it took, the redder it is. The critical path has thick borders.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// g.node("load", || ());
    /// let (_, profile) = g.runner().profile();
    /// assert!(profile.to_dot().contains("penwidth=3"));
    /// ```
    pub fn to_dot(&self) -> String {
        let mut times: HashMap<u32, (Duration, usize)> = HashMap::new();
        for span in self.spans() {
            let (time, runs) = times.entry(span.node().index).or_default();
            *time += span.time();
            *runs += 1;
        }
        let longest = times.values().map(|&(time, _)| time).max().unwrap_or_default();
        let critical: HashSet<u32> = self.critical_path().map(|id| id.index).collect();
        self.graph.dot_with(|index| {
            let name = self.graph.parts.name(index);
            let Some(&(time, runs)) = times.get(&index) else {
                return format!("label={}, style=dashed", Quoted(&name));
            };
            let often = if runs == 1 { String::new() } else { format!(" in {runs} runs") };
            let label = format!("{name}\n{time:.1?}{often}");
            let share =
                if longest.is_zero() { 0.0 } else { time.as_secs_f64() / longest.as_secs_f64() };
            let width = if critical.contains(&index) { ", penwidth=3" } else { "" };
            let colour = format!("style=filled, fillcolor=\"0.000 {share:.3} 1.000\"");
            format!("label={}, {colour}{width}", Quoted(&label))
        })
    }
}

/// A summary in one line.
impl fmt::Display for Profile<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} spans in {:.1?}: {:.1?} of work, {:.2} at once on average, {:.2} possible; critical path {:.1?}: {}",
            self.spans().len(),
            self.elapsed(),
            self.work(),
            self.achieved_parallelism(),
            self.possible_parallelism(),
            self.critical_time(),
            self.critical_names().join(" -> "),
        )
    }
}
