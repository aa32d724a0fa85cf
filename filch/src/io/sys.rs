//! System calls, thinly: each answers as a completion does, with a count or a negated error number.
//!
//! Y1. A call on a socket does not block: it says so itself (`MSG_DONTWAIT`), because a socket that was
//!     set not to block would not be waited for by a ring.
//! Y2. A descriptor that is made here is closed on `exec`.
//! Y3. On a thread of a simulation, calls on sockets are made on its network instead (`fake`).
//! Y4. What is called for each message is called without the C library's wrapper: that is a place where a
//!     thread may be cancelled, and two atomic operations make it one.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use super::cause::error_of;
use super::fake;
use super::readiness::Direction;
use super::request::{First, Request};

/// The error number that the last call left, negated.
fn last_error() -> i32 {
    -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// No address.
const NOBODY: *mut libc::sockaddr = std::ptr::null_mut();

fn count(result: isize) -> i32 {
    if result < 0 { last_error() } else { i32::try_from(result).unwrap_or(i32::MAX) }
}

fn small(result: libc::c_int) -> i32 {
    if result < 0 { last_error() } else { result }
}

/// An answer as std has it.
pub(crate) fn to_io(result: i32) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| error_of(result))
}

/// # Safety
/// `buf` may be written for `len` bytes.
pub(crate) unsafe fn recv(fd: RawFd, buf: *mut u8, len: u32, flags: i32) -> i32 {
    // SAFETY: by the caller's promise.
    let faked = unsafe { fake::call(&Request::Recv { fd, buf, len, flags, first: First::Try }) };
    if let Some(result) = faked {
        return result;
    }
    let flags = flags | libc::MSG_DONTWAIT;
    // SAFETY: by the caller's promise.
    let result =
        unsafe { libc::syscall(libc::SYS_recvfrom, fd, buf, len as usize, flags, NOBODY, NOBODY) };
    count(result as isize)
}

/// # Safety
/// `buf` may be read for `len` bytes.
pub(crate) unsafe fn send(fd: RawFd, buf: *const u8, len: u32, flags: i32) -> i32 {
    // SAFETY: by the caller's promise.
    if let Some(result) = unsafe { fake::call(&Request::Send { fd, buf, len, flags }) } {
        return result;
    }
    let flags = flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: by the caller's promise.
    let result =
        unsafe { libc::syscall(libc::SYS_sendto, fd, buf, len as usize, flags, NOBODY, 0usize) };
    count(result as isize)
}

/// # Safety
/// What `msg` leads to may be written as it says.
pub(crate) unsafe fn recvmsg(fd: RawFd, msg: *mut libc::msghdr, flags: i32) -> i32 {
    // SAFETY: by the caller's promise.
    if let Some(result) = unsafe { fake::call(&Request::RecvMsg { fd, msg, flags }) } {
        return result;
    }
    // SAFETY: by the caller's promise.
    count(unsafe { libc::recvmsg(fd, msg, flags | libc::MSG_DONTWAIT) })
}

/// # Safety
/// What `msg` leads to may be read as it says.
pub(crate) unsafe fn sendmsg(fd: RawFd, msg: *const libc::msghdr, flags: i32) -> i32 {
    // SAFETY: by the caller's promise.
    if let Some(result) = unsafe { fake::call(&Request::SendMsg { fd, msg, flags }) } {
        return result;
    }
    let flags = flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: by the caller's promise.
    count(unsafe { libc::sendmsg(fd, msg, flags) })
}

/// Whether a descriptor is ready: `EAGAIN` if it is not.
pub(crate) fn is_ready(fd: RawFd, direction: Direction) -> i32 {
    // SAFETY: it points to nothing.
    if let Some(result) = unsafe { fake::call(&Request::Poll { fd, direction }) } {
        return result;
    }
    let mut poll = libc::pollfd { fd, events: direction.events(), revents: 0 };
    // SAFETY: one entry, which lives during the call.
    match small(unsafe { libc::poll(&raw mut poll, 1, 0) }) {
        0 => -libc::EAGAIN,
        result => result,
    }
}

/// A descriptor that is ready for reading when another is ready for writing, and at no other time.
pub(crate) fn watch_room(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let epoll = small(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) });
    // SAFETY: the descriptor is new and ours.
    let epoll = to_io(epoll).map(|epoll| unsafe { OwnedFd::from_raw_fd(epoll as RawFd) })?;
    let mut event = libc::epoll_event { events: libc::EPOLLOUT as u32, u64: 0 };
    let add = libc::EPOLL_CTL_ADD;
    // SAFETY: the event lives during the call.
    to_io(small(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), add, fd, &raw mut event) }))?;
    Ok(epoll)
}

/// A connection that waits; its address is asked for later. The listener must be set not to block.
pub(crate) fn accept(fd: RawFd) -> i32 {
    let none = std::ptr::null_mut();
    // SAFETY: null addresses are allowed.
    small(unsafe { libc::accept4(fd, none, std::ptr::null_mut(), libc::SOCK_CLOEXEC) })
}

/// Begins a connection, or tells how the one under way has ended. The socket must be set not to
/// block.
///
/// # Safety
/// `addr` may be read for `len` bytes.
pub(crate) unsafe fn connect(
    fd: RawFd,
    addr: *const libc::sockaddr_storage,
    len: libc::socklen_t,
) -> i32 {
    // SAFETY: by the caller's promise.
    match small(unsafe { libc::connect(fd, addr.cast(), len) }) {
        // The first is under way, for Unix sockets too; the second was, and has succeeded.
        e if e == -libc::EINPROGRESS || e == -libc::EALREADY => -libc::EAGAIN,
        e if e == -libc::EISCONN => 0,
        result => result,
    }
}

/// Resets the connection of a socket that stays open: what it has not sent is dropped.
pub(crate) fn reset(fd: RawFd) {
    let none = libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] };
    let len = size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: the address lives during the call. What is not connected needs no reset.
    let _ = unsafe { libc::connect(fd, &raw const none, len) };
}

/// A counter whose every write wakes who polls it.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Wakes who polls the counter. It is never read: only after 2⁶⁴ wakes would a write fail.
pub(crate) fn signal(eventfd: &OwnedFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: eight readable bytes.
    let written = unsafe { libc::write(eventfd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    debug_assert_eq!(written, 8, "an eventfd takes every wake");
}

/// Closes a descriptor that nobody owns: the result of an operation that nobody waits for.
///
/// # Safety
/// `fd` is open and belongs to the caller alone.
pub(crate) unsafe fn close(fd: RawFd) {
    fake::close(fd);
    // SAFETY: by the caller's promise.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}

/// A timeout as the kernel takes it; what it cannot hold means for ever.
pub(crate) fn timespec(timeout: Duration) -> Option<libc::timespec> {
    let tv_sec = i64::try_from(timeout.as_secs()).ok()?;
    Some(libc::timespec { tv_sec, tv_nsec: timeout.subsec_nanos().into() })
}

/// `io_uring_enter` as the kernel has it, on a plain descriptor: any thread may call it.
pub(crate) fn enter(fd: RawFd, submit: u32, wait: u32, flags: u32, arg: Option<&Arg>) -> i32 {
    let (pointer, size) = match arg {
        Some(arg) => (std::ptr::from_ref(arg).cast(), size_of::<Arg>()),
        None => (std::ptr::null::<libc::c_void>(), 0),
    };
    // SAFETY: the argument, if any, is an `io_uring_getevents_arg` of its size, and lives during the
    // call; what queued submissions point to is kept by their operations (R1 of `request`).
    let result =
        unsafe { libc::syscall(libc::SYS_io_uring_enter, fd, submit, wait, flags, pointer, size) };
    count(result as isize)
}

/// `io_uring_getevents_arg`.
#[repr(C)]
pub(crate) struct Arg {
    sigmask: u64,
    sigmask_size: u32,
    min_wait_us: u32,
    timespec: u64,
}

impl Arg {
    /// A wait that ends after `timeout`, which has to outlive it.
    pub(crate) fn with_timeout(timeout: &libc::timespec) -> Self {
        let timespec = std::ptr::from_ref(timeout).addr() as u64;
        Self { sigmask: 0, sigmask_size: 0, min_wait_us: 0, timespec }
    }
}

const _: () = assert!(size_of::<Arg>() == 24);
// The ring takes a `__kernel_timespec`: two 64-bit numbers.
const _: () = assert!(size_of::<libc::timespec>() == 16);

/// Waits for events: their number, or a negated error number. No time is for ever.
///
/// # Safety
/// There is room for `most` events.
pub(crate) unsafe fn epoll_wait(
    fd: RawFd,
    events: *mut libc::epoll_event,
    most: i32,
    timeout: Option<&libc::timespec>,
) -> i32 {
    let spec = timeout.map_or(std::ptr::null(), std::ptr::from_ref);
    let no_mask = std::ptr::null::<libc::sigset_t>();
    // SAFETY: by the caller's promise; the time lives during the call.
    let result =
        unsafe { libc::syscall(libc::SYS_epoll_pwait2, fd, events, most, spec, no_mask, 0usize) };
    match count(result as isize) {
        // Linux before 5.11: whole milliseconds, rounded up so that the last of them does not spin.
        e if e == -libc::ENOSYS => {
            let millis = timeout.map_or(-1, |spec| {
                let whole = spec.tv_sec.saturating_mul(1000);
                i32::try_from(whole.saturating_add((spec.tv_nsec + 999_999) / 1_000_000))
                    .unwrap_or(i32::MAX)
            });
            // SAFETY: by the caller's promise.
            small(unsafe { libc::epoll_wait(fd, events, most, millis) })
        }
        result => result,
    }
}

/// Reads as far as `flags` allow; the offset may be `HERE` of `files`.
///
/// # Safety
/// What the `count` vectors lead to may be written.
pub(crate) unsafe fn preadv2(
    fd: RawFd,
    vectors: *const libc::iovec,
    count: u32,
    offset: u64,
    flags: i32,
) -> i32 {
    // SAFETY: by the caller's promise.
    self::count(unsafe { libc::preadv2(fd, vectors, count as i32, offset.cast_signed(), flags) })
}

/// Writes as far as `flags` allow; the offset may be `HERE` of `files`.
///
/// # Safety
/// What the `count` vectors lead to may be read.
pub(crate) unsafe fn pwritev2(
    fd: RawFd,
    vectors: *const libc::iovec,
    count: u32,
    offset: u64,
    flags: i32,
) -> i32 {
    // SAFETY: by the caller's promise.
    self::count(unsafe { libc::pwritev2(fd, vectors, count as i32, offset.cast_signed(), flags) })
}

/// # Safety
/// `path` leads to a C string.
pub(crate) unsafe fn open(path: *const libc::c_char, flags: i32, mode: u32) -> i32 {
    // SAFETY: by the caller's promise.
    small(unsafe { libc::open(path, flags | libc::O_CLOEXEC, mode) })
}

/// As `open`, and as a ring does it: a pipe does not wait for its other side.
///
/// # Safety
/// As for `open`.
pub(crate) unsafe fn open_unwaiting(path: *const libc::c_char, flags: i32, mode: u32) -> i32 {
    // SAFETY: by the caller's promise.
    let fd = unsafe { open(path, flags | libc::O_NONBLOCK, mode) };
    if fd == -libc::EAGAIN && flags & libc::O_NONBLOCK == 0 {
        // Somebody has a lease on it, and is to give that up first.
        // SAFETY: by the caller's promise.
        return unsafe { open(path, flags, mode) };
    }
    if fd >= 0 && flags & libc::O_NONBLOCK == 0 {
        set_status_flags(fd, status_flags(fd) & !libc::O_NONBLOCK);
    }
    fd
}

pub(crate) fn fsync(fd: RawFd) -> i32 {
    // SAFETY: no memory is involved.
    small(unsafe { libc::fsync(fd) })
}

pub(crate) fn fdatasync(fd: RawFd) -> i32 {
    // SAFETY: no memory is involved.
    small(unsafe { libc::fdatasync(fd) })
}

pub(crate) fn ftruncate(fd: RawFd, len: u64) -> i32 {
    // SAFETY: no memory is involved.
    small(unsafe { libc::ftruncate(fd, len.cast_signed()) })
}

/// # Safety
/// `path` leads to a C string, and `into` may be written.
pub(crate) unsafe fn statx(
    fd: RawFd,
    path: *const libc::c_char,
    flags: i32,
    mask: u32,
    into: *mut libc::statx,
) -> i32 {
    // SAFETY: by the caller's promise.
    small(unsafe { libc::statx(fd, path, flags, mask, into) })
}

/// # Safety
/// `path` leads to a C string.
pub(crate) unsafe fn unlink(path: *const libc::c_char, flags: i32) -> i32 {
    // SAFETY: by the caller's promise.
    small(unsafe { libc::unlinkat(libc::AT_FDCWD, path, flags) })
}

/// # Safety
/// `path` leads to a C string.
pub(crate) unsafe fn mkdir(path: *const libc::c_char, mode: u32) -> i32 {
    // SAFETY: by the caller's promise.
    small(unsafe { libc::mkdir(path, mode) })
}

/// # Safety
/// Both lead to C strings.
pub(crate) unsafe fn rename(from: *const libc::c_char, to: *const libc::c_char) -> i32 {
    // SAFETY: by the caller's promise.
    small(unsafe { libc::rename(from, to) })
}

/// # Safety
/// Both lead to C strings.
pub(crate) unsafe fn link(from: *const libc::c_char, to: *const libc::c_char) -> i32 {
    // SAFETY: by the caller's promise.
    small(unsafe { libc::linkat(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) })
}

/// # Safety
/// Both lead to C strings.
pub(crate) unsafe fn symlink(target: *const libc::c_char, link: *const libc::c_char) -> i32 {
    // SAFETY: by the caller's promise.
    small(unsafe { libc::symlink(target, link) })
}

/// Moves the position that the kernel keeps, and returns it. Where it is an end that is asked for, the
/// call may block.
pub(crate) fn lseek(fd: RawFd, offset: i64, whence: i32) -> io::Result<u64> {
    // SAFETY: no memory is involved.
    let position = unsafe { libc::lseek(fd, offset, whence) };
    u64::try_from(position).map_err(|_| io::Error::last_os_error())
}

/// The kind of a file as `st_mode` has it, `S_IFREG` or another; 0 if that is not known.
pub(crate) fn kind_of(fd: RawFd) -> u32 {
    // SAFETY: there is room for an answer.
    kind_by(|stat| unsafe { libc::fstat(fd, stat) })
}

/// As `kind_of`, of what a path leads to.
///
/// # Safety
/// `path` leads to a C string.
pub(crate) unsafe fn kind_of_path(path: *const libc::c_char) -> u32 {
    // SAFETY: by the caller's promise, and there is room for an answer.
    kind_by(|stat| unsafe { libc::stat(path, stat) })
}

/// `ask` fills the answer if it returns 0.
fn kind_by(ask: impl FnOnce(*mut libc::stat) -> i32) -> u32 {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    if ask(stat.as_mut_ptr()) != 0 {
        return 0;
    }
    // SAFETY: the call has filled it, and zeros are valid too.
    unsafe { stat.assume_init() }.st_mode & libc::S_IFMT
}

/// Whether nobody is left at the other end.
pub(crate) fn has_hung_up(fd: RawFd) -> bool {
    let mut poll = libc::pollfd { fd, events: 0, revents: 0 };
    // SAFETY: one entry, which lives during the call.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 && poll.revents & libc::POLLHUP != 0 }
}

pub(crate) fn set_status_flags(fd: RawFd, flags: i32) -> i32 {
    // SAFETY: no memory is involved.
    small(unsafe { libc::fcntl(fd, libc::F_SETFL, flags) })
}

/// The family of a socket, `AF_UNIX` or another; a negated error number if it is none.
pub(crate) fn domain(fd: RawFd) -> i32 {
    let (mut domain, mut len) = (0i32, size_of::<i32>() as libc::socklen_t);
    let (level, name, into) = (libc::SOL_SOCKET, libc::SO_DOMAIN, (&raw mut domain).cast());
    // SAFETY: there is room for so many bytes, and any bytes are valid there.
    match small(unsafe { libc::getsockopt(fd, level, name, into, &raw mut len) }) {
        0 => domain,
        error => error,
    }
}

/// How a descriptor was opened.
pub(crate) fn status_flags(fd: RawFd) -> i32 {
    // SAFETY: no memory is involved.
    small(unsafe { libc::fcntl(fd, libc::F_GETFL) })
}
