//! Datagrams, of UDP and within the host.

use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;

use filch::net::{UdpSocket, UnixDatagram};

use crate::{begin, on_each_backend, pattern, poll_once};

async fn two() -> (UdpSocket, UdpSocket) {
    let one = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let other = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    one.connect(other.local_addr().unwrap()).await.unwrap();
    other.connect(one.local_addr().unwrap()).await.unwrap();
    (one, other)
}

on_each_backend! {
    fn datagrams_keep_their_bounds_and_their_sender(on) {
        on.on_worker(async {
            let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let (to, from) = (server.local_addr().unwrap(), client.local_addr().unwrap());
            // Several at once, shorter than the buffer: each receive gets one.
            for len in [0, 1, 100, 1400] {
                client.send_to(&pattern(len, len), to).await.unwrap();
            }
            let mut buf = [0; 2048];
            for len in [0, 1, 100, 1400] {
                assert_eq!(server.peek_sender().await.unwrap(), from);
                assert_eq!(server.peek_from(&mut buf).await.unwrap(), (len, from));
                assert_eq!(server.recv_from(&mut buf).await.unwrap(), (len, from));
                assert_eq!(buf[..len], pattern(len, len));
            }
            assert_eq!(server.try_recv_from(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert_eq!(server.try_peek_sender().unwrap_err().kind(), ErrorKind::WouldBlock);
            assert_eq!(server.try_peek(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        });
    }

    fn a_receive_that_waits_is_woken(on) {
        on.on_worker(async {
            let (one, other) = two().await;
            let echo = filch::spawn(async move {
                let mut buf = [0; 64];
                for _ in 0..100 {
                    let count = other.recv(&mut buf).await.unwrap();
                    other.send(&buf[..count]).await.unwrap();
                }
            });
            for round in 0..100 {
                let sent = pattern(round, 1 + round % 60);
                one.send(&sent).await.unwrap();
                let mut buf = [0; 64];
                let count = one.recv(&mut buf).await.unwrap();
                assert_eq!(buf[..count], sent);
            }
            echo.await;
        });
    }

    fn a_receive_waits_off_the_lane_too(on) {
        on.off_lane(async {
            let (one, other) = two().await;
            let mut buf = [0; 8];
            let mut recv = pin!(other.recv(&mut buf));
            begin(recv.as_mut()).await;
            one.send(b"woken").await.unwrap();
            assert_eq!(recv.await.unwrap(), 5);
        });
    }

    fn a_dropped_receive_takes_no_datagram(on) {
        on.on_worker(async {
            let (one, other) = two().await;
            for round in 0..50 {
                begin(pin!(other.recv(&mut [0; 8]))).await;
                if round % 2 == 0 {
                    filch::yield_now().await;
                }
                one.send(&[round]).await.unwrap();
                let mut buf = [0; 8];
                assert_eq!(other.recv(&mut buf).await.unwrap(), 1);
                assert_eq!(buf[0], round);
            }
        });
    }

    fn a_port_that_nobody_has_is_told(on) {
        on.on_worker(async {
            let (one, other) = two().await;
            drop(other);
            one.send(b"anybody?").await.unwrap();
            let error = one.recv(&mut [0; 8]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        });
    }

    fn tasks_share_a_socket(on) {
        on.on_worker(async {
            let (one, other) = two().await;
            let other = Arc::new(other);
            let tasks: Vec<_> = (0..4)
                .map(|_| {
                    let other = other.clone();
                    filch::spawn(async move { other.recv(&mut [0; 8]).await.unwrap() })
                })
                .collect();
            for _ in 0..4 {
                one.send(b"one").await.unwrap();
            }
            assert_eq!(filch::wait_all_async(tasks).await, [3; 4]);
        });
    }

    fn an_address_of_std_and_back(on) {
        on.on_worker(async {
            let std = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            std.set_nonblocking(true).unwrap();
            let socket = UdpSocket::from_std(std).unwrap();
            socket.connect(socket.local_addr().unwrap()).await.unwrap();
            let mut buf = [0; 8];
            let mut recv = Box::pin(socket.recv(&mut buf));
            begin(recv.as_mut()).await;
            socket.send(b"me").await.unwrap();
            assert_eq!(recv.as_mut().await.unwrap(), 2);
            drop(recv);
            let std = socket.into_std().await.unwrap();
            std.send(b"again").unwrap();
            assert_eq!(std.recv(&mut buf).unwrap(), 5);
        });
    }

    fn a_full_queue_within_the_host_holds_the_sender(on) {
        on.on_worker(async {
            let (one, other) = UnixDatagram::pair().unwrap();
            let mut sent = 0u32;
            while one.try_send(&sent.to_ne_bytes()).is_ok() {
                sent += 1;
            }
            let last = sent.to_ne_bytes();
            let mut send = pin!(one.send(&last));
            begin(send.as_mut()).await;
            let mut buf = [0; 4];
            for number in 0..sent {
                assert_eq!(other.recv(&mut buf).await.unwrap(), 4);
                assert_eq!(u32::from_ne_bytes(buf), number);
            }
            send.await.unwrap();
            other.recv(&mut buf).await.unwrap();
            assert_eq!(u32::from_ne_bytes(buf), sent);
        });
    }

    fn a_full_queue_holds_a_sender_that_is_not_connected(on) {
        on.on_worker(async move {
            let name = format!("\0filch-test-{}-{}", std::process::id(), on.is_uring());
            let server = UnixDatagram::bind(&name).unwrap();
            let client = UnixDatagram::unbound().unwrap();
            let mut sent = 0;
            while client.try_send_to(b"fill", &name).is_ok() {
                sent += 1;
            }
            let mut send = pin!(client.send_to(b"last", &name));
            begin(send.as_mut()).await;
            for _ in 0..sent {
                server.recv_from(&mut [0; 8]).await.unwrap();
            }
            send.await.unwrap();
            let mut buf = [0; 8];
            let (count, from) = server.recv_from(&mut buf).await.unwrap();
            assert_eq!(&buf[..count], b"last");
            assert!(from.is_unnamed());
            assert!(poll_once(pin!(server.readable())).await.is_pending());
        });
    }
}
