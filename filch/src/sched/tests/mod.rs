//! Tests of the scheduler, on the rig.

use std::future::poll_fn;

use std::task::{Poll, Waker};

use super::rig::{Log, Rig};
use super::shared::lock;
use crate::base::shim::Mutex;
use crate::spawn::yield_now;
use crate::task::join::JoinHandle;
use crate::task::state::Priority;

mod chain;
mod counters;
mod ends;
mod fair;
mod injector;
mod order;
mod overflow;
mod priority;
mod random;
mod settle;
mod sleep;
mod slot;
mod steal;
mod threads;
mod timers;

/// Closed at first; who passes waits until it is open.
#[derive(Default)]
struct Gate(Mutex<(bool, Vec<Waker>)>);

impl Gate {
    fn open(&self) {
        let mut state = lock(&self.0);
        state.0 = true;
        let waiting = std::mem::take(&mut state.1);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    async fn pass(&self) {
        poll_fn(|cx| {
            let mut state = lock(&self.0);
            if state.0 {
                return Poll::Ready(());
            }
            state.1.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A task of worker 0 that yields for ever and notes every poll.
fn respawn_for_ever(rig: &Rig, what: &'static str) -> JoinHandle<()> {
    let log = rig.log.clone();
    rig.as_worker(0, |_| rig.task().spawn(yield_for_ever(log, what)))
}

async fn yield_for_ever(log: Log, what: &'static str) {
    loop {
        log.note(what);
        yield_now().await;
    }
}

/// A job that spawns its successor for ever, and notes each.
fn respawn_job_for_ever(log: Log, priority: Priority) {
    log.note("job");
    drop(crate::spawn::task().priority(priority).spawn_fn(move || {
        respawn_job_for_ever(log, priority);
    }));
}

/// How many entries come before the first `what`.
#[track_caller]
fn before(log: &[String], what: &str) -> usize {
    let found = log.iter().position(|entry| entry == what);
    found.unwrap_or_else(|| panic!("no {what} among {} entries", log.len()))
}
