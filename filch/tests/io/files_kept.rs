//! What a write through `futures-io` has answered is in the file, or somebody hears of the error.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::sync::{LazyLock, mpsc};
use std::task::{Context, Waker};
use std::time::Duration;

use filch::fs::{File, OpenOptions};
use filch::io::AsyncWriteExt;
use filch::{LostWrite, Pumped, Shutdown};

use crate::files::{Scratch, fifo, open};
use crate::{On, on_each_backend, pattern};

/// Bytes of a file that take the system a while, so that an end that does not wait is seen.
const LONG: usize = 1 << 19;

/// `LONG` bytes that tell their place.
fn bytes() -> &'static [u8] {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| pattern(0, LONG));
    &BYTES
}

/// Writes through `futures-io`, and drops the file at once.
async fn write_and_drop(path: PathBuf, bytes: &'static [u8]) {
    let mut file = File::create(path).await.unwrap();
    AsyncWriteExt::write_all(&mut file, bytes).await.unwrap();
}

/// How many of a hundred rounds find the file incomplete.
#[track_caller]
fn none_is_missing(round: impl Fn(&Path)) {
    let dir = Scratch::new();
    let path = dir.path("a");
    let mut missing = 0;
    for _ in 0..100 {
        round(&path);
        missing += usize::from(std::fs::read(&path).unwrap() != bytes());
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(missing, 0, "of 100 files were incomplete");
}

on_each_backend! {
    fn what_was_written_is_there_after_block_on(on) {
        let runtime = on.builder().workers(1).build().unwrap();
        none_is_missing(|path| runtime.block_on(write_and_drop(path.into(), bytes())));
    }

    fn what_was_written_is_there_after_a_group(on) {
        let runtime = on.runtime();
        none_is_missing(|path| {
            let path = path.to_owned();
            let there = runtime.block_on(runtime.spawn(async move {
                let child = path.clone();
                let done: Result<(), ()> = filch::group(async |_| {
                    write_and_drop(child, bytes()).await;
                    Ok(())
                })
                .await;
                done.unwrap();
                std::fs::metadata(path).unwrap().len()
            }));
            assert_eq!(there, LONG as u64);
        });
    }

    fn what_was_written_is_there_after_a_drain(on) {
        none_is_missing(|path| {
            let runtime = on.builder().workers(1).build().unwrap();
            runtime.spawn(write_and_drop(path.into(), bytes())).detach();
            runtime.shutdown(Shutdown::Drain);
        });
    }

    fn what_was_written_is_there_after_an_abort(on) {
        none_is_missing(|path| {
            let runtime = on.builder().workers(1).build().unwrap();
            let (told, written) = mpsc::channel();
            let path = path.to_owned();
            runtime.spawn(async move {
                let mut file = File::create(path).await.unwrap();
                AsyncWriteExt::write_all(&mut file, bytes()).await.unwrap();
                told.send(()).unwrap();
                std::future::pending::<()>().await;
            }).detach();
            written.recv().unwrap();
            runtime.shutdown(Shutdown::Abort);
        });
    }

    fn what_was_written_is_there_although_no_thread_may_block_before_an_abort(on) {
        none_is_missing(|path| {
            let mut config = on.builder().workers(1).resolve().unwrap();
            config.blocking_threads = 1;
            let runtime = filch::Builder::new().config(config).build().unwrap();
            let (told, written) = mpsc::channel();
            let (let_go, until) = mpsc::channel::<()>();
            let path = path.to_owned();
            runtime.spawn(async move {
                let mut file = File::create(path).await.unwrap();
                // The only thread that may block is busy: a write that needs it is queued.
                filch::spawn_blocking(move || until.recv().unwrap_err()).detach();
                AsyncWriteExt::write_all(&mut file, bytes()).await.unwrap();
                told.send(let_go).unwrap();
                std::future::pending::<()>().await;
            }).detach();
            let let_go = written.recv().unwrap();
            let report = std::thread::scope(|scope| {
                let end = scope.spawn(|| runtime.shutdown(Shutdown::Abort));
                drop(let_go);
                end.join().unwrap()
            });
            assert!(!report.unfinished.is_empty());
        });
    }

    fn what_was_written_is_there_although_its_worker_leaves(on) {
        none_is_missing(|path| {
            let runtime = on.builder().io_spares(0).build().unwrap();
            let leaver = runtime.workers()[1].id;
            let (handle, path) = (runtime.handle(), path.to_owned());
            let leaves = runtime.spawn(async move {
                let file = File::create(path).await.unwrap();
                let write = move || {
                    // Begun here and now, so that it is in flight on the worker that leaves.
                    let mut file = file;
                    let mut cx = Context::from_waker(Waker::noop());
                    assert!(pin!(AsyncWriteExt::write_all(&mut file, bytes())).poll(&mut cx).is_ready());
                };
                handle.post_to(leaver, write).unwrap();
                drop(handle.detach(leaver));
            });
            runtime.block_on(leaves);
            runtime.shutdown(Shutdown::Drain);
        });
    }

    fn what_was_written_is_there_after_the_run_of_a_hive(on) {
        for how in [Shutdown::Drain, Shutdown::Abort] {
            none_is_missing(|path| {
                let hive = on.builder().workers(1).hive().unwrap();
                let (handle, path) = (hive.handle(), path.to_owned());
                hive.spawn(async move {
                    write_and_drop(path, bytes()).await;
                    handle.request_shutdown(how);
                }).detach();
                hive.run().unwrap();
            });
        }
    }

    fn what_was_written_on_a_pump_is_there_after_its_end(on) {
        for how in [Some(Shutdown::Drain), Some(Shutdown::Abort), None] {
            none_is_missing(|path| {
                let mut pump = on.builder().hive().unwrap().pump(|| ()).unwrap();
                let (told, written) = mpsc::channel();
                let path = path.to_owned();
                let writes = pump.handle().spawn_to(pump.worker(), move || async move {
                    write_and_drop(path, bytes()).await;
                    told.send(()).unwrap();
                });
                writes.unwrap().detach();
                while written.try_recv().is_err() {
                    assert_ne!(pump.run(Duration::from_millis(1)), Pumped::Stopped);
                }
                match how {
                    Some(how) => drop(pump.finish(how)),
                    None => drop(pump),
                }
            });
        }
    }

    fn what_was_written_is_there_when_main_returns(on) {
        let dir = Scratch::new();
        let mut missing = 0;
        for round in 0..20 {
            let path = dir.path(&round.to_string());
            let output = child("main_here", on, &path);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            missing += usize::from(std::fs::read(&path).unwrap() != bytes());
        }
        assert_eq!(missing, 0, "of 20 files were incomplete");
    }

    fn a_pipe_that_nobody_reads_holds_up_no_end(on) {
        let dir = Scratch::new();
        let path = fifo(&dir);
        let runtime = on.builder().build().unwrap();
        runtime.block_on(async {
            let mut pipe = open(&path).await;
            // More than it holds.
            AsyncWriteExt::write_all(&mut pipe, bytes()).await.unwrap();
        });
        let report = runtime.shutdown(Shutdown::Drain);
        assert!(report.unfinished.is_empty());
    }

    fn bytes_for_a_pipe_that_nobody_reads_are_told_as_lost(on) {
        let dir = Scratch::new();
        let path = fifo(&dir);
        let (runtime, lost) = listening(on);
        runtime.block_on(async {
            let mut pipe = open(&path).await;
            AsyncWriteExt::write_all(&mut pipe, bytes()).await.unwrap();
        });
        drop(runtime);
        let lost = lost.recv().unwrap();
        assert!(lost.error.to_string().contains("has ended"), "{lost}");
        assert_eq!((lost.offset, lost.path.as_deref()), (None, Some(&*path)));
        assert!(0 < lost.len && lost.len <= LONG, "{lost}");
    }

    fn an_error_after_the_drop_is_told_to_the_hook_before_block_on_returns(on) {
        let dir = Scratch::new();
        let path = dir.path("a");
        let output = child("limited_here", on, &path);
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("all was told"), "{text}{errors}");
        let wanted = format!(
            "filch: a write of 11000 bytes at offset 10000 to {} was lost: ",
            path.display()
        );
        assert!(errors.contains(&wanted), "{errors}");
    }

    fn a_full_device_is_told_to_flush_close_sync_and_the_next_write(on) {
        let (runtime, lost) = listening(on);
        runtime.block_on(async {
            let mut file = OpenOptions::new().write(true).open("/dev/full").await.unwrap();
            for round in 0..4 {
                AsyncWriteExt::write_all(&mut file, b"lost").await.unwrap();
                let told = match round {
                    0 => AsyncWriteExt::flush(&mut file).await,
                    1 => AsyncWriteExt::close(&mut file).await,
                    2 => file.sync_all().await,
                    _ => AsyncWriteExt::write_all(&mut file, b"more").await,
                };
                assert_eq!(told.unwrap_err().kind(), std::io::ErrorKind::StorageFull, "{round}");
            }
        });
        drop(runtime);
        assert!(lost.try_recv().is_err(), "told once");
    }

    fn an_error_that_nobody_asked_for_is_told_to_the_hook(on) {
        let (runtime, lost) = listening(on);
        runtime.block_on(async {
            let mut full = OpenOptions::new().write(true).open("/dev/full").await.unwrap();
            AsyncWriteExt::write_all(&mut full, b"lost").await.unwrap();
            // It ends before the file is dropped.
            full.metadata().await.unwrap();
        });
        // `block_on` waits for no write to a device (D8), the end of the runtime for its threads.
        drop(runtime);
        let lost = lost.try_recv().unwrap();
        assert_eq!((lost.len, lost.offset), (4, Some(0)));
        assert_eq!(lost.error.kind(), std::io::ErrorKind::StorageFull);
    }

    fn a_hook_that_panics_harms_nobody(on) {
        let runtime = on.builder().on_lost_write(|lost| panic!("{lost}")).build().unwrap();
        runtime.block_on(async {
            let mut full = OpenOptions::new().write(true).open("/dev/full").await.unwrap();
            AsyncWriteExt::write_all(&mut full, b"lost").await.unwrap();
        });
        assert_eq!(runtime.block_on(runtime.spawn(async { 1 })), 1);
    }

    fn a_write_in_the_group_of_another_runtime_is_waited_for_by_both(on) {
        none_is_missing(|path| {
            let (owner, other) = (on.runtime(), on.runtime());
            let mut file = owner.block_on(File::create(path)).unwrap();
            other.block_on(async move {
                AsyncWriteExt::write_all(&mut file, bytes()).await.unwrap();
                drop(owner);
            });
        });
    }

    fn a_straggler_that_writes_after_the_deadline_loses_nothing(on) {
        let dir = Scratch::new();
        for flushes in [false, true] {
            let path = dir.path(if flushes { "a" } else { "b" });
            let (runtime, lost) = listening(on);
            let mut file = runtime.block_on(File::create(&path)).unwrap();
            let (begun, begins) = mpsc::channel();
            let (let_go, until) = mpsc::channel::<()>();
            let writes = runtime.spawn_blocking(move || {
                begun.send(()).unwrap();
                until.recv().unwrap_err();
                filch::block_on(async {
                    AsyncWriteExt::write_all(&mut file, bytes()).await.unwrap();
                    if flushes {
                        AsyncWriteExt::flush(&mut file).await.unwrap();
                    }
                });
            });
            begins.recv().unwrap();
            let report = runtime.shutdown(Shutdown::AbortFor(std::time::Duration::from_millis(1)));
            assert_eq!(report.still_running.len(), 1);
            drop(let_go);
            writes.wait();
            assert_eq!(std::fs::read(path).unwrap(), bytes(), "its `block_on` has waited");
            assert!(lost.try_recv().is_err());
        }
    }

    fn a_file_that_outlives_its_runtime_has_what_was_answered_and_takes_no_more(on) {
        let dir = Scratch::new();
        let path = dir.path("a");
        for how in [Shutdown::Abort, Shutdown::Drain] {
            let (runtime, lost) = listening(on);
            let mut file = runtime.block_on(File::create(&path)).unwrap();
            let mut write = || futures_lite::future::block_on(AsyncWriteExt::write_all(&mut file, bytes()));
            write().unwrap();
            runtime.shutdown(how);
            assert_eq!(std::fs::read(&path).unwrap(), bytes());
            assert!(write().unwrap_err().to_string().contains("has ended"));
            drop(file);
            assert_eq!(std::fs::read(&path).unwrap(), bytes());
            assert!(lost.try_recv().is_err());
        }
    }

    fn an_error_waits_for_who_is_to_hear_it_whatever_comes_before(on) {
        let (runtime, lost) = listening(on);
        runtime.block_on(async {
            for between in 0..5 {
                let mut file = OpenOptions::new().read(true).write(true).open("/dev/full").await.unwrap();
                AsyncWriteExt::write_all(&mut file, b"lost").await.unwrap();
                match between {
                    0 => drop(file.metadata().await.unwrap()),
                    1 => drop(file.read_at(vec![0; 1], 0).await.0.unwrap()),
                    2 => drop(file.seek(std::io::SeekFrom::Start(0)).await.unwrap()),
                    3 => drop(file.write_at(Vec::new(), 0).await.0.unwrap()),
                    _ => {
                        let other = file.try_clone().await.unwrap();
                        drop(std::mem::replace(&mut file, other));
                    }
                }
                let told = AsyncWriteExt::flush(&mut file).await.unwrap_err();
                assert_eq!(told.kind(), std::io::ErrorKind::StorageFull, "{between}");
                AsyncWriteExt::close(&mut file).await.unwrap();
            }
        });
        drop(runtime);
        assert!(lost.try_recv().is_err(), "told once");
    }

    fn all_buffers_of_a_vectored_write_are_written(on) {
        let dir = Scratch::new();
        let path = dir.path("a");
        on.off_lane(async {
            let mut file = File::create(&path).await.unwrap();
            let bufs = [&b""[..], b"head ", b"", b"body ", b"tail"].map(std::io::IoSlice::new);
            assert_eq!(AsyncWriteExt::write_vectored(&mut file, &bufs).await.unwrap(), 14);
            AsyncWriteExt::flush(&mut file).await.unwrap();
            let big = vec![b'x'; 3 << 20];
            let bufs = [&b"!"[..], &big, b"?"].map(std::io::IoSlice::new);
            let count = AsyncWriteExt::write_vectored(&mut file, &bufs).await.unwrap();
            assert!(1 < count, "more than the first");
        });
        assert_eq!(std::fs::read(path).unwrap()[..14], *b"head body tail");
    }
}

/// A runtime whose lost writes are received.
fn listening(on: On) -> (filch::Runtime, mpsc::Receiver<LostWrite>) {
    let (told, lost) = mpsc::channel();
    let builder = on.builder().on_lost_write(move |lost| told.send(lost).unwrap());
    (builder.build().unwrap(), lost)
}

/// Runs one test of this file in a process of its own.
fn child(test: &str, on: On, path: &Path) -> std::process::Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("files_kept::{test}"), "--ignored", "--nocapture"])
        .env("FILCH_IO", if on.is_uring() { "uring" } else { "epoll" })
        .env("FILCH_TEST_PATH", path)
        .output()
        .unwrap()
}

/// The path that the parent has given, if this is its child.
fn path_of_parent() -> Option<PathBuf> {
    std::env::var_os("FILCH_TEST_PATH").map(PathBuf::from)
}

#[filch::main]
async fn program() {
    let mut file = File::create(path_of_parent().unwrap()).await.unwrap();
    AsyncWriteExt::write_all(&mut file, bytes()).await.unwrap();
}

#[test]
#[ignore = "a child process of another test"]
fn main_here() {
    if path_of_parent().is_some() {
        program();
        // As when `main` returns: nothing is waited for.
        std::process::exit(0);
    }
}

/// Runs in a process of its own: its files may have 10,000 bytes.
#[test]
#[ignore = "a child process of another test"]
fn limited_here() {
    let Some(path) = path_of_parent() else { return };
    let limit = libc::rlimit { rlim_cur: 10_000, rlim_max: 10_000 };
    // SAFETY: a limit that is valid during the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
    // SAFETY: no handler of ours is involved.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let (told, lost) = mpsc::channel();
    let builder = filch::Builder::new().workers(1);
    let runtime = builder.on_lost_write(move |lost| told.send(lost).unwrap()).build().unwrap();
    for _ in 0..20 {
        runtime.block_on(write_and_drop(path.clone(), &bytes()[..20_000]));
        let lost = lost.try_recv().expect("told before `block_on` returns");
        assert_eq!(lost.error.kind(), std::io::ErrorKind::FileTooLarge);
        assert_eq!((lost.offset, lost.len), (Some(10_000), 10_000));
        assert_eq!(lost.path.as_deref(), Some(&*path));
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 10_000);
    }
    // Without a hook, standard error tells.
    filch::block_on(write_and_drop(path, &bytes()[..21_000]));
    println!("all was told");
}
