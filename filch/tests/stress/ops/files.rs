//! Files that are read and written while operations on them are dropped.
//!
//! B1. A block is what the last write made of it, or, if that was dropped, what it or the one before made:
//!     whole in any case, and for good.
//! B2. A dropped read has not moved the cursor, and a dropped write has by nothing or by all of it.
//! B3. What a dropped read took from a pipe is read next.
//! B4. A runtime that is aborted gives up what is left of a dropped write, and of one by `futures-io`, which is
//!     answered before it is made. Then too the cursor is behind what was written of it, and that is a prefix of
//!     what was given.

use std::io::SeekFrom;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use filch::fs::{self, File};
use filch::io::{AsyncReadExt, AsyncWriteExt};

use super::fate::{Fate, Op, dawdle, tempt};
use super::{Aborted, Epoch};
use crate::storm::Rng;

/// A name of a file that is gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let name = format!("filch-stress-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Opens it, after some tries that are given up.
async fn open(epoch: &'static Epoch, dice: &mut Rng, at: &Scratch) -> Result<File, Aborted> {
    loop {
        let path = at.0.clone();
        let op: Op<_> = Box::pin(async move {
            File::options().read(true).write(true).create(true).truncate(false).open(path).await
        });
        if let Some(opened) = tempt(dice, op).await.done() {
            return epoch.check(opened, "open");
        }
    }
}

/// Has the kernel read from the disk again.
fn evict(file: &File) {
    // SAFETY: no memory is involved.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

fn block(len: usize, version: u64) -> Vec<u8> {
    (0..len as u64).map(|i| (version ^ (version >> 8) ^ i ^ (i >> 7)) as u8).collect()
}

/// Writes and reads at offsets.
pub async fn positional(epoch: &'static Epoch, seed: u64) -> Result<(), Aborted> {
    let mut dice = epoch.dice(seed);
    let scratch = Scratch::new();
    let file = Arc::new(open(epoch, &mut dice, &scratch).await?);
    // Two are as large as what the kernel's own threads copy.
    let lens = [100, 1 << 20, 5_000, 4096, 30_000, (1 << 20) + 77];
    let offsets: Vec<u64> =
        (0..lens.len()).map(|at| lens[..at].iter().sum::<usize>() as u64).collect();
    let mut versions = [0; 6];
    for (at, &len) in lens.iter().enumerate() {
        let written = file.write_all_at(block(len, 0), offsets[at]).await.0;
        epoch.check(written, "the first write")?;
    }
    let mut next = 1;
    while !epoch.stops() {
        let at = dice.below(6) as usize;
        let (len, offset) = (lens[at], offsets[at]);
        if dice.one_in(2) {
            let (write, bytes) = (file.clone(), block(len, next));
            let op: Op<_> = Box::pin(async move { write.write_all_at(bytes, offset).await.0 });
            match tempt(&mut dice, op).await {
                Fate::Done(result) => {
                    epoch.check(result, "write_all_at")?;
                    versions[at] = next;
                }
                Fate::Never => {}
                Fate::Perhaps => {
                    // Whatever has become of it comes before this (B1).
                    let (result, now) = file.read_exact_at(vec![0; len], offset).await;
                    epoch.check(result, "read_exact_at")?;
                    if now == block(len, next) {
                        versions[at] = next;
                    } else {
                        assert!(now == block(len, versions[at]), "B1: half of a dropped write");
                    }
                }
            }
            next += 1;
        } else {
            if dice.one_in(4) {
                epoch.check(file.sync_data().await, "sync_data")?;
                evict(&file);
            }
            let read = file.clone();
            let op: Op<_> = Box::pin(async move { read.read_exact_at(vec![0; len], offset).await });
            if let Some((result, bytes)) = tempt(&mut dice, op).await.done() {
                epoch.check(result, "read_exact_at")?;
                assert!(bytes == block(len, versions[at]), "B1: block {at}");
            }
        }
        epoch.step();
    }
    Ok(())
}

/// Writes at the cursor, then reads it all.
pub async fn streaming(epoch: &'static Epoch, seed: u64) -> Result<(), Aborted> {
    let mut dice = epoch.dice(seed);
    let scratch = Scratch::new();
    while !epoch.stops() {
        let mut file = open(epoch, &mut dice, &scratch).await?;
        epoch.check(file.set_len(0).await, "set_len")?;
        let written = write_some(epoch, &mut dice, &mut file).await?;
        epoch.check(file.rewind().await, "rewind")?;
        if dice.one_in(2) {
            epoch.check(file.sync_all().await, "sync_all")?;
            evict(&file);
        }
        read_all(epoch, &mut dice, file, &written).await?;
        // As a whole, given up at random.
        let path = scratch.0.clone();
        let op: Op<_> = Box::pin(async move { fs::read(path).await });
        if let Some(read) = tempt(&mut dice, op).await.done() {
            assert!(epoch.check(read, "fs::read")? == written);
        }
        if dice.one_in(4) {
            pipe(epoch, &mut dice).await?;
        }
    }
    Ok(())
}

/// What the file has afterwards.
async fn write_some(
    epoch: &'static Epoch,
    dice: &mut Rng,
    file: &mut File,
) -> Result<Vec<u8>, Aborted> {
    let mut all = Vec::new();
    // So much of it has been seen to be written, or was when the last write by `futures-io` was begun (B4).
    let mut sure = 0;
    for number in 0..dice.below(30) {
        let len = if dice.one_in(16) { 1 << 20 } else { 1 + dice.below(20_000) as usize };
        let bytes = block(len, number);
        if dice.one_in(3) {
            epoch.check(AsyncWriteExt::write_all(file, &bytes).await, "AsyncWrite")?;
            sure = all.len();
            all.extend_from_slice(&bytes);
        } else {
            let clone = epoch.check(file.try_clone().await, "try_clone")?;
            let given = bytes.clone();
            let op: Op<_> = Box::pin(async move { clone.write_all(given).await.0 });
            let fate = tempt(dice, op).await;
            let now = epoch.check(file.stream_position().await, "stream_position")?;
            let (before, after) = (all.len() as u64, (all.len() + len) as u64);
            // The mark of an abort is set before it begins.
            let aborted = epoch.aborted.load(Ordering::SeqCst);
            let least = if aborted { sure as u64 } else { before };
            assert!((least..=after).contains(&now), "B4: {before} -> {now}, not up to {after}");
            if now < before {
                check_part(file, sure as u64, &all[sure..now as usize]);
                return Err(Aborted);
            }
            let whole = now == before || now == after;
            assert!(whole || aborted, "B2: {before} -> {now}, not {after}");
            match fate {
                Fate::Done(result) => {
                    epoch.check(result, "write_all")?;
                    assert_eq!(now, after, "B2");
                }
                Fate::Never => assert_eq!(now, before, "B2"),
                Fate::Perhaps => {}
            }
            all.extend_from_slice(&bytes[..(now - before) as usize]);
            if !whole {
                check_part(file, before, &all[before as usize..]);
                return Err(Aborted);
            }
            sure = all.len();
        }
        epoch.step();
    }
    epoch.check(AsyncWriteExt::flush(file).await, "flush")?;
    Ok(all)
}

/// B4. Read by std: the runtime that drives the file has been aborted.
fn check_part(file: &File, offset: u64, part: &[u8]) {
    let file = std::fs::File::from(file.as_fd().try_clone_to_owned().unwrap());
    let mut found = vec![0; part.len()];
    file.read_exact_at(&mut found, offset).unwrap();
    assert!(found == part, "B4: at {offset}");
}

async fn read_all(
    epoch: &'static Epoch,
    dice: &mut Rng,
    file: File,
    expected: &[u8],
) -> Result<(), Aborted> {
    let file = Arc::new(file);
    let mut at = 0;
    loop {
        let len = if dice.one_in(16) { 1 << 20 } else { 1 + dice.below(40_000) as usize };
        let clone = epoch.check(file.try_clone().await, "try_clone")?;
        let op: Op<_> = match dice.below(3) {
            0 => Box::pin(async move {
                let (result, mut buf) = clone.read(vec![0; len]).await;
                buf.truncate(result?);
                Ok(buf)
            }),
            1 => Box::pin(async move {
                let mut buf = vec![0; len];
                let count = AsyncReadExt::read(&mut { clone }, &mut buf).await?;
                buf.truncate(count);
                Ok(buf)
            }),
            _ => {
                let (from, file) = (at as u64, file.clone());
                Box::pin(async move {
                    // Back and forth, at the same place.
                    file.seek(SeekFrom::Start(from)).await?;
                    let (result, mut buf) = file.read(vec![0; len]).await;
                    buf.truncate(result?);
                    Ok(buf)
                })
            }
        };
        if let Some(result) = tempt(dice, op).await.done() {
            let bytes: Vec<u8> = epoch.check(result, "read")?;
            if bytes.is_empty() {
                assert_eq!(at, expected.len(), "B2: the end came early");
                return Ok(());
            }
            assert!(expected[at..].starts_with(&bytes), "B2: at {at}");
            at += bytes.len();
            epoch.step();
        }
    }
}

/// What cannot seek.
async fn pipe(epoch: &'static Epoch, dice: &mut Rng) -> Result<(), Aborted> {
    const TOTAL: usize = 300_000;
    let (reader, writer) = std::io::pipe().unwrap();
    let reader = epoch.check(File::from_std(OwnedFd::from(reader).into()), "from_std")?;
    let writer = epoch.check(File::from_std(OwnedFd::from(writer).into()), "from_std")?;
    let expected = block(TOTAL, 5);
    let (bytes, mut own) = (expected.clone(), Rng::new(dice.next()));
    let writes = filch::spawn(async move {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(1 + own.below(9_000) as usize));
            writer.write_all(now.to_vec()).await.0?;
            rest = later;
            dawdle(&mut own).await;
        }
        std::io::Result::Ok(())
    });
    let (reader, mut at) = (Arc::new(reader), 0);
    while at < TOTAL {
        let (file, len) = (reader.clone(), 1 + dice.below(10_000) as usize);
        let op: Op<_> = Box::pin(async move { file.read(vec![0; len]).await });
        if let Some((result, buf)) = tempt(dice, op).await.done() {
            let count = epoch.check(result, "read of a pipe")?;
            if count == 0 {
                // An abort ends the task that writes, and so closes the pipe.
                let aborted = epoch.aborted.load(Ordering::SeqCst);
                assert!(aborted, "B3: the pipe ends at {at}");
                return Err(Aborted);
            }
            assert!(expected[at..at + count] == buf[..count], "B3: at {at}");
            at += count;
            epoch.step();
        }
    }
    match writes.outcome().await {
        Ok(result) => epoch.check(result, "write to a pipe"),
        Err(_) => Err(Aborted),
    }
}
