//! Tokio on the loop's thread, rayon beside it (G1 of `frames`).

use super::Framed;
use crate::bench::servers::{LOOP, Work};
use rayon::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::{LocalSet, yield_now};

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
