//! Traces of unfinished work, and files that have outgrown one idea.

use crate::Finding;
use crate::source::{Source, words};

/// Lines beyond which a file is worth splitting. Guessed: it should fit in one sitting.
const LONG: usize = 700;

const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];
const MARKS: [&str; 2] = ["FIXME", "XXX"];

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |line: usize, text: String| {
        findings.push(Finding::error(&source.path, line, "unfinished", text));
    };
    for (pos, word) in source.words() {
        if MACROS.contains(&word) && source.code[pos + word.len()..].starts_with('!') {
            find(source.line_of(pos), format!("`{word}!` stands for work that is missing"));
        }
    }
    for line in 1..=source.line_count() {
        for (_, word) in words(source.comment_on(line)) {
            if MARKS.contains(&word) {
                find(line, format!("`{word}` belongs in an issue"));
            }
        }
    }
    if source.line_count() > LONG {
        let text = format!("{} lines; over {LONG}, look for a second idea", source.line_count());
        findings.push(Finding::warning(&source.path, 1, "size", text));
    }
    findings
}

#[cfg(test)]
mod tests;
