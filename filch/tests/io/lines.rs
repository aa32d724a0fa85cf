//! Lines are read whole, whatever is dropped in between.

use std::io::{self, ErrorKind, SeekFrom};
use std::pin::{Pin, pin};
use std::string::FromUtf8Error;
use std::task::{Context, Poll};

use filch::fs::{self, File};
use filch::io::{AsyncRead, AsyncReadExt, AsyncSeekExt, AsyncWriteExt, BufReader};
use filch::net::UnixStream;
use futures_lite::StreamExt;

use crate::files::{Scratch, fifo, open};
use crate::{on_each_backend, pair, poll_once};

const TEXT: &str = "first\r\n\nthe second\n\rthird\r\r\nno end";
const LINES: [&str; 5] = ["first", "", "the second", "\rthird\r", "no end"];

/// Reads lines and drops the call whenever it is not ready, nearly always.
async fn lines_by_dropped_calls<R: AsyncRead + Unpin>(reader: R, capacity: usize) -> Vec<String> {
    let mut reader = BufReader::with_capacity(capacity, reader);
    let (mut lines, mut drops) = (Vec::new(), 0);
    loop {
        let polled = poll_once(pin!(reader.next_line())).await;
        match polled {
            Poll::Ready(line) => match line.unwrap() {
                Some(line) => lines.push(line),
                None => return lines,
            },
            Poll::Pending => {
                drops += 1;
                if drops % 10 == 0 {
                    // Bytes come, and nothing waits for ever.
                    reader.fill_buf().await.unwrap();
                }
                filch::yield_now().await;
            }
        }
    }
}

/// Gives each byte alone, after it was not ready once.
struct Drip<'a> {
    bytes: &'a [u8],
    ready: bool,
}

impl<'a> Drip<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, ready: false }
    }
}

impl AsyncRead for Drip<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.ready = !self.ready;
        if self.ready {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let count = self.bytes.len().min(1);
        buf[..count].copy_from_slice(&self.bytes[..count]);
        self.bytes = &self.bytes[count..];
        Poll::Ready(Ok(count))
    }
}

on_each_backend! {
    fn lines_of_a_connection_survive_dropped_calls(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let sender = filch::spawn(async move {
                for byte in TEXT.bytes() {
                    client.write_all(vec![byte]).await.0.unwrap();
                    filch::yield_now().await;
                }
            });
            assert_eq!(lines_by_dropped_calls(server, 3).await, LINES);
            sender.await;
        });
    }

    fn lines_of_halves_and_references_survive_dropped_calls(on) {
        on.on_worker(async {
            for by_reference in [true, false] {
                let (mut client, server) = UnixStream::pair().unwrap();
                let sender = filch::spawn(async move {
                    for part in TEXT.as_bytes().chunks(7) {
                        AsyncWriteExt::write_all(&mut client, part).await.unwrap();
                        filch::yield_now().await;
                    }
                });
                let lines = if by_reference {
                    lines_by_dropped_calls(&server, 8192).await
                } else {
                    let (reader, _writer) = server.into_split();
                    lines_by_dropped_calls(reader, 8192).await
                };
                assert_eq!(lines, LINES);
                sender.await;
            }
        });
    }

    fn lines_of_a_file_survive_dropped_calls(on) {
        on.on_worker(async {
            // Nothing is read at once there, so reads are in flight.
            for dir in [Scratch::new(), Scratch::in_shared_memory()] {
                fs::write(dir.path("a"), TEXT.repeat(300)).await.unwrap();
                let file = File::open(dir.path("a")).await.unwrap();
                let lines = lines_by_dropped_calls(file, 100).await;
                assert_eq!(lines.join("\n"), TEXT.repeat(300).replace("\r\n", "\n"));
            }
        });
    }

    fn lines_of_a_pipe_survive_dropped_calls(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            let path = fifo(&dir);
            let (reader, writer) = (open(&path).await, open(&path).await);
            writer.write_all("one\ntwo\n").await.0.unwrap();
            let mut lines = BufReader::new(reader).lines();
            for line in ["one", "two", "three"] {
                if line == "three" {
                    assert!(poll_once(pin!(lines.next_line())).await.is_pending());
                    writer.write_all("three\n").await.0.unwrap();
                }
                assert_eq!(lines.next_line().await.unwrap().as_deref(), Some(line));
            }
        });
    }

    fn a_connection_that_breaks_in_a_line_tells_and_keeps_what_has_come(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            client.write_all("half a li").await.0.unwrap();
            let mut reader = BufReader::new(server);
            reader.fill_buf().await.unwrap();
            // Closed with unread bytes, it is reset.
            AsyncWriteExt::write_all(&mut reader, b"unread").await.unwrap();
            crate::settle(&client).await;
            client.set_zero_linger().unwrap();
            drop(client);
            assert_eq!(reader.next_line().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
            assert_eq!(reader.buffer(), b"half a li");
        });
    }

    fn what_is_asked_by_a_buffer_goes_both_ways(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let echo = filch::spawn(async move {
                let mut server = BufReader::new(server);
                while let Some(line) = server.next_line().await.unwrap() {
                    server.write_all(format!("<{line}>\n").as_bytes()).await.unwrap();
                }
                server.close().await.unwrap();
            });
            let mut client = BufReader::new(client);
            for word in ["a", "b"] {
                client.write_all(format!("{word}\n").as_bytes()).await.unwrap();
                assert_eq!(client.next_line().await.unwrap(), Some(format!("<{word}>")));
            }
            client.close().await.unwrap();
            assert_eq!(client.next_line().await.unwrap(), None);
            echo.await;
        });
    }

    fn a_seek_takes_the_buffer_into_account(on) {
        on.on_worker(async {
            let dir = Scratch::new();
            fs::write(dir.path("a"), "one\ntwo\nthree\n").await.unwrap();
            let mut reader = BufReader::new(File::open(dir.path("a")).await.unwrap());
            reader.next_line().await.unwrap();
            assert_eq!(reader.seek(SeekFrom::Current(0)).await.unwrap(), 4);
            assert_eq!(reader.next_line().await.unwrap().as_deref(), Some("two"));
            assert_eq!(reader.seek(SeekFrom::Start(0)).await.unwrap(), 0);
            assert_eq!(reader.next_line().await.unwrap().as_deref(), Some("one"));
            let before = reader.seek(SeekFrom::Current(i64::MIN)).await.unwrap_err();
            assert_eq!(before.kind(), ErrorKind::InvalidInput);
        });
    }

    fn lines_that_are_always_there_let_a_timeout_fire(on) {
        on.on_worker(async {
            let endless = BufReader::new(filch::io::repeat(b'\n'));
            let no_line = BufReader::new(filch::io::repeat(b'x')).max_line(1 << 28);
            for mut reader in [endless, no_line] {
                let reads = async { while reader.next_line().await.is_ok() {} };
                let limit = std::time::Duration::from_millis(20);
                assert!(filch::time::timeout(limit, reads).await.is_err());
            }
        });
    }
}

#[test]
fn every_method_survives_a_drop_at_every_await() {
    filch::block_on(async {
        let mut reader = BufReader::with_capacity(2, Drip::new(b"one\ntwo;three\nfour\nfive"));
        let mut line = String::new();
        while poll_once(pin!(reader.read_line(&mut line))).await.is_pending() {
            assert_eq!(line, "", "a dropped call appends nothing");
        }
        assert_eq!(line, "one\n");
        let mut bytes = Vec::new();
        while poll_once(pin!(reader.read_until(b';', &mut bytes))).await.is_pending() {
            assert!(bytes.is_empty(), "a dropped call appends nothing");
        }
        assert_eq!(bytes, b"two;");
        while poll_once(pin!(reader.fill_buf())).await.is_pending() {}
        assert_eq!(reader.buffer(), b"t");
        let mut piece = [0; 1];
        AsyncReadExt::read_exact(&mut reader, &mut piece).await.unwrap();
        assert_eq!(&piece, b"t");
        let mut lines = reader.lines();
        let mut got = Vec::new();
        loop {
            match poll_once(pin!(lines.next())).await {
                Poll::Ready(Some(line)) => got.push(line.unwrap()),
                Poll::Ready(None) => break,
                Poll::Pending => {}
            }
        }
        assert_eq!(got, ["hree", "four", "five"]);
    });
}

#[test]
fn a_line_that_is_no_text_is_told_with_its_bytes_and_skipped() {
    filch::block_on(async {
        let mut reader = BufReader::new(&b"good\nb\xffd\nagain\n"[..]);
        assert_eq!(reader.next_line().await.unwrap().as_deref(), Some("good"));
        let error = reader.next_line().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let inside = error.into_inner().unwrap().downcast::<FromUtf8Error>().unwrap();
        assert_eq!(inside.into_bytes(), b"b\xffd\n");
        assert_eq!(reader.next_line().await.unwrap().as_deref(), Some("again"));
    });
}

#[test]
fn a_line_over_the_limit_is_refused_and_kept_however_it_comes() {
    filch::block_on(async {
        let text = b"12345678\n123456789\n1\n";
        for capacity in [1, 2, 5, 9, 100] {
            let mut reader = BufReader::with_capacity(capacity, &text[..]).max_line(8);
            assert_eq!(reader.next_line().await.unwrap().as_deref(), Some("12345678"));
            for _ in 0..2 {
                let error = reader.next_line().await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidData);
                assert!(error.to_string().contains("more than 8 bytes"), "{error}");
            }
            assert!(reader.buffer().starts_with(b"123456789"), "{:?}", reader.buffer());
            reader.consume(1);
            assert_eq!(reader.next_line().await.unwrap().as_deref(), Some("23456789"));
            assert_eq!(reader.next_line().await.unwrap().as_deref(), Some("1"));
            assert_eq!(reader.next_line().await.unwrap(), None);
        }
        // The last line has no end: what counts is the same.
        let mut reader = BufReader::new(&b"12345678"[..]).max_line(8);
        assert_eq!(reader.next_line().await.unwrap().as_deref(), Some("12345678"));
    });
}

#[test]
fn a_long_line_is_whole_and_its_memory_is_given_back() {
    filch::block_on(async {
        let long = "x".repeat(3 << 20);
        let text = format!("{long}\nshort\n");
        let mut reader = BufReader::new(text.as_bytes());
        assert!(reader.next_line().await.unwrap().unwrap() == long);
        assert_eq!(reader.next_line().await.unwrap().as_deref(), Some("short"));
    });
}

#[test]
fn another_end_is_searched_from_the_start() {
    filch::block_on(async {
        let mut reader = BufReader::with_capacity(4, Drip::new(b"a;b\nc;d\n"));
        // What was searched for one end is searched again for another.
        for _ in 0..6 {
            assert!(poll_once(pin!(reader.read_until(b'!', &mut Vec::new()))).await.is_pending());
        }
        let mut got = Vec::new();
        reader.read_until(b';', &mut got).await.unwrap();
        assert_eq!(got, b"a;");
        assert_eq!(reader.next_line().await.unwrap().as_deref(), Some("b"));
        assert_eq!(reader.next_line().await.unwrap().as_deref(), Some("c;d"));
    });
}

#[test]
#[should_panic(expected = "more bytes are consumed than there are")]
fn more_than_there_is_cannot_be_consumed() {
    BufReader::new(&b""[..]).consume(1);
}
