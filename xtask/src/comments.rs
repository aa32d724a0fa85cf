//! Comments that unsafe code, atomic operations and light fences owe the reader.
//!
//! C1. A comment belongs to a statement if it stands inside it, at or above the construct, or
//!     directly above it; attributes may come between, blank lines may not.
//! C2. An `ORDERING:` comment also covers the statements that follow in its block, up to
//!     [`RUN`] lines of code further, until a blank line.
//!
//! Not here: whether a comment is true. `clippy::undocumented_unsafe_blocks` sees less (it does
//! not ask for contracts), so both run.

use crate::Finding;
use crate::source::{Source, is_word, words};

/// Lines of code that one `ORDERING:` comment may cover beyond its own statement.
const RUN: usize = 6;

/// The memory orderings of atomic operations.
const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// Functions whose arguments are orderings, when these are written without `Ordering::`.
const ATOMIC_CALLS: [&str; 8] = [
    "load",
    "store",
    "swap",
    "compare_exchange",
    "compare_exchange_weak",
    "fence",
    "compiler_fence",
    "fetch_update",
];

/// Unsafe constructs, by what a reader must be told.
enum Unsafe {
    /// Obligations are discharged here.
    Discharged(&'static str),
    /// Obligations are stated here, for callers or implementors.
    Stated(&'static str),
}

pub(crate) fn check_safety(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (pos, word) in source.words().filter(|(_, word)| *word == "unsafe") {
        let Some(construct) = classify(source.after(pos + word.len())) else {
            continue;
        };
        let comment = |needles: &[&str]| {
            let texts = own_comments(source, pos);
            texts.iter().any(|text| needles.iter().any(|needle| text.contains(needle)))
        };
        let text = match construct {
            Unsafe::Discharged(name) if !comment(&["SAFETY:"]) => {
                format!("{name} without a `// SAFETY:` comment above")
            }
            Unsafe::Stated(name)
                if !comment(&["# Safety", "SAFETY"]) && !in_trait_impl(source, pos) =>
            {
                format!("{name} without a `# Safety` section or `// SAFETY` contract")
            }
            _ => continue,
        };
        findings.push(Finding::error(&source.path, source.line_of(pos), "safety", text));
    }
    findings
}

/// What `unsafe` introduces, from the code behind it; `None` for types and for what a lint covers.
fn classify(behind: &str) -> Option<Unsafe> {
    if behind.starts_with('{') {
        return Some(Unsafe::Discharged("unsafe block"));
    }
    if behind.starts_with('(') {
        return Some(Unsafe::Discharged("unsafe attribute"));
    }
    let mut ahead = words(behind).filter(|(_, word)| *word != "async");
    match ahead.next()?.1 {
        "impl" => Some(Unsafe::Discharged("unsafe impl")),
        "trait" | "auto" => Some(Unsafe::Stated("unsafe trait")),
        "fn" => is_function(behind).then_some(Unsafe::Stated("unsafe fn")),
        "extern" => match ahead.next()?.1 {
            "fn" => is_function(behind).then_some(Unsafe::Stated("unsafe fn")),
            _ => Some(Unsafe::Discharged("unsafe extern block")),
        },
        _ => None,
    }
}

/// True for a method of `impl Trait for Type`: the trait states its contract.
fn in_trait_impl(source: &Source, pos: usize) -> bool {
    let bytes = source.code.as_bytes();
    let mut closed = 0usize;
    let open = (0..pos).rev().find(|&at| match bytes[at] {
        b'}' => {
            closed += 1;
            false
        }
        b'{' if closed > 0 => {
            closed -= 1;
            false
        }
        byte => byte == b'{',
    });
    let Some(open) = open else {
        return false;
    };
    let header = &source.code[source.statement_start(open)..open];
    let is_impl = words(header).any(|(_, word)| word == "impl");
    // `for<'a>` binds a lifetime and names no type.
    let is_for = |(at, word): (usize, &str)| word == "for" && !header[at + 3..].starts_with('<');
    is_impl && words(header).any(is_for)
}

/// A function has a name behind `fn`; a function pointer type has not.
fn is_function(behind: &str) -> bool {
    let name = words(behind).find(|(_, word)| *word == "fn");
    name.is_some_and(|(at, _)| behind[at + 2..].trim_start().bytes().next().is_some_and(is_word))
}

pub(crate) fn check_ordering(source: &Source) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let mut last = None;
    for (pos, _) in source.words().filter(|(_, word)| ORDERINGS.contains(word)) {
        let start = source.statement_start(pos);
        if source.in_test(pos) || !is_operation(source, start, pos) || has_ordering(source, pos) {
            continue;
        }
        // One finding for a statement, however many orderings it names.
        if last.replace(start) != Some(start) {
            let text = "atomic operation without an `// ORDERING:` comment above";
            findings.push(Finding::error(&source.path, source.line_of(pos), "ordering", text));
        }
    }
    findings
}

/// True if the ordering named at `pos` is an argument, not an import, a pattern or a variant.
fn is_operation(source: &Source, start: usize, pos: usize) -> bool {
    let statement = &source.code[start..pos];
    if words(statement).any(|(_, word)| word == "use") {
        return false;
    }
    let before = source.before(pos);
    if let Some(path) = before.strip_suffix("::") {
        return path.ends_with("Ordering");
    }
    in_atomic_call(source, pos)
}

/// True if one of the parentheses open at `pos` holds the arguments of an atomic operation.
fn in_atomic_call(source: &Source, pos: usize) -> bool {
    let bytes = source.code.as_bytes();
    let mut closed = 0usize;
    for at in (0..pos).rev() {
        match bytes[at] {
            b')' | b'}' | b']' => closed += 1,
            b'(' if closed == 0 => {
                let name = words(&source.code[..at]).last().map_or("", |(_, word)| word);
                let touches = at > 0 && is_word(bytes[at - 1]);
                if touches && (ATOMIC_CALLS.contains(&name) || name.starts_with("fetch_")) {
                    return true;
                }
            }
            b'(' | b'{' | b'[' if closed > 0 => closed -= 1,
            b';' if closed == 0 => return false,
            _ => {}
        }
    }
    false
}

/// C1 or C2.
fn has_ordering(source: &Source, pos: usize) -> bool {
    let mark = "ORDERING:";
    own_comments(source, pos).iter().any(|text| text.contains(mark)) || run_has(source, pos, mark)
}

/// C2: walks up from the statement, through blocks that are still open, never into closed ones.
fn run_has(source: &Source, pos: usize, mark: &str) -> bool {
    let start = source.statement_start(pos);
    let first = source.line_of(start);
    let mut closed = braces(&source.code[source.start_of(first)..start], 0);
    let mut code_lines = 0;
    for line in (1..first).rev() {
        if source.is_blank(line) {
            return false;
        }
        if closed == 0 && source.comment_on(line).contains(mark) {
            return true;
        }
        code_lines += usize::from(!source.code_on(line).is_empty());
        if code_lines > RUN {
            return false;
        }
        closed = braces(source.code_on(line), closed);
    }
    false
}

/// Blocks that lie closed between the end of `code` and its start, `closed` being those after it.
fn braces(code: &str, closed: usize) -> usize {
    code.bytes().rev().fold(closed, |closed, byte| match byte {
        b'}' => closed + 1,
        b'{' => closed.saturating_sub(1),
        _ => closed,
    })
}

/// The functions that are a half of an asymmetric fence.
const LIGHT: [&str; 2] = ["light", "light_if_free"];
const HEAVY: [&str; 2] = ["heavy", "heavy_or_fence"];

/// Light halves of an asymmetric fence, over all files: each names a function with a heavy half.
pub(crate) fn check_light(sources: &[&Source]) -> Vec<Finding> {
    let heavy = |s: &&Source| HEAVY.iter().flat_map(|name| callers_of(s, name)).collect::<Vec<_>>();
    let partners: Vec<String> = sources.iter().flat_map(heavy).collect();
    let mut findings = Vec::new();
    for source in sources {
        for pos in LIGHT.iter().flat_map(|name| calls(source, name)) {
            let comments = own_comments(source, pos);
            let text = if !comments.iter().any(|text| text.contains("LIGHT:")) {
                "`light` without a `// LIGHT:` comment above".to_owned()
            } else if !names_any(&comments, &partners) {
                let partners = partners.join("`, `");
                format!("`// LIGHT:` names no function that calls `heavy`; these do: `{partners}`")
            } else {
                continue;
            };
            findings.push(Finding::error(&source.path, source.line_of(pos), "light", text));
        }
    }
    findings
}

fn names_any(comments: &[String], names: &[String]) -> bool {
    let mut spoken = comments.iter().flat_map(|text| words(text));
    spoken.any(|(_, word)| names.iter().any(|name| name == word))
}

/// Calls of a function or method outside tests.
fn calls<'a>(source: &'a Source, name: &'a str) -> impl Iterator<Item = usize> + 'a {
    let named = source.words().filter(move |(_, word)| *word == name);
    named.map(|(pos, _)| pos).filter(move |&pos| {
        let called = source.after(pos + name.len()).starts_with('(');
        let defined = source.before(pos).ends_with("fn");
        called && !defined && !source.in_test(pos)
    })
}

/// Names of the functions in which `name` is called.
fn callers_of(source: &Source, name: &str) -> Vec<String> {
    let mut callers = Vec::new();
    for pos in calls(source, name) {
        let mut functions = words(&source.code[..pos]).filter(|(_, word)| *word == "fn");
        let around = functions.by_ref().filter_map(|(at, _)| {
            let open = at + source.code[at..pos].find('{')?;
            (source.block_end(open) > pos).then_some(at)
        });
        let innermost = around.last();
        callers.extend(
            innermost.and_then(|at| words(&source.code[at..]).nth(1)).map(|w| w.1.to_owned()),
        );
    }
    callers
}

/// C1: the comments that belong to the statement around `pos`, down to its line.
fn own_comments(source: &Source, pos: usize) -> Vec<String> {
    let last = source.line_of(pos);
    let mut first = source.line_of(source.statement_start(pos));
    while first > 1 && is_above(source, first - 1) {
        first -= 1;
    }
    (first..=last).map(|line| source.comment_on(line).to_owned()).collect()
}

/// True for a line with nothing but a comment or an attribute.
fn is_above(source: &Source, line: usize) -> bool {
    match source.code_on(line) {
        "" => !source.comment_on(line).is_empty(),
        code => code.starts_with("#[") && code.ends_with(']'),
    }
}

#[cfg(test)]
mod tests;
