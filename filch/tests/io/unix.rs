//! Streams within the host.

use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::path::PathBuf;

use filch::net::unix::SocketAddr;
use filch::net::{UnixListener, UnixStream};

use crate::{On, on_each_backend, pattern};

/// A directory that is gone when it is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(on: On, name: &str) -> Self {
        let which = if on.is_uring() { "uring" } else { "epoll" };
        let path = format!("filch-{name}-{which}-{}", std::process::id());
        let path = std::env::temp_dir().join(path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

on_each_backend! {
    fn a_listener_at_a_path_takes_connections(on) {
        let directory = Directory::new(on, "path");
        let path = directory.0.join("socket");
        on.on_worker(async move {
            let listener = UnixListener::bind(&path).unwrap();
            assert_eq!(listener.local_addr().unwrap().as_pathname(), Some(&*path));
            assert!(UnixListener::bind(&path).is_err());
            for round in 0..10 {
                let client = UnixStream::connect(&path).await.unwrap();
                let (server, from) = listener.accept().await.unwrap();
                assert!(from.is_unnamed());
                assert_eq!(client.peer_addr().unwrap().as_pathname(), Some(&*path));
                let sent = pattern(round, 100_000);
                let writer = filch::spawn(async move {
                    server.write_all(sent).await.0.unwrap();
                    server.peer_cred().unwrap()
                });
                let mut got = Vec::new();
                while let Some(chunk) = client.recv().await.unwrap() {
                    got.extend_from_slice(&chunk);
                }
                assert!(got == pattern(round, 100_000));
                assert_eq!(writer.await.pid(), Some(std::process::id() as i32));
            }
            let missing = UnixStream::connect(path.with_file_name("nobody")).await.unwrap_err();
            assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
        });
    }

    fn an_abstract_name_leaves_no_file(on) {
        on.on_worker(async move {
            let name = format!("filch-abstract-{}-{}", std::process::id(), on.is_uring());
            let address = SocketAddr::from_abstract_name(&name).unwrap();
            let listener = UnixListener::bind_addr(&address).unwrap();
            let client = UnixStream::connect_addr(&address).await.unwrap();
            let other = UnixStream::connect(format!("\0{name}")).await.unwrap();
            let peer = client.peer_addr().unwrap();
            assert_eq!(peer.as_abstract_name(), Some(name.as_bytes()));
            drop((client, other));
            for _ in 0..2 {
                let (server, _) = listener.accept().await.unwrap();
                assert!(server.recv().await.unwrap().is_none());
            }
            drop(listener);
            // A ring may take a moment to let go of it.
            let error = loop {
                match UnixStream::connect_addr(&address).await {
                    Ok(_) => filch::yield_now().await,
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        });
    }

    fn half_a_connection_may_end(on) {
        on.on_worker(async {
            let (here, there) = UnixStream::pair().unwrap();
            here.shutdown(Shutdown::Write).unwrap();
            assert!(there.recv().await.unwrap().is_none());
            there.write_all("still here").await.0.unwrap();
            let (result, buf) = here.read_exact(vec![0; 10]).await;
            result.unwrap();
            assert_eq!(buf, b"still here");
            assert_eq!(here.write_all("refused").await.0.unwrap_err().kind(),
                std::io::ErrorKind::BrokenPipe);
        });
    }

    fn a_connection_waits_while_the_queue_of_the_listener_is_full(on) {
        on.on_worker(async move {
            let name = format!("\0filch-full-{}-{}", std::process::id(), on.is_uring());
            let address = SocketAddr::from_abstract_name(&name[1..]).unwrap();
            let std = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
            // As std binds with a queue of its own length, narrow it.
            socket2::SockRef::from(&std).listen(1).unwrap();
            let clients: Vec<_> = (0..8)
                .map(|_| {
                    let name = name.clone();
                    filch::spawn(async move { UnixStream::connect(name).await.unwrap() })
                })
                .collect();
            for _ in 0..3 {
                filch::yield_now().await;
            }
            let listener = UnixListener::from_std(std).unwrap();
            let mut servers = Vec::new();
            for _ in 0..8 {
                servers.push(listener.accept().await.unwrap());
            }
            filch::wait_all_async(clients).await;
        });
    }
}
