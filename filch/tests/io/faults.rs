//! The other side misbehaves, dies, or is many.

use std::io::{ErrorKind, Write};
use std::net::Shutdown as Half;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

use filch::Shutdown;
use filch::io::{AsyncReadExt, AsyncWriteExt};
use filch::net::{TcpListener, TcpStream, UnixStream};

use crate::{On, begin, eventually, on_each_backend, pair, pattern, poll_once};

/// A peer in a process of its own: it writes what it is told to, then sits there until it is killed.
#[test]
#[ignore = "run by the tests below, in a process of its own"]
fn a_peer() {
    let address = std::env::var("FILCH_TEST_PEER").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(&pattern(0, 10_000)).unwrap();
    loop {
        std::thread::park();
    }
}

/// A peer's process, which does not outlive the test.
struct Peer(std::process::Child);

impl Peer {
    fn start(address: std::net::SocketAddr) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "faults::a_peer", "--ignored"])
            .env("FILCH_TEST_PEER", address.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn kill(&mut self) {
        // SIGKILL.
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Deterministic, printed when something fails.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }
}

/// Gives a read of any kind up after a few polls; the bytes if it has some, an empty answer at the end.
async fn read_a_little(stream: &UnixStream, dice: &mut Dice) -> Option<Vec<u8>> {
    let size = 1 + dice.below(9000);
    let mut buf = vec![0; size];
    let count = match dice.below(7) {
        0 => match poll_once(pin!(stream.read(buf))).await {
            Poll::Ready((result, buf)) => return Some(buf[..result.unwrap()].to_vec()),
            Poll::Pending => return None,
        },
        1 => match poll_once(pin!(stream.recv())).await {
            Poll::Ready(chunk) => return Some(chunk.unwrap().map_or(Vec::new(), |c| c.to_vec())),
            Poll::Pending => return None,
        },
        2 => match poll_once(pin!((&mut &*stream).read(&mut buf))).await {
            Poll::Ready(result) => result.unwrap(),
            Poll::Pending => return None,
        },
        3 => {
            let peeked = match poll_once(pin!(stream.peek(&mut buf))).await {
                Poll::Ready(result) => result.unwrap(),
                Poll::Pending => return None,
            };
            // The same bytes come with the read.
            let (result, read) = stream.read_exact(vec![0; peeked]).await;
            result.unwrap();
            assert!(read == buf[..peeked], "peeked at other bytes");
            peeked
        }
        4 => match stream.try_read(&mut buf) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                filch::yield_now().await;
                return None;
            }
            result => result.unwrap(),
        },
        5 => {
            let (head, tail) = buf.split_at_mut(size / 2);
            let mut parts = [std::io::IoSliceMut::new(head), std::io::IoSliceMut::new(tail)];
            match poll_once(pin!(stream.read_vectored(&mut parts))).await {
                Poll::Ready(result) => result.unwrap(),
                Poll::Pending => return None,
            }
        }
        _ => {
            let (result, got) = stream.read(buf).await;
            return Some(got[..result.unwrap()].to_vec());
        }
    };
    buf.truncate(count);
    Some(buf)
}

/// Writes in every way, some given up; appends to `sent` what has gone out.
async fn write_a_little(stream: &UnixStream, dice: &mut Dice, sent: &mut usize) {
    let size = 1 + dice.below(20_000);
    let bytes = pattern(*sent, size);
    *sent += match dice.below(5) {
        0 => {
            stream.write_all(bytes).await.0.unwrap();
            size
        }
        1 => {
            let mut write = pin!(stream.write_all(bytes));
            match poll_once(write.as_mut()).await {
                Poll::Ready((result, _)) => result.unwrap(),
                // Begun or not, that is told.
                Poll::Pending => write.cancel().await.0.unwrap_or(0),
            }
        }
        2 => match poll_once(pin!((&mut &*stream).write(&bytes))).await {
            Poll::Ready(result) => result.unwrap(),
            Poll::Pending => 0,
        },
        3 => {
            let (head, tail) = bytes.split_at(size / 3);
            let parts = [std::io::IoSlice::new(head), std::io::IoSlice::new(tail)];
            match poll_once(pin!(stream.write_vectored(&parts))).await {
                Poll::Ready(result) => result.unwrap(),
                Poll::Pending => 0,
            }
        }
        _ => stream.try_write(&bytes).unwrap_or(0),
    };
}

on_each_backend! {
    fn a_peer_that_is_killed_ends_its_connection(on) {
        on.on_worker(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut peer = Peer::start(listener.local_addr().unwrap());
            let (stream, _) = listener.accept().await.unwrap();
            let (result, got) = stream.read_exact(vec![0; 10_000]).await;
            result.unwrap();
            assert!(got == pattern(0, 10_000));
            // One task waits to read, one to write, when it is killed.
            let (read, write) = stream.into_split();
            let reads = filch::spawn(async move { read.recv().await.map(|chunk| chunk.is_none()) });
            let mut big = Box::pin(async move { write.write_all(pattern(0, 64 << 20)).await.0 });
            begin(big.as_mut()).await;
            filch::spawn_blocking(move || peer.kill()).await;
            let wrote = big.await.unwrap_err();
            let gone = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
            assert!(gone.contains(&wrote.kind()), "{wrote}");
            match reads.await {
                Ok(ended) => assert!(ended),
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
            }
        });
    }

    fn a_reset_reaches_reader_and_writer(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            client.set_linger(Some(Duration::ZERO)).unwrap();
            let mut write = pin!(server.write_all(pattern(0, 64 << 20)));
            begin(write.as_mut()).await;
            drop(client);
            let (result, buf) = write.await;
            assert_eq!(buf.len(), 64 << 20);
            let error = result.unwrap_err();
            assert!(
                [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&error.kind()),
                "{error}"
            );
            assert!(server.write_all("more").await.0.is_err());
            // Told once; the end stays.
            let _ = server.recv().await;
            assert!(server.recv().await.unwrap().is_none());
        });
    }

    fn what_came_before_a_half_close_is_read_after_it(on) {
        on.on_worker(async {
            const LEN: usize = 1 << 20;
            let (client, server) = pair().await.unwrap();
            let sends = filch::spawn(async move {
                client.write_all(pattern(0, LEN)).await.0.unwrap();
                client.shutdown(Half::Write).unwrap();
                let (result, answer) = client.read_exact(vec![0; LEN]).await;
                result.unwrap();
                assert!(answer == pattern(0, LEN));
                assert_eq!(client.read(vec![0; 1]).await.0.unwrap(), 0);
            });
            let mut got = Vec::new();
            (&server).read_to_end(&mut got).await.unwrap();
            server.write_all(got).await.0.unwrap();
            drop(server);
            sends.await;
        });
    }

    fn no_byte_is_lost_or_doubled_whatever_way_is_given_up(on) {
        on.on_worker(async {
            for seed in 0..4 {
                let (here, there) = UnixStream::pair().unwrap();
                let writer = filch::spawn(async move {
                    let (mut dice, mut sent) = (Dice(seed), 0);
                    while sent < 400_000 {
                        write_a_little(&here, &mut dice, &mut sent).await;
                        if dice.below(3) == 0 {
                            filch::yield_now().await;
                        }
                    }
                    sent
                });
                let (mut dice, mut got) = (Dice(seed + 100), 0);
                loop {
                    match read_a_little(&there, &mut dice).await {
                        Some(bytes) if bytes.is_empty() => break,
                        Some(bytes) => {
                            assert!(bytes == pattern(got, bytes.len()), "seed {seed}, at {got}");
                            got += bytes.len();
                        }
                        None if dice.below(3) == 0 => filch::yield_now().await,
                        None => {}
                    }
                }
                assert_eq!(got, writer.await, "seed {seed}");
            }
        });
    }

    fn ten_thousand_connections_come_and_go_while_runtimes_end(on) {
        let _alone = crate::alone();
        // What is made once and kept is there by then.
        churn(on, Shutdown::Abort);
        let (descriptors, bytes) = (crate::descriptors(), crate::allocated());
        let ways = [Shutdown::Abort, Shutdown::DrainFor(Duration::from_millis(5))];
        let mut opened = 0;
        for how in ways.into_iter().cycle() {
            opened += churn(on, how);
            if opened >= 10_000 {
                break;
            }
        }
        eventually(|| crate::descriptors() <= descriptors);
        // A leak of 32 bytes for each connection would show. The rest is what the tests' own harness keeps.
        eventually(|| crate::allocated() <= bytes + 300_000);
    }
}

/// Connections that a server is to see before its runtime ends, and that are open at once.
const SHARE: usize = 1000;
const OPEN: usize = 50;

/// Opens and closes connections from outside, as fast as it can, while the server's runtime ends in the
/// middle of it; returns how many.
fn churn(on: On, how: Shutdown) -> usize {
    let runtime = on.runtime();
    let (bound, address) = mpsc::channel();
    let served = Arc::new(AtomicUsize::new(0));
    let count = served.clone();
    runtime
        .spawn(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            bound.send(listener.local_addr().unwrap()).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                filch::spawn(serve(stream)).detach();
            }
        })
        .detach();
    let address = address.recv().unwrap();
    let client = std::thread::spawn(move || {
        let (mut open, mut opened) = (std::collections::VecDeque::new(), 0);
        // Refused once the listener is gone.
        while let Ok(mut stream) = std::net::TcpStream::connect(address) {
            // No TIME_WAIT: ports are not to run out.
            let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            let _ = stream.write_all(b"hello");
            open.push_back(stream);
            opened += 1;
            if open.len() > OPEN {
                open.pop_front();
            }
        }
        opened
    });
    eventually(|| served.load(Ordering::Relaxed) >= SHARE);
    runtime.shutdown(how);
    client.join().unwrap()
}

/// An echo until the other side goes.
async fn serve(stream: TcpStream) {
    while let Ok(Some(chunk)) = stream.recv().await {
        if stream.write_all(chunk).await.0.is_err() {
            return;
        }
    }
}
