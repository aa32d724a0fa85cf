//! Reads that take nothing or wait for nothing, and reads and writes of several buffers.

use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::pin::pin;

use crate::{begin, on_each_backend, pair, pattern, poll_once};

on_each_backend! {
    fn a_peek_takes_nothing_whoever_reads_then(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            client.write_all(b"first").await.0.unwrap();
            let mut buf = [0; 16];
            for _ in 0..3 {
                assert_eq!(server.peek(&mut buf).await.unwrap(), 5);
            }
            // Behind a peek, readiness is not forgotten.
            assert_eq!(server.read(vec![0; 3]).await.1, b"fir");
            assert_eq!(server.peek(&mut buf).await.unwrap(), 2);
            assert_eq!(&server.recv().await.unwrap().unwrap()[..], b"st");
            // With a stream, or bytes that a dropped read has left.
            client.write_all(b"second").await.0.unwrap();
            assert_eq!(server.peek(&mut buf).await.unwrap(), 6);
            assert_eq!(&buf[..6], b"second");
            assert_eq!(server.peek(&mut buf[..2]).await.unwrap(), 2);
            assert_eq!(&server.recv().await.unwrap().unwrap()[..], b"second");
            drop(client);
            assert_eq!(server.peek(&mut buf).await.unwrap(), 0);
            assert!(server.recv().await.unwrap().is_none());
        });
    }

    fn a_dropped_peek_leaves_the_bytes(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            begin(pin!(server.peek(&mut [0; 8]))).await;
            begin(pin!(server.readable())).await;
            client.write_all(b"here").await.0.unwrap();
            assert_eq!(server.read_exact(vec![0; 4]).await.1, b"here");
        });
    }

    fn try_read_says_when_there_is_nothing(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let mut buf = [0; 16];
            assert_eq!(server.try_read(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
            client.write_all(b"some").await.0.unwrap();
            server.readable().await.unwrap();
            assert_eq!(server.try_read(&mut buf[..3]).unwrap(), 3);
            let mut parts = [IoSliceMut::new(&mut buf)];
            assert_eq!(server.try_read_vectored(&mut parts).unwrap(), 1);
            // With a stream.
            client.write_all(b"more").await.0.unwrap();
            assert_eq!(server.recv().await.unwrap().unwrap().len(), 4);
            assert_eq!(server.try_read(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
            client.write_all(b"most").await.0.unwrap();
            server.readable().await.unwrap();
            assert_eq!(server.try_read(&mut buf).unwrap(), 4);
            assert_eq!(&buf[..4], b"most");
            drop(client);
            server.readable().await.unwrap();
            assert_eq!(server.try_read(&mut buf).unwrap(), 0);
        });
    }

    fn try_write_says_when_nothing_fits(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let bytes = pattern(0, 1 << 16);
            let mut sent = 0;
            while let Ok(count) = client.try_write(&bytes) {
                sent += count;
            }
            let parts = [IoSlice::new(&bytes)];
            assert_eq!(client.try_write_vectored(&parts).unwrap_err().kind(), ErrorKind::WouldBlock);
            let mut writable = pin!(client.writable());
            begin(writable.as_mut()).await;
            while sent > 0 {
                sent -= server.recv().await.unwrap().unwrap().len();
            }
            writable.await.unwrap();
            assert!(client.try_write(&bytes).unwrap() > 0);
        });
    }

    fn try_write_waits_for_no_other_write(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let mut write = pin!(client.write_all(pattern(0, 16 << 20)));
            begin(write.as_mut()).await;
            // There is room, but the line is the other's.
            let (result, first) = server.read_exact(vec![0; 1 << 20]).await;
            result.unwrap();
            assert_eq!(client.try_write(b"me").unwrap_err().kind(), ErrorKind::WouldBlock);
            begin(pin!(client.write_vectored(&[IoSlice::new(b"me")]))).await;
            let reader = filch::spawn(async move {
                let mut got = first;
                while let Some(chunk) = server.recv().await.unwrap() {
                    got.extend_from_slice(&chunk);
                }
                got
            });
            write.await.0.unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert!(reader.await == pattern(0, 16 << 20));
        });
    }

    fn vectored_bytes_arrive_whole_and_in_order(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            const LEN: usize = 1 << 20;
            let sender = filch::spawn(async move {
                let bytes = pattern(0, LEN);
                let mut at = 0;
                while at < LEN {
                    let rest = &bytes[at..];
                    let (head, tail) = rest.split_at(rest.len().min(1000));
                    at += client
                        .write_vectored(&[IoSlice::new(head), IoSlice::new(tail)])
                        .await
                        .unwrap();
                }
            });
            let mut got = Vec::new();
            loop {
                if got.len() % 7 == 1 {
                    // From chunks now and then.
                    let Some(chunk) = server.recv().await.unwrap() else { break };
                    got.extend_from_slice(&chunk);
                    continue;
                }
                let (mut a, mut b) = ([0; 333], [0; 5000]);
                let mut parts = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
                let count = server.read_vectored(&mut parts).await.unwrap();
                if count == 0 {
                    break;
                }
                got.extend_from_slice(&a[..count.min(333)]);
                got.extend_from_slice(&b[..count.saturating_sub(333)]);
            }
            sender.await;
            assert!(got == pattern(0, LEN), "{} bytes", got.len());
        });
    }

    fn several_tasks_wait_until_one_socket_is_readable(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let server = std::sync::Arc::new(server);
            let waiters: Vec<_> = (0..4)
                .map(|_| {
                    let server = server.clone();
                    filch::spawn(async move { server.readable().await.unwrap() })
                })
                .collect();
            filch::yield_now().await;
            client.write_all(b"all of you").await.0.unwrap();
            filch::wait_all_async(waiters).await;
        });
    }

    fn a_reset_is_told_to_who_waits_for_readiness(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let mut readable = pin!(server.readable());
            begin(readable.as_mut()).await;
            client.set_linger(Some(std::time::Duration::ZERO)).unwrap();
            drop(client);
            readable.await.unwrap();
            let error = server.try_read(&mut [0; 8]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            assert!(poll_once(pin!(server.writable())).await.is_ready());
        });
    }
}
