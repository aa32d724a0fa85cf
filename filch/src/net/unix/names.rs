//! Addresses and credentials of sockets within a host.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;

use socket2::SockAddr;

use super::SocketAddr;

/// An address as std has it; one without a name if it is none of a Unix socket, or if std cannot make
/// one: the system takes a path of 108 bytes, std's constructor one of 107. A peer chooses its name, and
/// must not fail an `accept` by it.
pub(super) fn to_std(address: &SockAddr) -> io::Result<SocketAddr> {
    let named = match (address.as_pathname(), address.as_abstract_namespace()) {
        (Some(path), _) => SocketAddr::from_pathname(path),
        (None, Some(name)) => SocketAddr::from_abstract_name(name),
        (None, None) => SocketAddr::from_pathname(""),
    };
    named.or_else(|_| SocketAddr::from_pathname(""))
}

/// An address as the system takes it.
pub(super) fn to_system(address: &SocketAddr) -> io::Result<SockAddr> {
    if let Some(path) = address.as_pathname() {
        return SockAddr::unix(path);
    }
    let Some(name) = address.as_abstract_name() else {
        let text = "the address has no name";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    };
    use std::os::unix::ffi::OsStrExt;
    let path = [b"\0", name].concat();
    SockAddr::unix(std::ffi::OsStr::from_bytes(&path))
}

/// Who is at the other end of a Unix socket, when it was connected.
///
/// ```
/// use filch::net::UnixStream;
/// # filch::block_on(async {
/// let (here, _there) = UnixStream::pair()?;
/// assert_eq!(here.peer_cred()?.pid(), Some(std::process::id() as i32));
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UCred {
    pid: Option<libc::pid_t>,
    uid: libc::uid_t,
    gid: libc::gid_t,
}

impl UCred {
    /// The process, if it can be seen from here.
    pub fn pid(&self) -> Option<libc::pid_t> {
        self.pid
    }

    /// The user.
    pub fn uid(&self) -> libc::uid_t {
        self.uid
    }

    /// The group.
    pub fn gid(&self) -> libc::gid_t {
        self.gid
    }

    pub(super) fn of_peer(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let mut cred = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        let into = (&raw mut cred).cast();
        // SAFETY: there is room for so many bytes, and any bytes are valid there.
        let result = unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, into, &raw mut len) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let pid = Some(cred.pid).filter(|&pid| pid != 0);
        Ok(Self { pid, uid: cred.uid, gid: cred.gid })
    }
}
