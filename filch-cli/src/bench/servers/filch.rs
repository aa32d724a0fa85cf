//! filch, on what its kernel grants and on epoll.

use super::{ANY_PORT, Blocked, Computing, LOOP, Server, Work};
use crate::bench::peers::BASE;
use filch::io::IoBuf;
use filch::net::{TcpListener, TcpStream};
use filch::par::prelude::*;
use filch::{Handle, IoBackend, Runtime};
use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

/// With defaults.
pub struct Filch(Runtime);

/// As if the kernel had no rings.
pub struct FilchEpoll(Filch);

impl Filch {
    fn with(backend: IoBackend, threads: usize) -> Self {
        let builder = Runtime::builder().io_workers(threads).compute_workers(threads);
        Self(builder.io_backend(backend).build().expect("filch starts"))
    }
}

impl Server for Filch {
    const NAME: &'static str = BASE;

    fn start(threads: usize) -> Self {
        Self::with(IoBackend::Auto, threads)
    }

    fn echo(&self, buffer: usize) -> SocketAddr {
        let handle = self.0.handle();
        let listener = handle.spawn(TcpListener::bind(ANY_PORT)).wait().expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        drop(handle.spawn(serve(listener, buffer)));
        address
    }
}

impl Blocked for Filch {
    fn block(&self, time: Duration) {
        drop(self.0.handle().spawn(async move { thread::sleep(time) }));
    }
}

async fn serve(listener: TcpListener, buffer: usize) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        drop(filch::spawn(echo(stream, buffer)));
    }
}

async fn echo(stream: TcpStream, buffer: usize) -> io::Result<()> {
    let mut buffer = vec![0; buffer];
    loop {
        let (count, filled) = stream.read(buffer).await;
        let count = count?;
        if count == 0 {
            return Ok(());
        }
        let (result, sent) = stream.write_all(filled.slice(..count)).await;
        result?;
        buffer = sent.into_inner();
    }
}

impl Computing for Filch {
    /// As many compute as the runtime has compute workers.
    fn compute(&self, _: usize, work: &'static Work) {
        compute_on_filch(&self.0.handle(), work);
    }
}

/// Runs the work on the compute workers until it is over.
pub fn compute_on_filch(runtime: &Handle, work: &'static Work) {
    drop(runtime.spawn_fn(move || {
        while work.goes_on() {
            (0..LOOP).into_par_iter().for_each(|_| work.piece());
        }
    }));
}

impl Server for FilchEpoll {
    const NAME: &'static str = "filch-epoll";

    fn start(threads: usize) -> Self {
        Self(Filch::with(IoBackend::Epoll, threads))
    }

    fn echo(&self, buffer: usize) -> SocketAddr {
        self.0.echo(buffer)
    }
}

impl Blocked for FilchEpoll {
    fn block(&self, time: Duration) {
        self.0.block(time);
    }
}
