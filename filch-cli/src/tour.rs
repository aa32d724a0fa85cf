//! `filch tour`: each face of the runtime in a line and a figure.
//!
//! A chapter is a small function that does something real and returns what it saw; it claims nothing that it has not
//! just measured.

use crate::bench::Machine;
use crate::style::Style;
use std::io;

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
    promise: "figures below were measured here and now",
    show: || Machine::describe(1, true).summary(),
}];

/// Runs `filch tour`.
pub fn tour() -> io::Result<()> {
    let style = Style::detect();
    for chapter in CHAPTERS {
        let figure = (chapter.show)();
        println!("{:<12}{}", style.bold(chapter.title), chapter.promise);
        println!("{:<12}{}", "", style.good(figure));
    }
    Ok(())
}
