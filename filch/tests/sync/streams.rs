//! Receivers as streams.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use futures_lite::{Stream, StreamExt};

use filch::sync::{broadcast, mpmc};

use crate::Hand;
use crate::support::CountingWaker;

/// Polls for the next item with a waker that counts.
fn poll<S: Stream + Unpin>(
    stream: &mut S,
    wakes: &std::sync::Arc<CountingWaker>,
) -> Poll<Option<S::Item>> {
    let waker = Waker::from(wakes.clone());
    Pin::new(stream).poll_next(&mut Context::from_waker(&waker))
}

#[test]
fn channel_as_a_stream_ends_with_the_channel() {
    let (sender, mut receiver) = mpmc::bounded(2);
    let wakes = Default::default();
    assert!(poll(&mut receiver, &wakes).is_pending());
    sender.try_send(1).unwrap();
    assert_eq!((wakes.wakes(), poll(&mut receiver, &wakes)), (1, Poll::Ready(Some(1))));
    assert!(poll(&mut receiver, &wakes).is_pending());
    drop(sender);
    assert_eq!((wakes.wakes(), poll(&mut receiver, &wakes)), (2, Poll::Ready(None)));
}

#[test]
fn stream_that_is_not_polled_again_keeps_no_message_from_others() {
    let (sender, mut idle) = mpmc::bounded(2);
    let (receiver, wakes) = (idle.clone(), Default::default());
    assert!(poll(&mut idle, &wakes).is_pending());
    let mut waiting = Hand::waiting(receiver.recv());
    sender.try_send(1).unwrap();
    assert_eq!((wakes.wakes(), waiting.wakes()), (1, 1));
    assert_eq!(waiting.poll(), Some(Ok(1)));
    // And it goes on where it was.
    assert!(poll(&mut idle, &wakes).is_pending());
    sender.try_send(2).unwrap();
    assert_eq!((wakes.wakes(), poll(&mut idle, &wakes)), (2, Poll::Ready(Some(2))));
}

#[test]
fn stream_that_is_dropped_while_it_waits_leaves_nothing_behind() {
    let (sender, mut first) = mpmc::bounded(2);
    let (receiver, wakes) = (first.clone(), Default::default());
    assert!(poll(&mut first, &wakes).is_pending());
    drop(first);
    let mut waiting = Hand::waiting(receiver.recv());
    sender.try_send(1).unwrap();
    assert_eq!((wakes.wakes(), waiting.poll()), (0, Some(Ok(1))));
}

#[test]
fn broadcast_as_a_stream_says_what_was_missed_and_waits_again() {
    let (sender, mut receiver) = broadcast::channel(1);
    let wakes = Default::default();
    assert!(poll(&mut receiver, &wakes).is_pending());
    sender.send(1).unwrap();
    // Taken in another way: the stream waits on.
    assert_eq!((wakes.wakes(), receiver.try_recv()), (1, Ok(1)));
    assert!(poll(&mut receiver, &wakes).is_pending());
    sender.send(2).unwrap();
    assert_eq!(wakes.wakes(), 2, "it was still in the list");
    sender.send(3).unwrap();
    drop(sender);
    let items: Vec<_> = filch::block_on(receiver.collect());
    assert_eq!(items, [Err(broadcast::RecvError::Lagged(1)), Ok(3)]);
}
