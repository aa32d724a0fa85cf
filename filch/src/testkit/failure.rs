//! What a simulation found, in words.

use std::fmt;

use super::network::Network;
use crate::base::sim::{Cause, World};
use crate::runtime::Handle;

/// A run of a [`Sim`](super::Sim) that did not end well: its seed, and what was going on.
///
/// ```
/// use filch::testkit::{FailureKind, Sim};
/// let failure = Sim::new().find(0..10, || panic!("oh")).unwrap();
/// assert_eq!((failure.seed(), failure.kind()), (0, FailureKind::Panic));
/// assert!(failure.to_string().contains("FILCH_SIM_SEED=0"));
/// ```
#[derive(Clone, Debug)]
pub struct Failure {
    seed: u64,
    kind: FailureKind,
    report: String,
}

/// How a run failed.
///
/// ```
/// use filch::testkit::{FailureKind, Sim};
/// let failure = Sim::new().find(0..1, || filch::block_on(std::future::pending::<()>())).unwrap();
/// assert_eq!(failure.kind(), FailureKind::Deadlock);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The program panicked, or returned a failure.
    Panic,
    /// Everybody waits, no time will change that, and the program has not ended.
    Deadlock,
    /// The program came to more switches than it may
    /// ([`Sim::most_switches`](super::Sim::most_switches)).
    Endless,
    /// The participant that runs does not come to a switch: it waits for something that no
    /// participant brings, such as a `std` lock that another one holds across a switch.
    Blocked,
    /// A thread of the runtime panicked: a flaw of the runtime.
    Runtime,
}

impl Failure {
    /// The seed that replays the run.
    ///
    /// ```
    /// use filch::testkit::Sim;
    /// assert_eq!(Sim::new().find(3..9, || panic!("oh")).unwrap().seed(), 3);
    /// ```
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How the run failed.
    ///
    /// ```
    /// use filch::testkit::{FailureKind, Sim};
    /// assert_eq!(Sim::new().find(0..1, || panic!("oh")).unwrap().kind(), FailureKind::Panic);
    /// ```
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    pub(super) fn of_program(seed: u64, text: &str) -> Self {
        Self { seed, kind: FailureKind::Panic, report: format!("{text}\n") }
    }

    pub(super) fn of_world(
        seed: u64,
        cause: &Cause,
        world: &World,
        network: &Network,
        handle: Option<&Handle>,
    ) -> Self {
        let (kind, mut report) = match cause {
            Cause::Deadlock => (
                FailureKind::Deadlock,
                "deadlock: everybody waits, and nothing is left that could happen\n".to_owned(),
            ),
            Cause::Endless => (
                FailureKind::Endless,
                "the program goes on and on: it came to more switches than it may\n".to_owned(),
            ),
            Cause::Stalled { asleep: true } => (
                FailureKind::Blocked,
                format!(
                    "participant {} blocks outside of filch: a std lock held across a switch?\n",
                    world.holder()
                ),
            ),
            Cause::Stalled { asleep: false } => (
                FailureKind::Blocked,
                format!("participant {} runs on without a switch\n", world.holder()),
            ),
            Cause::Panicked(text) => {
                (FailureKind::Runtime, format!("a thread of the runtime panicked: {text}\n"))
            }
        };
        // Elsewhere, somebody may hold a lock that the walk over the tasks needs.
        if let (Cause::Deadlock | Cause::Endless, Some(handle)) = (cause, handle) {
            report += &tasks_of(handle);
            report += &network.describe();
        }
        report += &world.describe();
        Self { seed, kind, report }
    }
}

fn tasks_of(handle: &Handle) -> String {
    let tasks = handle.tasks();
    if tasks.is_empty() {
        return "no task is alive\n".to_owned();
    }
    tasks
        .iter()
        .fold("tasks that are alive:\n".to_owned(), |text, task| text + &format!("  {task}\n"))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, report, .. } = self;
        write!(f, "simulation with seed {seed}: {report}replay it alone: FILCH_SIM_SEED={seed}")
    }
}

impl std::error::Error for Failure {}
