//! compio: a ring and a runtime for each thread, and tasks that stay where they began.
//!
//! All threads accept from one listener, so a connection belongs to the thread that the kernel woke for
//! it. That is the work of the others with one thread; with more there is nothing that evens it out.

use super::{ANY_PORT, Server};
use compio::BufResult;
use compio::buf::{IntoInner, IoBuf};
use compio::io::{AsyncRead, AsyncWriteExt};
use compio::net::{TcpListener, TcpStream};
use compio::runtime::{Runtime, spawn};
use std::io;
use std::net::SocketAddr;
use std::thread;

/// With defaults. Its threads end with the process.
pub struct Compio {
    threads: usize,
}

impl Server for Compio {
    const NAME: &'static str = "compio";

    fn start(threads: usize) -> Self {
        Self { threads }
    }

    fn echo(&self, buffer: usize) -> SocketAddr {
        let listener = std::net::TcpListener::bind(ANY_PORT).expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        for _ in 0..self.threads {
            let listener = listener.try_clone().expect("a descriptor");
            thread::spawn(move || {
                let runtime = Runtime::new().expect("compio starts");
                runtime.block_on(serve(listener, buffer))
            });
        }
        address
    }
}

async fn serve(listener: std::net::TcpListener, buffer: usize) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        spawn(echo(stream, buffer)).detach();
    }
}

async fn echo(mut stream: TcpStream, buffer: usize) -> io::Result<()> {
    let mut buffer = vec![0; buffer];
    loop {
        let BufResult(count, filled) = stream.read(buffer).await;
        let count = count?;
        if count == 0 {
            return Ok(());
        }
        let BufResult(result, sent) = stream.write_all(filled.slice(..count)).await;
        result?;
        buffer = sent.into_inner();
    }
}
