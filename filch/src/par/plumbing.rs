//! What a parallel iterator is made of: producers that split, consumers that split along, and the
//! bridge that runs both over the workers.
//!
//! A source hands out a [`Producer`]: so many items, cut in two wherever one likes, and in the end an
//! ordinary [`Iterator`]. What becomes of the items is a [`Consumer`]: it is cut as often as the
//! producer, each piece becomes a [`Folder`] that eats the items of a piece, and a [`Reducer`] puts
//! two neighbours' results together. Adaptors wrap the one or the other.
//!
//! P1. Order is kept: of two results that a reducer is given, the left one is of the items before.
//! P2. An iterator whose [`opt_len`](super::ParallelIterator::opt_len) is known cuts its consumer by
//!     [`Consumer::split_at`] alone, where it cuts the items.
//! P3. No code relies on P2, or on a length that a user's type tells, for memory safety.
//!
//! # A collection of one's own
//!
//! A bit set whose words are shared out. The producer cuts between words; the length in bits is not
//! known before they are counted, so this is an [`UnindexedProducer`].
//!
//! ```
//! use filch::par::plumbing::{Consumer, Folder, UnindexedProducer, bridge_unindexed};
//! use filch::par::prelude::*;
//!
//! struct BitSet(Vec<u64>);
//!
//! /// The words from `first` on.
//! struct Words<'a> {
//!     first: usize,
//!     words: &'a [u64],
//! }
//!
//! impl UnindexedProducer for Words<'_> {
//!     type Item = usize;
//!
//!     fn split(self) -> (Self, Option<Self>) {
//!         if self.words.len() < 2 {
//!             return (self, None);
//!         }
//!         let (left, right) = self.words.split_at(self.words.len() / 2);
//!         let middle = self.first + left.len();
//!         (Words { first: self.first, words: left }, Some(Words { first: middle, words: right }))
//!     }
//!
//!     fn fold_with<F: Folder<usize>>(self, folder: F) -> F {
//!         let first = self.first;
//!         folder.consume_iter(self.words.iter().enumerate().flat_map(move |(at, word)| {
//!             (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| (first + at) * 64 + bit)
//!         }))
//!     }
//! }
//!
//! impl ParallelIterator for Words<'_> {
//!     type Item = usize;
//!
//!     fn drive<C: Consumer<usize>>(self, consumer: C) -> C::Result {
//!         bridge_unindexed(self, consumer)
//!     }
//! }
//!
//! impl<'a> IntoParallelIterator for &'a BitSet {
//!     type Item = usize;
//!     type Iter = Words<'a>;
//!
//!     fn into_par_iter(self) -> Words<'a> {
//!         Words { first: 0, words: &self.0 }
//!     }
//! }
//!
//! let set = BitSet(vec![0b1001, 0, 1 << 63]);
//! assert_eq!(set.par_iter().collect::<Vec<_>>(), [0, 3, 191]);
//! assert_eq!(set.par_iter().map(|bit| bit * 2).max(), Some(382));
//! ```
//!
//! A collection of known length gets more: it can be zipped, reversed, numbered and collected in
//! place. [`Producer`] shows one.
//!
//! Not here: how far to split (par/partition.rs), and joining itself (fork.rs).

use super::indexed::IndexedParallelIterator;
pub use super::partition::Plan;
use super::partition::{Rules, Split};
use crate::fork::{Side, announce, join_sides, on_worker, width};

/// Items of a known number that can be cut in two at any place.
///
/// A ring buffer: two slices, one after the other.
///
/// ```
/// use filch::par::plumbing::{Consumer, Producer, bridge};
/// use filch::par::prelude::*;
///
/// struct Ring<'a>(&'a [u32], &'a [u32]);
///
/// impl Producer for Ring<'_> {
///     type Item = u32;
///     type IntoIter = std::vec::IntoIter<u32>;
///
///     fn into_iter(self) -> Self::IntoIter {
///         [self.0, self.1].concat().into_iter()
///     }
///
///     fn split_at(self, index: usize) -> (Self, Self) {
///         if let Some(in_second) = index.checked_sub(self.0.len()) {
///             let (left, right) = self.1.split_at(in_second);
///             (Ring(self.0, left), Ring(right, &[]))
///         } else {
///             let (left, right) = self.0.split_at(index);
///             (Ring(left, &[]), Ring(right, self.1))
///         }
///     }
/// }
///
/// impl ParallelIterator for Ring<'_> {
///     type Item = u32;
///
///     fn drive<C: Consumer<u32>>(self, consumer: C) -> C::Result {
///         bridge(self, consumer)
///     }
///
///     fn opt_len(&self) -> Option<usize> {
///         Some(self.len())
///     }
/// }
///
/// impl IndexedParallelIterator for Ring<'_> {
///     type Producer<'p> = Ring<'p> where Self: 'p;
///
///     fn len(&self) -> usize {
///         self.0.len() + self.1.len()
///     }
///
///     fn producer(&mut self) -> Ring<'_> {
///         Ring(self.0, self.1)
///     }
/// }
///
/// let ring = Ring(&[1, 2, 3], &[4, 5]);
/// let numbered: Vec<_> = ring.rev().enumerate().collect();
/// assert_eq!(numbered, [(0, 5), (1, 4), (2, 3), (3, 2), (4, 1)]);
/// ```
pub trait Producer: Send + Sized {
    /// What is produced.
    type Item;

    /// The items of one piece, one after the other.
    type IntoIter: DoubleEndedIterator<Item = Self::Item> + ExactSizeIterator;

    /// Whether making an item does something that can be seen from outside, such as a call of a
    /// closure. [`skip`](IndexedParallelIterator::skip) then makes the items that it skips, as
    /// std's does, and drops them.
    ///
    /// `true` is always correct; with `false`, a skip costs nothing.
    const SEEN: bool = true;

    /// Stops splitting.
    fn into_iter(self) -> Self::IntoIter;

    /// Cuts into the first `index` items and the rest. `index` is at most the number of items.
    fn split_at(self, index: usize) -> (Self, Self);

    /// How the user wants the loop cut. A producer that wraps others hands on theirs.
    fn plan(&self) -> Plan {
        Plan::default()
    }

    /// Feeds all items to a folder.
    fn fold_with<F: Folder<Self::Item>>(self, folder: F) -> F {
        folder.consume_iter(self.into_iter())
    }
}

/// Items that can be cut in two somewhere, in numbers that nobody knows.
///
/// The [module](self) has an example.
pub trait UnindexedProducer: Send + Sized {
    /// What is produced.
    type Item;

    /// Cuts in two near the middle, unless there is too little.
    fn split(self) -> (Self, Option<Self>);

    /// Feeds all items to a folder, until it is full.
    fn fold_with<F: Folder<Self::Item>>(self, folder: F) -> F;
}

/// What becomes of the items, cut along with them.
///
/// Only the last two methods need thought in most consumers; one that depends on positions has its own
/// `split_at`.
///
/// ```
/// use filch::par::plumbing::{Consumer, Folder, Reducer};
/// use filch::par::prelude::*;
///
/// /// The longest run of equal items: of a whole, and at its two ends.
/// #[derive(Clone, Copy, Default)]
/// struct Runs { len: usize, first: (u8, usize), last: (u8, usize), best: usize }
///
/// impl Folder<u8> for Runs {
///     type Result = Runs;
///
///     fn consume(self, item: u8) -> Runs {
///         Longest.reduce(self, Runs { len: 1, first: (item, 1), last: (item, 1), best: 1 })
///     }
///
///     fn complete(self) -> Runs {
///         self
///     }
/// }
///
/// #[derive(Clone, Copy)]
/// struct Longest;
///
/// impl Reducer<Runs> for Longest {
///     fn reduce(self, a: Runs, b: Runs) -> Runs {
///         if a.len == 0 || b.len == 0 {
///             return if a.len == 0 { b } else { a };
///         }
///         let meet = if a.last.0 == b.first.0 { a.last.1 + b.first.1 } else { 0 };
///         Runs {
///             len: a.len + b.len,
///             first: if meet > 0 && a.first.1 == a.len { (a.first.0, meet) } else { a.first },
///             last: if meet > 0 && b.last.1 == b.len { (b.last.0, meet) } else { b.last },
///             best: a.best.max(b.best).max(meet),
///         }
///     }
/// }
///
/// impl Consumer<u8> for Longest {
///     type Folder = Runs;
///     type Reducer = Longest;
///     type Result = Runs;
///
///     fn split_off(&self) -> Self {
///         Longest
///     }
///
///     fn to_reducer(&self) -> Longest {
///         Longest
///     }
///
///     fn into_folder(self) -> Runs {
///         Runs::default()
///     }
/// }
///
/// let letters = *b"abbcccccdaaaab";
/// assert_eq!(letters.into_par_iter().drive(Longest).best, 5);
/// ```
pub trait Consumer<Item>: Send + Sized {
    /// What eats the items of one piece.
    type Folder: Folder<Item, Result = Self::Result>;
    /// What puts two results together.
    type Reducer: Reducer<Self::Result>;
    /// What is left of the items.
    type Result: Send;

    /// A consumer for items left of those that this one will get from now on.
    fn split_off(&self) -> Self;

    /// What puts the results of this consumer and of one split off together.
    fn to_reducer(&self) -> Self::Reducer;

    /// Stops splitting.
    fn into_folder(self) -> Self::Folder;

    /// Cuts into a consumer for the first `index` items and one for the rest.
    fn split_at(self, index: usize) -> (Self, Self, Self::Reducer) {
        let _ = index;
        let (left, reducer) = (self.split_off(), self.to_reducer());
        (left, self, reducer)
    }

    /// Whether further items would make no difference.
    fn full(&self) -> bool {
        false
    }
}

/// Eats items one after the other.
///
/// ```
/// use filch::par::plumbing::Folder;
///
/// struct Count(usize);
/// impl Folder<char> for Count {
///     type Result = usize;
///     fn consume(self, _: char) -> Count { Count(self.0 + 1) }
///     fn complete(self) -> usize { self.0 }
/// }
/// assert_eq!(Count(0).consume_iter("abc".chars()).complete(), 3);
/// ```
pub trait Folder<Item>: Sized {
    /// What is left of the items.
    type Result;

    /// Whether another piece can make this folder full, as a find in one piece ends all others.
    ///
    /// `true` is always correct. It makes a stage that drops items, such as
    /// [`filter`](super::ParallelIterator::filter), ask [`full`](Self::full) after each item, even if
    /// the item never gets here. With `false`, this folder gets whole runs of items, which is faster.
    const FILLED_BY_OTHERS: bool = true;

    /// Eats one item.
    fn consume(self, item: Item) -> Self;

    /// Eats items until there are none left, or this is full.
    ///
    /// A folder that is never full does better with a loop of its own over the whole iterator, which
    /// the compiler can unroll.
    fn consume_iter<I: IntoIterator<Item = Item>>(mut self, items: I) -> Self {
        for item in items {
            self = self.consume(item);
            if self.full() {
                break;
            }
        }
        self
    }

    /// Ends the meal.
    fn complete(self) -> Self::Result;

    /// Whether further items would make no difference.
    fn full(&self) -> bool {
        false
    }
}

/// Puts the results of two neighbours together, `left` being of the items before.
///
/// ```
/// use filch::par::plumbing::Reducer;
///
/// struct Concat;
/// impl Reducer<String> for Concat {
///     fn reduce(self, left: String, right: String) -> String { left + &right }
/// }
/// assert_eq!(Concat.reduce("ab".into(), "c".into()), "abc");
/// ```
pub trait Reducer<Result> {
    /// Makes one of two.
    fn reduce(self, left: Result, right: Result) -> Result;
}

/// Runs an iterator of known length into a consumer: what `drive` does for most of them.
///
/// [`Producer`] has an example.
pub fn bridge<I, C>(mut iter: I, consumer: C) -> C::Result
where
    I: IndexedParallelIterator,
    C: Consumer<I::Item>,
{
    let len = iter.len();
    bridge_producer_consumer(len, iter.producer(), consumer)
}

/// Runs a producer of `len` items into a consumer.
///
/// ```
/// use filch::par::plumbing::{Consumer, Producer, bridge_producer_consumer};
/// use filch::par::prelude::*;
///
/// /// Counts down, in parallel.
/// struct Countdown(u32);
///
/// impl ParallelIterator for Countdown {
///     type Item = u32;
///     fn drive<C: Consumer<u32>>(self, consumer: C) -> C::Result {
///         let mut up = (0..self.0).into_par_iter().rev();
///         bridge_producer_consumer(up.len(), up.producer(), consumer)
///     }
/// }
/// assert_eq!(Countdown(3).collect::<Vec<_>>(), [2, 1, 0]);
/// ```
pub fn bridge_producer_consumer<P, C>(len: usize, producer: P, consumer: C) -> C::Result
where
    P: Producer,
    C: Consumer<P::Item>,
{
    match Rules::new(producer.plan(), len) {
        Some((rules, begin)) => start(begin.pieces, || {
            let split = begin.whole(&rules);
            run(Piece { len, split, side: Side::Here }, producer, consumer)
        }),
        None => producer.fold_with(consumer.into_folder()).complete(),
    }
}

/// Starts a loop of so many pieces.
pub(super) fn start<R: Send>(pieces: usize, f: impl FnOnce() -> R + Send) -> R {
    let (mut f, mut result) = (Some(f), None);
    start_erased(pieces, &mut || result = f.take().map(|f| f()));
    result.expect("a loop that ended has a result")
}

/// Compiled once for all loops of a program, not once for each.
#[inline(never)]
fn start_erased(pieces: usize, f: &mut (dyn FnMut() + Send)) {
    on_worker(|| {
        let _announced = announce(pieces);
        f();
    });
}

/// What is known of a piece besides its items.
struct Piece<'l> {
    len: usize,
    split: Split<'l>,
    side: Side,
}

fn run<P, C>(piece: Piece<'_>, producer: P, consumer: C) -> C::Result
where
    P: Producer,
    C: Consumer<P::Item>,
{
    let Piece { len, split, side } = piece;
    if consumer.full() {
        return consumer.into_folder().complete();
    }
    let Some((at, left, right)) = split.divide(len, side) else {
        return producer.fold_with(consumer.into_folder()).complete();
    };
    debug_assert!(0 < at && at < len);
    let (left_producer, right_producer) = producer.split_at(at);
    let (left_consumer, right_consumer, reducer) = consumer.split_at(at);
    let (a, b) = join_sides(
        move |side| run(Piece { len: at, split: left, side }, left_producer, left_consumer),
        move |side| {
            run(Piece { len: len - at, split: right, side }, right_producer, right_consumer)
        },
    );
    reducer.reduce(a, b)
}

/// Runs a producer of unknown length into a consumer.
///
/// The [module](self) has an example.
pub fn bridge_unindexed<P, C>(producer: P, consumer: C) -> C::Result
where
    P: UnindexedProducer,
    C: Consumer<P::Item>,
{
    let width = width();
    if width < 2 {
        return producer.fold_with(consumer.into_folder()).complete();
    }
    match producer.split() {
        (producer, None) => producer.fold_with(consumer.into_folder()).complete(),
        (left, Some(right)) => {
            let (rules, begin) = Rules::unindexed(width);
            start(width, || run_both(begin.whole(&rules), (left, right), consumer))
        }
    }
}

fn run_unindexed<P, C>(split: Split<'_>, side: Side, producer: P, consumer: C) -> C::Result
where
    P: UnindexedProducer,
    C: Consumer<P::Item>,
{
    if consumer.full() {
        return consumer.into_folder().complete();
    }
    let Some(split) = split.again(side) else {
        return producer.fold_with(consumer.into_folder()).complete();
    };
    match producer.split() {
        (producer, None) => producer.fold_with(consumer.into_folder()).complete(),
        (left, Some(right)) => run_both(split, (left, right), consumer),
    }
}

fn run_both<P, C>(split: Split<'_>, producers: (P, P), consumer: C) -> C::Result
where
    P: UnindexedProducer,
    C: Consumer<P::Item>,
{
    let (left, right) = producers;
    let (reducer, left_consumer) = (consumer.to_reducer(), consumer.split_off());
    let (a, b) = join_sides(
        move |side| run_unindexed(split, side, left, left_consumer),
        move |side| run_unindexed(split, side, right, consumer),
    );
    reducer.reduce(a, b)
}
