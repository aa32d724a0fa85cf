//! A storm of random tasks: futures and jobs of every priority, groups, scopes, blocking waits,
//! panics and cancellations, from many threads at once; and the account of what became of each.
//!
//! M1. A body starts at most once, and is dropped exactly once.
//! M2. A body that started and was not cancelled reaches its end; one that nobody could have
//!     cancelled reaches its end for certain.
//! M3. A handle tells the truth: a value or a panic if the body ended, else a cancellation.
//! M4. Every panic is delivered exactly once: to a handle, to a structure that waits, or to the
//!     runtime's hook.
//! M5. Tasks that block wait for leaves only; on a worker that runs futures for jobs only; and on
//!     one that runs jobs for no job whose handle was dropped, because such a job cannot be run in
//!     place. So the bound on spares cannot make a storm deadlock.
//!
//! The account is in atomics, not behind locks: ThreadSanitizer does not see into std's.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use filch::{Handle, JoinError, JoinHandle, PanicInfo, Priority, Shutdown, TaskBuilder};

const STARTED: u8 = 1 << 0;
const ENDED: u8 = 1 << 1;
const GONE: u8 = 1 << 2;
/// Somebody may cancel it.
const DOOMED: u8 = 1 << 3;
const PANICKED: u8 = 1 << 4;
/// Its panic was delivered.
const CAUGHT: u8 = 1 << 5;
/// Its handle said that it was cancelled.
const CANCELLED: u8 = 1 << 6;
const BORN: u8 = 1 << 7;

/// A storm in which nothing happens for so long hangs.
const CALM: Duration = Duration::from_secs(60);

/// The tasks of one storm, by number.
pub struct Storm {
    seed: u64,
    lanes: Lanes,
    marks: Box<[AtomicU8]>,
    next: AtomicUsize,
    gone: AtomicUsize,
}

/// Whether jobs have workers of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lanes {
    One,
    Two,
}

/// SplitMix64.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn priority(&mut self) -> Priority {
        match self.below(8) {
            0 => Priority::High,
            1 => Priority::Low,
            _ => Priority::Normal,
        }
    }
}

/// `FILCH_SEED_STRESS`, or a fresh seed.
pub fn seed() -> u64 {
    match std::env::var("FILCH_SEED_STRESS") {
        Ok(text) => text.parse().expect("FILCH_SEED_STRESS is a number"),
        Err(_) => std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64,
    }
}

/// `FILCH_STRESS_TASKS`, or what fits the build.
pub fn tasks(in_release: usize) -> usize {
    match std::env::var("FILCH_STRESS_TASKS") {
        Ok(text) => text.parse().expect("FILCH_STRESS_TASKS is a number"),
        Err(_) if cfg!(filch_tsan) => 100_000,
        Err(_) if cfg!(debug_assertions) => 300_000,
        Err(_) => in_release,
    }
}

/// Says which seed it was if the thread panics.
pub struct TellSeed(pub u64);

impl Drop for TellSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("reproduce with FILCH_SEED_STRESS={}", self.0);
        }
    }
}

/// What a body holds: notes its life.
struct Ticket {
    storm: &'static Storm,
    id: usize,
}

impl Ticket {
    fn start(&self) {
        let before = self.mark(STARTED);
        assert_eq!(before & (STARTED | GONE), 0, "M1: task {} started twice", self.id);
    }

    /// The end of the body: its number, or a panic with it.
    fn end(self, rng: &mut Rng) -> usize {
        self.mark(ENDED);
        if rng.one_in(16) {
            self.mark(PANICKED);
            // Not `panic!`, which would print.
            resume_unwind(Box::new(self.id));
        }
        self.id
    }

    fn mark(&self, bits: u8) -> u8 {
        self.storm.mark(self.id, bits)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        assert_eq!(self.mark(GONE) & GONE, 0, "M1: task {} dropped twice", self.id);
        self.storm.gone.fetch_add(1, SeqCst);
    }
}

/// Whether somebody may cancel a task from above.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Above {
    Safe,
    /// Inside a group that can be cancelled.
    Group,
}

/// What a thread that may block does with a handle.
type Settle = fn(&Storm, JoinHandle<usize>, usize, &mut Rng);

/// How deep a task may go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Leaf,
    Parent(u8),
}

impl Depth {
    fn below(self) -> Self {
        match self {
            Self::Leaf | Self::Parent(0) => Self::Leaf,
            Self::Parent(n) => Self::Parent(n - 1),
        }
    }
}

impl Storm {
    /// A storm of `tasks`, that lives as long as the process (a few bytes per task).
    pub fn leak(seed: u64, lanes: Lanes, tasks: usize) -> &'static Self {
        let marks = std::iter::repeat_with(AtomicU8::default).take(tasks).collect();
        let (next, gone) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let storm = Box::leak(Box::new(Self { seed, lanes, marks, next, gone }));
        // Kept where AddressSanitizer sees that it is not lost.
        static ALL: Mutex<Vec<&Storm>> = Mutex::new(Vec::new());
        ALL.lock().unwrap().push(storm);
        storm
    }

    /// Rages until all tasks were spawned, then ends the runtime, and checks the account.
    pub fn rage(&'static self, builder: filch::Builder, threads: u64, end: Shutdown) {
        let runtime = builder.on_panic(|panic| self.caught_by_hook(panic)).build().unwrap();
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let handle = runtime.handle();
                std::thread::spawn(move || self.blow(&handle, thread))
            })
            .collect();
        let watch = self.watch(runtime.handle());
        for handle in handles {
            handle.join().expect("a thread of the storm panicked");
        }
        let report = runtime.shutdown(end);
        assert!(end != Shutdown::Drain || report.unfinished.is_empty(), "{report}");
        watch.join().unwrap();
        self.check();
    }

    /// As `rage`, but the runtime is aborted in the middle while the threads go on.
    pub fn rage_and_abort(&'static self, builder: filch::Builder, threads: u64) {
        for mark in &self.marks {
            mark.fetch_or(DOOMED, SeqCst);
        }
        let runtime = builder.on_panic(|panic| self.caught_by_hook(panic)).build().unwrap();
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let handle = runtime.handle();
                std::thread::spawn(move || self.blow(&handle, thread))
            })
            .collect();
        let watch = self.watch(runtime.handle());
        while self.gone.load(SeqCst) < self.marks.len() / 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        runtime.shutdown(Shutdown::Abort);
        for handle in handles {
            handle.join().expect("a thread of the storm panicked");
        }
        watch.join().unwrap();
        self.check();
    }

    /// Ends the process if nothing happens.
    fn watch(&'static self, handle: Handle) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            let (mut last, mut since) = (0, Instant::now());
            while last < self.marks.len() {
                std::thread::sleep(Duration::from_millis(5));
                let gone = self.gone.load(SeqCst);
                if gone != last {
                    (last, since) = (gone, Instant::now());
                } else if since.elapsed() > CALM {
                    self.say_why(&handle);
                    std::process::abort();
                }
            }
        })
    }

    /// Writes past the capture of the test harness, because the process ends.
    fn say_why(&self, handle: &Handle) {
        let tasks = handle.tasks();
        let some: String = tasks.iter().take(20).map(|task| format!("  {task}\n")).collect();
        let text = format!(
            "the storm hangs: {} of {} tasks gone; reproduce with FILCH_SEED_STRESS={}\n\
             {} tasks alive, among them\n{some}{}\n",
            self.gone.load(SeqCst),
            self.marks.len(),
            self.seed,
            tasks.len(),
            handle.describe(),
        );
        let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
    }

    fn mark(&self, id: usize, bits: u8) -> u8 {
        self.marks[id].fetch_or(bits, SeqCst)
    }

    fn rng(&self, stream: u64) -> Rng {
        let mut rng = Rng::new(self.seed ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03));
        rng.next();
        rng
    }

    /// The number of a new task, until there are enough.
    fn take_id(&self) -> Option<usize> {
        // No `fetch_add`, so that the count stays where it is at the end.
        let more = |id| (id < self.marks.len()).then_some(id + 1);
        self.next.fetch_update(SeqCst, SeqCst, more).ok()
    }

    fn caught_by_hook(&self, panic: PanicInfo) {
        self.caught(panic.payload);
    }

    fn caught(&self, payload: Box<dyn std::any::Any + Send>) {
        let id = match payload.downcast::<usize>() {
            Ok(id) => *id,
            Err(other) => resume_unwind(other),
        };
        let before = self.mark(id, CAUGHT);
        assert_eq!(before & (PANICKED | CAUGHT), PANICKED, "M4: task {id}");
    }

    /// Notes what a handle says.
    fn told(&self, id: usize, outcome: Result<usize, JoinError>) {
        let mark = self.marks[id].load(SeqCst);
        match outcome {
            Ok(value) => {
                assert_eq!(value, id, "M3: another task's value");
                assert_eq!(mark & (ENDED | PANICKED), ENDED, "M3: task {id}");
            }
            Err(error) if error.is_cancelled() => {
                self.mark(id, CANCELLED);
                assert_eq!(mark & (ENDED | DOOMED), DOOMED, "M3: task {id} was cancelled");
            }
            Err(error) => self.caught(error.into_panic()),
        }
        // A job's captures, a future: gone before the handle knows the outcome.
        assert_ne!(mark & GONE, 0, "M1: the body of task {id} outlives its end");
    }

    /// Every task, once all is over.
    fn check(&self) {
        assert_eq!(self.next.load(SeqCst), self.marks.len());
        for (id, mark) in self.marks.iter().enumerate() {
            let mark = mark.load(SeqCst);
            assert_ne!(mark & GONE, 0, "M1: the body of task {id} was never dropped ({mark:#b})");
            assert_ne!(mark & (ENDED | DOOMED), 0, "M2: task {id} never ended ({mark:#b})");
            let panic = mark & (PANICKED | CAUGHT);
            assert!(panic == 0 || panic == PANICKED | CAUGHT, "M4: the panic of task {id} is lost");
            assert_ne!(mark & (ENDED | CANCELLED), ENDED | CANCELLED, "M3: task {id}");
        }
    }

    // ---- tasks ----

    fn ticket(&'static self, id: usize, above: Above) -> Ticket {
        let doomed = if above == Above::Group { DOOMED } else { 0 };
        assert_eq!(self.mark(id, BORN | doomed) & BORN, 0);
        Ticket { storm: self, id }
    }

    fn launch(
        &'static self,
        builder: TaskBuilder,
        id: usize,
        above: Above,
        depth: Depth,
    ) -> JoinHandle<usize> {
        let mut rng = self.rng(id as u64);
        let builder = builder.priority(rng.priority());
        let ticket = self.ticket(id, above);
        let is_parent = depth != Depth::Leaf && rng.one_in(8);
        match (rng.one_in(2), is_parent) {
            (true, true) => builder.spawn(self.parent(ticket, rng, above, depth.below())),
            (true, false) => builder.spawn(leaf(ticket, rng)),
            (false, true) => builder.spawn_fn(move || self.job(ticket, rng, above)),
            (false, false) => builder.spawn_fn(move || {
                ticket.start();
                ticket.end(&mut rng)
            }),
        }
    }

    /// A future with children; boxed, because it is recursive.
    fn parent(
        &'static self,
        ticket: Ticket,
        mut rng: Rng,
        above: Above,
        depth: Depth,
    ) -> Pin<Box<dyn Future<Output = usize> + Send>> {
        Box::pin(async move {
            ticket.start();
            match rng.below(32) {
                0 => self.child_group(&mut rng).await,
                1 => self.local_child(&mut rng).await,
                2 => self.blocking_child(&mut rng, above, Self::settle),
                3 => self.scope(&mut rng, above),
                _ => self.children(&mut rng, above, depth).await,
            }
            ticket.end(&mut rng)
        })
    }

    async fn children(&'static self, rng: &mut Rng, above: Above, depth: Depth) {
        for _ in 0..1 + rng.below(4) {
            let Some(id) = self.take_id() else { return };
            let handle = self.launch(filch::task(), id, above, depth);
            self.settle_async(handle, id, rng).await;
        }
    }

    /// Awaits a handle, or not.
    async fn settle_async(&'static self, handle: JoinHandle<usize>, id: usize, rng: &mut Rng) {
        match rng.below(16) {
            0 => drop(handle),
            1 => handle.detach(),
            2 => {
                self.mark(id, DOOMED);
                handle.cancel();
            }
            3 => {
                self.mark(id, DOOMED);
                handle.cancel();
                self.told(id, handle.outcome().await);
            }
            4 => {
                // Polled once, so that a waiter is registered, and dropped.
                let mut outcome = handle.outcome();
                if let Some(outcome) = Once(&mut outcome).await {
                    self.told(id, outcome);
                }
            }
            _ => self.told(id, handle.outcome().await),
        }
    }

    /// Waits for a handle by blocking, or not.
    fn settle(&self, handle: JoinHandle<usize>, id: usize, rng: &mut Rng) {
        match rng.below(16) {
            0 => drop(handle),
            1 => handle.detach(),
            2 => {
                self.mark(id, DOOMED);
                handle.cancel();
            }
            3 => {
                self.mark(id, DOOMED);
                handle.cancel();
                self.told(id, handle.wait_outcome());
            }
            _ => self.told(id, handle.wait_outcome()),
        }
    }

    /// Waits for a handle, perhaps after a cancellation (M5).
    fn settle_by_waiting(&self, handle: JoinHandle<usize>, id: usize, rng: &mut Rng) {
        if rng.one_in(8) {
            self.mark(id, DOOMED);
            handle.cancel();
        }
        self.told(id, handle.wait_outcome());
    }

    async fn child_group(&'static self, rng: &mut Rng) {
        let fails = rng.one_in(4);
        let mut group_rng = Rng::new(rng.next());
        let body = async |group: filch::Group<()>| {
            for _ in 0..group_rng.below(6) {
                let Some(id) = self.take_id() else { break };
                let ticket = self.ticket(id, Above::Group);
                let rng = self.rng(id as u64);
                if group_rng.one_in(2) {
                    drop(group.spawn(async move { Ok(leaf(ticket, rng).await) }));
                } else {
                    let job = move || {
                        let (ticket, mut rng) = (ticket, rng);
                        ticket.start();
                        Ok(ticket.end(&mut rng))
                    };
                    drop(group.spawn_fn(job));
                }
            }
            if fails { Err(()) } else { Ok(()) }
        };
        // Its panic is that of a child.
        if let Err(payload) = Caught(Box::pin(filch::group(body))).await {
            self.caught(payload);
        }
    }

    async fn local_child(&'static self, rng: &mut Rng) {
        let Some(id) = self.take_id() else { return };
        let ticket = self.ticket(id, Above::Group);
        let handle = filch::spawn_local(leaf(ticket, self.rng(id as u64)));
        self.settle_async(handle, id, rng).await;
    }

    /// M5: a leaf job, because this may be a worker that runs futures.
    fn blocking_child(&'static self, rng: &mut Rng, above: Above, settle: Settle) {
        let Some(id) = self.take_id() else { return };
        let (ticket, mut child_rng) = (self.ticket(id, above), self.rng(id as u64));
        let handle = filch::spawn_fn(move || {
            ticket.start();
            ticket.end(&mut child_rng)
        });
        settle(self, handle, id, rng);
    }

    /// A scope of leaf jobs (M5).
    fn scope(&'static self, rng: &mut Rng, above: Above) {
        let sum = AtomicUsize::new(0);
        let jobs = rng.below(6) as usize;
        let result = catch_unwind(AssertUnwindSafe(|| {
            filch::scope(|scope| {
                for _ in 0..jobs {
                    let Some(id) = self.take_id() else { break };
                    let (ticket, mut rng) = (self.ticket(id, above), self.rng(id as u64));
                    let sum = &sum;
                    scope.spawn(move |_| {
                        // Borrowed from this stack: must not outlive the scope.
                        sum.fetch_add(1, SeqCst);
                        ticket.start();
                        ticket.end(&mut rng);
                    });
                }
            });
        }));
        if let Err(payload) = result {
            self.caught(payload);
        }
        assert!(sum.into_inner() <= jobs);
    }

    /// A job with children, which it waits for.
    fn job(&'static self, ticket: Ticket, mut rng: Rng, above: Above) -> usize {
        ticket.start();
        match rng.below(16) {
            0 => self.scope(&mut rng, above),
            1 => {
                let inner = || self.leaves(&mut rng, above, Self::settle_by_waiting);
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| filch::block_on_fn(inner))) {
                    self.caught(payload);
                }
            }
            _ => self.leaves(&mut rng, above, Self::settle),
        }
        ticket.end(&mut rng)
    }

    fn leaves(&'static self, rng: &mut Rng, above: Above, settle: Settle) {
        for _ in 0..1 + rng.below(3) {
            if self.lanes == Lanes::One {
                self.blocking_child(rng, above, settle);
                continue;
            }
            let Some(id) = self.take_id() else { return };
            settle(self, self.launch(filch::task(), id, above, Depth::Leaf), id, rng);
        }
    }

    // ---- threads ----

    /// A foreign thread: spawns until there are enough.
    fn blow(&'static self, runtime: &Handle, thread: u64) {
        let _tell = TellSeed(self.seed);
        let mut rng = self.rng(u64::MAX - thread);
        let mut bag = Vec::new();
        while self.next.load(SeqCst) < self.marks.len() {
            match rng.below(64) {
                0 => self.blow_structure(runtime, &mut rng),
                1 => self.blow_jobs(runtime, &mut rng),
                _ => self.blow_loose(runtime, &mut rng, &mut bag),
            }
            while bag.len() > 512 {
                let (id, handle) = bag.swap_remove(rng.below(bag.len() as u64) as usize);
                self.settle(handle, id, &mut rng);
            }
        }
        for (id, handle) in bag {
            self.told(id, handle.wait_outcome());
        }
    }

    fn blow_loose(
        &'static self,
        runtime: &Handle,
        rng: &mut Rng,
        bag: &mut Vec<(usize, JoinHandle<usize>)>,
    ) {
        for _ in 0..16 {
            let Some(id) = self.take_id() else { return };
            let handle = self.launch(runtime.task(), id, Above::Safe, Depth::Parent(3));
            match rng.below(64) {
                0 => self.settle(handle, id, rng),
                1..=8 => drop(handle),
                _ => bag.push((id, handle)),
            }
        }
    }

    /// `block_on` with a fan-out; its panic is that of a child whose handle was dropped.
    fn blow_structure(&'static self, runtime: &Handle, rng: &mut Rng) {
        let width = 1 + rng.below(64);
        let mut inner = Rng::new(rng.next());
        let fan_out = async {
            let mut handles = Vec::new();
            for _ in 0..width {
                let Some(id) = self.take_id() else { break };
                handles.push((id, self.launch(filch::task(), id, Above::Safe, Depth::Parent(3))));
            }
            for (id, handle) in handles {
                self.settle_async(handle, id, &mut inner).await;
            }
            self.child_group(&mut inner).await;
        };
        self.guarded(|| runtime.block_on(fan_out));
    }

    fn blow_jobs(&'static self, runtime: &Handle, rng: &mut Rng) {
        self.guarded(|| {
            runtime.block_on_fn(|| {
                self.scope(rng, Above::Safe);
                self.leaves(rng, Above::Safe, Self::settle);
            });
        });
    }

    /// Takes the panic of a structure; on a runtime that ends it panics with a text.
    fn guarded(&self, f: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
            match payload_text(&*payload) {
                Some(text) => assert!(is_about_the_end(text), "{text}"),
                None => self.caught(payload),
            }
        }
    }
}

fn payload_text(payload: &(dyn std::any::Any + Send)) -> Option<&str> {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
}

/// Whether a panic says that a structure was begun on, or caught by, a runtime that is ending.
pub fn is_about_the_end(text: &str) -> bool {
    text == "the runtime has shut down" || text.starts_with("the scope was cancelled")
}

/// A future without children: some yields, then the end.
async fn leaf(ticket: Ticket, mut rng: Rng) -> usize {
    ticket.start();
    if rng.one_in(4) {
        for _ in 0..rng.below(4) {
            filch::yield_now().await;
        }
    }
    ticket.end(&mut rng)
}

/// Polls once.
struct Once<'a, F>(&'a mut F);

impl<F: Future + Unpin> Future for Once<'_, F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match Pin::new(&mut *self.0).poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => Poll::Ready(None),
        }
    }
}

/// Gives the panic of a future as a value.
struct Caught<F>(Pin<Box<F>>);

impl<F: Future> Future for Caught<F> {
    type Output = std::thread::Result<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let inner = self.0.as_mut();
        match catch_unwind(AssertUnwindSafe(|| inner.poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(payload) => Poll::Ready(Err(payload)),
        }
    }
}
