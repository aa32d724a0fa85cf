//! Crews that change while they work: nothing is lost, and who cannot leave says why.

use std::io::Write;
use std::net::{TcpListener, TcpStream as StdStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use filch::io::AsyncReadExt;
use filch::net::TcpStream;
use filch::testkit::{Clock, ManualClock};
use filch::{
    AttachError, Builder, DetachError, Graph, Handle, IoBackend, NewWorker, PostRefusal, Role,
    Shutdown, WorkerId, worker,
};

use crate::support::{Drops, Gate, occupy, receive, until, watched};

const MS: Duration = Duration::from_millis(1);

#[test]
fn an_attached_worker_takes_part_under_its_name() {
    watched(|| {
        let runtime = Builder::new().workers(1).attachable_workers(1).build().unwrap();
        let gate = Gate::default();
        for worker in runtime.workers() {
            occupy(&runtime, worker.id, &gate);
        }
        // Everybody is inside a task: only who comes can run these.
        let io = runtime.attach(NewWorker::io().name("helper-io")).unwrap();
        let compute = runtime.attach(NewWorker::compute().name("helper-cpu")).unwrap();
        let (send, ran) = mpsc::channel();
        let tell = move || {
            let name = std::thread::current().name().map(str::to_owned);
            send.send((worker::current().unwrap().id(), name)).unwrap();
        };
        runtime.post(tell.clone()).unwrap();
        assert_eq!(receive(&ran), (io, Some("helper-io".to_owned())));
        runtime.post_compute(tell).unwrap();
        assert_eq!(receive(&ran), (compute, Some("helper-cpu".to_owned())));
        gate.open();
    });
}

#[test]
fn what_an_attached_worker_posts_locally_is_taken_by_those_who_were_there_before() {
    watched(|| {
        let builder = Builder::new().workers(1).attachable_workers(3).io_spares(0);
        let runtime = builder.compute_spares(0).build().unwrap();
        for role in [Role::Io, Role::Compute] {
            let old = runtime.workers().into_iter().find(|worker| worker.role == role).unwrap().id;
            let new = || if role == Role::Io { NewWorker::io() } else { NewWorker::compute() };
            // The last of many, one after another while the others look for work.
            let attached: Vec<_> = (0..3).map(|_| runtime.attach(new()).unwrap()).collect();
            let gate = Gate::default();
            attached[..2].iter().for_each(|&worker| occupy(&runtime, worker, &gate));
            let (handle, (send, ran)) = (runtime.handle(), mpsc::channel());
            let post = move || {
                let done = Gate::default();
                let open = done.clone();
                let task = move || {
                    send.send(worker::current().unwrap().id()).unwrap();
                    open.open();
                };
                match role {
                    Role::Compute => handle.post_compute(task).unwrap(),
                    _ => worker::post_local(task).unwrap(),
                }
                done.pass();
            };
            runtime.post_to(attached[2], post).unwrap();
            assert_eq!(receive(&ran), old);
            gate.open();
        }
    });
}

#[test]
fn there_is_room_for_as_many_as_the_program_asked_for() {
    watched(|| {
        let runtime = Builder::new().workers(1).attachable_workers(1).build().unwrap();
        let first = runtime.attach(NewWorker::io()).unwrap();
        let full = runtime.attach(NewWorker::io());
        assert!(matches!(full, Err(AttachError::NoPlace { role: Role::Io, places: 2 })));
        runtime.detach(first).wait().unwrap();
        runtime.attach(NewWorker::io()).unwrap();
        let handle = runtime.handle();
        runtime.shutdown(Shutdown::Drain);
        assert!(matches!(handle.attach(NewWorker::io()), Err(AttachError::ShutDown)));
    });
}

#[test]
fn the_last_of_a_role_stays_and_the_first_of_two_may_go() {
    watched(|| {
        let runtime = Builder::new().io_workers(2).compute_workers(1).build().unwrap();
        let [first, second, compute] = [0, 1, 2].map(|at| runtime.workers()[at].id);
        let last = runtime.detach(compute).wait();
        assert!(matches!(last, Err(DetachError::Last { role: Role::Compute })));
        runtime.detach(first).wait().unwrap();
        assert!(matches!(runtime.detach(first).wait(), Err(DetachError::Gone)));
        let last = runtime.detach(second).wait();
        assert!(matches!(last, Err(DetachError::Last { role: Role::Io })));
        assert_eq!(runtime.spawn(async { 1 }).wait(), 1);
        let other = Builder::new().workers(1).build().unwrap();
        assert!(matches!(other.detach(second).wait(), Err(DetachError::Unknown)));
    });
}

#[test]
fn a_worker_with_a_pinned_future_stays_and_names_it() {
    watched(|| {
        let runtime = Builder::new().io_workers(2).compute_workers(1).build().unwrap();
        let worker = runtime.workers()[1].id;
        let (open, gate) = filch::sync::oneshot::channel::<()>();
        let pinned = runtime.spawn_to(worker, move || async move { _ = gate.await }).unwrap();
        match runtime.detach(worker).wait() {
            Err(DetachError::Pinned(tasks)) => {
                assert_eq!(tasks.iter().map(|task| task.id).collect::<Vec<_>>(), [pinned.id()]);
                let text = DetachError::Pinned(tasks).to_string();
                assert!(text.contains("1 task is pinned") && text.contains("crews.rs"), "{text}");
            }
            other => panic!("{other:?}"),
        }
        // It goes on, and is posted to as before.
        let (send, ran) = mpsc::channel();
        runtime.post_to(worker, move || send.send(()).unwrap()).unwrap();
        receive(&ran);
        drop(open);
        pinned.wait();
        runtime.detach(worker).wait().unwrap();
    });
}

#[test]
fn posts_that_landed_before_the_last_look_run_on_the_worker_that_leaves() {
    watched(|| {
        let runtime = Builder::new().io_workers(2).compute_workers(1).build().unwrap();
        let worker = runtime.workers()[1].id;
        let (gate, order) = (Gate::default(), Arc::new(Mutex::new(Vec::new())));
        occupy(&runtime, worker, &gate);
        let post = |number: usize| {
            let order = order.clone();
            runtime.post_to(worker, move || {
                assert_eq!(worker::current().unwrap().id(), worker);
                order.lock().unwrap().push(number);
            })
        };
        (0..50).for_each(|number| post(number).unwrap());
        let detach = runtime.detach(worker);
        // It has not heard yet: this lands, too.
        post(50).unwrap();
        gate.open();
        detach.wait().unwrap();
        assert_eq!(*order.lock().unwrap(), (0..=50).collect::<Vec<_>>());
        assert_eq!(post(51).unwrap_err().reason, PostRefusal::Detached);
    });
}

#[test]
fn what_a_worker_that_leaves_has_posted_to_itself_runs_there_first() {
    watched(|| {
        let builder = Builder::new().io_workers(2).compute_workers(1);
        // So a step runs some of them.
        let runtime = builder.private_budget(4).build().unwrap();
        let worker = runtime.workers()[1].id;
        let (gate, order) = (Gate::default(), Arc::new(Mutex::new(Vec::new())));
        occupy(&runtime, worker, &gate);
        let detach = runtime.detach(worker);
        let noted = order.clone();
        let fill = move || {
            for number in 0..50 {
                let order = noted.clone();
                let note = move || {
                    assert_eq!(worker::current().unwrap().id(), worker);
                    order.lock().unwrap().push(number);
                };
                worker::post_self(note).unwrap();
            }
        };
        // Behind the request, which is heard in the same step: the mailbox is empty then.
        runtime.post_to(worker, fill).unwrap();
        gate.open();
        detach.wait().unwrap();
        assert_eq!(*order.lock().unwrap(), (0..50).collect::<Vec<_>>());
    });
}

/// Calls `f` on a worker, with everybody else of its lane inside a task; they go on when the worker has left.
fn leave_after(handle: &Handle, worker: WorkerId, f: impl FnOnce() + Send + 'static) {
    let gate = Gate::default();
    let role = |id| handle.workers().into_iter().find(|w| w.id == id).unwrap().role;
    for other in handle.workers() {
        if other.id != worker && other.role == role(worker) {
            occupy(handle, other.id, &gate);
        }
    }
    let (send, done) = mpsc::channel();
    let target = handle.clone();
    handle
        .post_to(worker, move || {
            f();
            drop(target.detach(worker));
            send.send(()).unwrap();
        })
        .unwrap();
    receive(&done);
    until(|| !handle.workers().iter().any(|other| other.id == worker));
    gate.open();
}

#[test]
fn tasks_and_jobs_that_lie_with_a_worker_that_leaves_run_elsewhere() {
    watched(|| {
        let runtime = Builder::new().workers(2).io_spares(0).compute_spares(0).build().unwrap();
        let [io, compute] = [1, 3].map(|at| runtime.workers()[at].id);
        let ran = Arc::new(AtomicUsize::new(0));
        let count = {
            let ran = ran.clone();
            move || _ = ran.fetch_add(1, Ordering::SeqCst)
        };
        let (handle, counted) = (runtime.handle(), count.clone());
        leave_after(&runtime, io, move || {
            for _ in 0..100 {
                handle.post(counted.clone()).unwrap();
                let count = counted.clone();
                drop(handle.spawn(async move { count() }));
            }
        });
        let handle = runtime.handle();
        leave_after(&runtime, compute, move || {
            for _ in 0..100 {
                handle.post_compute(count.clone()).unwrap();
                drop(handle.spawn_fn(count.clone()));
            }
        });
        until(|| ran.load(Ordering::SeqCst) == 400);
        assert_eq!(runtime.workers().len(), 2);
    });
}

#[test]
fn nodes_of_a_graph_that_lie_with_a_worker_that_leaves_run_elsewhere() {
    const LEAVES: usize = 1000;
    watched(|| {
        let builder = Builder::new().workers(2).compute_spares(0);
        // So a step runs few of them.
        let runtime = builder.local_budget(2).global_interval(2).build().unwrap();
        let [other, leaver] = [2, 3].map(|at| runtime.workers()[at].id);
        let (handle, ran) = (runtime.handle(), Arc::new(AtomicUsize::new(0)));
        let mut graph = Graph::new();
        // With the nodes that it makes ready in its deque, its worker leaves.
        let source = graph.node("source", move || drop(handle.detach(leaver)));
        for number in 0..LEAVES {
            let ran = ran.clone();
            let leaf = graph.node(format!("leaf {number}"), move || {
                ran.fetch_add(1, Ordering::SeqCst);
            });
            graph.precede(source, leaf);
        }
        let gate = Gate::default();
        occupy(&runtime, other, &gate);
        let (send, started) = mpsc::channel();
        let graph = Arc::new(graph);
        runtime.post_to(leaver, move || send.send(graph.run_async()).unwrap()).unwrap();
        let run = receive(&started);
        until(|| runtime.workers().iter().all(|worker| worker.id != leaver));
        assert!(ran.load(Ordering::SeqCst) < LEAVES, "some are left");
        gate.open();
        run.wait();
        assert_eq!(ran.load(Ordering::SeqCst), LEAVES);
    });
}

#[test]
fn a_place_that_was_left_has_timers_again_that_come_at_their_time() {
    watched(|| {
        let clock = Arc::new(ManualClock::new());
        let builder = Builder::new().io_workers(2).compute_workers(1).io_spares(0);
        let runtime = builder.clock(Clock::Manual(clock.clone())).build().unwrap();
        runtime.detach(runtime.workers()[1].id).wait().unwrap();
        let worker = runtime.attach(NewWorker::io()).unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let (send, posted) = mpsc::channel();
        let count = ran.clone();
        let delayed = move || {
            let count = move || _ = count.fetch_add(1, Ordering::SeqCst);
            drop(worker::post_self_delayed(10 * MS, count).unwrap());
            send.send(()).unwrap();
        };
        runtime.post_to(worker, delayed).unwrap();
        receive(&posted);
        assert_eq!(runtime.snapshot().workers[1].timers, 1);
        clock.advance(9 * MS);
        runtime.spawn(async {}).wait();
        assert_eq!(ran.load(Ordering::SeqCst), 0);
        clock.advance(MS);
        until(|| ran.load(Ordering::SeqCst) == 1);
    });
}

#[test]
fn timers_of_a_worker_that_leaves_fire_elsewhere_at_their_time() {
    watched(|| {
        let clock = Arc::new(ManualClock::new());
        let builder = Builder::new().io_workers(2).compute_workers(1).io_spares(0);
        let runtime = builder.clock(Clock::Manual(clock.clone())).build().unwrap();
        let worker = runtime.workers()[1].id;
        let ran = Arc::new(AtomicUsize::new(0));
        let (handle, counted) = (runtime.handle(), ran.clone());
        let count = move || _ = counted.fetch_add(1, Ordering::SeqCst);
        leave_after(&runtime, worker, move || {
            for _ in 0..100 {
                drop(handle.post_delayed(10 * MS, count.clone()).unwrap());
                drop(worker::post_self_delayed(10 * MS, count.clone()).unwrap());
            }
        });
        runtime.spawn(async {}).wait();
        assert_eq!(ran.load(Ordering::SeqCst), 0, "moved, not fired");
        until(|| runtime.snapshot().workers[0].timers == 200);
        assert_eq!(runtime.snapshot().workers[1].timers, 0);
        clock.advance(10 * MS);
        until(|| ran.load(Ordering::SeqCst) == 200);
    });
}

fn operations_in_flight(backend: IoBackend) {
    let builder = Builder::new().io_workers(2).compute_workers(1).io_backend(backend);
    let Ok(runtime) = builder.io_spares(0).build() else {
        eprintln!("skipped: the system refuses {backend}");
        return;
    };
    let worker = runtime.workers()[1].id;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peers: Vec<(StdStream, StdStream)> = (0..8)
        .map(|_| {
            let here = StdStream::connect(listener.local_addr().unwrap()).unwrap();
            (here, listener.accept().unwrap().0)
        })
        .collect();
    let (send, sums) = mpsc::channel();
    let (mut writers, readers): (Vec<_>, Vec<_>) = peers.into_iter().unzip();
    let handle = runtime.handle();
    leave_after(&runtime, worker, move || {
        for reader in readers {
            let send = send.clone();
            // Polled here and now, so that it is in flight on this worker.
            drop(worker::post_self(move || {
                let mut read = Box::pin(async move {
                    reader.set_nonblocking(true).unwrap();
                    let mut stream = TcpStream::from_std(reader).unwrap();
                    let mut bytes = [0; 4];
                    AsyncReadExt::read_exact(&mut stream, &mut bytes).await.unwrap();
                    AsyncReadExt::read_exact(&mut stream, &mut bytes).await.unwrap();
                    send.send(u32::from_le_bytes(bytes)).unwrap();
                });
                let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
                assert!(read.as_mut().poll(&mut cx).is_pending());
                drop(handle_of_here().spawn(read));
            }));
        }
    });
    drop(handle);
    for (number, writer) in (0u32..).zip(&mut writers) {
        writer.write_all(&[0; 4]).unwrap();
        writer.write_all(&number.to_le_bytes()).unwrap();
    }
    let sum: u32 = (0..8).map(|_| receive(&sums)).sum();
    assert_eq!(sum, 28);
}

fn handle_of_here() -> Handle {
    worker::current().unwrap().runtime().clone()
}

#[test]
fn operations_in_flight_on_a_worker_that_leaves_end_elsewhere_on_a_ring() {
    watched(|| operations_in_flight(IoBackend::Uring));
}

#[test]
fn operations_in_flight_on_a_worker_that_leaves_end_elsewhere_on_epoll() {
    watched(|| operations_in_flight(IoBackend::Epoll));
}

#[test]
fn a_post_that_races_with_a_detach_runs_or_comes_back() {
    watched(|| {
        let builder = Builder::new().workers(1).attachable_workers(1);
        let runtime = builder.build().unwrap();
        for _ in 0..50 {
            let worker = runtime.attach(NewWorker::io()).unwrap();
            let (drops, ran) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
            let posters: Vec<_> = (0..2)
                .map(|_| {
                    let (handle, drops, ran) = (runtime.handle(), drops.clone(), ran.clone());
                    std::thread::spawn(move || {
                        let mut returned = 0;
                        loop {
                            let (token, ran) = (drops.token(), ran.clone());
                            let task = move || {
                                ran.fetch_add(1, Ordering::SeqCst);
                                drop(token);
                            };
                            if handle.post_to(worker, task).is_err() {
                                returned += 1;
                                if returned == 3 {
                                    return returned;
                                }
                            }
                        }
                    })
                })
                .collect();
            runtime.detach(worker).wait().unwrap();
            let returned: usize = posters.into_iter().map(|poster| poster.join().unwrap()).sum();
            assert_eq!(drops.count(), ran.load(Ordering::SeqCst) + returned);
        }
    });
}

#[test]
fn a_worker_detaches_itself_from_a_task_that_goes_on_elsewhere() {
    watched(|| {
        let runtime = Builder::new().io_workers(2).compute_workers(1).build().unwrap();
        let task = runtime.spawn(async {
            let here = worker::current().unwrap();
            let left = here.runtime().detach(here.id()).await;
            (left, here.id() == worker::current().unwrap().id())
        });
        let (left, same) = runtime.block_on(task);
        left.unwrap();
        assert!(!same);
        assert_eq!(runtime.workers().len(), 2);
    });
}

#[test]
fn a_detach_is_answered_though_the_runtime_ends_first() {
    watched(|| {
        let runtime = Builder::new().io_workers(2).compute_workers(1).build().unwrap();
        let (worker, gate) = (runtime.workers()[1].id, Gate::default());
        occupy(&runtime, worker, &gate);
        let detach = runtime.detach(worker);
        let opener = std::thread::spawn({
            let handle = runtime.handle();
            move || {
                until(|| handle.attach(NewWorker::io()).is_err());
                gate.open();
            }
        });
        runtime.shutdown(Shutdown::Abort);
        opener.join().unwrap();
        // It left, or the end was faster.
        let answer = detach.wait();
        assert!(matches!(answer, Ok(()) | Err(DetachError::ShutDown)), "{answer:?}");
    });
}

#[test]
fn an_elastic_crew_grows_while_work_waits_and_shrinks_when_there_is_none() {
    watched(|| {
        let builder = Builder::new().workers(1).attachable_workers(2).elastic(true);
        let runtime = builder.spare_keep_alive(5 * MS).build().unwrap();
        let gate = Gate::default();
        // Three at once, each of which blocks its thread without saying so.
        let meet = Arc::new(std::sync::Barrier::new(3));
        for _ in 0..3 {
            let (meet, gate) = (meet.clone(), gate.clone());
            let task = move || {
                meet.wait();
                gate.pass();
            };
            runtime.post_compute(task).unwrap();
        }
        let computing = || runtime.workers().iter().filter(|w| w.role == Role::Compute).count();
        until(|| computing() == 3);
        gate.open();
        until(|| computing() == 1);
        assert_eq!(runtime.block_on(runtime.spawn_fn(|| 1)), 1);
    });
}
