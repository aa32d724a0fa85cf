//! Loops with frames: a program that owns its thread and lends it to a runtime once in each frame, behind one
//! trait.
//!
//! G1. Each method is what a user of that runtime would write. Tokio has no pump: a program enters a
//!     runtime of the current thread in each frame and yields once, which polls everything that is ready; there
//!     is no budget. Its tasks compute on rayon and hear of it through a oneshot channel.
//! G2. All computation of a runtime shares its threads: what saturates them, and what tasks of the loop ask
//!     for.
//!
//! Not here: the loop itself, and what is measured (`scenarios/pump`).

#[cfg(feature = "peers")]
mod tokio;

#[cfg(feature = "peers")]
pub use tokio::Tokio;

use super::peers::BASE;
use super::servers::{Work, compute_on_filch};
use filch::{Builder, Pump, WorkerId};
use std::time::Duration;

/// A runtime with tasks on the thread that made it, which run when it lets them.
pub trait Framed: Sized {
    const NAME: &'static str;

    /// With so many threads that compute.
    fn start(threads: usize) -> Self;

    /// Has all of them compute until the work is over.
    fn compute(&self, work: &'static Work);

    /// Starts a task of this thread that has one piece after the other computed, until the work is over.
    fn act(&self, work: &'static Work);

    /// Runs tasks of this thread, for about so long at most.
    fn frame(&mut self, budget: Duration);
}

pub struct Filch(Pump, WorkerId);

impl Framed for Filch {
    const NAME: &'static str = BASE;

    fn start(threads: usize) -> Self {
        let hive = Builder::new().io_workers(1).compute_workers(threads).hive();
        let hive = hive.expect("filch starts");
        let here = hive.workers()[0].id;
        // Frames come by themselves.
        Self(hive.pump(|| ()).expect("its threads start"), here)
    }

    fn compute(&self, work: &'static Work) {
        compute_on_filch(self.0.handle(), work);
    }

    fn act(&self, work: &'static Work) {
        let actor = self.0.handle().spawn_to(self.1, move || async move {
            while work.goes_on() {
                filch::cpu(|| work.piece()).await;
            }
        });
        drop(actor.expect("it is attached"));
    }

    fn frame(&mut self, budget: Duration) {
        // Whether something is left does not matter: the next frame comes.
        let _ = self.0.run(budget);
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "peers")]
    use super::Tokio;
    use super::{Filch, Framed};
    use crate::bench::servers::Work;
    use std::time::Duration;

    #[test]
    fn tasks_of_the_loop_go_on_in_its_frames_while_all_threads_compute() {
        fn acts<F: Framed>() {
            let (mut frames, work) = (F::start(2), Work::new());
            frames.compute(work);
            let alone = Work::new();
            frames.act(alone);
            while alone.pieces() < 5 {
                frames.frame(Duration::from_millis(1));
            }
            alone.end();
            work.end();
        }
        acts::<Filch>();
        #[cfg(feature = "peers")]
        acts::<Tokio>();
    }
}
