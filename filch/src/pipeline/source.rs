//! The first stage: where tokens come from, and how one waits for another.
//!
//! K1. A token has passed the source once its number has been given out and it is not put off. Numbers are
//!     given out in order, each once until a reset.
//! K2. A token that is put off waits for as many tokens as it named that have not passed; when the last of
//!     them passes it is ready, and ready tokens come before new ones, in the order in which they became so.
//! K3. A token that is put off is not in flight: it holds no position and no line.
//! K4. After a stop no new token is asked for, but those that were put off are, until none is ready. One that stops when it is asked
//!     again has no item, and nobody waits for it any more.

use std::collections::{BTreeMap, VecDeque};

/// What the source says about a token.
///
/// ```
/// use filch::pipeline::Next;
/// assert_eq!(Next::from(Some(1)), Next::Item(1));
/// assert_eq!(Next::from(None::<u32>), Next::Stop);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next<T> {
    /// The token begins, with this.
    Item(T),
    /// The token waits for those that it named by [`Token::defer`]; the source is asked again for it.
    Deferred,
    /// The stream has ended: there are no new tokens. Those in flight go on, and those that were deferred are still asked for as soon
    /// as nothing holds them up. A deferred token that is asked for again may stop the stream too; it has no item, and whoever
    /// waits for it goes on.
    ///
    /// ```
    /// use filch::pipeline::{Next, Pipeline};
    /// let mut order = Vec::new();
    /// Pipeline::new(4)
    ///     .source(|token| match (token.number(), token.deferrals()) {
    ///         // Both wait for token 2; then 0 stops the stream, and 1 is not lost.
    ///         (0 | 1, 0) => {
    ///             token.defer(2);
    ///             Next::Deferred
    ///         }
    ///         (0, _) => Next::Stop,
    ///         (number, _) => Next::Item(number),
    ///     })
    ///     .for_each(|number| order.push(number))
    ///     .run()
    ///     .unwrap();
    /// assert_eq!(order, [2, 1]);
    /// ```
    Stop,
}

impl<T> From<Option<T>> for Next<T> {
    fn from(item: Option<T>) -> Self {
        item.map_or(Next::Stop, Next::Item)
    }
}

/// A token that the source is asked for.
///
/// ```
/// use filch::pipeline::{Next, Pipeline};
/// // Token 1 waits for a later one.
/// let mut order = Vec::new();
/// Pipeline::new(4)
///     .source(|token| match token.number() {
///         4 => Next::Stop,
///         1 if token.deferrals() == 0 => {
///             token.defer(3);
///             Next::Deferred
///         }
///         number => Next::Item(number),
///     })
///     .for_each(|number| order.push(number))
///     .run()
///     .unwrap();
/// assert_eq!(order, [0, 2, 3, 1]);
/// ```
#[derive(Debug)]
pub struct Token {
    number: u64,
    deferrals: u32,
    waits_for: Vec<u64>,
}

impl Token {
    /// Its number: 0, 1, 2 … since the pipeline was made or reset.
    ///
    /// ```
    /// use filch::pipeline::{Next, Pipeline};
    /// let mut pipeline = Pipeline::new(2)
    ///     .source(|token| if token.number() < 5 { Next::Item(()) } else { Next::Stop })
    ///     .build();
    /// assert_eq!(pipeline.run().unwrap(), 5);
    /// ```
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How often it has been put off.
    ///
    /// ```
    /// use filch::pipeline::{Next, Pipeline};
    /// let mut pipeline = Pipeline::new(2)
    ///     .source(|token| match (token.number(), token.deferrals()) {
    ///         (0, 0) => {
    ///             token.defer(1);
    ///             Next::Deferred
    ///         }
    ///         (0 | 1, times) => Next::Item(times),
    ///         _ => Next::Stop,
    ///     })
    ///     .collect();
    /// assert_eq!(pipeline.run().unwrap(), [0, 1]);
    /// ```
    pub fn deferrals(&self) -> u32 {
        self.deferrals
    }

    /// Lets it wait until `other`, earlier or later, has passed the source; may be called for several.
    /// The source returns [`Next::Deferred`] then.
    ///
    /// # Panics
    /// If it is to wait for itself.
    ///
    /// ```
    /// use filch::pipeline::{Next, Pipeline, PipelineError};
    /// let mut pipeline = Pipeline::new(2)
    ///     .source(|token| match token.number() {
    ///         3 => Next::Stop,
    ///         0 => {
    ///             token.defer(100);
    ///             Next::Deferred
    ///         }
    ///         number => Next::Item(number),
    ///     })
    ///     .for_each(drop);
    /// let Err(PipelineError::Stuck { tokens }) = pipeline.run() else { panic!() };
    /// assert_eq!(tokens, [0]);
    /// ```
    #[track_caller]
    pub fn defer(&mut self, other: u64) {
        assert_ne!(other, self.number, "a token that waits for itself would wait for ever");
        self.waits_for.push(other);
    }
}

/// Which token comes next (K1, K2).
pub(super) struct Tokens {
    /// The first number that was not given out.
    fresh: u64,
    /// Reused, so that a token costs no allocation.
    token: Token,
    /// Tokens that are put off and not ready.
    waiting: BTreeMap<u64, Waiting>,
    /// Who waits for a token that has not passed.
    waiters: BTreeMap<u64, Vec<u64>>,
    /// Tokens that were put off and are ready, and how often they were.
    ready: VecDeque<(u64, u32)>,
    /// K4.
    stream: Stream,
}

/// Whether there are new tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    GoesOn,
    Ended,
}

/// A token that is put off.
struct Waiting {
    deferrals: u32,
    /// How many of those that it waits for have not passed.
    missing: usize,
}

impl Tokens {
    pub(super) fn new() -> Self {
        Self {
            fresh: 0,
            token: Token { number: 0, deferrals: 0, waits_for: Vec::new() },
            waiting: BTreeMap::new(),
            waiters: BTreeMap::new(),
            ready: VecDeque::new(),
            stream: Stream::GoesOn,
        }
    }

    /// Begins again with number 0.
    pub(super) fn reset(&mut self) {
        *self = Self::new();
    }

    /// Forgets who waits; the numbers go on.
    pub(super) fn forget(&mut self) {
        let fresh = self.fresh;
        *self = Self { fresh, ..Self::new() };
    }

    /// The token to ask the source for: the next that is ready, or a new one, if there is any (K4).
    #[inline]
    pub(super) fn next(&mut self) -> Option<&mut Token> {
        self.token.waits_for.clear();
        (self.token.number, self.token.deferrals) = match (self.ready.front(), self.stream) {
            (Some(&ready), _) => ready,
            (None, Stream::GoesOn) => (self.fresh, 0),
            (None, Stream::Ended) => return None,
        };
        Some(&mut self.token)
    }

    /// The token of the last `next` is used.
    #[inline]
    fn give_out(&mut self) {
        if self.ready.pop_front().is_none() {
            self.fresh += 1;
        }
    }

    /// The token of the last `next` passes.
    #[inline]
    pub(super) fn pass(&mut self) {
        assert!(self.token.waits_for.is_empty(), "a token that waits for others has no item yet");
        self.give_out();
        if !self.waiters.is_empty() {
            self.tell(self.token.number);
        }
    }

    /// The token of the last `next` has no item, and none comes after it (K4).
    #[cold]
    pub(super) fn stop(&mut self) {
        self.stream = Stream::Ended;
        // A new one was not given out: whoever waits for it waits for ever.
        if let Some((number, _)) = self.ready.pop_front() {
            self.tell(number);
        }
    }

    /// Tells those that wait for `number` (K2).
    #[cold]
    fn tell(&mut self, number: u64) {
        for waiter in self.waiters.remove(&number).into_iter().flatten() {
            let waiting = self.waiting.get_mut(&waiter).expect("who waits is put off");
            waiting.missing -= 1;
            if waiting.missing == 0 {
                let deferrals = waiting.deferrals;
                self.waiting.remove(&waiter);
                self.ready.push_back((waiter, deferrals));
            }
        }
    }

    /// The token of the last `next` is put off.
    #[cold]
    pub(super) fn put_off(&mut self) {
        self.give_out();
        let (number, deferrals) = (self.token.number, self.token.deferrals + 1);
        let mut missing = 0;
        for other in std::mem::take(&mut self.token.waits_for) {
            if !self.has_passed(other) {
                missing += 1;
                self.waiters.entry(other).or_default().push(number);
            }
        }
        if missing == 0 {
            self.ready.push_back((number, deferrals));
        } else {
            self.waiting.insert(number, Waiting { deferrals, missing });
        }
    }

    /// K1.
    fn has_passed(&self, number: u64) -> bool {
        let put_off = self.waiting.contains_key(&number)
            || self.ready.iter().any(|&(ready, _)| ready == number);
        number < self.fresh && !put_off
    }

    /// No token is left to ask for: the next run begins with new ones, unless some will wait for ever.
    ///
    /// # Errors
    /// With those that wait.
    pub(super) fn end(&mut self) -> Result<(), Vec<u64>> {
        debug_assert!(self.ready.is_empty() && self.stream == Stream::Ended, "K4");
        self.stream = Stream::GoesOn;
        if self.waiting.is_empty() { Ok(()) } else { Err(self.waiting.keys().copied().collect()) }
    }
}
