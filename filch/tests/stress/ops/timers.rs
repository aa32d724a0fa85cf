//! Timers that are made here and reset, dropped or forgotten there.
//!
//! N1. No sleep ends early. That each ends at all is seen by the dog.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use filch::time::{Instant, Sleep, sleep, timeout};

use super::fate::{Op, dawdle, outcome, tempt};
use super::{Aborted, Epoch};
use crate::storm::Rng;

fn brief(dice: &mut Rng) -> Duration {
    match dice.below(8) {
        0 => Duration::ZERO,
        1 => Duration::from_nanos(dice.below(1000)),
        _ => Duration::from_micros(dice.below(3000)),
    }
}

/// Sleeps that are given up at random.
pub async fn naps(epoch: &'static Epoch, seed: u64) -> Result<(), Aborted> {
    let mut dice = epoch.dice(seed);
    while !epoch.stops() {
        let (time, before) = (brief(&mut dice), Instant::now());
        let op: Op<()> = Box::pin(sleep(time));
        if tempt(&mut dice, op).await.done().is_some() {
            assert!(before.elapsed() >= time, "N1");
        }
        epoch.step();
    }
    Ok(())
}

/// Waits for a sleep that many tasks have had in hand.
pub async fn travels(epoch: &'static Epoch, seed: u64) -> Result<(), Aborted> {
    let mut dice = epoch.dice(seed);
    while !epoch.stops() {
        let mut sleeps: Vec<Pin<Box<Sleep>>> = Vec::new();
        for _ in 0..dice.below(200) {
            sleeps.push(Box::pin(sleep(Duration::from_secs(dice.below(100)) + brief(&mut dice))));
        }
        for _ in 0..3 {
            let own = Rng::new(dice.next());
            let task = filch::spawn(handle(sleeps, own));
            sleeps = outcome(task).await.done().ok_or(Aborted)?;
            dawdle(&mut dice).await;
            epoch.step();
        }
        for mut sleep in sleeps {
            let deadline = Instant::now() + brief(&mut dice);
            sleep.as_mut().reset(deadline);
            match dice.below(8) {
                0 => assert!(timeout(Duration::from_secs(900), sleep).await.is_ok()),
                1 => continue,
                _ => sleep.await,
            }
            assert!(Instant::now() >= deadline, "N1");
        }
    }
    Ok(())
}

/// Polls, resets, cancels, drops or forgets each.
async fn handle(sleeps: Vec<Pin<Box<Sleep>>>, mut dice: Rng) -> Vec<Pin<Box<Sleep>>> {
    let mut kept = Vec::new();
    for mut sleep in sleeps {
        match dice.below(64) {
            0 => {
                poll(&mut sleep).await;
                forget(sleep);
                continue;
            }
            1..8 => continue,
            8..16 => sleep.as_mut().cancel(),
            16..32 => sleep.as_mut().reset(Instant::now() + brief(&mut dice)),
            _ => poll(&mut sleep).await,
        }
        kept.push(sleep);
    }
    kept
}

async fn poll(sleep: &mut Pin<Box<Sleep>>) {
    std::future::poll_fn(|cx| {
        let _ = sleep.as_mut().poll(cx);
        std::task::Poll::Ready(())
    })
    .await;
}

/// Never dropped, yet kept where AddressSanitizer sees that it is not lost.
fn forget(sleep: Pin<Box<Sleep>>) {
    static ALL: Mutex<Vec<Pin<Box<Sleep>>>> = Mutex::new(Vec::new());
    ALL.lock().unwrap_or_else(PoisonError::into_inner).push(sleep);
}
