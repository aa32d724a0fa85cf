//! Futures of every kind that began in a runtime are polled, dropped, forgotten and used to spawn on other threads and in another
//! runtime, while the runtime ends in one way or another.
//!
//! K1. The end comes.
//! K2. After it, no child is alive, whoever spawned it, and nothing can be spawned. An end that was given a deadline
//!     may leave them to the background, which ends too.
//! K3. A poll is pending, ready, or panics with one of the known messages.
//! K4. A body that was not forgotten is dropped once.
//!
//! What is forgotten lies in a static list, so that a leak of ours shows beside it.

use std::cell::UnsafeCell;
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use filch::net::UnixStream;
use filch::sync::{Semaphore, mpmc};
use filch::{Builder, Group, Handle, Pumped, Runtime, Shutdown, ShutdownReport};

use crate::storm::{Rng, TellSeed, seed};
use crate::{quieten, stress_time};

type Kept = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whoever takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a poll may panic with (K3).
const KNOWN: [&str; 6] = [
    "the runtime has ended",
    "the group has ended",
    "is shutting down",
    "was cancelled",
    "resumed after",
    "shut down",
];

/// Counts lives: bodies of groups, or of children.
#[derive(Clone, Default)]
struct Census(Arc<(AtomicUsize, AtomicUsize)>);

struct Life(Census);

impl Census {
    fn birth(&self) -> Life {
        self.0.0.fetch_add(1, SeqCst);
        Life(self.clone())
    }

    fn born(&self) -> usize {
        self.0.0.load(SeqCst)
    }

    fn died(&self) -> usize {
        self.0.1.load(SeqCst)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.0.0.1.fetch_add(1, SeqCst);
    }
}

/// The group handles that are outside.
type Handles = mpmc::Sender<Group<()>>;

fn child(group: &Group<()>, life: Life, kind: u64) {
    match kind {
        0 => drop(group.spawn(async move {
            let _life = life;
            filch::yield_now().await;
            Ok(())
        })),
        1 => drop(group.spawn_fn(move || {
            drop(life);
            Ok(())
        })),
        // Cancelled, because a drain would wait for it.
        _ => {
            let handle = group.spawn(async move {
                let _life = life;
                pending::<Result<(), ()>>().await
            });
            handle.cancel();
        }
    }
}

/// A group that lets its handle out and spawns with each of its polls, some groups deep.
fn busy_group(depth: u64, mut rng: Rng, lives: [Census; 2], handles: Handles) -> Kept {
    Box::pin(async move {
        let _ = filch::group(async |g: Group<()>| {
            let _life = lives[0].birth();
            let _ = handles.try_send(g.clone());
            if depth > 0 {
                let rng = Rng::new(rng.next());
                busy_group(depth - 1, rng, lives.clone(), handles.clone()).await;
            }
            loop {
                child(&g, lives[1].birth(), rng.below(3));
                let life = lives[1].birth();
                drop(filch::spawn_fn(move || drop(life)));
                let mut polled = false;
                poll_fn(|_| match std::mem::replace(&mut polled, true) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                })
                .await;
            }
        })
        .await as Result<(), ()>;
    })
}

/// Most kept futures with sockets at a time: those that are forgotten keep their descriptors.
const MOST_SOCKETS: usize = 100;

/// How many there are.
static SOCKETS: AtomicUsize = AtomicUsize::new(0);

/// A unit of [`SOCKETS`].
struct Plugged;

impl Plugged {
    fn new() -> Option<Self> {
        let plugged = Self;
        (SOCKETS.fetch_add(1, SeqCst) < MOST_SOCKETS).then_some(plugged)
    }
}

impl Drop for Plugged {
    fn drop(&mut self) {
        SOCKETS.fetch_sub(1, SeqCst);
    }
}

/// Waits for its peer, which says nothing; or for room, which the peer does not make.
async fn socket(writes: bool) {
    let Some(_plugged) = Plugged::new() else { return pending().await };
    let (here, _there) = UnixStream::pair().unwrap();
    if writes {
        while here.write_all(vec![7; 1 << 20]).await.0.is_ok() {}
    } else {
        let (result, _) = here.read_exact(vec![0; 8]).await;
        assert!(result.is_err(), "nobody has written");
    }
}

fn future(rng: &mut Rng, lives: &[Census; 2], handles: &Handles) -> Kept {
    let hour = Duration::from_secs(3600);
    match rng.below(12) {
        0 => Box::pin(filch::time::sleep(hour)),
        1 => Box::pin(async move {
            let _ = filch::time::timeout(hour, pending::<()>()).await;
        }),
        2 => {
            let semaphore = Arc::new(Semaphore::new(0));
            Box::pin(async move { drop(semaphore.acquire().await) })
        }
        3 => {
            let life = lives[1].birth();
            Box::pin(filch::cpu(move || drop(life)))
        }
        4 => {
            let life = lives[1].birth();
            Box::pin(async move { filch::spawn(async move { drop(life) }).await })
        }
        5 => {
            let (sender, receiver) = mpmc::bounded::<()>(1);
            Box::pin(async move {
                let _ = receiver.recv().await;
                drop(sender);
            })
        }
        6 => Box::pin(socket(false)),
        7 => Box::pin(socket(true)),
        _ => busy_group(rng.below(3), Rng::new(rng.next()), lives.clone(), handles.clone()),
    }
}

/// Polls once; false if the future is over.
fn poll(future: &mut Kept, cx: &mut Context<'_>) -> bool {
    match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Pending) => true,
        Ok(Poll::Ready(())) => false,
        Err(payload) => {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or_default();
            assert!(KNOWN.iter().any(|known| text.contains(known)), "K3: {text:?}");
            false
        }
    }
}

/// What was forgotten, behind a lock that ThreadSanitizer sees.
static FORGOTTEN: Forgotten =
    Forgotten { locked: AtomicBool::new(false), list: UnsafeCell::new(Vec::new()) };

struct Forgotten {
    locked: AtomicBool,
    list: UnsafeCell<Vec<Kept>>,
}

// SAFETY: `list` is used by whoever holds `locked`.
unsafe impl Sync for Forgotten {}

impl Forgotten {
    fn with<R>(&self, f: impl FnOnce(&mut Vec<Kept>) -> R) -> R {
        while self.locked.swap(true, SeqCst) {
            std::thread::yield_now();
        }
        // SAFETY: the lock is ours.
        let result = f(unsafe { &mut *self.list.get() });
        self.locked.store(false, SeqCst);
        result
    }
}

/// Does something to a future; gives it back if it is still there.
fn act(mut kept: Kept, rng: &mut Rng, other: &Runtime, forgotten: &AtomicBool) -> Option<Kept> {
    let goes_on = match rng.below(10) {
        0 => return None,
        1 => {
            forgotten.store(true, SeqCst);
            FORGOTTEN.with(|list| list.push(kept));
            return None;
        }
        2..5 => {
            let back = other.spawn(async move {
                let goes_on = poll_fn(|cx| Poll::Ready(poll(&mut kept, cx))).await;
                (kept, goes_on)
            });
            let (back, goes_on) = back.wait();
            kept = back;
            goes_on
        }
        5 => other.block_on(poll_fn(|cx| Poll::Ready(poll(&mut kept, cx)))),
        // Not without a runtime: it would wake the default one, which others use.
        _ => other.block_on_fn(|| poll(&mut kept, &mut Context::from_waker(Waker::noop()))),
    };
    goes_on.then_some(kept)
}

/// A runtime with workers of its own, or one whose caller is a thread here.
enum Home {
    Plain(Runtime),
    Hive(Handle, JoinHandle<ShutdownReport>),
}

impl Home {
    fn new(rng: &mut Rng) -> Self {
        if !rng.one_in(3) {
            return Self::Plain(builder(rng).build().unwrap());
        }
        let io_workers = 1 + rng.below(2) as usize;
        let hive = Builder::new().io_workers(io_workers).compute_workers(1).hive().unwrap();
        let (handle, pumps) = (hive.handle(), rng.one_in(2));
        let caller = std::thread::spawn(move || {
            if !pumps {
                return hive.run().unwrap();
            }
            let mut pump = hive.pump(|| ()).unwrap();
            while pump.run(Duration::from_millis(1)) != Pumped::Stopped {
                std::thread::yield_now();
            }
            pump.finish(Shutdown::Drain)
        });
        Self::Hive(handle, caller)
    }

    fn spawn<F>(&self, future: F) -> filch::JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        match self {
            Self::Plain(runtime) => runtime.spawn(future),
            Self::Hive(handle, _) => handle.spawn(future),
        }
    }

    /// Ends it; false if that was given a deadline, and may have left the last of it to the background.
    fn end(self, rng: &mut Rng) -> bool {
        let time = Duration::from_micros(rng.below(8000));
        let how = match rng.below(6) {
            0 => Some(Shutdown::Drain),
            1 => Some(Shutdown::DrainFor(time)),
            2 => Some(Shutdown::Abort),
            3 => Some(Shutdown::AbortFor(time)),
            4 => Some(Shutdown::AbortFor(PATIENCE)),
            _ => None,
        };
        let is_whole = !matches!(how, Some(Shutdown::AbortFor(_)));
        match (self, how) {
            (Self::Plain(runtime), Some(how)) => drop(runtime.shutdown(how)),
            (Self::Plain(runtime), None) => drop(runtime),
            (Self::Hive(handle, caller), how) => {
                handle.request_shutdown(how.unwrap_or(Shutdown::Abort));
                drop(caller.join().unwrap());
            }
        }
        is_whole
    }
}

fn builder(rng: &mut Rng) -> Builder {
    match rng.below(4) {
        0 => Builder::new().single_thread(true),
        workers => Builder::new().workers(workers as usize),
    }
}

/// One runtime from its begin to its end, and the futures that it leaves.
fn round(rng: &mut Rng, other: &Arc<Runtime>) {
    let lives = [Census::default(), Census::default()];
    let (handles, outside) = mpmc::unbounded();
    let runtime = Home::new(rng);
    let count = rng.below(16);
    let mut begun = Vec::new();
    for _ in 0..count {
        let mut future = future(rng, &lives, &handles);
        let begin = async move {
            let goes_on = poll_fn(|cx| Poll::Ready(poll(&mut future, cx))).await;
            goes_on.then_some(future)
        };
        begun.extend(runtime.spawn(begin).wait());
    }
    let forgotten = Arc::new(AtomicBool::new(false));
    let actors: Vec<_> = (0..3)
        .map(|_| {
            let mine = begun.split_off(begun.len() - begun.len() / 3);
            let mut rng = Rng::new(rng.next());
            let (other, forgotten) = (other.clone(), forgotten.clone());
            let (outside, lives) = (outside.clone(), lives.clone());
            std::thread::spawn(move || {
                let mut mine = mine;
                for _ in 0..8 {
                    let now = std::mem::take(&mut mine);
                    mine.extend(
                        now.into_iter().filter_map(|k| act(k, &mut rng, &other, &forgotten)),
                    );
                    if let Ok(group) = outside.try_recv() {
                        child(&group, lives[1].birth(), rng.below(3));
                        if rng.one_in(4) {
                            group.cancel();
                        }
                    }
                }
                mine
            })
        })
        .collect();
    (0..rng.below(200)).for_each(|_| std::thread::yield_now());
    let is_whole = runtime.end(rng);
    begun.extend(actors.into_iter().flat_map(|actor| actor.join().unwrap()));
    while !is_whole && lives[1].born() != lives[1].died() {
        std::thread::yield_now();
    }
    assert_eq!(lives[1].born(), lives[1].died(), "K2");
    for kept in begun {
        let mut left = Some(kept);
        while let Some(kept) = left.take() {
            left = act(kept, rng, other, &forgotten).filter(|_| !rng.one_in(3));
        }
    }
    while let Ok(group) = outside.try_recv() {
        let refused = group.spawn(async { Ok(()) }).wait_outcome();
        assert!(refused.unwrap_err().is_cancelled(), "K2");
    }
    drop(handles);
    if !forgotten.load(SeqCst) {
        // What was moved into `other` may be dropped there a little later.
        other.block_on(async {});
        assert_eq!(lives[0].born(), lives[0].died(), "K4");
    }
}

/// How many rounds there were; the last number says that there will be no more.
static ROUNDS: AtomicUsize = AtomicUsize::new(0);

/// Ends the process if the next round does not come in time (K1).
fn watch(seed: u64) {
    let (mut last, mut since) = (0, Instant::now());
    while last != usize::MAX {
        std::thread::park_timeout(Duration::from_millis(50));
        let now = ROUNDS.load(SeqCst);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            eprintln!("K1: round {now} hangs; reproduce with FILCH_SEED_STRESS={seed}");
            std::process::abort();
        }
    }
}

#[test]
fn kept_futures_beside_the_end_hold_nothing_up_and_touch_nothing_freed() {
    let seed = seed();
    let _tell = TellSeed(seed);
    let mut rng = Rng::new(seed);
    let dog = std::thread::spawn(move || watch(seed));
    quieten(&KNOWN);
    let deadline = Instant::now() + stress_time(1);
    let mut other = Arc::new(builder(&mut rng).build().unwrap());
    while Instant::now() < deadline {
        round(&mut rng, &other);
        ROUNDS.fetch_add(1, SeqCst);
        if rng.one_in(50) {
            // Also where what was forgotten was polled last.
            other = Arc::new(builder(&mut rng).build().unwrap());
        }
    }
    println!("{} rounds", ROUNDS.swap(usize::MAX, SeqCst));
    dog.thread().unpark();
    dog.join().unwrap();
    drop(other);
    // Long after the end.
    drop(FORGOTTEN.with(std::mem::take));
}
