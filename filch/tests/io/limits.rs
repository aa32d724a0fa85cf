//! What runs out: descriptors, buffers, room in queues.

use std::net::Shutdown;
use std::pin::pin;
use std::process::Command;

use filch::net::TcpListener;
use filch::{Builder, IoBackend};

use crate::{begin, on_each_backend, pair, pattern};

on_each_backend! {
    fn held_chunks_starve_no_socket(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let mut held = Vec::new();
            for round in 0..300 {
                client.write_all(pattern(round, 50)).await.0.unwrap();
                held.push(server.recv().await.unwrap().unwrap());
            }
            let (there, here) = pair().await.unwrap();
            there.write_all(b"me too").await.0.unwrap();
            assert_eq!(&here.recv().await.unwrap().unwrap()[..], b"me too");
            for (round, chunk) in held.iter().enumerate() {
                assert_eq!(chunk[..], pattern(round, 50));
            }
            // Dropped elsewhere, and used again.
            filch::spawn_blocking(move || drop(held)).await;
            for round in 0..300 {
                client.write_all(pattern(round, 50)).await.0.unwrap();
                assert_eq!(server.recv().await.unwrap().unwrap()[..], pattern(round, 50));
            }
        });
    }

    fn a_socket_that_nobody_reads_starves_no_other(on) {
        on.on_worker(async {
            let (flood, unread) = pair().await.unwrap();
            begin(pin!(unread.recv())).await;
            let mut write = pin!(flood.write_all(pattern(0, 64 << 20)));
            begin(write.as_mut()).await;
            for _ in 0..50 {
                let (there, here) = pair().await.unwrap();
                there.write_all(b"quick").await.0.unwrap();
                assert_eq!(&here.recv().await.unwrap().unwrap()[..], b"quick");
            }
            begin(write.as_mut()).await;
            let (result, buf) = write.cancel().await;
            let sent = result.unwrap();
            assert!(sent < buf.len(), "somebody took {sent} bytes");
            flood.shutdown(Shutdown::Write).unwrap();
            let mut got = 0;
            while let Some(chunk) = unread.recv().await.unwrap() {
                assert!(chunk[..] == buf[got..got + chunk.len()]);
                got += chunk.len();
            }
            assert_eq!(got, sent);
        });
    }

    fn more_completions_than_the_queue_holds_all_come(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let mut reads: Vec<_> =
                (0..5000).map(|_| Box::pin(server.read(vec![0; 4]))).collect();
            for read in &mut reads {
                begin(read.as_mut()).await;
            }
            // All are submitted, then all end at once.
            for _ in 0..3 {
                filch::yield_now().await;
            }
            drop(client);
            for read in reads {
                assert_eq!(read.await.0.unwrap(), 0);
            }
        });
    }

    fn a_woken_worker_wakes_with_a_full_queue(on) {
        // A handed-over operation, while thousands of entries wait for room: the wake needs none.
        let runtime = on.builder().workers(1).build().unwrap();
        let (client, server) = runtime.block_on(pair()).unwrap();
        runtime.block_on(async {
            let mut reads: Vec<_> =
                (0..3000).map(|_| Box::pin(server.read(vec![0; 4]))).collect();
            for read in &mut reads {
                begin(read.as_mut()).await;
            }
            client.write_all(pattern(0, 12_000)).await.0.unwrap();
            for read in reads {
                assert_eq!(read.await.0.unwrap(), 4);
            }
        });
    }
}

/// In a process of its own: it takes every descriptor there is.
fn accept_without_descriptors(backend: IoBackend) {
    let limit = libc::rlimit { rlim_cur: 128, rlim_max: 128 };
    // SAFETY: the limit lives during the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    let runtime = Builder::new().workers(1).io_backend(backend).build().unwrap();
    let task = runtime.spawn(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        begin(pin!(listener.accept())).await;
        filch::yield_now().await;
        // All but one are taken, and that is the client's: the accept finds none.
        let mut taken: Vec<_> =
            std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        taken.pop();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut accept = pin!(listener.accept());
        for _ in 0..1000 {
            begin(accept.as_mut()).await;
            filch::yield_now().await;
        }
        drop(taken);
        let (server, _) = accept.await.unwrap();
        assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
    });
    runtime.block_on(task);
    println!("it recovered");
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn accept_without_descriptors_on_uring() {
    accept_without_descriptors(IoBackend::Uring);
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn accept_without_descriptors_on_epoll() {
    accept_without_descriptors(IoBackend::Epoll);
}

on_each_backend! {
    fn accept_backs_off_without_descriptors_and_recovers(on) {
        let which = if on.is_uring() { "uring" } else { "epoll" };
        let test = format!("limits::accept_without_descriptors_on_{which}");
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &test, "--ignored", "--nocapture"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("it recovered"), "{text}{errors}");
    }
}
