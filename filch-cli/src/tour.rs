//! `filch tour`: each face of the runtime in a sentence and a figure.
//!
//! U1. A chapter does something real and returns what it saw; it panics if that is not what its sentence
//!     says.
//! U2. Every chapter takes a few seconds at most; all of them stay under a minute.
//! U3. Titles start a line, everything else is indented.
//! U4. Figures beside a peer's are those of a scenario of `filch bench`, in short rounds, in turns.
//! U5. A reader who goes away ends the tour, quietly.
//!
//! Not here: what is shown (`chapters`), how a peer is measured and put into words (`guide`).

mod chapters;
mod computing;
mod graphs;
mod guide;
mod io;
mod posts;
mod simulator;
mod structure;
mod tasks;
mod workers;

use crate::check_configuration;
use crate::style::{Style, figure};
use chapters::CHAPTERS;
use clap::Args;
use clap::builder::PossibleValuesParser;
use filch::Runtime;
use guide::{Effort, Guide};
use std::io::{ErrorKind, Result, Write, stdout};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// Where sentences and figures begin; titles are shorter.
const MARGIN: usize = 12;

/// What a chapter saw, in lines for people.
type Shown = String;

/// A stop of the tour.
struct Chapter {
    title: &'static str,
    /// What the reader should take away, in a sentence.
    sentence: &'static str,
    /// Shows it and returns the figures.
    show: fn(&Guide) -> Shown,
}

/// Walk through what filch does, in under a minute.
#[derive(Args, Debug, Default)]
pub struct TourArgs {
    /// Chapters to show, instead of all; --list names them
    #[arg(long, value_delimiter = ',', value_name = "NAME", hide_possible_values = true,
          value_parser = PossibleValuesParser::new(CHAPTERS.iter().map(|chapter| chapter.title)))]
    only: Vec<String>,

    /// Show the chapters and stop
    #[arg(long)]
    list: bool,

    /// Small samples: shows that it works, compares nothing
    #[arg(long, hide = true)]
    quick: bool,
}

/// Runs `filch tour`.
pub fn tour(args: &TourArgs) -> Result<()> {
    let (style, mut out) = (Style::detect(), stdout().lock());
    let told = if args.list {
        list(CHAPTERS, style, &mut out)
    } else {
        check_configuration()?;
        let chosen = chosen(&args.only);
        let effort = if args.quick { Effort::Quick } else { Effort::of_build() };
        walk(&chosen, effort, style, &mut out)
    };
    match told {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()), // U5
        told => told,
    }
}

/// The chapters with these titles, in the order of the tour; all if there is none.
fn chosen(only: &[String]) -> Vec<&'static Chapter> {
    let is_chosen = |chapter: &&Chapter| only.is_empty() || only.iter().any(|n| n == chapter.title);
    CHAPTERS.iter().filter(is_chosen).collect()
}

fn list(chapters: &[Chapter], style: Style, out: &mut impl Write) -> Result<()> {
    chapters.iter().try_for_each(|chapter| head(chapter, style, out))
}

fn head(chapter: &Chapter, style: Style, out: &mut impl Write) -> Result<()> {
    let gap = MARGIN.saturating_sub(chapter.title.len());
    let title = style.bold(chapter.title);
    writeln!(out, "{title}{:gap$}{}", "", style.dim(chapter.sentence))
}

fn walk(chapters: &[&Chapter], effort: Effort, style: Style, out: &mut impl Write) -> Result<()> {
    let start = Instant::now();
    for (place, chapter) in (1..).zip(chapters) {
        head(chapter, style, out)?;
        out.flush()?;
        let guide = Guide::new(effort, format!("[{place}/{}] {}", chapters.len(), chapter.title));
        let shown = (chapter.show)(&guide);
        drop(guide);
        for line in shown.lines() {
            writeln!(out, "{:MARGIN$}{}", "", style.good(line))?;
        }
        out.flush()?;
    }
    let seconds = figure(start.elapsed().as_secs_f64());
    writeln!(
        out,
        "\n{:MARGIN$}The tour took {seconds} s; `filch bench` compares more, and at length.",
        ""
    )
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
fn seconds(time: f64) -> String {
    match time {
        time if time < 1e-6 => format!("{} ns", figure(time * 1e9)),
        time if time < 1e-3 => format!("{} µs", figure(time * 1e6)),
        time if time < 1.0 => format!("{} ms", figure(time * 1e3)),
        time => format!("{} s", figure(time)),
    }
}

fn span(time: Duration) -> String {
    seconds(time.as_secs_f64())
}

/// The share of one of `operations`.
fn each(time: Duration, operations: u64) -> String {
    seconds(time.as_secs_f64() / operations as f64)
}

#[cfg(test)]
mod tests {
    use super::{CHAPTERS, Chapter, Effort, MARGIN, chosen, each, head, list, span, walk};
    use crate::style::Style;
    use std::collections::HashSet;
    use std::io::{Error, ErrorKind, Result, Write};
    use std::time::Duration;

    const SUMS: Chapter =
        Chapter { title: "sums", sentence: "It adds.", show: |_| "1 + 1 = 2\n2 + 2 = 4".into() };

    #[test]
    fn a_chapter_is_a_title_a_sentence_and_indented_figures() {
        let mut out = Vec::new();
        walk(&[&SUMS], Effort::Quick, Style::Plain, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = "sums        It adds.\n            1 + 1 = 2\n            2 + 2 = 4\n\n            The tour";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn a_list_has_a_line_for_each_chapter() {
        let mut out = Vec::new();
        list(&[SUMS, SUMS], Style::Plain, &mut out).unwrap();
        assert_eq!(out, b"sums        It adds.\nsums        It adds.\n");
    }

    #[test]
    fn titles_are_short_unique_words_and_sentences_are_sentences() {
        let titles: HashSet<_> = CHAPTERS.iter().map(|chapter| chapter.title).collect();
        assert_eq!(titles.len(), CHAPTERS.len());
        for Chapter { title, sentence, .. } in CHAPTERS {
            assert!(title.len() < MARGIN && !title.contains([' ', ',']), "{title}");
            assert!(sentence.ends_with('.') && sentence.split(' ').count() <= 25, "{sentence}");
            assert!(MARGIN + sentence.len() <= 105, "{sentence}");
        }
    }

    #[test]
    fn chapters_are_chosen_by_title_and_come_in_the_order_of_the_tour() {
        let titles = |only: &[&str]| -> Vec<_> {
            let only: Vec<_> = only.iter().map(|&title| title.to_owned()).collect();
            chosen(&only).into_iter().map(|chapter| chapter.title).collect()
        };
        assert_eq!(titles(&["sort", "machine", "sort"]), ["machine", "sort"]);
        assert_eq!(titles(&[]).len(), CHAPTERS.len());
    }

    #[test]
    fn a_reader_who_has_gone_is_told_of_before_the_chapter_runs() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> Result<usize> {
                Err(Error::from(ErrorKind::BrokenPipe))
            }
            fn flush(&mut self) -> Result<()> {
                Ok(())
            }
        }
        let never = Chapter { show: |_| panic!("nobody reads it"), ..SUMS };
        let error = walk(&[&never], Effort::Quick, Style::Plain, &mut Gone).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        assert!(head(&never, Style::Plain, &mut Gone).is_err());
    }

    #[test]
    fn times_are_shown_in_the_unit_that_suits_them() {
        let shown: Vec<_> = [800, 1_500, 2_500_000, 3_000_000_000]
            .map(|nanos| span(Duration::from_nanos(nanos)))
            .into();
        assert_eq!(shown, ["800 ns", "1.50 µs", "2.50 ms", "3.00 s"]);
        assert_eq!(each(Duration::from_micros(100), 1_000), "100 ns");
        assert_eq!(each(Duration::from_nanos(45), 10), "4.50 ns");
    }
}
