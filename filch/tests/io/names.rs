//! Hosts, ports and sockets that are made step by step.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use filch::net::{TcpListener, TcpSocket, TcpStream, UdpSocket, lookup_host};

use crate::{on_each_backend, pair};

on_each_backend! {
    fn a_name_is_looked_up_and_connected_to(on) {
        on.on_worker(async {
            let listener = TcpListener::bind(("localhost", 0)).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let client = TcpStream::connect(("localhost", port)).await.unwrap();
            assert_eq!(client.peer_addr().unwrap().port(), port);
            TcpStream::connect(format!("localhost:{port}")).await.unwrap();
            let mut found = lookup_host(("localhost", port)).await.unwrap();
            assert!(found.all(|address| address.ip().is_loopback()));
        });
    }

    fn a_host_that_is_none_is_an_error(on) {
        on.on_worker(async {
            let kind = async |text: &str| TcpStream::connect(text).await.unwrap_err().kind();
            assert_eq!(kind("localhost").await, ErrorKind::InvalidInput);
            assert_eq!(kind("127.0.0.1:99999").await, ErrorKind::InvalidInput);
            let none: &[SocketAddr] = &[];
            let error = TcpStream::connect(none).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let error = socket.send_to(b"to nobody", none).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        });
    }

    fn a_lookup_may_be_dropped(on) {
        on.on_worker(async {
            let mut lookup = std::pin::pin!(lookup_host(("localhost", 1)));
            let _ = crate::poll_once(lookup.as_mut()).await;
        });
    }

    fn sockets_share_a_port_if_all_of_them_wish(on) {
        on.on_worker(async {
            let make = |address: SocketAddr, shares| {
                let socket = TcpSocket::new_v4().unwrap();
                socket.set_reuseport(shares).unwrap();
                socket.bind(address)?;
                socket.listen(8)
            };
            let first = make((Ipv4Addr::LOCALHOST, 0).into(), true).unwrap();
            let address = first.local_addr().unwrap();
            let second = make(address, true).unwrap();
            assert_eq!(make(address, false).unwrap_err().kind(), ErrorKind::AddrInUse);
            drop(second);
            let client = TcpSocket::new_v4().unwrap();
            client.set_nodelay(true).unwrap();
            let client = client.connect(address).await.unwrap();
            assert!(client.nodelay().unwrap());
            first.accept().await.unwrap();
        });
    }

    fn a_socket_binds_before_it_connects(on) {
        on.on_worker(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            let local = socket.local_addr().unwrap();
            let client = socket.connect(listener.local_addr().unwrap()).await.unwrap();
            assert_eq!(listener.accept().await.unwrap().1, local);
            assert_eq!(client.local_addr().unwrap(), local);
        });
    }

    fn a_connection_that_is_dropped_on_its_way_is_closed(on) {
        let _alone = crate::alone();
        // One thread, whose driver has its descriptors by then.
        let runtime = on.builder().workers(1).io_spares(0).build().unwrap();
        runtime.block_on(runtime.spawn(pair())).unwrap();
        let before = crate::descriptors();
        runtime.block_on(async {
            // Nobody answers there: the queue of this listener is full.
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            let address = socket.local_addr().unwrap();
            let std = std::net::TcpListener::from(
                std::os::fd::AsFd::as_fd(&socket).try_clone_to_owned().unwrap(),
            );
            socket2::SockRef::from(&std).listen(1).unwrap();
            let mut connects: Vec<_> =
                (0..8).map(|_| Box::pin(TcpStream::connect(address))).collect();
            for connect in &mut connects {
                let _ = crate::poll_once(connect.as_mut()).await;
            }
            filch::yield_now().await;
        });
        crate::eventually(|| crate::descriptors() <= before);
    }

    fn a_linger_of_zero_resets(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            client.set_linger(Some(Duration::ZERO)).unwrap();
            drop(client);
            let error = server.read(vec![0; 8]).await.0.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            assert!(server.take_error().unwrap().is_none());
        });
    }
}
