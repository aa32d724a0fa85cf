//! Chapters on sockets, files and timers.

use super::guide::{Bound, Comparison, Guide, Says};
use super::{Shown, seconds, span};
use crate::style::grouped;
use filch::fs::File;
use std::io::{Error, Result};
use std::time::{Duration, Instant};

/// How long each round of the TCP service lasts.
const WINDOW: Duration = Duration::from_millis(700);

fn us(us: f64) -> String {
    seconds(us / 1e6)
}

fn ns(ns: f64) -> String {
    seconds(ns / 1e9)
}

/// An echo service under load from another process, and a parallel loop in the same runtime. The peer is
/// Tokio for the service and rayon for the loop.
pub fn sockets(guide: &Guide) -> Shown {
    let words = |compared: Comparison| {
        let [median, late] = [0, 1].map(|metric| compared.words(metric, Says::Latency, us));
        let rate = compared.words(3, Says::Rate, |rate| grouped(rate as u64));
        format!(
            "64 connections send 5,000 requests a second; time to the reply:\n  \
             median: {median}\n  99th percentile: {late}\n\
             steps of the loop per second: {rate}"
        )
    };
    let bound = Bound::Time(Some(WINDOW));
    guide.measure("mixed", "tokio+rayon", bound, 3).map_or_else(|failure| failure, words)
}

/// A file of our own, and small reads of one that is in memory.
pub fn files(guide: &Guide) -> Shown {
    let own = match filch::block_on(filch::spawn(write_and_read())) {
        Ok(time) => format!("4 MiB written to a file, synced and read back in {}", span(time)),
        // Neither will others be able to.
        Err(error) => return format!("no file in {}: {error}", std::env::temp_dir().display()),
    };
    let words = |compared: Comparison| {
        let reads = compared.words(0, Says::Cost, ns);
        format!("{own}\nrandom reads of 4 KiB, per read: {reads}")
    };
    guide.measure("file_random", "tokio", Bound::Little, 5).map_or_else(|failure| failure, words)
}

async fn write_and_read() -> Result<Duration> {
    const CHUNK: usize = 64 << 10;
    const CHUNKS: u64 = 64;
    let path = std::env::temp_dir().join(format!("filch-tour-{}", std::process::id()));
    let start = Instant::now();
    let file = File::options().read(true).write(true).create_new(true).open(&path).await?;
    // It has no name from now on, so nothing is left behind.
    filch::fs::remove_file(&path).await?;
    for number in 0..CHUNKS {
        file.write_all_at(vec![number as u8; CHUNK], number * CHUNK as u64).await.0?;
    }
    file.sync_all().await?;
    let mut buffer = vec![0; CHUNK];
    for number in 0..CHUNKS {
        let (read, filled) = file.read_exact_at(buffer, number * CHUNK as u64).await;
        read?;
        if filled.iter().any(|&byte| byte != number as u8) {
            return Err(Error::other("what was read is not what was written"));
        }
        buffer = filled;
    }
    Ok(start.elapsed())
}

pub fn timers(guide: &Guide) -> Shown {
    let late = guide.measure("timer_lateness_1ms", "tokio", Bound::Time(None), 2);
    let cancelled = guide.measure("timeout_cancel", "tokio", Bound::Little, 5);
    let words = |late: Comparison, cancelled: Comparison| {
        let (late, cancelled) =
            (late.words(0, Says::Delay, us), cancelled.words(0, Says::Cost, ns));
        format!(
            "a sleep of 1 ms ends late by (median): {late}\n\
             a timeout, set and cancelled: {cancelled}"
        )
    };
    late.and_then(|late| Ok(words(late, cancelled?))).unwrap_or_else(|failure| failure)
}
