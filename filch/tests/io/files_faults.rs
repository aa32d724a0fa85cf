//! Files under duress: dropped operations, errors of the system, descriptors that must not leak.

use std::io::ErrorKind;
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::task::Poll;

use filch::fs::{self, File, OpenOptions};
use futures_lite::{AsyncReadExt, AsyncWriteExt};

use crate::files::{Scratch, fifo, open};
use crate::{begin, descriptors, on_each_backend, pattern, poll_once};

/// Fills a pipe, so that a write to it waits.
async fn fill(pipe: &File) -> usize {
    // SAFETY: no memory is involved.
    let size = unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(pipe), libc::F_GETPIPE_SZ) };
    let size = usize::try_from(size).unwrap();
    assert_eq!(pipe.write_all(vec![b'.'; size]).await.0.unwrap(), size);
    size
}

on_each_backend! {
    fn a_dropped_write_in_flight_ends_before_a_later_one(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let (pipe, reader) = (open(&fifo(&dir)).await, open(&dir.path("fifo")).await);
            let size = fill(&pipe).await;
            {
                let mut write = pin!(pipe.write_all(pattern(0, 20_000)));
                begin(write.as_mut()).await;
            }
            let mut later = pin!(pipe.write_all(pattern(20_000, 20_000)));
            begin(later.as_mut()).await;
            let never_started = pipe.write_all(vec![b'!'; 10]);
            drop(never_started);
            let reads = filch::spawn(async move {
                let (result, buf) = reader.read_exact(vec![0; size + 40_000]).await;
                result.unwrap();
                assert!(buf[size..] == pattern(0, 40_000));
            });
            later.await.0.unwrap();
            reads.await;
        });
    }

    fn a_dropped_read_loses_no_byte(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let (pipe, writer) = (open(&fifo(&dir)).await, open(&dir.path("fifo")).await);
            let mut got = Vec::new();
            for round in 0..50 {
                {
                    let mut read = pin!(pipe.read(vec![0; 64]));
                    begin(read.as_mut()).await;
                }
                writer.write_all(pattern(round * 100, 100)).await.0.unwrap();
                while got.len() < (round + 1) * 100 {
                    let (result, buf) = pipe.read(vec![0; 70]).await;
                    got.extend_from_slice(&buf[..result.unwrap()]);
                }
            }
            assert!(got == pattern(0, 5000));
        });
    }

    fn a_dropped_futures_io_read_loses_no_byte(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let (mut pipe, writer) = (open(&fifo(&dir)).await, open(&dir.path("fifo")).await);
            let mut buf = [0; 8];
            assert!(poll_once(pin!(AsyncReadExt::read(&mut pipe, &mut buf))).await.is_pending());
            writer.write_all(b"kept").await.0.unwrap();
            assert_eq!(pipe.read_exact(vec![0; 4]).await.1, b"kept");
            assert!(poll_once(pin!(AsyncReadExt::read(&mut pipe, &mut buf))).await.is_pending());
            writer.write_all(b"also").await.0.unwrap();
            AsyncReadExt::read_exact(&mut pipe, &mut buf[..4]).await.unwrap();
            assert_eq!(&buf[..4], b"also");
        });
    }

    fn a_dropped_read_leaves_the_cursor(on) {
        on.on_worker(async {
            // Nothing is read at once there, so reads are in flight.
            let dir = Scratch::in_shared_memory();
            fs::write(dir.path("a"), pattern(0, 10_000)).await.unwrap();
            let mut file = File::open(dir.path("a")).await.unwrap();
            for round in 0..100 {
                let _ = poll_once(pin!(file.read_exact(vec![0; 20_000]))).await;
                if round % 2 == 0 {
                    let mut buf = [0; 77];
                    let read = poll_once(pin!(AsyncReadExt::read(&mut file, &mut buf))).await;
                    assert!(read.is_pending(), "then it would count");
                }
                let (result, buf) = file.read_exact(vec![0; 100]).await;
                result.unwrap();
                assert!(buf == pattern(round * 100, 100), "round {round}");
            }
        });
    }

    fn what_was_read_ahead_is_forgotten_by_a_write(on) {
        on.on_worker(async {
            let dir = Scratch::in_shared_memory();
            fs::write(dir.path("a"), "old").await.unwrap();
            let mut file = open(&dir.path("a")).await;
            let mut buf = [0; 3];
            let read = poll_once(pin!(AsyncReadExt::read(&mut file, &mut buf))).await;
            file.write_all_at(b"new", 0).await.0.unwrap();
            if read.is_pending() {
                AsyncReadExt::read_exact(&mut file, &mut buf).await.unwrap();
                assert_eq!(&buf, b"new");
            }
        });
    }

    fn a_cancelled_transfer_gives_its_buffer_back(on) {
        on.on_worker(async move {
            let dir = Scratch::new();
            let pipe = open(&fifo(&dir)).await;
            let mut read = pin!(pipe.read(vec![7; 10]));
            begin(read.as_mut()).await;
            let (result, buf) = read.cancel().await;
            assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::ECANCELED));
            assert_eq!(buf, [7; 10]);
            let other = open(&dir.path("fifo")).await;
            let mut read = pin!(pipe.read_exact(vec![7; 10]));
            begin(read.as_mut()).await;
            other.write_all(b"some").await.0.unwrap();
            let _ = poll_once(read.as_mut()).await;
            let (result, buf) = read.cancel().await;
            // On a ring the bytes may not have been told yet.
            match result {
                Ok(count) => assert_eq!((count, &buf[..4]), (4, &b"some"[..])),
                Err(_) => assert_eq!(pipe.read_exact(vec![0; 4]).await.1, b"some"),
            }
        });
    }

    fn a_write_to_a_pipe_dropped_half_way_runs_to_its_end(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let (pipe, reader) = (open(&fifo(&dir)).await, open(&dir.path("fifo")).await);
            let size = 3 * fill(&pipe).await;
            assert_eq!(reader.read_exact(vec![0; 1000]).await.0.unwrap(), 1000);
            begin(pin!(pipe.write_all(pattern(0, size)))).await;
            begin(pin!(pipe.write_vectored(vec![pattern(size, 10), pattern(size + 10, 10)]))).await;
            let (result, buf) = reader.read_exact(vec![0; size / 3 - 1000 + size]).await;
            result.unwrap();
            assert!(buf[size / 3 - 1000..] == pattern(0, size));
            pipe.write_all(b"later").await.0.unwrap();
            assert_eq!(reader.read_exact(vec![0; 5]).await.1, b"later");
        });
    }

    fn what_a_dropped_read_has_taken_from_a_pipe_is_read_next(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let (mut pipe, writer) = (open(&fifo(&dir)).await, open(&dir.path("fifo")).await);
            for round in 0..20 {
                writer.write_all(pattern(round * 10, 10)).await.0.unwrap();
                {
                    let mut read = pin!(pipe.read_exact(vec![0; 20]));
                    begin(read.as_mut()).await;
                    filch::yield_now().await;
                    begin(read.as_mut()).await;
                }
                let mut buf = [0; 10];
                AsyncReadExt::read_exact(&mut pipe, &mut buf).await.unwrap();
                assert!(buf[..] == pattern(round * 10, 10));
            }
        });
    }

    fn pipes_that_nobody_writes_to_hold_up_no_file(on) {
        let runtime = on.builder().blocking_threads(1).build().unwrap();
        runtime.block_on(runtime.spawn(async {
            let dir = Scratch::new();
            let (mut pipe, other) = (open(&fifo(&dir)).await, open(&dir.path("fifo")).await);
            let mut buf = [0; 8];
            assert!(poll_once(pin!(AsyncReadExt::read(&mut pipe, &mut buf))).await.is_pending());
            let mut read = pin!(other.read(vec![0; 8]));
            begin(read.as_mut()).await;
            fs::write(dir.path("a"), "text").await.unwrap();
            assert_eq!(fs::read(dir.path("a")).await.unwrap(), b"text");
        }));
    }

    fn an_abort_ends_beside_reads_and_writes_that_wait_for_a_pipe(on) {
        let runtime = on.builder().blocking_threads(1).build().unwrap();
        let (empty, full) = (Scratch::new(), Scratch::new());
        let (told, begun) = std::sync::mpsc::channel();
        for dir in [&empty, &full] {
            let (path, told, fills) = (fifo(dir), told.clone(), std::ptr::eq(dir, &full));
            drop(runtime.spawn(async move {
                let mut pipe = open(&path).await;
                if fills {
                    fill(&pipe).await;
                    AsyncWriteExt::write_all(&mut pipe, b"more").await.unwrap();
                    told.send(()).unwrap();
                    pipe.write_all(pattern(0, 20_000)).await.0.unwrap();
                } else {
                    begin(pin!(pipe.read(vec![0; 8]))).await;
                    told.send(()).unwrap();
                    AsyncReadExt::read(&mut pipe, &mut [0; 8]).await.unwrap();
                }
            }));
        }
        drop(told);
        (0..2).for_each(|_| begun.recv().unwrap());
        runtime.shutdown(filch::Shutdown::Abort);
    }

    fn writes_dropped_at_random_points_leave_whole_records(on) {
        on.on_worker(async {
            for dir in [Scratch::new(), Scratch::in_shared_memory()] {
                let file = open(&dir.path("a")).await;
                let mut random = 12345u64;
                let mut sure = Vec::new();
                for record in 0..200u8 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let mut write = Box::pin(file.write_all(vec![record; 1000]));
                    for _ in 0..random >> 61 {
                        if let Poll::Ready((result, _)) = poll_once(write.as_mut()).await {
                            result.unwrap();
                            sure.push(record);
                            break;
                        }
                        filch::yield_now().await;
                    }
                }
                let len = file.metadata().await.unwrap().len();
                assert_eq!(file.stream_position().await.unwrap(), len);
                let bytes = fs::read(dir.path("a")).await.unwrap();
                assert_eq!(bytes.len() as u64, len, "nothing comes after");
                assert!(bytes.chunks(1000).all(|record| *record == [record[0]; 1000]), "whole");
                let records: Vec<_> = bytes.chunks(1000).map(|record| record[0]).collect();
                assert!(records.is_sorted_by(|a, b| a < b), "in order: {records:?}");
                assert!(sure.iter().all(|record| records.contains(record)), "what was told is there");
            }
        });
    }

    fn a_dropped_write_at_an_offset_ends_before_a_later_one(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let file = open(&dir.path("a")).await;
            for round in 0..100u8 {
                let _ = poll_once(pin!(file.write_all_at(vec![255; 1 << 20], 0))).await;
                file.write_all_at(vec![round; 1 << 10], 0).await.0.unwrap();
                let (_, buf) = file.read_exact_at(vec![0; 1 << 10], 0).await;
                assert!(buf.iter().all(|&b| b == round), "round {round}: {}", buf[0]);
            }
        });
    }

    fn a_read_after_a_dropped_write_sees_it(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let file = open(&dir.path("a")).await;
            for round in 0..100u8 {
                let _ = poll_once(pin!(file.write_all_at(vec![round; 4096], 0))).await;
                let (_, buf) = file.read_exact_at(vec![255; 4096], 0).await;
                assert!(buf == [round; 4096], "round {round}: {}", buf[0]);
            }
        });
    }

    fn positional_transfers_go_beside_each_other(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let file = Arc::new(open(&dir.path("a")).await);
            let writers: Vec<_> = (0..32)
                .map(|i| {
                    let file = file.clone();
                    filch::spawn(async move {
                        for j in 0..8 {
                            let at = (i * 8 + j) * 4096;
                            file.write_all_at(pattern(at, 4096), at as u64).await.0.unwrap();
                            let (result, buf) = file.read_exact_at(vec![0; 4096], at as u64).await;
                            result.unwrap();
                            assert!(buf == pattern(at, 4096));
                        }
                    })
                })
                .collect();
            for writer in writers {
                writer.await;
            }
            assert!(fs::read(dir.path("a")).await.unwrap() == pattern(0, 1 << 20));
        });
    }

    fn streaming_writes_take_turns(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let file = Arc::new(open(&dir.path("a")).await);
            let writers: Vec<_> = (0..16u8)
                .map(|i| {
                    let file = file.clone();
                    filch::spawn(async move {
                        for _ in 0..10 {
                            file.write_all(vec![i; 777]).await.0.unwrap();
                        }
                    })
                })
                .collect();
            for writer in writers {
                writer.await;
            }
            let bytes = fs::read(dir.path("a")).await.unwrap();
            assert_eq!(bytes.len(), 16 * 10 * 777);
            assert!(bytes.chunks(777).all(|record| record.iter().all(|b| *b == record[0])));
        });
    }

    fn a_runtime_ends_beside_an_abandoned_write(on) {
        let (dir, runtime) = (Scratch::new(), on.runtime());
        let path = fifo(&dir);
        runtime.block_on(runtime.spawn(async move {
            let pipe = open(&path).await;
            fill(&pipe).await;
            begin(pin!(pipe.write_all(pattern(0, 20_000)))).await;
        }));
        drop(runtime);
    }

    fn a_full_device_is_an_error(on) {
        on.on_worker(async {
            let mut full = OpenOptions::new().write(true).open("/dev/full").await.unwrap();
            let (result, buf) = full.write_all(b"lost").await;
            assert_eq!(result.unwrap_err().kind(), ErrorKind::StorageFull);
            assert_eq!(buf, b"lost");
            let (result, _) = full.write_vectored(vec![b"lost", b"also"]).await;
            assert_eq!(result.unwrap_err().kind(), ErrorKind::StorageFull);
            AsyncWriteExt::write(&mut full, b"later").await.unwrap();
            let told = AsyncWriteExt::flush(&mut full).await;
            assert_eq!(told.unwrap_err().kind(), ErrorKind::StorageFull);
            AsyncWriteExt::flush(&mut full).await.unwrap();
        });
    }

    fn errors_of_reads_are_told(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let directory = File::open(dir.path("")).await.unwrap();
            let error = directory.read(vec![0; 10]).await.0.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::IsADirectory);
            let writer = File::create(dir.path("a")).await.unwrap();
            let (result, _) = writer.read_at(vec![0; 10], 0).await;
            assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EBADF));
            // The first page of a process is never mapped.
            let memory = File::open("/proc/self/mem").await.unwrap();
            let (result, _) = memory.read_at(vec![0; 10], 0).await;
            assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EIO));
        });
    }

    fn descriptors_return_to_where_they_were(on) {
        let _alone = crate::alone();
        let dir = Scratch::new();
        let before = descriptors();
        let runtime = on.runtime();
        let path = dir.path("a");
        runtime.block_on(runtime.spawn(async move {
            for round in 0..200 {
                let mut opening = Box::pin(File::create(&path));
                for _ in 0..round % 3 {
                    if poll_once(opening.as_mut()).await.is_ready() {
                        opening = Box::pin(File::create(&path));
                    }
                }
                drop(opening);
                let file = open(&path).await;
                let _ = poll_once(pin!(file.write_all(vec![0; 5000]))).await;
                let _ = poll_once(pin!(file.read_at(vec![0; 5000], 0))).await;
                let _ = poll_once(pin!(file.sync_all())).await;
                let _ = poll_once(pin!(fs::read_dir("/tmp"))).await;
            }
        }));
        drop(runtime);
        crate::eventually(|| descriptors() <= before);
    }

    fn a_limit_of_size_is_an_error(on) {
        let name = if on.is_uring() { "uring" } else { "epoll" };
        let exe = std::env::current_exe().unwrap();
        let output = Command::new(exe)
            .args(["--exact", "files_faults::limited_here", "--include-ignored", "--nocapture"])
            .env("FILCH_IO", name)
            .env("FILCH_TEST_LIMIT", "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("was limited"), "{text}");
    }
}

/// Runs in a process of its own: its files may have 10,000 bytes.
#[test]
#[ignore = "a child process of another test"]
fn limited_here() {
    if std::env::var_os("FILCH_TEST_LIMIT").is_none() {
        return;
    }
    let limit = libc::rlimit { rlim_cur: 10_000, rlim_max: 10_000 };
    // SAFETY: a limit that is valid during the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
    // SAFETY: no handler of ours is involved.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let dir = Scratch::new();
    let path = dir.path("a");
    filch::block_on(filch::spawn(async move {
        let file = open(&path).await;
        let (result, buf) = file.write_all(pattern(0, 20_000)).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(buf.len(), 20_000);
        assert_eq!(file.stream_position().await.unwrap(), 10_000, "as far as it went");
        assert!(fs::read(&path).await.unwrap() == pattern(0, 10_000));
        assert_eq!(file.write_at(pattern(0, 20), 9_990).await.0.unwrap(), 10, "what fits");
        let (result, _) = file.write_at(pattern(0, 20), 10_000).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(file.set_len(20_000).await.unwrap_err().kind(), ErrorKind::FileTooLarge);
        // A dropped write goes as far as it can, and blocks nothing.
        let _ = poll_once(pin!(file.write_all_at(pattern(0, 20_000), 0))).await;
        assert_eq!(file.read_exact_at(vec![0; 10], 0).await.1, pattern(0, 10));
    }));
    println!("was limited");
}
