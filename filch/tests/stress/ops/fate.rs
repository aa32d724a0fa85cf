//! What may become of an operation before its end.

use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use filch::time::{sleep, timeout};
use filch::{JoinHandle, yield_now};

use crate::storm::Rng;

/// An operation that can go anywhere.
pub type Op<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What became of it.
#[must_use]
pub enum Fate<T> {
    Done(T),
    /// Dropped before anybody polled it: it has not happened.
    Never,
    /// Dropped: it may have been polled, and may have happened.
    Perhaps,
}

impl<T> Fate<T> {
    /// Its result, if it has one.
    pub fn done(self) -> Option<T> {
        match self {
            Self::Done(value) => Some(value),
            Self::Never | Self::Perhaps => None,
        }
    }
}

pub async fn poll_once<T>(op: &mut Op<T>) -> Poll<T> {
    poll_fn(|cx| Poll::Ready(op.as_mut().poll(cx))).await
}

/// Gives others their turn, sometimes.
pub async fn dawdle(dice: &mut Rng) {
    for _ in 0..dice.below(4) {
        yield_now().await;
    }
    if dice.one_in(16) {
        sleep(Duration::from_micros(dice.below(1500))).await;
    }
}

/// Lets an operation live, or not.
pub async fn tempt<T: Send + 'static>(dice: &mut Rng, op: Op<T>) -> Fate<T> {
    let micros = Duration::from_micros(dice.below(2000));
    match dice.below(16) {
        0 => Fate::Never,
        1 | 2 => some_polls(dice, op).await,
        3 => timeout(micros, op).await.map_or(Fate::Perhaps, Fate::Done),
        4 => {
            let mut op = op;
            filch::select! {
                value = &mut op => Fate::Done(value),
                () = sleep(micros) => Fate::Perhaps,
            }
        }
        5 => {
            let task = filch::spawn(op);
            dawdle(dice).await;
            task.cancel();
            outcome(task).await
        }
        6 => moves(dice, op).await,
        7 => begins_elsewhere(dice, op).await,
        _ => Fate::Done(op.await),
    }
}

/// Polled a few times, whether it was woken or not.
async fn some_polls<T>(dice: &mut Rng, mut op: Op<T>) -> Fate<T> {
    for _ in 0..1 + dice.below(3) {
        if let Poll::Ready(value) = poll_once(&mut op).await {
            return Fate::Done(value);
        }
        dawdle(dice).await;
    }
    Fate::Perhaps
}

/// Polled here, then in another task, which any worker may run.
async fn moves<T: Send + 'static>(dice: &mut Rng, mut op: Op<T>) -> Fate<T> {
    if let Poll::Ready(value) = poll_once(&mut op).await {
        return Fate::Done(value);
    }
    let task = filch::spawn(op);
    if dice.one_in(2) {
        dawdle(dice).await;
        task.cancel();
    }
    outcome(task).await
}

/// First polled by a thread that is no I/O worker, for nobody.
async fn begins_elsewhere<T: Send + 'static>(dice: &mut Rng, mut op: Op<T>) -> Fate<T> {
    let begin = move || {
        let first = op.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        (first, op)
    };
    match outcome(filch::spawn_fn(begin)).await.done() {
        Some((Poll::Ready(value), _)) => Fate::Done(value),
        Some((Poll::Pending, op)) if dice.one_in(2) => Fate::Done(op.await),
        // Given up, or the job was aborted with its runtime.
        Some((Poll::Pending, _)) | None => Fate::Perhaps,
    }
}

/// The value of a task that may have been cancelled: if there is one, it is told.
pub async fn outcome<T>(task: JoinHandle<T>) -> Fate<T> {
    match task.outcome().await {
        Ok(value) => Fate::Done(value),
        Err(error) if error.is_cancelled() => Fate::Perhaps,
        Err(error) => resume_unwind(error.into_panic()),
    }
}
