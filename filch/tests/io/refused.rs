//! What fails leaves nothing behind; what is odd about a name is kept.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::pin::pin;

use filch::fs::{self, File};
use filch::net::{
    TcpListener, TcpSocket, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream,
};

use crate::files::Scratch;
use crate::{begin, descriptors, eventually, on_each_backend, poll_once};

/// Fails in many ways, and gives up in some.
async fn fail() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    assert!(TcpListener::bind(address).await.is_err());
    assert!(UdpSocket::bind("192.0.2.1:0").await.is_err());
    assert!(TcpSocket::new_v4().unwrap().bind("192.0.2.1:0".parse().unwrap()).is_err());
    drop(taken);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(TcpStream::connect(closed).await.is_err());
    let _ = poll_once(pin!(TcpStream::connect(closed))).await;
    assert!(UnixStream::connect("/no such/socket").await.is_err());
    assert!(UnixListener::bind("/no such/socket").is_err());
    assert!(UnixDatagram::bind("/no such/socket").is_err());
    assert!(File::open("/no such/file").await.is_err());
    let _ = poll_once(pin!(File::open("/dev/null"))).await;
    let _ = poll_once(pin!(fs::read("/proc/self/status"))).await;
    let _ = poll_once(pin!(fs::read_dir("/"))).await;
    let listener = UnixListener::bind("\0filch/test/refused").unwrap();
    begin(pin!(listener.accept())).await;
    let client = UnixStream::connect("\0filch/test/refused").await.unwrap();
    filch::yield_now().await;
    drop((listener, client));
}

on_each_backend! {
    fn what_fails_leaves_no_descriptor(on) {
        let _alone = crate::alone();
        let runtime = on.builder().workers(1).io_spares(0).build().unwrap();
        runtime.block_on(runtime.spawn(async {
            fail().await;
            File::open("/dev/null").await.unwrap();
        }));
        let before = descriptors();
        for _ in 0..20 {
            runtime.block_on(runtime.spawn(fail()));
        }
        eventually(|| descriptors() <= before);
    }

    fn names_that_are_no_text_are_kept(on) {
        on.on_worker(async {
            let scratch = Scratch::new();
            let odd = OsStr::from_bytes(b"\xFF\xFEodd\n");
            let path = scratch.path(".").join(odd);
            fs::write(&path, "text").await.unwrap();
            assert_eq!(fs::read_to_string(&path).await.unwrap(), "text");
            let mut entries = fs::read_dir(scratch.path(".")).await.unwrap();
            assert_eq!(entries.next_entry().await.unwrap().unwrap().file_name(), odd);
            assert!(entries.next_entry().await.unwrap().is_none());
            fs::symlink(odd, scratch.path("link")).await.unwrap();
            assert_eq!(fs::read_link(scratch.path("link")).await.unwrap(), odd);
            assert!(fs::symlink_metadata(scratch.path("link")).await.unwrap().is_symlink());
            assert_eq!(fs::metadata(scratch.path("link")).await.unwrap().len(), 4);
            fs::remove_file(&path).await.unwrap();
            assert!(!fs::exists(scratch.path("link")).await, "it leads nowhere");
            fs::write(scratch.path("bytes"), b"\xFF").await.unwrap();
            let error = fs::read_to_string(scratch.path("bytes")).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
        });
    }
}

/// Everything may go to another thread, and be shared.
#[test]
fn sockets_files_and_chunks_are_send_and_sync() {
    fn both<T: Send + Sync>() {}
    fn sends<T: Send>(_: &T) {}
    both::<TcpStream>();
    both::<TcpListener>();
    both::<UdpSocket>();
    both::<UnixStream>();
    both::<UnixListener>();
    both::<UnixDatagram>();
    both::<filch::net::tcp::OwnedReadHalf>();
    both::<filch::net::unix::OwnedWriteHalf>();
    both::<filch::io::Chunk>();
    both::<File>();
    both::<fs::ReadDir>();
    both::<fs::DirEntry>();
    both::<fs::Metadata>();
    sends(&TcpStream::connect("127.0.0.1:1"));
    sends(&fs::read("x"));
    sends(&fs::copy("x", "y"));
    sends(&File::open("x"));
}
