//! Scans: each element becomes the sum of those before it, for any associative `op`.
//!
//! A scan of chunks in two passes asks for sums first and scans afterwards, twice the work. Here the
//! work is done in rounds of one chunk more than there are workers. In the first half of a round the
//! calling thread scans the first chunk for good, while others sum up those that follow, save the
//! last; in the second half all other chunks are scanned. With two workers that is two steps for
//! three chunks.
//!
//! N1. What nobody stole is not summed up: a thread that comes to a chunk whose left neighbour it
//!     has just scanned, scans it too. Alone, a worker does the work of a sequential scan.
//! N2. `op` gets neighbouring sums in their order, so it need not commute.
//! N3. Every element is a value at all times; if `op` panics, some are old and some new.
//!
//! Not here: scans of iterators.

use crate::fork::{Side, announce, join, join_sides, on_worker, width};

/// Elements of a chunk, at least: guessed, some µs of a cheap `op`.
const CHUNK: usize = 4 << 10;

/// Rounds of a long scan, so that a worker that comes late still helps.
const ROUNDS: usize = 4;

/// Replaces each element by the sum of all up to and with itself.
///
/// `op` must be associative.
///
/// ```
/// let mut v = [1, 2, 3, 4];
/// filch::par::inclusive_scan(&mut v, |a, b| a + b);
/// assert_eq!(v, [1, 3, 6, 10]);
/// ```
///
/// # Panics
/// If `op` or a clone panics; the slice then has old and new elements.
pub fn inclusive_scan<T: Clone + Send>(v: &mut [T], op: impl Fn(&T, &T) -> T + Sync) {
    scan(Inclusive(v), None, &op);
}

/// Replaces each element by the sum of `initial` and all before it; returns the sum of all.
///
/// `op` must be associative. `initial` need not be an identity.
///
/// ```
/// let mut v = [1, 2, 3, 4];
/// let sum = filch::par::exclusive_scan(&mut v, 0, |a, b| a + b);
/// assert_eq!((v, sum), ([0, 1, 3, 6], 10));
/// ```
///
/// # Panics
/// If `op` or a clone panics; the slice then has old and new elements.
pub fn exclusive_scan<T: Clone + Send>(
    v: &mut [T],
    initial: T,
    op: impl Fn(&T, &T) -> T + Sync,
) -> T {
    scan(Exclusive(v), Some(initial), &op).expect("a sum that began with a value has one")
}

/// As [`inclusive_scan`], from what `map` makes of `input`, into `out`.
///
/// ```
/// let mut out = [0; 3];
/// filch::par::inclusive_scan_map(&["a", "bc", "d"], &mut out, |s| s.len(), |a, b| a + b);
/// assert_eq!(out, [1, 3, 4]);
/// ```
///
/// # Panics
/// If the slices differ in length, or `map`, `op` or a clone panics; `out` then has old and new
/// elements.
#[track_caller]
pub fn inclusive_scan_map<A: Sync, T: Clone + Send>(
    input: &[A],
    out: &mut [T],
    map: impl Fn(&A) -> T + Sync,
    op: impl Fn(&T, &T) -> T + Sync,
) {
    assert_eq!(input.len(), out.len(), "the output has another length than the input");
    scan(InclusiveMap(Mapped { input, out, map: &map }), None, &op);
}

/// As [`exclusive_scan`], from what `map` makes of `input`, into `out`.
///
/// ```
/// let mut starts = [0; 3];
/// let len = filch::par::exclusive_scan_map(
///     &["a", "bc", "d"], &mut starts, 0, |s| s.len(), |a, b| a + b);
/// assert_eq!((starts, len), ([0, 1, 3], 4));
/// ```
///
/// # Panics
/// As [`inclusive_scan_map`].
#[track_caller]
pub fn exclusive_scan_map<A: Sync, T: Clone + Send>(
    input: &[A],
    out: &mut [T],
    initial: T,
    map: impl Fn(&A) -> T + Sync,
    op: impl Fn(&T, &T) -> T + Sync,
) -> T {
    assert_eq!(input.len(), out.len(), "the output has another length than the input");
    scan(ExclusiveMap(Mapped { input, out, map: &map }), Some(initial), &op)
        .expect("a sum that began with a value has one")
}

/// A stretch that can be scanned.
trait Stretch<T>: Send + Sized {
    fn len(&self) -> usize;
    fn split_at(self, at: usize) -> (Self, Self);
    /// The sum of the stretch, which is not empty.
    fn sum(&self, op: &impl Fn(&T, &T) -> T) -> T;
    /// Scans the stretch, which is not empty; `carry` is the sum of all before it, and the sum of
    /// all to its end is returned.
    fn scan(self, carry: Option<T>, op: &impl Fn(&T, &T) -> T) -> T;
}

/// What has become of a chunk.
enum Chunk<S, T> {
    Untouched(S),
    Summed(S, T),
    /// With what was before it.
    Ready(S, Option<T>),
    /// The sum of all to its end.
    Scanned(T),
    /// Between two states.
    Moving,
}

/// What a chunk knows of those before it.
enum Before<T> {
    /// Their sum; none if there is nothing before.
    Sum(Option<T>),
    NotYet,
}

fn scan<T: Clone + Send, S: Stretch<T>>(
    whole: S,
    carry: Option<T>,
    op: &(impl Fn(&T, &T) -> T + Sync),
) -> Option<T> {
    if whole.len() == 0 {
        return carry;
    }
    if whole.len() < 2 * CHUNK {
        return Some(whole.scan(carry, op));
    }
    on_worker(|| match width() {
        1 => Some(whole.scan(carry, op)),
        width => scan_in_rounds(whole, carry, op, width),
    })
}

fn scan_in_rounds<T: Clone + Send, S: Stretch<T>>(
    mut rest: S,
    mut carry: Option<T>,
    op: &(impl Fn(&T, &T) -> T + Sync),
    width: usize,
) -> Option<T> {
    let _announced = announce(width);
    let chunk = rest.len().div_ceil((width + 1) * ROUNDS).max(CHUNK);
    let mut chunks = Vec::with_capacity(width + 1);
    while rest.len() > 0 {
        while rest.len() > 0 && chunks.len() <= width {
            let len = rest.len().min(chunk);
            let first;
            (first, rest) = rest.split_at(len);
            chunks.push(Chunk::Untouched(first));
        }
        carry = round(&mut chunks, carry, op);
        chunks.clear();
    }
    carry
}

/// Scans the chunks, of which there is at least one; returns the sum of all to their end.
fn round<T: Clone + Send, S: Stretch<T>>(
    chunks: &mut [Chunk<S, T>],
    carry: Option<T>,
    op: &(impl Fn(&T, &T) -> T + Sync),
) -> Option<T> {
    let all_but_last = chunks.len() - 1;
    if all_but_last > 0 {
        gather(&mut chunks[..all_but_last], Before::Sum(carry.clone()), op);
    }
    let mut sum = carry;
    for chunk in &mut *chunks {
        *chunk = match chunk.take() {
            Chunk::Summed(stretch, own) => {
                let before = sum.take();
                sum = Some(before.as_ref().map_or_else(|| own.clone(), |b| op(b, &own)));
                Chunk::Ready(stretch, before)
            }
            Chunk::Scanned(to_its_end) => {
                sum = Some(to_its_end.clone());
                Chunk::Scanned(to_its_end)
            }
            Chunk::Untouched(stretch) => Chunk::Ready(stretch, sum.take()),
            Chunk::Ready(..) | Chunk::Moving => unreachable!("a chunk was readied twice"),
        };
    }
    finish(chunks, op);
    match chunks.last_mut().map(Chunk::take) {
        Some(Chunk::Scanned(sum)) => Some(sum),
        _ => unreachable!("the last chunk of a round was not scanned"),
    }
}

/// Scans the chunks if it is known what comes before them, else sums them up, each for itself (N1).
fn gather<T: Clone + Send, S: Stretch<T>>(
    chunks: &mut [Chunk<S, T>],
    before: Before<T>,
    op: &(impl Fn(&T, &T) -> T + Sync),
) {
    if let [chunk] = chunks {
        *chunk = match (chunk.take(), before) {
            (Chunk::Untouched(stretch), Before::Sum(carry)) => {
                Chunk::Scanned(stretch.scan(carry, op))
            }
            (Chunk::Untouched(stretch), Before::NotYet) => {
                let sum = stretch.sum(op);
                Chunk::Summed(stretch, sum)
            }
            _ => unreachable!("a chunk was gathered twice"),
        };
        return;
    }
    let (left, right) = chunks.split_at_mut(chunks.len() / 2);
    let ((), side) = join_sides(
        |_| gather(left, before, op),
        |side| {
            if side == Side::Stolen {
                gather(right, Before::NotYet, op);
            }
            side
        },
    );
    if side == Side::Here {
        let before = match left.last() {
            Some(Chunk::Scanned(sum)) => Before::Sum(Some(sum.clone())),
            _ => Before::NotYet,
        };
        gather(right, before, op);
    }
}

/// Scans the chunks that are ready.
fn finish<T: Clone + Send, S: Stretch<T>>(
    chunks: &mut [Chunk<S, T>],
    op: &(impl Fn(&T, &T) -> T + Sync),
) {
    let done = chunks.iter().take_while(|chunk| matches!(chunk, Chunk::Scanned(_))).count();
    let chunks = &mut chunks[done..];
    match chunks {
        [] => {}
        [chunk] => {
            if let Chunk::Ready(stretch, carry) = chunk.take() {
                *chunk = Chunk::Scanned(stretch.scan(carry, op));
            }
        }
        _ => {
            let (left, right) = chunks.split_at_mut(chunks.len() / 2);
            // The left ones were summed up by thieves, who have them in their caches.
            join(|| finish(right, op), || finish(left, op));
        }
    }
}

impl<S, T> Chunk<S, T> {
    fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Moving)
    }
}

struct Inclusive<'a, T>(&'a mut [T]);
struct Exclusive<'a, T>(&'a mut [T]);
struct InclusiveMap<'a, A, T, M>(Mapped<'a, A, T, M>);
struct ExclusiveMap<'a, A, T, M>(Mapped<'a, A, T, M>);

struct Mapped<'a, A, T, M> {
    input: &'a [A],
    out: &'a mut [T],
    map: &'a M,
}

impl<A, T, M: Fn(&A) -> T> Mapped<'_, A, T, M> {
    fn split_at(self, at: usize) -> (Self, Self) {
        let (i1, i2) = self.input.split_at(at);
        let (o1, o2) = self.out.split_at_mut(at);
        let map = self.map;
        (Self { input: i1, out: o1, map }, Self { input: i2, out: o2, map })
    }

    fn sum(&self, op: &impl Fn(&T, &T) -> T) -> T {
        let (first, others) = self.input.split_first().expect("a stretch is not empty");
        others.iter().fold((self.map)(first), |sum, x| op(&sum, &(self.map)(x)))
    }
}

fn sum_of<T: Clone>(v: &[T], op: &impl Fn(&T, &T) -> T) -> T {
    let (first, others) = v.split_first().expect("a stretch is not empty");
    others.iter().fold(first.clone(), |sum, x| op(&sum, x))
}

impl<T: Clone + Send> Stretch<T> for Inclusive<'_, T> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn split_at(self, at: usize) -> (Self, Self) {
        let (left, right) = self.0.split_at_mut(at);
        (Self(left), Self(right))
    }

    fn sum(&self, op: &impl Fn(&T, &T) -> T) -> T {
        sum_of(self.0, op)
    }

    fn scan(self, carry: Option<T>, op: &impl Fn(&T, &T) -> T) -> T {
        let (first, others) = self.0.split_first_mut().expect("a stretch is not empty");
        if let Some(carry) = carry {
            *first = op(&carry, first);
        }
        let mut last = &*first;
        for x in others {
            *x = op(last, x);
            last = x;
        }
        last.clone()
    }
}

impl<T: Clone + Send> Stretch<T> for Exclusive<'_, T> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn split_at(self, at: usize) -> (Self, Self) {
        let (left, right) = self.0.split_at_mut(at);
        (Self(left), Self(right))
    }

    fn sum(&self, op: &impl Fn(&T, &T) -> T) -> T {
        sum_of(self.0, op)
    }

    fn scan(self, carry: Option<T>, op: &impl Fn(&T, &T) -> T) -> T {
        let carry = carry.expect("an exclusive scan begins with a value");
        self.0.iter_mut().fold(carry, |sum, x| {
            let next = op(&sum, x);
            *x = sum;
            next
        })
    }
}

impl<A: Sync, T: Clone + Send, M: Fn(&A) -> T + Sync> Stretch<T> for InclusiveMap<'_, A, T, M> {
    fn len(&self) -> usize {
        self.0.input.len()
    }

    fn split_at(self, at: usize) -> (Self, Self) {
        let (left, right) = self.0.split_at(at);
        (Self(left), Self(right))
    }

    fn sum(&self, op: &impl Fn(&T, &T) -> T) -> T {
        self.0.sum(op)
    }

    fn scan(self, carry: Option<T>, op: &impl Fn(&T, &T) -> T) -> T {
        let Mapped { input, out, map } = self.0;
        let mut pairs = input.iter().zip(out);
        let (x, place) = pairs.next().expect("a stretch is not empty");
        *place = match carry {
            Some(carry) => op(&carry, &map(x)),
            None => map(x),
        };
        let mut last = &*place;
        for (x, place) in pairs {
            *place = op(last, &map(x));
            last = place;
        }
        last.clone()
    }
}

impl<A: Sync, T: Clone + Send, M: Fn(&A) -> T + Sync> Stretch<T> for ExclusiveMap<'_, A, T, M> {
    fn len(&self) -> usize {
        self.0.input.len()
    }

    fn split_at(self, at: usize) -> (Self, Self) {
        let (left, right) = self.0.split_at(at);
        (Self(left), Self(right))
    }

    fn sum(&self, op: &impl Fn(&T, &T) -> T) -> T {
        self.0.sum(op)
    }

    fn scan(self, carry: Option<T>, op: &impl Fn(&T, &T) -> T) -> T {
        let Mapped { input, out, map } = self.0;
        let carry = carry.expect("an exclusive scan begins with a value");
        input.iter().zip(out).fold(carry, |sum, (x, place)| {
            let next = op(&sum, &map(x));
            *place = sum;
            next
        })
    }
}
