//! `filch tour`: each face of the runtime in a line and a figure.
//!
//! U1. A chapter does something real and returns what it saw; it panics if that is not what it
//!     promises.
//! U2. Every chapter takes a few seconds at most; all of them stay under a minute.
//! U3. Titles start a line, everything else is indented.

mod forks;
mod structure;
mod tasks;
mod workers;

use crate::bench::Machine;
use crate::style::{Style, figure};
use filch::Runtime;
use std::io::{self, Write};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// Where figures begin; titles are shorter.
const MARGIN: usize = 14;

/// What a chapter saw, in lines for people.
type Shown = String;

/// A stop of the tour.
struct Chapter {
    title: &'static str,
    /// What the reader should take away, in a sentence.
    promise: &'static str,
    /// Shows it and returns the figure.
    show: fn() -> Shown,
}

const CHAPTERS: &[Chapter] = &[
    Chapter {
        title: "machine",
        promise: "whatever follows was measured here and now",
        show: machine,
    },
    Chapter {
        title: "tasks",
        promise: "spawn gives a handle: await it, wait on it, cancel it, or let it go",
        show: tasks::tasks,
    },
    Chapter {
        title: "jobs",
        promise: "spawn_fn runs a closure on the compute workers; async tasks stay served",
        show: tasks::jobs,
    },
    Chapter {
        title: "wait",
        promise: "wait takes handles of any kind, on any thread, and returns their values",
        show: tasks::wait,
    },
    Chapter {
        title: "block_on",
        promise: "block_on returns when every descendant is finished and dropped",
        show: structure::block_on,
    },
    Chapter {
        title: "group",
        promise: "the first error cancels the siblings, and the group still waits for them",
        show: structure::group,
    },
    Chapter {
        title: "scope",
        promise: "a blocking scope lends borrowed data to its tasks",
        show: structure::scope,
    },
    Chapter {
        title: "fork-join",
        promise: "join runs two closures, at once if a worker is free, and lends them borrowed data",
        show: forks::forks,
    },
    Chapter {
        title: "priorities",
        promise: "high runs before normal before low, and low is not starved",
        show: workers::priorities,
    },
    Chapter {
        title: "stealing",
        promise: "work that lies on one worker spreads to the others",
        show: workers::stealing,
    },
    Chapter {
        title: "no hostages",
        promise: "what is ready behind a task that blocks its worker soon runs elsewhere",
        show: workers::hostages,
    },
    Chapter {
        title: "shutdown",
        promise: "shutdown drains, aborts, or drains until a deadline, and names who blocks",
        show: structure::shutdown,
    },
    Chapter {
        title: "counters",
        promise: "always on, for each worker; describe puts a runtime into words",
        show: workers::counters,
    },
];

/// Runs `filch tour`.
pub fn tour() -> io::Result<()> {
    let start = Instant::now();
    let mut out = io::stdout().lock();
    walk(CHAPTERS, Style::detect(), &mut out)?;
    let seconds = start.elapsed().as_secs_f64();
    writeln!(out, "\n{:MARGIN$}{seconds:.1} s in all; next: filch bench", "")
}

fn walk(chapters: &[Chapter], style: Style, out: &mut impl Write) -> io::Result<()> {
    for chapter in chapters {
        let gap = MARGIN.saturating_sub(chapter.title.len());
        let title = style.bold(chapter.title);
        writeln!(out, "{title}{:gap$}{}", "", style.dim(chapter.promise))?;
        out.flush()?;
        for line in (chapter.show)().lines() {
            writeln!(out, "{:MARGIN$}{}", "", style.good(line))?;
        }
    }
    Ok(())
}

fn machine() -> Shown {
    let machine = Machine::describe();
    let warning =
        if machine.debug_build { "\ndebug build: use --release for real figures" } else { "" };
    machine.summary() + warning
}

/// A runtime for one chapter, with so many workers of each role.
fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("threads can be started")
}

/// As many workers as cores, yet enough that one can help another.
fn workers() -> usize {
    available_parallelism().map_or(1, usize::from).max(2)
}

/// A time in the unit that suits it.
fn span(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 1e-6 => format!("{} ns", figure(seconds * 1e9)),
        seconds if seconds < 1e-3 => format!("{} µs", figure(seconds * 1e6)),
        seconds if seconds < 1.0 => format!("{} ms", figure(seconds * 1e3)),
        seconds => format!("{} s", figure(seconds)),
    }
}

/// The share of one of `operations`.
fn each(time: Duration, operations: u64) -> String {
    span(time.div_f64(operations as f64))
}

#[cfg(test)]
mod tests {
    use super::{CHAPTERS, Chapter, MARGIN, each, span, walk};
    use crate::style::Style;
    use std::time::Duration;

    #[test]
    fn a_chapter_is_a_title_a_promise_and_indented_figures() {
        let chapters =
            [Chapter { title: "sums", promise: "adds", show: || "1 + 1 = 2\n2 + 2 = 4".into() }];
        let mut out = Vec::new();
        walk(&chapters, Style::Plain, &mut out).unwrap();
        let expected = "sums          adds\n              1 + 1 = 2\n              2 + 2 = 4\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn titles_fit_the_margin() {
        assert!(CHAPTERS.iter().all(|chapter| chapter.title.len() < MARGIN));
    }

    #[test]
    fn times_are_shown_in_the_unit_that_suits_them() {
        let shown: Vec<_> = [800, 1_500, 2_500_000, 3_000_000_000]
            .map(|nanos| span(Duration::from_nanos(nanos)))
            .into();
        assert_eq!(shown, ["800 ns", "1.50 µs", "2.50 ms", "3.00 s"]);
        assert_eq!(each(Duration::from_micros(100), 1_000), "100 ns");
    }
}
