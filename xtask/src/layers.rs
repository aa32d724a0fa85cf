//! Which module of the library may know which: imports point downwards.
//!
//! The modules form a star. Leaves know `base`; `task` knows the few leaves that its header is
//! made of; `sched` lets the leaves meet; the public API sits on top. A module always knows
//! itself, and `lib.rs` knows everything.
//!
//! L1. A module that is not in [`TABLE`] is a finding, and so is a name that the root re-exports:
//!     inside the library an item is imported from where it is defined.

use crate::source::{Source, split_top, words};
use crate::{Finding, LIBRARY};

/// What a module may import from.
enum Knows {
    Only(&'static [&'static str]),
    /// Any module: for the public API, which has nothing above it.
    All,
}
use Knows::{All, Only};

const LEAF: Knows = Only(&["base"]);

/// One row per module directly below `filch/src`, bottom first.
const TABLE: &[(&str, Knows)] = &[
    ("base", Only(&[])),
    // Errors that users see: any module that can fail may name them.
    ("error", LEAF),
    ("config", Only(&["base", "error"])),
    // Leaves.
    ("queue", LEAF),
    ("idle", LEAF),
    ("pool", LEAF),
    ("timer", LEAF),
    // `streams` is a face that it shows to users and does not use.
    ("io", Only(&["base", "streams"])),
    ("observe", LEAF),
    // The schedulable unit: its link is the queue's, its memory the pool's.
    ("task", Only(&["base", "error", "pool", "queue", "idle", "observe", "timer"])),
    // Where the leaves meet.
    (
        "sched",
        Only(&[
            "base", "error", "config", "queue", "idle", "pool", "timer", "io", "observe", "task",
        ]),
    ),
    // The public API.
    ("runtime", All),
    ("builder", All),
    ("block_on", All),
    ("spawn", All),
    ("join", All),
    ("wait", All),
    ("group", All),
    ("scope", All),
    ("fork", All),
    ("adopt", All),
    ("post", All),
    ("worker", All),
    ("hive", All),
    ("pump", All),
    ("watch", All),
    ("job", All),
    ("cpu", All),
    ("par", All),
    ("graph", All),
    ("pipeline", All),
    ("time", All),
    ("net", All),
    ("fs", All),
    ("streams", All),
    ("process", All),
    ("signal", All),
    ("sync", All),
    ("testkit", All),
];

/// The only file that may name loom and std's atomics.
const SHIM: &str = "base/shim.rs";

fn row(module: &str) -> Option<&'static Knows> {
    TABLE.iter().find(|(name, _)| *name == module).map(|(_, knows)| knows)
}

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let path = module_path(source);
    let Some(module) = path.first() else {
        return Vec::new();
    };
    let Some(knows) = row(module) else {
        let text = format!("module `{module}` has no row in xtask/src/layers.rs");
        return vec![Finding::error(&source.path, 1, "layer", text)];
    };
    let mut findings = Vec::new();
    for (pos, target) in root_paths(source, path.len()) {
        if let Some(text) = refusal(module, knows, &target) {
            let line = source.line_of(pos);
            findings.push(Finding::error(&source.path, line, "layer", text));
        }
    }
    findings
}

fn refusal(module: &str, knows: &Knows, target: &str) -> Option<String> {
    if target == module {
        return None;
    }
    if row(target).is_none() {
        return Some(format!(
            "`crate::{target}` is no module of the layer table; import items from their module"
        ));
    }
    match knows {
        All => None,
        Only(below) if below.contains(&target) => None,
        Only([]) => Some(format!("`{module}` must not know `{target}`, nor any other module")),
        Only(below) => {
            let below = below.join("`, `");
            Some(format!("`{module}` must not know `{target}`; it may know `{below}`"))
        }
    }
}

/// `["queue", "ring"]` for `filch/src/queue/ring.rs`; empty for the root.
fn module_path(source: &Source) -> Vec<&str> {
    let below = source.path.strip_prefix(LIBRARY).unwrap_or(&source.path);
    let below = below.strip_suffix(".rs").unwrap_or(below);
    let mut path: Vec<&str> = below.split('/').collect();
    if matches!(path.last(), Some(&("mod" | "lib"))) {
        path.pop();
    }
    path
}

/// The first names of all paths from the crate's root in code that is not only for tests.
fn root_paths(source: &Source, depth: usize) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (pos, word) in source.words() {
        let behind = match word {
            "crate" => pos + word.len(),
            "super" => match behind_supers(source, pos, depth + source.inline_depth(pos)) {
                Some(behind) => behind,
                None => continue,
            },
            _ => continue,
        };
        if !source.in_test(pos) {
            found.extend(heads(source, behind));
        }
    }
    found
}

/// If a chain of `super::` that begins at `pos` ends at the root, the offset behind its last.
fn behind_supers(source: &Source, pos: usize, depth: usize) -> Option<usize> {
    if source.before(pos).ends_with("::") {
        return None;
    }
    let mut at = pos + "super".len();
    for _ in 1..depth {
        let rest = source.after(at).strip_prefix("::")?.trim_start();
        at = source.code.len() - rest.strip_prefix("super")?.len();
    }
    Some(at)
}

/// First names behind `crate`: one, or one for each branch of a `{…}`.
fn heads(source: &Source, behind: usize) -> Vec<(usize, String)> {
    let Some(rest) = source.after(behind).strip_prefix("::") else {
        return Vec::new();
    };
    let rest = rest.trim_start();
    let start = source.code.len() - rest.len();
    if !rest.starts_with('{') {
        return first_name(rest).map(|(_, name)| (start, name)).into_iter().collect();
    }
    let end = source.block_end(start);
    let inside = &source.code[start + 1..end - 1];
    let mut heads = Vec::new();
    let mut at = start + 1;
    for branch in split_top(inside) {
        heads.extend(first_name(branch).map(|(offset, name)| (at + offset, name)));
        at += branch.len() + 1;
    }
    heads
}

/// The name that a path begins with, unless it is a macro's or `super` again.
fn first_name(path: &str) -> Option<(usize, String)> {
    let (offset, name) = words(path).next()?;
    let is_macro = path[offset + name.len()..].starts_with('!');
    let is_name = !is_macro && !matches!(name, "self" | "super");
    is_name.then(|| (offset, name.to_owned()))
}

/// The rule that the model checker sees every atomic: all come from the shim.
pub(crate) fn check_shim(source: &Source) -> Vec<Finding> {
    if source.path.strip_prefix(LIBRARY) == Some(SHIM) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (pos, word) in source.words() {
        let named = match word {
            "loom" => names_crate(source, pos, word),
            "atomic" => is_std_atomic(source, pos),
            _ => false,
        };
        if named && !source.in_test(pos) {
            let text = format!("only {SHIM} names `{word}`; import from `crate::base::shim`");
            findings.push(Finding::error(&source.path, source.line_of(pos), "shim", text));
        }
    }
    findings
}

/// `loom::…`, `use loom`, `extern crate loom`; not `cfg(loom)`.
fn names_crate(source: &Source, pos: usize, word: &str) -> bool {
    let last = words(source.before(pos)).last().map(|(_, word)| word);
    let before = source.before(pos);
    let declared =
        matches!(last, Some("use" | "crate")) && before.ends_with(|c: char| c.is_alphabetic());
    declared || source.after(pos + word.len()).starts_with("::")
}

/// `sync::atomic`, and `atomic` in a tree such as `use std::{sync::{atomic::…}}`.
fn is_std_atomic(source: &Source, pos: usize) -> bool {
    let before = source.before(pos);
    if before.ends_with("sync::") {
        return true;
    }
    let start = before.rfind(';').map_or(0, |semicolon| semicolon + 1);
    let statement: Vec<&str> = words(&source.code[start..pos]).map(|(_, word)| word).collect();
    let import = statement.iter().rposition(|word| *word == "use");
    let path = import.map_or(&[][..], |at| &statement[at + 1..]);
    matches!(path.first(), Some(&("std" | "core"))) && path.contains(&"sync")
}

#[cfg(test)]
mod tests;
