//! What the system denies: rings that may not be entered, descriptors for a driver. Each in a process of its own.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::process::Command;
use std::task::Poll;
use std::time::{Duration, Instant};

use filch::net::{TcpListener, TcpStream};
use filch::time::timeout;
use filch::{Builder, IoBackend, Runtime};

use crate::on_each_backend;

/// Says which error number a child denies with, or how many descriptors it has left.
const NUMBER: &str = "FILCH_TEST_NUMBER";

pub fn number() -> u32 {
    std::env::var(NUMBER).unwrap().parse().unwrap()
}

/// Runs one test of this binary in another process; what it says.
fn child(test: &str, number: u32) -> String {
    child_with(&format!("denied::{test}"), number, &[])
}

/// As `child`, of any file, and with more variables.
pub fn child_with(test: &str, number: u32, variables: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(NUMBER, number.to_string())
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}{err}")
}

/// Whose calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// Of this thread, and of those that it starts.
    This,
    All,
}

/// Has a system call fail with an error number.
pub fn deny(call: libc::c_long, errno: u32, threads: Threads) {
    let code =
        |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        // The number of the call.
        code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32, 0, 1),
        code(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno, 0, 0),
        code(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    let (mode, flags) = match threads {
        Threads::This => (libc::SECCOMP_SET_MODE_FILTER, 0),
        Threads::All => (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC),
    };
    // SAFETY: the program lives during the call.
    assert_eq!(unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const filter) }, 0);
}

/// Connects, sends, reads a file.
pub async fn use_everything() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let client = filch::spawn(async move { TcpStream::connect(address).await });
    let (server, _) = listener.accept().await?;
    let client = client.await?;
    client.write_all(b"hello").await.0?;
    assert_eq!(server.read_exact(vec![0; 5]).await.1, b"hello");
    assert!(filch::fs::read("Cargo.toml").await?.starts_with(b"["));
    Ok(())
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn ring_that_may_not_be_entered() {
    deny(libc::SYS_io_uring_enter, number(), Threads::This);
    let runtime = Runtime::builder().workers(2).io_backend(IoBackend::Auto).build().unwrap();
    runtime.block_on(runtime.spawn(use_everything())).unwrap();
    println!("worked: {}", runtime.describe());
    match Runtime::builder().workers(1).io_backend(IoBackend::Uring).build() {
        Ok(_) => println!("forced: built"),
        Err(error) => println!("forced: {error}"),
    }
}

#[test]
fn io_falls_back_to_epoll_where_rings_may_not_be_entered() {
    for errno in [libc::EPERM, libc::ENOSYS, libc::EACCES] {
        let text = child("ring_that_may_not_be_entered", errno as u32);
        let refused = std::io::Error::from_raw_os_error(errno);
        assert!(text.contains("worked: "), "{text}");
        assert!(text.contains("I/O by epoll; io_uring was refused: "), "{text}");
        assert!(text.contains(&refused.to_string()), "{text}");
        assert!(text.contains("forced: ") && !text.contains("forced: built"), "{text}");
    }
}

/// Leaves so many descriptors to be had: the limit is for their numbers.
fn leave_descriptors(count: u32) {
    // SAFETY: no memory is involved.
    let is_free = |fd: &i32| unsafe { libc::fcntl(*fd, libc::F_GETFD) } < 0;
    let most = (0..).filter(is_free).nth(count as usize).unwrap() as u64;
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the limit lives during the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

fn few_descriptors(backend: IoBackend) {
    leave_descriptors(number());
    match Builder::new().workers(2).io_backend(backend).build() {
        Err(error) => println!("build: {error}"),
        Ok(runtime) => match runtime.block_on(runtime.spawn(use_few())) {
            Ok(()) => println!("worked"),
            Err(error) => println!("first: {error}"),
        },
    }
}

/// Binds; an error comes from that, not from what a loop around `accept` would hide.
async fn use_few() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let forever = async {
        loop {
            if listener.accept().await.is_ok() {
                unreachable!("nobody connects");
            }
        }
    };
    let ended: Result<(), _> = timeout(Duration::from_millis(20), forever).await;
    assert!(ended.is_err());
    Ok(())
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn few_descriptors_on_uring() {
    few_descriptors(IoBackend::Uring);
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn few_descriptors_on_epoll() {
    few_descriptors(IoBackend::Epoll);
}

/// In a process of its own: descriptors run out behind a listener, and stay out.
fn accept_without_end(backend: IoBackend) {
    let runtime = Builder::new().workers(1).io_backend(backend).build().unwrap();
    let task = runtime.spawn(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(address).unwrap();
        leave_descriptors(0);
        let begin = Instant::now();
        let mut polls = 0;
        let mut accept = pin!(listener.accept());
        poll_fn(|cx| {
            polls += 1;
            assert!(accept.as_mut().poll(cx).is_pending(), "there is no descriptor");
            if polls < 40 { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        // Each try takes a poll, on a ring two, and ends in a pause of 1, 2, 4 ms and so on to 100.
        assert!(begin.elapsed() > Duration::from_secs(1), "{:?}", begin.elapsed());
        drop(client);
    });
    runtime.block_on(task);
    println!("it waited");
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn accept_without_end_on_uring() {
    accept_without_end(IoBackend::Uring);
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn accept_without_end_on_epoll() {
    accept_without_end(IoBackend::Epoll);
}

on_each_backend! {
    fn driver_without_descriptors_is_an_error_that_says_so(on) {
        let which = if on.is_uring() { "uring" } else { "epoll" };
        for left in 0..12 {
            let text = child(&format!("few_descriptors_on_{which}"), left);
            let says = text.contains("Too many open files");
            assert!(text.contains("worked") || says, "{left} left: {text}");
            // One for the listener; none for what waits for it.
            assert!(left > 1 || says, "{left} left: {text}");
            assert!(!text.contains("canceled"), "{left} left: {text}");
        }
    }

    fn accept_that_finds_no_descriptor_for_long_is_polled_seldom_and_says_why(on) {
        let which = if on.is_uring() { "uring" } else { "epoll" };
        let text = child(&format!("accept_without_end_on_{which}"), 0);
        assert!(text.contains("it waited"), "{text}");
        let told = "`accept` has been waiting for descriptors or memory for a second";
        assert_eq!(text.matches(told).count(), 1, "{text}");
        assert!(text.contains("Too many open files"), "{text}");
    }
}
