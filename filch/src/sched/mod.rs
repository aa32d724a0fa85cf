//! The scheduler: the one place where queues, idle set, tasks and threads meet.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `shared` | what do all threads of a runtime have in common? |
//! | `schedule` | where does a ready task go, and who is woken? |
//! | `worker` | in what order does a worker serve its sources? |
//! | `next` | which task is next? |
//! | `run` | how does a worker run it? |
//! | `steal` | whose work does an idle worker take? |
//! | `ripe` | is a job worth a theft? |
//! | `sleep` | how does it go to sleep without missing work? |
//! | `forks` | who runs the stolen half of a `join`, and what does its owner do? |
//! | `nodes` | who runs the nodes of a graph, and what does the caller of the run do? |
//! | `adopt` | how does a thread from outside work here? |
//! | `crew` | who replaces a worker that blocks? |
//! | `blocking` | how does a thread wait without stalling the others? |
//! | `blockers` | which threads run closures that block? |
//! | `sentry` | who notices that a worker is stuck? |
//! | `drive` | how does I/O reach the workers? |
//! | `no_drive` | what takes its place where the system is not Linux? |
//! | `visits` | when does a worker look at its events, and who gets what they make ready? |
//! | `timers` | whose wheel does a timer go to, and who looks at it? |
//! | `core` | where does a worker park, and what wakes it? |
//! | `finder` | which thread runs which task? |
//! | `roster` | who is attached, under what name? |
//! | `start` | how do threads begin and end? |
//! | `grow` | when does a crew follow the load? |
//! | `leave` | how does a worker leave without losing anything? |
//! | `life` | how does a caller run a runtime? |
//! | `pump` | how does a worker live in somebody else's loop? |
//! | `watch` | who adds sources to an event core? |
//! | `poll` | how does a worker wait for descriptors of the program's? |
//! | `slices` | who goes first while both lanes want the same cores? |
//! | `kept` | what does the end of a runtime not wait for? |
//! | `forked` | what may a forked child do with it? |
//! | `shutdown` | how does a runtime end, and who holds it up? |
//! | `limits` | until when does an end wait? |
//! | `report` | what does an end tell? |

pub(crate) mod adopt;
pub(crate) mod blockers;
pub(crate) mod blocking;
pub(crate) mod core;
pub(crate) mod crew;
#[cfg(target_os = "linux")]
pub(crate) mod drive;
#[cfg(not(target_os = "linux"))]
#[path = "no_drive.rs"]
pub(crate) mod drive;
pub(crate) mod finder;
pub(crate) mod forked;
pub(crate) mod forks;
pub(crate) mod grow;
pub(crate) mod kept;
pub(crate) mod leave;
pub(crate) mod life;
mod limits;
pub(crate) mod next;
pub(crate) mod nodes;
#[cfg(unix)]
pub(crate) mod poll;
pub(crate) mod pump;
pub(crate) mod report;
pub(crate) mod ripe;
pub(crate) mod roster;
pub(crate) mod run;

pub(crate) mod schedule;
pub(crate) mod sentry;
pub(crate) mod shared;
pub(crate) mod shutdown;
pub(crate) mod sleep;
pub(crate) mod slices;
pub(crate) mod start;
pub(crate) mod steal;
pub(crate) mod timers;
pub(crate) mod visits;
pub(crate) mod watch;
pub(crate) mod worker;

#[cfg(test)]
mod rig;
#[cfg(test)]
mod tests;
