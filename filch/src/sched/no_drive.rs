//! In the place of `drive` where the system is not Linux: no worker drives I/O, and each parks without it.

use std::io;
use std::sync::{Arc, Weak};

use super::core::{EventCore, ParkCore};
use super::shared::{CoreFactory, Lane, Shared, Slot};
use super::worker::Worker;
use crate::config::{Config, IoBackend};
use crate::error::BuildError;

/// What there is to say about I/O.
const MISSING: &str = "I/O is for Linux only";

/// A closure that may block.
pub(crate) type Closure = Box<dyn FnOnce() + Send>;

/// Runs a closure on a thread for what blocks, as a task of the runtime.
pub(crate) type Offload = fn(&Shared, Closure) -> Result<(), i32>;

/// No neighbour is inside a task that keeps I/O waiting.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Suspect {}

/// An engine without drivers.
pub(crate) struct Engine(());

impl Engine {
    pub(super) fn man(&self, _driver: usize) {}

    /// What drives I/O and why, for people.
    pub(crate) fn describe(&self) -> String {
        format!("nothing: {MISSING}")
    }
}

pub(super) fn make_engine(
    _config: &Config,
    _lane: &Lane,
    _cores: Option<&CoreFactory>,
    _shared: Weak<Shared>,
    _offload: Offload,
) -> Arc<Engine> {
    Arc::new(Engine(()))
}

/// The event core of a slot.
pub(super) fn core_of(_engine: &Engine, _lane: usize, _index: usize) -> Box<dyn EventCore> {
    Box::new(ParkCore::new())
}

impl Shared {
    pub(super) fn close_driver(&self, _driver: usize) {}

    pub(super) fn rescue_driver(&self, _slot: &Slot) {}

    /// Refuses a back-end that the program forces.
    pub(super) fn check_backend(&self) -> Result<(), BuildError> {
        match self.config.io_backend {
            IoBackend::Auto => Ok(()),
            backend => {
                let source = io::Error::new(io::ErrorKind::Unsupported, MISSING);
                Err(BuildError::Io { backend: backend.to_string(), source })
            }
        }
    }
}

impl Worker {
    pub(super) fn end_driver(&self) {}

    pub(super) fn flush_driver(&self) {}

    pub(super) fn looks_after_drivers(&self) -> bool {
        false
    }

    pub(super) fn drives(&self) -> bool {
        false
    }

    pub(super) fn make_room(&self) {}

    pub(super) fn note_visit(&self) {}

    pub(super) fn sees_completions(&self) -> bool {
        false
    }

    pub(super) fn visits_cost(&self) -> bool {
        false
    }
}
