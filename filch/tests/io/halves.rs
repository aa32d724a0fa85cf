//! Streams in halves, and streams of std.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use filch::net::{TcpListener, TcpStream, UnixStream};

use crate::{begin, on_each_backend, pair, pattern};

/// Round trips of a `chat`.
const CHAT: usize = 100;

/// Keeps the worker's driver busy, so that whoever is woken at each visit is seen to be.
async fn chat() {
    let (here, there) = UnixStream::pair().unwrap();
    for _ in 0..CHAT {
        let (asked, answered) = (here.write_all("?"), there.read_exact(vec![0; 1]));
        let ((sent, _), (got, _)) = filch::join!(asked, answered);
        sent.and(got).unwrap();
    }
}

/// Counts how often a future is polled.
async fn counted<F: Future>(polls: Arc<AtomicUsize>, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        polls.fetch_add(1, Relaxed);
        future.as_mut().poll(cx)
    })
    .await
}

on_each_backend! {
    fn halves_work_in_two_tasks(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let (read, write) = client.into_split();
            let echo = filch::spawn(async move {
                while let Some(chunk) = server.recv().await.unwrap() {
                    server.write_all(chunk).await.0.unwrap();
                }
            });
            let sender = filch::spawn(async move {
                for round in 0..64 {
                    write.write_all(pattern(round << 14, 1 << 14)).await.0.unwrap();
                }
            });
            let mut got = Vec::new();
            while let Some(chunk) = read.recv().await.unwrap() {
                got.extend_from_slice(&chunk);
            }
            filch::wait_async((echo, sender)).await;
            assert!(got == pattern(0, 64 << 14));
        });
    }

    fn the_end_of_a_writing_half_comes_after_its_dropped_writes(on) {
        on.on_worker(async {
            const LEN: usize = 16 << 20;
            let (client, server) = pair().await.unwrap();
            let (read, write) = client.into_split();
            begin(pin!(write.write_all(pattern(0, LEN)))).await;
            drop(write);
            let mut got = 0;
            while let Some(chunk) = server.recv().await.unwrap() {
                assert!(chunk[..] == pattern(got, chunk.len()));
                got += chunk.len();
            }
            assert_eq!(got, LEN);
            // The other direction is there still.
            server.write_all("answer").await.0.unwrap();
            assert_eq!(&read.recv().await.unwrap().unwrap()[..], b"answer");
        });
    }

    fn a_close_comes_after_dropped_writes(on) {
        use filch::io::AsyncWriteExt;
        on.on_worker(async {
            const LEN: usize = 16 << 20;
            let (mut here, there) = UnixStream::pair().unwrap();
            begin(pin!(here.write_all(pattern(0, LEN)))).await;
            let closer = filch::spawn(async move {
                AsyncWriteExt::close(&mut here).await.unwrap();
                here
            });
            let mut got = 0;
            while let Some(chunk) = there.recv().await.unwrap() {
                got += chunk.len();
            }
            assert_eq!(got, LEN);
            drop(closer.await);
        });
    }

    fn room_is_waited_for_although_the_other_side_has_ended(on) {
        use filch::io::AsyncWriteExt;
        on.on_worker(async {
            const LEN: usize = 16 << 20;
            let (mut here, there) = pair().await.unwrap();
            there.shutdown(Shutdown::Write).unwrap();
            assert!(here.recv().await.unwrap().is_none());
            let polls = Arc::new(AtomicUsize::new(0));
            let write = async move {
                AsyncWriteExt::write_all(&mut here, &pattern(0, LEN)).await.unwrap();
                AsyncWriteExt::close(&mut here).await.unwrap();
            };
            let writer = filch::spawn(counted(polls.clone(), write));
            chat().await;
            assert!(polls.load(Relaxed) < CHAT / 2, "{polls:?} polls, and nobody has read");
            let mut got = 0;
            while let Some(chunk) = there.recv().await.unwrap() {
                assert!(chunk[..] == pattern(got, chunk.len()));
                got += chunk.len();
            }
            assert_eq!(got, LEN);
            writer.await;
        });
    }

    fn writable_is_not_told_because_the_other_side_has_ended(on) {
        on.on_worker(async {
            let (here, there) = UnixStream::pair().unwrap();
            there.shutdown(Shutdown::Write).unwrap();
            let mut sent = 0;
            while let Ok(count) = here.try_write(&[7; 1 << 12]) {
                sent += count;
            }
            let polls = Arc::new(AtomicUsize::new(0));
            let wait = filch::spawn(counted(polls.clone(), async move {
                here.writable().await.unwrap();
                here
            }));
            chat().await;
            assert!(polls.load(Relaxed) < CHAT / 2, "{polls:?} polls, and nobody has read");
            assert!(!wait.is_finished());
            while sent > 0 {
                sent -= there.recv().await.unwrap().unwrap().len();
            }
            wait.await;
        });
    }

    fn a_forgotten_writing_half_ends_nothing(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let (read, write) = client.into_split();
            write.forget();
            begin(pin!(server.recv())).await;
            drop(read);
            assert!(server.recv().await.unwrap().is_none());
        });
    }

    fn halves_know_both_addresses(on) {
        on.on_worker(async {
            let (client, mut server) = pair().await.unwrap();
            let (here, there) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            let (read, write) = client.into_split();
            assert_eq!((read.local_addr().unwrap(), read.peer_addr().unwrap()), (here, there));
            assert_eq!((write.local_addr().unwrap(), write.peer_addr().unwrap()), (here, there));
            let (read, write) = server.split();
            assert_eq!((read.local_addr().unwrap(), write.peer_addr().unwrap()), (there, here));
        });
    }

    fn only_halves_of_one_stream_reunite(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let (read, write) = client.into_split();
            let (other_read, other_write) = server.into_split();
            let error = read.reunite(other_write).unwrap_err();
            assert!(error.to_string().contains("not of one"));
            let client = error.0.reunite(write).unwrap();
            let server = error.1.reunite(other_read).unwrap();
            client.write_all("whole").await.0.unwrap();
            assert_eq!(&server.recv().await.unwrap().unwrap()[..], b"whole");
        });
    }

    fn borrowed_halves_work_at_once(on) {
        on.on_worker(async {
            let (mut client, server) = pair().await.unwrap();
            let (read, write) = client.split();
            let mut recv = pin!(read.recv());
            begin(recv.as_mut()).await;
            write.write_all("ping").await.0.unwrap();
            assert_eq!(&server.recv().await.unwrap().unwrap()[..], b"ping");
            server.write_all("pong").await.0.unwrap();
            assert_eq!(&recv.await.unwrap().unwrap()[..], b"pong");
        });
    }

    fn a_stream_of_std_comes_and_goes(on) {
        on.on_worker(async {
            let std_listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            std_listener.set_nonblocking(true).unwrap();
            let listener = TcpListener::from_std(std_listener).unwrap();
            let address = listener.local_addr().unwrap();
            let mut std = std::net::TcpStream::connect(address).unwrap();
            std.set_nonblocking(true).unwrap();
            let (server, _) = listener.accept().await.unwrap();
            let client = TcpStream::from_std(std).unwrap();
            let mut read = Box::pin(client.read(vec![0; 4]));
            begin(read.as_mut()).await;
            server.write_all("here").await.0.unwrap();
            assert_eq!(read.as_mut().await.1, b"here");
            drop(read);
            (std, _) = client.into_std().await.unwrap();
            std.write_all(b"blocking").unwrap();
            assert_eq!(&server.recv().await.unwrap().unwrap()[..], b"blocking");
            server.write_all("reads").await.0.unwrap();
            let mut buf = [0; 5];
            std.read_exact(&mut buf).unwrap();
            assert_eq!(&buf, b"reads");
        });
    }

    fn std_gets_what_was_received_and_not_read(on) {
        on.on_worker(async {
            const LEN: usize = 300_000;
            for way in 0..3 {
                let (client, server) = pair().await.unwrap();
                match way {
                    0 => begin(pin!(server.recv())).await,
                    1 => begin(pin!(server.read(vec![0; 1000]))).await,
                    _ => begin(pin!(server.read_exact(vec![0; 1000]))).await,
                }
                let sender = filch::spawn(async move {
                    client.write_all(pattern(0, LEN)).await.0.unwrap();
                });
                for _ in 0..10 {
                    filch::yield_now().await;
                }
                let (mut std, mut got) = server.into_std().await.unwrap();
                let got = filch::spawn_blocking(move || {
                    std.read_to_end(&mut got).unwrap();
                    got
                })
                .await;
                sender.await;
                assert!(got == pattern(0, LEN), "{} bytes", got.len());
            }
        });
    }

    fn std_gets_a_stream_after_its_dropped_writes(on) {
        on.on_worker(async {
            const LEN: usize = 16 << 20;
            let (client, server) = pair().await.unwrap();
            begin(pin!(client.write_all(pattern(0, LEN)))).await;
            let reader = filch::spawn(async move {
                let mut got = Vec::new();
                while let Some(chunk) = server.recv().await.unwrap() {
                    got.extend_from_slice(&chunk);
                }
                got
            });
            let (mut std, _) = client.into_std().await.unwrap();
            std.write_all(b"end").unwrap();
            std.shutdown(Shutdown::Write).unwrap();
            let mut wanted = pattern(0, LEN);
            wanted.extend_from_slice(b"end");
            assert!(reader.await == wanted);
        });
    }

    fn std_gets_the_connections_that_nobody_accepted(on) {
        on.on_worker(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            begin(pin!(listener.accept())).await;
            let mut clients = Vec::new();
            for _ in 0..5 {
                clients.push(TcpStream::connect(address).await.unwrap());
            }
            filch::yield_now().await;
            let (std, mut connections) = listener.into_std().await.unwrap();
            while connections.len() < 5 {
                connections.push(std.accept().unwrap().0);
            }
            let mut peers: Vec<_> = connections.iter().map(|c| c.peer_addr().unwrap()).collect();
            let mut locals: Vec<_> = clients.iter().map(|c| c.local_addr().unwrap()).collect();
            peers.sort();
            locals.sort();
            assert_eq!(peers, locals);
        });
    }
}
