//! An HTTP/1.0 server with one answer: `cargo run --release --example http10 -- 127.0.0.1:8000`, then
//! `curl http://127.0.0.1:8000/any/path`.

use std::io;

use filch::io::{AsyncReadExt, BufReader};
use filch::net::{TcpListener, TcpStream};

/// Bytes of a request's head at most.
const MOST: u64 = 16 * 1024;

/// The first line of a request, once its head has come.
async fn request_line(stream: &TcpStream) -> io::Result<String> {
    let mut lines = BufReader::new(stream.take(MOST));
    let (mut first, mut line) = (String::new(), String::new());
    loop {
        line.clear();
        if lines.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if line.trim_end().is_empty() {
            return Ok(first);
        }
        if first.is_empty() {
            first = line.trim_end().to_owned();
        }
    }
}

async fn answer(stream: TcpStream) -> io::Result<()> {
    let line = request_line(&stream).await?;
    let mut words = line.split(' ');
    let (status, body) = match (words.next(), words.next()) {
        (Some("GET"), Some(path)) => ("200 OK", format!("hello from {path}\n")),
        _ => ("501 Not Implemented", "only GET\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.0 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head + &body).await.0.map(drop)
}

#[filch::main]
async fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, peer) = listener.accept().await?;
        filch::spawn(async move {
            if let Err(error) = answer(stream).await {
                eprintln!("{peer}: {error}");
            }
        })
        .detach();
    }
}
