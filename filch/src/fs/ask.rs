//! Operations that move no bytes: one request, and what it needs.
//!
//! K1. What a request points to is kept, on the heap, until the answer has come, whether anybody waits for
//!     it or not.
//! K2. An abandoned request runs to its end; a descriptor that it opens then is closed.
//! K3. If others have to wait for the end of an abandoned request, `Kept` sees to that.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::handle::Handle;
use crate::io::cause::Cause;
use crate::io::descriptor::Descriptor;
use crate::io::driver::Cancel;
use crate::io::engine::Engine;
use crate::io::files::FileRequest;
use crate::io::op::{Op, Operation};
use crate::io::request::Request;
use crate::io::slots::{Completion, Late};
use crate::io::sys;
use crate::spawn::spawn_blocking;

/// What a request points to, kept until the answer has come (K1).
pub(super) trait Kept: Send + Unpin + 'static {
    /// Nobody waits for the answer any more, which is still to come (K3).
    fn abandoned(&mut self) {}
}

impl Kept for CString {}
impl Kept for (CString, CString) {}
impl Kept for Arc<Handle> {}

struct Ask<K> {
    request: FileRequest,
    kept: K,
}

// SAFETY: K1, by the promise to `ask`; the late one keeps the same.
unsafe impl<K: Kept> Operation for Ask<K> {
    type Output = (Completion, K);

    fn request(&mut self) -> Request {
        Request::File(self.request)
    }

    fn descriptor(&self) -> Option<&Descriptor> {
        None
    }

    fn finish(self, completion: Completion) -> (Completion, K) {
        (completion, self.kept)
    }

    fn into_late(mut self) -> Box<dyn Late> {
        self.kept.abandoned();
        Box::new(self)
    }

    fn cancels(&self) -> Cancel {
        match self.request {
            // A device may make it wait for long.
            FileRequest::Open { .. } => Cancel::Yes,
            _ => Cancel::No,
        }
    }
}

impl<K: Send> Late for Ask<K> {
    fn finish(self: Box<Self>, completion: Completion) {
        if let (FileRequest::Open { .. }, Ok(fd)) = (self.request, completion.to_io()) {
            // SAFETY: it was opened for us, and nobody has heard of it.
            unsafe { sys::close(fd.cast_signed()) };
        }
    }
}

/// Has a request performed, again if a signal came in between; its answer, and what was kept.
///
/// # Safety
/// * What the request points to is owned by `kept`, on the heap, and so is its descriptor.
pub(super) async unsafe fn ask<K: Kept>(
    engine: &Arc<Engine>,
    request: FileRequest,
    mut kept: K,
) -> (io::Result<u32>, K) {
    loop {
        let (completion, back) = Op::new(engine, Ask { request, kept }).await;
        match completion.to_io() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => kept = back,
            result => return (result, back),
        }
    }
}

/// A path as the kernel takes it.
pub(super) fn c_path(path: &Path) -> io::Result<CString> {
    let text = "a path holds no zero byte";
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Runs what may block on a thread for that. Dropped, it lets the closure run to its end.
pub(super) async fn offload<T: Send + 'static>(
    closure: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match spawn_blocking(closure).outcome().await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(error) => {
            let errno = error.never_ran().and_then(|why| why.errno);
            Err(errno.map_or(Cause::Ended, Cause::NoThread).into())
        }
    }
}
