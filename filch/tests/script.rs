//! Scripted I/O: the same programs on a simulated network, whose course a seed decides.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::pin::pin;
use std::time::Duration;

use filch::io::{AsyncReadExt, AsyncWriteExt};
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
        let bytes = if testkit::random().is_multiple_of(2) {
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

/// The run of a program with each seed.
fn runs<T: Send + 'static>(sim: &Sim, seeds: u64, program: fn() -> T) -> Vec<testkit::Run<T>> {
    (0..seeds).map(|seed| sim.clone().seed(seed).try_run(program).unwrap()).collect()
}

#[test]
fn echoes_are_whole_under_a_thousand_seeds() {
    let script = IoScript::new().buffers(40);
    Sim::new().compute_workers(1).io(script).check(0..1000, || echo_program(2, 60));
}

#[test]
fn same_seed_gives_the_same_run_whatever_descriptors_are_free() {
    let trace = || -> Vec<_> {
        let told = |run: testkit::Run<()>| (run.trace, run.switches);
        runs(&Sim::new(), 20, || echo_program(2, 100)).into_iter().map(told).collect()
    };
    let first = trace();
    let _taken: Vec<_> = (0..5).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    assert_eq!(first, trace());
    assert_eq!(first.iter().collect::<HashSet<_>>().len(), 20);
}

/// Sends bytes from one end to the other as `write` does it, and compares.
async fn deliver(write: impl AsyncFnOnce(UnixStream, Vec<u8>)) {
    let (here, mut there) = UnixStream::pair().unwrap();
    let sent = pattern(0, 40);
    let reads = spawn(async move {
        let mut got = Vec::new();
        there.read_to_end(&mut got).await.map(|_| got)
    });
    write(here, sent.clone()).await;
    assert_eq!(reads.await.unwrap(), sent, "bytes are missing");
}

#[test]
fn write_whose_count_is_ignored_is_found_and_its_seed_replays_it() {
    let careless = || {
        block_on(deliver(async |stream, bytes| {
            stream.write(bytes).await.0.unwrap();
        }));
    };
    let failure = Sim::new().find(0..100, careless).expect("a short write");
    assert_eq!(failure.kind(), FailureKind::Panic);
    let text = failure.to_string();
    assert!(text.contains("bytes are missing") && text.contains("FILCH_SIM_SEED="), "{text}");
    let again = Sim::new().seed(failure.seed()).try_run(careless).unwrap_err();
    assert_eq!(again.to_string(), text);
    // Where nothing is short, there is nothing to find.
    assert!(Sim::new().io(IoScript::calm()).find(0..20, careless).is_none());
    Sim::new().check(0..100, || {
        block_on(deliver(async |stream, bytes| {
            stream.write_all(bytes).await.0.unwrap();
        }));
    });
}

/// Reads a message, and gives up and begins anew whenever it takes long.
async fn receive_patiently(stream: &mut UnixStream, way: Way) -> Vec<u8> {
    let patience = Duration::from_micros(300);
    loop {
        let got = match way {
            // What a dropped `read_exact` of a trait has read is gone: it is the caller's buffer.
            Way::Borrowed => {
                let mut buffer = vec![0; 40];
                let read = AsyncReadExt::read_exact(stream, &mut buffer);
                match timeout(patience, read).await {
                    Ok(result) => result.map(|()| Some(buffer)),
                    Err(_) => Ok(None),
                }
            }
            Way::Owned => {
                match timeout(patience, UnixStream::read_exact(stream, vec![0; 40])).await {
                    Ok((result, buffer)) => result.map(|_| Some(buffer)),
                    Err(_) => Ok(None),
                }
            }
        };
        if let Some(buffer) = got.expect("the message is shorter than it was") {
            return buffer;
        }
    }
}

#[derive(Clone, Copy)]
enum Way {
    Borrowed,
    Owned,
}

fn patient_program(way: Way) {
    block_on(async move {
        let (here, mut there) = UnixStream::pair().unwrap();
        let writes = spawn(async move {
            for byte in pattern(0, 40) {
                here.write_all(vec![byte]).await.0.unwrap();
            }
        });
        assert_eq!(receive_patiently(&mut there, way).await, pattern(0, 40));
        writes.await;
    });
}

#[test]
fn read_that_loses_what_it_has_when_it_is_dropped_is_found_and_ours_loses_nothing() {
    let failure = Sim::new().find(0..100, || patient_program(Way::Borrowed));
    assert!(failure.expect("bytes are lost").to_string().contains("shorter"));
    Sim::new().check(0..100, || patient_program(Way::Owned));
}

#[test]
fn timeouts_and_late_replies_are_decided_in_virtual_time() {
    let begin = std::time::Instant::now();
    let program = || {
        block_on(async {
            let listener = TcpListener::bind(ADDRESS).await.unwrap();
            let server = spawn(async move {
                let (stream, _) = listener.accept().await.unwrap();
                echo(stream).await
            });
            let stream = TcpStream::connect(ADDRESS).await.unwrap();
            let start = time::Instant::now();
            stream.write_all("ping").await.0.unwrap();
            let asked = start.elapsed();
            let reply = timeout(Duration::from_secs(5), stream.read_exact(vec![0; 4])).await;
            let waited = start.elapsed() - asked;
            let came = match reply {
                Ok((result, buffer)) => {
                    result.unwrap();
                    assert_eq!(buffer, b"ping");
                    assert!(waited < Duration::from_secs(6), "{waited:?}");
                    true
                }
                Err(_) => {
                    assert!(waited >= Duration::from_secs(5), "{waited:?}");
                    assert_eq!(stream.read_exact(vec![0; 4]).await.1, b"ping", "late, not lost");
                    false
                }
            };
            drop(stream);
            server.await.unwrap();
            (came, start.elapsed())
        })
    };
    let sim = Sim::new().io(IoScript::new().delays(Duration::from_secs(3)));
    let values: Vec<_> = runs(&sim, 100, program).into_iter().map(|run| run.value).collect();
    let in_time = values.iter().filter(|(came, _)| *came).count();
    assert!((1..100).contains(&in_time), "{in_time} of 100 in time");
    let passed: Duration = values.iter().map(|(_, passed)| *passed).sum();
    assert!(passed > begin.elapsed() * 10, "{passed:?} of virtual time");
}

/// Moves bytes while both sides give up at random moments.
fn fickle_program() {
    block_on(async {
        let listener = TcpListener::bind(ADDRESS).await.unwrap();
        let writer = spawn(async {
            let stream = TcpStream::connect(ADDRESS).await.unwrap();
            let bytes = pattern(0, 150);
            let mut sent = 0;
            while sent < bytes.len() {
                let mut write = pin!(stream.write_all(bytes[sent..].to_vec()));
                let done = timeout(moment(), write.as_mut()).await;
                let (result, _) = match done {
                    Ok(done) => done,
                    Err(_) => write.cancel().await,
                };
                match result {
                    Ok(count) => sent += count,
                    Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ECANCELED)),
                }
            }
            // A write that is dropped has not started or runs to its end.
            drop(timeout(moment(), stream.write_all(vec![7; 20])).await);
        });
        let accept = async {
            loop {
                if let Ok(accepted) = timeout(moment(), listener.accept()).await {
                    return accepted.unwrap().0;
                }
            }
        };
        let stream = accept.await;
        let mut got = Vec::new();
        loop {
            let next = match testkit::random() % 3 {
                0 => timeout(moment(), stream.read(vec![0; 30]))
                    .await
                    .ok()
                    .map(|(result, buffer)| result.map(|count| buffer[..count].to_vec())),
                1 => timeout(moment(), stream.recv()).await.ok().map(|result| {
                    result.map(|chunk| chunk.map_or_else(Vec::new, |chunk| chunk.to_vec()))
                }),
                _ => {
                    let mut read = pin!(stream.read(vec![0; 30]));
                    let (result, buffer) = match timeout(moment(), read.as_mut()).await {
                        Ok(done) => done,
                        Err(_) => read.cancel().await,
                    };
                    match result {
                        Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => None,
                        result => Some(result.map(|count| buffer[..count].to_vec())),
                    }
                }
            };
            match next.transpose().unwrap() {
                None => {}
                Some(bytes) if bytes.is_empty() => break,
                Some(bytes) => got.extend(bytes),
            }
        }
        writer.await;
        assert_eq!(got[..150], pattern(0, 150));
        assert!(got[150..].is_empty() || got[150..] == [7; 20], "{:?}", &got[150..]);
    });
}

fn moment() -> Duration {
    Duration::from_micros(testkit::random() % 1000)
}

#[test]
fn cancels_and_drops_at_random_moments_lose_no_byte() {
    Sim::new().io(IoScript::new().buffers(50)).check(0..200, fickle_program);
}

/// Every kind of operation on sockets, once.
fn one_of_everything() {
    block_on(async {
        let listener = TcpListener::bind(ADDRESS).await.unwrap();
        let server = spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            echo(stream).await.unwrap()
        });
        let stream = TcpStream::connect(ADDRESS).await.unwrap();
        stream.set_zero_copy(Some(50));
        let (reader, mut writer) = stream.into_split();
        let writes = spawn(async move {
            writer.write_all(pattern(0, 60)).await.0.unwrap();
            writer.write_all(pattern(60, 20)).await.0.unwrap();
            AsyncWriteExt::write_all(&mut writer, &pattern(80, 20)).await.unwrap();
        });
        reader.readable().await.unwrap();
        reader.peek(&mut [0; 10]).await.unwrap();
        let (result, mut got) = reader.read_exact(vec![0; 50]).await;
        result.unwrap();
        while let Some(chunk) = reader.recv().await.unwrap() {
            got.extend_from_slice(&chunk);
        }
        writes.await;
        assert_eq!(got, pattern(0, 100));
        assert_eq!(server.await, 100);
        let (here, there) = (UnixDatagram::unbound().unwrap(), UnixDatagram::bind("a").unwrap());
        let sends = spawn(async move { here.send_to(b"datagram", "a").await.unwrap() });
        assert_eq!(there.recv(&mut [0; 20]).await.unwrap(), sends.await);
    });
}

#[test]
fn operations_that_nobody_cancelled_and_the_kernel_gives_up_are_begun_anew() {
    for script in [IoScript::calm(), IoScript::new().buffers(30)] {
        Sim::new().io(script.hiccups(0.5)).check(0..200, one_of_everything);
    }
}

#[test]
fn peer_that_never_answers_is_a_deadlock_that_names_the_read() {
    let failure = Sim::new().find(0..1, || {
        block_on(async {
            let listener = TcpListener::bind(ADDRESS).await.unwrap();
            let silent = spawn(async move { listener.accept().await.unwrap() });
            let stream = TcpStream::connect(ADDRESS).await.unwrap();
            let _silent = silent.await;
            stream.read(vec![0; 1]).await.0.unwrap();
        });
    });
    let failure = failure.unwrap();
    assert_eq!(failure.kind(), FailureKind::Deadlock, "{failure}");
    let text = failure.to_string();
    assert!(text.contains("to 127.0.0.1:80, ") && text.contains("awaited by a read"), "{text}");
}

#[test]
fn resets_leave_a_prefix_of_what_was_sent_and_nobody_waiting() {
    let sim = Sim::new().io(IoScript::new().resets(0.05));
    let broken = runs(&sim, 100, || {
        block_on(async {
            let listener = TcpListener::bind(ADDRESS).await.unwrap();
            let writer = spawn(async {
                let stream = TcpStream::connect(ADDRESS).await.unwrap();
                for piece in pattern(0, 200).chunks(40) {
                    stream.write_all(piece.to_vec()).await.0?;
                }
                io::Result::Ok(())
            });
            let (stream, _) = listener.accept().await.unwrap();
            let mut got = Vec::new();
            let end = loop {
                let (result, buffer) = stream.read(vec![0; 64]).await;
                match result {
                    Ok(0) => break Ok(()),
                    Ok(count) => got.extend_from_slice(&buffer[..count]),
                    Err(error) => break Err(error.kind()),
                }
            };
            assert!(pattern(0, 200).starts_with(&got), "{got:?}");
            let written = writer.await.map_err(|error| error.kind());
            let fair = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
            assert!(end.is_ok() || fair.contains(&end.unwrap_err()), "{end:?}");
            assert!(written.is_ok() || fair.contains(&written.unwrap_err()), "{written:?}");
            assert!(end.is_err() || written.is_err() || got.len() == 200);
            end.is_err()
        })
    });
    let broken = broken.iter().filter(|run| run.value).count();
    assert!((10..100).contains(&broken), "{broken} of 100 broke");
}

#[test]
fn connections_are_refused_where_nobody_listens_and_by_the_script() {
    let sim = Sim::new().io(IoScript::new().refusals(0.5));
    let refused = runs(&sim, 50, || {
        block_on(async {
            let nobody = TcpStream::connect("127.0.0.1:81").await.unwrap_err();
            assert_eq!(nobody.kind(), ErrorKind::ConnectionRefused);
            let listener = TcpListener::bind(ADDRESS).await.unwrap();
            let twice = TcpListener::bind(ADDRESS).await.unwrap_err();
            assert_eq!(twice.kind(), ErrorKind::AddrInUse);
            match TcpStream::connect(ADDRESS).await {
                Ok(stream) => {
                    let (accepted, peer) = listener.accept().await.unwrap();
                    assert_eq!(peer, stream.local_addr().unwrap());
                    assert_eq!(accepted.local_addr().unwrap(), stream.peer_addr().unwrap());
                    false
                }
                Err(error) => error.kind() == ErrorKind::ConnectionRefused,
            }
        })
    });
    let refused = refused.iter().filter(|run| run.value).count();
    assert!((10..40).contains(&refused), "{refused} of 50 refused");
}

#[test]
fn datagrams_overtake_and_are_lost_over_the_internet_and_not_within_a_host() {
    let sim = Sim::new().io(IoScript::new().losses(0.1));
    let internet = runs(&sim, 50, || {
        block_on(async {
            let here = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let there = UdpSocket::bind("0.0.0.0:53").await.unwrap();
            let mut got = Vec::new();
            for i in 0..10 {
                here.send_to(&[i; 3], "127.0.0.1:53").await.unwrap();
            }
            let mut buffer = [0; 16];
            while let Ok(received) =
                timeout(Duration::from_secs(1), there.recv_from(&mut buffer)).await
            {
                let (count, from) = received.unwrap();
                assert_eq!((count, from), (3, here.local_addr().unwrap()));
                got.push(buffer[0]);
            }
            got
        })
    });
    assert!(internet.iter().any(|run| run.value.len() < 10), "some are lost");
    assert!(internet.iter().any(|run| !run.value.is_sorted()), "some overtake");
    sim.check(0..20, || {
        block_on(async {
            let (here, there) = UnixDatagram::pair().unwrap();
            let sends = spawn(async move {
                for i in 0..10 {
                    here.send(&[i; 900]).await.unwrap();
                }
            });
            for i in 0..10 {
                let mut buffer = [0; 1000];
                assert_eq!(there.recv(&mut buffer).await.unwrap(), 900);
                assert_eq!(buffer[0], i);
            }
            sends.await;
        });
    });
}

#[test]
fn sockets_within_a_host_listen_at_names_that_make_no_files() {
    let path = std::env::temp_dir().join("filch-script-test");
    let at = path.clone();
    Sim::new().check(0..30, move || {
        let at = at.clone();
        block_on(async move {
            let listener = UnixListener::bind(&at).unwrap();
            let client = UnixStream::connect(&at).await.unwrap();
            let (server, _) = listener.accept().await.unwrap();
            assert_eq!(client.peer_addr().unwrap().as_pathname(), Some(&*at));
            client.write_all("over here").await.0.unwrap();
            drop(client);
            let (result, buffer) = server.read_exact(vec![0; 9]).await;
            assert_eq!((result.unwrap(), &buffer[..]), (9, &b"over here"[..]));
            assert_eq!(server.read(vec![0; 1]).await.0.unwrap(), 0);
        });
    });
    assert!(!path.exists());
}

#[test]
fn runtimes_of_one_simulation_reach_each_other() {
    Sim::new().check(0..20, || {
        let other = Builder::new().workers(1).build().unwrap();
        let listener = block_on(TcpListener::bind(ADDRESS)).unwrap();
        let client = other.spawn(exchange(0, 50));
        block_on(async {
            let (stream, _) = listener.accept().await.unwrap();
            echo(stream).await.unwrap();
        });
        other.block_on(client).unwrap();
    });
}

#[test]
fn completions_of_a_blocked_worker_are_served_by_others() {
    Sim::new().io(IoScript::calm()).check(0..50, || {
        block_on(async {
            let (here, there) = UnixStream::pair().unwrap();
            let reads = spawn(async move {
                let start = time::Instant::now();
                there.read_exact(vec![0; 4]).await.0.unwrap();
                start.elapsed()
            });
            filch::yield_now().await;
            let blocked = spawn(async { testkit::sleep(Duration::from_secs(10)) });
            time::sleep(Duration::from_millis(1)).await;
            here.write_all("ping").await.0.unwrap();
            assert!(reads.await < Duration::from_secs(1));
            blocked.await;
        });
    });
}

#[test]
fn runs_leave_no_descriptor_behind_whatever_is_in_flight_at_their_end() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let program = || {
        let listener = block_on(TcpListener::bind(ADDRESS)).unwrap();
        for _ in 0..3 {
            spawn(async {
                let stream = TcpStream::connect(ADDRESS).await.unwrap();
                stream.write_all(vec![1; 10_000]).await.0.unwrap();
                stream.read(vec![0; 1]).await.0.unwrap();
            })
            .detach();
        }
        spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            stream.recv().await.unwrap();
            std::future::pending::<()>().await;
        })
        .detach();
        testkit::sleep(Duration::from_micros(testkit::random() % 3000));
    };
    // Other tests of this process open and close descriptors too.
    let leaks = (0..20).all(|round| {
        let before = descriptors();
        Sim::new().check(20 * round..20 * round + 20, program);
        descriptors() > before + 20
    });
    assert!(!leaks, "descriptors are left behind");
}

/// Reads lines while it gives up calls as it likes, by a timeout or after a poll.
async fn lines_in_spite_of_drops(stream: TcpStream) -> io::Result<Vec<String>> {
    let capacity = 1 + testkit::random() as usize % 20;
    let mut reader = filch::io::BufReader::with_capacity(capacity, stream);
    let mut lines = Vec::new();
    loop {
        let patience = Duration::from_micros(testkit::random() % 200);
        match timeout(patience, reader.next_line()).await {
            Ok(Ok(Some(line))) => lines.push(line),
            Ok(Ok(None)) => return Ok(lines),
            Ok(Err(error)) => return Err(error),
            Err(_) => {}
        }
    }
}

#[test]
fn lines_are_whole_under_every_script_though_calls_are_dropped() {
    Sim::new().check(0..100, || {
        block_on(async {
            let listener = TcpListener::bind(ADDRESS).await.unwrap();
            let sent: Vec<_> = (0..20).map(|i| format!("{i} {}", "x".repeat(i * 3))).collect();
            let text = sent.join("\r\n");
            let client = spawn(async move {
                let stream = TcpStream::connect(ADDRESS).await?;
                for piece in text.as_bytes().chunks(11) {
                    stream.write_all(piece.to_vec()).await.0?;
                    time::sleep(Duration::from_micros(testkit::random() % 100)).await;
                }
                io::Result::Ok(())
            });
            let (server, _) = listener.accept().await.unwrap();
            assert_eq!(lines_in_spite_of_drops(server).await.unwrap(), sent);
            client.await.unwrap();
        });
    });
}
