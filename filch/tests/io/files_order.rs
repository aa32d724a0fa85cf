//! What comes first in a file, and what a file of the system's own looks like.

use std::io::{ErrorKind, SeekFrom};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::mpsc;

use filch::fs::{self, File, OpenOptions};
use futures_lite::AsyncReadExt;

use crate::files::{Scratch, open};
use crate::{begin, on_each_backend, pattern, poll_once};

/// The first bytes of the pattern, each in a buffer of its own.
fn single_bytes(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| pattern(n, 1)).collect()
}

on_each_backend! {
    fn files_of_the_system_are_read_whole(on) {
        on.on_worker(async {
            for path in ["/proc/sys/kernel/pid_max", "/proc/self/status", "/proc/sys/kernel/ostype", "/proc/self/cmdline", "/sys/kernel/mm/transparent_hugepage/enabled", "/proc/self/maps"] {
                let Ok(wanted) = std::fs::read(path) else { continue };
                let got = fs::read(path).await.unwrap();
                if path.ends_with("status") || path.ends_with("maps") {
                    assert!(got.len() > wanted.len() / 2, "{path}: {} of {}", got.len(), wanted.len());
                } else {
                    assert_eq!(got, wanted, "{path}");
                }
            }
        });
    }

    fn a_read_after_a_write_does_not_return_what_was_read_ahead_during_it(on) {
        const LEN: usize = 64 << 20;
        on.on_worker(async {
            let scratch = Scratch::in_shared_memory();
            let mut file = open(&scratch.path("file")).await;
            file.write_all(vec![0; LEN]).await.0.unwrap();
            file.seek(SeekFrom::Start(LEN as u64 - 8)).await.unwrap();
            let writer = file.try_clone().await.unwrap();
            let mut write = Box::pin(async move { writer.write_all_at(vec![1; LEN], 0).await.0 });
            begin(write.as_mut()).await;
            // Read ahead during the write.
            let mut buf = [7; 8];
            let early = poll_once(pin!(AsyncReadExt::read(&mut file, &mut buf))).await;
            write.await.unwrap();
            if early.is_pending() {
                assert_eq!(AsyncReadExt::read(&mut file, &mut buf).await.unwrap(), 8);
                assert_eq!(buf, [1; 8]);
            }
        });
    }

    fn a_cut_dropped_before_its_turn_ends_before_a_later_write(on) {
        let mut config = on.builder().resolve().unwrap();
        config.blocking_threads = 1;
        let runtime = filch::Builder::new().config(config).build().unwrap();
        let (let_go, until) = mpsc::channel::<()>();
        runtime.block_on(runtime.spawn(async move {
            let scratch = Scratch::in_shared_memory();
            let file = open(&scratch.path("file")).await;
            file.write_all(vec![0; 1000]).await.0.unwrap();
            // The only thread that may block is busy.
            let busy = filch::spawn_blocking(move || until.recv().unwrap_err());
            begin(pin!(file.set_len(0))).await;
            let mut position = pin!(file.stream_position());
            if !on.is_uring() {
                begin(position.as_mut()).await;
            }
            drop(let_go);
            busy.await;
            assert_eq!(position.await.unwrap(), 1000);
            file.write_all_at(pattern(0, 100), 0).await.0.unwrap();
            assert_eq!(fs::read(scratch.path("file")).await.unwrap(), pattern(0, 100));
        }));
    }

    fn a_dropped_cut_ends_before_a_later_write(on) {
        on.on_worker(async {
            let scratch = Scratch::in_shared_memory();
            let file = open(&scratch.path("file")).await;
            file.write_all(vec![0; 16 << 20]).await.0.unwrap();
            for round in 0..20 {
                begin(pin!(file.set_len(0))).await;
                file.write_all_at(pattern(round, 100), 0).await.0.unwrap();
                file.sync_all().await.unwrap();
                assert_eq!(fs::read(scratch.path("file")).await.unwrap(), pattern(round, 100), "round {round}");
            }
        });
    }

    fn more_buffers_than_one_call_takes_are_filled(on) {
        on.on_worker(async {
            for scratch in [Scratch::new(), Scratch::in_shared_memory()] {
                let path = scratch.path("file");
                let file = open(&path).await;
                file.write_all(pattern(0, 3000)).await.0.unwrap();
                let (result, bufs) = file.read_vectored_at(vec![vec![0; 1]; 2500], 100).await;
                assert_eq!(result.unwrap(), 2500);
                assert!(bufs.concat() == pattern(100, 2500));
            }
        });
    }

    fn more_buffers_than_one_call_takes_are_written(on) {
        on.on_worker(async {
            for scratch in [Scratch::new(), Scratch::in_shared_memory()] {
                let path = scratch.path("file");
                let file = open(&path).await;
                let (result, bufs) = file.write_vectored_at(single_bytes(2500), 100).await;
                assert_eq!((result.unwrap(), bufs.len()), (2500, 2500));
                assert!(std::fs::read(&path).unwrap()[100..] == pattern(0, 2500));
                assert_eq!(file.write_vectored(single_bytes(2500)).await.0.unwrap(), 2500);
                assert_eq!(file.stream_position().await.unwrap(), 2500);
                assert!(std::fs::read(&path).unwrap()[..2500] == pattern(0, 2500));
                let end = OpenOptions::new().append(true).open(&path).await.unwrap();
                assert_eq!(end.write_vectored(single_bytes(2500)).await.0.unwrap(), 2500);
                assert!(std::fs::read(&path).unwrap()[2600..] == pattern(0, 2500));
            }
        });
    }

    fn more_buffers_than_one_call_takes_are_written_to_a_pipe(on) {
        on.on_worker(async {
            let (reader, writer) = std::io::pipe().unwrap();
            let reader = File::from_std(std::fs::File::from(OwnedFd::from(reader))).unwrap();
            let writer = File::from_std(std::fs::File::from(OwnedFd::from(writer))).unwrap();
            assert_eq!(writer.write_vectored(single_bytes(2500)).await.0.unwrap(), 2500);
            let (result, bytes) = reader.read_exact(vec![0; 2500]).await;
            result.unwrap();
            assert!(bytes == pattern(0, 2500));
        });
    }

    fn a_dropped_write_of_more_buffers_than_one_call_takes_is_whole(on) {
        // So many bytes that it is in flight after the first poll.
        const EACH: usize = 1000;
        on.on_worker(async {
            for scratch in [Scratch::new(), Scratch::in_shared_memory()] {
                let path = scratch.path("file");
                let file = open(&path).await;
                let bufs = (0..2500).map(|n| pattern(n * EACH, EACH)).collect();
                begin(pin!(file.write_vectored(bufs))).await;
                assert_eq!(file.metadata().await.unwrap().len(), 2500 * EACH as u64);
                assert!(std::fs::read(&path).unwrap() == pattern(0, 2500 * EACH));
            }
        });
    }

    fn paths_that_cannot_be_are_refused(on) {
        on.on_worker(async {
            let odd = "a\0b";
            let kinds = [
                File::open(odd).await.unwrap_err().kind(),
                fs::metadata(odd).await.unwrap_err().kind(),
                fs::remove_file(odd).await.unwrap_err().kind(),
                fs::rename(odd, "x").await.unwrap_err().kind(),
                fs::rename("x", odd).await.unwrap_err().kind(),
                fs::create_dir_all(odd).await.unwrap_err().kind(),
                fs::read_dir(odd).await.unwrap_err().kind(),
                fs::canonicalize(odd).await.unwrap_err().kind(),
                fs::copy(odd, "x").await.unwrap_err().kind(),
            ];
            assert_eq!(kinds, [ErrorKind::InvalidInput; 9]);
        });
    }
}
