//! Several who read one socket at a time, some of which give up: every byte comes once and in order, and nobody
//! sleeps beside bytes that are there.

use std::cell::Cell;
use std::io::IoSliceMut;
use std::net::Shutdown;
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use filch::net::TcpStream;
use filch::time::timeout;

use crate::{begin, on_each_backend, pair, pattern, poll_once};

/// Longer than anything takes that is not for ever.
const LONG: Duration = Duration::from_secs(5);

/// A read of so many bytes that has got the first half, and waits for the rest.
async fn half_read<'a>(
    client: &TcpStream,
    server: &'a TcpStream,
) -> Pin<Box<impl Future + Send + use<'a>>> {
    let mut read = Box::pin(server.read_exact(vec![0; 8]));
    let told = Arc::new(Told::default());
    let waker = Waker::from(told.clone());
    assert!(read.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    client.write_all(b"half").await.0.unwrap();
    while told.wakes.load(Relaxed) == 0 {
        filch::time::sleep(Duration::from_millis(1)).await;
    }
    begin(read.as_mut()).await;
    read
}

/// Waits for another thread, with a delay as short as can be.
fn spin_until(done: impl Fn() -> bool) {
    for spins in 0_u32.. {
        if done() {
            return;
        }
        if spins % 1000 == 999 {
            thread::yield_now();
        }
    }
}

thread_local! {
    /// What the next clone of such a waker does.
    static AT_CLONE: Cell<Option<*mut ()>> = const { Cell::new(None) };
}

/// Polls with a waker that does something when it is first cloned, and nothing else.
fn at_clone<T>(
    mut does: &mut dyn FnMut(),
    poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    const VTABLE: RawWakerVTable = RawWakerVTable::new(
        |_| {
            if let Some(does) = AT_CLONE.take() {
                // SAFETY: set below for the time of a poll only.
                unsafe { (*does.cast::<&mut dyn FnMut()>())() };
            }
            RawWaker::new(std::ptr::null(), &VTABLE)
        },
        |_| {},
        |_| {},
        |_| {},
    );
    AT_CLONE.set(Some((&raw mut does).cast()));
    // SAFETY: it has no data.
    let waker = unsafe { Waker::new(std::ptr::null(), &VTABLE) };
    let polled = poll(&mut Context::from_waker(&waker));
    AT_CLONE.set(None);
    polled
}

#[derive(Default)]
struct Told {
    wakes: AtomicUsize,
}

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Relaxed);
    }
}

/// What the next bytes are, by one way of reading.
type Reads = for<'a> fn(&'a TcpStream) -> Pin<Box<dyn Future<Output = Vec<u8>> + Send + 'a>>;

const WAYS: [(&str, Reads); 5] = [
    ("read", |server| {
        Box::pin(async {
            let (result, mut buf) = server.read(vec![0; 8]).await;
            buf.truncate(result.unwrap());
            buf
        })
    }),
    ("recv", |server| Box::pin(async { server.recv().await.unwrap().unwrap().to_vec() })),
    ("peek", |server| {
        Box::pin(async {
            let mut buf = vec![0; 8];
            let count = server.peek(&mut buf).await.unwrap();
            assert_eq!(server.try_read(&mut [0; 8]).unwrap(), count);
            buf.truncate(count);
            buf
        })
    }),
    ("readable", |server| {
        Box::pin(async {
            server.readable().await.unwrap();
            let mut buf = vec![0; 8];
            let count = server.try_read(&mut buf).unwrap();
            buf.truncate(count);
            buf
        })
    }),
    ("read_vectored", |server| {
        Box::pin(async {
            let mut buf = vec![0; 8];
            let count = server.read_vectored(&mut [IoSliceMut::new(&mut buf)]).await.unwrap();
            buf.truncate(count);
            buf
        })
    }),
];

/// Once it is told on the thread that is to tell it: reads what there is, has the other side send more, and begins
/// another read.
struct Overtaker {
    on: ThreadId,
    client: Arc<TcpStream>,
    server: Arc<TcpStream>,
    begun: Mutex<Option<(Vec<u8>, Next)>>,
}

/// A read that has begun.
type Next = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;

impl Wake for Overtaker {
    fn wake(self: Arc<Self>) {
        if thread::current().id() != self.on || self.begun.lock().unwrap().is_some() {
            return;
        }
        // Another receive, which was abandoned before, ends meanwhile.
        thread::sleep(Duration::from_millis(20));
        let mut buf = vec![0; 8];
        let count = self.server.try_read(&mut buf).unwrap_or(0);
        buf.truncate(count);
        self.client.try_write(b"rest").unwrap();
        thread::sleep(Duration::from_millis(20));
        let server = self.server.clone();
        let mut next: Next = Box::pin(async move {
            let (result, mut got) = server.read(vec![0; 4]).await;
            got.truncate(result.unwrap());
            got
        });
        assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        *self.begun.lock().unwrap() = Some((buf, next));
    }
}

on_each_backend! {
    fn chunks_stay_in_order_if_two_look_at_once(on) {
        const ROUNDS: usize = 800;
        let runtime = on.builder().io_workers(3).build().unwrap();
        let (client, server) = runtime.block_on(runtime.spawn(async {
            let (client, server) = pair().await.unwrap();
            client.set_nodelay(true).unwrap();
            client.write_all(b"x").await.0.unwrap();
            // From now on the socket receives ahead.
            server.recv().await.unwrap().unwrap();
            (client, server)
        }));
        let (turn, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let look = || {
            let mut buf = [0; 1];
            let cx = &mut Context::from_waker(Waker::noop());
            // In both ways that take nothing.
            let _ = pin!(server.peek(&mut buf)).poll(cx);
            let _ = pin!(server.readable()).poll(cx);
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    spin_until(|| turn.load(Acquire) >= round);
                    look();
                    done.store(round, Release);
                }
            });
            for round in 1..=ROUNDS {
                for bytes in [b"ab", b"cd"] {
                    client.try_write(bytes).unwrap();
                    let begin = Instant::now();
                    while begin.elapsed() < Duration::from_micros(60) {
                        thread::yield_now();
                    }
                }
                turn.store(round, Release);
                look();
                spin_until(|| done.load(Acquire) >= round);
                let (result, buf) = runtime.block_on(async { server.read_exact(vec![0; 4]).await });
                result.unwrap();
                if buf != b"abcd" {
                    // The other thread would wait for ever.
                    turn.store(ROUNDS, Release);
                    panic!("{:?} in round {round}", String::from_utf8_lossy(&buf));
                }
            }
        });
    }

    fn chunks_stay_in_order_beside_those_who_take_parts_or_nothing(on) {
        const LEN: usize = 15_000;
        let runtime = on.builder().io_workers(3).build().unwrap();
        runtime.block_on(runtime.spawn(async {
            let (client, server) = pair().await.unwrap();
            client.set_nodelay(true).unwrap();
            client.write_all(b"x").await.0.unwrap();
            // From now on the socket receives ahead.
            server.recv().await.unwrap().unwrap();
            let server = Arc::new(server);
            let lookers: Vec<_> = (0..2)
                .map(|looker| {
                    let server = server.clone();
                    filch::spawn(async move {
                        let mut buf = [0; 16];
                        loop {
                            if looker == 0 {
                                server.readable().await.unwrap();
                            }
                            if server.peek(&mut buf).await.unwrap() == 0 {
                                break;
                            }
                            filch::yield_now().await;
                        }
                    })
                })
                .collect();
            let sender = filch::spawn(async move {
                for bytes in pattern(0, LEN).chunks(3) {
                    client.write_all(bytes.to_vec()).await.0.unwrap();
                }
                client.shutdown(Shutdown::Write).unwrap();
                client
            });
            let mut got = 0;
            loop {
                let (result, buf) = server.read(vec![0; 2]).await;
                let count = result.unwrap();
                if count == 0 {
                    break;
                }
                assert_eq!(buf[..count], pattern(got, count), "at {got}");
                got += count;
            }
            assert_eq!(got, LEN);
            sender.await;
            filch::wait_all_async(lookers).await;
        }));
    }

    fn what_a_dropped_read_may_still_receive_is_not_overtaken(on) {
        let runtime = on.runtime();
        let mut met = 0;
        for _ in 0..20 {
            let order = runtime.block_on(async {
                let (client, server) = pair().await.unwrap();
                let (client, server) = (Arc::new(client), Arc::new(server));
                let goes = half_read(&client, &server).await;
                let overtaker = Arc::new(Overtaker {
                    on: thread::current().id(),
                    client: client.clone(),
                    server: server.clone(),
                    begun: Mutex::new(None),
                });
                let waker = Waker::from(overtaker.clone());
                let mut waits = Box::pin(server.read(vec![0; 4]));
                // Behind a receive that was abandoned: told of all that comes until that ends.
                begin(pin!(server.read(vec![0; 4]))).await;
                assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                drop(goes);
                drop(waits);
                let (mut got, next) = overtaker.begun.lock().unwrap().take()?;
                client.write_all(b"more").await.0.unwrap();
                got.extend(next.await);
                while got.len() < 12 {
                    got.extend_from_slice(&server.recv().await.unwrap().unwrap());
                }
                Some(got)
            });
            let Some(got) = order else { continue };
            assert_eq!(std::str::from_utf8(&got).unwrap(), "halfrestmore");
            met += 1;
            if met == 3 {
                break;
            }
        }
        assert!(met > 0 || !on.is_uring(), "the situation did not come about");
    }

    fn bytes_that_are_given_up_reach_who_waits_in_flight(on) {
        on.on_worker(async {
            for (way, reads) in WAYS {
                let (client, server) = pair().await.unwrap();
                let goes = half_read(&client, &server).await;
                let mut waits = reads(&server);
                begin(waits.as_mut()).await;
                drop(goes);
                let got = timeout(LONG, waits).await;
                let got = got.unwrap_or_else(|_| panic!("{way} sleeps beside the bytes"));
                assert_eq!(got, b"half", "{way}");
            }
        });
    }

    fn bytes_that_are_given_up_come_before_those_that_come_then(on) {
        on.on_worker(async {
            for ((way, reads), sleeps) in WAYS.into_iter().flat_map(|way| [(way, 0), (way, 5)]) {
                let (client, server) = pair().await.unwrap();
                let goes = half_read(&client, &server).await;
                let mut waits = reads(&server);
                begin(waits.as_mut()).await;
                // Whether the kernel knows of both, or hears of them with the next, and of their end.
                for _ in 0..sleeps {
                    filch::time::sleep(Duration::from_millis(1)).await;
                }
                drop(goes);
                client.try_write(b"rest").unwrap();
                let got = timeout(LONG, waits).await;
                let mut got = got.unwrap_or_else(|_| panic!("{way} sleeps beside the bytes"));
                while got.len() < 8 {
                    got.extend_from_slice(&server.recv().await.unwrap().unwrap());
                }
                assert_eq!(std::str::from_utf8(&got).unwrap(), "halfrest", "{way}");
            }
        });
    }

    fn a_stream_that_begins_calls_back_who_waits_in_flight(on) {
        on.on_worker(async {
            for (way, reads) in WAYS {
                let (client, server) = pair().await.unwrap();
                let mut waits = reads(&server);
                begin(waits.as_mut()).await;
                // It receives ahead from now on, for nobody.
                begin(pin!(server.recv())).await;
                for _ in 0..3 {
                    filch::time::sleep(Duration::from_millis(1)).await;
                }
                client.write_all(b"here").await.0.unwrap();
                let got = timeout(LONG, waits).await;
                let got = got.unwrap_or_else(|_| panic!("{way} sleeps beside the bytes"));
                assert_eq!(got, b"here", "{way}");
            }
        });
    }

    fn a_read_that_was_called_back_and_cancelled_leaves_what_came(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let goes = half_read(&client, &server).await;
            let mut waits = pin!(server.read(vec![0; 8]));
            begin(waits.as_mut()).await;
            drop(goes);
            client.try_write(b"rest").unwrap();
            let (result, buf) = timeout(LONG, waits.cancel()).await.unwrap();
            let mut got = buf[..result.unwrap_or(0)].to_vec();
            while got.len() < 8 {
                got.extend_from_slice(&server.recv().await.unwrap().unwrap());
            }
            assert_eq!(std::str::from_utf8(&got).unwrap(), "halfrest");
        });
    }

    fn three_who_meet_leave_none_of_them_beside_the_rest(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let goes = half_read(&client, &server).await;
            // It finds nothing, and has no budget to wait with.
            while poll_once(pin!(client.read(Vec::new()))).await.is_ready() {}
            let mut looks = pin!(async {
                let mut into = [0; 8];
                let count = server.peek(&mut into).await.unwrap();
                into[..count].to_vec()
            });
            begin(looks.as_mut()).await;
            filch::yield_now().await;
            // Another begins to wait. Just then the bytes are given up; it takes some, and says that there is nothing
            // more to receive.
            let mut takes = pin!(server.read(vec![0; 2]));
            let mut goes = Some(goes);
            let mut gives_up = || drop(goes.take());
            let poll = at_clone(&mut gives_up, |cx| takes.as_mut().poll(cx));
            let taken = match poll {
                Poll::Ready(taken) => taken,
                Poll::Pending => timeout(LONG, takes).await.unwrap(),
            };
            assert!(goes.is_none());
            assert_eq!(taken.1, b"ha");
            let seen = timeout(LONG, looks).await.expect("a peek sleeps beside the bytes");
            assert_eq!(seen, b"lf");
        });
    }

    fn a_cancel_is_heard_although_bytes_come_for_another(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            // From now on a read waits before it tries.
            client.write_all(b"x").await.0.unwrap();
            assert_eq!(server.read(vec![0; 8]).await.0.unwrap(), 1);
            let mut first = pin!(server.read(vec![0; 8]));
            begin(first.as_mut()).await;
            let mut other = pin!(server.read(vec![0; 8]));
            begin(other.as_mut()).await;
            client.try_write(b"once").unwrap();
            // The kernel hears of all this at once. It finds both ready, and only one has bytes then.
            let (result, _) = timeout(LONG, other.cancel()).await.expect("a cancelled read ends");
            if result.is_err() {
                assert_eq!(first.await.0.unwrap(), 4);
            }
        });
    }

    fn nobody_sleeps_beside_bytes_that_others_give_up(on) {
        const ROUNDS: usize = 300;
        let runtime = on.builder().io_workers(3).build().unwrap();
        let (client, server) = runtime.block_on(runtime.spawn(pair())).unwrap();
        let (client, server) = (Arc::new(client), Arc::new(server));
        for round in 0..ROUNDS {
            // One gives up, one takes a part, one only looks.
            let gives_up = {
                let server = server.clone();
                runtime.spawn(async move {
                    let mut read = pin!(server.read_exact(vec![0; 8]));
                    if poll_once(read.as_mut()).await.is_pending() {
                        if round % 2 == 0 {
                            filch::yield_now().await;
                        }
                        let _ = poll_once(read.as_mut()).await;
                    }
                })
            };
            let takes = {
                let server = server.clone();
                runtime.spawn(async move { server.read(vec![0; 1]).await.0.unwrap() })
            };
            let looks = {
                let server = server.clone();
                runtime.spawn(async move { server.peek(&mut [0; 1]).await.unwrap() })
            };
            runtime.block_on(async {
                client.write_all(b"ab").await.0.unwrap();
                gives_up.await;
                assert_eq!(timeout(LONG, takes).await.expect("a read sleeps"), 1);
                assert_eq!(timeout(LONG, looks).await.expect("a peek sleeps"), 1);
                assert_eq!(server.read(vec![0; 8]).await.0.unwrap(), 1, "round {round}");
            });
        }
    }
}
