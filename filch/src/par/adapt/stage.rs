//! One consumer and one folder for every adaptor that changes items on their way.
//!
//! A [`Stage`] stands before another consumer. It sees whole runs of items as std iterators and
//! passes on what it makes of them, so the loop of a piece is one std iterator chain however many
//! stages there are, and the compiler sees all of it.
//!
//! A1. A stage that `KEEPS_COUNT` passes on exactly one item for each it is given, in order: only then
//!     does the consumer behind it hear of positions (P2).
//! A2. An early exit in another piece ends the loop of this one, although its items get no further than
//!     some stage. A stage that hands every item on leaves that to the folder behind it. One that `DROPS`
//!     items is given them one by one, if the folder behind it can be filled by others, and
//!     [`Through`] asks after each. `fold`, which keeps items back, asks by itself.

use std::iter;

use crate::par::plumbing::{Consumer, Folder};

/// An adaptor in front of a consumer.
pub(super) trait Stage<T>: Send + Sized {
    type Run: Pass<T>;
    const KEEPS_COUNT: bool;

    /// The stage of a piece that is cut off.
    fn fork(&self) -> Self;

    /// What it becomes on the thread that runs the piece.
    fn start(self) -> Self::Run;

    /// Whether this stage lets nothing through any more.
    fn full(&self) -> bool {
        false
    }
}

/// An adaptor in front of a folder.
pub(super) trait Pass<T>: Sized {
    type Out;

    /// Whether an item may get no further than this stage, which does not ask if the folder behind
    /// it is full (A2).
    const DROPS: bool = false;

    /// Whether another piece can make this stage full.
    const FILLED_BY_OTHERS: bool = false;

    /// Passes on what becomes of the items.
    fn pass<F: Folder<Self::Out>>(&mut self, items: impl Iterator<Item = T>, next: F) -> F;

    /// Passes on what was kept back.
    fn finish<F: Folder<Self::Out>>(self, next: F) -> F {
        next
    }

    /// Whether this stage lets nothing through any more.
    fn full(&self) -> bool {
        false
    }
}

/// What a stage makes of items.
pub(super) type Out<S, T> = <<S as Stage<T>>::Run as Pass<T>>::Out;

/// A consumer behind a stage, and a folder behind the stage of its piece.
pub(super) struct Through<C, S> {
    pub(super) next: C,
    pub(super) stage: S,
}

impl<T, C, S> Consumer<T> for Through<C, S>
where
    S: Stage<T>,
    C: Consumer<Out<S, T>>,
{
    type Folder = Through<C::Folder, S::Run>;
    type Reducer = C::Reducer;
    type Result = C::Result;

    fn split_off(&self) -> Self {
        Self { next: self.next.split_off(), stage: self.stage.fork() }
    }

    fn to_reducer(&self) -> C::Reducer {
        self.next.to_reducer()
    }

    fn into_folder(self) -> Self::Folder {
        Through { next: self.next.into_folder(), stage: self.stage.start() }
    }

    fn split_at(self, index: usize) -> (Self, Self, C::Reducer) {
        let stage = self.stage.fork();
        let (left, right, reducer) = if S::KEEPS_COUNT {
            self.next.split_at(index)
        } else {
            let (left, reducer) = (self.next.split_off(), self.next.to_reducer());
            (left, self.next, reducer)
        };
        (Self { next: left, stage }, Self { next: right, stage: self.stage }, reducer)
    }

    fn full(&self) -> bool {
        self.stage.full() || self.next.full()
    }
}

impl<T, F, S> Folder<T> for Through<F, S>
where
    S: Pass<T>,
    F: Folder<S::Out>,
{
    type Result = F::Result;
    const FILLED_BY_OTHERS: bool = S::FILLED_BY_OTHERS || F::FILLED_BY_OTHERS;

    fn consume(mut self, item: T) -> Self {
        self.next = self.stage.pass(iter::once(item), self.next);
        self
    }

    fn consume_iter<I: IntoIterator<Item = T>>(mut self, items: I) -> Self {
        if !(S::DROPS && F::FILLED_BY_OTHERS) {
            self.next = self.stage.pass(items.into_iter(), self.next);
            return self;
        }
        // A2.
        for item in items {
            self = self.consume(item);
            if self.full() {
                break;
            }
        }
        self
    }

    fn complete(self) -> F::Result {
        self.stage.finish(self.next).complete()
    }

    fn full(&self) -> bool {
        self.stage.full() || self.next.full()
    }
}
