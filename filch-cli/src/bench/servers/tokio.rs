//! Tokio, and the two usual ways to compute beside it.

use super::{ANY_PORT, Blocked, Computing, LOOP, Server, Work};
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

pub struct Tokio(Runtime);

/// Computation in a pool of rayon's.
pub struct TokioRayon(Tokio);

/// Computation on threads of `spawn_blocking`.
pub struct TokioBlocking(Tokio);

impl Server for Tokio {
    const NAME: &'static str = "tokio";

    fn start(threads: usize) -> Self {
        let mut builder = Builder::new_multi_thread();
        Self(builder.worker_threads(threads).enable_all().build().expect("tokio starts"))
    }

    fn echo(&self, buffer: usize) -> SocketAddr {
        let bound = self.0.block_on(self.0.spawn(TcpListener::bind(ANY_PORT)));
        let listener = bound.expect("the task ends").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        drop(self.0.spawn(serve(listener, buffer)));
        address
    }
}

impl Blocked for Tokio {
    fn block(&self, time: Duration) {
        drop(self.0.spawn(async move { thread::sleep(time) }));
    }
}

async fn serve(listener: TcpListener, buffer: usize) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        drop(tokio::spawn(echo(stream, buffer)));
    }
}

async fn echo(mut stream: TcpStream, buffer: usize) -> io::Result<()> {
    let mut buffer = vec![0; buffer];
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..count]).await?;
    }
}

macro_rules! serves_as_tokio {
    ($name:ident, $text:literal) => {
        impl Server for $name {
            const NAME: &'static str = $text;

            fn start(threads: usize) -> Self {
                Self(Tokio::start(threads))
            }

            fn echo(&self, buffer: usize) -> SocketAddr {
                self.0.echo(buffer)
            }
        }
    };
}

serves_as_tokio!(TokioRayon, "tokio+rayon");
serves_as_tokio!(TokioBlocking, "tokio+blocking");

impl Computing for TokioRayon {
    fn compute(&self, threads: usize, work: &'static Work) {
        compute_on_rayon(threads, work);
    }
}

/// Runs the work on a pool of its own, which goes when the work is over.
pub fn compute_on_rayon(threads: usize, work: &'static Work) {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("rayon starts");
    pool.spawn(move || {
        while work.goes_on() {
            (0..LOOP).into_par_iter().for_each(|_| work.piece());
        }
    });
}

impl Computing for TokioBlocking {
    fn compute(&self, threads: usize, work: &'static Work) {
        for _ in 0..threads {
            drop(self.0.0.spawn_blocking(move || {
                while work.goes_on() {
                    work.piece();
                }
            }));
        }
    }
}
