//! Requests as the simulated network performs them: once, without waiting.
//!
//! C1. What a request points to is touched during the attempt only, and only if it succeeds.
//! C2. Of a connection, an attempt moves as many bytes as the dice say, and at least one.

use std::io;
use std::os::fd::RawFd;
use std::time::Instant;

use socket2::SockAddr;

use super::connection::Look;
use super::name::Name;
use super::network::{Network, Outcome, Role, State, Watch};
use crate::base::sim;
use crate::io::request::Request;

/// Memory of a request, a piece at a time.
type Piece = (*mut u8, usize);

fn total(pieces: &[Piece]) -> usize {
    pieces.iter().map(|(_, len)| len).sum()
}

/// Copies bytes to where a request wants them; how many there was room for.
///
/// # Safety
/// The pieces may be written.
unsafe fn scatter(mut bytes: &[u8], pieces: &[Piece]) -> usize {
    let before = bytes.len();
    for &(to, len) in pieces {
        let (piece, rest) = bytes.split_at(len.min(bytes.len()));
        // SAFETY: by the caller's promise; it is other memory than the network's.
        unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), to, piece.len()) };
        bytes = rest;
    }
    before - bytes.len()
}

/// Copies the first bytes of a request.
///
/// # Safety
/// The pieces may be read.
unsafe fn gather(pieces: &[Piece], count: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count);
    for &(from, len) in pieces {
        let len = len.min(count - bytes.len());
        if len > 0 {
            // SAFETY: by the caller's promise.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(from, len) });
        }
    }
    bytes
}

/// The pieces of a message.
///
/// # Safety
/// The header and its list may be read.
unsafe fn pieces_of(msg: *const libc::msghdr) -> Vec<Piece> {
    // SAFETY: by the caller's promise.
    let msg = unsafe { &*msg };
    if msg.msg_iovlen == 0 {
        return Vec::new();
    }
    // SAFETY: by the caller's promise.
    let list = unsafe { std::slice::from_raw_parts(msg.msg_iov, msg.msg_iovlen as _) };
    list.iter().map(|piece| (piece.iov_base.cast(), piece.iov_len)).collect()
}

/// The address that a request points to.
///
/// # Safety
/// `addr` may be read for `len` bytes.
unsafe fn address_of(
    addr: *const libc::sockaddr_storage,
    len: libc::socklen_t,
) -> io::Result<Name> {
    let copy = |storage: *mut socket2::SockAddrStorage, size: *mut libc::socklen_t| {
        let bytes = (len as usize).min(size_of::<libc::sockaddr_storage>());
        // SAFETY: by the caller's promise, and the storage is as large.
        unsafe { std::ptr::copy_nonoverlapping(addr.cast::<u8>(), storage.cast(), bytes) };
        // SAFETY: it is given to be written.
        unsafe { size.write(len) };
        Ok(())
    };
    // SAFETY: the storage is filled with an address of its length.
    let ((), address) = unsafe { SockAddr::try_init(copy) }?;
    Name::of(&address)
}

impl Network {
    /// Attempts a request. Whoever is told that it would block is woken through `watch`, if there is one.
    ///
    /// # Safety
    /// R1 of `request` holds during the call.
    pub(super) unsafe fn attempt(&self, request: &Request, watch: Option<&Watch>) -> Outcome {
        let mut state = self.lock();
        let outcome = match *request {
            Request::Recv { fd, buf, len, flags, .. } => {
                // SAFETY: R1, by the caller's promise.
                unsafe { state.receive(fd, &[(buf, len as usize)], flags, watch) }
            }
            Request::Send { fd, buf, len, .. } | Request::SendUncopied { fd, buf, len, .. } => {
                // SAFETY: as above.
                unsafe { state.send(fd, &[(buf.cast_mut(), len as usize)], None, watch) }
            }
            Request::RecvMsg { fd, msg, flags } => {
                // SAFETY: as above.
                let pieces = unsafe { pieces_of(msg) };
                // SAFETY: as above.
                unsafe { state.receive(fd, &pieces, flags, watch) }
            }
            Request::SendMsg { fd, msg, .. } => {
                // SAFETY: as above.
                let pieces = unsafe { pieces_of(msg) };
                // SAFETY: as above.
                unsafe { state.send(fd, &pieces, None, watch) }
            }
            Request::Connect { fd, addr, len } => {
                // SAFETY: as above.
                let to = unsafe { address_of(addr, len) };
                to.and_then(|to| state.connect(fd, &to, watch))
            }
            Request::AcceptMany { fd } => state.accept(fd, watch),
            Request::Poll { fd, direction } => state.poll(fd, direction, watch),
            // There are no files, and no other devices, in a simulation.
            _ => Ok(Outcome::Done(-libc::EOPNOTSUPP)),
        };
        outcome.unwrap_or_else(|error| Outcome::Done(-error.raw_os_error().unwrap_or(libc::EIO)))
    }

    /// Attempts a request as a call does that must not block: the dice may interrupt it, or say that it
    /// would.
    ///
    /// # Safety
    /// As for `attempt`.
    pub(super) unsafe fn call(&self, request: &Request) -> i32 {
        if let Err(hiccup) = self.lock().go_ahead() {
            return hiccup;
        }
        // SAFETY: by the caller's promise.
        match unsafe { self.attempt(request, None) } {
            Outcome::Done(result) => result,
            Outcome::Blocked(_) => -libc::EAGAIN,
        }
    }

    /// A datagram, and where it comes from.
    pub(crate) fn recv_from(
        &self,
        fd: RawFd,
        buf: &mut [std::mem::MaybeUninit<u8>],
        flags: i32,
    ) -> io::Result<(usize, SockAddr)> {
        let mut from = None;
        let mut state = self.lock();
        let take = |bytes: &[u8], name: &Name| {
            from = Some(name.clone());
            // SAFETY: `buf` may be written.
            unsafe { scatter(bytes, &[(buf.as_mut_ptr().cast(), buf.len())]) }
        };
        state.go_ahead().map_err(|hiccup| io::Error::from_raw_os_error(-hiccup))?;
        let count = to_io(state.receive_datagram(fd, flags, None, take)?)?;
        Ok((count, from.expect("a datagram comes from somewhere").to_system()?))
    }

    pub(crate) fn send_to(
        &self,
        fd: RawFd,
        bytes: &[u8],
        to: Option<&SockAddr>,
    ) -> io::Result<usize> {
        let to = to.map(Name::of).transpose()?;
        let pieces = [(bytes.as_ptr().cast_mut(), bytes.len())];
        let mut state = self.lock();
        state.go_ahead().map_err(|hiccup| io::Error::from_raw_os_error(-hiccup))?;
        // SAFETY: the bytes are borrowed, and read only.
        to_io(unsafe { state.send(fd, &pieces, to.as_ref(), None) }?)
    }
}

fn to_io(outcome: Outcome) -> io::Result<usize> {
    match outcome {
        Outcome::Done(result) => crate::io::sys::to_io(result).map(|count| count as usize),
        Outcome::Blocked(_) => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl State {
    /// Whether a call goes well; else it is interrupted, or told that it would block.
    fn go_ahead(&mut self) -> Result<(), i32> {
        match (self.dice.hiccups(), self.dice.hiccups()) {
            (true, _) => Err(-libc::EINTR),
            (false, true) => Err(-libc::EAGAIN),
            (false, false) => Ok(()),
        }
    }

    fn is_mailbox(&mut self, fd: RawFd) -> io::Result<bool> {
        Ok(matches!(self.socket(fd)?.role, Role::Mailbox(_)))
    }

    /// # Safety
    /// The pieces may be written.
    unsafe fn receive(
        &mut self,
        fd: RawFd,
        pieces: &[Piece],
        flags: i32,
        watch: Option<&Watch>,
    ) -> io::Result<Outcome> {
        if self.is_mailbox(fd)? {
            let take = |bytes: &[u8], _: &Name| {
                // SAFETY: by the caller's promise.
                unsafe { scatter(bytes, pieces) }
            };
            return self.receive_datagram(fd, flags, watch, take);
        }
        let now = sim::now();
        let (dice, connection, topic, side) = self.connected(fd)?;
        match connection.look_in(side, now) {
            Look::Nothing => Ok(self.block(topic, None, watch)),
            Look::Later(at) => Ok(self.block(topic, Some(at), watch)),
            Look::End => Ok(Outcome::Done(0)),
            Look::Error(error) => {
                connection.tell(side, error);
                Ok(Outcome::Done(error))
            }
            Look::Bytes(_) if dice.resets() => Ok(self.break_down(fd, now)),
            Look::Bytes(there) => {
                let count = dice.share(there.min(total(pieces)));
                let bytes: Vec<u8> = connection.bytes(side).iter().copied().take(count).collect();
                // SAFETY: by the caller's promise.
                let count = unsafe { scatter(&bytes, pieces) };
                if flags & libc::MSG_PEEK == 0 {
                    connection.take(side, count);
                    self.touch(topic);
                }
                Ok(Outcome::Done(count as i32))
            }
        }
    }

    /// # Safety
    /// The pieces may be read.
    unsafe fn send(
        &mut self,
        fd: RawFd,
        pieces: &[Piece],
        to: Option<&Name>,
        watch: Option<&Watch>,
    ) -> io::Result<Outcome> {
        if self.is_mailbox(fd)? {
            // SAFETY: by the caller's promise.
            let bytes = unsafe { gather(pieces, total(pieces)) };
            return self.send_datagram(fd, bytes, to, watch);
        }
        let now = sim::now();
        let (dice, connection, topic, side) = self.connected(fd)?;
        match connection.look_out(side, now) {
            Look::Nothing => Ok(self.block(topic, None, watch)),
            Look::Later(at) => Ok(self.block(topic, Some(at), watch)),
            Look::End => unreachable!("a writer finds room, or an error"),
            Look::Error(error) => {
                connection.tell(side, error);
                Ok(Outcome::Done(error))
            }
            Look::Bytes(_) if dice.resets() => Ok(self.break_down(fd, now)),
            Look::Bytes(room) => {
                let count = dice.share(room.min(total(pieces)));
                let at = now + dice.delay();
                // SAFETY: by the caller's promise.
                let bytes = unsafe { gather(pieces, count) };
                if count > 0 {
                    connection.send(side, bytes.into_iter(), at);
                    self.touch(topic);
                }
                Ok(Outcome::Done(count as i32))
            }
        }
    }

    /// The connection of a socket breaks at an attempt of this side.
    fn break_down(&mut self, fd: RawFd, now: Instant) -> Outcome {
        if let Ok((dice, connection, topic, side)) = self.connected(fd) {
            connection.break_down(side, now, now + dice.delay());
            self.touch(topic);
        }
        Outcome::Done(-libc::ECONNRESET)
    }
}
