//! The end of a runtime or a group, with operations in flight.

#![allow(
    clippy::async_yields_async,
    reason = "a test is about operations that leave the task that began them"
)]

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::mpsc;
use std::time::Duration;

use filch::Shutdown;
use filch::net::{TcpListener, TcpStream};

use crate::lanes::to_std;
use crate::{begin, descriptors, eventually, on_each_backend, pair, pattern, poll_once};

/// An operation that waits, with all that it needs; says whether it has failed.
type Kept = Pin<Box<dyn Future<Output = bool> + Send>>;
type Making = Pin<Box<dyn Future<Output = Kept> + Send>>;

fn accepting() -> Making {
    Box::pin(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Box::pin(async move { listener.accept().await.is_err() }) as Kept
    })
}

fn reading() -> Making {
    Box::pin(async {
        let (client, server) = pair().await.unwrap();
        Box::pin(async move {
            let failed = server.read(vec![0; 8]).await.0.is_err();
            drop(client);
            failed
        }) as Kept
    })
}

fn receiving() -> Making {
    Box::pin(async {
        let (client, server) = pair().await.unwrap();
        Box::pin(async move {
            let failed = server.recv().await.is_err();
            drop(client);
            failed
        }) as Kept
    })
}

fn writing() -> Making {
    Box::pin(async {
        let (client, server) = pair().await.unwrap();
        Box::pin(async move {
            let failed = client.write_all(vec![0; 16 << 20]).await.0.is_err();
            drop(server);
            failed
        }) as Kept
    })
}

on_each_backend! {
    fn a_read_that_outlives_its_runtime_fails(on) {
        let runtime = on.runtime();
        let (client, server) = runtime.block_on(pair()).unwrap();
        let (begun, has_begun) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            futures_lite::future::block_on(async {
                let mut read = pin!(server.read(vec![0; 8]));
                begin(read.as_mut()).await;
                begun.send(()).unwrap();
                let (result, buf) = read.await;
                assert_eq!(buf.len(), 8);
                assert!(result.is_err());
                // And whatever is begun later.
                assert!(server.read(buf).await.0.is_err());
                assert!(server.recv().await.is_err());
            });
        });
        has_begun.recv().unwrap();
        drop(runtime);
        reader.join().unwrap();
        drop(client);
    }

    fn operations_that_are_kept_beside_the_end_fail_when_they_are_polled_again(on) {
        for how in [Shutdown::Drain, Shutdown::DrainFor(Duration::ZERO), Shutdown::Abort] {
            for make in [accepting, reading, receiving, writing] {
                let runtime = on.runtime();
                let [polled, dropped, forgotten] = [(); 3].map(|()| {
                    runtime
                        .spawn(async move {
                            let mut kept = make().await;
                            begin(Pin::new(&mut kept)).await;
                            kept
                        })
                        .wait()
                });
                std::mem::forget(forgotten);
                assert!(runtime.shutdown(how).unfinished.is_empty());
                drop(dropped);
                assert!(futures_lite::future::block_on(polled), "it has failed");
            }
        }
    }

    fn a_socket_may_be_dropped_after_its_runtime(on) {
        let runtime = on.runtime();
        let (client, server) = runtime.block_on(pair()).unwrap();
        let chunk = runtime.block_on(async {
            client.write_all(b"kept").await.0.unwrap();
            let chunk = server.recv().await.unwrap().unwrap();
            begin(pin!(server.recv())).await;
            chunk
        });
        drop(runtime);
        assert_eq!(&chunk[..], b"kept");
        drop((client, server));
        drop(chunk);
    }

    fn nothing_follows_half_of_a_message(on) {
        let (ends, stays) = (on.runtime(), on.runtime());
        let (client, server) = ends.block_on(pair()).unwrap();
        let message = pattern(0, 16 << 20);
        let client = ends.block_on(ends.spawn({
            let message = message.clone();
            async move {
                begin(pin!(client.write_all(message))).await;
                client
            }
        }));
        drop(ends);
        stays.block_on(async {
            let (result, _) = client.write_all(b"another message".to_vec()).await;
            assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
        });
        // The peer is read by calls: its runtime has ended.
        let mut peer = to_std(&server);
        peer.set_nonblocking(false).unwrap();
        let mut got = Vec::new();
        std::io::Read::read_to_end(&mut peer, &mut got).unwrap();
        assert!(!got.is_empty() && got.len() < message.len(), "{} bytes", got.len());
        assert!(got == message[..got.len()]);
    }

    fn nothing_is_left_of_a_runtime_that_ends_in_the_middle(on) {
        let _alone = crate::alone();
        drop(on.runtime().block_on(pair()));
        let before = descriptors();
        for how in [Shutdown::Abort, Shutdown::DrainFor(Duration::ZERO)] {
            let runtime = on.runtime();
            let (begun, has_begun) = mpsc::channel();
            for _ in 0..20 {
                let begun = begun.clone();
                drop(runtime.spawn(async move {
                    let (client, server) = pair().await.unwrap();
                    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                    filch::spawn(async move { listener.accept().await.map(drop) }).detach();
                    let mut write = pin!(client.write_all(pattern(0, 16 << 20)));
                    begin(write.as_mut()).await;
                    let _ = poll_once(pin!(server.recv())).await;
                    begin(pin!(client.read(vec![0; 8]))).await;
                    begun.send(()).unwrap();
                    let _ = client.read(vec![0; 100]).await;
                    write.await.0.unwrap();
                }));
            }
            (0..20).for_each(|_| has_begun.recv().unwrap());
            runtime.shutdown(how);
        }
        eventually(|| descriptors() <= before);
    }

    fn a_write_that_the_peer_never_reads_holds_up_no_end(on) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let runtime = on.runtime();
        let (begun, has_begun) = mpsc::channel();
        drop(runtime.spawn(async move {
            let client = TcpStream::connect(address).await.unwrap();
            begin(pin!(client.write_all(pattern(0, 16 << 20)))).await;
            begun.send(()).unwrap();
            std::future::pending::<()>().await;
        }));
        let (_peer, _) = listener.accept().unwrap();
        has_begun.recv().unwrap();
        runtime.shutdown(Shutdown::Abort);
    }

    fn a_group_whose_connection_fails_stops_accepting(on) {
        let runtime = on.runtime();
        let (server, clients) = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = filch::group(async move |g: filch::Group<io::Error>| -> io::Result<()> {
                loop {
                    let (stream, _) = listener.accept().await?;
                    drop(g.spawn(async move {
                        match stream.recv().await? {
                            Some(chunk) if &chunk[..] == b"bad" => Err(io::Error::other("bad request")),
                            Some(chunk) => stream.write_all(chunk).await.0.map(drop),
                            None => Ok(()),
                        }
                    }));
                }
            });
            let clients = async {
                let good = TcpStream::connect(address).await?;
                good.write_all(b"good").await.0?;
                assert_eq!(&good.recv().await?.unwrap()[..], b"good");
                let idle = TcpStream::connect(address).await?;
                let bad = TcpStream::connect(address).await?;
                bad.write_all(b"bad").await.0?;
                // Dropped with the rest, or reset with the listener.
                Ok::<_, io::Error>(matches!(idle.recv().await, Ok(None) | Err(_)))
            };
            filch::join!(server, clients)
        });
        assert!(clients.unwrap());
        assert_eq!(server.unwrap_err().to_string(), "bad request");
    }

    fn a_thousand_connections_come_and_go_while_it_ends(on) {
        let _alone = crate::alone();
        let before = descriptors();
        let runtime = on.runtime();
        let (begun, has_begun) = mpsc::channel();
        let connects = async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            filch::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    filch::spawn(async move {
                        while let Ok(Some(chunk)) = stream.recv().await {
                            if stream.write_all(chunk).await.0.is_err() {
                                return;
                            }
                        }
                    })
                    .detach();
                }
            })
            .detach();
            for round in 0..1000 {
                let Ok(stream) = TcpStream::connect(address).await else { return };
                let _ = stream.write_all(pattern(round, 32)).await;
                let _ = stream.read_exact(vec![0; 32]).await;
                if round == 100 {
                    begun.send(()).unwrap();
                }
            }
        };
        drop(runtime.spawn(connects));
        has_begun.recv().unwrap();
        runtime.shutdown(Shutdown::Abort);
        eventually(|| descriptors() <= before);
    }
}
