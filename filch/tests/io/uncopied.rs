//! Writes without a copy.

use std::pin::pin;

use crate::{begin, on_each_backend, pair, pattern};

const LEN: usize = 4 << 20;

on_each_backend! {
    fn bytes_arrive_whole_without_a_copy(on) {
        on.on_worker(async move {
            let (client, server) = pair().await.unwrap();
            client.set_zero_copy(Some(1000));
            let reader = filch::spawn(async move {
                let mut got = Vec::new();
                while let Some(chunk) = server.recv().await.unwrap() {
                    got.extend_from_slice(&chunk);
                }
                got
            });
            for round in 0..4 {
                // Asked for again each time: the kernel copies here, and the socket notes that.
                client.set_zero_copy(Some(1000));
                let (result, buf) = client.write_all(pattern(round * LEN, LEN)).await;
                assert_eq!(result.unwrap(), LEN);
                assert!(buf == pattern(round * LEN, LEN));
                if on.is_uring() {
                    assert_eq!(client.zero_copy(), None, "within a host it is copied");
                }
                client.write_all(pattern((round + 1) * LEN, 0)).await.0.unwrap();
            }
            drop(client);
            assert!(reader.await == pattern(0, 4 * LEN));
        });
    }

    fn a_dropped_write_without_a_copy_runs_to_its_end(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            client.set_zero_copy(Some(1));
            begin(pin!(client.write_all(pattern(0, 4 * LEN)))).await;
            client.set_zero_copy(Some(1));
            let last = filch::spawn(async move { client.write_all(pattern(4 * LEN, 99)).await.0 });
            let mut got = 0;
            while let Some(chunk) = server.recv().await.unwrap() {
                assert!(chunk[..] == pattern(got, chunk.len()));
                got += chunk.len();
            }
            assert_eq!(last.await.unwrap(), 99);
            assert_eq!(got, 4 * LEN + 99);
        });
    }

    fn a_cancelled_write_without_a_copy_tells_what_is_gone(on) {
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            client.set_zero_copy(Some(1));
            let reader = filch::spawn(async move {
                let mut got = 0;
                while let Some(chunk) = server.recv().await.unwrap() {
                    assert!(chunk[..] == pattern(got, chunk.len()));
                    got += chunk.len();
                    filch::yield_now().await;
                }
                got
            });
            let mut write = Box::pin(client.write_all(pattern(0, 16 * LEN)));
            begin(write.as_mut()).await;
            filch::yield_now().await;
            // What is gone has to be acknowledged before the buffer comes back.
            let (result, buf) = write.as_mut().cancel().await;
            drop(write);
            assert_eq!(buf.len(), 16 * LEN);
            let sent = result.unwrap_or(0);
            drop(client);
            assert_eq!(reader.await, sent);
        });
    }

    fn a_runtime_ends_with_writes_without_a_copy_in_flight(on) {
        let runtime = on.runtime();
        let (client, server) = runtime.block_on(pair()).unwrap();
        client.set_zero_copy(Some(1));
        let (begun, has_begun) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            let mut write = pin!(client.write_all(pattern(0, 16 * LEN)));
            begin(write.as_mut()).await;
            filch::yield_now().await;
            begun.send(()).unwrap();
            let _ = write.await;
        })
        .detach();
        has_begun.recv().unwrap();
        runtime.shutdown(filch::Shutdown::Abort);
        drop(server);
    }
}
