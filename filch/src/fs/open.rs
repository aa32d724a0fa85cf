//! How a file is opened.

use std::io;
use std::path::Path;

use super::ask::c_path;
use super::file::File;
use super::handle::{Handle, Owner, Position};
use super::pipe::{self, How};
use crate::task::budget::proceed;

/// How to open a file; as [`std::fs::OpenOptions`].
///
/// ```
/// use filch::fs::OpenOptions;
/// # let path = std::env::temp_dir().join(format!("filch-open-{}", std::process::id()));
/// # filch::block_on(async {
/// let file = OpenOptions::new().write(true).create_new(true).open(&path).await?;
/// file.write_all(b"new").await.0?;
/// let again = OpenOptions::new().write(true).create_new(true).open(&path).await;
/// assert_eq!(again.unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
/// filch::fs::remove_file(&path).await?;
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    mode: u32,
    custom_flags: i32,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// Everything off: a file cannot be opened so.
    pub fn new() -> Self {
        Self {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o666,
            custom_flags: 0,
        }
    }

    /// To read from it.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.read = read;
        self
    }

    /// To write to it.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.write = write;
        self
    }

    /// To write to its end, wherever that is by then. On Linux this holds for writes at an offset too.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.append = append;
        self
    }

    /// Whether what is in it goes.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.truncate = truncate;
        self
    }

    /// Whether it is made if there is none.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.create = create;
        self
    }

    /// Whether it is made, and must not be there.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.create_new = create_new;
        self
    }

    /// The permissions of a file that is made, before the process's mask; 0o666 unless told.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }

    /// Flags of the system besides those that follow from the rest.
    pub fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.custom_flags = flags;
        self
    }

    /// Opens a file. A named pipe is open when its other side has come, too; no thread waits for that, and the end of the
    /// runtime does not.
    ///
    /// # Errors
    /// If the options contradict each other, or the system refuses.
    ///
    /// # Cancel safety
    /// Dropped, it may have made or emptied the file; nothing stays open.
    pub async fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        proceed().await;
        let flags = self.flags()?;
        let path = c_path(path.as_ref())?;
        let owner = Owner::here();
        let how = How { flags, mode: self.mode };
        let (fd, kind) = pipe::open(&owner.engine, path, how).await?;
        let handle = Handle::new(fd, owner, kind)?;
        if handle.position == Position::None && how.wants_writer() {
            pipe::writer_comes(&handle).await?;
        }
        Ok(File::from_handle(handle))
    }

    fn flags(&self) -> io::Result<i32> {
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => libc::O_RDONLY,
            (false, true, false) => libc::O_WRONLY,
            (true, true, false) => libc::O_RDWR,
            (false, _, true) => libc::O_WRONLY | libc::O_APPEND,
            (true, _, true) => libc::O_RDWR | libc::O_APPEND,
            (false, false, false) => {
                return Err(contradiction("neither read nor write nor append"));
            }
        };
        let writes = self.write || self.append;
        if !writes && (self.truncate || self.create || self.create_new) {
            return Err(contradiction("creating or truncating takes write access"));
        }
        if self.append && self.truncate && !self.create_new {
            return Err(contradiction("append and truncate"));
        }
        let creation = match (self.create, self.truncate, self.create_new) {
            (false, false, false) => 0,
            (true, false, false) => libc::O_CREAT,
            (false, true, false) => libc::O_TRUNC,
            (true, true, false) => libc::O_CREAT | libc::O_TRUNC,
            (_, _, true) => libc::O_CREAT | libc::O_EXCL,
        };
        Ok(access | creation | self.custom_flags & !libc::O_ACCMODE)
    }
}

fn contradiction(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("these options do not go together: {what}"))
}
