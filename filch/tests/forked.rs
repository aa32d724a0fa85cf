//! `fork()`: a child refuses its parent's runtimes, and makes its own.
//!
//! Each situation forks in a process of its own, on each backend: the variable `FILCH_IO` chooses that for all
//! runtimes, the default one included.
#![cfg(all(target_os = "linux", not(miri)))]

use std::future::{Future, pending, poll_fn};
use std::io;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use filch::net::{TcpListener, TcpStream};
use filch::{Builder, JoinHandle, Runtime, Shutdown};

/// What every refusal says.
const REFUSED: &str = "this process was forked; the runtime of the parent has no threads here: \
     build a new runtime in the child";

/// How long a child may take. Far more than any needs: a slow machine is no failure.
const PATIENCE: u32 = 50;

fn runtime() -> Runtime {
    Builder::new().workers(2).adoptable_threads(1).build().expect("a runtime")
}

/// How a child ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Status(i32),
    /// `SIGALRM` if it hung.
    Signal(i32),
}

/// Forks. The child gets `Err(Child)`, the parent what to wait for it with.
fn fork() -> Result<impl FnOnce() -> End, Child> {
    // SAFETY: the child does what its test is about, and ends by `Child::end`.
    match unsafe { libc::fork() } {
        -1 => panic!("{}", io::Error::last_os_error()),
        0 => {
            // SAFETY: it takes an integer. Ends the child if it hangs.
            unsafe { libc::alarm(PATIENCE) };
            Err(Child)
        }
        child => Ok(move || {
            let mut status = 0;
            // SAFETY: the status lives during the call.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            if libc::WIFSIGNALED(status) {
                End::Signal(libc::WTERMSIG(status))
            } else {
                End::Status(libc::WEXITSTATUS(status))
            }
        }),
    }
}

/// This is the child.
struct Child;

impl Child {
    /// Runs the child's part of the test and ends the process, with status 0 if it did not panic.
    fn does(self, part: impl FnOnce()) -> ! {
        let ended = catch_unwind(AssertUnwindSafe(part));
        // SAFETY: it takes an integer.
        unsafe { libc::_exit(i32::from(ended.is_err())) }
    }
}

/// Calls `f`, which must be refused.
#[track_caller]
fn refused<T>(what: &str, f: impl FnOnce() -> T) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else { panic!("{what} was not refused") };
    let text = payload.downcast_ref::<String>().expect("a text");
    assert!(text.contains(REFUSED), "{what}: {text}");
}

/// Echoes one message between two tasks, waits for a timer, and computes.
fn works(runtime: &Runtime) {
    runtime.block_on(async {
        let (client, server) = pair().await;
        let echo = filch::spawn(async move {
            let (read, bytes) = server.read_exact(vec![0; 4]).await;
            read.unwrap();
            server.write_all(bytes).await.0.unwrap();
        });
        client.write_all(b"ping".to_vec()).await.0.unwrap();
        let (read, bytes) = client.read_exact(vec![0; 4]).await;
        read.unwrap();
        assert_eq!(bytes, b"ping");
        echo.await;
        filch::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(filch::spawn_fn(|| filch::join(|| 1, || 2)).await, (1, 2));
    });
    assert_eq!(runtime.spawn_blocking(|| 3).wait(), 3);
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap().0)
}

/// Polls a future once.
fn begin<F: Future>(future: Pin<&mut F>) {
    let polled = future.poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
}

fn handles_are_refused() {
    let runtime = runtime();
    let (client, server) = runtime.block_on(pair());
    let waits = runtime.spawn(pending::<()>());
    let done = runtime.spawn(async { 1 });
    while !done.is_finished() {
        std::thread::yield_now();
    }
    // Begun before the fork: a read that waits, a timer in a wheel.
    let mut read = Box::pin(server.read_exact(vec![0; 4]));
    let mut sleep = Box::pin(filch::time::sleep(Duration::from_secs(1000)));
    runtime.block_on(poll_fn(|cx| {
        assert!(read.as_mut().poll(cx).is_pending() && sleep.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    }));
    let end = match fork() {
        Ok(end) => end,
        Err(child) => child.does(|| {
            refused("spawn", || runtime.spawn(async {}));
            refused("spawn_fn", || runtime.spawn_fn(|| ()));
            refused("spawn_blocking", || runtime.spawn_blocking(|| ()));
            refused("block_on", || runtime.block_on(async {}));
            refused("block_on_fn", || runtime.block_on_fn(|| ()));
            refused("post", || runtime.post(|| ()));
            refused("adopt", || runtime.adopt());
            refused("tasks", || runtime.tasks());
            refused("snapshot", || runtime.snapshot());
            refused("describe", || runtime.describe());
            refused("workers", || runtime.workers());
            refused("a poll of its timer", || {
                begin(sleep.as_mut());
                begin(
                    Box::pin(filch::time::timeout(Duration::from_secs(1), pending::<()>()))
                        .as_mut(),
                );
            });
            refused("an await on another runtime", || self::runtime().block_on(waits));
            assert_eq!(done.wait(), 1, "its value is here");
            drop((read, sleep));
            drop(client);
            drop(runtime.handle());
            drop(runtime);
            works(&self::runtime());
        }),
    };
    assert_eq!(end(), End::Status(0));
    // What the child dropped is still the parent's.
    runtime.block_on(async {
        client.write_all(b"pong".to_vec()).await.0.unwrap();
        let (read, bytes) = read.as_mut().await;
        read.unwrap();
        assert_eq!(bytes, b"pong");
    });
    runtime.block_on(poll_fn(|cx| {
        assert!(sleep.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    }));
    waits.cancel();
    works(&runtime);
    let _ = runtime.shutdown(Shutdown::Drain);
}

fn waits_are_refused() {
    let runtime = runtime();
    let (open, gate) = mpsc::channel::<()>();
    let runs = runtime.spawn_fn(move || gate.recv().unwrap());
    let waits = [(); 4].map(|()| runtime.spawn(pending::<()>()));
    let [first, second, third, fourth] = waits;
    let end = match fork() {
        Ok(end) => end,
        Err(child) => child.does(|| {
            refused("wait", || first.wait());
            refused("wait of several", || filch::wait((second, runs)));
            refused("shutdown", || runtime.shutdown(Shutdown::Drain));
            drop(third);
            fourth.cancel();
            drop(fourth);
        }),
    };
    assert_eq!(end(), End::Status(0));
    open.send(()).unwrap();
    runs.wait();
    [first, second, third, fourth].iter().for_each(JoinHandle::cancel);
}

fn default_runtime_starts_in_the_child() {
    // Forks are noticed from here on.
    works(&runtime());
    let end = match fork() {
        Ok(end) => end,
        Err(child) => child.does(|| {
            assert_eq!(filch::block_on(async { filch::spawn(async { 1 }).await }), 1);
            assert_eq!(filch::join(|| 1, || 2), (1, 2));
            // And in a child of the child it is refused.
            match fork() {
                Ok(end) => assert_eq!(end(), End::Status(0)),
                Err(child) => child.does(|| refused("spawn", || filch::spawn(async {}))),
            }
            assert_eq!(filch::spawn_fn(|| 3).wait(), 3);
        }),
    };
    assert_eq!(end(), End::Status(0));
    assert_eq!(filch::spawn_fn(|| 3).wait(), 3);
}

fn default_runtime_of_the_parent_is_refused() {
    assert_eq!(filch::spawn(async { 1 }).wait(), 1);
    let end = match fork() {
        Ok(end) => end,
        Err(child) => child.does(|| {
            refused("spawn", || filch::spawn(async {}));
            refused("spawn_fn", || filch::spawn_fn(|| ()));
            refused("block_on", || filch::block_on(async {}));
            refused("join", || filch::join(|| 1, || 2));
            refused("scope", || filch::scope(|_| ()));
            works(&runtime());
        }),
    };
    assert_eq!(end(), End::Status(0));
    assert_eq!(filch::spawn(async { 1 }).wait(), 1);
}

fn wakers_do_nothing() {
    let runtime = runtime();
    let slot = Arc::new(Mutex::new(None::<Waker>));
    let (kept, told) = (slot.clone(), mpsc::channel());
    let mut polls = 0;
    let task = runtime.spawn(poll_fn(move |cx| {
        polls += 1;
        *kept.lock().unwrap() = Some(cx.waker().clone());
        let _ = told.0.send(polls);
        if polls == 2 { Poll::Ready(polls) } else { Poll::Pending }
    }));
    assert_eq!(told.1.recv(), Ok(1));
    let waker = slot.lock().unwrap().take().expect("polled once");
    let end = match fork() {
        Ok(end) => end,
        Err(child) => child.does(|| {
            waker.wake_by_ref();
            drop(waker);
            drop(task);
        }),
    };
    assert_eq!(end(), End::Status(0));
    waker.wake();
    assert_eq!(task.wait(), 2);
}

fn commands_run_inside_of_tasks() {
    let runtime = runtime();
    let ends = || {
        let mut command = Command::new("true");
        // SAFETY: it does nothing. With it, std forks and does not ask the system to spawn.
        unsafe { command.pre_exec(|| Ok(())) };
        command.status().unwrap().success()
    };
    assert!(runtime.spawn(async move { ends() }).wait());
    assert!(runtime.spawn_fn(ends).wait());
    assert!(runtime.spawn_blocking(ends).wait());
    assert!(runtime.block_on(async { ends() }));
    works(&runtime);
}

fn forking_tasks_may_end_the_child() {
    let runtime = runtime();
    let refusals = || match fork() {
        Ok(end) => end(),
        Err(child) => child.does(|| {
            refused("spawn", || filch::spawn(async {}));
            refused("spawn_fn", || filch::spawn_fn(|| ()));
            refused("join", || filch::join(|| 1, || 2));
            refused("block_on", || filch::block_on(async {}));
            works(&self::runtime());
        }),
    };
    assert_eq!(runtime.spawn(async move { refusals() }).wait(), End::Status(0));
    assert_eq!(runtime.spawn_fn(refusals).wait(), End::Status(0));
    assert_eq!(runtime.spawn_blocking(refusals).wait(), End::Status(0));
    assert_eq!(runtime.block_on(async { refusals() }), End::Status(0));
    works(&runtime);
}

fn tasks_do_not_return_to_their_loop_in_the_child() {
    let runtime = runtime();
    // Many others wait for the same workers: none of them may run in the child.
    let others = |n: usize| (0..n).map(|_| runtime.spawn(filch::yield_now())).collect::<Vec<_>>();
    let before = others(50);
    let returns = |how: fn() -> JoinHandle<End>| runtime.block_on_fn(how).wait();
    let ended = [
        returns(|| filch::spawn(async { fork().map_or(End::Status(0), |end| end()) })),
        returns(|| filch::spawn_fn(|| fork().map_or(End::Status(0), |end| end()))),
        returns(|| filch::spawn_blocking(|| fork().map_or(End::Status(0), |end| end()))),
        returns(|| {
            filch::spawn(async {
                match fork() {
                    Ok(end) => end(),
                    Err(_) => pending().await,
                }
            })
        }),
    ];
    filch::wait((before, others(50)));
    assert_eq!(ended, [const { End::Status(101) }; 4]);
    works(&runtime);
}

fn block_on_does_not_return_in_the_child() {
    let runtime = runtime();
    let mut in_child = false;
    let mut end = None;
    let returned = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let task = filch::spawn(pending::<()>());
            match fork() {
                Ok(waits) => end = Some(waits),
                Err(_) => in_child = true,
            }
            task.cancel();
        });
    }));
    if in_child {
        Child.does(|| {
            refused("the end of a block_on", || std::panic::resume_unwind(returned.unwrap_err()))
        });
    }
    returned.unwrap();
    assert_eq!(end.expect("this is the parent")(), End::Status(0));
}

fn hive() -> Runtime {
    Builder::new().io_workers(2).compute_workers(1).hive().expect("a hive")
}

fn pumps_are_refused() {
    let mut pump = hive().pump(|| ()).unwrap();
    let (handle, here) = (pump.handle().clone(), pump.worker());
    let posted = handle.spawn_to(here, || async { 7 }).unwrap();
    let dropped = hive().pump(|| ()).unwrap();
    let end = match fork() {
        Ok(end) => end,
        Err(child) => child.does(|| {
            refused("run", || pump.run(Duration::from_secs(1)));
            refused("enter", || pump.enter(|| ()));
            refused("post_to", || handle.post_to(here, || ()));
            assert_eq!(pump.worker(), here);
            let _ = pump.next_deadline();
            drop(posted);
            drop(dropped);
            let _ = pump.finish(Shutdown::Drain);
            works(&runtime());
            let mut own = hive().pump(|| ()).unwrap();
            let task = own.enter(|| filch::spawn_fn(|| 3));
            assert_eq!(task.wait(), 3);
            let _ = own.run(Duration::from_millis(1));
        }),
    };
    assert_eq!(end(), End::Status(0));
    drop(dropped);
    while !posted.is_finished() {
        let _ = pump.run(Duration::from_secs(1));
    }
    assert_eq!(posted.wait(), 7);
    let _ = pump.finish(Shutdown::Drain);
}

fn fork_in_the_name_of_a_pump_leaves_it_in_the_child() {
    let (outer, mut pump) = (runtime(), hive().pump(|| ()).unwrap());
    let adopted = outer.adopt().unwrap();
    let mut in_child = false;
    let end = pump.enter(|| match fork() {
        Ok(end) => Some(end),
        Err(_) => {
            in_child = true;
            None
        }
    });
    if in_child {
        // What lay below the pump is not this thread's any more either.
        Child.does(|| {
            assert_eq!(filch::spawn_fn(|| 1).wait(), 1, "on the child's default runtime");
            assert_eq!(filch::join(|| 1, || 2), (1, 2));
            refused("enter", || pump.enter(|| ()));
            drop((pump, adopted));
            drop(outer);
            works(&runtime());
            runtime().adopt().unwrap().emancipate();
        });
    }
    assert_eq!(end.expect("this is the parent")(), End::Status(0));
    assert_eq!(filch::spawn_fn(|| 2).wait(), 2);
    drop((adopted, pump));
}

fn hives_are_refused() {
    let (idle, running) = (hive(), hive());
    let handle = running.handle();
    let caller = std::thread::spawn(move || running.run());
    // Once this is done, it runs.
    assert_eq!(handle.spawn_fn(|| 1).wait(), 1);
    let worker = handle.workers()[1].id;
    let dropped = hive();
    let end = match fork() {
        Ok(end) => end,
        Err(child) => child.does(|| {
            refused("post", || handle.post(|| ()));
            refused("attach", || handle.attach(filch::NewWorker::io()));
            refused("detach", || handle.detach(worker));
            refused("request_stop", || handle.request_stop());
            refused("escalate", || handle.escalate(Shutdown::Abort));
            refused("run", || idle.run());
            drop(dropped);
            let own = hive();
            own.handle().request_stop();
            own.run().unwrap();
            works(&runtime());
        }),
    };
    assert_eq!(end(), End::Status(0));
    drop((idle, dropped));
    assert_eq!(handle.spawn_fn(|| 1).wait(), 1);
    handle.request_stop();
    caller.join().unwrap().unwrap();
}

fn a_detach_that_is_under_way_is_refused() {
    let runtime = Builder::new().workers(1).attachable_workers(1).build().unwrap();
    let worker = runtime.attach(filch::NewWorker::io()).unwrap();
    // It cannot leave while it is inside of this.
    let ((enter, entered), (open, gate)) = (mpsc::channel(), mpsc::channel::<()>());
    runtime
        .post_to(worker, move || {
            enter.send(()).unwrap();
            gate.recv().unwrap();
        })
        .unwrap();
    entered.recv().unwrap();
    let mut detach = runtime.detach(worker);
    let end = match fork() {
        Ok(end) => end,
        Err(child) => child.does(|| {
            refused("an await", || self::runtime().block_on(&mut detach));
            refused("wait", || detach.wait());
        }),
    };
    assert_eq!(end(), End::Status(0));
    open.send(()).unwrap();
    detach.wait().unwrap();
    works(&runtime);
}

fn adopted_threads_leave_in_the_child() {
    let runtime = runtime();
    let adopted = runtime.adopt().unwrap();
    assert_eq!(filch::join(|| 1, || 2), (1, 2));
    let end = match fork() {
        Ok(end) => end,
        Err(child) => child.does(|| {
            assert_eq!(filch::join(|| 1, || 2), (1, 2), "on the child's default runtime");
            refused("another adoption", || runtime.adopt());
            let own = self::runtime();
            let again = own.adopt().unwrap();
            drop(adopted);
            assert_eq!(filch::spawn_fn(|| 1).wait(), 1);
            // It ends later, so it is left to the thread.
            let mut pump = hive().pump(|| ()).unwrap();
            pump.enter(move || drop(again));
            own.adopt().unwrap().emancipate();
            works(&own);
        }),
    };
    assert_eq!(end(), End::Status(0));
    assert_eq!(filch::join(|| 1, || 2), (1, 2));
    drop(adopted);
    works(&runtime);
}

fn files_are_left_to_the_parent() {
    const LEN: usize = 16 << 20;
    let runtime = runtime();
    let path = std::env::temp_dir().join(format!("filch-forked-{}", std::process::id()));
    let mut file = runtime.block_on(filch::fs::File::create(&path)).unwrap();
    let other = runtime.block_on(filch::fs::File::create(path.with_extension("other"))).unwrap();
    // Answered and on its way, and in flight.
    runtime.block_on(filch::io::AsyncWriteExt::write_all(&mut file, &[1; 1 << 20])).unwrap();
    let mut write = Box::pin(other.write_all(vec![2; LEN]));
    let mut dropped = Box::pin(other.write_all_at(vec![3; 10], LEN as u64));
    runtime.block_on(poll_fn(|cx| {
        let _ = write.as_mut().poll(cx);
        let _ = dropped.as_mut().poll(cx);
        Poll::Ready(())
    }));
    drop(write);
    let mut write = Box::pin(other.write_all_at(vec![4; LEN], LEN as u64));
    let begun = runtime.block_on(poll_fn(|cx| Poll::Ready(write.as_mut().poll(cx).is_pending())));
    let end = match fork() {
        Ok(end) => end,
        Err(child) => child.does(|| {
            if begun {
                clear(|| self::runtime().block_on(write).0);
            }
            clear(|| self::runtime().block_on(file.metadata()).map(drop));
            clear(|| {
                let flushed = filch::io::AsyncWriteExt::flush(&mut file);
                self::runtime().block_on(flushed)
            });
            drop((dropped, file));
            works(&self::runtime());
        }),
    };
    assert_eq!(end(), End::Status(0));
    if begun {
        assert_eq!(runtime.block_on(write).0.unwrap(), LEN);
    }
    drop(dropped);
    runtime.block_on(filch::io::AsyncWriteExt::flush(&mut file)).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 1 << 20);
    for path in [path.clone(), path.with_extension("other")] {
        std::fs::remove_file(path).unwrap();
    }
}

/// Calls `f`, which is refused, by a panic or an error, or not, but returns.
#[track_caller]
fn clear<T>(f: impl FnOnce() -> io::Result<T>) {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => assert!(error.to_string().contains(REFUSED), "{error}"),
        Err(payload) => {
            let text = payload.downcast_ref::<String>().expect("a text");
            assert!(text.contains(REFUSED), "{text}");
        }
    }
}

fn kept_groups_are_refused() {
    let runtime = runtime();
    // In a task: a `block_on` would wait for the groups.
    let begun = || {
        let mut group = Box::pin(filch::group(async |group| {
            group.spawn(pending::<Result<(), ()>>()).detach();
            pending::<Result<(), ()>>().await
        }));
        let task = runtime.spawn(async {
            poll_fn(|cx| Poll::Ready(group.as_mut().poll(cx).is_pending())).await.then_some(group)
        });
        task.wait().expect("it waits")
    };
    let (mut polled, dropped) = (begun(), begun());
    let end = match fork() {
        Ok(end) => end,
        Err(child) => child.does(|| {
            refused("a poll", || begin(polled.as_mut()));
            drop(polled);
            drop(dropped);
            works(&self::runtime());
        }),
    };
    assert_eq!(end(), End::Status(0));
    begin(polled.as_mut());
    drop((polled, dropped));
    works(&runtime);
}

fn graphs_run_anew_in_the_child() {
    let runtime = runtime();
    let (told, begun) = mpsc::channel();
    let (open, gate) = mpsc::channel::<()>();
    let (told, gate) = (Mutex::new(told), Mutex::new(gate));
    let mut graph = filch::Graph::new();
    let first = graph.node("first", move || {
        told.lock().unwrap().send(()).unwrap();
        let _ = gate.lock().unwrap().recv();
    });
    let second = graph.node("second", || ());
    graph.precede(first, second);
    let graph = Arc::new(graph);
    let mut quick = filch::Graph::new();
    quick.node("only", || ());
    let quick = Arc::new(quick);
    let run = || {
        let graph = graph.clone();
        runtime.spawn_fn(move || graph.run_async()).wait()
    };
    let (mut polled, dropped) = (run(), run());
    begun.recv().unwrap();
    let end = match fork() {
        Ok(end) => end,
        Err(child) => child.does(|| {
            refused("an await", || self::runtime().block_on(&mut polled));
            refused("a run for the parent", || runtime.block_on_fn(|| quick.run()));
            self::runtime().block_on_fn(|| quick.run());
            drop((polled, dropped));
            drop(graph);
            works(&self::runtime());
        }),
    };
    assert_eq!(end(), End::Status(0));
    drop(open);
    runtime.block_on(async { (polled.await, dropped.await) });
    works(&runtime);
}

/// Makes, of each situation, a test for each backend, and one that either runs in a process of its own.
macro_rules! situations {
    ($($name:ident)*) => {
        #[test]
        #[ignore = "run by the other tests, in a process of its own"]
        fn here() {
            match std::env::var("FILCH_TEST_SITUATION").unwrap().as_str() {
                $(stringify!($name) => $name(),)*
                other => panic!("no situation: {other}"),
            }
            println!("it went well");
        }

        mod on_uring {$(
            #[test]
            fn $name() {
                if let Err(error) = filch::Builder::new().workers(1).io_backend(filch::IoBackend::Uring).build() {
                    eprintln!("\n*** NOT TESTED ON IO_URING: {error} ***\n");
                    return;
                }
                super::in_a_process(stringify!($name), "uring");
            }
        )*}

        mod on_epoll {$(
            #[test]
            fn $name() {
                super::in_a_process(stringify!($name), "epoll");
            }
        )*}
    };
}

situations! {
    handles_are_refused
    waits_are_refused
    default_runtime_starts_in_the_child
    default_runtime_of_the_parent_is_refused
    wakers_do_nothing
    commands_run_inside_of_tasks
    forking_tasks_may_end_the_child
    tasks_do_not_return_to_their_loop_in_the_child
    block_on_does_not_return_in_the_child
    pumps_are_refused
    fork_in_the_name_of_a_pump_leaves_it_in_the_child
    hives_are_refused
    a_detach_that_is_under_way_is_refused
    adopted_threads_leave_in_the_child
    files_are_left_to_the_parent
    kept_groups_are_refused
    graphs_run_anew_in_the_child
}

fn in_a_process(situation: &str, backend: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "here", "--ignored", "--nocapture"])
        .env("FILCH_TEST_SITUATION", situation)
        .env("FILCH_IO", backend)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("it went well"), "{text}{errors}");
    if situation.starts_with("tasks_do_not_return") {
        assert_eq!(errors.matches("a task called `fork` and").count(), 4, "{errors}");
    }
}
