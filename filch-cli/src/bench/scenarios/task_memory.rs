//! What a task that waits costs in resident memory, its 64 bytes of state included.

use super::{Load, Metric, Process, Scenario, WarmUp};
use crate::bench::machine::resident_bytes;
use crate::bench::peers::{Peer, started};
use std::future::pending;
use std::hint::black_box;
use std::mem::{self, MaybeUninit};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tasks that are queued together; small, so that no queue grows for the measurement's sake.
const BATCH: usize = 100;

/// Bytes that live across the await.
const STATE: usize = 64;

pub struct TaskMemory;

impl Scenario for TaskMemory {
    const NAME: &'static str = "task_memory";
    const ABOUT: &'static str = "resident bytes per pending task with 64 bytes of state, 1e5 tasks";
    const METRICS: &'static [Metric] = &[Metric { name: "bytes", unit: "B" }];
    const PROCESS: Process = Process::Fresh;
    const WARM_UP: WarmUp = WarmUp::Needless;

    fn run<P: Peer>(load: Load) -> Vec<f64> {
        let tasks = load.pick(100_000, 20_000);
        let peer = started::<P>(load.threads);
        let handles = touched::<P::Join<()>>(tasks);
        let before = resident_bytes();
        let handles = peer.run_on_worker(fill::<P>(handles, tasks));
        let grown = resident_bytes().saturating_sub(before);
        // A runtime may wait for its tasks when it goes, and these never end; the process does.
        mem::forget(handles);
        mem::forget(peer);
        vec![grown as f64 / tasks as f64]
    }
}

/// An empty vector whose whole capacity is resident.
fn touched<T>(capacity: usize) -> Vec<T> {
    let mut vector = black_box(Vec::with_capacity(capacity));
    vector.spare_capacity_mut().fill_with(MaybeUninit::zeroed);
    black_box(vector)
}

async fn fill<P: Peer>(mut handles: Vec<P::Join<()>>, tasks: usize) -> Vec<P::Join<()>> {
    let waiting: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
    for batch in 1..=tasks / BATCH {
        handles.extend((0..BATCH).map(|_| P::spawn(wait_for_ever(waiting))));
        // ORDERING: Relaxed, a count that publishes nothing.
        while waiting.load(Ordering::Relaxed) < batch * BATCH {
            P::yield_now().await;
        }
    }
    handles
}

async fn wait_for_ever(waiting: &'static AtomicUsize) {
    let state = black_box([1_u8; STATE]);
    // ORDERING: Relaxed, a count that publishes nothing.
    waiting.fetch_add(1, Ordering::Relaxed);
    pending::<()>().await;
    black_box(&state);
}

#[cfg(test)]
mod tests {
    use super::{STATE, wait_for_ever};
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn the_future_holds_its_state_once_and_two_words_more() {
        static WAITING: AtomicUsize = AtomicUsize::new(0);
        let size = size_of_val(&wait_for_ever(&WAITING));
        assert!((STATE..=STATE + 2 * size_of::<usize>()).contains(&size), "{size}");
    }
}
