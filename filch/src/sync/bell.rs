//! A bell: wakes one of those that wait for it, or all. What `Notify` and `Condvar` are made of.
//!
//! N1. A future listens from its start on (`Notify`: the start is its making for `ring_all`, its
//!     first poll or `enable` for `ring_one`).
//! N2. A sign for one that is dropped before it has seen it goes to the next, or is kept as if nobody
//!     had waited: none is lost.
//! N3. At most one sign is kept, and only by a bell that keeps them.

use std::task::{Context, Poll};

use super::turn::{Step, Turn, lock, poll_under};
use super::waiters::{Key, Waiters};
use crate::base::shim::Mutex;

/// What becomes of a sign for one when nobody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unheard {
    /// The next to come has it (N3).
    Kept,
    Lost,
}

/// See the file header.
#[derive(Debug)]
pub(super) struct Bell {
    state: Mutex<State>,
    unheard: Unheard,
}

#[derive(Debug)]
struct State {
    waiters: Waiters<Ticket>,
    /// A sign that nobody has heard.
    kept: bool,
    /// How often all were woken.
    rounds: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ticket {
    Waits,
    /// Woken alone (N2).
    One,
    /// Woken with all.
    All,
}

/// Where a future stands with a bell.
#[derive(Debug)]
pub(super) struct Listener {
    slot: Option<Key>,
    /// The rounds at its start (N1).
    rounds: u64,
    heard: Option<Heard>,
}

/// Which sign ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    One,
    All,
}

impl State {
    fn ring_one(&mut self, turn: &mut Turn, unheard: Unheard) {
        match self.waiters.pop_front(Ticket::One) {
            Some(waker) => turn.wakers.push(waker),
            None => self.kept |= unheard == Unheard::Kept,
        }
    }

    /// What ends the listener's wait, if something does.
    fn sign_for(&mut self, listener: &Listener) -> Option<Heard> {
        match listener.slot.map(|key| *self.waiters.ticket(key)) {
            Some(Ticket::Waits) => None,
            Some(Ticket::One) => Some(Heard::One),
            Some(Ticket::All) => Some(Heard::All),
            None if self.rounds != listener.rounds => Some(Heard::All),
            None => std::mem::take(&mut self.kept).then_some(Heard::One),
        }
    }
}

impl Bell {
    pub(super) const fn new(unheard: Unheard) -> Self {
        let state = State { waiters: Waiters::new(), kept: false, rounds: 0 };
        Self { state: Mutex::new(state), unheard }
    }

    pub(super) fn listener(&self) -> Listener {
        Listener { slot: None, rounds: lock(&self.state).rounds, heard: None }
    }

    pub(super) fn ring_one(&self) {
        Turn::take(&self.state, |state, turn| state.ring_one(turn, self.unheard));
    }

    pub(super) fn ring_all(&self) {
        Turn::take(&self.state, |state, turn| {
            state.rounds += 1;
            while let Some(waker) = state.waiters.pop_front(Ticket::All) {
                turn.wakers.push(waker);
            }
        });
    }

    /// Listens from now on; true if there was a sign already, which is heard by this.
    pub(super) fn enable(&self, listener: &mut Listener) -> bool {
        if listener.heard.is_some() {
            return true;
        }
        Turn::take(&self.state, |state, turn| {
            listener.heard = state.sign_for(listener);
            match (listener.heard, listener.slot) {
                (Some(_), _) => drop(turn.leave(&mut state.waiters, &mut listener.slot)),
                (None, None) => {
                    listener.slot = Some(state.waiters.push_back(None, Ticket::Waits));
                }
                (None, Some(_)) => {}
            }
            listener.heard.is_some()
        })
    }

    pub(super) fn poll(&self, listener: &mut Listener, cx: &Context<'_>) -> Poll<()> {
        if listener.heard.is_some() {
            return Poll::Ready(());
        }
        poll_under(&self.state, cx, |state, turn, waker| match state.sign_for(listener) {
            Some(heard) => {
                turn.leave(&mut state.waiters, &mut listener.slot);
                listener.heard = Some(heard);
                Step::Ready(())
            }
            None => turn.wait(&mut state.waiters, &mut listener.slot, waker, Ticket::Waits),
        })
    }

    /// What the listener has heard was of no use: it goes on as if it had not (N2).
    pub(super) fn pass_on(&self, listener: &Listener) {
        if listener.heard == Some(Heard::One) {
            self.ring_one();
        }
    }

    /// The future is dropped (N2).
    pub(super) fn leave(&self, listener: &mut Listener) {
        if listener.slot.is_none() {
            return;
        }
        Turn::take(&self.state, |state, turn| {
            if turn.leave(&mut state.waiters, &mut listener.slot) == Some(Ticket::One) {
                state.ring_one(turn, self.unheard);
            }
        });
    }
}
