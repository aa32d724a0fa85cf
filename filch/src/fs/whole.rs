//! Whole files at once.

use std::io;
use std::path::Path;

use super::ask::offload;
use super::file::{File, borrowed};

/// Bytes that a file of unknown length is read by, at first. As std's.
const FIRST: usize = 8 * 1024;

/// All bytes of a file.
///
/// ```
/// # filch::block_on(async {
/// assert!(filch::fs::read("README.md").await?.starts_with(b"# filch"));
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// If there is none, or the system refuses.
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let file = File::open(path).await?;
    // Just opened, its length is in memory. One byte more, to see the end without another look.
    let known = borrowed(file.handle()).metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(match usize::try_from(known).unwrap_or(usize::MAX) {
        // Not known: some files of the system's tell all in the first read, as far as it reaches, and
        // nothing in the next.
        0 => FIRST,
        known => known.saturating_add(1),
    })?;
    loop {
        if bytes.capacity() - bytes.len() < FIRST.min(bytes.len() + 1) {
            bytes.try_reserve(FIRST)?;
        }
        let start = bytes.len();
        let (result, part) = file.read(crate::io::IoBuf::slice(bytes, start..)).await;
        bytes = part.into_inner();
        if result? == 0 {
            return Ok(bytes);
        }
    }
}

/// All of a file, as text.
///
/// ```
/// # filch::block_on(async {
/// assert!(filch::fs::read_to_string("Cargo.toml").await?.contains("name = \"filch\""));
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// As [`read`], and `InvalidData` if it is not UTF-8.
pub async fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let bytes = read(path).await?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Makes a file of these bytes, whatever was there.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("filch-write-{}", std::process::id()));
/// # filch::block_on(async {
/// filch::fs::write(&path, "text").await?;
/// assert_eq!(filch::fs::read(&path).await?, b"text");
/// filch::fs::remove_file(&path).await?;
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// If the system refuses; a part may be written then.
pub async fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let bytes = contents.as_ref().to_vec();
    let file = File::create(path).await?;
    file.write_all(bytes).await.0.map(drop)
}

/// Copies a file with its permissions; how many bytes that were.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("filch-copy-{}", std::process::id()));
/// # filch::block_on(async {
/// let count = filch::fs::copy("Cargo.toml", &path).await?;
/// assert_eq!(count, filch::fs::metadata(&path).await?.len());
/// filch::fs::remove_file(&path).await?;
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// If there is none, it is no regular file, or the system refuses.
///
/// # Cancel safety
/// Dropped, it runs to its end.
pub async fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let (from, to) = (from.as_ref().to_owned(), to.as_ref().to_owned());
    offload(move || std::fs::copy(from, to)).await
}
