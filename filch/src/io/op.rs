//! An operation as a future.
//!
//! P1. Nothing is started before the first poll: a future that is never polled, or dropped first, has
//!     asked nothing of the kernel.
//! P2. From the start to the last completion, what the kernel may touch is owned by the operation:
//!     in the future, or, when that is dropped, in what `Operation::into_late` makes of it.
//! P3. A completion that has come is the result, also after `cancel`.
//! P4. An operation that has to move (its thread ends, or a signal kept the kernel from it: O5 of `slots`)
//!     is started again by the next poll, wherever that is. A kernel that gives it up again and
//!     again lacks what it takes, a thread of its own: that is told.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::cause::{Cause, answer_of};
use super::descriptor::Descriptor;
use super::driver::Cancel;
use super::engine::{Engine, Ticket};
use super::request::Request;
use super::slots::{Completion, Late, Polled};
use super::waiters::{Awaited, LazyId, Waiter};

/// How often an operation is started again on a driver that stays (P4). Guessed: a signal that comes at
/// the wrong moment does so once in ten thousand operations.
const MOST_STARTS: u8 = 32;

/// What an operation owns, asks for and gives back.
///
/// # Safety
/// * What `request` points to stays where it is, and valid, until the value is dropped, also while the
///   value itself moves; `into_late` keeps it.
pub(crate) unsafe trait Operation: Send + Unpin {
    type Output;

    /// What to ask of the system. Called once for each start.
    fn request(&mut self) -> Request;

    /// The descriptor, if the request waits for its readiness where the kernel tells that only.
    fn descriptor(&self) -> Option<&Descriptor>;

    /// The result, for whoever waits.
    fn finish(self, completion: Completion) -> Self::Output;

    /// Nobody waits any more: what keeps the buffers, and takes the result.
    fn into_late(self) -> Box<dyn Late>;

    /// Whether an abandoned operation is cancelled.
    fn cancels(&self) -> Cancel {
        Cancel::Yes
    }
}

/// An operation on its way; see the file header.
pub(crate) struct Op<'e, T: Operation> {
    engine: &'e Arc<Engine>,
    stage: Stage,
    /// How often it was given up by a driver that stays (P4).
    given_up: u8,
    /// `None` once it is over.
    work: Option<T>,
}

#[derive(Debug)]
enum Stage {
    /// Not started (P1); or it waits for readiness, under this id.
    Fresh(LazyId),
    /// As `Fresh`, and not to be started any more.
    Cancelled,
    /// The kernel gave it up too often (P4).
    GivenUp,
    InFlight(Ticket),
    Over,
}

impl<'e, T: Operation> Op<'e, T> {
    pub(crate) fn new(engine: &'e Arc<Engine>, work: T) -> Self {
        let stage = Stage::Fresh(LazyId::default());
        Self { engine, stage, given_up: 0, work: Some(work) }
    }

    /// Asks for an early end; the result comes as ever (P3).
    pub(crate) fn cancel(&mut self) {
        match self.stage {
            Stage::Fresh(_) => {
                self.waits_no_more();
                self.stage = Stage::Cancelled;
            }
            Stage::InFlight(ticket) => self.engine.cancel(ticket),
            Stage::Cancelled | Stage::GivenUp | Stage::Over => {}
        }
    }

    /// What it owns, until its end.
    pub(crate) fn work(&self) -> Option<&T> {
        self.work.as_ref()
    }

    /// As `work`, to change it while it is in flight.
    pub(crate) fn work_in_flight(&mut self) -> Option<&mut T> {
        self.ticket().and(self.work.as_mut())
    }

    /// Where it is in flight.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        match self.stage {
            Stage::InFlight(ticket) => Some(ticket),
            Stage::Fresh(_) | Stage::Cancelled | Stage::GivenUp | Stage::Over => None,
        }
    }

    /// Calls it back from its flight: the completion is marked (O8 of `slots`).
    pub(crate) fn call_back(&self) {
        if let Some(ticket) = self.ticket() {
            self.engine.call_back(ticket);
        }
    }

    /// Takes back what it owns, if nothing of it is in flight: the operation is over then.
    pub(crate) fn take_idle(&mut self) -> Option<T> {
        match self.stage {
            Stage::Fresh(_) | Stage::Cancelled | Stage::GivenUp => {
                self.waits_no_more();
                self.stage = Stage::Over;
                self.work.take()
            }
            Stage::InFlight(_) | Stage::Over => None,
        }
    }

    /// Takes its waker off the descriptor.
    fn waits_no_more(&self) {
        if let Stage::Fresh(id) = &self.stage
            && let Some(id) = id.known()
            && let Some(descriptor) = self.work.as_ref().and_then(Operation::descriptor)
        {
            descriptor.give_up(id);
        }
    }

    fn end(&mut self, completion: Completion) -> Poll<T::Output> {
        self.stage = Stage::Over;
        let work = self.work.take().expect("an operation ends once");
        Poll::Ready(work.finish(completion))
    }

    /// It has not happened (P4).
    fn begin_anew(&mut self, ticket: Ticket) {
        self.given_up += u8::from(self.engine.stays(ticket));
        let often = self.given_up == MOST_STARTS;
        self.stage = if often { Stage::GivenUp } else { Stage::Fresh(LazyId::default()) };
    }

    /// Starts it, or performs it where the kernel tells readiness only.
    fn begin(&mut self, cx: &Context<'_>) -> Poll<Completion> {
        let engine = self.engine;
        let work = self.work.as_mut().expect("an operation is not polled after its end");
        let request = work.request();
        if let (Some(descriptor), Some(direction)) = (work.descriptor(), request.direction())
            && descriptor.tells_readiness()
        {
            let Stage::Fresh(id) = &self.stage else { unreachable!("only what is fresh begins") };
            // SAFETY: the operation keeps what the request points to during the call.
            return unsafe {
                descriptor.poll_call(&request, direction, Waiter::new(cx.waker(), id))
            };
        }
        // SAFETY: P2.
        match unsafe { engine.start(&request, cx.waker()) } {
            Ok(ticket) => {
                self.stage = Stage::InFlight(ticket);
                Poll::Pending
            }
            Err(error) => Poll::Ready(refused(&error)),
        }
    }
}

/// An error that came instead of a completion, as one.
fn refused(error: &io::Error) -> Completion {
    Completion { result: answer_of(error), flags: 0 }
}

impl<T: Operation> Future for Op<'_, T> {
    type Output = T::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T::Output> {
        let this = &mut *self;
        loop {
            match this.stage {
                Stage::Fresh(_) => match this.begin(cx) {
                    Poll::Ready(completion) => return this.end(completion),
                    Poll::Pending => return Poll::Pending,
                },
                Stage::Cancelled => {
                    return this.end(refused(&io::Error::from_raw_os_error(libc::ECANCELED)));
                }
                Stage::GivenUp => {
                    let result = Cause::NoThread(libc::EAGAIN).code();
                    return this.end(Completion { result, flags: 0 });
                }
                Stage::InFlight(ticket) => match this.engine.poll(ticket, cx.waker()) {
                    Polled::Done(completion) => return this.end(completion),
                    Polled::Moves => this.begin_anew(ticket),
                    Polled::Pending | Polled::WantsWaker => return Poll::Pending,
                },
                Stage::Over => panic!("an operation was polled after its end"),
            }
        }
    }
}

impl<T: Operation> Drop for Op<'_, T> {
    fn drop(&mut self) {
        self.waits_no_more();
        if let (&Stage::InFlight(ticket), Some(work)) = (&self.stage, self.work.take()) {
            let cancels = work.cancels();
            self.engine.abandon(ticket, work.into_late(), cancels);
        }
    }
}
