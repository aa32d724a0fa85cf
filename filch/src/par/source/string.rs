//! Strings: characters, bytes, lines and words.
//!
//! A text is cut near the middle where the one kind of thing ends and the next starts, so each
//! piece is a text of its own.

use super::slice;
use crate::par::adapt::Copied;
use crate::par::convert::IntoParallelRefIterator;
use crate::par::parallel::ParallelIterator;
use crate::par::plumbing::{Consumer, Folder, UnindexedProducer, bridge_unindexed};

/// Parts of a text.
///
/// ```
/// use filch::par::prelude::*;
/// let text = "one two\nthrée\n";
/// assert_eq!(text.par_chars().filter(|c| c.is_alphabetic()).count(), 11);
/// assert_eq!(text.par_char_indices().find_any(|(_, c)| *c == 'é'), Some((11, 'é')));
/// assert_eq!(text.par_bytes().filter(|b| *b == b'\n').count(), 2);
/// assert_eq!(text.par_lines().collect::<Vec<_>>(), ["one two", "thrée"]);
/// assert_eq!(text.par_split_whitespace().collect::<Vec<_>>(), ["one", "two", "thrée"]);
/// ```
pub trait ParallelString {
    /// The text.
    fn as_parallel_string(&self) -> &str;

    /// Its characters.
    fn par_chars(&self) -> Chars<'_> {
        Parts::new(self.as_parallel_string())
    }

    /// Its characters, and where they start.
    fn par_char_indices(&self) -> CharIndices<'_> {
        Parts::new(self.as_parallel_string())
    }

    /// Its bytes.
    fn par_bytes(&self) -> Copied<slice::Iter<'_, u8>> {
        self.as_parallel_string().as_bytes().par_iter().copied()
    }

    /// Its lines, without their ends.
    fn par_lines(&self) -> Lines<'_> {
        Parts::new(self.as_parallel_string())
    }

    /// Its words.
    fn par_split_whitespace(&self) -> SplitWhitespace<'_> {
        Parts::new(self.as_parallel_string())
    }
}

impl ParallelString for str {
    fn as_parallel_string(&self) -> &str {
        self
    }
}

/// What [`Chars`], [`CharIndices`], [`Lines`] and [`SplitWhitespace`] are.
#[derive(Debug, Clone)]
#[must_use = "parallel iterators do nothing before they are consumed"]
pub struct Parts<'t, K> {
    text: &'t str,
    kind: K,
}

/// Made by [`ParallelString::par_chars`].
pub type Chars<'t> = Parts<'t, OfChars>;
/// Made by [`ParallelString::par_char_indices`].
pub type CharIndices<'t> = Parts<'t, OfIndices>;
/// Made by [`ParallelString::par_lines`].
pub type Lines<'t> = Parts<'t, OfLines>;
/// Made by [`ParallelString::par_split_whitespace`].
pub type SplitWhitespace<'t> = Parts<'t, OfWords>;

/// What a text is cut into.
pub trait Kind<'t>: Send + Default {
    /// A part.
    type Part: Send;

    /// Where to cut at `middle` or later, if anywhere before the end.
    fn cut(text: &str, middle: usize) -> Option<usize>;

    /// What the rest is, when so many bytes are cut off.
    fn behind(&self, bytes: usize) -> Self {
        let _ = bytes;
        Self::default()
    }

    /// The parts.
    fn parts(self, text: &'t str) -> impl Iterator<Item = Self::Part>;
}

fn char_boundary(text: &str, middle: usize) -> Option<usize> {
    (middle.max(1)..text.len()).find(|at| text.is_char_boundary(*at))
}

/// Characters.
#[derive(Debug, Clone, Default)]
pub struct OfChars;

impl<'t> Kind<'t> for OfChars {
    type Part = char;

    fn cut(text: &str, middle: usize) -> Option<usize> {
        char_boundary(text, middle)
    }

    fn parts(self, text: &'t str) -> impl Iterator<Item = char> {
        text.chars()
    }
}

/// Characters with their positions; the text starts at this one.
#[derive(Debug, Clone, Default)]
pub struct OfIndices(usize);

impl<'t> Kind<'t> for OfIndices {
    type Part = (usize, char);

    fn cut(text: &str, middle: usize) -> Option<usize> {
        char_boundary(text, middle)
    }

    fn behind(&self, bytes: usize) -> Self {
        Self(self.0 + bytes)
    }

    fn parts(self, text: &'t str) -> impl Iterator<Item = (usize, char)> {
        text.char_indices().map(move |(at, c)| (self.0 + at, c))
    }
}

/// Lines.
#[derive(Debug, Clone, Default)]
pub struct OfLines;

impl<'t> Kind<'t> for OfLines {
    type Part = &'t str;

    fn cut(text: &str, middle: usize) -> Option<usize> {
        let (before, after) = text.as_bytes().split_at(middle);
        let end = after.iter().position(|b| *b == b'\n').map(|at| middle + at);
        end.or_else(|| before.iter().rposition(|b| *b == b'\n')).map(|end| end + 1)
    }

    fn parts(self, text: &'t str) -> impl Iterator<Item = &'t str> {
        text.lines()
    }
}

/// Words.
#[derive(Debug, Clone, Default)]
pub struct OfWords;

impl<'t> Kind<'t> for OfWords {
    type Part = &'t str;

    fn cut(text: &str, middle: usize) -> Option<usize> {
        let (before, after) = text.split_at(char_boundary(text, middle)?);
        let end = after.find(char::is_whitespace).map(|at| before.len() + at);
        end.or_else(|| before.rfind(char::is_whitespace))
    }

    fn parts(self, text: &'t str) -> impl Iterator<Item = &'t str> {
        text.split_whitespace()
    }
}

impl<'t, K: Kind<'t>> Parts<'t, K> {
    fn new(text: &'t str) -> Self {
        Self { text, kind: K::default() }
    }
}

impl<'t, K: Kind<'t>> ParallelIterator for Parts<'t, K> {
    type Item = K::Part;

    fn drive<C: Consumer<K::Part>>(self, consumer: C) -> C::Result {
        bridge_unindexed(self, consumer)
    }
}

impl<'t, K: Kind<'t>> UnindexedProducer for Parts<'t, K> {
    type Item = K::Part;

    fn split(self) -> (Self, Option<Self>) {
        let at = K::cut(self.text, self.text.len() / 2);
        match at.filter(|at| 0 < *at && *at < self.text.len()) {
            Some(at) => {
                let (left, right) = self.text.split_at(at);
                let kind = self.kind.behind(at);
                (Self { text: left, ..self }, Some(Self { text: right, kind }))
            }
            None => (self, None),
        }
    }

    fn fold_with<F: Folder<K::Part>>(self, folder: F) -> F {
        folder.consume_iter(self.kind.parts(self.text))
    }
}
