//! Connections that come and go while either side gives up.
//!
//! C1. What an accepted connection reads begins what its other side wrote. That nothing stays open is seen
//!     by who counts descriptors.

use std::future::Future;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr as UnixAddr;
use std::sync::Arc;
use std::time::Duration;

use filch::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use filch::time::timeout;

use super::fate::{Op, dawdle, tempt};
use super::streams::Stream;
use super::{Aborted, Epoch};
use crate::storm::Rng;

const MESSAGE: &[u8] = b"from a side that may go at any moment";

pub async fn tcp(epoch: &'static Epoch, seed: u64) -> Result<(), Aborted> {
    let mut dice = epoch.dice(seed);
    while !epoch.stops() {
        let bound = TcpListener::bind("127.0.0.1:0").await;
        let listener = Arc::new(epoch.check(bound, "bind")?);
        let address = epoch.check(listener.local_addr(), "local_addr")?;
        let accept = || {
            let listener = listener.clone();
            async move { listener.accept().await.map(|(stream, _)| stream) }
        };
        rush(epoch, &mut dice, accept, move || TcpStream::connect(address)).await?;
    }
    Ok(())
}

pub async fn unix(epoch: &'static Epoch, seed: u64) -> Result<(), Aborted> {
    let mut dice = epoch.dice(seed);
    while !epoch.stops() {
        let name = format!("filch-stress-{}-{seed}", std::process::id());
        let address = UnixAddr::from_abstract_name(name).unwrap();
        let listener = match UnixListener::bind_addr(&address) {
            // The last one is held by an accept that has not ended yet.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                dawdle(&mut dice).await;
                continue;
            }
            bound => Arc::new(epoch.check(bound, "bind")?),
        };
        let accept = || {
            let listener = listener.clone();
            async move { listener.accept().await.map(|(stream, _)| stream) }
        };
        let connect = move || {
            let address = address.clone();
            async move { UnixStream::connect_addr(&address).await }
        };
        rush(epoch, &mut dice, accept, connect).await?;
    }
    Ok(())
}

/// Some connections to one listener, which goes with the last `accept`.
async fn rush<S, A, C>(
    epoch: &'static Epoch,
    dice: &mut Rng,
    accept: impl Fn() -> A,
    connect: impl Fn() -> C,
) -> Result<(), Aborted>
where
    S: Stream,
    A: Future<Output = io::Result<S>> + Send + 'static,
    C: Future<Output = io::Result<S>> + Send + 'static,
{
    let mut sides = Vec::new();
    for _ in 0..1 + dice.below(12) {
        let (client, mut own) = (connect(), Rng::new(dice.next()));
        sides.push(filch::spawn(async move {
            if let Some(Ok(stream)) = tempt(&mut own, Box::pin(client)).await.done() {
                speak(stream, &mut own).await;
            }
        }));
        if dice.one_in(2) {
            // None may come, because some clients give up before they connect.
            let op: Op<_> = Box::pin(timeout(Duration::from_millis(3), accept()));
            if let Some(Ok(accepted)) = tempt(dice, op).await.done() {
                let (stream, own) = (epoch.check(accepted, "accept")?, Rng::new(dice.next()));
                sides.push(filch::spawn(listen(stream, own)));
            }
        }
        epoch.step();
    }
    // What nobody has accepted goes with the listener, before its client can hear an answer.
    if dice.one_in(2) {
        drop(accept());
    }
    drop((accept, connect));
    for side in sides {
        match side.outcome().await {
            Ok(()) => {}
            Err(error) if error.is_cancelled() => return Err(Aborted),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    Ok(())
}

/// A client: whatever fails, fails.
async fn speak<S: Stream>(stream: S, dice: &mut Rng) {
    let stream = Arc::new(stream);
    let here = stream.clone();
    let op: Op<_> = Box::pin(async move { here.write_all(MESSAGE.to_vec()).await.0 });
    let _ = tempt(dice, op).await;
    if dice.one_in(2) {
        let op: Op<_> = Box::pin(async move { stream.read(vec![0; 1]).await.0 });
        let _ = tempt(dice, Box::pin(timeout(Duration::from_millis(2), op))).await;
    }
}

async fn listen<S: Stream>(stream: S, mut dice: Rng) {
    let (stream, mut heard) = (Arc::new(stream), Vec::new());
    while heard.len() < MESSAGE.len() && !dice.one_in(16) {
        let here = stream.clone();
        let op: Op<_> = Box::pin(async move { here.recv().await });
        match tempt(&mut dice, Box::pin(timeout(Duration::from_millis(2), op))).await.done() {
            Some(Ok(Ok(Some(chunk)))) => heard.extend_from_slice(&chunk),
            Some(Ok(_)) => break,
            Some(Err(_)) | None => {}
        }
    }
    assert!(MESSAGE.starts_with(&heard), "C1");
}
