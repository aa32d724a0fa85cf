//! Async nodes: a body that makes a future, which holds no thread while it waits.
//!
//! A1. The future is polled once where the node runs. Only if it has to wait does it become a task of the micro lane, and the
//!     node goes on there with its token (`Held` in `work`); in a runtime that has no worker for it, the node fails.
//! A2. The future is dropped before the node ends, and what it reads is given back after that; so what it borrows is there: a run is
//!     not over before.
//! A3. A panic of the future, of its drop or of a value's is a failure of the node, as that of a closure is.
//! A4. A future lies in the seat that its node has in the run (O4 of `output`), so it is allocated with the slot and not for each run. A node that runs
//!     twice at once in a loop, or finds no room there, has a box instead.
//! A5. A future that waits is known to the slot: stopping the run wakes it, and it is dropped instead of polled.
//!
//! Not here: the closures that make futures (`async_params`).

use std::borrow::Cow;
use std::error::Error;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use super::async_params::AsyncNodeFn;
use super::body::{Body, Step};
use super::build::Graph;
use super::error::Cause;
use super::params::{Fallible, Finish, Kind, Params, Plain};
use super::slot::{Listed, Slot};
use super::work::{Hand, Held};
use crate::sched::shared::Shared;
use crate::spawn::{self, Order};
use crate::task::body::FutureBody;
use crate::task::group::guard_user_code;

/// The output is that of a future, and a `K` of its own.
pub struct Awaited<K>(PhantomData<K>);

impl<'env, F, M, K> Kind<'env, F, M> for Awaited<K>
where
    F: AsyncNodeFn<'env, M>,
    K: Finish<F::Output, Value: 'env>,
{
    type Params = F::Params;
    type Value = K::Value;

    fn body<const N: usize>(graph: &mut Graph<'env>, f: F, inputs: [u32; N]) -> Body<'env> {
        let seat = graph.parts.cells.add_seat::<F::Future>();
        graph.body(move |hand: &Hand<'_>| {
            // SAFETY: `Draft::after` has made the cells and edges of the parameters; A2.
            let (future, reads) = match unsafe { f.begin(hand, &inputs) } {
                Ok(begun) => begun,
                Err(missing) => return hand.fail(missing.into()),
            };
            // SAFETY: the seat was made for this node.
            let mut future = unsafe { Seated::new(hand.slot, seat, future) };
            let Poll::Ready(output) = future.poll(&mut Context::from_waker(Waker::noop())) else {
                return go_on::<_, _, K>(hand, future, reads);
            };
            drop((future, reads));
            match K::value(output) {
                // SAFETY: the node has a cell for such a value.
                Ok(value) => unsafe { hand.store(value) },
                Err(cause) => hand.fail(cause),
            }
        })
    }
}

/// A future of a run (A4).
struct Seated<F> {
    future: NonNull<F>,
    place: Place,
}

enum Place {
    /// At this offset of the slot's outputs.
    Slot(NonNull<Slot>, u32),
    Heap,
}

// SAFETY: it owns the future; the slot is `Sync`.
unsafe impl<F: Send> Send for Seated<F> {}

impl<F: Future> Seated<F> {
    /// # Safety
    /// `seat` is that of the node, for an `F`, and the run outlives the result.
    #[inline(always)]
    unsafe fn new(slot: &Slot, seat: Option<u32>, future: F) -> Self {
        if let Some(offset) = seat
            // SAFETY: by the caller's promise; a node of a run without loops runs once.
            && let Some(place) = unsafe { slot.outputs.take_seat::<F>(offset, slot.access) }
        {
            // SAFETY: O4 of `output`, the seat is ours and empty.
            unsafe { place.write(future) };
            return Self { future: place, place: Place::Slot(NonNull::from(slot), offset) };
        }
        let future = NonNull::from(Box::leak(Box::new(future)));
        Self { future, place: Place::Heap }
    }

    #[inline(always)]
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: ours, and it stays where it is until it is dropped.
        let future = unsafe { self.future.as_mut() };
        // SAFETY: as above.
        unsafe { Pin::new_unchecked(future) }.poll(cx)
    }
}

impl<F> Drop for Seated<F> {
    #[inline(always)]
    fn drop(&mut self) {
        let Place::Slot(slot, offset) = self.place else {
            // SAFETY: made from a box by `new`.
            drop(unsafe { Box::from_raw(self.future.as_ptr()) });
            return;
        };
        let leaves = Leaves(slot, offset);
        // SAFETY: ours, and dropped once.
        unsafe { self.future.drop_in_place() };
        drop(leaves);
    }
}

/// Gives a seat back, also if the drop of its future panics.
struct Leaves(NonNull<Slot>, u32);

impl Drop for Leaves {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: by the promise of `Seated::new`.
        let slot = unsafe { self.0.as_ref() };
        // SAFETY: the seat is that of a `Seated` whose future is gone.
        unsafe { slot.outputs.leave_seat(self.1, slot.access) };
    }
}

/// A future that goes on as a task (A2: fields are dropped in this order).
struct Going<F, R, K> {
    future: Option<Seated<F>>,
    reads: Option<R>,
    /// A5.
    listed: Option<Listed>,
    held: Option<Held>,
    kind: PhantomData<fn() -> K>,
}

impl<F, R, K> Unpin for Going<F, R, K> {}

impl<F: Future, R, K: Finish<F::Output>> Future for Going<F, R, K> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let (Some(future), Some(held)) = (&mut this.future, &this.held) else {
            return Poll::Ready(());
        };
        if this.listed.is_none() {
            this.listed = Some(held.list(cx.waker()));
        }
        if held.is_stopped() {
            this.end(Err(Cause::Error("the run was stopped".into())));
            return Poll::Ready(());
        }
        let outcome = match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(payload) => Err(Cause::Panic(payload)),
        };
        this.end(outcome);
        Poll::Ready(())
    }
}

impl<F: Future, R, K: Finish<F::Output>> Going<F, R, K> {
    /// The node ends (A2, A3).
    fn end(&mut self, outcome: Result<F::Output, Cause>) {
        let dropped = catch_unwind(AssertUnwindSafe(|| self.future = None));
        self.reads = None;
        self.listed = None;
        let Some(held) = self.held.take() else { return };
        let outcome = match (outcome, dropped) {
            (Ok(output), Ok(())) => keep::<_, K>(&held, output),
            (Ok(output), Err(payload)) => {
                guard_user_code(|| drop(output));
                Err(Cause::Panic(payload))
            }
            (Err(cause), dropped) => {
                guard_user_code(|| drop(dropped));
                Err(cause)
            }
        };
        held.end(outcome);
    }
}

/// Stores what a future came to. The value that it replaces may panic in its drop.
fn keep<O, K: Finish<O>>(held: &Held, output: O) -> Result<(), Cause> {
    let busy = || Cause::Error("the node ran again while its output was in use".into());
    let store = || {
        let value = K::value(output)?;
        // SAFETY: the node has a cell for such a value.
        unsafe { held.store(value) }.map_err(|_| busy())
    };
    catch_unwind(AssertUnwindSafe(store)).unwrap_or_else(|payload| Err(Cause::Panic(payload)))
}

/// Makes a task of a future that has to wait.
#[cold]
fn go_on<F, R, K>(hand: &Hand<'_>, future: Seated<F>, reads: R) -> Step
where
    F: Future + Send,
    R: Send,
    K: Finish<F::Output>,
{
    // SAFETY: S4 of `slot`, the run's group outlives it.
    let group = unsafe { &*hand.slot.group.get() };
    // SAFETY: an unfinished group keeps its runtime.
    let shared = unsafe { Shared::to_arc(group.home().shared.cast()) };
    if !spawn::runs::<FutureBody<Going<F, R, K>>>(&shared) {
        // A2.
        drop((future, reads));
        return hand.fail(Cause::Error("no worker of the runtime polls futures that wait".into()));
    }
    group.enter();
    let going = Going::<F, R, K> {
        future: Some(future),
        reads: Some(reads),
        listed: None,
        held: Some(hand.hold()),
        kind: PhantomData,
    };
    let order = Order::plain(Location::caller());
    drop(spawn::create(&shared, group, FutureBody(going), order));
    Step::Held
}

impl<'env> Graph<'env> {
    /// Adds a node whose work is the future that `f` makes. While it waits it holds no thread; its successors come after its end.
    ///
    /// As with [`Graph::node`], `f` may take what other nodes returned, by shared reference or as an [`Own`](crate::graph::Own). A run that is
    /// stopped drops the futures that wait. In a runtime without I/O workers (a [hive](crate::Builder::hive) that was given none) the node fails
    /// if its future has to wait.
    ///
    /// ```
    /// use filch::graph::Own;
    /// use std::time::Duration;
    /// let mut g = filch::Graph::new();
    /// let wait = g.async_node("wait", || async {
    ///     filch::time::sleep(Duration::from_micros(50)).await;
    ///     7
    /// });
    /// let word = g.node("word", || String::from("x"));
    /// let both = g.async_node("both", async |n: &usize, Own(word): Own<String>| {
    ///     filch::yield_now().await;
    ///     word.repeat(*n)
    /// });
    /// let both = both.after((&wait, word));
    /// assert_eq!(g.run().take(both), "xxxxxxx");
    /// ```
    ///
    /// What takes a reference is written as an `async` closure, which the compiler accepts here if it captures references or nothing;
    /// one that owns what it captures takes its inputs as [`Own`](crate::graph::Own)s.
    pub fn async_node<M, F: AsyncNodeFn<'env, M>>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        f: F,
    ) -> <F::Params as Params>::Made<'_, 'env, F, M, Awaited<Plain>, F::Output>
    where
        F::Output: Send,
    {
        <F::Params as Params>::make::<F, M, Awaited<Plain>>(self, name.into(), f)
    }

    /// As [`Graph::async_node`], of a future that may fail: the node returns the value, and an error stops what depends on it.
    ///
    /// ```
    /// let mut g = filch::Graph::new();
    /// let text = g.node("text", || "12");
    /// let number = g.try_async_node("parse", async |text: &&str| text.parse::<u32>()).after(&text);
    /// assert_eq!(g.run().take(number), 12);
    /// ```
    pub fn try_async_node<M, T, E, F>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        f: F,
    ) -> <F::Params as Params>::Made<'_, 'env, F, M, Awaited<Fallible>, T>
    where
        F: AsyncNodeFn<'env, M, Output = Result<T, E>>,
        T: Send + 'env,
        E: Into<Box<dyn Error + Send + Sync>> + 'env,
    {
        <F::Params as Params>::make::<F, M, Awaited<Fallible>>(self, name.into(), f)
    }
}
