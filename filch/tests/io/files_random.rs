//! Any operations in any order leave what they leave with std.

use std::fs::OpenOptions as StdOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use filch::fs::File;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::files::{Scratch, open};
use crate::{on_each_backend, pattern};

#[derive(Debug, Clone)]
enum Step {
    Read(usize),
    ReadExact(usize),
    ReadAt(usize, u64),
    ReadVectored(usize, usize),
    Write(usize),
    WriteAt(usize, u64),
    WriteVectored(usize, usize),
    Seek(u64),
    SeekBy(i64),
    SeekFromEnd(i64),
    SetLen(u64),
    Len,
}

fn step() -> impl Strategy<Value = Step> {
    let (len, at, by) = (0..9000usize, 0..20_000u64, -9000..9000i64);
    prop_oneof![
        len.clone().prop_map(Step::Read),
        len.clone().prop_map(Step::ReadExact),
        (len.clone(), at.clone()).prop_map(|(len, at)| Step::ReadAt(len, at)),
        (len.clone(), len.clone()).prop_map(|(a, b)| Step::ReadVectored(a, b)),
        len.clone().prop_map(Step::Write),
        (len.clone(), at.clone()).prop_map(|(len, at)| Step::WriteAt(len, at)),
        (len.clone(), len).prop_map(|(a, b)| Step::WriteVectored(a, b)),
        at.clone().prop_map(Step::Seek),
        by.clone().prop_map(Step::SeekBy),
        by.prop_map(Step::SeekFromEnd),
        at.prop_map(Step::SetLen),
        Just(Step::Len),
    ]
}

/// What a step tells: a number or that it failed, and bytes.
type Told = (Option<u64>, Vec<u8>);

async fn ours(file: &File, step: &Step, salt: usize) -> Told {
    let told = |(result, buf): (std::io::Result<usize>, Vec<u8>)| {
        let count = result.ok();
        (count.map(|count| count as u64), buf[..count.unwrap_or(0)].to_vec())
    };
    let plain = |result: std::io::Result<u64>| (result.ok(), Vec::new());
    match *step {
        Step::Read(len) => told(file.read(vec![0; len]).await),
        Step::ReadExact(len) => told(file.read_exact(vec![0; len]).await),
        Step::ReadAt(len, at) => told(file.read_at(vec![0; len], at).await),
        Step::ReadVectored(a, b) => {
            let (result, bufs) = file.read_vectored(vec![vec![0; a], vec![0; b]]).await;
            told((result, bufs.concat()))
        }
        Step::Write(len) => told(file.write_all(pattern(salt, len)).await),
        Step::WriteAt(len, at) => told(file.write_all_at(pattern(salt, len), at).await),
        Step::WriteVectored(a, b) => {
            let bufs = vec![pattern(salt, a), pattern(salt + a, b)];
            let (result, bufs) = file.write_vectored(bufs).await;
            told((result, bufs.concat()))
        }
        Step::Seek(to) => plain(file.seek(SeekFrom::Start(to)).await),
        Step::SeekBy(by) => plain(file.seek(SeekFrom::Current(by)).await),
        Step::SeekFromEnd(by) => plain(file.seek(SeekFrom::End(by)).await),
        Step::SetLen(len) => plain(file.set_len(len).await.map(|()| 0)),
        Step::Len => plain(file.metadata().await.map(|metadata| metadata.len())),
    }
}

fn stds(file: &mut std::fs::File, step: &Step, salt: usize) -> Told {
    fn read(len: usize, call: impl FnOnce(&mut [u8]) -> std::io::Result<usize>) -> Told {
        let mut buf = vec![0; len];
        let count = call(&mut buf).ok();
        (count.map(|count| count as u64), buf[..count.unwrap_or(0)].to_vec())
    }
    let wrote = |result: std::io::Result<()>, bytes: Vec<u8>| {
        result.unwrap();
        (Some(bytes.len() as u64), bytes)
    };
    let plain = |result: std::io::Result<u64>| (result.ok(), Vec::new());
    match *step {
        Step::Read(len) => read(len, |buf| file.read(buf)),
        Step::ReadExact(len) => {
            let before = file.stream_position().unwrap();
            let told = read(len, |buf| file.read_exact(buf).map(|()| len));
            if told.0.is_none() {
                // Ours does not move the cursor then.
                file.seek(SeekFrom::Start(before)).unwrap();
            }
            told
        }
        Step::ReadAt(len, at) => read(len, |buf| file.read_at(buf, at)),
        Step::ReadVectored(a, b) => read(a + b, |buf| file.read(buf)),
        Step::Write(len) => {
            let bytes = pattern(salt, len);
            wrote(file.write_all(&bytes), bytes)
        }
        Step::WriteAt(len, at) => {
            let bytes = pattern(salt, len);
            wrote(file.write_all_at(&bytes, at), bytes)
        }
        Step::WriteVectored(a, b) => {
            let bytes = pattern(salt, a + b);
            wrote(file.write_all(&bytes), bytes)
        }
        Step::Seek(to) => plain(file.seek(SeekFrom::Start(to))),
        Step::SeekBy(by) => plain(file.seek(SeekFrom::Current(by))),
        Step::SeekFromEnd(by) => plain(file.seek(SeekFrom::End(by))),
        Step::SetLen(len) => plain(file.set_len(len).map(|()| 0)),
        Step::Len => plain(file.metadata().map(|metadata| metadata.len())),
    }
}

on_each_backend! {
    fn random_steps_leave_what_they_leave_with_std(on) {
        let runtime = on.runtime();
        let mut runner = TestRunner::new(Config { cases: 24, ..Config::default() });
        let outcome = runner.run(&(vec(step(), 1..40), any::<bool>()), |(steps, shared)| {
            let dir = if shared { Scratch::in_shared_memory() } else { Scratch::new() };
            let (a, b) = (dir.path("a"), dir.path("b"));
            let mut std =
                StdOptions::new().read(true).write(true).create_new(true).open(&b).unwrap();
            runtime.block_on(async {
                let file = open(&a).await;
                for (salt, step) in steps.iter().enumerate() {
                    let (ours, stds) =
                        (ours(&file, step, salt * 31).await, stds(&mut std, step, salt * 31));
                    prop_assert!(ours == stds, "{step:?}: {:?} and {:?}", ours.0, stds.0);
                }
                Ok(())
            })?;
            prop_assert!(std::fs::read(&a).unwrap() == std::fs::read(&b).unwrap());
            Ok(())
        });
        if let Err(error) = outcome {
            panic!("{error}");
        }
    }
}
