//! Crews that grow with the load, whoever makes it.

use std::sync::mpsc;

use filch::{Builder, Priority, spawn_after};

use crate::support::{Gate, receive, watched};

/// One compute worker, which others may join.
fn builder() -> Builder {
    Builder::new().io_workers(1).compute_workers(1).attachable_workers(2).elastic(true)
}

#[test]
fn a_crew_grows_for_a_dependent_that_an_io_worker_spawns() {
    watched(|| {
        let runtime = builder().build().unwrap();
        let gate = Gate::default();
        let (send, there) = mpsc::channel();
        let pass = gate.clone();
        let block = move || {
            send.send(()).unwrap();
            pass.pass();
        };
        let blocked = runtime.spawn_fn(block);
        receive(&there);
        runtime.spawn(async move { drop(spawn_after((), move || gate.open())) }).wait();
        blocked.wait();
    });
}

#[test]
fn a_crew_grows_for_a_dependent_that_does_not_lie_in_its_spawners_deque() {
    for priority in [Priority::High, Priority::Low] {
        watched(move || {
            let runtime = builder().build().unwrap();
            let (send, ended) = mpsc::channel();
            let block = move || {
                let gate = Gate::default();
                let open = gate.clone();
                drop(filch::task().priority(priority).spawn_after((), move || open.open()));
                gate.pass();
                send.send(()).unwrap();
            };
            runtime.post_compute(block).unwrap();
            receive(&ended);
        });
    }
}
