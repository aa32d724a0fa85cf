//! Streams by `futures-io`: copies, buffers, lines.

use std::net::Shutdown;

use filch::io::{AsyncReadExt, AsyncWriteExt, BufReader, BufWriter, copy, copy_bidirectional};
use filch::net::UnixStream;

use crate::{on_each_backend, pair, pattern};

on_each_backend! {
    fn a_copy_moves_all(on) {
        on.on_worker(async {
            const LEN: usize = 2 << 20;
            let (source, from) = pair().await.unwrap();
            let (mut to, sink) = UnixStream::pair().unwrap();
            let copies = filch::spawn(async move {
                let count = copy(&from, &mut to).await.unwrap();
                AsyncWriteExt::close(&mut to).await.unwrap();
                count
            });
            let sends = filch::spawn(async move {
                source.write_all(pattern(0, LEN)).await.0.unwrap();
            });
            let mut got = Vec::new();
            (&sink).read_to_end(&mut got).await.unwrap();
            sends.await;
            assert_eq!(copies.await, LEN as u64);
            assert!(got == pattern(0, LEN));
        });
    }

    fn a_proxy_goes_on_when_one_direction_has_ended(on) {
        on.on_worker(async {
            const LEN: usize = 1 << 20;
            let (client, mut left) = pair().await.unwrap();
            let (mut right, server) = pair().await.unwrap();
            let proxy = filch::spawn(async move {
                copy_bidirectional(&mut left, &mut right).await.unwrap()
            });
            let answers = filch::spawn(async move {
                // Answers when the question is whole.
                let mut question = Vec::new();
                while let Some(chunk) = server.recv().await.unwrap() {
                    question.extend_from_slice(&chunk);
                }
                server.write_all(pattern(7, LEN)).await.0.unwrap();
                question
            });
            client.write_all(pattern(0, 1000)).await.0.unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            while let Some(chunk) = client.recv().await.unwrap() {
                answer.extend_from_slice(&chunk);
            }
            assert!(answer == pattern(7, LEN));
            assert!(answers.await == pattern(0, 1000));
            let copied = proxy.await;
            assert_eq!((copied.there, copied.back), (1000, LEN as u64));
        });
    }

    fn a_proxy_ends_with_the_first_error(on) {
        on.on_worker(async {
            let (client, mut left) = pair().await.unwrap();
            let (mut right, server) = pair().await.unwrap();
            let proxy = filch::spawn(async move {
                copy_bidirectional(&mut left, &mut right).await.unwrap_err().kind()
            });
            client.set_linger(Some(std::time::Duration::ZERO)).unwrap();
            drop(client);
            assert_eq!(proxy.await, std::io::ErrorKind::ConnectionReset);
            // Both streams are gone with it.
            assert!(server.recv().await.unwrap().is_none());
        });
    }

    fn lines_are_read_through_a_buffer(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            let sender = filch::spawn(async move {
                let mut out = BufWriter::new(client);
                for number in 0..1000 {
                    out.write_all(format!("line {number}\n").as_bytes()).await.unwrap();
                }
                out.close().await.unwrap();
            });
            let mut lines = BufReader::new(&server);
            for number in 0..1000 {
                let mut line = String::new();
                lines.read_line(&mut line).await.unwrap();
                assert_eq!(line, format!("line {number}\n"));
            }
            assert_eq!(lines.read_line(&mut String::new()).await.unwrap(), 0);
            sender.await;
        });
    }
}
