//! Directories: made, removed, listed.
//!
//! I1. A listing reads ahead, some entries at a time, on a thread that may block; dropped, it ends there.
//! I2. A wait for the next entry that is dropped loses none: what was on its way is kept.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::os::unix::fs::{DirBuilderExt, DirEntryExt};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use super::ask::offload;
use super::metadata::{FileType, Metadata};
use super::paths::{on_path, symlink_metadata};
use crate::base::shim::Mutex;
use crate::io::files::FileRequest;
use crate::task::budget::poll_counted;

/// Entries that are read at a time. Guessed.
const AHEAD: usize = 64;

/// Makes a directory.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("filch-mkdir-{}", std::process::id()));
/// # filch::block_on(async {
/// filch::fs::create_dir(&dir).await?;
/// let again = filch::fs::create_dir(&dir).await.unwrap_err();
/// assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
/// filch::fs::remove_dir(&dir).await?;
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// If the name is taken, there is no directory to make it in, or the system refuses.
pub async fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    DirBuilder::new().create(path).await
}

/// Makes a directory, and those that it is in, unless they are there.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("filch-dirs-{}", std::process::id()));
/// # filch::block_on(async {
/// filch::fs::create_dir_all(dir.join("a/b")).await?;
/// assert!(filch::fs::metadata(dir.join("a")).await?.is_dir());
/// filch::fs::remove_dir_all(&dir).await?;
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// If something else has one of the names, or the system refuses.
pub async fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(path).await
}

/// Removes a directory with all that is in it; links are removed, not followed. See [`create_dir_all`].
///
/// # Errors
/// If there is none, or the system refuses; some may be gone then.
///
/// # Cancel safety
/// Dropped, it runs to its end.
pub async fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    offload(move || std::fs::remove_dir_all(path)).await
}

/// How to make a directory; as [`std::fs::DirBuilder`].
///
/// ```
/// use filch::fs::DirBuilder;
/// use std::os::unix::fs::PermissionsExt;
/// # let dir = std::env::temp_dir().join(format!("filch-builder-{}", std::process::id()));
/// # filch::block_on(async {
/// DirBuilder::new().mode(0o700).create(&dir).await?;
/// assert_eq!(filch::fs::metadata(&dir).await?.permissions().mode() & 0o777, 0o700);
/// filch::fs::remove_dir(&dir).await?;
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct DirBuilder {
    recursive: bool,
    mode: u32,
}

impl Default for DirBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl DirBuilder {
    /// One directory, for everybody that the process's mask allows.
    pub fn new() -> Self {
        Self { recursive: false, mode: 0o777 }
    }

    /// Whether those that it is in are made too, and it may be there.
    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.recursive = recursive;
        self
    }

    /// Its permissions, before the process's mask.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }

    /// Makes it.
    ///
    /// # Errors
    /// As [`create_dir`] and [`create_dir_all`].
    pub async fn create(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let (path, mode) = (path.as_ref(), self.mode);
        if !self.recursive {
            return on_path(path, |path| FileRequest::MakeDir { path: path.as_ptr(), mode }).await;
        }
        let path = path.to_owned();
        offload(move || std::fs::DirBuilder::new().recursive(true).mode(mode).create(path)).await
    }
}

/// Lists a directory.
///
/// ```
/// # filch::block_on(async {
/// let mut entries = filch::fs::read_dir(".").await?;
/// let mut names = Vec::new();
/// while let Some(entry) = entries.next_entry().await? {
///     names.push(entry.file_name());
/// }
/// assert!(names.iter().any(|name| name == "Cargo.toml"));
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// If it is none, or the system refuses.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref().to_owned();
    let batch = offload(move || Ok(Batch::read(std::fs::read_dir(path)?))).await?;
    Ok(ReadDir { ready: batch.entries, rest: Mutex::new(Rest::of(batch.rest)) })
}

/// Entries of a directory, in no order; see [`read_dir`].
pub struct ReadDir {
    ready: VecDeque<io::Result<std::fs::DirEntry>>,
    /// In a mutex so that it may be shared; only who has it for himself looks.
    rest: Mutex<Rest>,
}

/// No code of users runs while the list changes, so a panic leaves no change half done.
impl UnwindSafe for ReadDir {}
impl RefUnwindSafe for ReadDir {}

enum Rest {
    There(std::fs::ReadDir),
    /// I2.
    OnItsWay(Pin<Box<dyn Future<Output = io::Result<Batch>> + Send>>),
    Nothing,
}

impl Rest {
    fn of(rest: Option<std::fs::ReadDir>) -> Self {
        rest.map_or(Self::Nothing, Self::There)
    }
}

/// Entries, and the listing if there are more.
struct Batch {
    entries: VecDeque<io::Result<std::fs::DirEntry>>,
    rest: Option<std::fs::ReadDir>,
}

impl Batch {
    fn read(mut listing: std::fs::ReadDir) -> Self {
        let entries: VecDeque<_> = listing.by_ref().take(AHEAD).collect();
        let rest = (entries.len() == AHEAD).then_some(listing);
        Self { entries, rest }
    }
}

impl ReadDir {
    /// The next entry, if there is one.
    ///
    /// # Errors
    /// If the system reports one; the listing may go on behind it.
    ///
    /// # Cancel safety
    /// A dropped wait loses no entry.
    pub async fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        poll_fn(|cx| self.poll_next_entry(cx)).await
    }

    /// As [`ReadDir::next_entry`], for futures written by hand.
    ///
    /// # Errors
    /// As [`ReadDir::next_entry`].
    pub fn poll_next_entry(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<DirEntry>>> {
        poll_counted(cx, |cx| self.poll_next(cx))
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<DirEntry>>> {
        let rest = self.rest.get_mut().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Poll::Ready(entry.map(|entry| Some(DirEntry(Arc::new(entry)))));
            }
            match std::mem::replace(rest, Rest::Nothing) {
                Rest::Nothing => return Poll::Ready(Ok(None)),
                Rest::There(listing) => {
                    *rest = Rest::OnItsWay(Box::pin(offload(|| Ok(Batch::read(listing)))));
                }
                Rest::OnItsWay(mut future) => {
                    let Poll::Ready(batch) = future.as_mut().poll(cx) else {
                        *rest = Rest::OnItsWay(future);
                        return Poll::Pending;
                    };
                    let batch = batch?;
                    self.ready = batch.entries;
                    *rest = Rest::of(batch.rest);
                }
            }
        }
    }
}

/// The entries, as [`ReadDir::next_entry`] gives them.
///
/// ```
/// use futures_lite::StreamExt;
/// # filch::block_on(async {
/// let mut entries = filch::fs::read_dir(".").await?;
/// let mut found = false;
/// while let Some(entry) = entries.next().await {
///     found |= entry?.file_name() == "Cargo.toml";
/// }
/// assert!(found);
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
impl futures_lite::Stream for ReadDir {
    type Item = io::Result<DirEntry>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_next_entry(cx).map(Result::transpose)
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadDir").field("ready", &self.ready.len()).finish_non_exhaustive()
    }
}

/// An entry of a directory; see [`read_dir`].
///
/// ```
/// # filch::block_on(async {
/// let mut entries = filch::fs::read_dir("src").await?;
/// while let Some(entry) = entries.next_entry().await? {
///     if entry.file_name() == "lib.rs" {
///         assert!(entry.file_type().await?.is_file());
///         assert!(entry.metadata().await?.len() > 0);
///         assert_eq!(entry.path(), std::path::Path::new("src/lib.rs"));
///     }
/// }
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct DirEntry(Arc<std::fs::DirEntry>);

impl DirEntry {
    /// The path of the directory, with the name.
    pub fn path(&self) -> PathBuf {
        self.0.path()
    }

    /// The name.
    pub fn file_name(&self) -> OsString {
        self.0.file_name()
    }

    /// The number of the file in its file system.
    pub fn ino(&self) -> u64 {
        self.0.ino()
    }

    /// What is known about it; links are not followed.
    ///
    /// # Errors
    /// If it is gone, or the system refuses.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        symlink_metadata(self.path()).await
    }

    /// What kind of thing it is; links are not followed. The listing tells on most file systems.
    ///
    /// # Errors
    /// As [`DirEntry::metadata`].
    pub async fn file_type(&self) -> io::Result<FileType> {
        let entry = self.0.clone();
        offload(move || entry.file_type()).await.map(FileType::from)
    }
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DirEntry").field(&self.path()).finish()
    }
}
