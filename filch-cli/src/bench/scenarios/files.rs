//! Reads of a file that is in memory: 4 KiB here and there, 128 KiB one after another.
//!
//! Every read is checked by a byte that tells its place. `tokio` is `tokio::fs`, a handle for each task,
//! because the position is the handle's; `tokio+blocking` is a positional read by std in
//! `spawn_blocking`; `threads` are plain threads with positional reads by std, the bound. `compio` has a
//! runtime for each thread, and its tasks are dealt out beforehand.

#[cfg(feature = "peers")]
mod peers;

use super::{Entry, Load, NS_PER_OP, Run, Workers, per_op};
use crate::bench::peers::{Filch, Peer, started};
use crate::bench::stats::SplitMix;
use std::fs::File;
use std::future::Future;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::thread;
use std::time::Instant;
#[cfg(feature = "peers")]
use {
    crate::bench::peers::Tokio,
    crate::bench::servers::{Compio, Server},
    peers::{BLOCKING, OfBlocking, OfTokio, of_compio},
};

/// Bytes of the file; it stays in memory, and is larger than the caches of a core.
const FILE: u64 = 64 << 20;
const SMALL: usize = 4 << 10;
const LARGE: usize = 128 << 10;
/// Small reads in flight.
const IN_FLIGHT: usize = 32;

pub fn entries() -> Vec<Entry> {
    let entry = |name, about, runs| Entry {
        metrics: NS_PER_OP,
        workers: Workers::Fixed(2),
        ..Entry::per_op(name, about, runs)
    };
    vec![
        entry(
            "file_random",
            "reads of 4 KiB of a file in memory, 32 in flight, per read",
            vec![
                Run { runtime: Filch::NAME, sample: sample::<OfFilch, Random> },
                #[cfg(feature = "peers")]
                Run { runtime: Tokio::NAME, sample: sample::<OfTokio, Random> },
                #[cfg(feature = "peers")]
                Run { runtime: BLOCKING, sample: sample::<OfBlocking, Random> },
                #[cfg(feature = "peers")]
                Run { runtime: Compio::NAME, sample: of_compio::<Random> },
                Run { runtime: THREADS, sample: of_threads::<Random> },
            ],
        ),
        entry(
            "file_sequential",
            "reads of 128 KiB of a file in memory, in order, one in flight for each worker, per read",
            vec![
                Run { runtime: Filch::NAME, sample: sample::<OfFilch, Sequential> },
                #[cfg(feature = "peers")]
                Run { runtime: Tokio::NAME, sample: sample::<OfTokio, Sequential> },
                #[cfg(feature = "peers")]
                Run { runtime: BLOCKING, sample: sample::<OfBlocking, Sequential> },
                #[cfg(feature = "peers")]
                Run { runtime: Compio::NAME, sample: of_compio::<Sequential> },
                Run { runtime: THREADS, sample: of_threads::<Sequential> },
            ],
        ),
    ]
}

const THREADS: &str = "threads";

/// A file without a name whose every 4 KiB begin with their number.
fn file() -> &'static File {
    static MADE: OnceLock<File> = OnceLock::new();
    MADE.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("filch-bench-{}", std::process::id()));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.as_mut().expect("room for a file");
        std::fs::remove_file(path).expect("it is ours");
        let mut page = vec![0; SMALL];
        for number in 0..FILE / SMALL as u64 {
            page[..8].copy_from_slice(&number.to_ne_bytes());
            file.write_all(&page).expect("room for the file");
        }
        file.sync_all().expect("room for the file");
        file.try_clone().expect("a descriptor")
    })
}

/// A path to it.
fn path() -> String {
    format!("/proc/self/fd/{}", file().as_raw_fd())
}

fn check(buf: &[u8], offset: u64) {
    let number = u64::from_ne_bytes(buf[..8].try_into().expect("eight bytes"));
    assert_eq!(number, offset / SMALL as u64);
}

/// Where reads go.
trait Order: 'static {
    const SIZE: usize;

    /// How many tasks read, and how many reads each makes.
    fn extent(load: Load) -> (usize, usize);

    /// The offsets of one of these tasks.
    fn offsets(task: usize, tasks: usize) -> impl Iterator<Item = u64> + Send;
}

struct Random;
struct Sequential;

impl Order for Random {
    const SIZE: usize = SMALL;

    fn extent(load: Load) -> (usize, usize) {
        (IN_FLIGHT, load.pick(4_000, 50))
    }

    fn offsets(task: usize, _: usize) -> impl Iterator<Item = u64> + Send {
        let mut random = SplitMix::new(task as u64);
        std::iter::repeat_with(move || random.within(0..FILE / SMALL as u64) * SMALL as u64)
    }
}

impl Order for Sequential {
    const SIZE: usize = LARGE;

    fn extent(load: Load) -> (usize, usize) {
        (load.threads, load.pick(8_192, 64))
    }

    fn offsets(task: usize, tasks: usize) -> impl Iterator<Item = u64> + Send {
        let share = FILE / tasks as u64 / LARGE as u64 * LARGE as u64;
        let from = task as u64 * share;
        (from..from + share).step_by(LARGE).cycle()
    }
}

/// A runtime's way to read.
trait Reads: 'static {
    type Peer: Peer;
    type File: Send + 'static;

    /// A handle for one task.
    fn open() -> impl Future<Output = Self::File> + Send;

    fn read(
        file: &mut Self::File,
        buf: Vec<u8>,
        offset: u64,
    ) -> impl Future<Output = Vec<u8>> + Send;
}

struct OfFilch;

impl Reads for OfFilch {
    type Peer = Filch;
    type File = filch::fs::File;

    async fn open() -> filch::fs::File {
        filch::fs::File::open(path()).await.expect("the file")
    }

    async fn read(file: &mut filch::fs::File, buf: Vec<u8>, offset: u64) -> Vec<u8> {
        let (result, buf) = file.read_exact_at(buf, offset).await;
        result.expect("bytes");
        buf
    }
}

fn sample<R: Reads, O: Order>(load: Load) -> Vec<f64> {
    file();
    let (tasks, reads) = O::extent(load);
    let peer = started::<R::Peer>(load.threads);
    let elapsed = peer.run_on_worker(async move {
        let mut files = Vec::new();
        for _ in 0..tasks {
            files.push(R::open().await);
        }
        let start = Instant::now();
        let spawn = |(task, mut file)| {
            R::Peer::spawn(async move {
                let mut buf = vec![0; O::SIZE];
                for offset in O::offsets(task, tasks).take(reads) {
                    buf = R::read(&mut file, buf, offset).await;
                    check(&buf, offset);
                }
            })
        };
        let readers: Vec<_> = files.into_iter().enumerate().map(spawn).collect();
        for reader in readers {
            reader.await;
        }
        start.elapsed()
    });
    per_op(elapsed, tasks * reads)
}

fn of_threads<O: Order>(load: Load) -> Vec<f64> {
    let file = file();
    let (tasks, reads) = O::extent(load);
    let each = tasks * reads / load.threads;
    let start = Instant::now();
    thread::scope(|scope| {
        for thread in 0..load.threads {
            scope.spawn(move || {
                let mut buf = vec![0; O::SIZE];
                for offset in O::offsets(thread, load.threads).take(each) {
                    file.read_exact_at(&mut buf, offset).expect("bytes");
                    check(&buf, offset);
                }
            });
        }
    });
    per_op(start.elapsed(), each * load.threads)
}
