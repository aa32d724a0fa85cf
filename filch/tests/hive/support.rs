//! What the tests of the hive share: a watchdog, gates, tokens, cores that keep books.

use std::io::Write;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Wake, Waker};
use std::thread::ThreadId;
use std::time::Duration;

use filch::{EventCore, Handle, WorkerId};

/// How long something may take that would take for ever if it were broken.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a test that might hang: if it does, the process says so and ends.
#[track_caller]
pub fn watched(test: impl FnOnce() + Send + 'static) {
    let (ended, end) = mpsc::channel::<()>();
    let name = std::thread::current().name().unwrap_or("test").to_owned();
    let body = move || {
        let _ended = ended;
        test();
    };
    let thread = std::thread::Builder::new().name(name.clone()).spawn(body).unwrap();
    if end.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
        let _ = writeln!(std::io::stderr(), "\n{name} hangs");
        std::process::abort();
    }
    if let Err(payload) = thread.join() {
        resume_unwind(payload);
    }
}

/// The next message; panics if none ever comes.
#[track_caller]
pub fn receive<T>(from: &Receiver<T>) -> T {
    from.recv_timeout(PATIENCE).expect("a message")
}

/// Polls until it holds; the watchdog bounds it.
pub fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Blocks threads until it is opened.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub fn pass(&self) {
        let open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(open, |open| !*open).unwrap());
    }
}

/// Counts how often its tokens were dropped.
#[derive(Clone, Default)]
pub struct Drops(Arc<AtomicUsize>);

pub struct Token(Arc<AtomicUsize>);

impl Drops {
    pub fn token(&self) -> Token {
        Token(self.0.clone())
    }

    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Occupies a worker until the gate opens; returns once it does.
pub fn occupy(handle: &Handle, worker: WorkerId, gate: &Gate) {
    let (send, there) = mpsc::channel();
    let gate = gate.clone();
    let block = move || {
        send.send(()).unwrap();
        gate.pass();
    };
    handle.post_to(worker, block).unwrap();
    receive(&there);
}

/// The slice of the calling thread in ns, as the kernel tells it.
#[cfg(target_os = "linux")]
pub fn slice() -> u64 {
    let mut attributes = [0_u64; 6];
    let (at, size) = (attributes.as_mut_ptr(), size_of_val(&attributes));
    // SAFETY: the kernel writes at most `size` bytes, and there are as many.
    let status = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, at, size, 0) };
    assert_eq!(status, 0);
    attributes[3]
}

/// What cores have noted.
#[derive(Clone, Default)]
pub struct Books(Arc<Mutex<Vec<Entry>>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    Park(Option<Duration>),
    /// By this thread.
    Woken(ThreadId),
}

impl Books {
    pub fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// How many parks there were so far.
    pub fn parks(&self) -> usize {
        self.0.lock().unwrap().iter().filter(|entry| matches!(entry, Entry::Park(_))).count()
    }

    /// How often the calling thread has woken a core.
    pub fn woken_by_me(&self) -> usize {
        let me = Entry::Woken(std::thread::current().id());
        self.0.lock().unwrap().iter().filter(|entry| **entry == me).count()
    }

    fn note(&self, entry: Entry) {
        self.0.lock().unwrap().push(entry);
    }

    /// A core that notes its timeouts and who wakes it.
    pub fn core(&self) -> BookCore {
        let (bell, token) = mpsc::channel();
        BookCore { books: self.clone(), bell: Mutex::new(bell).into(), token: Mutex::new(token) }
    }
}

pub struct BookCore {
    books: Books,
    bell: Arc<Mutex<Sender<()>>>,
    token: Mutex<Receiver<()>>,
}

struct BookWaker {
    books: Books,
    bell: Arc<Mutex<Sender<()>>>,
}

impl EventCore for BookCore {
    fn poll(&mut self) -> usize {
        0
    }

    fn park(&mut self, timeout: Option<Duration>) {
        self.books.note(Entry::Park(timeout));
        let token = self.token.lock().unwrap();
        match timeout {
            None => drop(token.recv()),
            Some(timeout) => drop(token.recv_timeout(timeout)),
        }
        while token.try_recv().is_ok() {}
    }

    fn waker(&self) -> Waker {
        let waker = BookWaker { books: self.books.clone(), bell: self.bell.clone() };
        Waker::from(Arc::new(waker))
    }
}

impl Wake for BookWaker {
    fn wake(self: Arc<Self>) {
        self.books.note(Entry::Woken(std::thread::current().id()));
        let _ = self.bell.lock().unwrap().send(());
    }
}
