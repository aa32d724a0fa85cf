//! The epoll descriptor of one I/O worker: what is used where the kernel refuses rings.
//!
//! E1. A descriptor is registered once, for both directions, edge-triggered, with one driver of the
//!     runtime; it stays there until it is closed, or until the driver's worker leaves.
//! E2. An event names its source by key, index and generation: one that comes late for a source that is
//!     gone finds nothing.
//! E3. The eventfd is one more source, never read: each write is an edge.
//!
//! Any thread may wait on the descriptor and tell what it learnt, so a stuck owner holds nothing back.
//!
//! Not here: the calls that were waited for (`op`), requests that may block (`engine`).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use slab::Slab;

use super::readiness::{News, Readiness};
use super::sys;
use super::waiting::Waiting;

/// Events that one wait returns at most. Guessed.
pub(crate) const EVENTS: usize = 256;

/// The key of the eventfd.
const WAKE: u64 = u64::MAX;

pub(crate) struct Epoll {
    fd: OwnedFd,
    sources: Slab<Source>,
    next_generation: u32,
    /// Events that were not told yet, without the eventfd's.
    waiting: Waiting<libc::epoll_event>,
}

/// A registered descriptor.
struct Source {
    generation: u32,
    fd: RawFd,
    readiness: Arc<Readiness>,
}

/// Names a source of one driver (E2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceKey(pub(crate) u64);

/// What a wait has brought.
pub(crate) type Events = Vec<libc::epoll_event>;

impl Epoll {
    pub(crate) fn open(eventfd: &OwnedFd) -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and ours.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let waiting = Waiting::new();
        let epoll = Self { fd, sources: Slab::new(), next_generation: 0, waiting };
        epoll.control(libc::EPOLL_CTL_ADD, eventfd.as_raw_fd(), libc::EPOLLIN, WAKE)?;
        Ok(epoll)
    }

    fn control(&self, what: i32, fd: RawFd, events: i32, data: u64) -> io::Result<()> {
        let events = (events | libc::EPOLLET) as u32;
        let mut event = libc::epoll_event { events, u64: data };
        // SAFETY: the event lives during the call.
        let result = unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), what, fd, &raw mut event) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// How many descriptors are registered, the eventfd apart.
    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }

    /// Registers a descriptor (E1).
    pub(crate) fn add(&mut self, fd: RawFd, readiness: Arc<Readiness>) -> io::Result<SourceKey> {
        let generation = self.next_generation;
        self.next_generation = generation.wrapping_add(1);
        let index = self.sources.insert(Source { generation, fd, readiness });
        let data = u64::from(generation) << 32 | index as u64;
        let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLPRI;
        if let Err(error) = self.control(libc::EPOLL_CTL_ADD, fd, events, data) {
            self.sources.remove(index);
            return Err(error);
        }
        Ok(SourceKey(data))
    }

    /// Forgets a descriptor, which is still open. What was kept for it is handed out, to be dropped
    /// without the lock.
    pub(crate) fn remove(&mut self, fd: RawFd, key: SourceKey) -> Option<Arc<Readiness>> {
        // A descriptor that was duplicated would go on telling; the answer does not matter.
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, 0);
        let index = self.find(key.0)?;
        Some(self.sources.remove(index).readiness)
    }

    fn find(&self, data: u64) -> Option<usize> {
        let index = data as u32 as usize;
        let source = self.sources.get(index)?;
        (u64::from(source.generation) == data >> 32).then_some(index)
    }

    /// Whether events wait to be told.
    pub(crate) fn is_ready(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Tells sources what waits have brought (E2), as many of them as there is room for.
    pub(crate) fn tell(&mut self, events: &Events, room: usize, woken: &mut Vec<Waker>) {
        for event in events.iter().filter(|event| event.u64 != WAKE) {
            self.waiting.push(*event);
        }
        let mut waiting = std::mem::replace(&mut self.waiting, Waiting::new());
        waiting.take(room, |event| {
            let (data, bits) = (event.u64, event.events as i32);
            if let Some(index) = self.find(data) {
                self.sources[index].readiness.tell(news(bits), woken);
            }
        });
        self.waiting = waiting;
    }

    /// Tells every source that the driver has ended.
    pub(crate) fn close(&mut self, woken: &mut Vec<Waker>) {
        for (_, source) in &self.sources {
            source.readiness.tell(News::CLOSED, woken);
        }
    }

    /// Forgets all sources, which are to be registered elsewhere.
    pub(crate) fn take_all(&mut self) -> Vec<(RawFd, Arc<Readiness>)> {
        let sources: Vec<Source> = self.sources.drain().collect();
        for source in &sources {
            // As in `remove`.
            let _ = self.control(libc::EPOLL_CTL_DEL, source.fd, 0, 0);
        }
        sources.into_iter().map(|source| (source.fd, source.readiness)).collect()
    }
}

fn news(bits: i32) -> News {
    let pick = |mask: i32, news| if bits & mask != 0 { news } else { News::NONE };
    pick(libc::EPOLLIN, News::READ)
        .and(pick(libc::EPOLLOUT, News::WRITE))
        .and(pick(libc::EPOLLRDHUP | libc::EPOLLPRI, News::READ_END))
        .and(pick(libc::EPOLLERR | libc::EPOLLHUP, News::END))
}

/// Waits for events on the descriptor of an `Epoll`, with or without its owner. `None` is for ever.
/// Returns nothing if a signal came.
pub(crate) fn wait(fd: RawFd, timeout: Option<Duration>, events: &mut Events) {
    events.clear();
    events.reserve(EVENTS);
    let spec = timeout.and_then(sys::timespec);
    // SAFETY: there is room for `EVENTS` events; the time, if any, lives during the call.
    let count = unsafe { sys::epoll_wait(fd, events.as_mut_ptr(), EVENTS as i32, spec.as_ref()) };
    // SAFETY: the kernel has filled so many.
    unsafe { events.set_len(usize::try_from(count).unwrap_or(0)) };
}
