//! What drives I/O, who says so, and what becomes of nonsense.

use std::process::Command;

use filch::{Builder, IoBackend};

use crate::{on_each_backend, pair};

on_each_backend! {
    fn the_backend_in_use_is_described(on) {
        let text = on.runtime().describe().to_string();
        let name = if on.is_uring() { "I/O by io_uring" } else { "I/O by epoll" };
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn an_event_core_of_the_program_drives_no_io_and_says_so() {
    struct Restless;
    impl filch::EventCore for Restless {
        fn poll(&mut self) -> usize {
            0
        }
        fn park(&mut self, _: Option<std::time::Duration>) {
            std::thread::yield_now();
        }
        fn waker(&self) -> std::task::Waker {
            std::task::Waker::noop().clone()
        }
    }
    let runtime = Builder::new().workers(1).event_core(|_| Box::new(Restless)).build().unwrap();
    let error = runtime.block_on(pair()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    assert!(runtime.describe().to_string().contains("I/O by nothing"));
}

/// Runs one test of this binary in another process, with a variable set.
fn child(test: &str, variable: &str, value: &str) -> std::process::Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(variable, value)
        .output()
        .unwrap()
}

#[test]
#[ignore = "run by the tests below, in a process of its own"]
fn describe_here() {
    match Builder::new().workers(1).build() {
        Ok(runtime) => println!("{}", runtime.describe()),
        Err(error) => println!("{error}"),
    }
}

#[test]
fn the_environment_forces_a_backend() {
    let output = child("backend::describe_here", "FILCH_IO", "epoll");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("I/O by epoll\n"), "{text}");
}

#[test]
fn a_backend_that_nobody_knows_is_an_error() {
    let output = child("backend::describe_here", "FILCH_IO", "kqueue");
    let text = String::from_utf8_lossy(&output.stdout);
    let wanted = r#"FILCH_IO="kqueue": is none of auto, uring, uring-plain, epoll"#;
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn the_program_wins_over_the_environment() {
    let config = Builder::new().io_backend(IoBackend::UringPlain).resolve().unwrap();
    assert_eq!(config.io_backend, IoBackend::UringPlain);
}

#[test]
fn a_plain_ring_works_too() {
    let Ok(runtime) = Builder::new().workers(2).io_backend(IoBackend::UringPlain).build() else {
        eprintln!("\n*** NOT TESTED ON IO_URING: refused ***\n");
        return;
    };
    runtime.block_on(async {
        let (client, server) = pair().await.unwrap();
        client.write_all(b"plain").await.0.unwrap();
        assert_eq!(&server.recv().await.unwrap().unwrap()[..], b"plain");
    });
}
