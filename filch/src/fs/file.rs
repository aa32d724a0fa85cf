//! Files as users see them.

use std::fmt;
use std::fs::{FileTimes, Permissions};
use std::io::{self, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use super::area::{ReadMany, ReadOne, WriteMany, WriteOne};
use super::ask::{Kept, ask, offload};
use super::handle::{Handle, Owner, Position, Turn, Units};
use super::metadata::{Metadata, Subject};
use super::open::OpenOptions;
use super::pipe::Kind as Opened;
use super::poll::{Pending, Polls};
use super::transfer::{Extent, Place, Read, ReadVectored, Transfer, Write, WriteVectored};
use crate::base::shim::Mutex;
use crate::io::files::{FileRequest, SyncExtent};
use crate::io::{IoBuf, IoBufMut, sys};
use crate::task::budget::proceed;

/// An open file.
///
/// All methods take `&self`. Reads and writes at an offset go beside each other, as many as there are;
/// those without one take turns at the cursor, which clones share: one that has begun, and is neither
/// polled nor dropped, keeps its turn. What is in memory is read at once:
/// such a read never leaves its thread. Dropping the last handle closes the file.
///
/// The position that the kernel keeps for a descriptor is not that of the cursor: who uses
/// [`AsFd`] for reads of his own has to bring his own offset. [`File::into_std`] sets it.
///
/// # Writes through `AsyncWrite`
/// Such a write is answered when its bytes are copied. What was answered is in the file, or an error tells of it: the next
/// write, flush, close or [`sync_all`](File::sync_all) reports the error, and if the file is dropped before,
/// [`on_lost_write`](crate::Builder::on_lost_write) does. Dropping a file waits for nothing; whoever waits for the group of
/// the writer, by [`block_on`](crate::block_on()), [`group`](crate::group()), the end of `main` or a
/// [`Shutdown`](crate::Shutdown), waits for its writes to regular files too. Bytes that a pipe or a device has not taken when the
/// runtime ends are lost, and told so.
///
/// # Cancel safety
/// Every operation may be dropped at any moment. A dropped read has moved nothing; a dropped write
/// has not started, or runs to its end before any later operation on this file begins.
///
/// ```
/// use filch::fs::File;
/// # let path = std::env::temp_dir().join(format!("filch-file-{}", std::process::id()));
/// # filch::block_on(async {
/// let file = File::create_new(&path).await?;
/// file.write_all(b"hello, world").await.0?;
/// let (result, buffer) = file.read_exact_at(vec![0; 5], 7).await;
/// result?;
/// assert_eq!(buffer, b"world");
/// filch::fs::remove_file(&path).await?;
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
pub struct File {
    handle: Arc<Handle>,
    /// What `futures-io` waits for.
    pub(super) pending: Mutex<Pending>,
    /// Under what its polls wait.
    pub(super) polls: Polls,
}

impl File {
    pub(super) fn from_handle(handle: Arc<Handle>) -> Self {
        Self { handle, pending: Mutex::new(Pending::Nothing), polls: Polls::default() }
    }

    pub(super) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Opens a file to read from it.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let file = filch::fs::File::open("README.md").await?;
    /// assert_eq!(file.read(vec![0; 7]).await.1, b"# filch");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If there is none, or the system refuses.
    pub async fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().read(true).open(path).await
    }

    /// Opens a file to write to it: an empty one, whatever was there.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("filch-create-{}", std::process::id()));
    /// # filch::block_on(async {
    /// let file = filch::fs::File::create(&path).await?;
    /// file.write_all("text").await.0?;
    /// assert_eq!(filch::fs::read(&path).await?, b"text");
    /// filch::fs::remove_file(&path).await?;
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the system refuses.
    pub async fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path).await
    }

    /// Makes a file, to read and write.
    ///
    /// ```
    /// use filch::fs::File;
    /// # let path = std::env::temp_dir().join(format!("filch-new-{}", std::process::id()));
    /// # filch::block_on(async {
    /// let file = File::create_new(&path).await?;
    /// assert!(File::create_new(&path).await.is_err());
    /// filch::fs::remove_file(&path).await?;
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If it is there already, or the system refuses.
    pub async fn create_new(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path).await
    }

    /// How to open a file in another way.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let file = filch::fs::File::options().read(true).open("README.md").await?;
    /// assert!(file.metadata().await?.is_file());
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// A file of std's, driven by the runtime of the running task, or the default one. The cursor
    /// starts where the kernel's position is.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let file = filch::fs::File::from_std(std::fs::File::open("README.md")?)?;
    /// assert_eq!(file.read_exact_at(vec![0; 7], 0).await.1, b"# filch");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If nothing drives I/O in this runtime.
    pub fn from_std(file: std::fs::File) -> io::Result<Self> {
        Handle::new(OwnedFd::from(file), Owner::here(), Opened::Other).map(Self::from_handle)
    }

    /// The file as std has it, when writes under way have ended. Its position is the cursor's. What a dropped
    /// read has taken from a file that cannot seek, such as a pipe, is lost unless it is read before. A named pipe whose
    /// descriptor others have too may be one that does not block.
    ///
    /// ```
    /// use std::io::Read;
    /// # filch::block_on(async {
    /// let file = filch::fs::File::open("README.md").await?;
    /// file.read_exact(vec![0; 2]).await.0?;
    /// let mut rest = [0; 5];
    /// file.into_std().await?.read_exact(&mut rest)?;
    /// assert_eq!(&rest, b"filch");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If clones of it, or operations in flight, have the descriptor too, and there is no other to be
    /// had.
    pub async fn into_std(self) -> io::Result<std::fs::File> {
        let handle = self.handle.clone();
        // What it reads ahead may have the descriptor too.
        drop(self);
        handle.settled().await;
        let turn = handle.turn().await;
        if handle.position != Position::None {
            sys::lseek(handle.raw(), turn.cursor().cast_signed(), libc::SEEK_SET)?;
        }
        drop(turn);
        handle.into_fd().map(std::fs::File::from)
    }

    /// Another handle of the same open file: cursor and locks are shared.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let file = filch::fs::File::open("README.md").await?;
    /// let clone = file.try_clone().await?;
    /// file.read_exact(vec![0; 2]).await.0?;
    /// assert_eq!(clone.read_exact(vec![0; 5]).await.1, b"filch");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// None today; the signature is Tokio's.
    pub async fn try_clone(&self) -> io::Result<Self> {
        proceed().await;
        Ok(Self::from_handle(self.handle.clone()))
    }
}

/// Reads and writes at an offset.
impl File {
    /// Reads from an offset into the buffer; fewer bytes than the buffer has room for mean the end of the
    /// file. The capacity of a vector is used, and its length set.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let file = filch::fs::File::open("README.md").await?;
    /// let (result, buffer) = file.read_at(vec![0; 5], 2).await;
    /// assert_eq!(&buffer[..result?], b"filch");
    /// assert_eq!(file.read_at(vec![0; 5], 1 << 40).await.0?, 0); // behind the end
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the system reports one. The buffer comes back in any case.
    pub fn read_at<B: IoBufMut + Unpin>(&self, buf: B, offset: u64) -> Read<'_, B> {
        Read(Transfer::new(&self.handle, ReadOne(buf), Place::At(offset), Extent::Some))
    }

    /// Fills the buffer from an offset.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let file = filch::fs::File::open("README.md").await?;
    /// let (result, buffer) = file.read_exact_at(vec![0; 5], 2).await;
    /// result?;
    /// assert_eq!(buffer, b"filch");
    /// let error = file.read_exact_at(vec![0; 5], 1 << 40).await.0.unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`File::read_at`], and `UnexpectedEof` if the file ends before.
    pub fn read_exact_at<B: IoBufMut + Unpin>(&self, buf: B, offset: u64) -> Read<'_, B> {
        Read(Transfer::new(&self.handle, ReadOne(buf), Place::At(offset), Extent::All))
    }

    /// Reads from an offset into several buffers, one after another.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let file = filch::fs::File::open("README.md").await?;
    /// let (result, buffers) = file.read_vectored_at(vec![vec![0; 2], vec![0; 5]], 0).await;
    /// assert_eq!(result?, 7);
    /// assert_eq!(buffers, [&b"# "[..], b"filch"]);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub fn read_vectored_at<B: IoBufMut + Unpin>(
        &self,
        bufs: Vec<B>,
        offset: u64,
    ) -> ReadVectored<'_, B> {
        let area = ReadMany::new(bufs);
        ReadVectored(Transfer::new(&self.handle, area, Place::At(offset), Extent::Some))
    }

    /// Writes what the file takes at an offset, which is usually everything.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("filch-write-at-{}", std::process::id()));
    /// # filch::block_on(async {
    /// let file = filch::fs::File::create(&path).await?;
    /// assert_eq!(file.write_at("end", 2).await.0?, 3);
    /// file.write_all_at("ab", 0).await.0?;
    /// assert_eq!(filch::fs::read(&path).await?, b"abend");
    /// filch::fs::remove_file(&path).await?;
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the system reports one. The buffer comes back in any case.
    pub fn write_at<B: IoBuf + Unpin>(&self, buf: B, offset: u64) -> Write<'_, B> {
        Write(Transfer::new(&self.handle, WriteOne(buf), Place::At(offset), Extent::Some))
    }

    /// Writes the whole buffer at an offset; see [`File::write_at`].
    ///
    /// # Errors
    /// As [`File::write_at`]; a part may be written then.
    pub fn write_all_at<B: IoBuf + Unpin>(&self, buf: B, offset: u64) -> Write<'_, B> {
        Write(Transfer::new(&self.handle, WriteOne(buf), Place::At(offset), Extent::All))
    }

    /// Writes several buffers at an offset, one after another, as far as the file takes them. Their number has no
    /// limit: those that one call of the system does not take follow with the next.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("filch-vectored-{}", std::process::id()));
    /// # filch::block_on(async {
    /// let file = filch::fs::File::create(&path).await?;
    /// assert_eq!(file.write_vectored_at(vec!["head", "body"], 1).await.0?, 8);
    /// assert_eq!(filch::fs::read(&path).await?, b"\0headbody");
    /// filch::fs::remove_file(&path).await?;
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_vectored_at<B: IoBuf + Unpin>(
        &self,
        bufs: Vec<B>,
        offset: u64,
    ) -> WriteVectored<'_, B> {
        let area = WriteMany::new(bufs);
        WriteVectored(Transfer::new(&self.handle, area, Place::At(offset), Extent::Some))
    }
}

/// Reads and writes at the cursor, one at a time.
impl File {
    /// Reads from the cursor into the buffer, and moves the cursor behind; 0 bytes are the end of the
    /// file, unless the buffer has none.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let file = filch::fs::File::open("README.md").await?;
    /// assert_eq!(file.read(vec![0; 2]).await.1, b"# ");
    /// assert_eq!(file.read(vec![0; 5]).await.1, b"filch");
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub fn read<B: IoBufMut + Unpin>(&self, buf: B) -> Read<'_, B> {
        Read(Transfer::new(&self.handle, ReadOne(buf), Place::Cursor, Extent::Some))
    }

    /// Fills the buffer from the cursor, and moves the cursor behind.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let file = filch::fs::File::open("README.md").await?;
    /// let (result, buffer) = file.read_exact(vec![0; 7]).await;
    /// assert_eq!((result?, &buffer[..]), (7, &b"# filch"[..]));
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`File::read_exact_at`]; the cursor stays where it was.
    pub fn read_exact<B: IoBufMut + Unpin>(&self, buf: B) -> Read<'_, B> {
        Read(Transfer::new(&self.handle, ReadOne(buf), Place::Cursor, Extent::All))
    }

    /// Reads from the cursor into several buffers, one after another, and moves the cursor behind.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let file = filch::fs::File::open("README.md").await?;
    /// let (result, buffers) = file.read_vectored(vec![vec![0; 2], vec![0; 5]]).await;
    /// assert_eq!((result?, &buffers[1][..]), (7, &b"filch"[..]));
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub fn read_vectored<B: IoBufMut + Unpin>(&self, bufs: Vec<B>) -> ReadVectored<'_, B> {
        let area = ReadMany::new(bufs);
        ReadVectored(Transfer::new(&self.handle, area, Place::Cursor, Extent::Some))
    }

    /// Writes what the file takes at the cursor, and moves the cursor behind.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("filch-cursor-{}", std::process::id()));
    /// # filch::block_on(async {
    /// let file = filch::fs::File::create(&path).await?;
    /// assert_eq!(file.write("head").await.0?, 4);
    /// file.write_all("body").await.0?;
    /// assert_eq!(file.write_vectored(vec!["a", "b"]).await.0?, 2);
    /// assert_eq!(filch::fs::read(&path).await?, b"headbodyab");
    /// filch::fs::remove_file(&path).await?;
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write<B: IoBuf + Unpin>(&self, buf: B) -> Write<'_, B> {
        Write(Transfer::new(&self.handle, WriteOne(buf), Place::Cursor, Extent::Some))
    }

    /// Writes the whole buffer at the cursor, and moves the cursor behind; see [`File::write`].
    ///
    /// # Errors
    /// As [`File::write_at`]; the cursor is behind what was written by then.
    pub fn write_all<B: IoBuf + Unpin>(&self, buf: B) -> Write<'_, B> {
        Write(Transfer::new(&self.handle, WriteOne(buf), Place::Cursor, Extent::All))
    }

    /// Writes several buffers at the cursor, one after another, as far as the file takes them, and moves
    /// the cursor behind; see [`File::write_vectored_at`].
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_vectored<B: IoBuf + Unpin>(&self, bufs: Vec<B>) -> WriteVectored<'_, B> {
        let area = WriteMany::new(bufs);
        WriteVectored(Transfer::new(&self.handle, area, Place::Cursor, Extent::Some))
    }

    /// Moves the cursor, and returns where it is.
    ///
    /// ```
    /// use std::io::SeekFrom;
    /// # filch::block_on(async {
    /// let file = filch::fs::File::open("README.md").await?;
    /// let end = file.seek(SeekFrom::End(0)).await?;
    /// assert_eq!(end, file.metadata().await?.len());
    /// assert_eq!(file.seek(SeekFrom::Current(-1)).await?, end - 1);
    /// assert_eq!(file.read(vec![0; 10]).await.0?, 1);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the file cannot seek, or that would be before its start.
    pub async fn seek(&self, to: SeekFrom) -> io::Result<u64> {
        self.handle.settled().await;
        let turn = self.handle.turn().await;
        let end = match to {
            SeekFrom::End(_) => Some(end_of(self.handle.clone()).await?),
            SeekFrom::Start(_) | SeekFrom::Current(_) => None,
        };
        seek(&self.handle, &turn, to, end)
    }

    /// Moves the cursor to the start.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let file = filch::fs::File::open("README.md").await?;
    /// file.read_exact(vec![0; 9]).await.0?;
    /// assert_eq!(file.stream_position().await?, 9);
    /// file.rewind().await?;
    /// assert_eq!(file.stream_position().await?, 0);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`File::seek`].
    pub async fn rewind(&self) -> io::Result<()> {
        self.seek(SeekFrom::Start(0)).await.map(drop)
    }

    /// Where the cursor is; see [`File::rewind`].
    ///
    /// # Errors
    /// If the file cannot seek.
    pub async fn stream_position(&self) -> io::Result<u64> {
        self.seek(SeekFrom::Current(0)).await
    }
}

/// Where the file ends; that may block.
pub(super) async fn end_of(handle: Arc<Handle>) -> io::Result<u64> {
    offload(move || sys::lseek(handle.raw(), 0, libc::SEEK_END)).await
}

/// Moves the cursor. `end` is the file's, if that is asked for.
pub(super) fn seek(
    handle: &Handle,
    turn: &Turn,
    to: SeekFrom,
    end: Option<u64>,
) -> io::Result<u64> {
    if handle.position == Position::None {
        return Err(io::Error::from_raw_os_error(libc::ESPIPE));
    }
    let cursor = match to {
        SeekFrom::Start(cursor) => Some(cursor),
        SeekFrom::Current(by) => turn.cursor().checked_add_signed(by),
        SeekFrom::End(by) => end.expect("asked for before").checked_add_signed(by),
    };
    let cursor = cursor.filter(|&cursor| i64::try_from(cursor).is_ok());
    let cursor = cursor.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    turn.move_to(cursor);
    Ok(cursor)
}

/// The file as a whole.
impl File {
    /// Has something done with the descriptor, which `kept` holds.
    async fn ask(&self, request: FileRequest, kept: impl Kept) -> io::Result<()> {
        self.handle.settled().await;
        // SAFETY: K1 of `ask`, it points to nothing, and the descriptor is kept.
        unsafe { ask(&self.handle.engine, request, kept) }.await.0.map(drop)
    }

    async fn sync(&self, extent: SyncExtent) -> io::Result<()> {
        self.handle.settled().await;
        self.handle.late().take_write()?;
        let request = FileRequest::Sync { fd: self.handle.raw(), extent };
        self.ask(request, self.handle.clone()).await
    }

    /// Waits until all that was written has reached the device, and what describes the file too.
    /// Dropped writes are waited for first.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("filch-sync-{}", std::process::id()));
    /// # filch::block_on(async {
    /// let file = filch::fs::File::create(&path).await?;
    /// file.write_all("kept").await.0?;
    /// file.sync_all().await?;
    /// file.sync_data().await?;
    /// assert_eq!(filch::fs::read(&path).await?, b"kept");
    /// filch::fs::remove_file(&path).await?;
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If it could not be written. What was lost is not known, and not said again. So is the error of a write through
    /// [`AsyncWrite`](crate::io::AsyncWrite), if nothing else has reported it.
    pub async fn sync_all(&self) -> io::Result<()> {
        self.sync(SyncExtent::All).await
    }

    /// Waits until all that was written has reached the device, so that it can be read again; see
    /// [`File::sync_all`].
    ///
    /// # Errors
    /// As [`File::sync_all`].
    pub async fn sync_data(&self) -> io::Result<()> {
        self.sync(SyncExtent::Data).await
    }

    /// Cuts the file, or extends it by zeros. The cursor stays.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("filch-cut-{}", std::process::id()));
    /// # filch::block_on(async {
    /// let file = filch::fs::File::create(&path).await?;
    /// file.write_all("long").await.0?;
    /// file.set_len(2).await?;
    /// assert_eq!(filch::fs::read(&path).await?, b"lo");
    /// filch::fs::remove_file(&path).await?;
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the file was not opened to write, or the system refuses.
    pub async fn set_len(&self, len: u64) -> io::Result<()> {
        if i64::try_from(len).is_err() {
            proceed().await;
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        self.handle.changes();
        let (handle, units) = (self.handle.clone(), Units::default());
        let cut = Cut { handle, waits: Waits::Future, units };
        self.ask(FileRequest::SetLen { fd: self.handle.raw(), len }, cut).await
    }

    /// What is known about the file.
    ///
    /// ```
    /// # filch::block_on(async {
    /// let file = filch::fs::File::open("README.md").await?;
    /// let metadata = file.metadata().await?;
    /// assert!(metadata.is_file() && metadata.len() > 9);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the system refuses.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        self.handle.settled().await;
        Metadata::of(&self.handle.engine, Subject::Open(self.handle.clone())).await
    }

    /// Sets who may do what with the file.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("filch-rights-{}", std::process::id()));
    /// # filch::block_on(async {
    /// let file = filch::fs::File::create(&path).await?;
    /// let mut permissions = file.metadata().await?.permissions();
    /// permissions.set_readonly(true);
    /// file.set_permissions(permissions).await?;
    /// assert!(file.metadata().await?.permissions().readonly());
    /// filch::fs::remove_file(&path).await?;
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the system refuses.
    pub async fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        self.handle.settled().await;
        let handle = self.handle.clone();
        offload(move || borrowed(&handle).set_permissions(permissions)).await
    }

    /// Sets when the file was last read and written.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// # let path = std::env::temp_dir().join(format!("filch-times-{}", std::process::id()));
    /// # filch::block_on(async {
    /// let file = filch::fs::File::create(&path).await?;
    /// let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    /// file.set_modified(then).await?;
    /// assert_eq!(file.metadata().await?.modified()?, then);
    /// filch::fs::remove_file(&path).await?;
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the system refuses.
    pub async fn set_times(&self, times: FileTimes) -> io::Result<()> {
        self.handle.settled().await;
        let handle = self.handle.clone();
        offload(move || borrowed(&handle).set_times(times)).await
    }

    /// Sets when the file was last written; see [`File::set_times`].
    ///
    /// # Errors
    /// If the system refuses.
    pub async fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(time)).await
    }
}

/// A change of length under way. Abandoned, it ends before any later operation begins (D5 of `handle`).
struct Cut {
    handle: Arc<Handle>,
    waits: Waits,
    /// D8 of `handle`, once it is abandoned.
    units: Units,
}

/// Who waits for a change of length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Future,
    /// Whoever comes next.
    Next,
}

impl Kept for Cut {
    fn abandoned(&mut self) {
        self.waits = Waits::Next;
        self.units = self.handle.units();
        self.handle.abandoned.add();
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.handle.changes();
        if self.waits == Waits::Next {
            self.handle.abandoned.finish();
        }
    }
}

/// The descriptor as a file of std's, which must not close it.
pub(super) fn borrowed(handle: &Handle) -> std::mem::ManuallyDrop<std::fs::File> {
    use std::os::fd::FromRawFd;
    // SAFETY: the handle keeps it open, and it is not closed here.
    std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(handle.raw()) })
}

impl TryFrom<std::fs::File> for File {
    type Error = io::Error;

    /// As [`File::from_std`].
    fn try_from(std: std::fs::File) -> io::Result<Self> {
        Self::from_std(std)
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.handle.raw()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("fd", &self.handle.raw()).finish_non_exhaustive()
    }
}
