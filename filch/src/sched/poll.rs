//! An event core that waits for descriptors of the program's own.
//!
//! P1. A wake writes to a socket that the core reads, once until it is read. The bell is rung from before the
//!     write until after the read, so whatever is in the line, or on its way to it, belongs to a bell that is
//!     rung, and a bell that is rung has it.
//! P2. Descriptors are level-triggered: what a source leaves undone is told again.
//! P3. Timeouts are rounded up, so that no turn is spent on the last fraction of a deadline.

use std::any::Any;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use super::core::{EventCore, EventSource, SourceId, SourceKind};
use crate::base::shim::{AtomicBool, Ordering};

/// An event core that waits for file descriptors, by `poll(2)`: those of a display server, a device, an
/// old library.
///
/// Its worker runs tasks as every other; what its descriptors say is told by [`FdSource`]s.
///
/// ```
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
/// use filch::{FdSource, Interest, NewWorker, PollCore};
///
/// let hive = filch::Builder::new().hive()?;
/// let ui = hive.attach(NewWorker::io().name("ui").event_core(PollCore::new()?))?;
/// let (mut server, display) = UnixStream::pair()?;
/// let handle = hive.handle();
/// let source = FdSource::new(display, Interest::READ, move |mut display: &UnixStream, _| {
///     let mut event = [0];
///     display.read_exact(&mut event).unwrap();
///     assert_eq!(event, [7]);
///     handle.request_stop();
/// });
/// let _watcher = hive.watch(ui, source)?;
/// server.write_all(&[7])?;
/// hive.run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PollCore {
    bell: Arc<Bell>,
    heard: UnixStream,
    sources: Vec<(SourceId, Watched, Box<dyn EventSource>)>,
    /// What `poll` is given: the bell first, then the sources.
    fds: Vec<libc::pollfd>,
}

#[derive(Clone, Copy)]
struct Watched {
    fd: RawFd,
    events: i16,
}

/// What wakes the core.
struct Bell {
    line: UnixStream,
    /// P1: rung, and not heard yet.
    rung: AtomicBool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // ORDERING: AcqRel, Release pairs with the Acquire in `hear`: who is woken sees why.
        if !self.rung.swap(true, Ordering::AcqRel) {
            // A full line is as good as rung.
            let _ = (&self.line).write(&[1]);
        }
    }
}

impl PollCore {
    /// A core without sources.
    ///
    /// ```
    /// let core = filch::PollCore::new()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the system grants no descriptors.
    pub fn new() -> io::Result<Self> {
        let (line, heard) = UnixStream::pair()?;
        line.set_nonblocking(true)?;
        heard.set_nonblocking(true)?;
        let bell = Arc::new(Bell { line, rung: AtomicBool::new(false) });
        Ok(Self { bell, heard, sources: Vec::new(), fds: Vec::new() })
    }

    /// Waits for so long, and dispatches.
    fn turn(&mut self, timeout: Option<Duration>) -> usize {
        self.fds.clear();
        let bell = Watched { fd: self.heard.as_raw_fd(), events: libc::POLLIN };
        let sources = self.sources.iter().map(|(_, watched, _)| *watched);
        let entry = |w: Watched| libc::pollfd { fd: w.fd, events: w.events, revents: 0 };
        self.fds.extend(std::iter::once(bell).chain(sources).map(entry));
        if !wait(&mut self.fds, timeout) {
            return 0;
        }
        if self.fds[0].revents != 0 {
            self.hear();
        }
        let mut told = 0;
        for (fd, (_, _, source)) in self.fds[1..].iter().zip(&mut self.sources) {
            if fd.revents != 0 {
                source.dispatch(&FdEvent(fd.revents));
                told += 1;
            }
        }
        told
    }

    fn hear(&mut self) {
        let mut bytes = [0; 16];
        while matches!(self.heard.read(&mut bytes), Ok(read) if read == bytes.len()) {}
        // ORDERING: Acquire pairs with the Release in `wake_by_ref`: who rang before, and did not write, is
        // heard by this turn. After the read, which would else take what is written from now on, and leave
        // the bell rung with nothing in the line.
        self.bell.rung.swap(false, Ordering::Acquire);
    }
}

impl fmt::Debug for PollCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollCore").field("sources", &self.sources.len()).finish_non_exhaustive()
    }
}

impl EventCore for PollCore {
    fn poll(&mut self) -> usize {
        if self.sources.is_empty() { 0 } else { self.turn(Some(Duration::ZERO)) }
    }

    fn park(&mut self, timeout: Option<Duration>) {
        self.turn(timeout);
    }

    fn waker(&self) -> Waker {
        Waker::from(self.bell.clone())
    }

    fn source_kind(&self) -> Option<SourceKind> {
        Some(SourceKind::FD)
    }

    fn add_source(&mut self, id: SourceId, source: Box<dyn EventSource>) -> io::Result<()> {
        let Some(&FdKey { fd, interest }) = source.registration().downcast_ref() else {
            let text = "a source of file descriptors is an `FdSource`";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        self.sources.push((id, Watched { fd, events: interest.0 }, source));
        Ok(())
    }

    fn remove_source(&mut self, id: SourceId) {
        self.sources.retain(|(other, _, _)| *other != id);
    }
}

/// Whether something has happened.
#[cfg(target_os = "linux")]
fn wait(fds: &mut [libc::pollfd], timeout: Option<Duration>) -> bool {
    let spec = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let spec = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let count = fds.len() as libc::nfds_t;
    // SAFETY: there are so many entries; the time, if any, lives during the call.
    unsafe { libc::ppoll(fds.as_mut_ptr(), count, spec, std::ptr::null()) > 0 }
}

/// Whether something has happened.
#[cfg(not(target_os = "linux"))]
fn wait(fds: &mut [libc::pollfd], timeout: Option<Duration>) -> bool {
    // P3.
    let ms = timeout.map_or(-1, |timeout| {
        timeout.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(i32::MAX)
    });
    let count = fds.len() as libc::nfds_t;
    // SAFETY: there are so many entries.
    unsafe { libc::poll(fds.as_mut_ptr(), count, ms) > 0 }
}

/// What a descriptor is watched for.
///
/// ```
/// use filch::Interest;
/// assert_ne!(Interest::READ, Interest::BOTH);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interest(i16);

impl Interest {
    /// That there is something to read.
    pub const READ: Self = Self(libc::POLLIN);
    /// That there is room to write.
    pub const WRITE: Self = Self(libc::POLLOUT);
    /// Either.
    pub const BOTH: Self = Self(libc::POLLIN | libc::POLLOUT);
}

/// What a descriptor says; see [`FdSource`].
///
/// ```
/// fn serve(event: filch::FdEvent) -> bool { event.is_readable() && !event.is_closed() }
/// # let _ = serve;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdEvent(i16);

impl FdEvent {
    /// Whether there is something to read, if only the end.
    ///
    /// ```
    /// # fn is(event: filch::FdEvent) -> bool {
    /// event.is_readable()
    /// # }
    /// ```
    pub fn is_readable(self) -> bool {
        self.0 & (libc::POLLIN | libc::POLLHUP) != 0
    }

    /// Whether there is room to write.
    ///
    /// ```
    /// # fn is(event: filch::FdEvent) -> bool {
    /// event.is_writable()
    /// # }
    /// ```
    pub fn is_writable(self) -> bool {
        self.0 & libc::POLLOUT != 0
    }

    /// Whether the other side is gone, or the descriptor is broken.
    ///
    /// ```
    /// # fn is(event: filch::FdEvent) -> bool {
    /// event.is_closed()
    /// # }
    /// ```
    pub fn is_closed(self) -> bool {
        self.0 & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
    }
}

/// What a [`PollCore`] registers.
struct FdKey {
    fd: RawFd,
    interest: Interest,
}

/// A descriptor that a [`PollCore`] watches, and what is called when it says something.
///
/// It owns the descriptor. The closure runs on the worker's thread, between its tasks, so it should be
/// brief; it may post tasks. As long as it leaves something to read, it is called again. [`PollCore`] has
/// an example.
///
/// ```
/// use std::os::unix::net::UnixStream;
/// use filch::{EventSource, FdSource, Interest, SourceKind};
/// let (here, _there) = UnixStream::pair()?;
/// let source = FdSource::new(here, Interest::READ, |_here: &UnixStream, _event| {});
/// assert_eq!(source.kind(), SourceKind::FD);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct FdSource<T, F> {
    owner: T,
    key: FdKey,
    tell: F,
}

impl<T, F> FdSource<T, F>
where
    T: AsRawFd + Send,
    F: FnMut(&T, FdEvent) + Send,
{
    /// Watches the descriptor of `owner`.
    ///
    /// ```
    /// use filch::{FdSource, Interest};
    /// let (here, _there) = std::os::unix::net::UnixStream::pair()?;
    /// let source = FdSource::new(here, Interest::BOTH, |_, event| println!("{event:?}"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(owner: T, interest: Interest, tell: F) -> Self {
        let key = FdKey { fd: owner.as_raw_fd(), interest };
        Self { owner, key, tell }
    }
}

impl<T, F> EventSource for FdSource<T, F>
where
    T: AsRawFd + Send,
    F: FnMut(&T, FdEvent) + Send,
{
    fn kind(&self) -> SourceKind {
        SourceKind::FD
    }

    fn registration(&self) -> &dyn Any {
        &self.key
    }

    fn dispatch(&mut self, event: &dyn Any) {
        if let Some(&event) = event.downcast_ref() {
            (self.tell)(&self.owner, event);
        }
    }
}

impl<T, F> fmt::Debug for FdSource<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FdSource").field("fd", &self.key.fd).finish_non_exhaustive()
    }
}
