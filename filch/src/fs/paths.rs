//! Operations on paths: names come, go and change.

use std::ffi::CString;
use std::fs::Permissions;
use std::io;
use std::path::{Path, PathBuf};

use super::ask::{ask, c_path, offload};
use super::metadata::{Follow, Metadata, Subject};
use crate::io::files::FileRequest;
use crate::net::engine_here;
use crate::task::budget::proceed;

/// Asks something about one path.
pub(super) async fn on_path(
    path: &Path,
    request: impl FnOnce(&CString) -> FileRequest,
) -> io::Result<()> {
    proceed().await;
    let path = c_path(path)?;
    let (request, engine) = (request(&path), engine_here());
    // SAFETY: K1 of `ask`, the path is kept.
    unsafe { ask(&engine, request, path) }.await.0.map(drop)
}

/// Asks something about two paths.
async fn on_paths(
    from: &Path,
    to: &Path,
    request: impl FnOnce(&CString, &CString) -> FileRequest,
) -> io::Result<()> {
    proceed().await;
    let (from, to) = (c_path(from)?, c_path(to)?);
    let (request, engine) = (request(&from, &to), engine_here());
    // SAFETY: K1 of `ask`, the paths are kept.
    unsafe { ask(&engine, request, (from, to)) }.await.0.map(drop)
}

/// Removes a file.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("filch-remove-{}", std::process::id()));
/// # filch::block_on(async {
/// filch::fs::write(&path, "text").await?;
/// filch::fs::remove_file(&path).await?;
/// assert!(!filch::fs::exists(&path).await);
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// If there is none, or the system refuses.
pub async fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    on_path(path.as_ref(), |path| FileRequest::Unlink { path: path.as_ptr(), flags: 0 }).await
}

/// Removes an empty directory.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("filch-rmdir-{}", std::process::id()));
/// # filch::block_on(async {
/// filch::fs::create_dir(&path).await?;
/// filch::fs::remove_dir(&path).await?;
/// assert!(filch::fs::remove_dir(&path).await.is_err());
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// If it is not empty, there is none, or the system refuses.
pub async fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let flags = libc::AT_REMOVEDIR;
    on_path(path.as_ref(), |path| FileRequest::Unlink { path: path.as_ptr(), flags }).await
}

/// Gives something another name; what had that name before is gone.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("filch-rename-{}", std::process::id()));
/// # filch::block_on(async {
/// filch::fs::create_dir(&dir).await?;
/// filch::fs::write(dir.join("old"), "text").await?;
/// filch::fs::rename(dir.join("old"), dir.join("new")).await?;
/// assert!(!filch::fs::try_exists(dir.join("old")).await?);
/// assert_eq!(filch::fs::read_to_string(dir.join("new")).await?, "text");
/// filch::fs::remove_dir_all(&dir).await?;
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// If there is nothing, both are on different file systems, or the system refuses.
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    on_paths(from.as_ref(), to.as_ref(), |from, to| {
        let (from, to) = (from.as_ptr(), to.as_ptr());
        FileRequest::Rename { from, to }
    })
    .await
}

/// Gives a file a second name.
///
/// ```
/// use std::os::unix::fs::MetadataExt;
/// # let path = std::env::temp_dir().join(format!("filch-link-{}", std::process::id()));
/// # let second = path.with_extension("second");
/// # filch::block_on(async {
/// filch::fs::write(&path, "text").await?;
/// filch::fs::hard_link(&path, &second).await?;
/// assert_eq!(filch::fs::metadata(&second).await?.nlink(), 2);
/// # filch::fs::remove_file(&path).await?;
/// # filch::fs::remove_file(&second).await?;
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// If there is no such file, the name is taken, or the system refuses.
pub async fn hard_link(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    on_paths(original.as_ref(), link.as_ref(), |from, to| {
        let (from, to) = (from.as_ptr(), to.as_ptr());
        FileRequest::Link { from, to }
    })
    .await
}

/// Makes a symbolic link.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("filch-symlink-{}", std::process::id()));
/// # filch::block_on(async {
/// filch::fs::symlink("somewhere/else", &path).await?;
/// assert_eq!(filch::fs::read_link(&path).await?.to_str(), Some("somewhere/else"));
/// assert!(filch::fs::symlink_metadata(&path).await?.is_symlink());
/// filch::fs::remove_file(&path).await?;
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// If the name is taken, or the system refuses.
pub async fn symlink(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    on_paths(original.as_ref(), link.as_ref(), |target, link| {
        let (target, link) = (target.as_ptr(), link.as_ptr());
        FileRequest::Symlink { target, link }
    })
    .await
}

async fn stat(path: &Path, follow: Follow) -> io::Result<Metadata> {
    proceed().await;
    Metadata::of(&engine_here(), Subject::Path(c_path(path)?, follow)).await
}

/// What is known about what a path leads to.
///
/// ```
/// # filch::block_on(async {
/// assert!(filch::fs::metadata("src").await?.is_dir());
/// assert!(filch::fs::symlink_metadata("src").await?.is_dir());
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// If there is nothing, or the system refuses.
pub async fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    stat(path.as_ref(), Follow::Yes).await
}

/// What is known about a path itself, even if it is a symbolic link; see [`symlink`].
///
/// # Errors
/// If there is nothing, or the system refuses.
pub async fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    stat(path.as_ref(), Follow::No).await
}

/// Whether a path leads to something.
///
/// ```
/// # filch::block_on(async {
/// assert!(filch::fs::try_exists("Cargo.toml").await?);
/// assert!(!filch::fs::try_exists("no such file").await?);
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// If that cannot be told.
pub async fn try_exists(path: impl AsRef<Path>) -> io::Result<bool> {
    match metadata(path).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a path is known to lead to something; not, if that cannot be told.
///
/// ```
/// # filch::block_on(async {
/// assert!(filch::fs::exists("Cargo.toml").await);
/// assert!(!filch::fs::exists("Cargo.toml/below").await);
/// # });
/// ```
pub async fn exists(path: impl AsRef<Path>) -> bool {
    try_exists(path).await.unwrap_or(false)
}

/// Sets who may do what with a file.
///
/// ```
/// use std::os::unix::fs::PermissionsExt;
/// # let path = std::env::temp_dir().join(format!("filch-chmod-{}", std::process::id()));
/// # filch::block_on(async {
/// filch::fs::write(&path, "text").await?;
/// filch::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).await?;
/// assert_eq!(filch::fs::metadata(&path).await?.permissions().mode() & 0o777, 0o600);
/// filch::fs::remove_file(&path).await?;
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// If there is none, or the system refuses.
pub async fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    let path = path.as_ref().to_owned();
    offload(move || std::fs::set_permissions(path, permissions)).await
}

/// The path without links, and from the root.
///
/// ```
/// # filch::block_on(async {
/// assert!(filch::fs::canonicalize("src/../Cargo.toml").await?.ends_with("filch/Cargo.toml"));
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
///
/// # Errors
/// If it leads to nothing, or the system refuses.
pub async fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref().to_owned();
    offload(move || std::fs::canonicalize(path)).await
}

/// Where a symbolic link points to; see [`symlink`].
///
/// # Errors
/// If it is none, or the system refuses.
pub async fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref().to_owned();
    offload(move || std::fs::read_link(path)).await
}
