//! Futures of odd kinds that outlive their runtime in odd places, and groups that are ended from inside.

use std::cell::RefCell;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use filch::net::{TcpListener, UdpSocket};
use filch::{Builder, Graph, Group, Pipeline, Runtime, Shutdown};

use crate::support::{Drops, Gate, text_of};
use crate::watchdog::watched;

type Kept = Pin<Box<dyn Future<Output = ()> + Send>>;

const LONG: Duration = Duration::from_secs(3600);

thread_local! {
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

static FORGOTTEN: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// Futures that wait for ever, none of them for a task that a drain would wait for.
const KINDS: [fn() -> Kept; 7] = [
    || Box::pin(async { drop(TcpListener::bind("127.0.0.1:0").await.unwrap().accept().await) }),
    || {
        Box::pin(async {
            drop(UdpSocket::bind("127.0.0.1:0").await.unwrap().recv_from(&mut [0; 8]).await);
        })
    },
    || {
        Box::pin(async {
            let body = async |g: Group<()>| {
                drop(g.spawn(async { Err::<(), ()>(()) }));
                g.cancelled().await;
                pending::<Result<(), ()>>().await
            };
            let _ = filch::group(body).finish_body().await;
        })
    },
    || {
        Box::pin(async {
            let group = filch::group(async |_| pending::<Result<(), ()>>().await);
            filch::select! {
                () = filch::time::sleep(LONG) => (),
                _ = group => (),
            }
        })
    },
    || {
        Box::pin(async {
            loop {
                filch::scope(|s| s.spawn(|_| ()));
                filch::join(|| (), || ());
                filch::block_on(async {});
                filch::yield_now().await;
            }
        })
    },
    || {
        Box::pin(async {
            loop {
                filch::spawn(async {}).await;
                filch::cpu(|| ()).await;
            }
        })
    },
    || {
        Box::pin(async {
            filch::spawn_after(filch::spawn_after((), || ()), || ()).await;
            pending().await
        })
    },
];

/// Those that wait for a task without an end.
const ENDLESS: [fn() -> Kept; 3] = [
    || {
        Box::pin(async {
            let mut graph = Graph::new();
            graph.async_node("never", pending::<()>);
            drop(Arc::new(graph).run_async().outcome().await);
        })
    },
    || {
        Box::pin(async {
            let never = Pipeline::new(2).items(0..).parallel_async(async |_: u64| pending().await);
            drop(never.for_each(|()| ()).run_async().await);
        })
    },
    || {
        Box::pin(async {
            let never: Vec<_> = (0..3).map(|_| filch::spawn(pending::<()>())).collect();
            drop(filch::wait_all_async(never).await);
        })
    },
];

/// Polls once; false if the future is over, also by a panic with a known text.
fn poll(future: &mut Kept, cx: &mut Context<'_>) -> bool {
    let poll = std::panic::AssertUnwindSafe(|| future.as_mut().poll(cx));
    std::panic::catch_unwind(poll).map_or_else(
        |payload| {
            let text = text_of(&*payload);
            let known = ["has ended", "resumed after", "cancelled", "shut down"];
            assert!(known.iter().any(|known| text.contains(known)), "{text}");
            false
        },
        |poll| poll.is_pending(),
    )
}

/// Keeps the futures in several places after the end: each is polled or dropped there.
fn keep(mut kept: Vec<Kept>, other: &Runtime) {
    let mut here = kept.pop().unwrap();
    let _ = poll(&mut here, &mut Context::from_waker(Waker::noop()));
    drop(here);
    let mut there = kept.pop().unwrap();
    other.spawn(async move { poll_fn(|cx| Poll::Ready(poll(&mut there, cx))).await }).wait();
    let dropped = kept.pop().unwrap();
    other.spawn(async move { drop(dropped) }).wait();
    let local = kept.pop().unwrap();
    std::thread::spawn(move || KEPT.with_borrow_mut(|kept| kept.push(local))).join().unwrap();
    FORGOTTEN.lock().unwrap().extend(kept);
}

#[test]
fn futures_of_all_kinds_outlive_each_end_in_tasks_thread_locals_and_statics() {
    let soon = Duration::from_millis(1);
    let bounded = Shutdown::DrainFor(soon);
    let ends = [Shutdown::Abort, Shutdown::AbortFor(LONG), bounded, Shutdown::Drain];
    watched(move |_| {
        let other = Builder::new().workers(1).build().unwrap();
        for (single, how) in ends.into_iter().flat_map(|how| [(false, how), (true, how)]) {
            let endless = ENDLESS.into_iter().filter(|_| how != Shutdown::Drain);
            for make in KINDS.into_iter().chain(endless) {
                let builder = Builder::new().workers(2);
                let runtime = match single {
                    true => Builder::new().single_thread(true),
                    false => builder,
                };
                let runtime = runtime.build().unwrap();
                let begin = |polls| {
                    runtime.spawn(async move {
                        let mut future = make();
                        for _ in 0..polls {
                            poll_fn(|cx| Poll::Ready(poll(&mut future, cx))).await;
                            filch::yield_now().await;
                        }
                        future
                    })
                };
                let kept = (0..5).map(|i| begin(1 + i % 2).wait()).collect();
                runtime.shutdown(how);
                keep(kept, &other);
            }
        }
    });
}

#[test]
fn groups_whose_bodies_hold_each_other_are_dropped_once_after_the_end() {
    watched(|_| {
        for how in [Shutdown::Abort, Shutdown::Drain, Shutdown::AbortFor(LONG)] {
            let (runtime, drops) = (Builder::new().workers(2).build().unwrap(), Drops::default());
            let held: Arc<Mutex<Vec<Kept>>> = Arc::default();
            for _ in 0..2 {
                let (holds, token) = (held.clone(), drops.token());
                let mut group: Kept = Box::pin(async move {
                    let body = async move |_: Group<()>| {
                        let _held = (holds, token);
                        pending::<Result<(), ()>>().await
                    };
                    let _ = filch::group(body).await;
                });
                let begun = runtime.spawn(async move {
                    poll_fn(|cx| Poll::Ready(poll(&mut group, cx))).await;
                    group
                });
                let begun = begun.wait();
                held.lock().unwrap().push(begun);
            }
            runtime.shutdown(how);
            assert_eq!(drops.count(), 0);
            let both = std::mem::take(&mut *held.lock().unwrap());
            drop(both);
            assert_eq!(drops.count(), 2);
        }
    });
}

#[test]
fn child_that_drops_the_future_of_its_own_group_is_waited_for() {
    watched(|dog| {
        let runtime = dog.rig(2);
        for job in [true, false] {
            let (slot, filled, done) =
                (Arc::new(Mutex::new(None::<Kept>)), Gate::default(), Drops::default());
            let (takes, fills, token) = (slot.clone(), filled.clone(), done.token());
            let mut group: Kept = Box::pin(async move {
                let body = async move |g: Group<()>| {
                    let ends = move || {
                        fills.block();
                        let own = takes.lock().unwrap().take();
                        drop(own);
                        drop(token);
                        Ok(())
                    };
                    match job {
                        true => drop(g.spawn_fn(ends)),
                        false => drop(g.spawn(async move { ends() })),
                    }
                    pending::<Result<(), ()>>().await
                };
                let _ = filch::group(body).await;
            });
            runtime.block_on(async move {
                poll_fn(|cx| Poll::Ready(poll(&mut group, cx))).await;
                // A child that has not begun would be dropped with the future.
                *slot.lock().unwrap() = Some(group);
                filled.open();
            });
            assert_eq!(done.count(), 1);
        }
        assert_eq!(runtime.drain(), [""; 0]);
    });
}

/// Drops the future that it wakes.
struct DropsIt(Mutex<Option<Kept>>);

impl Wake for DropsIt {
    fn wake(self: Arc<Self>) {
        let future = self.0.lock().unwrap().take();
        drop(future);
    }
}

#[test]
fn waker_may_drop_the_group_that_wakes_it() {
    watched(|dog| {
        let runtime = dog.rig(2);
        for round in 0..200 {
            let (gate, opens) = (Gate::default(), Drops::default());
            let (passes, token) = (gate.clone(), opens.token());
            let mut group: Kept = Box::pin(async move {
                let body = async move |g: Group<()>| {
                    let _token = token;
                    drop(g.spawn(async move {
                        passes.await;
                        if round % 2 == 0 { Err(()) } else { Ok(()) }
                    }));
                    if round % 2 == 0 { pending().await } else { Ok(()) }
                };
                let _ = filch::group(body).await;
            });
            let wakes = Arc::new(DropsIt(Mutex::default()));
            let waker = Waker::from(wakes.clone());
            let begun = runtime.spawn(async move {
                assert!(poll(&mut group, &mut Context::from_waker(&waker)));
                group
            });
            *wakes.0.lock().unwrap() = Some(begun.wait());
            gate.open();
            crate::support::until(|| opens.count() == 1 && wakes.0.lock().unwrap().is_none());
        }
        assert_eq!(runtime.drain(), [""; 0]);
    });
}
