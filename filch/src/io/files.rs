//! What is asked of files and paths, as plain data: by a ring, or by a call on a thread that may block.
//!
//! F1. All of these may block, so on a backend that tells readiness they are calls on a thread for that
//!     (R2 of `request`); so are those that a ring's kernel does not know (`Abilities`).
//! F2. `call_at_once` never waits for a device: it answers `EAGAIN` instead, or `EOPNOTSUPP` if the
//!     file system cannot tell.
//! F3. An offset of `HERE` means the position that the kernel keeps, which then moves.
//!
//! Not here: who owns what the pointers lead to (`fs`).

use std::os::fd::RawFd;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{Probe, Submitter, opcode, squeue};

use super::sys;

/// The kernel's own position as an offset (F3).
pub(crate) const HERE: u64 = u64::MAX;

/// A path as the kernel takes it.
pub(crate) type Path = *const libc::c_char;

/// One request about a file or a path. Paths are relative to the working directory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FileRequest {
    /// A descriptor of a path.
    Open {
        path: Path,
        flags: i32,
        mode: u32,
    },
    /// Bytes of a file.
    Read {
        fd: RawFd,
        buf: *mut u8,
        len: u32,
        offset: u64,
        thread: Thread,
    },
    /// Bytes to a file.
    Write {
        fd: RawFd,
        buf: *const u8,
        len: u32,
        offset: u64,
    },
    /// Bytes of a file into several buffers.
    ReadVectored {
        fd: RawFd,
        vectors: *const libc::iovec,
        count: u32,
        offset: u64,
    },
    /// Bytes to a file from several buffers.
    WriteVectored {
        fd: RawFd,
        vectors: *const libc::iovec,
        count: u32,
        offset: u64,
    },
    /// What was written reaches the device.
    Sync {
        fd: RawFd,
        extent: SyncExtent,
    },
    /// Cuts or extends a file.
    SetLen {
        fd: RawFd,
        len: u64,
    },
    /// What is known about a path, or with `AT_EMPTY_PATH` about a descriptor.
    Stat {
        fd: RawFd,
        path: Path,
        flags: i32,
        into: *mut libc::statx,
    },
    /// Removes a name, with `AT_REMOVEDIR` that of a directory.
    Unlink {
        path: Path,
        flags: i32,
    },
    MakeDir {
        path: Path,
        mode: u32,
    },
    Rename {
        from: Path,
        to: Path,
    },
    Link {
        from: Path,
        to: Path,
    },
    Symlink {
        target: Path,
        link: Path,
    },
}

// SAFETY: R1 of `request`, what the pointers lead to belongs to an operation that is `Send`.
unsafe impl Send for FileRequest {}

/// Which thread copies the bytes of a read that a ring performs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thread {
    /// The one that submits, if they are in memory.
    Submitter,
    /// One of the kernel's: there are many.
    Kernel,
}

/// What has to reach the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncExtent {
    All,
    /// Not what only describes the file.
    Data,
}

/// What of a file a `Stat` asks for.
const STAT_MASK: u32 = libc::STATX_BASIC_STATS | libc::STATX_BTIME;

/// As many bytes go into a pipe that is ready without waiting.
const PIPE_BUF: u32 = libc::PIPE_BUF as u32;

impl FileRequest {
    /// The request for so much of a write only as something that is ready to be written to takes without waiting.
    ///
    /// # Safety
    /// R1 of `request` holds during the call.
    pub(crate) unsafe fn for_what_is_ready(self) -> Self {
        match self {
            Self::Write { fd, buf, len, offset } => {
                Self::Write { fd, buf, len: len.min(PIPE_BUF), offset }
            }
            Self::WriteVectored { fd, vectors, count, offset } if count > 0 => {
                // SAFETY: R1, by the caller's promise.
                let first = unsafe { *vectors };
                let len = first.iov_len.min(PIPE_BUF as usize) as u32;
                Self::Write { fd, buf: first.iov_base.cast(), len, offset }
            }
            other => other,
        }
    }

    /// Whether it reads what a device may have to bring. What reads on from the kernel's position may be a pipe.
    pub(crate) fn waits_for_a_device(&self) -> bool {
        match *self {
            Self::Read { offset, .. } | Self::ReadVectored { offset, .. } => offset != HERE,
            _ => false,
        }
    }

    /// Performs the request by a call, which may block (F1).
    ///
    /// # Safety
    /// R1 of `request` holds during the call.
    pub(crate) unsafe fn call(&self) -> i32 {
        match *self {
            Self::Read { .. }
            | Self::Write { .. }
            | Self::ReadVectored { .. }
            | Self::WriteVectored { .. } => {
                // SAFETY: R1, by the caller's promise.
                unsafe { self.transfer(0) }
            }
            Self::Open { path, flags, mode } => {
                // SAFETY: as above.
                unsafe { sys::open_unwaiting(path, flags, mode) }
            }
            Self::Sync { fd, extent: SyncExtent::All } => sys::fsync(fd),
            Self::Sync { fd, extent: SyncExtent::Data } => sys::fdatasync(fd),
            Self::SetLen { fd, len } => sys::ftruncate(fd, len),
            Self::Stat { fd, path, flags, into } => {
                // SAFETY: as above.
                unsafe { sys::statx(fd, path, flags, STAT_MASK, into) }
            }
            Self::Unlink { path, flags } => {
                // SAFETY: as above.
                unsafe { sys::unlink(path, flags) }
            }
            Self::MakeDir { path, mode } => {
                // SAFETY: as above.
                unsafe { sys::mkdir(path, mode) }
            }
            Self::Rename { from, to } => {
                // SAFETY: as above.
                unsafe { sys::rename(from, to) }
            }
            Self::Link { from, to } => {
                // SAFETY: as above.
                unsafe { sys::link(from, to) }
            }
            Self::Symlink { target, link } => {
                // SAFETY: as above.
                unsafe { sys::symlink(target, link) }
            }
        }
    }

    /// Performs a read or write by a call that does not wait (F2).
    ///
    /// # Safety
    /// R1 of `request` holds during the call.
    pub(crate) unsafe fn call_at_once(&self) -> i32 {
        // SAFETY: by the caller's promise.
        unsafe { self.transfer(libc::RWF_NOWAIT) }
    }

    /// # Safety
    /// As `call`.
    unsafe fn transfer(&self, flags: i32) -> i32 {
        let one = |base: *mut u8, len: u32| {
            let (iov_base, iov_len) = (base.cast(), len as usize);
            libc::iovec { iov_base, iov_len }
        };
        match *self {
            Self::Read { fd, buf, len, offset, .. } => {
                let vector = one(buf, len);
                // SAFETY: R1, by the caller's promise.
                unsafe { sys::preadv2(fd, &raw const vector, 1, offset, flags) }
            }
            Self::Write { fd, buf, len, offset } => {
                let vector = one(buf.cast_mut(), len);
                // SAFETY: as above; a write only reads.
                unsafe { sys::pwritev2(fd, &raw const vector, 1, offset, flags) }
            }
            Self::ReadVectored { fd, vectors, count, offset } => {
                // SAFETY: as above.
                unsafe { sys::preadv2(fd, vectors, count, offset, flags) }
            }
            Self::WriteVectored { fd, vectors, count, offset } => {
                // SAFETY: as above.
                unsafe { sys::pwritev2(fd, vectors, count, offset, flags) }
            }
            _ => unreachable!("only reads and writes transfer bytes"),
        }
    }

    /// The request as a ring takes it.
    pub(super) fn entry(&self) -> squeue::Entry {
        let here = Fd(libc::AT_FDCWD);
        match *self {
            Self::Open { path, flags, mode } => {
                opcode::OpenAt::new(here, path).flags(flags | libc::O_CLOEXEC).mode(mode).build()
            }
            Self::Read { fd, buf, len, offset, thread } => {
                let entry = opcode::Read::new(Fd(fd), buf, len).offset(offset).build();
                match thread {
                    Thread::Submitter => entry,
                    Thread::Kernel => entry.flags(squeue::Flags::ASYNC),
                }
            }
            Self::Write { fd, buf, len, offset } => {
                opcode::Write::new(Fd(fd), buf, len).offset(offset).build()
            }
            Self::ReadVectored { fd, vectors, count, offset } => {
                opcode::Readv::new(Fd(fd), vectors, count).offset(offset).build()
            }
            Self::WriteVectored { fd, vectors, count, offset } => {
                opcode::Writev::new(Fd(fd), vectors, count).offset(offset).build()
            }
            Self::Sync { fd, extent } => {
                let flags = match extent {
                    SyncExtent::All => FsyncFlags::empty(),
                    SyncExtent::Data => FsyncFlags::DATASYNC,
                };
                opcode::Fsync::new(Fd(fd)).flags(flags).build()
            }
            Self::SetLen { fd, len } => opcode::Ftruncate::new(Fd(fd), len).build(),
            Self::Stat { fd, path, flags, into } => {
                opcode::Statx::new(Fd(fd), path, into.cast()).flags(flags).mask(STAT_MASK).build()
            }
            Self::Unlink { path, flags } => opcode::UnlinkAt::new(here, path).flags(flags).build(),
            Self::MakeDir { path, mode } => opcode::MkDirAt::new(here, path).mode(mode).build(),
            Self::Rename { from, to } => opcode::RenameAt::new(here, from, here, to).build(),
            Self::Link { from, to } => opcode::LinkAt::new(here, from, here, to).build(),
            Self::Symlink { target, link } => opcode::SymlinkAt::new(here, target, link).build(),
        }
    }

    /// The ring's number of those that came after rings did what drivers need of them.
    fn recent_code(&self) -> Option<u8> {
        match self {
            Self::SetLen { .. } => Some(opcode::Ftruncate::CODE),
            Self::Unlink { .. } => Some(opcode::UnlinkAt::CODE),
            Self::MakeDir { .. } => Some(opcode::MkDirAt::CODE),
            Self::Rename { .. } => Some(opcode::RenameAt::CODE),
            Self::Link { .. } => Some(opcode::LinkAt::CODE),
            Self::Symlink { .. } => Some(opcode::SymlinkAt::CODE),
            _ => None,
        }
    }
}

/// Which of the recent requests the kernel's rings know, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Abilities(u64);

impl Abilities {
    pub(super) fn ask(submitter: &Submitter<'_>) -> Self {
        let mut probe = Probe::new();
        if submitter.register_probe(&mut probe).is_err() {
            return Self::default();
        }
        Self((0..64).filter(|&code| probe.is_supported(code)).fold(0, |all, code| all | 1 << code))
    }

    /// Whether a ring performs the request.
    pub(super) fn include(self, request: &FileRequest) -> bool {
        request.recent_code().is_none_or(|code| code < 64 && self.0 & 1 << code != 0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_an_operation_is_not_asked_for_it() {
        let cut = FileRequest::SetLen { fd: 0, len: 0 };
        let read = FileRequest::Sync { fd: 0, extent: SyncExtent::All };
        assert!(!Abilities::default().include(&cut));
        assert!(Abilities(1 << opcode::Ftruncate::CODE).include(&cut));
        assert!(Abilities::default().include(&read), "as old as rings");
    }
}
