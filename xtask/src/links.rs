//! Relative links in Markdown lead somewhere.
//!
//! K1. A link's file exists, seen from the file that links.
//! K2. If the link names a heading of a Markdown file, that file has it, spelled as the usual
//!     renderers spell it: lower case, punctuation dropped, spaces as hyphens.
//!
//! Not here: links to other sites, and links in rustdoc (rustdoc checks these).

use std::path::Path;

use crate::Finding;

pub(crate) fn check(root: &Path, files: &[(String, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, text) in files {
        for (line, target) in targets(text) {
            if let Some(text) = refusal(root, files, name, &target) {
                findings.push(Finding::error(name, line, "link", text));
            }
        }
    }
    findings
}

fn refusal(root: &Path, files: &[(String, String)], from: &str, target: &str) -> Option<String> {
    if is_foreign(target) {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = resolve(from, file);
    if !file.is_empty() && !root.join(&path).exists() {
        return Some(format!("`{target}` leads to no file"));
    }
    let text = files.iter().find(|(name, _)| *name == path).map(|(_, text)| text)?;
    let known = heading.is_empty() || anchors(text).iter().any(|anchor| anchor == heading);
    (!known).then(|| format!("`{target}` leads to no heading of {path}"))
}

/// True for what has a scheme or starts at a server's root.
fn is_foreign(target: &str) -> bool {
    let scheme = target.split_once(':').map_or("", |(scheme, _)| scheme);
    let has_scheme = !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphabetic());
    has_scheme || target.starts_with('/')
}

/// `file` seen from the directory of `from`; `from` itself if `file` is empty.
fn resolve(from: &str, file: &str) -> String {
    if file.is_empty() {
        return from.to_owned();
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            // Past the root the path stays as written, and leads nowhere.
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Targets of inline links, images and link definitions outside code, with their lines.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, text) in prose(text) {
        let text = without_code(text);
        let mut rest = text.as_str();
        while let Some((_, behind)) = rest.split_once("](") {
            found.extend(destination(behind).map(|target| (line, target)));
            rest = behind;
        }
        if let Some((label, behind)) = text.trim_start().split_once("]:")
            && label.starts_with('[')
            && !label.starts_with("[^")
        {
            found.extend(destination(behind.trim_start()).map(|target| (line, target)));
        }
    }
    found
}

/// The target that `text` begins with, without title and angle brackets.
fn destination(text: &str) -> Option<String> {
    if let Some(rest) = text.strip_prefix('<') {
        return rest.split_once('>').map(|(target, _)| target.to_owned());
    }
    let mut depth = 0i32;
    let end = text.find(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c.is_whitespace() || depth < 0
    });
    let target = &text[..end.unwrap_or(text.len())];
    (!target.is_empty()).then(|| target.to_owned())
}

/// Lines outside fenced code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(i, line)| {
        let mark = fence_mark(line);
        match (fence, mark) {
            (None, None) => return Some((i + 1, line)),
            (None, Some(open)) => fence = Some(open),
            (Some(open), Some(close)) if close.starts_with(open) => fence = None,
            _ => {}
        }
        None
    })
}

/// The backticks or tildes of a line that opens or closes fenced code.
fn fence_mark(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let first = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let len = line.chars().take_while(|c| *c == first).count();
    (len >= 3).then(|| &line[..len])
}

/// A line with the insides of `code` removed.
fn without_code(line: &str) -> String {
    let pieces: Vec<&str> = line.split('`').collect();
    let last = pieces.len() - 1;
    // A lone backtick opens nothing: the piece behind it is prose.
    let is_prose = |i: usize| i.is_multiple_of(2) || i == last;
    let kept = pieces.iter().enumerate().filter(|(i, _)| is_prose(*i));
    kept.map(|(_, piece)| *piece).collect()
}

/// The anchors of a file's headings.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        let level = line.len() - title.len();
        if !(1..=6).contains(&level) || !title.starts_with(' ') {
            continue;
        }
        let slug = slug(title.trim());
        let repeats = anchors.iter().filter(|a| is_repeat(a, &slug)).count();
        anchors.push(if repeats == 0 { slug } else { format!("{slug}-{repeats}") });
    }
    anchors
}

fn is_repeat(anchor: &str, slug: &str) -> bool {
    let number = anchor.strip_prefix(slug).map(|rest| rest.strip_prefix('-').unwrap_or(rest));
    number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
}

fn slug(title: &str) -> String {
    let lower = title.to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests;
