//! Reads and writes that are given up in the middle: what they had is told, or there for the next.

use std::io::ErrorKind;
use std::net::Shutdown;
use std::pin::pin;
use std::time::Duration;

use filch::net::TcpStream;
use filch::time::timeout;

use crate::{begin, on_each_backend, pair, settle};

/// What is left, up to the end.
async fn rest(stream: &TcpStream) -> Vec<u8> {
    let mut got = Vec::new();
    while let Some(chunk) = stream.recv().await.unwrap() {
        got.extend_from_slice(&chunk);
    }
    got
}

/// Lets what has happened on other sockets be noticed.
async fn pause() {
    for _ in 0..3 {
        let (there, here) = pair().await.unwrap();
        there.write_all(b"x").await.0.unwrap();
        settle(&here).await;
    }
}

on_each_backend! {
    fn a_cancelled_read_of_all_loses_nothing_of_what_was_received_ahead(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            client.write_all(b"x").await.0.unwrap();
            // From now on the socket receives ahead.
            server.recv().await.unwrap().unwrap();
            client.write_all(b"half").await.0.unwrap();
            server.readable().await.unwrap();
            let mut got = {
                let mut read = pin!(server.read_exact(vec![0; 8]));
                begin(read.as_mut()).await;
                let (result, buf) = read.cancel().await;
                buf[..result.unwrap_or(0)].to_vec()
            };
            client.write_all(b"rest").await.0.unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            got.append(&mut rest(&server).await);
            assert_eq!(got, b"halfrest");
        });
    }

    fn a_cancelled_read_of_all_ends_with_what_came(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let mut read = pin!(server.read_exact(vec![0; 8]));
            begin(read.as_mut()).await;
            client.write_all(b"half").await.0.unwrap();
            pause().await;
            let ended = timeout(Duration::from_secs(10), read.cancel()).await;
            let (result, buf) = ended.expect("a cancelled read waits for no more");
            let mut got = buf[..result.unwrap_or(0)].to_vec();
            client.write_all(b"rest").await.0.unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            got.append(&mut rest(&server).await);
            assert_eq!(got, b"halfrest");
        });
    }

    fn an_error_that_a_dropped_read_has_met_is_told_to_the_next(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            {
                let mut read = pin!(server.read(vec![0; 8]));
                begin(read.as_mut()).await;
                client.set_linger(Some(Duration::ZERO)).unwrap();
                drop(client);
                pause().await;
            }
            let error = server.read(vec![0; 8]).await.0.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            assert_eq!(server.read(vec![0; 8]).await.0.unwrap(), 0, "told once");
        });
    }

    fn a_close_of_what_is_closed_is_no_error(on) {
        use futures_lite::AsyncWriteExt;
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            client.set_linger(Some(Duration::ZERO)).unwrap();
            drop(client);
            server.readable().await.unwrap_or(());
            let mut server = server;
            server.close().await.unwrap();
            server.close().await.unwrap();
        });
    }
}
