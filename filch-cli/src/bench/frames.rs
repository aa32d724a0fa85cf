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

use super::peers::BASE;
use super::servers::{LOOP, Work, compute_on_filch};
use filch::{Builder, Pump, WorkerId};
use rayon::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::{LocalSet, yield_now};

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

pub struct Tokio {
    runtime: runtime::Runtime,
    tasks: LocalSet,
    pool: Arc<rayon::ThreadPool>,
}

impl Framed for Tokio {
    const NAME: &'static str = "tokio+rayon";

    fn start(threads: usize) -> Self {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        Self {
            runtime: runtime.expect("tokio starts"),
            tasks: LocalSet::new(),
            pool: Arc::new(pool.expect("rayon starts")),
        }
    }

    fn compute(&self, work: &'static Work) {
        self.pool.spawn(move || {
            while work.goes_on() {
                (0..LOOP).into_par_iter().for_each(|_| work.piece());
            }
        });
    }

    fn act(&self, work: &'static Work) {
        let pool = self.pool.clone();
        drop(self.tasks.spawn_local(async move {
            while work.goes_on() {
                let (done, result) = oneshot::channel();
                pool.spawn(move || {
                    work.piece();
                    // The task may be gone.
                    let _ = done.send(());
                });
                if result.await.is_err() {
                    return;
                }
            }
        }));
    }

    fn frame(&mut self, _: Duration) {
        self.tasks.block_on(&self.runtime, yield_now());
    }
}

#[cfg(test)]
mod tests {
    use super::{Filch, Framed, Tokio};
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
        acts::<Tokio>();
    }
}
