//! Records of many writers, some given up: each arrives whole or not at all, and in order.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use filch::io::AsyncWriteExt;
use filch::net::TcpStream;

use crate::{on_each_backend, pair, pattern, poll_once};

/// Deterministic; its seed is printed when something fails.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }
}

/// A record: who, which, how long, and bytes that tell their place.
fn record(writer: u8, number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![writer];
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&(len as u32).to_le_bytes());
    bytes.extend_from_slice(&pattern(number as usize, len));
    bytes
}

/// Writes records, each by a write of its own, some of which are dropped after a poll or two.
async fn write_records(stream: Arc<TcpStream>, writer: u8, seed: u64) {
    let mut dice = Dice(seed);
    for number in 0..60 {
        let len = if dice.below(4) == 0 { dice.below(3_000_000) } else { dice.below(3000) };
        let bytes = record(writer, number, len);
        let mut write = pin!(stream.write_all(bytes));
        match dice.below(4) {
            0 | 1 => {
                write.await.0.unwrap();
            }
            2 => {
                let _ = poll_once(write.as_mut()).await;
            }
            _ => {
                if poll_once(write.as_mut()).await.is_pending() {
                    filch::yield_now().await;
                    let _ = poll_once(write.as_mut()).await;
                }
            }
        }
    }
}

/// Reads to the end by all means, changing the stream's form now and then.
async fn read_all(mut stream: TcpStream, dice: &mut Dice) -> Vec<u8> {
    let mut got = Vec::new();
    loop {
        match dice.below(9) {
            0 => {
                let (std, mut unread) = stream.into_std().await.unwrap();
                got.append(&mut unread);
                stream = TcpStream::from_std(std).unwrap();
            }
            1 => {
                let (read, write) = stream.into_split();
                let (result, buf) = read.read(vec![0; 1 + dice.below(100_000)]).await;
                got.extend_from_slice(&buf[..result.unwrap()]);
                stream = read.reunite(write).unwrap();
            }
            2 => {
                let _ = poll_once(pin!(stream.read(vec![0; 5000]))).await.map(|(result, buf)| {
                    got.extend_from_slice(&buf[..result.unwrap()]);
                });
            }
            3 => {
                let mut read = pin!(stream.read_exact(vec![0; 1 + dice.below(50_000)]));
                match poll_once(read.as_mut()).await {
                    Poll::Ready((Ok(count), buf)) => got.extend_from_slice(&buf[..count]),
                    Poll::Ready((Err(_), _)) => {}
                    Poll::Pending => {
                        let (result, buf) = read.cancel().await;
                        got.extend_from_slice(&buf[..result.unwrap_or(0)]);
                    }
                }
            }
            4 | 5 => match stream.recv().await.unwrap() {
                Some(chunk) => got.extend_from_slice(&chunk),
                None => return got,
            },
            6 => {
                let mut buf = vec![0; 1 + dice.below(5000)];
                let peeked = stream.peek(&mut buf).await.unwrap();
                if peeked > 0 {
                    let (result, same) = stream.read_exact(vec![0; peeked]).await;
                    result.unwrap();
                    assert!(same == buf[..peeked], "peeked at other bytes");
                    got.extend_from_slice(&same);
                }
            }
            7 => {
                let mut buf = vec![0; 1 + dice.below(5000)];
                let read = futures_lite::AsyncReadExt::read(&mut stream, &mut buf).await.unwrap();
                got.extend_from_slice(&buf[..read]);
            }
            _ => {
                let (result, buf) = stream.read(vec![0; 1 + dice.below(200_000)]).await;
                got.extend_from_slice(&buf[..result.unwrap()]);
            }
        }
    }
}

/// Every record is whole, and those of a writer are in order.
fn check(bytes: &[u8], seed: u64) {
    let (mut at, mut last) = (0, [None; 3]);
    while at < bytes.len() {
        let writer = bytes[at];
        let word = |from: usize| u32::from_le_bytes(bytes[from..from + 4].try_into().unwrap());
        let (number, len) = (word(at + 1), word(at + 5) as usize);
        let body = &bytes[at + 9..at + 9 + len];
        assert!(body == pattern(number as usize, len), "seed {seed}: {writer}/{number} at {at}");
        let before = last[usize::from(writer)].replace(number);
        assert!(before.is_none_or(|before| before < number), "seed {seed}: out of order");
        at += 9 + len;
    }
}

on_each_backend! {
    fn records_arrive_whole_or_not_at_all_and_in_order(on) {
        let runtime = on.runtime();
        for seed in 0..4 {
            let task = runtime.spawn(async move {
                let (client, server) = pair().await.unwrap();
                let client = Arc::new(client);
                let writers: Vec<_> = (0..3u8)
                    .map(|writer| {
                        filch::spawn(write_records(client.clone(), writer, seed * 10 + u64::from(writer)))
                    })
                    .collect();
                drop(client);
                let bytes = read_all(server, &mut Dice(seed)).await;
                filch::wait_all_async(writers).await;
                check(&bytes, seed);
            });
            runtime.block_on(task);
        }
    }

    fn tasks_that_write_through_one_reference_all_go_on(on) {
        on.on_worker(async {
            const LEN: usize = 8 << 20;
            let (client, server) = pair().await.unwrap();
            let client = Arc::new(client);
            let writers: Vec<_> = (0..4)
                .map(|_| {
                    let client = client.clone();
                    filch::spawn(async move {
                        (&mut &*client).write_all(&vec![7; LEN]).await.unwrap();
                    })
                })
                .collect();
            // One more that gives up, when it may be the one to be woken.
            for _ in 0..20 {
                let _ = poll_once(pin!((&mut &*client).write(&[7; 9]))).await;
                filch::yield_now().await;
            }
            let (result, got) = server.read_exact(vec![0; 4 * LEN]).await;
            result.unwrap();
            assert!(got.iter().all(|&byte| byte == 7));
            filch::wait_all_async(writers).await;
        });
    }
}
