//! Who drives, whatever the tasks do.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use filch::net::{TcpListener, TcpStream};

use crate::{begin, on_each_backend, pair, pattern};

/// Respawns itself until told to stop.
fn respawn(stop: Arc<AtomicBool>) {
    let task = async move {
        if !stop.load(Ordering::Relaxed) {
            respawn(stop);
        }
    };
    drop(filch::spawn(task));
}

on_each_backend! {
    fn tasks_that_respawn_for_ever_do_not_stop_an_echo(on) {
        let runtime = on.builder().workers(1).build().unwrap();
        let task = runtime.spawn(async {
            let stop = Arc::new(AtomicBool::new(false));
            (0..3).for_each(|_| respawn(stop.clone()));
            let (client, server) = pair().await.unwrap();
            let echo = filch::spawn(async move {
                while let Some(chunk) = server.recv().await.unwrap() {
                    server.write_all(chunk).await.0.unwrap();
                }
            });
            for round in 0..20 {
                client.write_all(pattern(round, 64)).await.0.unwrap();
                let (result, got) = client.read_exact(vec![0; 64]).await;
                result.unwrap();
                assert_eq!(got, pattern(round, 64));
                filch::time::sleep(Duration::from_micros(50)).await;
            }
            drop(client);
            echo.await;
            stop.store(true, Ordering::Relaxed);
        });
        runtime.block_on(task);
    }

    fn completions_of_a_stuck_worker_are_told(on) {
        let runtime = on.builder().workers(1).build().unwrap();
        let task = runtime.spawn(async {
            let (client, server) = pair().await.unwrap();
            let (release, wait) = mpsc::channel();
            let reader = filch::spawn(async move {
                server.read(vec![0; 8]).await.0.unwrap();
                release.send(()).unwrap();
            });
            // Submitted before the worker gets stuck.
            for _ in 0..5 {
                filch::yield_now().await;
            }
            let write = std::thread::spawn(move || {
                let mut stream: std::net::TcpStream = to_std(&client);
                std::thread::sleep(Duration::from_millis(20));
                std::io::Write::write_all(&mut stream, b"now").unwrap();
            });
            // Without a word to the runtime: only the sentry can tell.
            wait.recv().unwrap();
            reader.await;
            write.join().unwrap();
        });
        runtime.block_on(task);
    }

    fn what_a_stuck_worker_has_queued_is_submitted(on) {
        let runtime = on.builder().workers(1).build().unwrap();
        let task = runtime.spawn(async {
            let (client, server) = pair().await.unwrap();
            client.write_all(b"there already").await.0.unwrap();
            let (release, wait) = mpsc::channel();
            let reader = filch::spawn(async move {
                let mut read = pin!(server.read(vec![0; 64]));
                let polled = crate::poll_once(read.as_mut()).await;
                // The blocker is next, before the worker visits its driver.
                let blocker = filch::spawn(async move { wait.recv().unwrap() });
                let count = match polled {
                    std::task::Poll::Ready((result, _)) => result.unwrap(),
                    std::task::Poll::Pending => read.await.0.unwrap(),
                };
                assert_eq!(count, 13);
                release.send(()).unwrap();
                blocker.await;
            });
            reader.await;
        });
        runtime.block_on(task);
    }

    fn operations_of_a_spare_move_when_it_goes(on) {
        let (stopped, stops) = mpsc::channel();
        let runtime = on
            .builder()
            .workers(1)
            .io_spares(1)
            .spare_keep_alive(Duration::from_millis(5))
            .on_thread_stop(move |worker| stopped.send((worker.role, worker.index)).unwrap())
            .build()
            .unwrap();
        let (client, server) = runtime.block_on(pair()).unwrap();
        let ((begun, has_begun), (release, wait)) = (mpsc::channel(), mpsc::channel());
        // The regular worker blocks, so the spare runs the rest.
        let blocker = runtime.spawn(async move { wait.recv().unwrap() });
        let reads = runtime.spawn(async move {
            {
                let mut read = pin!(server.read(vec![0; 8]));
                begin(read.as_mut()).await;
                begun.send(()).unwrap();
                let (result, buf) = read.await;
                assert_eq!(&buf[..result.unwrap()], b"moved");
            }
            // And a stream.
            begin(pin!(server.recv())).await;
            server
        });
        has_begun.recv().unwrap();
        release.send(()).unwrap();
        runtime.block_on(blocker);
        // No sleep orders this: the spare goes when it likes, before or after the write.
        let spare = stops.recv_timeout(Duration::from_secs(30)).unwrap();
        assert_eq!(spare, (filch::Role::Io, 1));
        runtime.block_on(async {
            client.write_all(b"moved").await.0.unwrap();
            let server = reads.await;
            client.write_all(b"again").await.0.unwrap();
            assert_eq!(&server.recv().await.unwrap().unwrap()[..], b"again");
        });
    }

    fn a_socket_is_used_in_another_runtime(on) {
        let (one, two) = (on.runtime(), on.runtime());
        let (client, server) = one.block_on(pair()).unwrap();
        let task = two.spawn(async move {
            let (result, buf) = server.read(vec![0; 16]).await;
            server.write_all(buf[..result.unwrap()].to_vec()).await.0.unwrap();
        });
        one.block_on(async {
            client.write_all(b"abroad").await.0.unwrap();
            let (result, buf) = client.read_exact(vec![0; 6]).await;
            result.unwrap();
            assert_eq!(buf, b"abroad");
        });
        two.block_on(task);
    }

    fn an_idle_runtime_with_open_sockets_sleeps(on) {
        let runtime = on.runtime();
        let task = runtime.spawn(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            filch::spawn(async move { server.recv().await.map(drop) }).detach();
            begin(pin!(listener.accept())).await;
            (listener, client)
        });
        let sockets = runtime.block_on(task);
        crate::eventually(|| runtime.snapshot().lanes[0].awake == 0);
        let parks = runtime.snapshot().total().parks;
        std::thread::sleep(Duration::from_millis(50));
        assert!(runtime.snapshot().total().parks <= parks + 2, "it keeps waking up");
        drop(sockets);
    }
}

/// The same connection for std.
pub fn to_std(stream: &TcpStream) -> std::net::TcpStream {
    use std::os::fd::AsFd;
    stream.as_fd().try_clone_to_owned().unwrap().into()
}
