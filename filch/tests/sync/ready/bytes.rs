//! Streams that lie in memory.

use std::future::poll_fn;
use std::io::{IoSlice, SeekFrom};
use std::pin::Pin;

use filch::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, AsyncWriteExt, BufReader, Cursor,
    Repeat, copy, copy_bidirectional, empty, repeat, sink,
};
use futures_lite::StreamExt;

use super::cases;

/// Empty lines without end, of which many lie in the buffer.
fn lines() -> BufReader<Repeat> {
    BufReader::new(repeat(b'\n'))
}

cases! { CASES;
    "io::copy": let mut written = Vec::new() => {
        written.clear();
        copy(Cursor::new("bytes"), &mut written).await.unwrap();
    };
    "io::copy_bidirectional": let mut ends = (Cursor::new(Vec::new()), Cursor::new(Vec::new())) => {
        copy_bidirectional(&mut ends.0, &mut ends.1).await.unwrap();
    };
    "io::Empty: AsyncRead": let mut nothing = empty() =>
        assert_eq!(nothing.read(&mut [0; 8]).await.unwrap(), 0);
    "io::Empty: AsyncBufRead": let mut nothing = empty() =>
        assert_eq!(nothing.fill_buf().await.unwrap(), []);
    "io::Repeat: AsyncRead": let mut bytes = repeat(7) =>
        assert_eq!(bytes.read(&mut [0; 8]).await.unwrap(), 8);
    "io::Sink: AsyncWrite": let mut bytes = sink() => {
        assert_eq!(bytes.write(&[0; 8]).await.unwrap(), 8);
    };
    "io::BufReader::read_line": let (mut reader, mut line) = (lines(), String::new()) => {
        line.clear();
        assert_eq!(reader.read_line(&mut line).await.unwrap(), 1);
    };
    "io::BufReader::read_until": let (mut reader, mut line) = (lines(), Vec::new()) => {
        line.clear();
        assert_eq!(reader.read_until(b'\n', &mut line).await.unwrap(), 1);
    };
    "io::BufReader::next_line": let mut reader = lines() =>
        assert_eq!(reader.next_line().await.unwrap().unwrap(), "");
    "io::BufReader::fill_buf": let mut reader = lines() =>
        assert!(!reader.fill_buf().await.unwrap().is_empty());
    "io::BufReader: AsyncBufRead": let mut reader = lines() => {
        let filled =
            poll_fn(|cx| Pin::new(&mut reader).poll_fill_buf(cx).map_ok(|bytes| bytes.len())).await;
        assert_ne!(filled.unwrap(), 0);
    };
    "io::BufReader: AsyncRead": let mut reader = lines() =>
        assert_eq!(reader.read(&mut [0; 1]).await.unwrap(), 1);
    "io::BufReader: AsyncWrite": let mut stream = BufReader::new(Cursor::new(Vec::new())) =>
        assert_eq!(stream.write(b"").await.unwrap(), 0);
    "io::BufReader: AsyncWrite": let mut stream = BufReader::new(Vec::new()) =>
        assert_eq!(stream.write_vectored(&[IoSlice::new(b"")]).await.unwrap(), 0);
    "io::BufReader: AsyncWrite": let mut stream = BufReader::new(Vec::new()) =>
        stream.flush().await.unwrap();
    "io::BufReader: AsyncWrite": let mut stream = BufReader::new(Vec::new()) =>
        stream.close().await.unwrap();
    "io::BufReader: AsyncSeek": let mut stream = BufReader::new(Cursor::new("bytes")) =>
        assert_eq!(stream.seek(SeekFrom::Start(3)).await.unwrap(), 3);
    "io::BufReader: AsyncSeek": let mut stream = BufReader::new(Cursor::new("bytes")) => {
        let far = SeekFrom::Current(i64::MIN);
        stream.fill_buf().await.unwrap();
        stream.seek(far).await.unwrap_err();
    };
    "io::Lines::next_line": let mut lines = lines().lines() =>
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "");
    "io::Lines: Stream": let mut lines = lines().lines() =>
        assert_eq!(lines.next().await.unwrap().unwrap(), "");
}
