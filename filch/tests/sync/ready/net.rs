//! Sockets and addresses.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::pin::pin;

use filch::net::{
    TcpListener, TcpSocket, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream,
    lookup_host,
};
use futures_lite::{AsyncReadExt, AsyncWriteExt};

use super::cases;

const HERE: &str = "127.0.0.1:0";

/// Two ends of a connection.
async fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(HERE).await.unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (one, listener.accept().await.unwrap().0)
}

async fn unix() -> (UnixStream, UnixStream) {
    UnixStream::pair().unwrap()
}

/// A stream whose peer has ended: there is always something to read, and that is the end.
macro_rules! ended {
    ($pair:expr) => {{
        let (one, other) = $pair.await;
        drop(other);
        one.readable().await.unwrap();
        one
    }};
}

/// A stream that takes bytes and loses them: its reading end goes on, unread.
macro_rules! reading {
    ($list:ident; $stream:expr, $state:pat => $reader:expr;
        $read:literal $exact:literal $vectored:literal $recv:literal $peek:literal $readable:literal
        $poll:literal) => {
        cases! { $list;
            $read: let $state = $stream => $reader.read(vec![0; 8]).await.0.unwrap();
            $exact: let $state = $stream => $reader.read_exact(vec![0; 8]).await.0.unwrap_err();
            $vectored: let $state = $stream => {
                let mut bytes = [0; 8];
                $reader.read_vectored(&mut [IoSliceMut::new(&mut bytes)]).await.unwrap();
            };
            $recv: let $state = $stream => $reader.recv().await.unwrap();
            $peek: let $state = $stream => $reader.peek(&mut [0; 8]).await.unwrap();
            $readable: let $state = $stream => $reader.readable().await.unwrap();
            $poll: let $state = $stream =>
                AsyncReadExt::read(&mut $reader, &mut [0; 8]).await.unwrap();
            $poll: let $state = $stream =>
                AsyncReadExt::read(&mut $reader, &mut []).await.unwrap();
        }
    };
}

macro_rules! writing {
    ($list:ident; $stream:expr, $state:pat => $writer:expr;
        $write:literal $all:literal $vectored:literal $writable:literal $poll:literal) => {
        cases! { $list;
            $write: let $state = $stream => $writer.write("").await.0.unwrap();
            $all: let $state = $stream => $writer.write_all("").await.0.unwrap();
            $vectored: let $state = $stream => {
                $writer.write_vectored(&[IoSlice::new(&[])]).await.unwrap();
            };
            $writable: let $state = $stream => $writer.writable().await.unwrap();
            $poll: let $state = $stream =>
                AsyncWriteExt::write(&mut $writer, &[]).await.unwrap();
            $poll: let $state = $stream => $writer.flush().await.unwrap();
            $poll: let $state = $stream => $writer.close().await.unwrap();
        }
    };
}

reading! { TCP_READS; ended!(tcp()), mut stream => stream;
    "net::TcpStream::read"
    "net::TcpStream::read_exact"
    "net::TcpStream::read_vectored"
    "net::TcpStream::recv"
    "net::TcpStream::peek"
    "net::TcpStream::readable"
    "net::TcpStream: AsyncRead"
}

reading! { UNIX_READS; ended!(unix()), mut stream => stream;
    "net::UnixStream::read"
    "net::UnixStream::read_exact"
    "net::UnixStream::read_vectored"
    "net::UnixStream::recv"
    "net::UnixStream::peek"
    "net::UnixStream::readable"
    "net::UnixStream: AsyncRead"
}

reading! { TCP_OWNED_READS; ended!(tcp()).into_split(), (mut half, _other) => half;
    "net::tcp::OwnedReadHalf::read"
    "net::tcp::OwnedReadHalf::read_exact"
    "net::tcp::OwnedReadHalf::read_vectored"
    "net::tcp::OwnedReadHalf::recv"
    "net::tcp::OwnedReadHalf::peek"
    "net::tcp::OwnedReadHalf::readable"
    "net::tcp::OwnedReadHalf: AsyncRead"
}

reading! { UNIX_OWNED_READS; ended!(unix()).into_split(), (mut half, _other) => half;
    "net::unix::OwnedReadHalf::read"
    "net::unix::OwnedReadHalf::read_exact"
    "net::unix::OwnedReadHalf::read_vectored"
    "net::unix::OwnedReadHalf::recv"
    "net::unix::OwnedReadHalf::peek"
    "net::unix::OwnedReadHalf::readable"
    "net::unix::OwnedReadHalf: AsyncRead"
}

reading! { TCP_HALF_READS; ended!(tcp()), mut stream => stream.split().0;
    "net::tcp::ReadHalf::read"
    "net::tcp::ReadHalf::read_exact"
    "net::tcp::ReadHalf::read_vectored"
    "net::tcp::ReadHalf::recv"
    "net::tcp::ReadHalf::peek"
    "net::tcp::ReadHalf::readable"
    "net::tcp::ReadHalf: AsyncRead"
}

reading! { UNIX_HALF_READS; ended!(unix()), mut stream => stream.split().0;
    "net::unix::ReadHalf::read"
    "net::unix::ReadHalf::read_exact"
    "net::unix::ReadHalf::read_vectored"
    "net::unix::ReadHalf::recv"
    "net::unix::ReadHalf::peek"
    "net::unix::ReadHalf::readable"
    "net::unix::ReadHalf: AsyncRead"
}

writing! { TCP_WRITES; tcp().await, (mut stream, _other) => stream;
    "net::TcpStream::write"
    "net::TcpStream::write_all"
    "net::TcpStream::write_vectored"
    "net::TcpStream::writable"
    "net::TcpStream: AsyncWrite"
}

writing! { UNIX_WRITES; unix().await, (mut stream, _other) => stream;
    "net::UnixStream::write"
    "net::UnixStream::write_all"
    "net::UnixStream::write_vectored"
    "net::UnixStream::writable"
    "net::UnixStream: AsyncWrite"
}

writing! { TCP_OWNED_WRITES; { let (a, b) = tcp().await; (a.into_split(), b) },
    ((_reader, mut half), _other) => half;
    "net::tcp::OwnedWriteHalf::write"
    "net::tcp::OwnedWriteHalf::write_all"
    "net::tcp::OwnedWriteHalf::write_vectored"
    "net::tcp::OwnedWriteHalf::writable"
    "net::tcp::OwnedWriteHalf: AsyncWrite"
}

writing! { UNIX_OWNED_WRITES; { let (a, b) = unix().await; (a.into_split(), b) },
    ((_reader, mut half), _other) => half;
    "net::unix::OwnedWriteHalf::write"
    "net::unix::OwnedWriteHalf::write_all"
    "net::unix::OwnedWriteHalf::write_vectored"
    "net::unix::OwnedWriteHalf::writable"
    "net::unix::OwnedWriteHalf: AsyncWrite"
}

writing! { TCP_HALF_WRITES; tcp().await, (mut stream, _other) => stream.split().1;
    "net::tcp::WriteHalf::write"
    "net::tcp::WriteHalf::write_all"
    "net::tcp::WriteHalf::write_vectored"
    "net::tcp::WriteHalf::writable"
    "net::tcp::WriteHalf: AsyncWrite"
}

writing! { UNIX_HALF_WRITES; unix().await, (mut stream, _other) => stream.split().1;
    "net::unix::WriteHalf::write"
    "net::unix::WriteHalf::write_all"
    "net::unix::WriteHalf::write_vectored"
    "net::unix::WriteHalf::writable"
    "net::unix::WriteHalf: AsyncWrite"
}

/// Two sockets that are connected to each other.
async fn udp() -> (UdpSocket, UdpSocket) {
    let (one, other) = (UdpSocket::bind(HERE).await.unwrap(), UdpSocket::bind(HERE).await.unwrap());
    one.connect(other.local_addr().unwrap()).await.unwrap();
    other.connect(one.local_addr().unwrap()).await.unwrap();
    (one, other)
}

/// As [`udp`], and the first has a datagram that nobody takes.
async fn udp_told() -> (UdpSocket, UdpSocket) {
    let (one, other) = udp().await;
    other.send(b"once").await.unwrap();
    one.readable().await.unwrap();
    (one, other)
}

async fn unix_told() -> (UnixDatagram, UnixDatagram) {
    let (one, other) = UnixDatagram::pair().unwrap();
    other.send(b"once").await.unwrap();
    one.readable().await.unwrap();
    (one, other)
}

fn listening() -> std::net::TcpListener {
    std::net::TcpListener::bind(HERE).unwrap()
}

/// A listener within this host, whose address is no path.
fn unix_listening() -> (UnixListener, std::os::unix::net::SocketAddr) {
    use std::os::linux::net::SocketAddrExt;
    use std::sync::atomic::{AtomicUsize, Ordering};
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("filch-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
    (UnixListener::bind_addr(&address).unwrap(), address)
}

fn address_of(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().unwrap()
}

cases! { OTHERS;
    "net::lookup_host": let () = () => lookup_host("127.0.0.1:80").await.unwrap();
    "net::lookup_host": let () = () => lookup_host("nonsense").await.map(drop).unwrap_err();
    "net::Read::cancel": let (stream, _other) = tcp().await =>
        pin!(stream.read(vec![0; 8])).cancel().await.0.unwrap_err();
    "net::Write::cancel": let (stream, _other) = tcp().await =>
        pin!(stream.write("bytes")).cancel().await.0.unwrap_err();
    "net::TcpListener::bind": let () = () => TcpListener::bind(HERE).await.unwrap();
    "net::TcpListener::into_std": let () = () => {
        TcpListener::from_std(listening()).unwrap().into_std().await.unwrap();
    };
    "net::TcpListener::accept": let listener = TcpListener::bind(HERE).await.unwrap() => {
        let address = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(address).unwrap();
        listener.accept().await.unwrap();
        drop(client);
    };
    "net::UnixListener::into_std": let () = () => {
        unix_listening().0.into_std().await.unwrap();
    };
    "net::UnixListener::accept": let (listener, address) = unix_listening() => {
        let client = std::os::unix::net::UnixStream::connect_addr(&address).unwrap();
        listener.accept().await.unwrap();
        drop(client);
    };
    "net::TcpStream::connect": let listener = listening() => {
        // The system takes the connection before anybody accepts it.
        TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        listener.accept().unwrap();
    };
    "net::TcpStream::connect": let () = () => TcpStream::connect("nonsense").await.unwrap_err();
    "net::TcpSocket::connect": let () = () => {
        // Nobody listens there.
        TcpSocket::new_v4().unwrap().connect("127.0.0.1:1".parse().unwrap()).await.unwrap_err();
    };
    "net::TcpStream::into_std": let listener = listening() => {
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        drop(listener.accept().unwrap());
        TcpStream::from_std(client).unwrap().into_std().await.unwrap();
    };
    "net::UnixStream::connect": let () = () =>
        UnixStream::connect("/nowhere/at/all").await.unwrap_err();
    "net::UnixStream::connect_addr": let (listener, address) = unix_listening() => {
        let client = UnixStream::connect_addr(&address).await.unwrap();
        listener.accept().await.unwrap();
        drop(client);
    };
    "net::UnixStream::into_std": let () = () => {
        let (one, _other) = UnixStream::pair().unwrap();
        one.into_std().await.unwrap();
    };
    "net::UdpSocket::bind": let () = () => UdpSocket::bind(HERE).await.unwrap();
    "net::UdpSocket::connect": let socket = UdpSocket::bind(HERE).await.unwrap() =>
        socket.connect(address_of(&socket)).await.unwrap();
    "net::UdpSocket::into_std": let () = () => {
        let std = std::net::UdpSocket::bind(HERE).unwrap();
        UdpSocket::from_std(std).unwrap().into_std().await.unwrap();
    };
    "net::UdpSocket::send": let (one, _other) = udp().await => one.send(b"x").await.unwrap();
    "net::UdpSocket::send_to": let socket = UdpSocket::bind(HERE).await.unwrap() =>
        socket.send_to(b"x", address_of(&socket)).await.unwrap();
    "net::UdpSocket::recv": let (one, other) = udp().await => {
        other.try_send(b"x").unwrap();
        one.recv(&mut [0; 8]).await.unwrap();
    };
    "net::UdpSocket::recv_from": let (one, other) = udp().await => {
        other.try_send(b"x").unwrap();
        one.recv_from(&mut [0; 8]).await.unwrap();
    };
    "net::UdpSocket::peek": let (one, _other) = udp_told().await =>
        one.peek(&mut [0; 8]).await.unwrap();
    "net::UdpSocket::peek_from": let (one, _other) = udp_told().await =>
        one.peek_from(&mut [0; 8]).await.unwrap();
    "net::UdpSocket::peek_sender": let (one, _other) = udp_told().await =>
        one.peek_sender().await.unwrap();
    "net::UdpSocket::readable": let (one, _other) = udp_told().await => one.readable().await.unwrap();
    "net::UdpSocket::writable": let (one, _other) = udp().await => one.writable().await.unwrap();
    "net::UnixDatagram::into_std": let () = () => {
        let (one, _other) = UnixDatagram::pair().unwrap();
        one.into_std().await.unwrap();
    };
    "net::UnixDatagram::send": let (one, other) = unix_told().await => {
        one.send(b"x").await.unwrap();
        other.try_recv(&mut [0; 8]).unwrap();
    };
    "net::UnixDatagram::send_to": let (one, _other) = unix_told().await =>
        one.send_to(b"x", "/nowhere/at/all").await.unwrap_err();
    "net::UnixDatagram::send_to_addr": let ((one, _other), (_listener, address)) =
        (unix_told().await, unix_listening()) =>
        one.send_to_addr(b"x", &address).await.unwrap_err();
    "net::UnixDatagram::recv": let (one, other) = UnixDatagram::pair().unwrap() => {
        other.try_send(b"x").unwrap();
        one.recv(&mut [0; 8]).await.unwrap();
    };
    "net::UnixDatagram::recv_from": let (one, other) = UnixDatagram::pair().unwrap() => {
        other.try_send(b"x").unwrap();
        one.recv_from(&mut [0; 8]).await.unwrap();
    };
    "net::UnixDatagram::peek": let (one, _other) = unix_told().await =>
        one.peek(&mut [0; 8]).await.unwrap();
    "net::UnixDatagram::peek_from": let (one, _other) = unix_told().await =>
        one.peek_from(&mut [0; 8]).await.unwrap();
    "net::UnixDatagram::readable": let (one, _other) = unix_told().await =>
        one.readable().await.unwrap();
    "net::UnixDatagram::writable": let (one, _other) = UnixDatagram::pair().unwrap() =>
        one.writable().await.unwrap();
}

/// All of this file.
pub const CASES: [&[super::Case]; 13] = [
    TCP_READS,
    UNIX_READS,
    TCP_OWNED_READS,
    UNIX_OWNED_READS,
    TCP_HALF_READS,
    UNIX_HALF_READS,
    TCP_WRITES,
    UNIX_WRITES,
    TCP_OWNED_WRITES,
    UNIX_OWNED_WRITES,
    TCP_HALF_WRITES,
    UNIX_HALF_WRITES,
    OTHERS,
];
