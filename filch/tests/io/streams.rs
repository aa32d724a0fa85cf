//! Bytes go through, whole and in order.

use std::net::Shutdown;

use filch::net::{TcpListener, TcpStream};

use crate::{on_each_backend, pair, pattern};

on_each_backend! {
    fn bytes_come_back_from_an_echo_on_a_worker(on) {
        on.on_worker(echo()).unwrap();
    }

    fn bytes_come_back_from_an_echo_off_the_lane(on) {
        on.off_lane(echo()).unwrap();
    }

    fn a_megabyte_arrives_by_reads(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let sender = filch::spawn(async move {
                let (result, sent) = client.write_all(pattern(0, 1 << 20)).await;
                assert_eq!(result.unwrap(), sent.len());
            });
            let mut got = Vec::new();
            loop {
                let (result, buf) = server.read(Vec::with_capacity(10_000)).await;
                match result.unwrap() {
                    0 => break,
                    count => got.extend_from_slice(&buf[..count]),
                }
            }
            sender.await;
            assert!(got == pattern(0, 1 << 20));
        });
    }

    fn a_megabyte_arrives_by_chunks(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let sender = filch::spawn(async move {
                client.write_all(pattern(0, 1 << 20)).await.0.unwrap();
            });
            let mut got = Vec::new();
            while let Some(chunk) = server.recv().await.unwrap() {
                got.extend_from_slice(&chunk);
            }
            sender.await;
            assert!(got == pattern(0, 1 << 20));
        });
    }

    fn reads_and_chunks_take_turns(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let sender = filch::spawn(async move {
                client.write_all(pattern(0, 300_000)).await.0.unwrap();
            });
            let mut got = Vec::new();
            for turn in 0.. {
                match turn % 3 {
                    0 => match server.recv().await.unwrap() {
                        Some(chunk) => got.extend_from_slice(&chunk),
                        None => break,
                    },
                    1 => {
                        let (result, buf) = server.read(vec![0; 777]).await;
                        let count = result.unwrap();
                        got.extend_from_slice(&buf[..count]);
                    }
                    _ => {
                        let (result, buf) = server.read_exact(vec![0; 1000]).await;
                        if result.is_ok() {
                            got.extend_from_slice(&buf);
                        }
                    }
                }
            }
            sender.await;
            assert!(got == pattern(0, 300_000), "{} bytes", got.len());
        });
    }

    fn a_short_stream_leaves_its_bytes_to_the_next_read(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            client.write_all(b"short".to_vec()).await.0.unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let (result, _) = server.read_exact(vec![0; 64]).await;
            assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
            let (result, buf) = server.read(vec![0; 64]).await;
            assert_eq!(&buf[..result.unwrap()], b"short");
            assert_eq!(server.read(vec![0; 64]).await.0.unwrap(), 0);
        });
    }

    fn half_a_connection_may_end(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            assert!(server.recv().await.unwrap().is_none());
            server.write_all(b"still here").await.0.unwrap();
            drop(server);
            let mut got = Vec::new();
            while let Some(chunk) = client.recv().await.unwrap() {
                got.extend_from_slice(&chunk);
            }
            assert_eq!(got, b"still here");
        });
    }

    fn the_end_is_found_behind_a_short_read(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            {
                let mut read = std::pin::pin!(server.read(vec![0; 1024]));
                crate::begin(read.as_mut()).await;
                // Both at once: bytes and end come with one event.
                client.write_all(b"last words").await.0.unwrap();
                drop(client);
                assert_eq!(read.await.0.unwrap(), 10);
            }
            assert_eq!(server.read(vec![0; 1024]).await.0.unwrap(), 0);
            assert_eq!(server.read(vec![0; 1024]).await.0.unwrap(), 0);
        });
    }

    fn several_tasks_accept_from_one_listener(on) {
        on.on_worker(async {
            let listener = std::sync::Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
            let address = listener.local_addr().unwrap();
            let acceptors: Vec<_> = (0..4)
                .map(|_| {
                    let listener = listener.clone();
                    filch::spawn(async move {
                        for _ in 0..5 {
                            let (stream, _) = listener.accept().await.unwrap();
                            stream.write_all(b"welcome").await.0.unwrap();
                        }
                    })
                })
                .collect();
            for _ in 0..20 {
                let stream = TcpStream::connect(address).await.unwrap();
                let (result, buf) = stream.read_exact(vec![0; 7]).await;
                result.unwrap();
                assert_eq!(buf, b"welcome");
            }
            filch::wait_all_async(acceptors).await;
        });
    }

    fn connect_goes_on_to_the_next_address(on) {
        on.on_worker(async {
            let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let open = listener.local_addr().unwrap();
            let stream = TcpStream::connect(&[closed, open][..]).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), open);
            let error = TcpStream::connect(closed).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        });
    }

    fn a_reset_reaches_the_reader(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            server.write_all(b"never read").await.0.unwrap();
            let read = filch::spawn(async move { server.read(vec![0; 16]).await.0 });
            // Closed with bytes unread: the other side is reset.
            filch::yield_now().await;
            drop(client);
            let result = read.await;
            assert!(
                matches!(&result, Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset)
                    || matches!(result, Ok(0)),
                "{result:?}"
            );
        });
    }

    fn futures_io_reads_and_writes(on) {
        use futures_lite::io::{AsyncReadExt, AsyncWriteExt};
        on.on_worker(async {
            let (mut client, mut server) = pair().await.unwrap();
            let sender = filch::spawn(async move {
                AsyncWriteExt::write_all(&mut client, &pattern(0, 1 << 20)).await.unwrap();
                client.close().await.unwrap();
                let mut rest = Vec::new();
                client.read_to_end(&mut rest).await.unwrap();
                rest
            });
            let mut got = Vec::new();
            server.read_to_end(&mut got).await.unwrap();
            AsyncWriteExt::write_all(&mut server, b"thanks").await.unwrap();
            drop(server);
            assert_eq!(sender.await, b"thanks");
            assert!(got == pattern(0, 1 << 20));
        });
    }
}

async fn echo() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = filch::spawn(async move {
        let (stream, _) = listener.accept().await?;
        while let Some(chunk) = stream.recv().await? {
            stream.write_all(chunk).await.0?;
        }
        std::io::Result::Ok(())
    });
    let client = TcpStream::connect(address).await?;
    for round in 0..100 {
        let sent = pattern(round, 64);
        client.write_all(sent.clone()).await.0?;
        let (result, got) = client.read_exact(vec![0; 64]).await;
        result?;
        assert_eq!(got, sent);
    }
    drop(client);
    server.await
}
