//! The end of a runtime, where threads meet in the middle of it.

use std::future::pending;
use std::panic::Location;
use std::sync::Arc;

use crate::Builder;
use crate::sched::blocking::wait_for_group;
use crate::sched::shared::{Phase, Shared};
use crate::sched::shutdown::Shutdown;
use crate::spawn::{Order, create_unowned, create_with};
use crate::task::body::{FutureBody, JobBody};
use crate::task::group::{Group, OnPanic, Tracking};
use crate::task::header::TaskRef;
use crate::task::state;
use crate::testkit::{Condvar, Mutex, Sim, spawn_thread};

/// A gate of a simulation, closed at first.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let mut open = self.0.0.lock().unwrap();
        while !*open {
            open = self.0.1.wait(open).unwrap();
        }
    }
}

/// Opens a gate when it is dropped.
struct Opens(Gate);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Makes a task when it is dropped, and waits until that is gone.
struct Tail(Arc<Shared>);

impl Drop for Tail {
    fn drop(&mut self) {
        let gone = Gate::default();
        let opens = Opens(gone.clone());
        let body = FutureBody(async move {
            let _opens = opens;
            pending::<()>().await;
        });
        self.0.root.enter();
        // As one that looked at the phase before the abort, and that the walk has missed.
        let task = create_unowned(&self.0, None, body, Order::plain(Location::caller()));
        self.0.inject(task);
        gone.pass();
    }
}

#[test]
fn an_abort_walks_on_while_what_it_drops_waits_for_a_task_that_was_missed() {
    Sim::new().check(0..100, || {
        let runtime = Builder::new().io_workers(1).compute_workers(1).build().unwrap();
        let gate = Gate::default();
        let pass = gate.clone();
        let slow = runtime.handle().task().spawn_after((), move || pass.pass());
        let tail = Tail(runtime.handle().arc().clone());
        let late = runtime.handle().task().spawn_after(&slow, move || drop(tail));
        let opener = spawn_thread(move || {
            assert!(late.wait_outcome().unwrap_err().is_cancelled());
            gate.open();
        });
        runtime.shutdown(Shutdown::Abort);
        opener.join().unwrap();
    });
}

#[test]
fn an_abort_leaves_a_job_to_who_is_about_to_push_it() {
    let runtime = Builder::new().workers(1).build().unwrap();
    let shared = runtime.handle().arc().clone();
    // As a post does from a foreign thread, and a walk in between.
    assert!(shared.root.try_enter());
    let task =
        create_unowned(&shared, None, JobBody(|| unreachable!()), Order::plain(Location::caller()));
    // SAFETY: the entry, which is not pushed yet, keeps the cell alive.
    let kept = unsafe { TaskRef::new(task) };
    shared.leave_open();
    shared.advance(Phase::Aborting);
    let _ = shared.cancel_all();
    assert!(kept.header().state.is_cancelled());
    assert_eq!(kept.header().state.phase(), state::Phase::Queued);
    drop(kept);
    shared.inject(task);
    runtime.shutdown(Shutdown::Abort);
    let pool = Arc::downgrade(&shared.pool);
    drop(shared);
    assert_eq!(pool.strong_count(), 0, "no cell is left");
}

#[test]
fn a_job_that_a_helper_ended_may_be_pushed_after_the_runtime_has_ended() {
    let runtime = Builder::new().workers(1).build().unwrap();
    let shared = runtime.handle().arc().clone();
    let group = Group::inside(&shared.root, OnPanic::Continue, Tracking::Yes).unwrap();
    // As a foreign thread spawns with the group's handle: it keeps the runtime's memory (D2).
    assert!(group.try_enter());
    let order = Order::plain(Location::caller());
    let handle = create_with(&shared, None, &group, JobBody(|| 7), order);
    // Somebody who waits for the group finds the job in its list, and all ends before the push.
    drop(Group::take_unit(&group));
    wait_for_group(&group);
    assert!(handle.is_finished());
    drop(group);
    runtime.shutdown(Shutdown::Drain);
    shared.inject(handle.raw());
    assert_eq!(handle.wait(), 7);
    let pool = Arc::downgrade(&shared.pool);
    drop(shared);
    assert_eq!(pool.strong_count(), 0, "no cell is left");
}
