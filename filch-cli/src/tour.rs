//! `filch tour`: each face of the runtime in a line and a figure.
//!
//! U1. A chapter does something real and returns what it saw; it panics if that is not what it
//!     promises.
//! U2. Every chapter takes a few seconds at most; all of them stay under a minute.
//! U3. Titles start a line, everything else is indented.

use crate::bench::Machine;
use crate::style::Style;
use std::io::{self, Write};
use std::time::Instant;

/// Where figures begin; titles are shorter.
const MARGIN: usize = 14;

/// A stop of the tour.
struct Chapter {
    title: &'static str,
    /// What the reader should take away, in a sentence.
    promise: &'static str,
    /// Shows it and returns the figure.
    show: fn() -> String,
}

const CHAPTERS: &[Chapter] = &[Chapter {
    title: "machine",
    promise: "whatever follows was measured here and now",
    show: || Machine::describe().summary(),
}];

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

#[cfg(test)]
mod tests {
    use super::{CHAPTERS, Chapter, MARGIN, walk};
    use crate::style::Style;

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
}
