//! Rings that may not be entered any more while operations are in flight. Each in a process of its own.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use filch::net::{TcpListener, TcpStream};
use filch::{Builder, IoBackend, NewWorker, Runtime, Shutdown};

use crate::denied::{Threads, child_with, deny, number, use_everything};
use crate::{begin, pair, poll_once};

/// Says which calls a child denies.
const CALLS: &str = "FILCH_TEST_CALLS";

/// What a filter forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Calls {
    /// `io_uring_enter` alone.
    Enter,
    /// Whatever has to do with rings.
    All,
}

impl Calls {
    fn of_child() -> Self {
        if std::env::var(CALLS).unwrap() == "all" { Self::All } else { Self::Enter }
    }

    fn deny(self, threads: Threads) {
        deny(libc::SYS_io_uring_enter, number(), threads);
        if self == Self::All {
            deny(libc::SYS_io_uring_register, number(), threads);
            deny(libc::SYS_io_uring_setup, number(), threads);
        }
    }
}

/// Has a test of this file run in a process of its own, once for each error number and kind of filter.
fn children(test: &str, check: impl Fn(&str)) {
    if !crate::On::uring_is_there() {
        return;
    }
    for errno in [libc::EPERM, libc::ENOSYS, libc::EACCES] {
        for calls in ["enter", "all"] {
            let text = child_with(&format!("denied_late::{test}"), errno as u32, &[(CALLS, calls)]);
            assert!(text.contains("it has ended"), "{calls}: {text}");
            assert!(!text.contains("panicked"), "{calls}: {text}");
            check(&text);
        }
    }
}

/// A child that hangs fails.
fn bound() {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(20));
        println!("it hangs");
        std::process::abort();
    });
}

/// Processor time of this process.
fn used() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the answer.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Names, writes, reads and removes files.
async fn use_files(number: usize) {
    let name = format!("filch_denied_{}_{number}", std::process::id());
    let (from, to) = (std::env::temp_dir().join(&name), std::env::temp_dir().join(name + "_to"));
    for round in 0..10 {
        filch::fs::write(&from, vec![round; 70_000]).await.unwrap();
        filch::fs::rename(&from, &to).await.unwrap();
        assert_eq!(filch::fs::read(&to).await.unwrap(), vec![round; 70_000]);
        filch::fs::remove_file(&to).await.unwrap();
    }
}

/// What is in flight is told, and what is new works, after all threads were denied their rings.
async fn denied_in_use(calls: Calls) {
    use_everything().await.unwrap();

    let (speaker, hearer) = pair().await.unwrap();
    let read = filch::spawn(async move {
        let (result, bytes) = hearer.read_exact(vec![0; 5]).await;
        result.map(|_| (bytes, hearer))
    });
    let (streamer, streamed) = pair().await.unwrap();
    let stream = filch::spawn(async move {
        let mut bytes = Vec::new();
        while let Some(chunk) = streamed.recv().await? {
            bytes.extend_from_slice(&chunk);
        }
        std::io::Result::Ok(bytes)
    });
    streamer.write_all("before, ").await.0.unwrap();
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = listener.local_addr().unwrap();
    let accepts = filch::spawn({
        let listener = listener.clone();
        async move {
            for _ in 0..3 {
                let (stream, _) = listener.accept().await.unwrap();
                stream.write_all("welcome").await.0.unwrap();
            }
        }
    });
    // Nobody ever answers these.
    let (silent, _other) = pair().await.unwrap();
    let mut unanswered = pin!(silent.read(vec![0; 100]));
    begin(unanswered.as_mut()).await;
    let (dropped, answers_late) = pair().await.unwrap();
    let mut to_be_dropped = Box::pin(dropped.read(vec![0; 100]));
    begin(to_be_dropped.as_mut()).await;
    let (mute, _other) = pair().await.unwrap();
    filch::spawn(async move { mute.read(vec![0; 100]).await.0 }).detach();
    let files: Vec<_> = (0..6).map(|number| filch::spawn(use_files(number))).collect();
    filch::time::sleep(Duration::from_millis(5)).await;

    calls.deny(Threads::All);

    // What was in flight.
    speaker.write_all("hello").await.0.unwrap();
    let (bytes, hearer) = read.await.unwrap();
    assert_eq!(bytes, b"hello");
    streamer.write_all("after").await.0.unwrap();
    for _ in 0..3 {
        let guest = TcpStream::connect(address).await.unwrap();
        assert_eq!(guest.read_exact(vec![0; 7]).await.1, b"welcome");
    }
    accepts.await;
    for file in files {
        file.await;
    }
    // What is new.
    use_everything().await.unwrap();
    speaker.write_all("again").await.0.unwrap();
    assert_eq!(hearer.read_exact(vec![0; 5]).await.1, b"again");
    drop(streamer);
    assert_eq!(stream.await.unwrap(), b"before, after");

    // A worker with nothing but idle operations sleeps.
    let before = used();
    filch::time::sleep(Duration::from_millis(300)).await;
    let spent = used() - before;
    assert!(spent < Duration::from_millis(100), "it spins: {spent:?}");

    // What is given up ends.
    let (result, buffer) = unanswered.as_mut().cancel().await;
    println!("cancelled: {}", result.unwrap_err());
    assert_eq!(buffer.len(), 100);
    drop(to_be_dropped);
    answers_late.write_all("late").await.0.unwrap();
    match dropped.read(vec![0; 100]).await {
        (Ok(count), bytes) => assert_eq!(&bytes[..count], b"late"),
        (Err(error), _) => println!("dropped: {error}"),
    }
    use_everything().await.unwrap();
    drop(listener);
    // It is closed when its accepts have ended.
    let begin = Instant::now();
    while TcpStream::connect(address).await.is_ok() {
        assert!(begin.elapsed() < Duration::from_secs(5), "the listener stays open");
        filch::time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn rings_denied_in_use() {
    bound();
    let runtime = Runtime::builder().workers(2).io_backend(IoBackend::Auto).build().unwrap();
    runtime.block_on(runtime.spawn(denied_in_use(Calls::of_child())));
    println!("{}", runtime.describe());
    let begin = Instant::now();
    runtime.shutdown(Shutdown::Abort);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    println!("it has ended");
}

#[test]
fn operations_go_on_by_epoll_when_rings_are_denied_in_use() {
    children("rings_denied_in_use", |text| {
        assert!(text.contains("may not be entered any more: "), "{text}");
    });
}

/// In a process of its own: rings are denied and nothing is asked before the end.
#[test]
#[ignore = "run by the test below, in a process of its own"]
fn rings_denied_before_the_end() {
    bound();
    let runtime = Runtime::builder().workers(2).io_backend(IoBackend::Auto).build().unwrap();
    let idle = runtime.spawn(async {
        use_everything().await.unwrap();
        let (one, other) = pair().await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        filch::spawn(async move { listener.accept().await.map(drop) }).detach();
        filch::spawn(async move { one.read(vec![0; 100]).await.0 }).detach();
        filch::time::sleep(Duration::from_millis(5)).await;
        other
    });
    // Another thread's, which outlives the runtime.
    let other = runtime.block_on(idle);
    let mut foreign = Box::pin(other.read(vec![0; 100]));
    runtime.block_on(async { begin(foreign.as_mut()).await });
    std::thread::sleep(Duration::from_millis(5));

    Calls::of_child().deny(Threads::All);

    let begin = Instant::now();
    runtime.shutdown(Shutdown::Abort);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let (result, buffer) = filch::block_on(foreign.as_mut());
    println!("foreign: {:?}", result);
    assert_eq!(buffer.len(), 100);
    println!("it has ended");
}

#[test]
fn shutdown_returns_when_rings_are_denied_before_it() {
    children("rings_denied_before_the_end", |text| {
        assert!(text.contains("foreign: "), "{text}");
    });
}

/// In a process of its own: rings are denied after the runtime has chosen them, and before the first is opened.
#[test]
#[ignore = "run by the test below, in a process of its own"]
fn rings_denied_before_the_first_operation() {
    bound();
    let runtime = Runtime::builder().workers(2).io_backend(IoBackend::Uring).build().unwrap();
    assert!(runtime.describe().to_string().contains("I/O by io_uring\n"));

    Calls::of_child().deny(Threads::All);

    for _ in 0..10 {
        runtime.block_on(runtime.spawn(use_everything())).unwrap();
        runtime.block_on(use_everything()).unwrap();
    }
    println!("{}", runtime.describe());
    runtime.shutdown(Shutdown::Abort);
    println!("it has ended");
}

#[test]
fn io_falls_back_to_epoll_where_rings_are_denied_after_they_were_chosen() {
    children("rings_denied_before_the_first_operation", |text| {
        assert!(text.contains("may not be entered any more: "), "{text}");
    });
}

/// In a process of its own: only the thread that runs a hive is denied its ring.
#[test]
#[ignore = "run by the test below, in a process of its own"]
fn main_worker_denied() {
    bound();
    let hive = Builder::new().io_backend(IoBackend::Auto).hive().unwrap();
    let main = hive.attach(NewWorker::io().name("main")).unwrap();
    hive.attach(NewWorker::io().name("other")).unwrap();
    hive.attach(NewWorker::compute()).unwrap();
    let (handle, calls) = (hive.handle(), Calls::of_child());
    hive.post_to(main, move || {
        let scene = filch::spawn_local(async move {
            use_everything().await.unwrap();
            let (speaker, hearer) = pair().await.unwrap();
            let mut read = Box::pin(hearer.read_exact(vec![0; 5]));
            begin(read.as_mut()).await;
            let (silent, _other) = pair().await.unwrap();
            let mut unanswered = Box::pin(silent.read(vec![0; 100]));
            begin(unanswered.as_mut()).await;
            filch::time::sleep(Duration::from_millis(5)).await;

            calls.deny(Threads::This);

            for _ in 0..3 {
                use_everything().await.unwrap();
            }
            speaker.write_all("hello").await.0.unwrap();
            let (result, bytes) = read.await;
            result.unwrap();
            assert_eq!(bytes, b"hello");
            let before = used();
            filch::time::sleep(Duration::from_millis(300)).await;
            let spent = used() - before;
            assert!(spent < Duration::from_millis(100), "it spins: {spent:?}");
            use_everything().await.unwrap();
            assert!(poll_once(unanswered.as_mut()).await.is_pending());
            println!("{}", handle.describe());
            handle.request_stop();
        });
        scene.detach();
    })
    .unwrap();
    hive.run().unwrap();
    println!("it has ended");
}

#[test]
fn hive_goes_on_when_its_main_thread_alone_is_denied_its_ring() {
    children("main_worker_denied", |text| {
        assert!(text.contains("may not be entered any more: "), "{text}");
    });
}
