//! Writes without a copy.

use std::pin::pin;
use std::time::Duration;

use crate::{alone, begin, on_each_backend, pair, pattern};

const LEN: usize = 4 << 20;

/// Processor time of this process.
fn used() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the answer.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

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

    fn a_cancelled_write_that_waits_for_its_notice_costs_no_time(on) {
        if !on.is_uring() {
            return;
        }
        let _alone = alone();
        on.on_worker(async {
            let (client, server) = pair().await.unwrap();
            client.set_zero_copy(Some(1));
            let mut write = Box::pin(client.write_all(pattern(0, 16 * LEN)));
            begin(write.as_mut()).await;
            filch::time::sleep(Duration::from_millis(50)).await;
            // The first ends the send, and leaves the notice; the second finds nothing.
            begin(pin!(write.as_mut().cancel())).await;
            filch::time::sleep(Duration::from_millis(50)).await;
            begin(pin!(write.as_mut().cancel())).await;
            let before = used();
            filch::time::sleep(Duration::from_millis(500)).await;
            let used = used() - before;
            drop(write);
            drop((client, server));
            assert!(used < Duration::from_millis(250), "{used:?}");
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
