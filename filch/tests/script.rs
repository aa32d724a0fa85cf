//! Scripted I/O: the same programs on a simulated network, whose course a seed decides.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::pin::pin;
use std::time::Duration;

use filch::io::AsyncReadExt;
use filch::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use filch::testkit::{self, FailureKind, IoScript, Sim};
use filch::time::{self, timeout};
use filch::{Builder, block_on, spawn};

/// Bytes that tell their place.
fn pattern(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|i| (i ^ (i >> 8)) as u8).collect()
}

const ADDRESS: &str = "127.0.0.1:80";

/// Copies back what comes, until its end, by reads and by chunks in turn.
async fn echo(stream: TcpStream) -> io::Result<usize> {
    let mut total = 0;
    loop {
        let bytes = if testkit::random() % 2 == 0 {
            let (result, mut buffer) = stream.read(vec![0; 100]).await;
            buffer.truncate(result?);
            buffer
        } else {
            stream.recv().await?.map_or_else(Vec::new, |chunk| chunk.to_vec())
        };
        if bytes.is_empty() {
            stream.shutdown(Shutdown::Write)?;
            return Ok(total);
        }
        total += bytes.len();
        stream.write_all(bytes).await.0?;
    }
}

async fn read_to_end(stream: &TcpStream) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let (result, buffer) = stream.read(vec![0; 300]).await;
        match result? {
            0 => return Ok(all),
            count => all.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Sends bytes to an echo and expects them back.
async fn exchange(from: usize, len: usize) -> io::Result<()> {
    let stream = TcpStream::connect(ADDRESS).await?;
    let (mut reader, writer) = stream.into_split();
    let sent = pattern(from, len);
    let bytes = sent.clone();
    let writes = spawn(async move {
        for piece in bytes.chunks(len / 3 + 1) {
            writer.write_all(piece.to_vec()).await.0?;
        }
        drop(writer);
        io::Result::Ok(())
    });
    let mut got = Vec::new();
    reader.read_to_end(&mut got).await?;
    writes.await?;
    assert_eq!(got, sent, "what came back is not what was sent");
    Ok(())
}

fn echo_program(clients: usize, bytes: usize) {
    block_on(async move {
        let listener = TcpListener::bind(ADDRESS).await.unwrap();
        let clients: Vec<_> = (0..clients).map(|i| spawn(exchange(1000 * i, bytes))).collect();
        let mut served = Vec::new();
        for _ in &clients {
            let (stream, _) = listener.accept().await.unwrap();
            served.push(spawn(echo(stream)));
        }
        for client in clients {
            client.await.unwrap();
        }
        for server in served {
            assert_eq!(server.await.unwrap(), bytes);
        }
    });
}

#[test]
fn echoes_are_whole_under_a_thousand_seeds() {
    let script = IoScript::new().buffers(64);
    Sim::new().io(script).check(0..1000, || echo_program(2, 200));
}

#[test]
fn same_seed_gives_the_same_run_whatever_descriptors_are_free() {
    let trace = |seed| {
        let run = Sim::new().seed(seed).try_run(|| echo_program(2, 100)).unwrap();
        (run.trace, run.switches)
    };
    let first: Vec<_> = (0..20).map(trace).collect();
    let _taken: Vec<_> = (0..5).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    let again: Vec<_> = (0..20).map(trace).collect();
    assert_eq!(first, again);
    assert_eq!(first.iter().collect::<HashSet<_>>().len(), 20);
}
