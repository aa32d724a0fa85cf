//! An event core whose events a test writes.
//!
//! C1. It blocks on a bed that a simulation sees, and on nothing of the system's.
//! C2. Events are told in the order in which they were written, without a lock: they may write others.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::RecordingWaker;
use crate::base::parker::Parker;
use crate::sched::core::EventCore;

type Event = Box<dyn FnOnce() + Send>;

/// An [`EventCore`] that notes how long its worker would wait, and tells the events of a script.
///
/// [`events`](Self::events) is the test's side of it. A visit without a wait is noted as a timeout of zero.
///
/// ```
/// use std::time::Duration;
/// use filch::NewWorker;
/// use filch::testkit::FakeCore;
///
/// let core = FakeCore::new();
/// let events = core.events();
/// let hive = filch::Builder::new().hive()?;
/// hive.attach(NewWorker::io().event_core(core))?;
/// let handle = hive.handle();
/// events.push(move || handle.request_stop());
/// hive.run()?;
/// assert_eq!(events.take_timeouts()[0], Some(Duration::ZERO), "events come first");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FakeCore {
    desk: Arc<Desk>,
    waker: RecordingWaker,
}

/// A test's side of a [`FakeCore`]: writes events, reads what the core has noted.
///
/// ```
/// use filch::EventCore;
/// let mut core = filch::testkit::FakeCore::new();
/// let events = core.events();
/// events.push(|| ());
/// assert_eq!((core.poll(), core.poll()), (1, 0));
/// assert_eq!(events.take_timeouts().len(), 2);
/// ```
#[derive(Clone)]
pub struct FakeEvents {
    desk: Arc<Desk>,
    waker: RecordingWaker,
}

struct Desk {
    bed: Parker,
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    script: VecDeque<Event>,
    timeouts: Vec<Option<Duration>>,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells what has been written so far (C2); how many that were.
    fn tell(&self) -> usize {
        let count = self.lock().script.len();
        for _ in 0..count {
            // Taken one at a time: those after one that panics are told in the next turn.
            let event = self.lock().script.pop_front();
            event.into_iter().for_each(|event| event());
        }
        count
    }
}

impl Wake for Desk {
    fn wake(self: Arc<Self>) {
        self.bed.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.bed.unpark();
    }
}

impl FakeCore {
    /// A core without events.
    ///
    /// ```
    /// use filch::EventCore;
    /// assert_eq!(filch::testkit::FakeCore::new().poll(), 0);
    /// ```
    pub fn new() -> Self {
        let desk = Arc::new(Desk { bed: Parker::new(), books: Mutex::default() });
        let waker = RecordingWaker::then(Waker::from(desk.clone()));
        Self { desk, waker }
    }

    /// The test's side.
    ///
    /// ```
    /// let core = filch::testkit::FakeCore::new();
    /// assert!(core.events().take_timeouts().is_empty());
    /// ```
    pub fn events(&self) -> FakeEvents {
        FakeEvents { desk: self.desk.clone(), waker: self.waker.clone() }
    }
}

impl Default for FakeCore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FakeCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeCore").field("waker", &self.waker).finish_non_exhaustive()
    }
}

impl EventCore for FakeCore {
    fn poll(&mut self) -> usize {
        self.desk.lock().timeouts.push(Some(Duration::ZERO));
        self.desk.tell()
    }

    fn park(&mut self, timeout: Option<Duration>) {
        let mut books = self.desk.lock();
        books.timeouts.push(timeout);
        let waits = books.script.is_empty();
        drop(books);
        match timeout {
            _ if !waits => {}
            None => self.desk.bed.park(),
            Some(timeout) => {
                self.desk.bed.park_timeout(timeout);
            }
        }
        self.desk.tell();
    }

    fn waker(&self) -> Waker {
        self.waker.waker()
    }
}

impl FakeEvents {
    /// Lets something happen: the core tells it in its next visit, and one that waits stops waiting. If it
    /// panics, its worker goes on, as after a task that does: what a test asserts is asserted outside.
    ///
    /// ```
    /// use filch::EventCore;
    /// let mut core = filch::testkit::FakeCore::new();
    /// core.events().push(|| println!("a key was pressed"));
    /// core.park(None);
    /// ```
    pub fn push(&self, event: impl FnOnce() + Send + 'static) {
        self.desk.lock().script.push_back(Box::new(event));
        self.desk.bed.unpark();
    }

    /// How long the worker would have waited in each visit since the last call: zero with work to do, up to
    /// the next deadline with timers, `None` without.
    ///
    /// ```
    /// use std::time::Duration;
    /// use filch::EventCore;
    /// let mut core = filch::testkit::FakeCore::new();
    /// core.poll();
    /// core.park(Some(Duration::from_micros(1)));
    /// let noted = core.events().take_timeouts();
    /// assert_eq!(noted, [Some(Duration::ZERO), Some(Duration::from_micros(1))]);
    /// ```
    pub fn take_timeouts(&self) -> Vec<Option<Duration>> {
        std::mem::take(&mut self.desk.lock().timeouts)
    }

    /// Who wakes the core, and when.
    ///
    /// ```
    /// use filch::EventCore;
    /// let core = filch::testkit::FakeCore::new();
    /// core.waker().wake();
    /// assert_eq!(core.events().waker().count(), 1);
    /// ```
    pub fn waker(&self) -> &RecordingWaker {
        &self.waker
    }
}

impl fmt::Debug for FakeEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeEvents").field("waker", &self.waker).finish_non_exhaustive()
    }
}
