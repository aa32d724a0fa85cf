//! An echo server: `cargo run --release --example echo -- 127.0.0.1:7000`, then `nc 127.0.0.1 7000`.

use std::io;

use filch::net::{TcpListener, TcpStream};

async fn echo(stream: TcpStream) -> io::Result<()> {
    while let Some(chunk) = stream.recv().await? {
        stream.write_all(chunk).await.0?;
    }
    Ok(())
}

#[filch::main]
async fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, peer) = listener.accept().await?;
        filch::spawn(async move {
            if let Err(error) = echo(stream).await {
                eprintln!("{peer}: {error}");
            }
        })
        .detach();
    }
}
