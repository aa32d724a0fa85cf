//! What is used across `catch_unwind`: nothing of ours is left half changed by a panic of the user's, so
//! every public type of `net`, `fs`, `sync` and `time` says so. Checked by the compiler.

use std::fs as std_fs;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::Path;

use filch::{fs, net, sync, time};

/// The types are both. `T` and `B` in them are plain.
macro_rules! unwind_safe {
    ($($type:ty,)*) => { $(
        const _: fn() = || {
            fn both<T: UnwindSafe + RefUnwindSafe>() {}
            both::<$type>();
        };
    )* };
}

type T = u32;
type B = Vec<u8>;
type Never = std::future::Ready<()>;

unwind_safe! {
    net::Accept<'static>,
    net::Read<'static, B>,
    net::Recv<'static>,
    net::TcpListener,
    net::TcpSocket,
    net::TcpStream,
    net::UdpSocket,
    net::Write<'static, B>,
    net::tcp::OwnedReadHalf,
    net::tcp::OwnedWriteHalf,
    net::tcp::ReadHalf<'static>,
    net::tcp::ReuniteError,
    net::tcp::WriteHalf<'static>,
    net::unix::OwnedReadHalf,
    net::unix::OwnedWriteHalf,
    net::unix::ReadHalf<'static>,
    net::unix::ReuniteError,
    net::unix::UCred,
    net::unix::UnixDatagram,
    net::unix::UnixListener,
    net::unix::UnixStream,
    net::unix::WriteHalf<'static>,
}

unwind_safe! {
    fs::DirBuilder,
    fs::DirEntry,
    fs::File,
    fs::FileType,
    fs::Metadata,
    fs::OpenOptions,
    fs::Read<'static, B>,
    fs::ReadDir,
    fs::ReadVectored<'static, B>,
    fs::Write<'static, B>,
    fs::WriteVectored<'static, B>,
}

unwind_safe! {
    sync::AccessError,
    sync::AcquireError,
    sync::Barrier,
    sync::BarrierWaitResult,
    sync::Condvar,
    sync::Latch,
    sync::Lazy<T, fn() -> Never>,
    sync::LocalKey<T>,
    sync::Mutex<T>,
    sync::MutexGuard<'static, T>,
    sync::Notified<'static>,
    sync::Notify,
    sync::OnceCell<T>,
    sync::OwnedMutexGuard<T>,
    sync::OwnedRwLockReadGuard<T>,
    sync::OwnedRwLockWriteGuard<T>,
    sync::OwnedSemaphorePermit,
    sync::RwLock<T>,
    sync::RwLockReadGuard<'static, T>,
    sync::RwLockUpgradableReadGuard<'static, T>,
    sync::RwLockWriteGuard<'static, T>,
    sync::Semaphore,
    sync::SemaphorePermit<'static>,
    sync::SetError<T>,
    sync::TryAcquireError,
    sync::TryLockError,
}

unwind_safe! {
    sync::broadcast::Receiver<T>,
    sync::broadcast::RecvError,
    sync::broadcast::SendError<T>,
    sync::broadcast::Sender<T>,
    sync::broadcast::TryRecvError,
    sync::mpmc::Permit<'static, T>,
    sync::mpmc::Receiver<T>,
    sync::mpmc::RecvError,
    sync::mpmc::SendError<T>,
    sync::mpmc::Sender<T>,
    sync::mpmc::TryRecvError,
    sync::mpmc::TrySendError<T>,
    sync::mpmc::WeakReceiver<T>,
    sync::mpmc::WeakSender<T>,
    sync::oneshot::Receiver<T>,
    sync::oneshot::RecvError,
    sync::oneshot::Sender<T>,
    sync::watch::Receiver<T>,
    sync::watch::RecvError,
    sync::watch::Ref<'static, T>,
    sync::watch::SendError<T>,
    sync::watch::Sender<T>,
}

unwind_safe! {
    time::Elapsed,
    time::Instant,
    time::Interval,
    time::MissedTickBehavior,
    time::Sleep,
    time::Timeout<Never>,
}

/// Public in a private module, or hidden: nobody can name them.
const UNNAMED: [&str; 3] = ["Addresses", "Found", "Slot"];

/// The names of the public types in the files below `dir`.
fn public_types(dir: &Path, into: &mut Vec<String>) {
    for entry in std_fs::read_dir(dir).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            public_types(&path, into);
            continue;
        }
        for line in std_fs::read_to_string(path).expect("a source file").lines() {
            let line = line.trim_start();
            let name = line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum "));
            let end = |name: &str| name.find(|c: char| !c.is_alphanumeric()).unwrap_or(name.len());
            into.extend(name.map(|name| name[..end(name)].to_owned()));
        }
    }
}

#[test]
fn every_public_type_is_listed() {
    let listed = include_str!("unwind_safe.rs");
    let mut types = Vec::new();
    for module in ["net", "fs", "sync", "time"] {
        public_types(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(module), &mut types);
    }
    assert!(types.len() > 70, "the sources were read");
    let is_listed = |name: &String| {
        UNNAMED.contains(&name.as_str())
            || [",", "<"].iter().any(|end| listed.contains(&format!("::{name}{end}")))
    };
    types.retain(|name| !is_listed(name));
    assert_eq!(types, Vec::<String>::new(), "not in the lists above");
}
