//! What is known about a file, without opening it.

use std::ffi::CString;
use std::fmt;
use std::fs::Permissions;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::ask::{Kept, ask};
use super::handle::Handle;
use crate::io::engine::Engine;
use crate::io::files::FileRequest;

/// What is known about a file; as [`std::fs::Metadata`], and with the methods of its extension for Unix.
///
/// ```
/// # filch::block_on(async {
/// let metadata = filch::fs::metadata("Cargo.toml").await?;
/// assert!(metadata.is_file());
/// assert!(metadata.len() > 0);
/// assert!(metadata.modified()? <= std::time::SystemTime::now());
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Metadata(Box<libc::statx>);

/// What kind of thing a path leads to; as [`std::fs::FileType`].
///
/// ```
/// # filch::block_on(async {
/// let file_type = filch::fs::metadata("src").await?.file_type();
/// assert!(file_type.is_dir() && !file_type.is_file());
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileType {
    /// The bits of a mode that tell the kind.
    kind: u32,
}

/// What a `Stat` looks at.
pub(super) enum Subject {
    Path(CString, Follow),
    Open(Arc<Handle>),
}

impl Kept for (Subject, Box<libc::statx>) {}

/// Whether the last part of a path is followed, if it is a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    Yes,
    No,
}

impl Metadata {
    pub(super) async fn of(engine: &Arc<Engine>, subject: Subject) -> io::Result<Self> {
        let (fd, path, flags): (RawFd, _, _) = match &subject {
            Subject::Path(path, Follow::Yes) => (libc::AT_FDCWD, path.as_ptr(), 0),
            Subject::Path(path, Follow::No) => {
                (libc::AT_FDCWD, path.as_ptr(), libc::AT_SYMLINK_NOFOLLOW)
            }
            Subject::Open(handle) => (handle.raw(), c"".as_ptr(), libc::AT_EMPTY_PATH),
        };
        // SAFETY: zeros are a valid value.
        let mut into: Box<libc::statx> = Box::new(unsafe { std::mem::zeroed() });
        let request = FileRequest::Stat { fd, path, flags, into: &raw mut *into };
        // SAFETY: K1, path, descriptor and the place for the answer are kept.
        let (result, (_, into)) = unsafe { ask(engine, request, (subject, into)) }.await;
        result.map(|_| Self(into))
    }

    /// What kind of thing it is.
    pub fn file_type(&self) -> FileType {
        FileType::of_mode(u32::from(self.0.stx_mode))
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type().is_dir()
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.file_type().is_file()
    }

    /// Whether it is a symbolic link; only [`symlink_metadata`](super::symlink_metadata) tells of
    /// those.
    pub fn is_symlink(&self) -> bool {
        self.file_type().is_symlink()
    }

    /// Its size in bytes.
    #[expect(clippy::len_without_is_empty, reason = "as std has it")]
    pub fn len(&self) -> u64 {
        self.0.stx_size
    }

    /// Who may do what with it.
    pub fn permissions(&self) -> Permissions {
        Permissions::from_mode(u32::from(self.0.stx_mode))
    }

    /// When it was last written.
    ///
    /// # Errors
    /// None on this system; the signature is std's.
    pub fn modified(&self) -> io::Result<SystemTime> {
        time(self.0.stx_mtime)
    }

    /// When it was last read, as far as the file system notes that.
    ///
    /// # Errors
    /// None on this system; the signature is std's.
    pub fn accessed(&self) -> io::Result<SystemTime> {
        time(self.0.stx_atime)
    }

    /// When it was made.
    ///
    /// # Errors
    /// If the file system does not know.
    pub fn created(&self) -> io::Result<SystemTime> {
        if self.0.stx_mask & libc::STATX_BTIME == 0 {
            let text = "the file system does not note when files are made";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        time(self.0.stx_btime)
    }
}

fn time(stamp: libc::statx_timestamp) -> io::Result<SystemTime> {
    let whole = Duration::from_secs(stamp.tv_sec.unsigned_abs());
    let time = match stamp.tv_sec {
        0.. => UNIX_EPOCH.checked_add(whole),
        _ => UNIX_EPOCH.checked_sub(whole),
    };
    time.and_then(|time| time.checked_add(Duration::from_nanos(stamp.tv_nsec.into())))
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

impl MetadataExt for Metadata {
    fn dev(&self) -> u64 {
        libc::makedev(self.0.stx_dev_major, self.0.stx_dev_minor)
    }

    fn ino(&self) -> u64 {
        self.0.stx_ino
    }

    fn mode(&self) -> u32 {
        self.0.stx_mode.into()
    }

    fn nlink(&self) -> u64 {
        self.0.stx_nlink.into()
    }

    fn uid(&self) -> u32 {
        self.0.stx_uid
    }

    fn gid(&self) -> u32 {
        self.0.stx_gid
    }

    fn rdev(&self) -> u64 {
        libc::makedev(self.0.stx_rdev_major, self.0.stx_rdev_minor)
    }

    fn size(&self) -> u64 {
        self.0.stx_size
    }

    fn atime(&self) -> i64 {
        self.0.stx_atime.tv_sec
    }

    fn atime_nsec(&self) -> i64 {
        self.0.stx_atime.tv_nsec.into()
    }

    fn mtime(&self) -> i64 {
        self.0.stx_mtime.tv_sec
    }

    fn mtime_nsec(&self) -> i64 {
        self.0.stx_mtime.tv_nsec.into()
    }

    fn ctime(&self) -> i64 {
        self.0.stx_ctime.tv_sec
    }

    fn ctime_nsec(&self) -> i64 {
        self.0.stx_ctime.tv_nsec.into()
    }

    fn blksize(&self) -> u64 {
        self.0.stx_blksize.into()
    }

    fn blocks(&self) -> u64 {
        self.0.stx_blocks
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metadata")
            .field("file_type", &self.file_type())
            .field("len", &self.len())
            .field("permissions", &self.permissions())
            .field("modified", &self.modified())
            .finish_non_exhaustive()
    }
}

impl FileType {
    fn of_mode(mode: u32) -> Self {
        Self { kind: mode & libc::S_IFMT }
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == libc::S_IFDIR
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind == libc::S_IFREG
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.kind == libc::S_IFLNK
    }
}

impl std::os::unix::fs::FileTypeExt for FileType {
    fn is_block_device(&self) -> bool {
        self.kind == libc::S_IFBLK
    }

    fn is_char_device(&self) -> bool {
        self.kind == libc::S_IFCHR
    }

    fn is_fifo(&self) -> bool {
        self.kind == libc::S_IFIFO
    }

    fn is_socket(&self) -> bool {
        self.kind == libc::S_IFSOCK
    }
}

impl From<std::fs::FileType> for FileType {
    fn from(std: std::fs::FileType) -> Self {
        use std::os::unix::fs::FileTypeExt;
        let kinds = [
            (std.is_dir(), libc::S_IFDIR),
            (std.is_file(), libc::S_IFREG),
            (std.is_symlink(), libc::S_IFLNK),
            (std.is_block_device(), libc::S_IFBLK),
            (std.is_char_device(), libc::S_IFCHR),
            (std.is_fifo(), libc::S_IFIFO),
            (std.is_socket(), libc::S_IFSOCK),
        ];
        let kind = kinds.into_iter().find_map(|(is, kind)| is.then_some(kind));
        Self { kind: kind.unwrap_or(0) }
    }
}

impl fmt::Debug for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            libc::S_IFDIR => "directory",
            libc::S_IFREG => "file",
            libc::S_IFLNK => "symlink",
            libc::S_IFBLK => "block device",
            libc::S_IFCHR => "character device",
            libc::S_IFIFO => "fifo",
            libc::S_IFSOCK => "socket",
            _ => "unknown",
        })
    }
}
