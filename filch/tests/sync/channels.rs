//! Channels: order, closing, drops, and what a future that is dropped must not lose.

use std::sync::Arc;

use filch::sync::{broadcast, mpmc, oneshot, watch};

use crate::Hand;
use crate::support::Drops;
use crate::watchdog::watched;

#[test]
fn sender_that_waits_is_not_overtaken() {
    let (sender, receiver) = mpmc::bounded(1);
    sender.try_send(0).unwrap();
    let mut waiting = Hand::waiting(sender.send(1));
    assert_eq!(receiver.try_recv(), Ok(0));
    assert!(sender.try_send(2).unwrap_err().is_full(), "the room is granted");
    assert_eq!(waiting.poll(), Some(Ok(())));
    assert_eq!(receiver.try_recv(), Ok(1));
}

#[test]
fn room_of_a_dropped_sender_goes_to_the_next_and_its_message_is_dropped() {
    let drops = Drops::default();
    let (sender, receiver) = mpmc::bounded(1);
    sender.try_send(drops.token()).unwrap();
    let first = Hand::waiting(sender.send(drops.token()));
    let mut second = Hand::waiting(sender.send(drops.token()));
    drop(receiver.try_recv());
    drop(first);
    assert_eq!(drops.count(), 2);
    assert!(second.poll().is_some());
    drop(second);
    drop((sender, receiver));
    assert_eq!(drops.count(), 3);
}

#[test]
fn message_that_a_dropped_receiver_was_told_of_goes_to_the_next() {
    let (sender, receiver) = mpmc::bounded(4);
    let (first, mut second) = (Hand::waiting(receiver.recv()), Hand::waiting(receiver.recv()));
    sender.try_send(1).unwrap();
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(first);
    assert_eq!(second.wakes(), 1);
    assert_eq!(second.poll(), Some(Ok(1)));
}

#[test]
fn receiver_whose_message_was_taken_keeps_its_place() {
    let (sender, receiver) = mpmc::bounded(4);
    let (mut first, second) = (Hand::waiting(receiver.recv()), Hand::waiting(receiver.recv()));
    sender.try_send(1).unwrap();
    assert_eq!(receiver.try_recv(), Ok(1));
    assert!(first.poll().is_none());
    sender.try_send(2).unwrap();
    assert_eq!((first.wakes(), second.wakes()), (2, 0));
    assert_eq!(first.poll(), Some(Ok(2)));
}

#[test]
fn closing_wakes_everybody_and_what_was_sent_is_received() {
    let (sender, receiver) = mpmc::bounded(1);
    sender.try_send(1).unwrap();
    let mut send = Hand::waiting(sender.send(2));
    let mut closed = Hand::waiting(sender.closed());
    receiver.close();
    assert_eq!(send.poll(), Some(Err(mpmc::SendError(2))));
    assert!(closed.poll().is_some());
    assert_eq!(receiver.blocking_recv(), Ok(1));
    assert_eq!(receiver.blocking_recv(), Err(mpmc::RecvError));
}

#[test]
fn last_receiver_drops_what_nobody_will_take() {
    let drops = Drops::default();
    let (sender, receiver) = mpmc::unbounded();
    (0..5).for_each(|_| drop(sender.try_send(drops.token())));
    let permit = sender.try_reserve().unwrap();
    drop(receiver);
    assert_eq!(drops.count(), 5);
    permit.send(drops.token());
    assert_eq!(drops.count(), 6);
    assert!(sender.is_closed());
}

#[test]
fn message_sent_with_room_that_was_reserved_before_the_close_is_received() {
    let (sender, receiver) = mpmc::bounded(2);
    let mut waiting = Hand::waiting(receiver.recv());
    let (permit, unused) = (sender.try_reserve().unwrap(), sender.try_reserve().unwrap());
    receiver.close();
    assert!(waiting.poll().is_none(), "one more may come");
    assert_eq!(receiver.try_recv(), Err(mpmc::TryRecvError::Empty));
    permit.send(1);
    assert_eq!(waiting.poll(), Some(Ok(1)));
    let mut last = [Hand::waiting(receiver.recv()), Hand::waiting(receiver.recv())];
    drop(unused);
    for last in &mut last {
        assert_eq!((last.wakes(), last.poll()), (1, Some(Err(mpmc::RecvError))));
    }
    assert!(sender.try_reserve().is_err());
}

#[test]
fn many_to_many_every_message_arrives_once() {
    watched(|dog| {
        let rig = dog.rig(4);
        for capacity in [1, 3, 128] {
            let sum = rig.block_on(async {
                let (sender, receiver) = mpmc::bounded(capacity);
                for producer in 0..4u64 {
                    let sender = sender.clone();
                    drop(filch::spawn(async move {
                        for i in 0..500 {
                            sender.send(producer * 500 + i).await.unwrap();
                        }
                    }));
                }
                drop(sender);
                let consume = |receiver: mpmc::Receiver<u64>| async move {
                    let mut sum = (0, 0);
                    while let Ok(message) = receiver.recv().await {
                        sum = (sum.0 + 1, sum.1 + message);
                    }
                    sum
                };
                let consumers: Vec<_> =
                    (0..4).map(|_| filch::spawn(consume(receiver.clone()))).collect();
                let sums = filch::wait_all_async(consumers).await;
                sums.into_iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
            });
            assert_eq!(sum, (2000, 2000 * 1999 / 2));
        }
    });
}

#[test]
fn blocking_ends_of_a_channel_on_workers_are_replaced() {
    watched(|dog| {
        let rig = dog.rig(1);
        rig.block_on(async {
            let (sender, receiver) = mpmc::bounded(1);
            let consumer = filch::spawn(async move {
                let mut sum = 0;
                while let Ok(message) = receiver.blocking_recv() {
                    sum += message;
                }
                sum
            });
            let producer = filch::spawn(async move {
                (0..50).for_each(|i| sender.blocking_send(i).unwrap());
            });
            producer.await;
            assert_eq!(consumer.await, 49 * 25);
        });
    });
}

#[test]
fn oneshot_tells_each_end_when_the_other_goes() {
    let (mut sender, receiver) = oneshot::channel::<u32>();
    let mut closed = Hand::waiting(sender.closed());
    drop(receiver);
    assert!(closed.poll().is_some());
    drop(closed);
    assert_eq!(sender.send(1), Err(1));
    let (sender, receiver) = oneshot::channel::<u32>();
    let mut waiting = Hand::waiting(receiver);
    drop(sender);
    assert_eq!((waiting.wakes(), waiting.poll()), (1, Some(Err(oneshot::RecvError))));
}

#[test]
fn oneshot_message_that_nobody_receives_is_dropped_with_the_receiver() {
    let drops = Drops::default();
    let (sender, receiver) = oneshot::channel();
    assert!(sender.send(drops.token()).is_ok());
    assert_eq!(drops.count(), 0);
    drop(receiver);
    assert_eq!(drops.count(), 1);
}

#[test]
fn closed_oneshot_still_gives_what_was_sent() {
    let (sender, mut receiver) = oneshot::channel();
    sender.send(1).unwrap();
    receiver.close();
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(receiver.try_recv(), Err(oneshot::TryRecvError::Closed));
}

#[test]
fn broadcast_reaches_all_and_tells_who_is_behind_what_it_missed() {
    let (sender, mut fast) = broadcast::channel(2);
    let mut slow = sender.subscribe();
    for i in 0..5 {
        sender.send(i).unwrap();
        assert_eq!(fast.try_recv(), Ok(i));
    }
    assert_eq!(slow.try_recv(), Err(broadcast::TryRecvError::Lagged(3)));
    assert_eq!((slow.try_recv(), slow.try_recv()), (Ok(3), Ok(4)));
    let mut waiting = Hand::waiting(slow.recv());
    drop(sender);
    assert_eq!(waiting.poll(), Some(Err(broadcast::RecvError::Closed)));
}

#[test]
fn broadcast_message_is_dropped_when_the_last_who_wants_it_has_it_or_goes() {
    let message = Arc::new(());
    let (sender, mut one) = broadcast::channel(8);
    let two = sender.subscribe();
    sender.send(message.clone()).unwrap();
    drop(one.try_recv());
    assert_eq!(Arc::strong_count(&message), 2);
    drop(two);
    assert_eq!((Arc::strong_count(&message), sender.is_empty()), (1, true));
}

#[test]
fn watch_shows_the_last_value_and_wakes_all() {
    let (sender, mut one) = watch::channel(0);
    let mut two = one.clone();
    let (mut first, mut second) = (Hand::waiting(one.changed()), Hand::waiting(two.changed()));
    sender.send(1).unwrap();
    sender.send(2).unwrap();
    assert_eq!((first.poll(), second.poll()), (Some(Ok(())), Some(Ok(()))));
    drop((first, second));
    assert_eq!((*one.borrow(), one.has_changed()), (2, Ok(false)));
    sender.send(3).unwrap();
    drop(sender);
    assert_eq!(one.blocking_changed(), Ok(()), "the last value comes before the end");
    assert_eq!(one.blocking_changed(), Err(watch::RecvError));
}

#[test]
fn watch_change_that_panics_poisons_nothing_and_tells_nobody() {
    let (sender, receiver) = watch::channel(1);
    let modify = || sender.send_modify(|_| panic!("half-way"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(modify)).is_err());
    assert_eq!((*receiver.borrow(), receiver.has_changed()), (1, Ok(false)));
    sender.send(2).unwrap();
    assert_eq!(*receiver.borrow(), 2);
}

#[test]
fn a_broadcast_keeps_as_many_messages_as_it_was_asked_for() {
    for capacity in [1, 3, 5, 100] {
        let (sender, mut receiver) = broadcast::channel(capacity);
        for n in 0..capacity + 2 {
            sender.send(n).unwrap();
        }
        assert_eq!(sender.len(), capacity);
        assert_eq!(receiver.try_recv(), Err(broadcast::TryRecvError::Lagged(2)));
        let kept: Vec<_> = std::iter::from_fn(|| receiver.try_recv().ok()).collect();
        assert!(kept.into_iter().eq(2..capacity + 2), "capacity {capacity}");
    }
}

#[test]
fn a_capacity_that_no_memory_holds_is_refused() {
    let most = usize::MAX / 8;
    for capacity in [0, most + 1, usize::MAX] {
        let bounded = std::panic::catch_unwind(|| drop(mpmc::bounded::<u8>(capacity)));
        assert!(bounded.is_err(), "{capacity} messages");
        let channel = std::panic::catch_unwind(|| drop(broadcast::channel::<u8>(capacity)));
        assert!(channel.is_err(), "{capacity} messages");
    }
    assert_eq!(mpmc::bounded::<u8>(most).0.capacity(), Some(most));
    assert!(broadcast::channel(most).0.send(1).is_ok());
}
