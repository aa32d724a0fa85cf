//! Rare orders of events: what is in flight meets what ends, moves, runs out or is never dropped.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use filch::fs::File;
use filch::net::TcpStream;
use filch::{Runtime, Shutdown};

use crate::{On, begin, descriptors, eventually, on_each_backend, pair, pattern, poll_once};

/// A runtime of one worker, which blocks, and a spare, which runs what is spawned.
struct Spared {
    runtime: Runtime,
    release: mpsc::Sender<()>,
    blocker: filch::JoinHandle<()>,
    stops: mpsc::Receiver<usize>,
}

impl Spared {
    fn new(on: On) -> Self {
        let (stopped, stops) = mpsc::channel();
        let runtime = on
            .builder()
            .workers(1)
            .io_spares(1)
            .spare_keep_alive(Duration::from_millis(5))
            .on_thread_stop(move |worker| {
                if worker.role == filch::Role::Io {
                    let _ = stopped.send(worker.index);
                }
            })
            .build()
            .unwrap();
        let (release, wait) = mpsc::channel();
        let blocker = runtime.spawn(async move { wait.recv().unwrap() });
        Self { runtime, release, blocker, stops }
    }

    /// The worker comes back, so the spare is about to go.
    fn relieve(&self) {
        self.release.send(()).unwrap();
        eventually(|| self.blocker.is_finished());
    }

    /// The spare has gone.
    fn is_relieved(&self) {
        assert_eq!(self.stops.recv_timeout(Duration::from_secs(30)).unwrap(), 1);
    }
}

/// A listener whose queue is full: who connects to it waits. And what fills the queue.
fn full_listener() -> (std::net::TcpListener, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let first = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener, first)
}

on_each_backend! {
    fn a_forgotten_read_takes_nothing_from_others(on) {
        let runtime = on.builder().workers(1).io_spares(0).build().unwrap();
        let task = runtime.spawn(async {
            let (client, server) = pair().await.unwrap();
            {
                let mut read = Box::pin(server.read(vec![0; 64]));
                begin(read.as_mut()).await;
                std::mem::forget(read);
            }
            // Closed, as far as anybody can tell, before the kernel has heard of the read.
            drop((server, client));
            let others: Vec<_> =
                (0..4).map(|_| std::os::unix::net::UnixStream::pair().unwrap()).collect();
            for (one, other) in &others {
                (&*one).write_all(b"not for you").unwrap();
                (&*other).write_all(b"nor this").unwrap();
            }
            // The kernel hears of it.
            for _ in 0..20 {
                filch::yield_now().await;
            }
            for (one, other) in &others {
                let mut got = [0; 64];
                one.set_nonblocking(true).unwrap();
                other.set_nonblocking(true).unwrap();
                assert_eq!((&*other).read(&mut got).unwrap(), 11, "somebody has taken it");
                assert_eq!((&*one).read(&mut got).unwrap(), 8, "somebody has taken it");
            }
        });
        runtime.block_on(task);
    }

    fn a_connect_goes_on_when_the_spare_goes(on) {
        let (listener, _first) = full_listener();
        let address = listener.local_addr().unwrap();
        let spared = Spared::new(on);
        let (tell, told) = mpsc::channel();
        let connects = spared.runtime.spawn(async move {
            let mut connect = pin!(TcpStream::connect(address));
            std::future::poll_fn(|cx| {
                let polled = connect.as_mut().poll(cx);
                let _ = tell.send(());
                match polled {
                    Poll::Ready(Err(error)) => panic!("{error}"),
                    Poll::Ready(Ok(_)) => panic!("the queue is full"),
                    Poll::Pending => Poll::<()>::Pending,
                }
            })
            .await;
        });
        told.recv().unwrap();
        spared.relieve();
        spared.is_relieved();
        if on.is_uring() {
            // It has moved.
            told.recv_timeout(Duration::from_secs(30)).unwrap();
        }
        eventually(|| spared.runtime.snapshot().lanes[0].awake == 0);
        assert!(!connects.is_finished());
    }

    fn a_runtime_ends_while_a_spare_waits_for_an_acknowledgement(on) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // What is sent is more than the other side takes, and less than fits here.
        set_size(listener.as_raw_fd(), libc::SO_RCVBUF, 4096);
        let spared = Spared::new(on);
        let (begun, has_begun) = mpsc::channel();
        drop(spared.runtime.spawn(async move {
            let client = TcpStream::connect(address).await.unwrap();
            set_size(client.as_raw_fd(), libc::SO_SNDBUF, 200_000);
            assert_eq!(client.try_write(&pattern(0, 1 << 16)).unwrap(), 1 << 16);
            client.set_zero_copy(Some(1));
            let mut write = pin!(client.write(pattern(0, 1 << 16)));
            let _ = poll_once(write.as_mut()).await;
            begun.send(()).unwrap();
            std::future::pending::<()>().await;
        }));
        let (_peer, _) = listener.accept().unwrap();
        has_begun.recv().unwrap();
        spared.relieve();
        let goes = spared.stops.recv_timeout(Duration::from_millis(50)).is_ok();
        assert!(!goes || !on.is_uring(), "it waits for what never comes");
        spared.runtime.shutdown(Shutdown::Abort);
    }

    fn who_waits_without_buffers_sleeps(on) {
        let runtime = on.runtime();
        let task = runtime.spawn(async {
            let (client, server) = pair().await.unwrap();
            let mut held = Vec::new();
            for round in 0..300 {
                client.write_all(pattern(round, 50)).await.0.unwrap();
                held.push(server.recv().await.unwrap().unwrap());
            }
            let waits = filch::spawn(async move { server.recv().await.map(|chunk| chunk.is_none()) });
            (client, held, waits)
        });
        let (client, held, waits) = runtime.block_on(task);
        eventually(|| runtime.snapshot().lanes[0].awake == 0);
        let before = runtime.snapshot().total().polls;
        std::thread::sleep(Duration::from_millis(30));
        let polls = runtime.snapshot().total().polls - before;
        assert!(polls <= 4, "{polls} polls for nothing");
        drop(client);
        assert!(runtime.block_on(waits).unwrap());
        drop(held);
    }

    fn what_was_opened_too_late_is_closed(on) {
        let _alone = crate::alone();
        let runtime = on.builder().workers(1).io_spares(0).build().unwrap();
        runtime.block_on(runtime.spawn(File::open("/dev/null"))).unwrap();
        let before = descriptors();
        for _ in 0..20 {
            let task = runtime.spawn(async {
                for _ in 0..10 {
                    let _ = poll_once(pin!(File::open("/dev/null"))).await;
                }
                filch::yield_now().await;
            });
            runtime.block_on(task);
        }
        eventually(|| descriptors() <= before);
    }
}

/// Sets the size of a buffer of a socket.
fn set_size(fd: i32, which: libc::c_int, size: libc::c_int) {
    let (level, from) = (libc::SOL_SOCKET, (&raw const size).cast());
    // SAFETY: the number lives during the call.
    assert_eq!(unsafe { libc::setsockopt(fd, level, which, from, 4) }, 0);
}
