//! Readiness of the client's sockets, level-triggered.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Events that one wait returns at most.
const EVENTS: usize = 256;

pub struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl Epoll {
    pub fn new() -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let fd = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor is new and ours.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, events: Vec::with_capacity(EVENTS) })
    }

    /// Tells of bytes to read, until the socket is closed.
    pub fn add(&self, socket: &impl AsFd, token: usize) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token as u64 };
        let (epoll, socket) = (self.fd.as_raw_fd(), socket.as_fd().as_raw_fd());
        // SAFETY: the event lives during the call.
        let result = unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, socket, &raw mut event) };
        checked(result).map(drop)
    }

    /// Waits for at most this long; the tokens of what is ready.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<impl Iterator<Item = usize> + '_> {
        let spec = libc::timespec {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let (fd, events) = (self.fd.as_raw_fd(), self.events.as_mut_ptr());
        // SAFETY: there is room for `EVENTS` events, and the time lives during the call.
        let count = unsafe {
            let no_mask = std::ptr::null::<libc::sigset_t>();
            libc::syscall(libc::SYS_epoll_pwait2, fd, events, EVENTS, &raw const spec, no_mask, 0)
        };
        let count = match checked(count as i32) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            count => count?,
        };
        // SAFETY: the kernel has filled so many.
        unsafe { self.events.set_len(count as usize) };
        Ok(self.events.iter().map(|event| event.u64 as usize))
    }
}
