//! Operations that are dropped or cancelled, at any moment.

use std::io;
use std::net::Shutdown;
use std::pin::pin;
use std::task::Poll;

use filch::net::{TcpListener, TcpStream};

use crate::{begin, descriptors, on_each_backend, pair, pattern, poll_once, settle};

/// A simple random source: the order of drops is to vary, not to be good.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.0 = next;
        (next >> 33) as usize % limit
    }
}

/// More than fits into both socket buffers.
const BIG: usize = 16 << 20;

/// One try to read, which may be given up: the bytes, `None` if there were none, and an empty answer at
/// the end.
async fn try_read(stream: &TcpStream, dice: &mut Dice) -> Option<Vec<u8>> {
    let cut = |(result, mut buf): (io::Result<usize>, Vec<u8>)| {
        buf.truncate(result.ok()?);
        Some(buf)
    };
    let size = 1 + dice.below(5000);
    match dice.below(5) {
        0 => {
            let mut read = pin!(stream.read(vec![0; size]));
            match poll_once(read.as_mut()).await {
                Poll::Ready(done) => cut(done),
                Poll::Pending => None,
            }
        }
        1 => {
            let mut read = pin!(stream.read(Vec::with_capacity(size)));
            match poll_once(read.as_mut()).await {
                Poll::Ready(done) => cut(done),
                Poll::Pending => {
                    if dice.below(2) == 0 {
                        filch::yield_now().await;
                    }
                    cut(read.cancel().await)
                }
            }
        }
        2 => {
            let mut read = pin!(stream.read_exact(vec![0; size]));
            match poll_once(read.as_mut()).await {
                Poll::Ready(done) => cut(done),
                Poll::Pending => None,
            }
        }
        3 => {
            let mut recv = pin!(stream.recv());
            match poll_once(recv.as_mut()).await {
                Poll::Ready(chunk) => Some(chunk.unwrap().map_or(Vec::new(), |c| c.to_vec())),
                Poll::Pending => None,
            }
        }
        _ => cut(stream.read(vec![0; size]).await),
    }
}

on_each_backend! {
    fn bytes_of_dropped_reads_come_with_the_next(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            begin(pin!(server.read(vec![0; 100]))).await;
            client.write_all(b"for whoever reads").await.0.unwrap();
            let (result, buf) = server.read(vec![0; 100]).await;
            assert_eq!(&buf[..result.unwrap()], b"for whoever reads");
        });
    }

    fn no_byte_is_lost_or_doubled_by_random_drops(on) {
        let runtime = on.runtime();
        for seed in 0..8 {
            let task = runtime.spawn(async move {
                let (client, server) = pair().await.unwrap();
                let sender = filch::spawn(async move {
                    let mut dice = Dice(seed ^ 0xABCD);
                    let mut sent = 0;
                    while sent < 200_000 {
                        let piece = (1 + dice.below(9000)).min(200_000 - sent);
                        client.write_all(pattern(sent, piece)).await.0.unwrap();
                        sent += piece;
                        if dice.below(3) == 0 {
                            filch::yield_now().await;
                        }
                    }
                });
                let (mut dice, mut got) = (Dice(seed), Vec::new());
                while got.len() < 200_000 {
                    match try_read(&server, &mut dice).await {
                        Some(bytes) => {
                            assert!(!bytes.is_empty(), "seed {seed}: the end after {}", got.len());
                            got.extend_from_slice(&bytes);
                        }
                        None => filch::yield_now().await,
                    }
                }
                sender.await;
                assert!(got == pattern(0, 200_000), "seed {seed}");
            });
            runtime.block_on(task);
        }
    }

    fn cancel_gives_the_buffer_back(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let mut read = pin!(server.read(vec![7; 100]));
            begin(read.as_mut()).await;
            let (result, buf) = read.cancel().await;
            assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::ECANCELED));
            assert_eq!(buf, [7; 100]);
            // Nothing was taken.
            client.write_all(b"later").await.0.unwrap();
            let (result, buf) = server.read(buf).await;
            assert_eq!(&buf[..result.unwrap()], b"later");
        });
    }

    fn a_completion_wins_over_a_late_cancel(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let mut read = pin!(server.read(vec![0; 100]));
            begin(read.as_mut()).await;
            client.write_all(b"in time").await.0.unwrap();
            // Another read of the same kind on another pair: by then this one has completed.
            let (there, here) = pair().await.unwrap();
            there.write_all(b"x").await.0.unwrap();
            settle(&here).await;
            let (result, buf) = read.cancel().await;
            match result {
                Ok(count) => assert_eq!(&buf[..count], b"in time"),
                Err(_) => {
                    let (result, buf) = server.read(buf).await;
                    assert_eq!(&buf[..result.unwrap()], b"in time");
                }
            }
        });
    }

    fn a_dropped_write_runs_to_its_end_before_a_later_one(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            begin(pin!(client.write_all(pattern(0, BIG)))).await;
            let writer = filch::spawn(async move {
                client.write_all(b"tail").await.0.unwrap();
            });
            let (result, got) = server.read_exact(vec![0; BIG + 4]).await;
            result.unwrap();
            assert!(got[..BIG] == pattern(0, BIG));
            assert_eq!(&got[BIG..], b"tail");
            writer.await;
        });
    }

    fn a_write_dropped_before_its_turn_never_happened(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let mut first = pin!(client.write_all(pattern(0, BIG)));
            begin(first.as_mut()).await;
            begin(pin!(client.write_all(b"not me".to_vec()))).await;
            let reader = filch::spawn(async move {
                let (result, got) = server.read_exact(vec![0; BIG]).await;
                result.unwrap();
                assert!(got == pattern(0, BIG));
                server.read(vec![0; 16]).await.0.unwrap()
            });
            first.await.0.unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(reader.await, 0);
        });
    }

    fn a_cancelled_write_tells_what_is_gone(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let mut write = pin!(client.write_all(pattern(0, BIG)));
            begin(write.as_mut()).await;
            let (result, buf) = write.cancel().await;
            let count = result.unwrap();
            assert!(0 < count && count < BIG && buf.len() == BIG);
            client.shutdown(Shutdown::Write).unwrap();
            let (mut got, mut end) = (Vec::new(), false);
            while !end {
                let (result, buf) = server.read(vec![0; 100_000]).await;
                let count = result.unwrap();
                got.extend_from_slice(&buf[..count]);
                end = count == 0;
            }
            assert!(got == pattern(0, count), "{} of {count}", got.len());
        });
    }

    fn more_reads_than_the_queue_holds_are_dropped_safely(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let mut reads: Vec<_> =
                (0..2000).map(|_| Box::pin(server.read(vec![0; 32]))).collect();
            for read in &mut reads {
                begin(read.as_mut()).await;
            }
            drop(reads);
            client.write_all(pattern(0, 1000)).await.0.unwrap();
            let (result, got) = server.read_exact(vec![0; 1000]).await;
            result.unwrap();
            assert!(got == pattern(0, 1000));
        });
    }

    fn a_read_that_is_never_polled_does_nothing(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            drop(server.read(vec![0; 8]));
            drop(server.recv());
            drop(client.write_all(b"nothing"));
            client.write_all(b"all").await.0.unwrap();
            let (result, buf) = server.read(vec![0; 8]).await;
            assert_eq!(&buf[..result.unwrap()], b"all");
        });
    }

    fn what_was_accepted_too_late_is_closed(on) {
        let _alone = crate::alone();
        // One thread, whose driver has its descriptors by then.
        let runtime = on.builder().workers(1).io_spares(0).build().unwrap();
        runtime.block_on(runtime.spawn(pair())).unwrap();
        let before = descriptors();
        for _ in 0..20 {
            let task = runtime.spawn(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                begin(pin!(listener.accept())).await;
                let clients: Vec<_> = (0..5)
                    .map(|_| std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap())
                    .collect();
                filch::yield_now().await;
                drop(listener);
                drop(clients);
            });
            runtime.block_on(task);
        }
        crate::eventually(|| descriptors() <= before);
    }
}
