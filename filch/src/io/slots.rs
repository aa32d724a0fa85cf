//! Which operations a driver has, and how far each has come: plain data under the driver's lock.
//!
//! ```text
//!                     complete                 poll
//!   insert ─▶ WAITING ─────────▶ DONE ────────────────────▶ gone
//!                │                 │ abandon
//!        abandon │                 ▼
//!                └────▶ ORPHAN ── complete ──▶ Late::finish, gone
//! ```
//!
//! O1. An entry is removed by its last completion and by whoever then takes the result, never before:
//!     until the last completion, what the kernel may touch is kept by the future (WAITING) or by
//!     the entry (ORPHAN).
//! O2. A key is index and generation: a completion that comes for a key that is gone finds nothing,
//!     even if its index was given out again.
//! O3. A completion wins over a wish to cancel it: the result that came is the result that is told.
//! O4. Nothing of the user's is called or dropped here. Wakers and late payloads are handed out, for
//!     the caller to use when it has let go of the lock.
//! O5. An operation that a ring ends as cancelled or interrupted, and that nobody asked to cancel, has not
//!     happened: the driver evacuates, or a signal kept the kernel from starting a thread for it. It is
//!     told to move; its future starts it again. Where the driver closes, its result is that the runtime
//!     has ended.
//! O6. A stream has many completions, kept in order until they are taken; the one without MORE ends
//!     it. Its entry goes with the last completion that was taken after the end.
//!
//! O7. A send without a copy completes twice: its result, and the notice that the kernel lets go of the
//!     bytes. It is told once, at the second, with the result of the first. The second comes when the
//!     other side has acknowledged the bytes; nothing but the end of the connection hurries it.
//!
//! O8. What waits for bytes of a socket can be called back. It is cancelled, and its completion is marked,
//!     whatever it brings: its future then looks for bytes that came by another way.
//! O9. What a call performs on another thread is marked: it is never told for the ring's sake.
//!
//! Not here: the kernel (`uring`, `epoll`), the lock (`driver`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use slab::Slab;

use super::cause::{Cause, error_of};
use super::waiters::{WaitId, Waiter, Waiters};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

/// The kernel's mark on a completion that is not the operation's last (`IORING_CQE_F_MORE`).
pub(crate) const MORE: u32 = 1 << 1;

/// Our mark on the completion of a send without a copy that was one with a copy. The kernel does not
/// use this bit.
const COPIED: u32 = 1 << 14;

/// Our mark on the completion of what was called back (O8). The kernel does not use this bit either.
const CALLED_BACK: u32 = 1 << 13;

/// `-ECANCELED`, as completions tell it.
pub(crate) const CANCELED: i32 = -125;

/// `-EINTR`, as completions tell it.
const INTERRUPTED: i32 = -4;

/// What a completion says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Completion {
    /// A count or descriptor, or a negated error number.
    pub(crate) result: i32,
    /// As the ring has them: MORE, the number of a buffer.
    pub(crate) flags: u32,
}

impl Completion {
    pub(crate) fn has_more(self) -> bool {
        self.flags & MORE != 0
    }

    /// The result of a send without a copy, once its notice has come (O7).
    fn noticed(self, notice: Self) -> Self {
        /// What a notice says if bytes were copied after all (`IORING_NOTIF_USAGE_ZC_COPIED`).
        const WAS_COPIED: u32 = 1 << 31;
        let copied = if notice.result as u32 & WAS_COPIED != 0 { COPIED } else { 0 };
        Self { result: self.result, flags: self.flags & !MORE | copied }
    }

    /// What a ring says, with one word for what has not happened: which of the two it takes depends on how
    /// far the kernel had come. What a part of an operation has done is told as a count.
    fn of_ring(self) -> Self {
        if self.result == INTERRUPTED { Self { result: CANCELED, ..self } } else { self }
    }

    /// Of a send without a copy that a call has made, with one.
    #[cfg(not(loom))]
    pub(crate) fn copied(result: i32) -> Self {
        Self { result, flags: COPIED }
    }

    /// Whether a send without a copy was one with a copy.
    pub(crate) fn was_copied(self) -> bool {
        self.flags & COPIED != 0
    }

    /// Whether it came after the operation was called back (O8).
    pub(crate) fn is_called_back(self) -> bool {
        self.flags & CALLED_BACK != 0
    }

    /// The result as std has it.
    pub(crate) fn to_io(self) -> std::io::Result<u32> {
        u32::try_from(self.result).map_err(|_| error_of(self.result))
    }
}

/// A bit of the generation of operations with several completions.
const MANY: u32 = 1;

/// Names an operation of one driver (O2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

/// Whether an operation may complete more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Times {
    Once,
    /// Then its completions have an order among them.
    Many,
}

impl Key {
    /// Whether completions for this key are to be told in their order.
    pub(crate) fn is_ordered(self) -> bool {
        self.generation & MANY != 0
    }

    pub(crate) fn to_user_data(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(crate) fn from_user_data(data: u64) -> Self {
        Self { index: data as u32, generation: (data >> 32) as u32 }
    }
}

/// What is left of an operation whose future is gone: it keeps what the kernel may touch.
pub(crate) trait Late: Send {
    /// The last completion has come. Called without any lock.
    fn finish(self: Box<Self>, completion: Completion);
}

/// What takes the completions of a stream whose owner is gone.
pub(crate) trait Dispose: Send + Sync {
    /// One more has come. Called without any lock.
    fn dispose(&self, completion: Completion);
}

enum Life {
    Waiting { waker: Option<Waker>, wish: Wish },
    Done(Completion),
    Moves,
    Orphan(Box<dyn Late>),
    Stream(Box<Stream>),
    OrphanStream(Arc<dyn Dispose>),
}

/// What is wished for: by the future, to cancel (O5), or by its socket, to come back (O8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Finish,
    Cancel,
    ComeBack,
}

impl Life {
    fn waiting(waker: Waker) -> Self {
        Self::Waiting { waker: Some(waker), wish: Wish::Finish }
    }

    fn is_in_flight(&self) -> bool {
        match self {
            Self::Waiting { .. } | Self::Orphan(_) | Self::OrphanStream(_) => true,
            Self::Stream(stream) => stream.course != Course::Ended,
            Self::Done(_) | Self::Moves => false,
        }
    }
}

struct Stream {
    queue: VecDeque<Completion>,
    /// All that wait for the next one: several futures may.
    waiters: Waiters,
    /// Unread completions from which the driver should stop it.
    cap: usize,
    course: Course,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    Armed,
    /// A cancel is under way.
    Stopping,
    /// The last completion has come.
    Ended,
}

struct Entry {
    generation: u32,
    /// The result of what is not over yet (O7).
    first: Option<Completion>,
    means: Means,
    life: Life,
}

/// What is special about how an operation is performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    Usual,
    /// A send without a copy, to this socket, which may have to be reset to end it (O7).
    Uncopied(i32),
    /// It waits for bytes of this socket (O8).
    Reads(i32),
    /// A read of a file at an offset, which the kernel does not find while it waits for a device.
    Device,
    /// A call on another thread (O9).
    Call,
}

#[derive(Default)]
pub(crate) struct Slots {
    entries: Slab<Entry>,
    next_generation: u32,
    prospect: Prospect,
}

/// What becomes of an operation that has not happened, though nobody asked to cancel it (O5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Prospect {
    /// It moves.
    #[default]
    Again,
    /// It is over: the driver closes.
    Never,
}

/// How far an operation is.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// Its waker will be woken.
    Pending,
    /// It is not over, and waits for a clone of the waker (O4): poll again with one.
    WantsWaker,
    Done(Completion),
    /// It did not happen, and is to be started again elsewhere (O5).
    Moves,
}

/// The next of a stream.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Pending,
    /// As for an operation.
    WantsWaker,
    Item(Completion),
    /// It has ended, all of it is taken, and the key is spent.
    Ended,
}

/// What to do with an operation whose future goes.
#[must_use]
pub(crate) enum Abandoned {
    /// It is in flight: it may be cancelled.
    InFlight,
    /// It is over: finish it, without the lock.
    Done(Box<dyn Late>, Completion),
    /// It never happened: drop it, without the lock.
    Never(Box<dyn Late>),
}

/// What to do about a completion, without the lock (O4).
#[must_use]
pub(crate) enum Told {
    /// Somebody who waits, if anybody: the wakers are among those handed out.
    Waiters,
    Late(Box<dyn Late>, Completion),
    Dispose(Arc<dyn Dispose>, Completion),
}

/// What a completion asks of the driver.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Nothing,
    /// The stream has reached its cap: cancel it.
    Stop,
}

/// Sees to it that `slot` has a waker like `waker`; false if that takes a clone (O4).
fn keep(slot: &mut Option<Waker>, waker: &Waker, clone: &mut Option<Waker>) -> bool {
    if slot.as_ref().is_some_and(|old| old.will_wake(waker)) {
        return true;
    }
    if clone.is_none() {
        return false;
    }
    std::mem::swap(slot, clone);
    true
}

impl Slots {
    fn add(&mut self, life: Life, times: Times, means: Means) -> Key {
        let many = if times == Times::Many { MANY } else { 0 };
        let generation = self.next_generation | many;
        self.next_generation = self.next_generation.wrapping_add(2);
        let index = self.entries.insert(Entry { generation, first: None, means, life }) as u32;
        debug_assert!(index < u32::MAX, "the last index is not an operation's");
        Key { index, generation }
    }

    /// A new operation, about to be in flight.
    pub(crate) fn insert(&mut self, waker: Waker) -> Key {
        self.add(Life::waiting(waker), Times::Once, Means::Usual)
    }

    /// As `insert`, of what waits for bytes of this socket (O8).
    pub(crate) fn insert_read(&mut self, waker: Waker, fd: i32) -> Key {
        self.add(Life::waiting(waker), Times::Once, Means::Reads(fd))
    }

    /// As `insert`, of a read of a file at an offset.
    pub(crate) fn insert_device_read(&mut self, waker: Waker) -> Key {
        self.add(Life::waiting(waker), Times::Once, Means::Device)
    }

    /// As `insert`, of a send without a copy, to this socket (O7).
    pub(crate) fn insert_uncopied(&mut self, waker: Waker, fd: i32) -> Key {
        self.add(Life::waiting(waker), Times::Many, Means::Uncopied(fd))
    }

    /// A call on another thread performs this operation (O9).
    pub(crate) fn note_call(&mut self, key: Key) {
        if self.get(key).is_some() {
            self.entries[key.index as usize].means = Means::Call;
        }
    }

    /// Whether a call on another thread performs it (O9).
    #[cfg(not(loom))]
    pub(crate) fn is_called(&self, key: Key) -> bool {
        let entry = self.entries.get(key.index as usize);
        entry.is_some_and(|at| at.generation == key.generation && at.means == Means::Call)
    }

    /// A new operation that nobody waits for, about to be in flight.
    pub(crate) fn insert_orphan(&mut self, late: Box<dyn Late>) -> Key {
        self.add(Life::Orphan(late), Times::Once, Means::Usual)
    }

    /// A new stream, about to be in flight, to be stopped at `cap` unread completions.
    pub(crate) fn insert_stream(&mut self, cap: usize) -> Key {
        let stream =
            Stream { queue: VecDeque::new(), waiters: Waiters::new(), cap, course: Course::Armed };
        self.add(Life::Stream(Box::new(stream)), Times::Many, Means::Usual)
    }

    fn get(&mut self, key: Key) -> Option<&mut Life> {
        let entry = self.entries.get_mut(key.index as usize)?;
        (entry.generation == key.generation).then_some(&mut entry.life)
    }

    fn live(&mut self, key: Key) -> &mut Life {
        self.get(key).expect("O1: the key is in use until its result is taken")
    }

    fn remove(&mut self, key: Key) -> Life {
        let entry = self.entries.remove(key.index as usize);
        debug_assert_eq!(entry.generation, key.generation, "O2");
        entry.life
    }

    /// How many operations there are, results that nobody has taken included.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// How far the operation is; if it is not over, `waker` will be woken. `clone` is a clone of it, if
    /// the caller has made one, and comes back as the waker that it replaces (O4).
    pub(crate) fn poll(&mut self, key: Key, waker: &Waker, clone: &mut Option<Waker>) -> Polled {
        match self.live(key) {
            Life::Waiting { waker: slot, .. } => {
                if keep(slot, waker, clone) {
                    Polled::Pending
                } else {
                    Polled::WantsWaker
                }
            }
            &mut Life::Done(completion) => {
                self.remove(key);
                Polled::Done(completion)
            }
            Life::Moves => {
                self.remove(key);
                Polled::Moves
            }
            Life::Orphan(_) | Life::Stream(_) | Life::OrphanStream(_) => {
                unreachable!("O1: the key is that of a waiting future")
            }
        }
    }

    /// Notes that the future asks to cancel; whether there is anything to cancel.
    pub(crate) fn wish_to_cancel(&mut self, key: Key) -> bool {
        match self.live(key) {
            Life::Waiting { wish, .. } => {
                if *wish == Wish::Finish {
                    *wish = Wish::Cancel;
                }
                true
            }
            // It would be started again.
            life @ Life::Moves => {
                *life = Life::Done(Completion { result: CANCELED, flags: 0 });
                false
            }
            _ => false,
        }
    }

    /// Calls an operation back (O8); whether there is anything to cancel.
    pub(crate) fn call_back(&mut self, key: Key) -> bool {
        match self.live(key) {
            Life::Waiting { wish: wish @ Wish::Finish, .. } => {
                *wish = Wish::ComeBack;
                true
            }
            _ => false,
        }
    }

    /// Calls back all that wait for bytes of this socket (O8); what there is to cancel.
    pub(crate) fn call_back_all(&mut self, fd: i32) -> Vec<Key> {
        let mut called = Vec::new();
        for (index, entry) in &mut self.entries {
            if entry.means == Means::Reads(fd)
                && let Life::Waiting { wish: wish @ Wish::Finish, .. } = &mut entry.life
            {
                *wish = Wish::ComeBack;
                called.push(Key { index: index as u32, generation: entry.generation });
            }
        }
        called
    }

    /// The future goes; `late` keeps what it had.
    pub(crate) fn abandon(&mut self, key: Key, late: Box<dyn Late>) -> (Abandoned, Option<Waker>) {
        match self.live(key) {
            life @ Life::Waiting { .. } => {
                let before = std::mem::replace(life, Life::Orphan(late));
                let Life::Waiting { waker, .. } = before else { unreachable!("matched above") };
                (Abandoned::InFlight, waker)
            }
            &mut Life::Done(completion) => {
                self.remove(key);
                (Abandoned::Done(late, completion), None)
            }
            Life::Moves => {
                self.remove(key);
                (Abandoned::Never(late), None)
            }
            Life::Orphan(_) | Life::Stream(_) | Life::OrphanStream(_) => {
                unreachable!("O1: the key is that of a waiting future")
            }
        }
    }

    /// The next completion of a stream; if there is none yet, who asks will be woken. `clone` is as for
    /// `poll`.
    pub(crate) fn poll_stream(
        &mut self,
        key: Key,
        who: Waiter<'_>,
        clone: &mut Option<Waker>,
    ) -> Next {
        // Another that shares the stream may have taken the last of it.
        let Some(life) = self.get(key) else { return Next::Ended };
        let Life::Stream(stream) = life else {
            unreachable!("O6: the key is that of a stream with an owner")
        };
        if let Some(completion) = stream.queue.pop_front() {
            return Next::Item(completion);
        }
        if stream.course == Course::Ended {
            self.remove(key);
            return Next::Ended;
        }
        if stream.waiters.has(who) {
            return Next::Pending;
        }
        let Some(waker) = clone.take() else { return Next::WantsWaker };
        *clone = stream.waiters.add(who, waker);
        Next::Pending
    }

    /// Who waited for the next of a stream under this id does not any more: its waker is handed out (O4).
    pub(crate) fn give_up(&mut self, key: Key, id: WaitId) -> Option<Waker> {
        match self.get(key)? {
            Life::Stream(stream) => stream.waiters.remove(id),
            _ => None,
        }
    }

    /// Takes out all that wait for the next of a stream (O4).
    pub(crate) fn take_waiters(&mut self, key: Key) -> Waiters {
        match self.get(key) {
            Some(Life::Stream(stream)) => std::mem::take(&mut stream.waiters),
            _ => Waiters::new(),
        }
    }

    /// Notes that a stream is being stopped; whether there is anything to cancel.
    pub(crate) fn stop_stream(&mut self, key: Key) -> bool {
        match self.get(key) {
            Some(Life::Stream(stream)) if stream.course == Course::Armed => {
                stream.course = Course::Stopping;
                true
            }
            _ => false,
        }
    }

    /// The owner of a stream goes: what is unread is handed out, the rest goes to `dispose`. Whether
    /// there is anything to cancel.
    pub(crate) fn abandon_stream(
        &mut self,
        key: Key,
        dispose: Arc<dyn Dispose>,
    ) -> (bool, VecDeque<Completion>, Waiters) {
        let life = self.live(key);
        let Life::Stream(stream) = life else {
            unreachable!("O6: the key is that of a stream with an owner")
        };
        let (queue, waiters) =
            (std::mem::take(&mut stream.queue), std::mem::take(&mut stream.waiters));
        match stream.course {
            Course::Ended => {
                self.remove(key);
                (false, queue, waiters)
            }
            course => {
                *life = Life::OrphanStream(dispose);
                (course == Course::Armed, queue, waiters)
            }
        }
    }

    /// The sockets of sends without a copy that have a result and wait for the notice (O7).
    pub(crate) fn unnoticed(&self) -> impl Iterator<Item = i32> {
        let waits = |entry: &Entry| match (entry.first, entry.means) {
            (Some(_), Means::Uncopied(fd)) => Some(fd),
            _ => None,
        };
        self.entries.iter().filter_map(move |(_, entry)| waits(entry))
    }

    /// Puts the two completions of a send without a copy together (O7); nothing if one is missing.
    fn whole(&mut self, key: Key, completion: Completion) -> Option<Completion> {
        let entry = self.entries.get_mut(key.index as usize)?;
        if entry.generation != key.generation {
            return None;
        }
        match (&entry.life, entry.first) {
            (Life::Waiting { .. } | Life::Orphan(_), None) if completion.has_more() => {
                entry.first = Some(completion);
                None
            }
            (_, Some(first)) => Some(first.noticed(completion)),
            (_, None) => Some(completion),
        }
    }

    /// A completion of a ring has come for `key`. Who waits for it is handed out in `woken` (O4).
    pub(crate) fn complete(
        &mut self,
        key: Key,
        completion: Completion,
        woken: &mut Vec<Waker>,
    ) -> (Told, Then) {
        self.conclude(key, completion.of_ring(), self.prospect, woken)
    }

    /// As `complete`, of a request that a call performs: only the end of the runtime keeps it from that.
    pub(crate) fn complete_call(
        &mut self,
        key: Key,
        completion: Completion,
        woken: &mut Vec<Waker>,
    ) -> Told {
        self.conclude(key, completion, Prospect::Never, woken).0
    }

    fn conclude(
        &mut self,
        key: Key,
        completion: Completion,
        prospect: Prospect,
        woken: &mut Vec<Waker>,
    ) -> (Told, Then) {
        let Some(completion) = self.whole(key, completion) else {
            return (Told::Waiters, Then::Nothing);
        };
        let Some(life) = self.get(key) else { return (Told::Waiters, Then::Nothing) };
        match life {
            Life::Waiting { waker, wish } => {
                let unasked = completion.result == CANCELED && *wish == Wish::Finish;
                let mark = if *wish == Wish::ComeBack { CALLED_BACK } else { 0 };
                let completion = Completion { flags: completion.flags | mark, ..completion };
                woken.extend(waker.take());
                *life = match prospect {
                    Prospect::Again if unasked => Life::Moves,
                    Prospect::Never if unasked => {
                        Life::Done(Completion { result: Cause::Ended.code(), ..completion })
                    }
                    _ => Life::Done(completion),
                };
                (Told::Waiters, Then::Nothing)
            }
            Life::Orphan(_) => {
                let Life::Orphan(late) = self.remove(key) else { unreachable!("matched above") };
                (Told::Late(late, completion), Then::Nothing)
            }
            Life::Stream(stream) => {
                stream.queue.push_back(completion);
                let mut then = Then::Nothing;
                if !completion.has_more() {
                    stream.course = Course::Ended;
                } else if stream.course == Course::Armed && stream.queue.len() >= stream.cap {
                    stream.course = Course::Stopping;
                    then = Then::Stop;
                }
                woken.extend(stream.waiters.drain());
                (Told::Waiters, then)
            }
            Life::OrphanStream(dispose) => {
                let dispose = dispose.clone();
                if !completion.has_more() {
                    // Another reference is in hand: nothing of the user's is dropped here.
                    self.remove(key);
                }
                (Told::Dispose(dispose, completion), Then::Nothing)
            }
            Life::Done(_) | Life::Moves => {
                debug_assert!(false, "O1: an operation completes once");
                (Told::Waiters, Then::Nothing)
            }
        }
    }

    /// The driver is about to close, for good: nothing begins anew (O5).
    pub(crate) fn set_closing(&mut self) {
        self.prospect = Prospect::Never;
    }

    /// Whether a ring may still find an operation that is to be cancelled: not what a call performs (O9), and not what
    /// only waits for its notice (O7).
    pub(crate) fn is_cancellable(&self, key: Key) -> bool {
        let entry = self.entries.get(key.index as usize);
        entry.filter(|entry| entry.generation == key.generation).is_some_and(|entry| {
            entry.life.is_in_flight() && entry.first.is_none() && entry.means != Means::Call
        })
    }

    /// Whether a cancel that has found nothing may find the operation the next time (U8 of `uring`).
    pub(crate) fn may_be_found_yet(&self, key: Key) -> bool {
        self.is_cancellable(key) && self.entries[key.index as usize].means != Means::Device
    }

    /// What is in flight.
    pub(crate) fn in_flight(&self) -> Vec<Key> {
        self.entries
            .iter()
            .filter(|(_, entry)| entry.life.is_in_flight())
            .map(|(index, entry)| Key { index: index as u32, generation: entry.generation })
            .collect()
    }
}
