//! More at once than a ring, its buffers or its workers hold.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filch::net::{UnixDatagram, UnixStream};

use super::fate::{Op, dawdle, poll_once};
use super::{Aborted, Epoch};

/// More than the submission queue takes.
const SUBMISSIONS: u64 = 700;

/// More than the completion queue takes.
const COMPLETIONS: usize = 2600;

/// More than a driver has buffers.
const BUFFERS: usize = 160;

/// Reads that are started in one poll, before the worker can submit them.
pub async fn submissions(epoch: &'static Epoch, seed: u64) -> Result<(), Aborted> {
    let mut dice = epoch.dice(seed);
    while !epoch.stops() {
        let (here, there) = epoch.check(UnixStream::pair(), "pair")?;
        let there = Arc::new(there);
        let mut reads: Vec<Op<_>> = (0..1 + dice.below(SUBMISSIONS))
            .map(|_| {
                let stream = there.clone();
                Box::pin(async move { stream.read(vec![0; 16]).await }) as Op<_>
            })
            .collect();
        for read in &mut reads {
            assert!(poll_once(read).await.is_pending());
        }
        while dice.below(4) > 0 && !reads.is_empty() {
            let index = dice.below(reads.len() as u64) as usize;
            drop(reads.swap_remove(index));
        }
        drop(reads);
        epoch.check(here.write_all(vec![7; 100]).await.0, "write_all")?;
        let (result, bytes) = there.read_exact(vec![0; 100]).await;
        epoch.check(result, "read_exact")?;
        assert_eq!(bytes, [7; 100]);
        epoch.step();
    }
    Ok(())
}

/// Waits that end all at once, while the worker does not look.
pub async fn completions(epoch: &'static Epoch, seed: u64) -> Result<(), Aborted> {
    let mut dice = epoch.dice(seed);
    while !epoch.stops() {
        let (here, there) = epoch.check(UnixDatagram::pair(), "pair")?;
        let there = Arc::new(there);
        let mut waits: Vec<Op<io::Result<()>>> = (0..COMPLETIONS)
            .map(|_| {
                let socket = there.clone();
                Box::pin(async move { socket.readable().await }) as Op<_>
            })
            .collect();
        for wait in &mut waits {
            assert!(poll_once(wait).await.is_pending());
        }
        for _ in 0..dice.below(8) {
            filch::yield_now().await;
        }
        epoch.check(here.send(b"all of you").await, "send")?;
        let until = Instant::now() + Duration::from_micros(dice.below(3000));
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        let kept = dice.below(COMPLETIONS as u64) as usize;
        waits.truncate(kept);
        for wait in waits {
            epoch.check(wait.await, "readable")?;
        }
        epoch.step();
    }
    Ok(())
}

/// Chunks that are held while others want buffers.
pub async fn buffers(epoch: &'static Epoch, seed: u64) -> Result<(), Aborted> {
    let mut dice = epoch.dice(seed);
    let (here, there) = epoch.check(UnixStream::pair(), "pair")?;
    while !epoch.stops() {
        let mut held = Vec::new();
        while held.len() < BUFFERS {
            let text = vec![held.len() as u8; 5];
            epoch.check(here.write_all(text.clone()).await.0, "write_all")?;
            let chunk = epoch.check(there.recv().await, "recv")?.expect("not the end");
            assert_eq!(&chunk[..], text);
            held.push(chunk);
            epoch.step();
            if dice.one_in(64) {
                dawdle(&mut dice).await;
            }
        }
        match dice.below(2) {
            0 => drop(held),
            _ => drop(filch::spawn_fn(move || drop(held))),
        }
    }
    Ok(())
}

/// Tasks that block their worker, so that spares come, take operations, and go again.
pub async fn blocks(epoch: &'static Epoch, seed: u64) -> Result<(), Aborted> {
    let mut dice = epoch.dice(seed);
    while !epoch.stops() {
        let time = Duration::from_micros(dice.below(6000));
        // Not to order anything: to be in the way.
        drop(filch::spawn(async move { std::thread::sleep(time) }));
        dawdle(&mut dice).await;
        filch::time::sleep(Duration::from_micros(dice.below(4000))).await;
        epoch.step();
    }
    Ok(())
}
