//! Stages that change the data of a token where they lie: they all have one type, so that how many there
//! are, and which, may be decided while the program runs.
//!
//! G1 of `stage` holds here too: a serial closure is its runner's alone.

use std::borrow::Cow;
use std::cell::UnsafeCell;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use super::error::{BoxError, Cause};
use super::flow::Order;
use super::ring::Ring;
use super::stage::{Begun, End, Step, Tidy, Turn, Work};

type SerialBody<'env, T> = Box<dyn FnMut(&mut T) -> Result<(), BoxError> + Send + 'env>;
type ParallelBody<'env, T> = Box<dyn Fn(&mut T) -> Result<(), BoxError> + Send + Sync + 'env>;

enum Change<'env, T> {
    Serial(UnsafeCell<SerialBody<'env, T>>),
    Parallel(ParallelBody<'env, T>),
}

// SAFETY: G1 of `stage`, a serial closure is used by one runner at a time; a parallel one can be shared.
unsafe impl<T> Sync for Change<'_, T> {}

/// A stage that changes a token's data in place; see [`Scalable`](super::Scalable).
///
/// ```
/// use filch::pipeline::{Pipeline, Stage};
/// let steps = ["double", "increment"].map(|step| match step {
///     "double" => Stage::parallel(|x: &mut u32| *x *= 2),
///     _ => Stage::serial(|x: &mut u32| *x += 1),
/// });
/// let mut pipeline = Pipeline::new(4).items(0..4).stages(steps).collect();
/// assert_eq!(pipeline.run().unwrap(), [1, 3, 5, 7]);
/// ```
pub struct Stage<'env, T> {
    name: Option<Cow<'static, str>>,
    change: Arc<Change<'env, T>>,
}

impl<T> fmt::Debug for Stage<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("name", &self.name).field("order", &self.order()).finish()
    }
}

impl<'env, T: 'env> Stage<'env, T> {
    fn new(change: Change<'env, T>) -> Self {
        Self { name: None, change: Arc::new(change) }
    }

    /// A stage through which tokens go one at a time and in order.
    ///
    /// ```
    /// use filch::pipeline::{Order, Stage};
    /// let mut sum = 0;
    /// assert_eq!(Stage::serial(|x: &mut u32| sum += *x).order(), Order::Serial);
    /// ```
    pub fn serial(mut change: impl FnMut(&mut T) + Send + 'env) -> Self {
        Self::try_serial(move |data| {
            change(data);
            Ok::<_, Infallible>(())
        })
    }

    /// As [`Stage::serial`]; an error ends the run.
    ///
    /// ```
    /// use filch::pipeline::{Pipeline, Stage};
    /// let check = Stage::try_serial(|x: &mut u32| x.checked_sub(1).map(|_| ()).ok_or("zero"));
    /// let mut pipeline = Pipeline::new(1).items([2, 1, 0]).stages([check]).for_each(drop);
    /// assert_eq!(pipeline.run().unwrap_err().place().unwrap().token, 2);
    /// ```
    pub fn try_serial<E: Into<BoxError>>(
        mut change: impl FnMut(&mut T) -> Result<(), E> + Send + 'env,
    ) -> Self {
        let change = move |data: &mut T| change(data).map_err(Into::into);
        Self::new(Change::Serial(UnsafeCell::new(Box::new(change))))
    }

    /// A stage in which tokens may be side by side, in any order.
    ///
    /// ```
    /// use filch::pipeline::{Order, Stage};
    /// assert_eq!(Stage::parallel(|x: &mut u32| *x += 1).order(), Order::Parallel);
    /// ```
    pub fn parallel(change: impl Fn(&mut T) + Send + Sync + 'env) -> Self {
        Self::try_parallel(move |data| {
            change(data);
            Ok::<_, Infallible>(())
        })
    }

    /// As [`Stage::parallel`]; an error ends the run.
    ///
    /// ```
    /// use filch::pipeline::{Pipeline, Stage};
    /// let check = Stage::try_parallel(|x: &mut i32| u32::try_from(*x).map(drop)).name("sign");
    /// let mut pipeline = Pipeline::new(1).items([1, -1]).stages([check]).for_each(drop);
    /// assert_eq!(pipeline.run().unwrap_err().place().unwrap().name(), Some("sign"));
    /// ```
    pub fn try_parallel<E: Into<BoxError>>(
        change: impl Fn(&mut T) -> Result<(), E> + Send + Sync + 'env,
    ) -> Self {
        let change = move |data: &mut T| change(data).map_err(Into::into);
        Self::new(Change::Parallel(Box::new(change)))
    }

    /// Gives the stage a name, which errors tell.
    ///
    /// ```
    /// use filch::pipeline::Stage;
    /// let stage = Stage::serial(|_: &mut u32| ()).name("parse");
    /// assert!(format!("{stage:?}").contains("parse"));
    /// ```
    #[must_use]
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = Some(name.into());
        self
    }
}

impl<T> Stage<'_, T> {
    /// Whether tokens pass it in order or side by side.
    ///
    /// ```
    /// use filch::pipeline::{Order, Stage};
    /// assert_eq!(Stage::serial(|_: &mut ()| ()).order(), Order::Serial);
    /// ```
    pub fn order(&self) -> Order {
        match *self.change {
            Change::Serial(_) => Order::Serial,
            Change::Parallel(_) => Order::Parallel,
        }
    }
}

impl<'env, T: Send + 'env> Stage<'env, T> {
    /// The stage over the data in `ring`.
    pub(super) fn step(&self, ring: &Arc<Ring<T>>, after: After) -> Step<'env> {
        let work = InPlace { change: Some(self.change.clone()), ring: ring.clone(), after };
        Step { name: self.name.clone(), ..Step::inline(self.order(), work) }
    }
}

/// A stage that drops the data in `ring`.
pub(super) fn end_of<'env, T: Send + 'env>(ring: &Arc<Ring<T>>) -> Step<'env> {
    let work = InPlace::<T> { change: None, ring: ring.clone(), after: After::Drop };
    Step::inline(Order::Parallel, work)
}

/// What becomes of the data when the stage is done with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    Keep,
    /// It is the last stage.
    Drop,
}

struct InPlace<'env, T> {
    change: Option<Arc<Change<'env, T>>>,
    ring: Arc<Ring<T>>,
    after: After,
}

impl<T: Send> Work for InPlace<'_, T> {
    unsafe fn run(&self, turn: &Turn<'_>, from: u64, until: u64) -> Result<End, Cause> {
        for position in from..until {
            if turn.begin(position) == Begun::No {
                return Ok(End::Halt);
            }
            let change = |data: &mut T| match self.change.as_deref() {
                None => Ok(()),
                Some(Change::Parallel(change)) => change(data),
                Some(Change::Serial(change)) => {
                    // SAFETY: G1 of `stage`, the segment is this runner's.
                    let change = unsafe { &mut *change.get() };
                    change(data)
                }
            };
            // SAFETY: G1 of `stage`.
            unsafe { self.ring.with(position, change) }.map_err(Cause::Error)?;
            if self.after == After::Drop {
                // SAFETY: G1 of `stage`.
                drop(unsafe { self.ring.take(position) });
            }
            turn.end(position);
        }
        Ok(End::All)
    }

    fn tidy(&mut self, tidy: Tidy) {
        if tidy == Tidy::Clear {
            // SAFETY: between runs nobody has claimed anything.
            unsafe { self.ring.clear() };
        }
    }
}
