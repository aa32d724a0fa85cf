//! What a worker asks of the operating system for the thread it runs on: level, slice, CPUs, name.
//!
//! H1. Every function acts on the calling thread only.
//! H2. A refusal is returned, never acted upon: a runtime without the wish granted still runs.
//! H3. No level but `Display` and `Urgent` ever asks for more than the thread already has.
//! H4. A slice says when a thread runs, not how much of a core it gets: that is its level's matter.
//!
//! Not here: when a worker applies its wishes, and who reports a refusal (the runtime).

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;

#[cfg(not(loom))]
use super::sim;

/// The system's number for "no more threads now".
#[cfg(all(unix, not(loom)))]
pub(crate) const NO_THREAD: i32 = libc::EAGAIN;
/// `ERROR_MAX_THRDS_REACHED`.
#[cfg(all(not(unix), not(loom)))]
pub(crate) const NO_THREAD: i32 = 164;

/// How urgently the operating system should run a worker's thread.
///
/// On Linux a level is a nice value of that one thread; other systems refuse every level but
/// [`Normal`](Level::Normal). A refusal never stops the runtime.
///
/// | level | nice | needs a privilege |
/// | --- | --- | --- |
/// | `Background` | 10, or what it is if that is nicer | no, and it cannot be undone without one |
/// | `Normal` | left as inherited | no |
/// | `Display` | −4 | `CAP_SYS_NICE` or a raised `RLIMIT_NICE` |
/// | `Urgent` | −8 | `CAP_SYS_NICE` or a raised `RLIMIT_NICE` |
///
/// # Examples
///
/// ```
/// use filch::Level;
///
/// let config = filch::Builder::new().compute_level(Level::Background).resolve()?;
/// assert_eq!(config.compute_level, Level::Background);
/// assert_eq!(config.io_level, Level::Normal);
/// assert!(Level::Background < Level::Urgent);
/// # Ok::<(), filch::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// Yields to everything else on the machine.
    Background,
    /// As the thread that built the runtime.
    #[default]
    Normal,
    /// Before ordinary work: somebody is watching the result.
    Display,
    /// Before `Display`: a late result is a wrong result.
    Urgent,
}

/// Longest thread name that Linux keeps, in bytes.
const NAME_BYTES: usize = 15;

/// Gives the calling thread `level`.
///
/// # Errors
///
/// The operating system's refusal, or [`io::ErrorKind::Unsupported`] where levels do not exist.
pub(crate) fn apply_level(level: Level) -> io::Result<()> {
    match level {
        Level::Normal => Ok(()),
        Level::Background => os::set_nice(os::nice()?.max(10)),
        Level::Display => os::set_nice(-4),
        Level::Urgent => os::set_nice(-8),
    }
}

/// How long the kernel lets a thread run at a time. Of two that wait for one core the thread with the shorter
/// slice goes first, as long as it has not had more than its share; and it displaces the other one when it wakes,
/// where equals wait for the timer's next tick, up to 4 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slice {
    /// As short as there is, 0.1 ms: it wakes often, for little.
    Short,
    /// What the system chose for all.
    Usual,
    /// 10 ms: it computes. The kernel would grant 100, but before Linux 6.17 others would wait for all of them.
    Long,
}

impl Slice {
    /// In ns; 0 is the system's choice.
    fn ns(self) -> u64 {
        match self {
            Self::Short => 100_000,
            Self::Usual => 0,
            Self::Long => 10_000_000,
        }
    }
}

/// Gives the calling thread slices of that length. A thread that is not scheduled as ordinary ones are
/// stays as it is.
///
/// # Errors
///
/// The operating system's refusal, or [`io::ErrorKind::Unsupported`] where threads have no slices of
/// their own, as on Linux before 6.12.
pub(crate) fn apply_slice(slice: Slice) -> io::Result<()> {
    os::set_slice(slice.ns())
}

/// Short slices of a thread that is not ours: it has its own again when the last of them is given back.
#[derive(Debug)]
#[must_use = "the thread wants its own back"]
pub(crate) struct LentSlice {
    /// They are its thread's.
    here: PhantomData<*const ()>,
}

/// What a thread has been lent.
#[derive(Clone, Copy, Default)]
struct Loans {
    count: usize,
    /// Before the first, in ns.
    own: u64,
}

thread_local! {
    static LOANS: Cell<Loans> = const { Cell::new(Loans { count: 0, own: 0 }) };
}

/// Gives the calling thread short slices for a time, which may overlap with others.
///
/// # Errors
///
/// As for [`apply_slice`].
pub(crate) fn lend_slice() -> io::Result<LentSlice> {
    let Loans { count, own } = LOANS.get();
    let own = if count == 0 { os::slice()? } else { own };
    apply_slice(Slice::Short)?;
    LOANS.set(Loans { count: count + 1, own });
    Ok(LentSlice { here: PhantomData })
}

impl LentSlice {
    /// The system tells how long the thread's own were and not who chose that: if it would choose the same, it
    /// was the system.
    ///
    /// # Errors
    ///
    /// As for [`apply_slice`].
    pub(crate) fn give_back(self) -> io::Result<()> {
        let Loans { count, own } = LOANS.get();
        debug_assert_ne!(count, 0, "each is given back once");
        LOANS.set(Loans { count: count - 1, own });
        if count > 1 {
            return Ok(());
        }
        apply_slice(Slice::Usual)?;
        if os::slice()? == own { Ok(()) } else { os::set_slice(own) }
    }
}

/// Has the calling thread displace nobody when it wakes: it runs when others stop or have had their slice.
///
/// # Errors
///
/// As for [`apply_slice`].
pub(crate) fn displace_nobody() -> io::Result<()> {
    os::set_batch()
}

/// Confines the calling thread to `cpus`, which are indices as the system counts them.
///
/// # Errors
///
/// `InvalidInput` for an empty list, the system's refusal (none of the CPUs may be used), or
/// `Unsupported`.
pub(crate) fn set_affinity(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no CPU given"));
    }
    os::set_affinity(cpus)
}

/// The CPUs that the calling thread may run on, ascending; empty where the system cannot tell.
pub(crate) fn current_affinity() -> Vec<usize> {
    os::affinity().unwrap_or_default()
}

/// Has the calling thread's timeouts end when they are due, and not up to 50 µs later, as Linux allows
/// itself. Elsewhere, and where it is refused, they are as they are.
pub(crate) fn end_timeouts_on_time() {
    os::set_timer_slack();
}

/// `prefix-suffix`, with the prefix cut so that the suffix survives Linux's 15 bytes.
///
/// The suffix tells workers apart, so it must not be what gets lost.
pub(crate) fn name_with_suffix(prefix: &str, suffix: &str) -> String {
    let room = NAME_BYTES.saturating_sub(suffix.len() + 1);
    let kept = &prefix[..prefix.floor_char_boundary(room)];
    if kept.is_empty() { suffix.to_owned() } else { format!("{kept}-{suffix}") }
}

/// A thread that was started: of the system, or of a simulation if its starter is of one.
#[cfg(not(loom))]
pub(crate) enum Thread {
    System(std::thread::JoinHandle<()>),
    Simulated(sim::Seat),
}

/// Starts a thread.
///
/// # Errors
///
/// The operating system's refusal.
#[cfg(not(loom))]
pub(crate) fn start(
    name: &str,
    stack_size: Option<usize>,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<Thread> {
    #[cfg(test)]
    refused::check(name)?;
    let body = match sim::start(name, stack_size, body) {
        Ok(seat) => return seat.map(Thread::Simulated),
        Err(body) => body,
    };
    // The system's names end at the first zero, and the library panics at one.
    let mut builder = std::thread::Builder::new().name(name.replace('\0', ""));
    if let Some(bytes) = stack_size {
        builder = builder.stack_size(bytes);
    }
    builder.spawn(body).map(Thread::System)
}

/// What a failed start of a thread means, besides what the system calls it: out of resources, it says for a
/// limit of the user, of a container and of the memory alike.
pub(crate) fn hint(refusal: &io::Error) -> &'static str {
    match refusal.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => {
            " (a limit of processes, threads or memory)"
        }
        _ => "",
    }
}

/// Threads that a test does not let start.
#[cfg(all(test, not(loom)))]
pub(crate) mod refused {
    use std::io;
    use std::sync::{Arc, Mutex};

    type Before = Arc<dyn Fn() + Send + Sync>;

    static NAMES: Mutex<Vec<(&'static str, Before)>> = Mutex::new(Vec::new());

    /// Refuses threads whose names begin so, until dropped.
    #[must_use]
    pub(crate) struct Refused(&'static str);

    /// Refuses threads whose names begin so; `before` is called first, each time.
    pub(crate) fn refuse(prefix: &'static str, before: impl Fn() + Send + 'static) -> Refused {
        let before = Mutex::new(before);
        let before = Arc::new(move || before.lock().unwrap()());
        NAMES.lock().unwrap().push((prefix, before));
        Refused(prefix)
    }

    impl Drop for Refused {
        fn drop(&mut self) {
            NAMES.lock().unwrap().retain(|(name, _)| *name != self.0);
        }
    }

    pub(super) fn check(name: &str) -> io::Result<()> {
        let names = NAMES.lock().unwrap();
        let refused = names.iter().find(|(prefix, _)| name.starts_with(prefix));
        let before = refused.map(|(_, before)| before.clone());
        drop(names);
        match before {
            Some(before) => {
                before();
                Err(io::Error::from_raw_os_error(libc::EAGAIN))
            }
            None => Ok(()),
        }
    }
}

#[cfg(not(loom))]
impl Thread {
    pub(crate) fn is_finished(&self) -> bool {
        match self {
            Self::System(thread) => thread.is_finished(),
            Self::Simulated(seat) => seat.is_finished(),
        }
    }

    /// Waits for its end; what it panicked with is lost.
    pub(crate) fn join(self) {
        match self {
            Self::System(thread) => drop(thread.join()),
            Self::Simulated(seat) => seat.join(),
        }
    }
}

#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
mod os {
    use std::io;

    /// One word of the kernel's CPU mask.
    type Word = libc::c_ulong;
    const WORD_BITS: usize = Word::BITS as usize;
    /// Bound on the mask that is tried, in words: more CPUs than any kernel is built for.
    const MASK_WORDS_LIMIT: usize = 1 << 14;

    fn check(result: libc::c_int) -> io::Result<()> {
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn thread_id() -> libc::id_t {
        // SAFETY: gettid has no preconditions and cannot fail.
        let tid = unsafe { libc::gettid() };
        tid.unsigned_abs()
    }

    pub(super) fn nice() -> io::Result<libc::c_int> {
        // The raw call returns 20 − nice, so a failure and a nice value of −1 stay apart.
        // SAFETY: getpriority takes two integers and touches no memory of ours.
        let raw = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, thread_id()) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(20 - raw as libc::c_int)
    }

    pub(super) fn set_nice(nice: libc::c_int) -> io::Result<()> {
        // SAFETY: setpriority takes integers only; with a thread id it concerns that thread (H1).
        check(unsafe { libc::setpriority(libc::PRIO_PROCESS as _, thread_id(), nice) })
    }

    /// The kernel's `sched_attr`, as far as it goes back.
    #[repr(C)]
    #[derive(Default)]
    pub(super) struct Attributes {
        size: u32,
        pub(super) policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        /// Of an ordinary thread: its slice.
        pub(super) runtime: u64,
        deadline: u64,
        period: u64,
    }

    const ATTRIBUTES_BYTES: u32 = size_of::<Attributes>() as u32;
    const _: () = assert!(ATTRIBUTES_BYTES == 48, "SCHED_ATTR_SIZE_VER0");

    /// `SCHED_FLAG_RESET_ON_FORK`, the one flag that an ordinary thread may have and must keep.
    const RESET_ON_FORK: u64 = 1;

    impl Attributes {
        /// Those of the calling thread.
        pub(super) fn get() -> io::Result<Self> {
            let mut this = Self::default();
            let (at, size) = (&raw mut this, ATTRIBUTES_BYTES);
            // SAFETY: the kernel writes at most `size` bytes, and `at` has room for them.
            let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, at, size, 0) };
            check(result as libc::c_int).map(|()| this)
        }

        /// Gives them to the calling thread.
        fn set(mut self) -> io::Result<()> {
            self.size = ATTRIBUTES_BYTES;
            self.flags &= RESET_ON_FORK;
            // SAFETY: the kernel reads as many bytes as `size` says, and they are there.
            let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const self, 0) };
            check(result as libc::c_int)
        }

        fn are_ordinary(&self) -> bool {
            [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&(self.policy as libc::c_int))
        }
    }

    pub(super) fn slice() -> io::Result<u64> {
        Attributes::get().map(|now| now.runtime)
    }

    pub(super) fn set_slice(ns: u64) -> io::Result<()> {
        let now = Attributes::get()?;
        if !now.are_ordinary() {
            return Ok(());
        }
        Attributes { runtime: ns, ..now }.set()?;
        // A kernel without slices of threads takes the value and forgets it.
        if ns == 0 || Attributes::get()?.runtime == ns {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel is older than Linux 6.12"))
        }
    }

    pub(super) fn set_batch() -> io::Result<()> {
        let now = Attributes::get()?;
        if now.are_ordinary() {
            // The slice that `get` tells would become the thread's own.
            Attributes { policy: libc::SCHED_BATCH as u32, runtime: 0, ..now }.set()
        } else {
            Ok(())
        }
    }

    pub(super) fn set_timer_slack() {
        let nanos: libc::c_ulong = 1;
        // SAFETY: this call takes integers only, and concerns the calling thread.
        let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos) };
    }

    pub(super) fn set_affinity(cpus: &[usize]) -> io::Result<()> {
        let last = cpus.iter().copied().max().unwrap_or(0);
        let words = last / WORD_BITS + 1;
        if words > MASK_WORDS_LIMIT {
            let reason = format!("there is no CPU {last}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let mut mask: Vec<Word> = vec![0; words];
        for &cpu in cpus {
            mask[cpu / WORD_BITS] |= 1 << (cpu % WORD_BITS);
        }
        let (bytes, mask) = (size_of_val(&mask[..]), mask.as_ptr());
        // SAFETY: `mask` points to `bytes` readable bytes, aligned for words, and the kernel
        // reads no more than that; the pointer's type is nominal, masks have any length.
        check(unsafe { libc::sched_setaffinity(0, bytes, mask.cast()) })
    }

    pub(super) fn affinity() -> io::Result<Vec<usize>> {
        let mut words = 1024 / WORD_BITS;
        loop {
            let mut mask: Vec<Word> = vec![0; words];
            let bytes = size_of_val(&mask[..]);
            // SAFETY: `mask` has `bytes` writable bytes, aligned for words; the kernel writes at
            // most that many, and refuses a mask that is too short.
            let result =
                check(unsafe { libc::sched_getaffinity(0, bytes, mask.as_mut_ptr().cast()) });
            match result {
                Ok(()) => return Ok(set_bits(&mask)),
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) && words < MASK_WORDS_LIMIT => {
                    words *= 2;
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn set_bits(mask: &[Word]) -> Vec<usize> {
        let is_set = |cpu: &usize| mask[cpu / WORD_BITS] & (1 << (cpu % WORD_BITS)) != 0;
        (0..mask.len() * WORD_BITS).filter(is_set).collect()
    }
}

#[cfg(any(not(any(target_os = "linux", target_os = "android")), miri))]
mod os {
    use std::io;

    pub(super) fn nice() -> io::Result<i32> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn set_nice(_: i32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn slice() -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn set_slice(_: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn set_batch() -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn set_timer_slack() {}

    pub(super) fn set_affinity(_: &[usize]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn affinity() -> io::Result<Vec<usize>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
