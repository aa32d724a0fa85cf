//! Async nodes: a body that makes a future, which holds no thread while it waits.
//!
//! A1. The future is polled once where the node runs. Only if it has to wait does it become a task of the micro lane, and the
//!     node goes on there with its token (`Held` in `work`).
//! A2. The future is dropped before the node ends, so what it borrows is there: a run is not over before.
//! A3. A panic of the future, of its drop or of a value's is a failure of the node, as that of a closure is.

use std::borrow::Cow;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::body::{Body, Step};
use super::build::Graph;
use super::error::Cause;
use super::node::Node;
use super::work::{Hand, Held};
use crate::sched::shared::Shared;
use crate::spawn::{self, Order};
use crate::task::body::FutureBody;
use crate::task::group::guard_user_code;

/// A future that goes on as a task (A2: fields are dropped in this order).
struct Going<F> {
    future: Option<Pin<Box<F>>>,
    held: Option<Held>,
    cell: u32,
}

impl<F: Future> Future for Going<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let Some(future) = &mut this.future else { return Poll::Ready(()) };
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        if let Ok(Poll::Pending) = polled {
            return Poll::Pending;
        }
        let dropped = catch_unwind(AssertUnwindSafe(|| this.future = None));
        if let Some(held) = this.held.take() {
            let outcome = match (polled, dropped) {
                // SAFETY: the cell is that of the node.
                (Ok(Poll::Ready(output)), Ok(())) => unsafe { keep(&held, this.cell, output) },
                (Ok(output), Err(payload)) => {
                    guard_user_code(|| drop(output));
                    Err(Cause::Panic(payload))
                }
                (Err(payload), dropped) => {
                    guard_user_code(|| drop(dropped));
                    Err(Cause::Panic(payload))
                }
                (Ok(Poll::Pending), Ok(())) => unreachable!("returned above"),
            };
            held.end(outcome);
        }
        Poll::Ready(())
    }
}

/// Stores what a future came to. The value that it replaces may panic in its drop.
///
/// # Safety
/// `cell` is that of the node, for a `T`.
unsafe fn keep<T>(held: &Held, cell: u32, output: T) -> Result<(), Cause> {
    // SAFETY: by the caller's promise.
    let store = || unsafe { held.store(cell, output) };
    match catch_unwind(AssertUnwindSafe(store)) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Cause::Error("the node ran again while its output was in use".into())),
        Err(payload) => Err(Cause::Panic(payload)),
    }
}

impl<'env> Graph<'env> {
    /// Adds a node whose work is the future that `f` makes. While it waits it holds no thread; its successors come after its end.
    ///
    /// ```
    /// use std::time::Duration;
    /// let mut g = filch::Graph::new();
    /// let wait = g.async_node("wait", || async {
    ///     filch::time::sleep(Duration::from_micros(50)).await;
    ///     7
    /// });
    /// let double = g.node("double", |n: &i32| 2 * n).after(&wait);
    /// assert_eq!(g.run().take(double), 14);
    /// ```
    pub fn async_node<F, A>(&mut self, name: impl Into<Cow<'static, str>>, f: F) -> Node<A::Output>
    where
        F: Fn() -> A + Send + Sync + 'env,
        A: Future + Send + 'env,
        A::Output: Send + 'env,
    {
        let cell = self.parts.cells.add::<A::Output>();
        let body = Body::new(move |hand: &Hand<'_>| {
            let mut future = Box::pin(f());
            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(output) => {
                    drop(future);
                    // SAFETY: the cell is that of the node.
                    unsafe { hand.store(cell, output) }
                }
                Poll::Pending => go_on(hand, Going { future: Some(future), held: None, cell }),
            }
        });
        Node::new(self.add(name.into(), Some(body), cell, 0))
    }
}

/// Makes a task of a future that has to wait.
#[cold]
fn go_on<F: Future + Send>(hand: &Hand<'_>, mut going: Going<F>) -> Step {
    // SAFETY: S4 of `slot`, the run's group outlives it.
    let group = unsafe { &*hand.slot.group.get() };
    group.enter();
    // SAFETY: an unfinished group keeps its runtime.
    let shared = unsafe { Shared::to_arc(group.home().shared.cast()) };
    going.held = Some(hand.hold());
    let order = Order::plain(Location::caller());
    drop(spawn::create(&shared, group, FutureBody(going), order));
    Step::Held
}
