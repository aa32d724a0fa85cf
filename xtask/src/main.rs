//! Checks that a reviewer would make: `cargo xtask check`.
//!
//! Each rule reads text, not types, so it is quick and can be wrong in exotic code; when it is,
//! write the code plainer. Only `budget` asks rustdoc, and is skipped with a message where that is not
//! installed. The rules, by the name that a finding carries:
//!
//! | rule | holds for | asks for |
//! | --- | --- | --- |
//! | `layer` | `filch/src` | imports point downwards, by the table in `layers.rs` |
//! | `shim` | `filch/src` | loom and std's atomics are named by `base/shim.rs` alone |
//! | `safety` | all Rust files | a `SAFETY:` comment at unsafe blocks and impls, a contract at unsafe functions |
//! | `ordering` | `filch/src` | an `ORDERING:` comment at atomic operations |
//! | `light` | `filch/src` | a `LIGHT:` comment naming a function that calls `heavy` |
//! | `unfinished` | all Rust files | no placeholder macros, no marks for later |
//! | `size` | all Rust files | at most 700 lines (a warning) |
//! | `budget` | the public API | a case in `filch/tests/sync/ready.rs` of each asynchronous operation |
//! | `link` | all Markdown files | relative links lead to a file, and to a heading if they name one |
//!
//! Code that is compiled for tests alone is exempt from `layer`, `shim`, `ordering` and `light`.
//!
//! Not here: what rustfmt, clippy and rustdoc already check.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fmt, fs, io};

mod comments;
mod layers;
mod links;
mod operations;
mod source;
mod words;

use source::Source;

/// Where the rules about the library's inside hold.
const LIBRARY: &str = "filch/src/";

/// Something that a reviewer would remark.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    file: String,
    line: usize,
    rule: &'static str,
    level: Level,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Error,
    Warning,
}

impl Finding {
    fn error(file: &str, line: usize, rule: &'static str, text: impl Into<String>) -> Self {
        let (file, text, level) = (file.to_owned(), text.into(), Level::Error);
        Self { file, line, rule, level, text }
    }

    fn warning(file: &str, line: usize, rule: &'static str, text: impl Into<String>) -> Self {
        let level = Level::Warning;
        Self { level, ..Self::error(file, line, rule, text) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.level {
            Level::Error => "",
            Level::Warning => " (warning)",
        };
        let Self { file, line, rule, text, .. } = self;
        write!(f, "{file}:{line}: {rule}{mark}: {text}")
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => check(&root()),
        _ => {
            eprintln!("usage: cargo xtask check");
            ExitCode::from(2)
        }
    }
}

/// The root of the workspace: this crate's parent directory.
///
/// Cargo says at run time where that is. What it said at compile time may be another checkout
/// that shares the build directory.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR");
    let here = here.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.parent().map(Path::to_owned).unwrap_or(here)
}

fn check(root: &Path) -> ExitCode {
    let (files, mut findings) = match examine(root) {
        Ok(examined) => examined,
        Err(error) => {
            eprintln!("xtask check: cannot read {}: {error}", root.display());
            return ExitCode::from(2);
        }
    };
    match budget(root) {
        Ok(more) => findings.extend(more),
        Err(reason) => println!("skipped: the rule `budget`: {reason}"),
    }
    for finding in &findings {
        println!("{finding}");
    }
    let warnings = findings.iter().filter(|f| f.level == Level::Warning).count();
    let errors = findings.len() - warnings;
    println!("xtask check: {files} files, {errors} findings, {warnings} warnings");
    if errors > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs the rule that asks rustdoc.
fn budget(root: &Path) -> Result<Vec<Finding>, String> {
    let files = walk(root).map_err(|error| error.to_string())?;
    let names = files.into_iter().map(|path| (relative(root, &path), path));
    let texts = names.filter(|(name, _)| operations::has_cases(name)).map(|(name, path)| {
        fs::read_to_string(path).map(|text| (name, text)).map_err(|error| error.to_string())
    });
    operations::check(root, &texts.collect::<Result<Vec<_>, _>>()?)
}

/// Runs every rule that reads text; returns how many files were read, and the findings in reading order.
fn examine(root: &Path) -> io::Result<(usize, Vec<Finding>)> {
    let mut rust = Vec::new();
    let mut markdown = Vec::new();
    for path in walk(root)? {
        let name = relative(root, &path);
        match path.extension().and_then(|e| e.to_str()) {
            Some("rs") => rust.push(Source::new(&name, &fs::read_to_string(&path)?)),
            Some("md") => markdown.push((name, fs::read_to_string(&path)?)),
            _ => {}
        }
    }
    source::mark_test_files(&mut rust);
    let library: Vec<&Source> = rust.iter().filter(|s| s.path.starts_with(LIBRARY)).collect();

    let mut findings = links::check(root, &markdown);
    for source in &library {
        findings.extend(layers::check(source));
        findings.extend(layers::check_shim(source));
        findings.extend(comments::check_ordering(source));
    }
    findings.extend(comments::check_light(&library));
    for source in &rust {
        findings.extend(comments::check_safety(source));
        findings.extend(words::check(source));
    }
    findings.sort();
    Ok((rust.len() + markdown.len(), findings))
}

/// All files below `dir`, without build output and the version control's own.
fn walk(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let skipped = matches!(entry.file_name().to_str(), Some("target" | ".git"));
        if kind.is_dir() && !skipped {
            files.extend(walk(&entry.path())?);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(files)
}

/// The path below `root`, with forward slashes on every system.
fn relative(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = below.components().map(|c| c.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

/// Asserts that a rule has found nothing in `text`.
#[cfg(test)]
#[track_caller]
fn assert_none<T: fmt::Debug>(found: Vec<T>, text: &str) {
    assert!(found.is_empty(), "{text}: {found:?}");
}
