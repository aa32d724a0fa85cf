//! Reads by Tokio and compio.

use super::{Load, Order, Reads, check, file, path, per_op};
use crate::bench::peers::Tokio;
use compio::BufResult;
use compio::io::AsyncReadAtExt;
use compio::runtime::Runtime;
use std::fs::File;
use std::io::SeekFrom;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

pub const BLOCKING: &str = "tokio+blocking";

pub struct OfTokio;
pub struct OfBlocking;

impl Reads for OfTokio {
    type Peer = Tokio;
    type File = tokio::fs::File;

    async fn open() -> tokio::fs::File {
        tokio::fs::File::open(path()).await.expect("the file")
    }

    async fn read(file: &mut tokio::fs::File, mut buf: Vec<u8>, offset: u64) -> Vec<u8> {
        file.seek(SeekFrom::Start(offset)).await.expect("an offset");
        file.read_exact(&mut buf).await.expect("bytes");
        buf
    }
}

impl Reads for OfBlocking {
    type Peer = Tokio;
    type File = Arc<File>;

    async fn open() -> Arc<File> {
        Arc::new(File::open(path()).expect("the file"))
    }

    async fn read(file: &mut Arc<File>, mut buf: Vec<u8>, offset: u64) -> Vec<u8> {
        let file = file.clone();
        let read = move || {
            file.read_exact_at(&mut buf, offset).expect("bytes");
            buf
        };
        tokio::task::spawn_blocking(read).await.expect("no panic")
    }
}

pub fn of_compio<O: Order>(load: Load) -> Vec<f64> {
    file();
    let (tasks, reads) = O::extent(load);
    let (all_there, all_done) = (Barrier::new(load.threads + 1), Barrier::new(load.threads + 1));
    let elapsed = thread::scope(|scope| {
        for thread in 0..load.threads {
            let own = (thread..tasks).step_by(load.threads);
            let (all_there, all_done) = (&all_there, &all_done);
            scope.spawn(move || {
                let runtime = Runtime::new().expect("compio starts");
                runtime.block_on(async {
                    let open = || compio::fs::File::open(path());
                    let mut files = Vec::new();
                    for task in own {
                        files.push((task, open().await.expect("the file")));
                    }
                    all_there.wait();
                    let spawn = |(task, file)| {
                        compio::runtime::spawn(read_all::<O>(file, task, tasks, reads))
                    };
                    let readers: Vec<_> = files.into_iter().map(spawn).collect();
                    for reader in readers {
                        reader.await.expect("no panic");
                    }
                    all_done.wait();
                });
            });
        }
        all_there.wait();
        let start = Instant::now();
        all_done.wait();
        start.elapsed()
    });
    per_op(elapsed, tasks * reads)
}

/// A task of compio's.
async fn read_all<O: Order>(file: compio::fs::File, task: usize, tasks: usize, reads: usize) {
    let mut buf = vec![0; O::SIZE];
    for offset in O::offsets(task, tasks).take(reads) {
        let BufResult(result, read) = file.read_exact_at(buf, offset).await;
        result.expect("bytes");
        check(&read, offset);
        buf = read;
    }
}
