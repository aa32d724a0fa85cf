//! Peers that do what few do, and signals that come at any moment.

use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::pin::pin;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use filch::net::{UdpSocket, UnixListener, UnixStream};
use filch::time::timeout;
use filch::{Builder, IoBackend};

use crate::files::Scratch;
use crate::{On, begin, on_each_backend, pair, pattern};

/// Sends bytes together with a descriptor.
fn send_with_descriptor(to: RawFd, bytes: &[u8], descriptor: RawFd) {
    let mut vector =
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = [0u64; 8];
    // SAFETY: a header of zeroes is a valid one.
    let mut msg: libc::msghdr = unsafe { std::mem::zeroed() };
    msg.msg_iov = &raw mut vector;
    msg.msg_iovlen = 1;
    msg.msg_control = control.as_mut_ptr().cast();
    // SAFETY: no memory is involved.
    msg.msg_controllen = unsafe { libc::CMSG_SPACE(4) } as _;
    // SAFETY: there is room for one.
    let head = unsafe { libc::CMSG_FIRSTHDR(&raw const msg) };
    // SAFETY: no memory is involved.
    let cmsg_len = unsafe { libc::CMSG_LEN(4) } as _;
    let (cmsg_level, cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
    // SAFETY: within `control`, which is aligned.
    unsafe { head.write(libc::cmsghdr { cmsg_len, cmsg_level, cmsg_type }) };
    // SAFETY: there is room for a descriptor behind it.
    let data = unsafe { libc::CMSG_DATA(head) };
    // SAFETY: as above.
    unsafe { data.cast::<RawFd>().write_unaligned(descriptor) };
    // SAFETY: all of it lives during the call.
    let sent = unsafe { libc::sendmsg(to, &raw const msg, 0) };
    assert_eq!(sent, bytes.len() as isize);
}

/// All bytes that come, until so many are there.
macro_rules! read_so_many {
    ($stream:expr, $many:expr) => {{
        let mut got = Vec::new();
        while got.len() < $many {
            let read = timeout(Duration::from_secs(10), $stream.read(vec![0; 100])).await;
            let (result, buf) = read.unwrap_or_else(|_| panic!("nothing after {got:?}"));
            got.extend_from_slice(&buf[..result.unwrap()]);
        }
        got
    }};
}

on_each_backend! {
    fn bytes_behind_an_urgent_one_are_read(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            begin(pin!(server.read(vec![0; 100]))).await;
            client.write_all(b"abc").await.0.unwrap();
            // SAFETY: one readable byte.
            let sent = unsafe { libc::send(client.as_raw_fd(), b"!".as_ptr().cast(), 1, libc::MSG_OOB) };
            assert_eq!(sent, 1);
            client.write_all(b"def").await.0.unwrap();
            assert_eq!(read_so_many!(server, 6), b"abcdef");
            // And later ones.
            begin(pin!(server.read(vec![0; 100]))).await;
            client.write_all(b"ghi").await.0.unwrap();
            assert_eq!(read_so_many!(server, 3), b"ghi");
        });
    }

    fn bytes_behind_a_passed_descriptor_are_read(on) {
        on.on_worker(async {
            let (there, here) = UnixStream::pair().unwrap();
            let null = std::fs::File::open("/dev/null").unwrap();
            begin(pin!(here.read(vec![0; 100]))).await;
            send_with_descriptor(there.as_raw_fd(), b"abc", null.as_raw_fd());
            send_with_descriptor(there.as_raw_fd(), b"def", null.as_raw_fd());
            there.write_all(b"ghi").await.0.unwrap();
            assert_eq!(read_so_many!(here, 9), b"abcdefghi");
        });
    }

    fn bytes_behind_a_passed_descriptor_are_received(on) {
        on.on_worker(async {
            let (there, here) = UnixStream::pair().unwrap();
            let null = std::fs::File::open("/dev/null").unwrap();
            begin(pin!(here.recv())).await;
            send_with_descriptor(there.as_raw_fd(), b"abc", null.as_raw_fd());
            there.write_all(b"def").await.0.unwrap();
            let mut got = Vec::new();
            while got.len() < 6 {
                let chunk = timeout(Duration::from_secs(10), here.recv()).await.expect("all");
                got.extend_from_slice(&chunk.unwrap().unwrap());
            }
            assert_eq!(got, b"abcdef");
        });
    }

    fn a_peer_with_the_longest_of_names_is_accepted(on) {
        on.on_worker(async {
            let scratch = Scratch::new();
            let path = scratch.path("listener");
            let listener = UnixListener::bind(&path).unwrap();
            // As many bytes as the system takes, with no end behind them.
            let mut name = scratch.path("c").into_os_string().as_bytes().to_vec();
            name.resize(108, b'c');
            // SAFETY: no memory is involved.
            let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) };
            // SAFETY: it is new, and ours.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            let mut from = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
            for (to, from) in from.sun_path.iter_mut().zip(&name) {
                *to = from.cast_signed();
            }
            let (at, len) = ((&raw const from).cast(), size_of::<libc::sockaddr_un>() as u32);
            // SAFETY: the address lives during the call.
            assert_eq!(unsafe { libc::bind(fd.as_raw_fd(), at, len) }, 0);
            let client = socket2::Socket::from(fd);
            client.connect(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
            (&client).write_all(b"hello").unwrap();
            let (server, _) = listener.accept().await.unwrap();
            assert_eq!(read_so_many!(server, 5), b"hello");
        });
    }
}

static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: i32) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Sends signals to all threads of this process but its own, again and again.
fn pester(over: &AtomicBool, pause: Duration) {
    // SAFETY: no memory is involved.
    let own = unsafe { libc::syscall(libc::SYS_gettid) };
    while !over.load(Ordering::Relaxed) {
        for task in std::fs::read_dir("/proc/self/task").unwrap() {
            let thread: i64 = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
            if thread != own {
                // SAFETY: no memory is involved.
                unsafe {
                    libc::syscall(libc::SYS_tgkill, std::process::id(), thread, libc::SIGUSR1)
                };
            }
        }
        std::thread::sleep(pause);
    }
}

/// In a process of its own, whose calls are interrupted all the time.
fn work_among_signals(backend: IoBackend) {
    among_signals(Duration::from_micros(100), || {
        let runtime = Builder::new().workers(2).io_backend(backend).build().unwrap();
        let begin = std::time::Instant::now();
        let mut rounds = 0;
        while begin.elapsed() < Duration::from_millis(600) {
            runtime.block_on(runtime.spawn(one_of_everything(rounds)));
            rounds += 1;
        }
        rounds
    });
}

/// Has all threads interrupted during some work, which tells its rounds.
fn among_signals(pause: Duration, work: impl FnOnce() -> usize) {
    // SAFETY: zeros are a valid action; without SA_RESTART.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = count as extern "C" fn(i32) as usize;
    let none = std::ptr::null_mut();
    // SAFETY: the action lives during the call, and its handler is safe in a signal.
    let set = unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, none) };
    assert_eq!(set, 0);
    static OVER: AtomicBool = AtomicBool::new(false);
    let pesterer = std::thread::spawn(move || pester(&OVER, pause));
    let rounds = work();
    OVER.store(true, Ordering::Relaxed);
    pesterer.join().unwrap();
    println!("{rounds} rounds, {} signals, no error", SIGNALS.load(Ordering::Relaxed));
}

async fn one_of_everything(round: usize) {
    const LEN: usize = 1 << 20;
    let (client, server) = pair().await.unwrap();
    let sends = filch::spawn(async move { client.write_all(pattern(round, LEN)).await.0.unwrap() });
    let mut got = Vec::new();
    while let Some(chunk) = server.recv().await.unwrap() {
        got.extend_from_slice(&chunk);
    }
    assert!(got == pattern(round, LEN));
    sends.await;

    let (client, server) = pair().await.unwrap();
    let sends = filch::spawn(async move { client.write_all(pattern(round, LEN)).await.0.unwrap() });
    server.readable().await.unwrap();
    server.peek(&mut [0; 10]).await.unwrap();
    let (result, got) = server.read_exact(vec![0; LEN]).await;
    result.unwrap();
    assert!(got == pattern(round, LEN));
    sends.await;

    let (here, there) = (
        UdpSocket::bind("127.0.0.1:0").await.unwrap(),
        UdpSocket::bind("127.0.0.1:0").await.unwrap(),
    );
    let to = there.local_addr().unwrap();
    let sends = filch::spawn(async move { here.send_to(b"datagram", to).await.unwrap() });
    assert_eq!(there.recv_from(&mut [0; 100]).await.unwrap().0, 8);
    sends.await;

    let scratch = Scratch::in_shared_memory();
    filch::fs::write(scratch.path("file"), pattern(round, LEN)).await.unwrap();
    let file = filch::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(scratch.path("file"))
        .await
        .unwrap();
    file.lock().await.unwrap();
    let (result, got) = file.read_exact(vec![0; LEN]).await;
    result.unwrap();
    assert!(got == pattern(round, LEN));
    file.sync_all().await.unwrap();
    file.set_len(10).await.unwrap();
    assert_eq!(file.metadata().await.unwrap().len(), 10);
    let mut entries = filch::fs::read_dir(scratch.path(".")).await.unwrap();
    assert!(entries.next_entry().await.unwrap().is_some());
    filch::time::sleep(Duration::from_millis(1)).await;
}

/// What takes a thread of the kernel's, on workers that have asked for none before: signals keep it from
/// being started.
async fn one_of_each_file_operation() {
    let scratch = Scratch::in_shared_memory();
    let file = filch::fs::File::create_new(scratch.path("file")).await.unwrap();
    file.write_all(b"bytes").await.0.unwrap();
    file.sync_all().await.unwrap();
    assert_eq!(file.read_at(vec![0; 1 << 20], 0).await.0.unwrap(), 5);
    filch::fs::rename(scratch.path("file"), scratch.path("other")).await.unwrap();
    filch::fs::create_dir(scratch.path("directory")).await.unwrap();
    filch::fs::symlink("other", scratch.path("link")).await.unwrap();
    filch::fs::hard_link(scratch.path("other"), scratch.path("file")).await.unwrap();
    filch::fs::remove_file(scratch.path("link")).await.unwrap();
}

/// In a process of its own, as above, with new workers again and again.
fn begin_among_signals(backend: IoBackend) {
    among_signals(Duration::ZERO, || {
        let begin = std::time::Instant::now();
        let mut rounds = 0;
        while begin.elapsed() < Duration::from_millis(600) {
            let runtime = Builder::new().workers(2).io_backend(backend).build().unwrap();
            let tasks: Vec<_> =
                (0..4).map(|_| runtime.spawn(one_of_each_file_operation())).collect();
            tasks.into_iter().for_each(|task| runtime.block_on(task));
            rounds += 1;
        }
        rounds
    });
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn begins_among_signals_on_uring() {
    begin_among_signals(IoBackend::Uring);
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn begins_among_signals_on_epoll() {
    begin_among_signals(IoBackend::Epoll);
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn among_signals_on_uring() {
    work_among_signals(IoBackend::Uring);
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn among_signals_on_epoll() {
    work_among_signals(IoBackend::Epoll);
}

on_each_backend! {
    fn no_call_tells_of_a_signal(on) {
        in_a_process("among_signals", on);
    }

    fn no_operation_is_given_up_for_a_signal(on) {
        in_a_process("begins_among_signals", on);
    }
}

fn in_a_process(test: &str, on: On) {
    let which = if on.is_uring() { "uring" } else { "epoll" };
    let test = format!("odd::{test}_on_{which}");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("no error"), "{text}{errors}");
}
