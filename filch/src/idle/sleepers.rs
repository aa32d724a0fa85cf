//! The stack of sleeping workers, and for each worker how it left the stack: plain data.
//!
//! S1. A worker is on the stack, or among those that come late, exactly while its bed is `Asleep`.
//! S2. Off the stack, the bed keeps the role that the remover gave, until its worker takes it.

use super::word::Role;

/// Where a worker is, as far as sleeping goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bed {
    Awake,
    Asleep,
    /// Removed from the stack by somebody else, into this role; its worker does not know yet.
    Woken(Role),
}

/// How a worker that wants to be awake finds its bed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It was asleep until now and has removed itself.
    Alone,
    /// Somebody had removed it, into this role.
    Woken(Role),
}

/// How soon a worker is there when it is woken (I8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comes {
    /// As soon as the system lets it.
    AtOnce,
    /// When the program lets it.
    Late,
}

/// Room from the start: on most machines no worker allocates when it first sleeps. Guessed.
const ROOM: usize = 32;

#[derive(Debug)]
pub(super) struct Sleepers {
    /// Last in, first out: the last to park has the warmest caches.
    stack: Vec<u32>,
    /// Those that come late when they are woken: taken when the stack is empty (I8).
    late: Vec<u32>,
    /// By worker number; grows when a higher number first sleeps.
    beds: Vec<Bed>,
}

impl Sleepers {
    pub(super) fn new() -> Self {
        Self { stack: Vec::with_capacity(ROOM), late: Vec::new(), beds: Vec::with_capacity(ROOM) }
    }

    pub(super) fn len(&self) -> usize {
        self.stack.len() + self.late.len()
    }

    /// How many of them come at once.
    pub(super) fn prompt(&self) -> usize {
        self.stack.len()
    }

    pub(super) fn push(&mut self, id: u32, comes: Comes) {
        let index = id as usize;
        if index >= self.beds.len() {
            self.beds.resize(index + 1, Bed::Awake);
        }
        debug_assert_eq!(
            self.beds[index],
            Bed::Awake,
            "worker {id} sleeps twice or dropped a ticket"
        );
        self.beds[index] = Bed::Asleep;
        match comes {
            Comes::AtOnce => self.stack.push(id),
            Comes::Late => self.late.push(id),
        }
    }

    /// The role into which the next to be removed is called (I8).
    pub(super) fn role_of_next(&self) -> Role {
        if self.stack.is_empty() { Role::Working } else { Role::Searching }
    }

    /// Removes the worker that lay down last.
    pub(super) fn pop(&mut self, role: Role) -> Option<u32> {
        let id = self.stack.pop().or_else(|| self.late.pop())?;
        self.rouse(id, role);
        Some(id)
    }

    /// Removes this worker if it is on the stack.
    pub(super) fn remove(&mut self, id: u32, role: Role) -> bool {
        if self.beds.get(id as usize) != Some(&Bed::Asleep) {
            return false;
        }
        self.unstack(id);
        self.rouse(id, role);
        true
    }

    /// The worker itself is up and asks how that came.
    pub(super) fn take_back(&mut self, id: u32) -> Left {
        let left = match self.beds[id as usize] {
            Bed::Asleep => {
                self.unstack(id);
                Left::Alone
            }
            Bed::Woken(role) => Left::Woken(role),
            Bed::Awake => unreachable!("a ticket is spent once (I5)"),
        };
        self.beds[id as usize] = Bed::Awake;
        left
    }

    fn rouse(&mut self, id: u32, role: Role) {
        debug_assert_eq!(self.beds[id as usize], Bed::Asleep, "S1");
        self.beds[id as usize] = Bed::Woken(role);
    }

    fn unstack(&mut self, id: u32) {
        for list in [&mut self.stack, &mut self.late] {
            if let Some(position) = list.iter().rposition(|&other| other == id) {
                list.remove(position);
                return;
            }
        }
        debug_assert!(false, "S1");
    }
}
