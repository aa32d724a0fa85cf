//! Named pipes: an open waits for the other side, and holds up nobody.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::pin::{Pin, pin};
use std::sync::mpsc;

use filch::Shutdown;
use filch::fs::{self, File, OpenOptions};
use filch::io::{AsyncReadExt, AsyncWriteExt};

use crate::files::{Scratch, fifo, open};
use crate::{begin, on_each_backend, pattern, poll_once};

/// Opens a pipe to write to it, on a thread of its own, and lets `write` use it.
fn writer(
    path: &std::path::Path,
    write: impl FnOnce(std::fs::File) + Send + 'static,
) -> std::thread::JoinHandle<()> {
    let path = path.to_owned();
    std::thread::spawn(move || write(std::fs::OpenOptions::new().write(true).open(path).unwrap()))
}

async fn open_to_write(path: &std::path::Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).open(path).await
}

/// Lets an open go on for a while, which is not to end.
async fn waits(mut opening: Pin<&mut impl Future<Output = std::io::Result<File>>>) {
    for _ in 0..3 {
        begin(opening.as_mut()).await;
        // Another open, which does end: so what this one has asked has been answered.
        drop(File::open("/dev/null").await.unwrap());
        filch::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    begin(opening.as_mut()).await;
}

fn blocks(file: &impl AsRawFd) -> bool {
    // SAFETY: no memory is involved.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) & libc::O_NONBLOCK == 0 }
}

on_each_backend! {
    fn a_pipe_to_read_is_open_when_a_writer_has_come(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let path = fifo(&dir);
            let mut opening = pin!(File::open(&path));
            waits(opening.as_mut()).await;
            let (let_go, until) = mpsc::channel::<()>();
            let writer = writer(&path, move |mut pipe| {
                until.recv().unwrap();
                pipe.write_all(b"came").unwrap();
            });
            let mut pipe = opening.await.unwrap();
            let mut buf = [0; 10];
            {
                let mut read = pin!(AsyncReadExt::read(&mut pipe, &mut buf));
                assert!(poll_once(read.as_mut()).await.is_pending(), "no end before it has written");
            }
            let_go.send(()).unwrap();
            assert_eq!(pipe.read_exact(vec![0; 4]).await.1, b"came");
            assert_eq!(pipe.read(vec![0; 4]).await.0.unwrap(), 0);
            writer.join().unwrap();
        });
    }

    fn a_writer_that_has_gone_again_has_come(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let path = fifo(&dir);
            for text in ["left behind", ""] {
                let mut opening = pin!(File::open(&path));
                begin(opening.as_mut()).await;
                let writer = writer(&path, move |mut pipe| pipe.write_all(text.as_bytes()).unwrap());
                let mut pipe = opening.await.unwrap();
                writer.join().unwrap();
                let mut got = String::new();
                pipe.read_to_string(&mut got).await.unwrap();
                assert_eq!(got, text);
            }
        });
    }

    fn a_pipe_to_write_is_open_when_a_reader_has_come(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let path = fifo(&dir);
            let mut opening = pin!(open_to_write(&path));
            waits(opening.as_mut()).await;
            let reader = std::thread::spawn({
                let path = path.clone();
                move || {
                    let mut got = Vec::new();
                    std::fs::File::open(path).unwrap().read_to_end(&mut got).unwrap();
                    got
                }
            });
            let mut pipe = opening.await.unwrap();
            pipe.write_all(pattern(0, 100_000)).await.0.unwrap();
            AsyncWriteExt::write_all(&mut pipe, &pattern(100_000, 100_000)).await.unwrap();
            AsyncWriteExt::close(&mut pipe).await.unwrap();
            drop(pipe);
            assert!(reader.join().unwrap() == pattern(0, 200_000));
        });
    }

    fn opens_that_nobody_answers_hold_up_no_file_and_no_end(on) {
        let runtime = on.builder().blocking_threads(1).build().unwrap();
        let dir = Scratch::new();
        let another = Scratch::new();
        let (pipe, other) = (fifo(&dir), fifo(&another));
        let (told, begun) = mpsc::channel();
        let waiting = told.clone();
        let to_write = runtime.spawn(async move {
            let mut opening = pin!(open_to_write(&pipe));
            waits(opening.as_mut()).await;
            waiting.send(()).unwrap();
            opening.await.unwrap();
        });
        let to_read = runtime.spawn(async move {
            let mut opening = pin!(File::open(&other));
            waits(opening.as_mut()).await;
            told.send(()).unwrap();
            opening.await.unwrap();
        });
        (0..2).for_each(|_| begun.recv().unwrap());
        let file = dir.path("a");
        runtime.block_on(async {
            fs::write(&file, "text").await.unwrap();
            assert_eq!(fs::read(&file).await.unwrap(), b"text");
        });
        let report = runtime.shutdown(Shutdown::Abort);
        // Where a call opens, the look that is just being made is a task, too.
        for opening in [to_write.id(), to_read.id()] {
            assert!(report.unfinished.iter().any(|task| task.id == opening), "{report}");
        }
    }

    fn a_dropped_open_leaves_nobody_at_the_pipe(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let path = fifo(&dir);
            begin(pin!(File::open(&path))).await;
            begin(pin!(open_to_write(&path))).await;
        });
    }

    fn a_pipe_of_std_that_nobody_reads_holds_up_no_end(on) {
        let dir = Scratch::new();
        let path = fifo(&dir);
        let pipe = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let runtime = on.builder().blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let mut ours = File::from_std(pipe.try_clone().unwrap()).unwrap();
            AsyncWriteExt::write_all(&mut ours, &pattern(0, 1 << 19)).await.unwrap();
        });
        assert!(blocks(&pipe), "it is others' too");
        runtime.shutdown(Shutdown::Drain);
    }

    fn a_pipe_that_is_given_away_blocks(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let pipe = open(&fifo(&dir)).await;
            pipe.write_all(b"bytes").await.0.unwrap();
            let mut pipe = pipe.into_std().await.unwrap();
            assert!(blocks(&pipe));
            let mut buf = [0; 5];
            pipe.read_exact(&mut buf).unwrap();
            assert_eq!(&buf, b"bytes");
        });
    }

    fn a_pipe_that_was_not_to_block_does_not(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let path = fifo(&dir);
            let options = |flags| OpenOptions::new().write(true).custom_flags(flags).clone();
            let nobody = options(libc::O_NONBLOCK).open(&path).await.unwrap_err();
            assert_eq!(nobody.raw_os_error(), Some(libc::ENXIO));
            let absent = options(0).open(dir.path("no/such")).await.unwrap_err();
            assert_eq!(absent.kind(), std::io::ErrorKind::NotFound);
        });
    }
}
