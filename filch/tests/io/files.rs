//! Files do what std's do.

use std::fs::TryLockError;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use filch::fs::{self, File, OpenOptions};
use filch::io::IoBuf;
use futures_lite::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

use crate::{on_each_backend, pattern};

/// A directory that goes with it.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// Where nothing is read at once: a file system that cannot tell whether it would wait.
    pub fn in_shared_memory() -> Self {
        let shared = Path::new("/dev/shm");
        if shared.is_dir() { Self::below(shared) } else { Self::new() }
    }

    fn below(dir: &Path) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!("filch-fs-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// To read and write, made if need be.
pub async fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).open(path).await.unwrap()
}

on_each_backend! {
    fn a_read_by_futures_io_takes_no_more_than_one_operation_of_the_budget(on) {
        let runtime = on.builder().poll_budget(1).build().unwrap();
        let task = runtime.spawn(async {
            // The kernel reads it by an operation only: it has nothing of it in memory.
            let mut file = filch::fs::File::open("/proc/self/status").await.unwrap();
            let mut text = String::new();
            filch::io::AsyncReadExt::read_to_string(&mut file, &mut text).await.unwrap();
            text
        });
        assert!(runtime.block_on(task).starts_with("Name:"));
    }

    fn what_is_written_is_read_on_a_worker(on) {
        on.on_worker(write_and_read(Scratch::new()));
    }

    fn what_is_written_is_read_off_the_lane(on) {
        on.off_lane(write_and_read(Scratch::new()));
    }

    fn what_is_written_is_read_in_shared_memory(on) {
        on.on_worker(write_and_read(Scratch::in_shared_memory()));
    }

    fn several_buffers_are_one(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let file = open(&dir.path("a")).await;
            let bufs = vec![pattern(0, 10), Vec::new(), pattern(10, 1), pattern(11, 5000)];
            assert_eq!(file.write_vectored(bufs).await.0.unwrap(), 5011);
            let bufs = vec![vec![0; 3], vec![0; 2000], Vec::new(), vec![0; 4000]];
            let (result, bufs) = file.read_vectored_at(bufs, 1).await;
            assert_eq!(result.unwrap(), 5010);
            assert!(bufs.concat()[..5010] == pattern(1, 5010));
            let many = (0..3000).map(|i| pattern(i, 1)).collect();
            assert_eq!(file.write_vectored_at(many, 0).await.0.unwrap(), 3000);
        });
    }

    fn the_end_is_short_then_nothing(on) {
        on.on_worker(async {
            for dir in [Scratch::new(), Scratch::in_shared_memory()] {
                fs::write(dir.path("a"), pattern(0, 5000)).await.unwrap();
                let file = File::open(dir.path("a")).await.unwrap();
                assert_eq!(file.read_at(vec![0; 100], 4990).await.0.unwrap(), 10);
                assert_eq!(file.read_at(vec![0; 100], 5000).await.0.unwrap(), 0);
                assert_eq!(file.read_at(vec![0; 100], 9999).await.0.unwrap(), 0);
                let (result, _) = file.read_exact_at(vec![0; 100], 4990).await;
                assert_eq!(result.unwrap_err().kind(), ErrorKind::UnexpectedEof);
                let (result, _) = file.read_at(vec![0; 100], u64::MAX).await;
                assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
                assert_eq!(file.read(Vec::new()).await.0.unwrap(), 0);
            }
        });
    }

    fn a_bulk_read_fills_its_buffer(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            fs::write(dir.path("a"), pattern(0, 3 << 20)).await.unwrap();
            let file = File::open(dir.path("a")).await.unwrap();
            let (result, buf) = file.read(Vec::with_capacity(3 << 20)).await;
            assert_eq!(result.unwrap(), 3 << 20);
            assert!(buf == pattern(0, 3 << 20));
        });
    }

    fn a_failed_read_exact_leaves_the_cursor(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            fs::write(dir.path("a"), "0123456789").await.unwrap();
            let file = File::open(dir.path("a")).await.unwrap();
            file.seek(SeekFrom::Start(4)).await.unwrap();
            assert!(file.read_exact(vec![0; 7]).await.0.is_err());
            assert_eq!(file.read_exact(vec![0; 6]).await.1, b"456789");
        });
    }

    fn seeks_are_those_of_std(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            fs::write(dir.path("a"), pattern(0, 100)).await.unwrap();
            let file = open(&dir.path("a")).await;
            assert_eq!(file.seek(SeekFrom::End(-10)).await.unwrap(), 90);
            assert_eq!(file.seek(SeekFrom::Current(5)).await.unwrap(), 95);
            assert!(file.seek(SeekFrom::Current(-96)).await.is_err());
            assert!(file.seek(SeekFrom::Start(u64::MAX)).await.is_err());
            assert_eq!(file.stream_position().await.unwrap(), 95);
            file.seek(SeekFrom::Start(200)).await.unwrap();
            file.write_all(b"far").await.0.unwrap();
            assert_eq!(file.metadata().await.unwrap().len(), 203);
            file.rewind().await.unwrap();
            assert_eq!(file.read_exact(vec![0; 100]).await.1, pattern(0, 100));
        });
    }

    fn appended_bytes_go_to_the_end(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            fs::write(dir.path("a"), "first,").await.unwrap();
            let file =
                OpenOptions::new().append(true).read(true).open(dir.path("a")).await.unwrap();
            assert_eq!(file.read_exact(vec![0; 2]).await.1, b"fi");
            file.write_all(b"second").await.0.unwrap();
            assert_eq!(file.stream_position().await.unwrap(), 12, "behind what was written");
            assert_eq!(fs::read(dir.path("a")).await.unwrap(), b"first,second");
        });
    }

    fn clones_share_the_cursor(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            fs::write(dir.path("a"), "0123456789").await.unwrap();
            let file = File::open(dir.path("a")).await.unwrap();
            let clone = file.try_clone().await.unwrap();
            assert_eq!(file.read_exact(vec![0; 3]).await.1, b"012");
            assert_eq!(clone.read_exact(vec![0; 3]).await.1, b"345");
            drop(file);
            assert_eq!(clone.read_exact(vec![0; 3]).await.1, b"678");
        });
    }

    fn to_std_and_back(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let mut std = std::fs::File::create_new(dir.path("a")).unwrap();
            std.write_all(b"by std,").unwrap();
            let file = File::from_std(std).unwrap();
            file.write_all(b"by us,").await.0.unwrap();
            let clone = file.try_clone().await.unwrap();
            let mut std = file.into_std().await.unwrap();
            assert_ne!(std.as_raw_fd(), clone.as_raw_fd(), "the clone keeps its own");
            std.write_all(b"by std").unwrap();
            assert_eq!(std.stream_position().unwrap(), 19);
            drop(clone);
            assert_eq!(fs::read(dir.path("a")).await.unwrap(), b"by std,by us,by std");
        });
    }

    fn lengths_and_permissions_change(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let file = open(&dir.path("a")).await;
            file.write_all(pattern(0, 100)).await.0.unwrap();
            file.set_len(10).await.unwrap();
            assert_eq!(file.metadata().await.unwrap().len(), 10);
            file.set_len(20).await.unwrap();
            let (result, buf) = file.read_at(vec![1; 30], 5).await;
            assert_eq!(result.unwrap(), 15);
            assert_eq!(buf[..15], [&pattern(5, 5)[..], &[0; 10]].concat());
            assert!(file.set_len(u64::MAX).await.is_err());
            file.set_permissions(PermissionsExt::from_mode(0o640)).await.unwrap();
            assert_eq!(file.metadata().await.unwrap().mode() & 0o777, 0o640);
            fs::set_permissions(dir.path("a"), PermissionsExt::from_mode(0o600)).await.unwrap();
            assert_eq!(fs::metadata(dir.path("a")).await.unwrap().mode() & 0o777, 0o600);
            file.sync_data().await.unwrap();
            file.sync_all().await.unwrap();
        });
    }

    fn metadata_is_that_of_std(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            fs::write(dir.path("a"), pattern(0, 5000)).await.unwrap();
            fs::symlink("a", dir.path("link")).await.unwrap();
            for path in [dir.path("a"), dir.path("link"), dir.path(""), "/dev/null".into()] {
                let (ours, std) = (fs::metadata(&path).await, std::fs::metadata(&path));
                same(&ours.unwrap(), &std.unwrap());
                let (ours, std) = (fs::symlink_metadata(&path).await, std::fs::symlink_metadata(&path));
                same(&ours.unwrap(), &std.unwrap());
            }
            let file = File::open(dir.path("a")).await.unwrap();
            let std = std::fs::metadata(dir.path("a")).unwrap();
            same(&file.metadata().await.unwrap(), &std);
        });
    }

    fn options_that_contradict_each_other_are_refused(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let path = dir.path("a");
            let invalid = [
                OpenOptions::new(),
                OpenOptions::new().read(true).create(true).clone(),
                OpenOptions::new().read(true).truncate(true).clone(),
                OpenOptions::new().append(true).truncate(true).clone(),
            ];
            for options in invalid {
                assert_eq!(options.open(&path).await.unwrap_err().kind(), ErrorKind::InvalidInput);
            }
            let zero = Path::new("a\0b");
            assert_eq!(File::open(zero).await.unwrap_err().kind(), ErrorKind::InvalidInput);
            assert_eq!(File::open(&path).await.unwrap_err().kind(), ErrorKind::NotFound);
            let mut strict = OpenOptions::new();
            strict.write(true).create_new(true).mode(0o400);
            strict.open(&path).await.unwrap();
            assert_eq!(strict.open(&path).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o400);
            let no_link = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).clone();
            fs::symlink("a", dir.path("link")).await.unwrap();
            assert!(no_link.open(dir.path("link")).await.is_err());
        });
    }

    fn opened_files_are_closed_on_exec(on) {
        on.on_worker(async {
            let file = File::open("/dev/null").await.unwrap();
            // SAFETY: no memory is involved.
            let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) };
            assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
        });
    }

    fn names_come_go_and_change(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let [a, b, c] = ["a", "b", "c"].map(|name| dir.path(name));
            fs::write(&a, "text").await.unwrap();
            fs::hard_link(&a, &b).await.unwrap();
            assert_eq!(fs::metadata(&a).await.unwrap().nlink(), 2);
            assert_eq!(fs::hard_link(&a, &b).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
            fs::rename(&b, &c).await.unwrap();
            assert!(!fs::exists(&b).await);
            assert_eq!(fs::read_to_string(&c).await.unwrap(), "text");
            fs::symlink("c", &b).await.unwrap();
            assert_eq!(fs::read_link(&b).await.unwrap(), Path::new("c"));
            assert_eq!(fs::canonicalize(&b).await.unwrap(), std::fs::canonicalize(&c).unwrap());
            fs::remove_file(&c).await.unwrap();
            assert!(!fs::try_exists(&b).await.unwrap(), "it leads nowhere");
            assert_eq!(fs::remove_file(&c).await.unwrap_err().kind(), ErrorKind::NotFound);
            assert_eq!(fs::copy(&a, &c).await.unwrap(), 4);
            assert!(fs::remove_file(dir.path("")).await.is_err());
            fs::write(&c, [0xff]).await.unwrap();
            let error = fs::read_to_string(&c).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData);
        });
    }

    fn directories_are_made_listed_and_removed(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let sub = dir.path("sub");
            fs::create_dir(&sub).await.unwrap();
            assert_eq!(fs::create_dir(&sub).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
            fs::create_dir_all(&sub).await.unwrap();
            fs::create_dir_all(sub.join("x/y")).await.unwrap();
            for i in 0..200 {
                fs::write(sub.join(format!("{i}")), "").await.unwrap();
            }
            let mut names = Vec::new();
            let mut listing = fs::read_dir(&sub).await.unwrap();
            while let Some(entry) = listing.next_entry().await.unwrap() {
                let is_dir = entry.file_type().await.unwrap().is_dir();
                assert_eq!(is_dir, entry.file_name() == "x");
                assert_eq!(entry.ino(), entry.metadata().await.unwrap().ino());
                assert_eq!(entry.path(), sub.join(entry.file_name()));
                names.push(entry.file_name());
            }
            assert!(listing.next_entry().await.unwrap().is_none(), "and stays so");
            names.sort();
            names.dedup();
            assert_eq!(names.len(), 201);
            assert!(fs::remove_dir(&sub).await.is_err(), "it is not empty");
            fs::remove_dir(sub.join("x/y")).await.unwrap();
            fs::remove_dir_all(&sub).await.unwrap();
            assert_eq!(fs::read_dir(&sub).await.unwrap_err().kind(), ErrorKind::NotFound);
        });
    }

    fn whole_files_of_unknown_length_are_read(on) {
        on.on_worker(async {
            let status = fs::read_to_string("/proc/self/status").await.unwrap();
            assert!(status.contains("VmSize"), "{status}");
            assert_eq!(fs::read("/dev/null").await.unwrap(), b"");
        });
    }

    fn locks_exclude_each_other(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let (one, other) = (open(&dir.path("a")).await, open(&dir.path("a")).await);
            one.lock_shared().await.unwrap();
            other.try_lock_shared().unwrap();
            assert!(matches!(one.try_lock(), Err(TryLockError::WouldBlock)));
            other.unlock().await.unwrap();
            one.unlock().await.unwrap();

            one.lock().await.unwrap();
            assert!(matches!(other.try_lock_shared(), Err(TryLockError::WouldBlock)));
            let waits = filch::spawn(async move {
                other.lock().await.unwrap();
                other
            });
            filch::yield_now().await;
            one.unlock().await.unwrap();
            let other = waits.await;
            assert!(matches!(one.try_lock(), Err(TryLockError::WouldBlock)));
            drop(other);
            one.lock().await.unwrap();
        });
    }

    fn a_dropped_wait_for_a_lock_ends(on) {
        let _alone = crate::alone();
        // With one I/O worker, whose driver has its descriptors by then.
        let (dir, runtime) = (Scratch::new(), on.builder().workers(1).io_spares(0).build().unwrap());
        let holder = runtime.block_on(open(&dir.path("a")));
        runtime.block_on(holder.lock()).unwrap();
        let before = crate::descriptors();
        runtime.block_on(async {
            let other = open(&dir.path("a")).await;
            crate::begin(std::pin::pin!(other.lock())).await;
        });
        // Who waits keeps the file open.
        crate::eventually(|| crate::descriptors() <= before);
        runtime.block_on(holder.unlock()).unwrap();
    }

    fn a_lock_that_came_for_nobody_is_given_back(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let (holder, other) = (open(&dir.path("a")).await, open(&dir.path("a")).await);
            let third = open(&dir.path("a")).await;
            holder.lock().await.unwrap();
            let mut wait = Box::pin(other.lock());
            crate::begin(wait.as_mut()).await;
            holder.unlock().await.unwrap();
            while third.try_lock().is_ok() {
                third.unlock().await.unwrap();
                filch::yield_now().await;
            }
            drop(wait);
            third.lock().await.unwrap();
        });
    }

    fn futures_io_reads_writes_and_seeks(on) {
        on.on_worker(async {
            for dir in [Scratch::new(), Scratch::in_shared_memory()] {
                let mut file = open(&dir.path("a")).await;
                AsyncWriteExt::write_all(&mut file, &pattern(0, 300_000)).await.unwrap();
                AsyncWriteExt::flush(&mut file).await.unwrap();
                assert_eq!(std::fs::read(dir.path("a")).unwrap(), pattern(0, 300_000));
                AsyncSeekExt::seek(&mut file, SeekFrom::End(-5)).await.unwrap();
                AsyncWriteExt::write_all(&mut file, &pattern(7, 20)).await.unwrap();
                AsyncSeekExt::seek(&mut file, SeekFrom::Start(299_990)).await.unwrap();
                let mut end = Vec::new();
                AsyncReadExt::read_to_end(&mut file, &mut end).await.unwrap();
                assert_eq!(end, [pattern(299_990, 5), pattern(7, 20)].concat());
                AsyncSeekExt::seek(&mut file, SeekFrom::Start(0)).await.unwrap();
                let mut all = Vec::new();
                AsyncReadExt::read_to_end(&mut file, &mut all).await.unwrap();
                assert!(all[..299_995] == pattern(0, 299_995));
                AsyncWriteExt::close(&mut file).await.unwrap();
            }
        });
    }

    fn bytes_go_through_a_named_pipe(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let path = fifo(&dir);
            assert!(fs::metadata(&path).await.unwrap().file_type().is_fifo());
            let mut pipe = open(&path).await;
            pipe.write_all(b"hello, world").await.0.unwrap();
            assert_eq!(pipe.read_exact(vec![0; 5]).await.1, b"hello");
            assert_eq!(pipe.read(vec![0; 100]).await.0.unwrap(), 7);
            assert_eq!(pipe.seek(SeekFrom::Start(0)).await.unwrap_err().raw_os_error(), Some(libc::ESPIPE));
            assert!(pipe.read_at(vec![0; 5], 0).await.0.is_err());
            AsyncWriteExt::write_all(&mut pipe, b"again").await.unwrap();
            let mut buf = [0; 5];
            AsyncReadExt::read_exact(&mut pipe, &mut buf).await.unwrap();
            assert_eq!(&buf, b"again");
        });
    }
}

pub fn fifo(dir: &Scratch) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let path = dir.path("fifo");
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a C string.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    path
}

async fn write_and_read(dir: Scratch) {
    let file = File::create_new(dir.path("a")).await.unwrap();
    let (result, buf) = file.write_all(pattern(0, 10_000)).await;
    assert_eq!(result.unwrap(), 10_000);
    assert_eq!(buf.len(), 10_000, "the buffer comes back");
    file.write_all_at(b"in between", 500).await.0.unwrap();
    file.rewind().await.unwrap();
    let (result, buf) = file.read(Vec::with_capacity(20_000)).await;
    assert_eq!((result.unwrap(), buf.len()), (10_000, 10_000));
    let wanted = [&pattern(0, 500)[..], b"in between", &pattern(510, 9490)].concat();
    assert!(buf == wanted);
    let part = file.read_exact_at(vec![0; 8].slice(2..6), 500).await.1.into_inner();
    assert_eq!(&part, b"\0\0in b\0\0");
    let mut std = Vec::new();
    std::fs::File::open(dir.path("a")).unwrap().read_to_end(&mut std).unwrap();
    assert!(std == wanted);
}

fn same(ours: &fs::Metadata, std: &std::fs::Metadata) {
    assert_eq!(ours.file_type(), std.file_type().into());
    assert_eq!(ours.len(), std.len());
    assert_eq!(ours.permissions(), std.permissions());
    assert_eq!(ours.modified().unwrap(), std.modified().unwrap());
    assert_eq!(ours.accessed().unwrap(), std.accessed().unwrap());
    assert_eq!(ours.created().ok(), std.created().ok());
    let numbers = |of: &dyn MetadataExt| {
        let times =
            [of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec(), of.atime(), of.atime_nsec()];
        let ids = [of.dev(), of.ino(), of.nlink(), of.rdev(), of.size(), of.blksize(), of.blocks()];
        (times, ids, of.uid(), of.gid(), of.mode())
    };
    assert_eq!(numbers(ours), numbers(std));
}
