//! Datagrams whose sends and receives are dropped.
//!
//! D1. A datagram is there if its send ended, and not if it was dropped; a dropped receive has taken none.
//!     Between Unix sockets they keep their order.

use std::sync::Arc;
use std::time::Duration;

use filch::net::{UdpSocket, UnixDatagram};
use filch::time::timeout;

use super::fate::{Fate, Op, tempt};
use super::{Aborted, Epoch};
use crate::storm::Rng;

/// So many fit into the buffer of any socket.
const AT_ONCE: u64 = 8;

fn datagram(number: u64) -> Vec<u8> {
    let len = 8 + (number * 37) % 900;
    number.to_le_bytes().into_iter().chain((8..len).map(|i| (i ^ number) as u8)).collect()
}

fn number_of(bytes: &[u8]) -> u64 {
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(bytes == datagram(number), "D1: datagram {number}");
    number
}

macro_rules! rounds {
    ($epoch:ident, $dice:ident, $here:ident, $there:ident) => {{
        let (here, there) = (Arc::new($here), Arc::new($there));
        let mut next = 0;
        let mut missing = Vec::new();
        while !$epoch.stops() {
            for _ in 0..$dice.below(AT_ONCE) {
                let (socket, bytes) = (here.clone(), datagram(next));
                let op: Op<_> = Box::pin(async move { socket.send(&bytes).await });
                match tempt(&mut $dice, op).await {
                    Fate::Done(result) => {
                        $epoch.check(result, "send")?;
                        missing.push(next);
                    }
                    Fate::Never | Fate::Perhaps => {}
                }
                next += 1;
            }
            while !missing.is_empty() {
                let (socket, peeks) = (there.clone(), $dice.one_in(4));
                let op: Op<_> = Box::pin(async move {
                    let mut buf = vec![0; 1000];
                    let count = match peeks {
                        true => socket.peek(&mut buf).await?,
                        false => socket.recv(&mut buf).await?,
                    };
                    buf.truncate(count);
                    std::io::Result::Ok(buf)
                });
                if let Some(result) = tempt(&mut $dice, op).await.done() {
                    let number = number_of(&$epoch.check(result, "recv")?);
                    let at = missing.iter().position(|&sent| sent == number);
                    let at = at.unwrap_or_else(|| panic!("D1: {number} is none of {missing:?}"));
                    if !peeks {
                        missing.remove(at);
                        $epoch.step();
                    }
                }
            }
            // And nothing else is there.
            if $dice.one_in(8) {
                let mut buf = [0; 1000];
                let nothing = timeout(Duration::from_micros(300), there.recv(&mut buf)).await;
                assert!(nothing.is_err() || $epoch.check(nothing.unwrap(), "recv").is_err(), "D1");
            }
            $epoch.step();
        }
        Ok(())
    }};
}

pub async fn udp(epoch: &'static Epoch, seed: u64) -> Result<(), Aborted> {
    let mut dice: Rng = epoch.dice(seed);
    let here = epoch.check(UdpSocket::bind("127.0.0.1:0").await, "bind")?;
    let there = epoch.check(UdpSocket::bind("127.0.0.1:0").await, "bind")?;
    let address = epoch.check(there.local_addr(), "local_addr")?;
    epoch.check(here.connect(address).await, "connect")?;
    rounds!(epoch, dice, here, there)
}

pub async fn unix(epoch: &'static Epoch, seed: u64) -> Result<(), Aborted> {
    let mut dice: Rng = epoch.dice(seed);
    let (here, there) = epoch.check(UnixDatagram::pair(), "pair")?;
    rounds!(epoch, dice, here, there)
}
