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
//! U6. A ring that may not be entered any more still completes what it was given, as far as shared memory
//!     tells: task work runs when the thread that submitted enters the kernel for any reason. It is given
//!     nothing more, and asked to cancel by `io_uring_register`, if that is allowed.
//! U7. Closing a ring that has something in flight is not the end of that: the kernel ends it later. Then it lets go of
//!     the pipe that is registered with the ring, whose other end tells (`Closing`).
//! U8. A cancel finds nothing also while its operation is between two places in the kernel: it was ready, and has not
//!     run yet. So a cancel that has found nothing is made again, as long as its operation is in flight. What only waits
//!     for its notice is no operation there any more, and what waits for a device is not found until that answers: they would
//!     be asked for again without end.
//!
//! Modes: COOP_TASKRUN with TASKRUN_FLAG, or plain. Never SINGLE_ISSUER or DEFER_TASKRUN: with
//! those nobody but the owner could see its completions, and a stuck owner would hold them.
//!
//! Not here: the lock, the entry into the kernel (`driver`), what a completion means (`slots`).

use std::collections::VecDeque;
use std::io::{self, PipeReader};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use io_uring::types::{CancelBuilder, Fd, Timespec};
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
/// The first entry that is not given to the kernel any more (U6).
const CUT: u64 = u64::MAX - 2;

/// Where `mmap` shows the entries of a ring (`IORING_OFF_SQES`), and what each is.
const ENTRIES_AT: libc::off_t = 0x1000_0000;
const ENTRY: usize = size_of::<squeue::Entry>();
/// The offset of `user_data` in an entry.
const USER_DATA: usize = 32;

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
    /// What was not found when it was to be cancelled (U8).
    missed: Vec<Key>,
    /// Made when somebody first receives chunks.
    pool: Option<Arc<Pool>>,
    /// U7. `None` if the system had no descriptors for it.
    end: Option<PipeReader>,
}

/// A ring that was closed with operations in flight (U7).
pub(crate) struct Closing {
    /// It has an end when the kernel has let go of the ring and all that was in flight.
    pub(crate) end: Option<PipeReader>,
    /// The kernel may write there until then.
    #[expect(dead_code, reason = "held, not used")]
    pool: Option<Arc<Pool>>,
}

/// What was queued, and never given to the kernel.
#[derive(Debug, Default)]
pub(crate) struct Unsubmitted {
    pub(crate) operations: Vec<Key>,
    /// Whether the kernel has not heard of some cancel.
    pub(crate) cancels: bool,
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
        // What is registered may be missing: it is needed only when the ring is denied later (U7).
        let end = io::pipe().ok().and_then(|(end, canary)| {
            ring.submitter().register_files(&[canary.as_raw_fd()]).ok().map(|()| end)
        });
        let mut uring =
            Self { ring, eventfd, backlog, flying: 0, untold, missed: Vec::new(), pool: None, end };
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

    /// Takes one of those that were to be cancelled and not found (U8).
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

    pub(crate) fn fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// Takes out what the kernel was not given and will not be (U6). Nobody is in the kernel with the ring.
    ///
    /// # Errors
    /// If the system does not show the entries. Nothing has happened then.
    pub(crate) fn take_unsubmitted(&mut self) -> io::Result<Unsubmitted> {
        let queued = self.ring.submission().len();
        let queued = if queued == 0 { Vec::new() } else { self.read_queue(queued)? };
        let mut taken = Unsubmitted::default();
        let backlog = std::mem::take(&mut self.backlog);
        for data in queued.into_iter().chain(backlog.iter().map(squeue::Entry::get_user_data)) {
            // U4: the poll of the eventfd counts on, as if it were in flight.
            match data {
                WAKE => continue,
                data if data & CANCEL != 0 => taken.cancels = true,
                data => taken.operations.push(Key::from_user_data(data)),
            }
            self.flying -= 1;
        }
        Ok(taken)
    }

    /// The marks of the last `count` entries of the queue. The crate shows entries only on their way in, so they are
    /// mapped once more, and a mark behind the last tells where it is.
    fn read_queue(&mut self, count: usize) -> io::Result<Vec<u64>> {
        let places = self.ring.params().sq_entries() as usize;
        let len = places * ENTRY;
        let (read, shared, none) = (libc::PROT_READ, libc::MAP_SHARED, std::ptr::null_mut());
        // SAFETY: a new mapping, of the ring's entries.
        let mapped = unsafe { libc::mmap(none, len, read, shared, self.fd(), ENTRIES_AT) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let cut = opcode::Nop::new().build().user_data(CUT);
        // SAFETY: it points to nothing.
        let fits = unsafe { self.ring.submission().push(&cut) }.is_ok();
        let mark = |place: usize| {
            // SAFETY: within the mapping, and aligned.
            let at = unsafe { mapped.cast::<u8>().add(place % places * ENTRY + USER_DATA) };
            // SAFETY: the kernel and others only read it now.
            unsafe { at.cast::<u64>().read_volatile() }
        };
        // A full queue has room for no mark, and nothing but what is wanted.
        let end = if fits { (0..places).find(|&place| mark(place) == CUT) } else { Some(0) };
        let end = end.expect("just pushed") + places;
        let marks = (end - count..end).map(mark).collect();
        // SAFETY: mapped above, and nothing refers to it.
        unsafe { libc::munmap(mapped, len) };
        Ok(marks)
    }

    /// Asks to cancel all that is in flight, without an entry; whether the kernel takes that (U6). It does not wait.
    pub(crate) fn cancel_by_register(&self) -> bool {
        let at_once = Timespec::new().nsec(1);
        let asked = self.ring.submitter().register_sync_cancel(Some(at_once), CancelBuilder::any());
        match asked {
            Ok(()) => true,
            // Nothing was there, or some of it takes longer.
            Err(error) => [libc::ENOENT, libc::ETIME, libc::EALREADY, libc::EINTR]
                .contains(&error.raw_os_error().unwrap_or(0)),
        }
    }

    /// Whether the kernel keeps completions that it shows only to those who enter.
    pub(crate) fn keeps_completions(&mut self) -> bool {
        self.ring.submission().cq_overflow()
    }

    /// Whether the end of a ring that is closed early will be known (U7).
    pub(crate) fn tells_its_end(&self) -> bool {
        self.end.is_some()
    }

    /// Closes the ring with what is in flight (U7).
    pub(crate) fn close_early(self) -> Closing {
        let Self { ring, pool, end, .. } = self;
        drop(ring);
        Closing { end, pool }
    }

    /// How many entries have no last completion yet (U4).
    #[cfg(all(test, not(loom)))]
    pub(crate) fn flying(&self) -> usize {
        self.flying
    }

    /// The buffers that chunks are received into. None if the system denies that, which may be the first that is heard
    /// of a denied ring: a receive finds no buffers then.
    pub(crate) fn pool(&mut self) -> io::Result<Option<&Arc<Pool>>> {
        if self.pool.is_none() {
            match Pool::register(&self.ring) {
                Ok(pool) => self.pool = Some(pool),
                Err(error) if denial(&error).is_some() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.pool.as_ref())
    }
}

/// The error number by which the system forbids a call, if it does.
pub(crate) fn denial(error: &io::Error) -> Option<i32> {
    let errno = error.raw_os_error()?;
    [libc::EPERM, libc::ENOSYS, libc::EACCES].contains(&errno).then_some(errno)
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
