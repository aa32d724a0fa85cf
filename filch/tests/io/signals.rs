//! Signals that interrupt system calls: no operation notices them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use filch::fs::File;
use filch::io::{AsyncReadExt, AsyncWriteExt};
use filch::net::UdpSocket;
use filch::time::{sleep, timeout};

use crate::{on_each_backend, pair, pattern};

/// Signals that have come, on any thread.
static CAME: AtomicUsize = AtomicUsize::new(0);

extern "C" fn note(_: libc::c_int) {
    CAME.fetch_add(1, SeqCst);
}

/// Has calls that the signal interrupts fail: without `SA_RESTART`.
fn listen() {
    // SAFETY: zeroes are a valid action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = note as *const () as usize;
    // SAFETY: the handler does what is allowed in one.
    let result = unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) };
    assert_eq!(result, 0);
}

/// Sends signals to all other threads until told to stop.
fn pelt(stop: &AtomicBool) {
    // SAFETY: no memory is involved.
    let own = unsafe { libc::gettid() };
    while !stop.load(SeqCst) {
        for thread in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
            let thread: libc::pid_t = thread.file_name().to_str().unwrap().parse().unwrap();
            if thread != own {
                // SAFETY: as above; a thread that has ended is not found.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1) };
            }
        }
        std::thread::yield_now();
    }
}

/// A bit of everything.
async fn round(number: usize, file: &File) -> std::io::Result<()> {
    let (client, server) = pair().await?;
    let echo = filch::spawn(async move {
        while let Some(chunk) = server.recv().await? {
            server.write_all(chunk).await.0?;
        }
        std::io::Result::Ok(())
    });
    client.write_all(pattern(number, 5000)).await.0?;
    let (result, got) = client.read_exact(vec![0; 5000]).await;
    result?;
    assert_eq!(got, pattern(number, 5000));
    (&client).write_all(b"by futures-io").await?;
    let mut got = [0; 13];
    (&client).read_exact(&mut got).await?;
    assert_eq!(&got, b"by futures-io");
    // Nothing comes, so this waits in the kernel.
    assert!(timeout(Duration::from_micros(300), client.read(vec![0; 1])).await.is_err());
    drop(client);
    echo.await?;
    let (here, there) =
        (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
    here.send_to(b"datagram", there.local_addr()?).await?;
    assert_eq!(there.recv(&mut [0; 100]).await?, 8);
    file.write_all_at(pattern(number, 1 << 20), 0).await.0?;
    file.sync_data().await?;
    let (result, got) = file.read_exact_at(vec![0; 1 << 20], 0).await;
    result?;
    assert!(got == pattern(number, 1 << 20));
    sleep(Duration::from_micros(500)).await;
    Ok(())
}

on_each_backend! {
    fn signals_interrupt_nothing(on) {
        let _alone = crate::alone();
        listen();
        let path = std::env::temp_dir().join(format!("filch-signals-{}", std::process::id()));
        let stop = Arc::new(AtomicBool::new(false));
        let pelting = std::thread::spawn({
            let stop = stop.clone();
            move || pelt(&stop)
        });
        let runtime = on.runtime();
        let (before, at) = (CAME.load(SeqCst), path.clone());
        let task = runtime.spawn(async move {
            let file = File::options().read(true).write(true).create(true).open(at).await?;
            let mut number = 0;
            while CAME.load(SeqCst) < before + 2000 || number < 20 {
                round(number, &file).await?;
                number += 1;
            }
            std::io::Result::Ok(())
        });
        let result = runtime.block_on(task);
        stop.store(true, SeqCst);
        pelting.join().unwrap();
        std::fs::remove_file(path).unwrap();
        result.unwrap();
    }
}
