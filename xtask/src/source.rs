//! A Rust file as the rules see it: code and comments apart, tests marked.
//!
//! R1. `code` has the length and the line breaks of the file; comments and the insides of strings
//!     are spaces. So an offset means the same in both, and a word in `code` is code.
//! R2. `comments[n]` is the comment text on line n + 1.
//! R3. A test region is code under a `cfg` that can hold only when `test` does.
//!
//! Not here: parsing. Macros are read as if their input were plain code.

use std::ops::Range;

pub(crate) struct Source {
    /// Below the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) code: String,
    comments: Vec<String>,
    lines: Vec<Range<usize>>,
    tests: Vec<Range<usize>>,
    inline_mods: Vec<Range<usize>>,
    only_test: bool,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let (code, comment_text) = split(text);
        let lines = line_ranges(text);
        let comments =
            lines.iter().map(|line| comment_text[line.clone()].trim().to_owned()).collect();
        let mut source = Self {
            path: path.to_owned(),
            code,
            comments,
            lines,
            tests: Vec::new(),
            inline_mods: Vec::new(),
            only_test: false,
        };
        source.find_tests();
        source.find_inline_mods();
        source
    }

    pub(crate) fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// Line number, from 1, of an offset.
    pub(crate) fn line_of(&self, pos: usize) -> usize {
        self.lines.partition_point(|line| line.start <= pos)
    }

    /// Code on a line, trimmed; empty beyond the file.
    pub(crate) fn code_on(&self, line: usize) -> &str {
        match line.checked_sub(1).and_then(|i| self.lines.get(i)) {
            Some(range) => self.code[range.clone()].trim(),
            None => "",
        }
    }

    /// Comment on a line, trimmed; empty beyond the file.
    pub(crate) fn comment_on(&self, line: usize) -> &str {
        match line.checked_sub(1).and_then(|i| self.comments.get(i)) {
            Some(text) => text,
            None => "",
        }
    }

    pub(crate) fn is_blank(&self, line: usize) -> bool {
        self.code_on(line).is_empty() && self.comment_on(line).is_empty()
    }

    /// Offset of the first byte of a line.
    pub(crate) fn start_of(&self, line: usize) -> usize {
        self.lines[line - 1].start
    }

    /// True if the code at `pos` exists for tests alone.
    pub(crate) fn in_test(&self, pos: usize) -> bool {
        self.only_test || self.tests.iter().any(|range| range.contains(&pos))
    }

    /// How many `mod name { … }` of this file surround `pos`.
    pub(crate) fn inline_depth(&self, pos: usize) -> usize {
        self.inline_mods.iter().filter(|range| range.contains(&pos)).count()
    }

    /// Identifiers and keywords in the code, with their offsets.
    pub(crate) fn words(&self) -> impl Iterator<Item = (usize, &str)> {
        words(&self.code)
    }

    /// Code after `pos`, without leading white space.
    pub(crate) fn after(&self, pos: usize) -> &str {
        self.code[pos..].trim_start()
    }

    /// Code before `pos`, without trailing white space.
    pub(crate) fn before(&self, pos: usize) -> &str {
        self.code[..pos].trim_end()
    }

    /// Offset at which the statement, item or match arm around `pos` begins.
    pub(crate) fn statement_start(&self, pos: usize) -> usize {
        let bytes = self.code.as_bytes();
        let mut at = pos;
        let mut closed = 0usize;
        while at > 0 {
            match bytes[at - 1] {
                b')' | b']' => closed += 1,
                b'(' | b'[' => closed = closed.saturating_sub(1),
                b';' if closed == 0 => break,
                b'{' | b'}' => break,
                _ => {}
            }
            at -= 1;
        }
        let skipped = |b: &u8| b.is_ascii_whitespace() || matches!(b, b',' | b')' | b']' | b';');
        at + bytes[at..pos].iter().take_while(|b| skipped(b)).count()
    }

    /// Offset just behind the brace that closes the one at `open`.
    pub(crate) fn block_end(&self, open: usize) -> usize {
        let mut depth = 0usize;
        for (i, byte) in self.code.bytes().enumerate().skip(open) {
            match byte {
                b'{' => depth += 1,
                b'}' => depth = depth.saturating_sub(1),
                _ => continue,
            }
            if depth == 0 {
                return i + 1;
            }
        }
        self.code.len()
    }

    /// Offset just behind the item that begins at or after `pos`.
    fn item_end(&self, pos: usize) -> usize {
        let mut depth = 0usize;
        for (i, byte) in self.code.bytes().enumerate().skip(pos) {
            match byte {
                b'(' | b'[' => depth += 1,
                b')' | b']' => depth = depth.saturating_sub(1),
                b';' if depth == 0 => return i + 1,
                b'{' if depth == 0 => return self.block_end(i),
                b'}' => return i,
                _ => {}
            }
        }
        self.code.len()
    }

    /// Attributes as (offset, inner attribute or not, text between the brackets, end).
    fn attributes(&self) -> Vec<(usize, bool, String, usize)> {
        let bytes = self.code.as_bytes();
        let mut found = Vec::new();
        for (pos, _) in self.code.match_indices('#') {
            let inner = bytes.get(pos + 1) == Some(&b'!');
            let open = pos + 1 + usize::from(inner);
            if bytes.get(open) != Some(&b'[') {
                continue;
            }
            let Some(close) = closing(bytes, open) else {
                continue;
            };
            let text = self.code[open + 1..close].trim().to_owned();
            found.push((pos, inner, text, close + 1));
        }
        found
    }

    fn find_tests(&mut self) {
        for (pos, inner, text, end) in self.attributes() {
            let Some(condition) = cfg_condition(&text) else {
                continue;
            };
            if !needs_test(condition) {
                continue;
            }
            if inner && self.code[..pos].matches('{').count() == 0 {
                self.only_test = true;
            } else {
                let range = pos..self.item_end(end);
                self.tests.push(range);
            }
        }
    }

    fn find_inline_mods(&mut self) {
        let mut found = Vec::new();
        for (pos, word) in self.words().filter(|(_, word)| *word == "mod") {
            let rest = self.after(pos + word.len());
            let name = rest.bytes().take_while(|b| is_word(*b)).count();
            if rest[name..].trim_start().starts_with('{') {
                let open = pos + self.code[pos..].find('{').unwrap_or(0);
                found.push(open..self.block_end(open));
            }
        }
        self.inline_mods = found;
    }

    /// Paths of the files that `mod name;` under a test-only `cfg` stands for, without `.rs`.
    fn test_files(&self) -> Vec<String> {
        let mut found = Vec::new();
        for range in &self.tests {
            let mut words = words(&self.code[range.clone()]).map(|(_, word)| word);
            let is_declaration = self.code[range.clone()].ends_with(';');
            if is_declaration && words.any(|word| word == "mod") {
                found.extend(words.next().map(|name| format!("{}/{name}", self.module_dir())));
            }
        }
        found
    }

    /// Directory in which the modules that this file declares lie.
    fn module_dir(&self) -> &str {
        let stem = self.path.strip_suffix(".rs").unwrap_or(&self.path);
        match stem.rsplit_once('/') {
            Some((dir, "mod" | "lib" | "main")) => dir,
            _ => stem,
        }
    }
}

/// Marks files that are test modules of other files, and all files of `tests` directories.
pub(crate) fn mark_test_files(sources: &mut [Source]) {
    let mut tests: Vec<String> = sources.iter().flat_map(Source::test_files).collect();
    tests.sort();
    for source in sources {
        let stem = source.path.strip_suffix(".rs").unwrap_or(&source.path);
        let below = |test: &String| {
            stem.strip_prefix(test.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let integration = stem.split('/').nth(1) == Some("tests");
        source.only_test |= integration || tests.iter().any(below);
    }
}

/// `x` of `cfg(x)`.
fn cfg_condition(attribute: &str) -> Option<&str> {
    let rest = attribute.strip_prefix("cfg")?.trim_start();
    rest.strip_prefix('(')?.strip_suffix(')')
}

/// R3, decided on the condition's text.
fn needs_test(condition: &str) -> bool {
    let condition = condition.trim();
    let Some((name, arguments)) = condition.split_once('(') else {
        return condition == "test";
    };
    let arguments = arguments.strip_suffix(')').unwrap_or(arguments);
    let mut parts = split_top(arguments).filter(|part| !part.trim().is_empty());
    match name.trim() {
        "all" => parts.any(needs_test),
        "any" => parts.all(needs_test),
        _ => false,
    }
}

/// Parts between the commas that no bracket encloses.
pub(crate) fn split_top(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0i32;
    text.split(move |c| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
}

/// Offset of the bracket that closes the one at `open`, whatever its kind.
pub(crate) fn closing(bytes: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (i, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return Some(i);
        }
    }
    None
}

pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Identifiers, keywords and numbers of a text, with their offsets.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = text.as_bytes();
    let starts =
        (0..bytes.len()).filter(|&i| is_word(bytes[i]) && (i == 0 || !is_word(bytes[i - 1])));
    starts.map(|start| {
        let len = bytes[start..].iter().take_while(|b| is_word(**b)).count();
        (start, &text[start..start + len])
    })
}

fn line_ranges(text: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    let mut lines = Vec::new();
    for line in text.split_inclusive('\n') {
        lines.push(start..start + line.len());
        start += line.len();
    }
    lines
}

/// R1: the code and, as a text of the same shape, the comments.
fn split(text: &str) -> (String, String) {
    let bytes = text.as_bytes();
    let mut code = blank(text);
    let mut comments = blank(text);
    let mut at = 0;
    while at < bytes.len() {
        let (kind, len) = token(&bytes[at..], at > 0 && is_word(bytes[at - 1]));
        let range = at..at + len;
        match kind {
            Token::Comment => comments[range.clone()].copy_from_slice(&bytes[range]),
            Token::Code => code[range.clone()].copy_from_slice(&bytes[range]),
            Token::Text => {
                code[range.start] = b'"';
                code[range.end - 1] = b'"';
            }
        }
        at += len;
    }
    (into_text(code), into_text(comments))
}

/// Tokens end at character boundaries, so each half is as valid as the file was.
fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("whole characters were copied")
}

/// Spaces, with the line breaks of `text`.
fn blank(text: &str) -> Vec<u8> {
    let keep = |b: u8| if b == b'\n' { b'\n' } else { b' ' };
    text.bytes().map(keep).collect()
}

enum Token {
    Code,
    Comment,
    /// A string or character literal.
    Text,
}

/// Kind and length of what `rest` begins with.
fn token(rest: &[u8], in_word: bool) -> (Token, usize) {
    match rest {
        [b'/', b'/', ..] => (Token::Comment, line_len(rest)),
        [b'/', b'*', ..] => (Token::Comment, block_comment_len(rest)),
        [b'"', ..] => (Token::Text, string_len(rest)),
        [b'\'', ..] => match char_len(rest) {
            Some(len) => (Token::Text, len),
            None => (Token::Code, 1),
        },
        [b'r' | b'b' | b'c', ..] if !in_word => match prefixed_len(rest) {
            Some(len) => (Token::Text, len),
            None => (Token::Code, 1),
        },
        _ => (Token::Code, 1),
    }
}

fn line_len(rest: &[u8]) -> usize {
    rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())
}

fn block_comment_len(rest: &[u8]) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of `"…"` with escapes.
fn string_len(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of a character literal; `None` for a lifetime or a label.
fn char_len(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        let close = rest.iter().skip(3).position(|b| *b == b'\'')?;
        return Some(close + 4);
    }
    let text = std::str::from_utf8(&rest[1..rest.len().min(6)]);
    let valid = match text {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&rest[1..1 + error.valid_up_to()]).ok()?,
    };
    let first = valid.chars().next()?.len_utf8();
    (rest.get(1 + first) == Some(&b'\'')).then_some(first + 2)
}

/// Length of a literal with a prefix: `r"…"`, `br#"…"#`, `b'…'`, `c"…"`.
fn prefixed_len(rest: &[u8]) -> Option<usize> {
    let letters = rest.iter().take_while(|b| b.is_ascii_alphabetic()).count();
    match &rest[..letters] {
        b"r" | b"br" | b"cr" => raw_len(rest, letters),
        b"b" | b"c" => match rest.get(1)? {
            b'"' => Some(1 + string_len(&rest[1..])),
            b'\'' => char_len(&rest[1..]).map(|len| 1 + len),
            _ => None,
        },
        _ => None,
    }
}

fn raw_len(rest: &[u8], prefix: usize) -> Option<usize> {
    let hashes = rest[prefix..].iter().take_while(|b| **b == b'#').count();
    let open = prefix + hashes;
    if rest.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = &rest[open + 1..];
    let len = body.windows(close.len()).position(|window| window == close);
    Some(len.map_or(rest.len(), |len| open + 1 + len + close.len()))
}

#[cfg(test)]
mod tests;
