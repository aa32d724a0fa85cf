//! Channels against a plain queue: any sequence of calls gives what the model gives.

use std::collections::VecDeque;

use proptest::prelude::*;

use filch::sync::{broadcast, mpmc};

#[derive(Clone, Copy, Debug)]
enum Act {
    Send,
    Recv(usize),
    Close,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        8 => Just(Act::Send),
        8 => any::<usize>().prop_map(Act::Recv),
        1 => Just(Act::Close),
    ];
    prop::collection::vec(act, 0..100)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bounded_channel_is_a_bounded_queue(acts in acts(), capacity in 1..5usize) {
        let (sender, receiver) = mpmc::bounded(capacity);
        let (mut model, mut closed) = (VecDeque::new(), false);
        for (number, act) in acts.into_iter().enumerate() {
            match act {
                Act::Send => {
                    let expected = match () {
                        () if closed => Err(mpmc::TrySendError::Closed(number)),
                        () if model.len() == capacity => Err(mpmc::TrySendError::Full(number)),
                        () => {
                            model.push_back(number);
                            Ok(())
                        }
                    };
                    prop_assert_eq!(sender.try_send(number), expected);
                }
                Act::Recv(_) => {
                    let none =
                        if closed { mpmc::TryRecvError::Closed } else { mpmc::TryRecvError::Empty };
                    prop_assert_eq!(receiver.try_recv(), model.pop_front().ok_or(none));
                }
                Act::Close => {
                    prop_assert_eq!(sender.close(), !closed);
                    closed = true;
                }
            }
            prop_assert_eq!(receiver.len(), model.len());
        }
    }

    #[test]
    fn broadcast_gives_each_receiver_the_last_messages_in_order(
        acts in acts(),
        capacity in 1..5usize,
    ) {
        let (sender, first) = broadcast::channel(capacity);
        let mut receivers = [first, sender.subscribe(), sender.subscribe()];
        let mut next = [0; 3];
        let mut sent = 0u64;
        for act in acts {
            match act {
                Act::Send | Act::Close => {
                    prop_assert_eq!(sender.send(sent), Ok(3));
                    sent += 1;
                }
                Act::Recv(n) => {
                    let (receiver, next) = (&mut receivers[n % 3], &mut next[n % 3]);
                    let oldest = sent.saturating_sub(capacity as u64);
                    let expected = match *next {
                        missed if missed < oldest => {
                            *next = oldest;
                            Err(broadcast::TryRecvError::Lagged(oldest - missed))
                        }
                        number if number < sent => {
                            *next += 1;
                            Ok(number)
                        }
                        _ => Err(broadcast::TryRecvError::Empty),
                    };
                    prop_assert_eq!(receiver.try_recv(), expected);
                }
            }
        }
    }
}
