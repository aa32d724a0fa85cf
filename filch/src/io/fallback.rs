//! What performs a driver's requests when its ring may not be entered any more: calls, made when descriptors are ready.
//!
//! L1. A descriptor is registered while requests wait for it, once, for all that they wait for. It is
//!     forgotten before the last of them is told, so what is registered is open (H1 of `descriptor`).
//! L2. No call waits here. One that cannot ask for that is made while its descriptor is set not to block.
//! L3. What may block is handed out, for a thread that may. Where the file can be polled, that happens when it is
//!     ready.
//! L4. A stream ends with its first completion, and whoever reads it starts another. A receive of chunks only
//!     tells that there is something: there are no buffers that the kernel picks from.
//!
//! This is for a fault: each wait costs two calls to register and to forget. A runtime that knows from the start that rings
//! are denied uses `epoll`, which registers a descriptor once.
//!
//! Not here: what was in flight on the ring (`driver/denied.rs`).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

use super::epoll::Events;
use super::files::FileRequest;
use super::readiness::Direction;
use super::request::Request;
use super::slots::{CANCELED, Completion, Key};
use super::sys;

/// What events of others than descriptors are marked with: these have smaller numbers.
const WAKE: u64 = u64::MAX;
const RING: u64 = u64::MAX - 1;
const END: u64 = u64::MAX - 2;

/// A request that waits for readiness.
struct Wait {
    key: Key,
    request: Request,
    direction: Direction,
}

pub(super) struct Fallback {
    epoll: OwnedFd,
    /// L1. None of them is empty.
    waits: BTreeMap<RawFd, Vec<Wait>>,
    /// What has not been told yet.
    done: VecDeque<(Key, Completion)>,
    /// L3.
    calls: Vec<(Key, Request)>,
}

/// What came of a call that does not wait.
enum Attempt {
    Done(Completion),
    WouldBlock,
    /// It cannot be asked not to wait (L3).
    MayBlock,
}

/// What a look has brought, apart from requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    Nothing,
    /// Nobody has the other end of what `watch_end` watches.
    End,
}

fn attempt(request: &Request) -> Attempt {
    loop {
        let result = match request {
            Request::RecvMany { fd } => match sys::is_ready(*fd, Direction::Read) {
                ready if ready > 0 => 0,
                result => result,
            },
            Request::Poll { fd, direction } => sys::is_ready(*fd, *direction),
            // Nothing is set in vain: rings that accept from a clone would be told that they would block.
            Request::AcceptMany { fd } => match sys::is_ready(*fd, Direction::Read) {
                // SAFETY: R1 of `request`, what is in flight is kept until it is told.
                ready if ready > 0 => unwaiting(*fd, || unsafe { request.call() }),
                result => result,
            },
            // SAFETY: as above.
            Request::Connect { fd, .. } => unwaiting(*fd, || unsafe { request.call() }),
            Request::File(file) => {
                // SAFETY: as above.
                match unsafe { file.call_at_once() } {
                    result if result == -libc::EOPNOTSUPP => return Attempt::MayBlock,
                    result => result,
                }
            }
            // SAFETY: as above.
            _ => unsafe { request.call() },
        };
        match result {
            _ if result == -libc::EAGAIN => return Attempt::WouldBlock,
            _ if result == -libc::EINTR => {}
            _ if matches!(request, Request::SendUncopied { .. }) => {
                return Attempt::Done(Completion::copied(result));
            }
            _ => return Attempt::Done(Completion { result, flags: 0 }),
        }
    }
}

/// Makes a call while a descriptor is set not to block (L2).
fn unwaiting(fd: RawFd, call: impl FnOnce() -> i32) -> i32 {
    // Clones of a descriptor share the setting: of two at once, one would take it from the other before its call.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let flags = sys::status_flags(fd);
    if flags < 0 || flags & libc::O_NONBLOCK != 0 {
        return call();
    }
    sys::set_status_flags(fd, flags | libc::O_NONBLOCK);
    let result = call();
    sys::set_status_flags(fd, flags);
    result
}

/// What a request waits for; `None` if it may block whatever is ready.
fn awaited(request: &Request) -> Option<(RawFd, Direction)> {
    let fd = match *request {
        Request::Recv { fd, .. }
        | Request::Send { fd, .. }
        | Request::SendUncopied { fd, .. }
        | Request::RecvMsg { fd, .. }
        | Request::SendMsg { fd, .. }
        | Request::RecvMany { fd }
        | Request::AcceptMany { fd }
        | Request::Connect { fd, .. }
        | Request::Poll { fd, .. } => fd,
        Request::File(FileRequest::Read { fd, .. } | FileRequest::ReadVectored { fd, .. }) => {
            return Some((fd, Direction::Read));
        }
        Request::File(FileRequest::Write { fd, .. } | FileRequest::WriteVectored { fd, .. }) => {
            return Some((fd, Direction::Write));
        }
        Request::File(_) => return None,
    };
    request.direction().map(|direction| (fd, direction))
}

impl Fallback {
    /// Watches the eventfd by which the driver is woken, and the ring, if there is one, for its completions.
    pub(super) fn open(eventfd: &OwnedFd, ring: Option<RawFd>) -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and ours.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        let (waits, done, calls) = (BTreeMap::new(), VecDeque::new(), Vec::new());
        let fallback = Self { epoll, waits, done, calls };
        // Never read: each write is an edge.
        let wake = libc::EPOLLIN | libc::EPOLLET;
        fallback.control(libc::EPOLL_CTL_ADD, eventfd.as_raw_fd(), wake, WAKE)?;
        if let Some(ring) = ring {
            fallback.control(libc::EPOLL_CTL_ADD, ring, libc::EPOLLIN, RING)?;
        }
        Ok(fallback)
    }

    fn control(&self, what: i32, fd: RawFd, events: i32, data: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: data };
        // SAFETY: the event lives during the call.
        let result = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), what, fd, &raw mut event) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Has `tell` say when nobody has the other end of a pipe any more.
    pub(super) fn watch_end(&self, pipe: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, pipe, libc::EPOLLIN, END)
    }

    /// Watches a ring, or the end of a pipe, no more.
    pub(super) fn forget(&self, fd: RawFd) {
        // What is about to be closed would be forgotten anyway, unless a forked child has it.
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, 0);
    }

    pub(super) fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Takes a request, whose pointers are valid until it is told (O1 of `slots`).
    pub(super) fn start(&mut self, request: &Request, key: Key) {
        let request = *request;
        let Some((fd, direction)) = awaited(&request) else {
            return self.calls.push((key, request));
        };
        if !matches!(request, Request::File(_))
            && let Attempt::Done(completion) = attempt(&request)
        {
            return self.done.push_back((key, completion));
        }
        self.waits.entry(fd).or_default().push(Wait { key, request, direction });
        let first = self.waits[&fd].len() == 1;
        let how = if first { libc::EPOLL_CTL_ADD } else { libc::EPOLL_CTL_MOD };
        let Err(error) = self.arm(how, fd) else { return };
        self.take(key);
        match request {
            // A file that is always ready.
            Request::File(_) => self.calls.push((key, request)),
            _ => {
                let result = -error.raw_os_error().unwrap_or(libc::EIO);
                self.done.push_back((key, Completion { result, flags: 0 }));
            }
        }
    }

    /// Registers a descriptor for what is waited for, until the next event (L1).
    fn arm(&self, how: i32, fd: RawFd) -> io::Result<()> {
        let bits = |wait: &Wait| match wait.direction {
            Direction::Read => libc::EPOLLIN | libc::EPOLLRDHUP,
            Direction::Write => libc::EPOLLOUT,
        };
        let all = self.waits[&fd].iter().map(bits).fold(libc::EPOLLONESHOT, |all, one| all | one);
        self.control(how, fd, all, fd as u64)
    }

    /// Takes a request out that waits.
    fn take(&mut self, key: Key) -> Option<Wait> {
        let holds = |waits: &Vec<Wait>| waits.iter().position(|wait| wait.key == key);
        let (fd, place) =
            self.waits.iter().find_map(|(&fd, waits)| holds(waits).map(|place| (fd, place)))?;
        let Entry::Occupied(mut waits) = self.waits.entry(fd) else { return None };
        let wait = waits.get_mut().remove(place);
        if waits.get().is_empty() {
            waits.remove();
            self.forget(fd);
        }
        Some(wait)
    }

    /// Ends a request that waits or was not handed out; whether it is one of these here, begun or not.
    pub(super) fn cancel(&mut self, key: Key) -> bool {
        if self.done.iter().any(|&(done, told)| done == key && !told.has_more()) {
            return true;
        }
        let called = self.calls.iter().position(|&(call, _)| call == key);
        let called = called.map(|place| self.calls.swap_remove(place));
        let found = called.is_some() || self.take(key).is_some();
        if found {
            self.done.push_back((key, Completion { result: CANCELED, flags: 0 }));
        }
        found
    }

    /// Ends all that waits or was not handed out.
    pub(super) fn cancel_all(&mut self) {
        for (fd, waits) in std::mem::take(&mut self.waits) {
            self.forget(fd);
            let keys = waits.into_iter().map(|wait| wait.key);
            self.done.extend(keys.map(|key| (key, Completion { result: CANCELED, flags: 0 })));
        }
        let keys = self.calls.drain(..).map(|(key, _)| key);
        self.done.extend(keys.map(|key| (key, Completion { result: CANCELED, flags: 0 })));
    }

    /// Has `reap` tell a completion of the ring.
    pub(super) fn tell_later(&mut self, key: Key, completion: Completion) {
        self.done.push_back((key, completion));
    }

    /// All requests that are here and were not told.
    pub(super) fn keys(&self) -> Vec<Key> {
        let waits = self.waits.values().flatten().map(|wait| wait.key);
        waits.chain(self.calls.iter().map(|&(key, _)| key)).collect()
    }

    /// Attempts what a wait has found ready.
    pub(super) fn tell(&mut self, events: &Events) -> Seen {
        let mut seen = Seen::Nothing;
        for event in events {
            match event.u64 {
                WAKE | RING => {}
                END => seen = Seen::End,
                data => self.attempt_all(data as RawFd),
            }
        }
        seen
    }

    fn attempt_all(&mut self, fd: RawFd) {
        // The event may be late, and the descriptor another one by now: then this is done in vain.
        let Some(waits) = self.waits.remove(&fd) else { return };
        let mut left = Vec::new();
        for wait in waits {
            match attempt(&wait.request) {
                Attempt::Done(completion) => self.done.push_back((wait.key, completion)),
                Attempt::WouldBlock => left.push(wait),
                Attempt::MayBlock => {
                    let Request::File(file) = wait.request else {
                        unreachable!("only files cannot be asked not to wait")
                    };
                    // SAFETY: R1 of `request`, it is kept until it is told.
                    let file = unsafe { file.for_what_is_ready() };
                    self.calls.push((wait.key, Request::File(file)));
                }
            }
        }
        if left.is_empty() {
            return self.forget(fd);
        }
        self.waits.insert(fd, left);
        if let Err(error) = self.arm(libc::EPOLL_CTL_MOD, fd) {
            let result = -error.raw_os_error().unwrap_or(libc::EIO);
            let failed = self.waits.remove(&fd).into_iter().flatten();
            let told = failed.map(|wait| (wait.key, Completion { result, flags: 0 }));
            self.done.extend(told);
        }
    }

    /// Whether there is something to tell or to hand out.
    pub(super) fn is_ready(&self) -> bool {
        !self.done.is_empty() || !self.calls.is_empty()
    }

    /// Hands out what is to be performed by threads that may block (L3).
    pub(super) fn take_calls(&mut self) -> Vec<(Key, Request)> {
        std::mem::take(&mut self.calls)
    }

    /// Tells up to `budget` completions, in order; returns how many.
    pub(super) fn reap(&mut self, budget: usize, mut told: impl FnMut(Key, Completion)) -> usize {
        let count = self.done.len().min(budget);
        self.done.drain(..count).for_each(|(key, completion)| told(key, completion));
        count
    }
}
