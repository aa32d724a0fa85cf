//! The ring of one I/O worker.
//!
//! U1. Only threads that live as long as their operations enter with something to submit: the slot's
//!     own thread, which evacuates before it ends, and the sentry. (The kernel cancels what a thread
//!     submitted when that thread ends.) Any thread may fill the queue, under the driver's lock.
//! U2. A full queue loses nothing and waits for nobody: what does not fit lies in `backlog`, in order,
//!     and moves up when there is room.
//! U3. The wake-up needs no free place in the queue at the time of the wake: one poll of the eventfd
//!     is armed for good. If the kernel ends it, because completions overflowed, the reaper
//!     that reads its last completion arms it again.
//! U4. Every entry pushed is counted in `flying` until its last completion: a ring with none, and nothing
//!     left to tell, may be closed.
//! U5. All completions are taken off the queue at once, and told as far as there is room: those of one
//!     operation in order, others as `waiting` has it.
//!
//! U6. A cancel finds nothing also while its operation is between two places in the kernel: it was ready, and has not
//!     run yet. So a cancel that has found nothing is made again, as long as its operation is in flight.
//!
//! Modes: COOP_TASKRUN with TASKRUN_FLAG, or plain. Never SINGLE_ISSUER or DEFER_TASKRUN: with
//! those nobody but the owner could see its completions, and a stuck owner would hold them.
//!
//! Not here: the lock, the entry into the kernel (`driver`), what a completion means (`slots`).

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use io_uring::types::{CancelBuilder, Fd};
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::buffers::Pool;
use super::files::Abilities;
use super::request::{First, Request};
use super::slots::{Completion, Key};
use super::sys;
use super::waiting::Untold;

/// Entries of the submission queue: what one enter can take. Guessed.
const SUBMISSIONS: u32 = 256;

/// Entries of the completion queue; the kernel keeps what overflows. Guessed.
const COMPLETIONS: u32 = 2048;

/// Marks of entries that are no operation's: keys have smaller indices. The cancel of an operation has the key of
/// that beside the mark.
const WAKE: u64 = u64::MAX;
const CANCEL: u64 = 1 << 31;

/// How a ring runs its completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// When its thread enters the kernel anyway.
    Cooperative,
    /// At once, by an interrupt of its thread.
    Plain,
}

pub(crate) struct Uring {
    ring: IoUring,
    eventfd: Arc<OwnedFd>,
    /// U2.
    backlog: VecDeque<squeue::Entry>,
    /// U4.
    flying: usize,
    /// Completions that were not told yet (U5).
    untold: Untold<(Key, Completion)>,
    /// What was not found when it was to be cancelled (U6).
    missed: Vec<Key>,
    /// Made when somebody first receives chunks.
    pool: Option<Arc<Pool>>,
}

/// What an enter is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) fd: RawFd,
    /// Entries to submit.
    pub(crate) submit: u32,
    /// The kernel has completions that are not in the queue yet.
    pub(crate) fetch: bool,
    /// The queue has completions.
    pub(crate) ready: bool,
    /// There are more to submit than the queue holds.
    pub(crate) full: bool,
}

impl Uring {
    pub(crate) fn open(mode: Mode, eventfd: Arc<OwnedFd>) -> io::Result<Self> {
        let ring = Self::set_up(mode, SUBMISSIONS, COMPLETIONS)?;
        let (backlog, untold) = (VecDeque::new(), Untold::new());
        let missed = Vec::new();
        let mut uring = Self { ring, eventfd, backlog, flying: 0, untold, missed, pool: None };
        uring.arm_wake();
        Ok(uring)
    }

    /// Whether the kernel gives a ring in this mode, and what it is able to do.
    pub(crate) fn probe(mode: Mode) -> io::Result<Abilities> {
        if cfg!(miri) {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        let mut ring = Self::set_up(mode, 1, 2)?;
        // A ring may be given whose entry is forbidden: only an entry tells.
        // SAFETY: it points to nothing.
        let pushed = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
        debug_assert!(pushed.is_ok(), "the queue is new");
        loop {
            match sys::enter(ring.as_raw_fd(), 1, 0, 0, None) {
                again if again == -libc::EINTR => {}
                answer => {
                    sys::to_io(answer)?;
                    return Ok(Abilities::ask(&ring.submitter()));
                }
            }
        }
    }

    fn set_up(mode: Mode, submissions: u32, completions: u32) -> io::Result<IoUring> {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(completions).setup_submit_all().dontfork();
        if mode == Mode::Cooperative {
            builder.setup_coop_taskrun().setup_taskrun_flag();
        }
        let ring = builder.build(submissions)?;
        let params = ring.params();
        let able = params.is_feature_nodrop()
            && params.is_feature_ext_arg()
            && params.is_feature_fast_poll();
        if able { Ok(ring) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) }
    }

    fn arm_wake(&mut self) {
        let poll = opcode::PollAdd::new(Fd(self.eventfd.as_raw_fd()), libc::POLLIN as u32);
        self.push(poll.multi(true).build().user_data(WAKE));
    }

    /// Queues a request; it is the kernel's from now on (O1 of `slots`).
    pub(crate) fn start(&mut self, request: &Request, key: Key) {
        let group = self.pool.as_ref().map_or(0, |pool| pool.group());
        self.push(entry_of(request, group).user_data(key.to_user_data()));
    }

    /// Queues the cancelling of an operation.
    pub(crate) fn cancel(&mut self, key: Key) {
        let which = CancelBuilder::user_data(key.to_user_data());
        let data = key.to_user_data();
        debug_assert_eq!(data & CANCEL, 0, "an index is smaller than the mark");
        self.push(opcode::AsyncCancel2::new(which).build().user_data(data | CANCEL));
    }

    /// Takes one of those that were to be cancelled and not found (U6).
    pub(crate) fn take_missed(&mut self) -> Option<Key> {
        self.missed.pop()
    }

    fn push(&mut self, entry: squeue::Entry) {
        self.flying += 1;
        if self.backlog.is_empty() {
            // SAFETY: R1 of `request`, what the entry points to lives until its last completion.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
        }
        self.backlog.push_back(entry);
    }

    /// Moves the backlog up, as far as there is room (U2).
    fn move_up(&mut self) {
        if self.backlog.is_empty() {
            return;
        }
        let mut queue = self.ring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: as in `push`.
            if unsafe { queue.push(entry) }.is_err() {
                return;
            }
            self.backlog.pop_front();
        }
    }

    /// Whether entries wait that found no room.
    pub(crate) fn is_full(&self) -> bool {
        !self.backlog.is_empty()
    }

    pub(crate) fn plan(&mut self) -> Plan {
        self.move_up();
        let fd = self.ring.as_raw_fd();
        let queue = self.ring.submission();
        let (submit, fetch) = (queue.len() as u32, queue.taskrun() || queue.cq_overflow());
        drop(queue);
        let ready = !self.ring.completion().is_empty() || !self.untold.is_empty();
        Plan { fd, submit, fetch, ready, full: self.is_full() }
    }

    /// Tells up to `budget` completions; returns how many.
    pub(crate) fn reap(&mut self, budget: usize, mut told: impl FnMut(Key, Completion)) -> usize {
        self.fetch();
        self.untold.take(budget, |(key, completion)| told(key, completion))
    }

    /// Takes completions off the queue (U5).
    fn fetch(&mut self) {
        let mut wake_ended = false;
        for entry in self.ring.completion() {
            let completion = Completion { result: entry.result(), flags: entry.flags() };
            let more = cqueue::more(entry.flags());
            if !more {
                self.flying -= 1;
            }
            match entry.user_data() {
                WAKE => wake_ended |= !more,
                data if data & CANCEL != 0 => {
                    if completion.result == -libc::ENOENT {
                        self.missed.push(Key::from_user_data(data & !CANCEL));
                    }
                }
                data => match Key::from_user_data(data) {
                    key if key.is_ordered() => self.untold.push_ordered((key, completion)),
                    key => self.untold.push((key, completion)),
                },
            }
        }
        if wake_ended {
            // U3.
            self.arm_wake();
        }
    }

    /// Whether nothing but the wake-up is in flight (U4).
    pub(crate) fn is_quiet(&self) -> bool {
        self.flying <= 1 && self.untold.is_empty()
    }

    /// How many entries have no last completion yet (U4).
    #[cfg(all(test, not(loom)))]
    pub(crate) fn flying(&self) -> usize {
        self.flying
    }

    /// The buffers that chunks are received into.
    pub(crate) fn pool(&mut self) -> io::Result<&Arc<Pool>> {
        if self.pool.is_none() {
            self.pool = Some(Pool::register(&self.ring)?);
        }
        Ok(self.pool.as_ref().expect("just made"))
    }
}

/// A request as the ring takes it.
fn entry_of(request: &Request, group: u16) -> squeue::Entry {
    /// `IORING_RECVSEND_POLL_FIRST`.
    const POLL_FIRST: u16 = 1;
    /// `IORING_SEND_ZC_REPORT_USAGE`.
    const REPORT_USAGE: u16 = 1 << 3;
    match *request {
        Request::Recv { fd, buf, len, flags, first } => {
            let ioprio = if first == First::Wait { POLL_FIRST } else { 0 };
            opcode::Recv::new(Fd(fd), buf, len).flags(flags).ioprio(ioprio).build()
        }
        Request::Send { fd, buf, len, flags } => {
            opcode::Send::new(Fd(fd), buf, len).flags(flags | libc::MSG_NOSIGNAL).build()
        }
        Request::SendUncopied { fd, buf, len, flags } => {
            let flags = flags | libc::MSG_NOSIGNAL;
            opcode::SendZc::new(Fd(fd), buf, len).flags(flags).zc_flags(REPORT_USAGE).build()
        }
        Request::RecvMsg { fd, msg, flags } => {
            opcode::RecvMsg::new(Fd(fd), msg).flags(flags as u32).build()
        }
        Request::SendMsg { fd, msg, flags } => {
            opcode::SendMsg::new(Fd(fd), msg).flags((flags | libc::MSG_NOSIGNAL) as u32).build()
        }
        Request::RecvMany { fd } => opcode::RecvMulti::new(Fd(fd), group).build(),
        Request::AcceptMany { fd } => {
            opcode::AcceptMulti::new(Fd(fd)).flags(libc::SOCK_CLOEXEC).build()
        }
        Request::Connect { fd, addr, len } => {
            opcode::Connect::new(Fd(fd), addr.cast(), len).build()
        }
        Request::File(request) => request.entry(),
        Request::Poll { fd, direction } => {
            opcode::PollAdd::new(Fd(fd), direction.events() as u32).build()
        }
    }
}
