//! Reads and writes that are given up in the middle: what they had is told, or there for the next.

use std::io::{ErrorKind, IoSliceMut};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use filch::io::{AsyncRead, AsyncWrite};
use filch::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use filch::time::timeout;

use crate::files::{Scratch, fifo, open};
use crate::{begin, on_each_backend, pair, settle};

/// What is left, up to the end.
async fn rest(stream: &TcpStream) -> Vec<u8> {
    let mut got = Vec::new();
    while let Some(chunk) = stream.recv().await.unwrap() {
        got.extend_from_slice(&chunk);
    }
    got
}

/// Lets what has happened on other sockets be noticed.
async fn pause() {
    for _ in 0..3 {
        let (there, here) = pair().await.unwrap();
        there.write_all(b"x").await.0.unwrap();
        settle(&here).await;
    }
}

#[derive(Default)]
struct Idle {
    wakes: AtomicUsize,
}

impl Wake for Idle {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Relaxed);
    }
}

/// What may wake one that waits, though nothing has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wakes {
    Never,
    /// The end of a receive that one before it has abandoned: it may begin its own then. That may come on another
    /// thread at any moment, once for each time that it began to wait.
    AtAnEnd,
}

/// Has many who are nobody's task wait for something, one after the other, and give up. Nearly all of their wakers
/// are gone then, and none was woken by another that gave up: one that comes again whenever it is woken would go round
/// for ever.
async fn kept<F: Future>(wakes: Wakes, wait: impl Fn() -> F) {
    // With a budget for all of them.
    filch::yield_now().await;
    let idlers: Vec<_> = (0..100).map(|_| Arc::new(Idle::default())).collect();
    let waits = |number| if number < 2 { 2 } else { 1 };
    for number in (0..idlers.len()).chain(0..2) {
        let waker = Waker::from(idlers[number].clone());
        assert!(pin!(wait()).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    let kept = idlers.iter().filter(|idler| Arc::strong_count(idler) > 1).count();
    assert!(kept <= 2, "{kept} of {} wakers are kept", idlers.len());
    for (number, idler) in idlers.iter().enumerate() {
        let most = if wakes == Wakes::Never { 0 } else { waits(number) };
        let woken = idler.wakes.load(Relaxed);
        assert!(woken <= most, "{number} was woken {woken} times, though nothing has come");
    }
}

on_each_backend! {
    fn a_cancelled_read_of_all_loses_nothing_of_what_was_received_ahead(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            client.write_all(b"x").await.0.unwrap();
            // From now on the socket receives ahead.
            server.recv().await.unwrap().unwrap();
            client.write_all(b"half").await.0.unwrap();
            server.readable().await.unwrap();
            let mut got = {
                let mut read = pin!(server.read_exact(vec![0; 8]));
                begin(read.as_mut()).await;
                let (result, buf) = read.cancel().await;
                buf[..result.unwrap_or(0)].to_vec()
            };
            client.write_all(b"rest").await.0.unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            got.append(&mut rest(&server).await);
            assert_eq!(got, b"halfrest");
        });
    }

    fn a_cancelled_read_of_all_ends_with_what_came(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let mut read = pin!(server.read_exact(vec![0; 8]));
            begin(read.as_mut()).await;
            client.write_all(b"half").await.0.unwrap();
            pause().await;
            let ended = timeout(Duration::from_secs(10), read.cancel()).await;
            let (result, buf) = ended.expect("a cancelled read waits for no more");
            let mut got = buf[..result.unwrap_or(0)].to_vec();
            client.write_all(b"rest").await.0.unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            got.append(&mut rest(&server).await);
            assert_eq!(got, b"halfrest");
        });
    }

    fn an_error_that_a_dropped_read_has_met_is_told_to_the_next(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            {
                let mut read = pin!(server.read(vec![0; 8]));
                begin(read.as_mut()).await;
                client.set_linger(Some(Duration::ZERO)).unwrap();
                drop(client);
                pause().await;
            }
            let error = server.read(vec![0; 8]).await.0.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            assert_eq!(server.read(vec![0; 8]).await.0.unwrap(), 0, "told once");
        });
    }

    fn wakers_of_those_who_gave_up_are_let_go(on) {
        on.on_worker(async move {
            let (client, server) = pair().await.unwrap();
            kept(Wakes::Never, || server.readable()).await;
            kept(Wakes::Never, || async { server.peek(&mut [0; 8]).await }).await;
            // Receives on a ring are abandoned, by the first of them at least.
            let at_an_end = if on.is_uring() { Wakes::AtAnEnd } else { Wakes::Never };
            kept(at_an_end, || client.read(vec![0; 8])).await;
            kept(at_an_end, || client.readable()).await;
            kept(at_an_end, || async { client.peek(&mut [0; 8]).await }).await;
            kept(Wakes::Never, || server.recv()).await;
            // From now on the socket receives ahead.
            kept(Wakes::Never, || server.read(vec![0; 8])).await;
            let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            kept(Wakes::Never, || async { udp.recv_from(&mut [0; 8]).await }).await;
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            kept(Wakes::Never, || listener.accept()).await;
            let (pipe, _writer) = std::io::pipe().unwrap();
            let pipe = filch::fs::File::from_std(OwnedFd::from(pipe).into()).unwrap();
            kept(Wakes::Never, || pipe.read(vec![0; 8])).await;
            // Somebody who still waits is not forgotten.
            let mut read = pin!(client.read(vec![0; 8]));
            begin(read.as_mut()).await;
            kept(at_an_end, || client.readable()).await;
            server.write_all(b"x").await.0.unwrap();
            assert_eq!(read.await.0.unwrap(), 1);
        });
    }

    fn wakers_of_those_who_gave_up_the_line_are_let_go(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let long = vec![7; 16 << 20];
            let mut first = pin!(client.write_all(long.clone()));
            begin(first.as_mut()).await;
            let mut next = pin!(client.write_all(b"next".to_vec()));
            begin(next.as_mut()).await;
            kept(Wakes::Never, || client.write_all(b"never".to_vec())).await;
            kept(Wakes::Never, || async {
                client.write_vectored(&[std::io::IoSlice::new(b"never")]).await
            })
            .await;
            // Who still waits is not forgotten.
            let writes = async {
                futures_lite::future::zip(first, next).await.1.0.unwrap();
                client.shutdown(Shutdown::Write).unwrap();
            };
            let got = futures_lite::future::zip(writes, rest(&server)).await.1;
            assert!(got.len() == long.len() + 4 && got.ends_with(b"next"));
        });
    }

    fn what_a_dropped_read_had_is_told_to_who_waits(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            client.write_all(b"x").await.0.unwrap();
            // From now on the socket receives ahead: no read is in flight by itself.
            server.recv().await.unwrap().unwrap();
            for round in 0..4 {
                client.write_all(b"half").await.0.unwrap();
                server.readable().await.unwrap();
                let mut goes = Box::pin(server.read_exact(vec![0; 8]));
                begin(goes.as_mut()).await;
                let idler = Arc::new(Idle::default());
                let waker = Waker::from(idler.clone());
                let (mut peeked, mut into) = ([0; 8], [0; 8]);
                let mut waits: Pin<Box<dyn Future<Output = usize> + Send + '_>> = match round {
                    0 => Box::pin(async { server.read(vec![0; 8]).await.0.unwrap() }),
                    1 => Box::pin(async { server.recv().await.unwrap().unwrap().len() }),
                    2 => Box::pin(async { server.peek(&mut peeked).await.unwrap() }),
                    _ => Box::pin(async {
                        let into = &mut [IoSliceMut::new(&mut into)];
                        server.read_vectored(into).await.unwrap()
                    }),
                };
                assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                assert_eq!(idler.wakes.load(Relaxed), 0);
                drop(goes);
                assert!(idler.wakes.load(Relaxed) > 0, "it has the bytes, and nobody says so");
                assert_eq!(waits.await, 4);
                if round == 2 {
                    assert_eq!(server.try_read(&mut [0; 8]).unwrap(), 4);
                }
            }
        });
    }

    fn two_reads_share_a_chunk(on) {
        let runtime = on.builder().io_workers(3).build().unwrap();
        let (client, server) = runtime.block_on(runtime.spawn(async {
            let (client, server) = pair().await.unwrap();
            client.write_all(b"x").await.0.unwrap();
            server.recv().await.unwrap().unwrap();
            (client, Arc::new(server))
        }));
        for _ in 0..200 {
            let reads: [_; 2] = std::array::from_fn(|_| {
                let server = server.clone();
                runtime.spawn(async move { server.read(vec![0; 1]).await.0.unwrap() })
            });
            runtime.block_on(async { client.write_all(b"ab").await.0.unwrap() });
            for read in reads {
                assert_eq!(runtime.block_on(read), 1);
            }
        }
    }

    fn a_waker_that_panics_keeps_no_other_from_the_line(on) {
        struct Bad;
        impl Wake for Bad {
            fn wake(self: Arc<Self>) {
                panic!("a waker that panics");
            }
        }
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let mut first = pin!(client.write_all(vec![7; 16 << 20]));
            begin(first.as_mut()).await;
            let good = Arc::new(Idle::default());
            let wakers = [Waker::from(Arc::new(Bad)), Waker::from(good.clone())];
            let mut others = wakers.map(|waker| {
                let mut other = Box::pin(client.write_all(vec![8; 1]));
                assert!(other.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                other
            });
            let ends = async {
                first.await.0.unwrap();
                assert_eq!(good.wakes.load(Relaxed), 1);
                for other in &mut others {
                    other.await.0.unwrap();
                }
                client.shutdown(Shutdown::Write).unwrap();
            };
            let got = futures_lite::future::zip(ends, rest(&server)).await.1;
            assert_eq!(got.len(), (16 << 20) + 2);
        });
    }

    fn a_close_of_what_is_closed_is_no_error(on) {
        use futures_lite::AsyncWriteExt;
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            client.set_linger(Some(Duration::ZERO)).unwrap();
            drop(client);
            server.readable().await.unwrap_or(());
            let mut server = server;
            server.close().await.unwrap();
            server.close().await.unwrap();
        });
    }
}

/// Has many poll one object by `futures-io` and go, without a word.
fn polled(mut poll: impl FnMut(&mut Context<'_>) -> bool) -> Vec<Arc<Idle>> {
    let idlers: Vec<_> = (0..100).map(|_| Arc::new(Idle::default())).collect();
    for idler in &idlers {
        let waker = Waker::from(idler.clone());
        assert!(!poll(&mut Context::from_waker(&waker)), "there is nothing");
    }
    idlers
}

fn kept_of(idlers: &[Arc<Idle>]) -> usize {
    idlers.iter().filter(|idler| Arc::strong_count(idler) > 1).count()
}

on_each_backend! {
    fn polls_of_a_stream_leave_the_last_waker_only(on) {
        on.on_worker(async {
            // Of a local pair, whose room changes with reads alone.
            let (mut client, server) = UnixStream::pair().unwrap();
            // Polls of the task itself, so that its budget is renewed.
            while client.try_write(&[0; 10_000]).is_ok() {}
            filch::yield_now().await;
            let writers = polled(|cx| Pin::new(&mut client).poll_write(cx, &[0; 10]).is_ready());
            assert!(kept_of(&writers) <= 2, "{} of 100 wakers are kept", kept_of(&writers));
            filch::yield_now().await;
            let readers = polled(|cx| {
                Pin::new(&mut client).poll_read(cx, &mut [0; 10]).is_ready()
            });
            assert!(kept_of(&readers) <= 2, "{} of 100 wakers are kept", kept_of(&readers));
            // The last of each is owed a wake.
            server.write_all(b"x").await.0.unwrap();
            while readers.last().unwrap().wakes.load(Relaxed) == 0 {
                pause().await;
            }
            let mut buf = vec![0; 1 << 20];
            while writers.last().unwrap().wakes.load(Relaxed) == 0 {
                // Not a read that waits: all may have been read before the wake comes.
                let _ = server.try_read(&mut buf);
                pause().await;
            }
        });
    }

    fn polls_of_a_half_leave_the_last_waker_only(on) {
        on.on_worker(async {
            let (_client, server) = pair().await.unwrap();
            let (mut reader, _writer) = server.into_split();
            filch::yield_now().await;
            let idlers = polled(|cx| Pin::new(&mut reader).poll_read(cx, &mut [0; 10]).is_ready());
            assert!(kept_of(&idlers) <= 2, "{} of 100 wakers are kept", kept_of(&idlers));
        });
    }

    fn polls_of_a_file_leave_the_last_waker_until_the_file_goes(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let path = fifo(&dir);
            let pipe = open(&path).await;
            let mut polls = pipe.try_clone().await.unwrap();
            filch::yield_now().await;
            let idlers = polled(|cx| Pin::new(&mut polls).poll_read(cx, &mut [0; 10]).is_ready());
            assert!(kept_of(&idlers) <= 2, "{} of 100 wakers are kept", kept_of(&idlers));
            drop(polls);
            assert!(kept_of(&idlers) <= 1, "{} of 100 wakers are kept", kept_of(&idlers));
            drop(pipe);
        });
    }
}
