//! The places where a ready task may wait: five queues of thin pointers, each for one pattern of
//! pushers and takers.
//!
//! | queue | pushes | takes |
//! | --- | --- | --- |
//! | [`ring`] | owner | owner, oldest first; thieves, half at a time |
//! | [`deque`] | owner | owner, newest first; thieves, the oldest, one at a time |
//! | [`mailbox`] | anyone | owner, oldest first |
//! | [`injector`] | anyone | anyone, in batches, oldest first per shard |
//! | [`spill`] | anyone, a batch | anyone, the newest batch or the oldest item |
//!
//! And the [`gate`] before a mailbox whose owner may leave.
//!
//! Q1. An item that went in comes out exactly once, or stays inside.
//! Q2. No queue looks into an item; `mailbox` and `injector` use its link, through
//!     [`mailbox::Linked`], between push and pop only.
//!
//! Under `--cfg filch_locked_queues` ring, deque and mailbox are plain queues behind locks (`locked/`), for tests: a
//! flaw that shows with them, too, is the scheduler's.
//!
//! Not here: ownership. A queue that is dropped forgets what is inside; whoever owns the tasks
//! empties it first. Nor wake-ups, nor the choice of a victim (the scheduler's).

#[cfg_attr(filch_locked_queues, path = "locked/deque.rs")]
pub(crate) mod deque;
pub(crate) mod gate;
pub(crate) mod injector;
#[cfg_attr(filch_locked_queues, path = "locked/mailbox.rs")]
pub(crate) mod mailbox;
#[cfg_attr(filch_locked_queues, path = "locked/ring.rs")]
pub(crate) mod ring;
pub(crate) mod spill;

#[cfg(test)]
mod testing;
