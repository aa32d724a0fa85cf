//! No operation that is ready at once keeps a loop around it from ending.
//!
//! Each case repeats one public operation that need not wait. The deadline around such a loop can only come
//! if the operation counts against the budget: else the first poll never returns. `cargo xtask check`
//! asks for a case, or an exemption, of every public asynchronous operation.

mod bytes;
mod files;
mod locks;
mod macros;
mod net;
mod tasks;

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io::Write;
use std::pin::{Pin, pin};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use filch::sync::Semaphore;
use filch::time::timeout;
use filch::{IoBackend, Runtime};

use crate::watchdog::watched;

/// A loop over operations, by name.
pub struct Case {
    names: &'static [&'static str],
    run: fn(Rounds) -> Loop,
}

impl Case {
    /// Tells cases of one operation apart.
    fn key(&'static self) -> (&'static str, usize) {
        (self.names[0], std::ptr::from_ref(self).addr())
    }
}

type Loop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How often a case repeats its operation.
#[derive(Clone, Copy)]
pub enum Rounds {
    Forever,
    Left(u32),
}

impl Rounds {
    fn next(&mut self) -> bool {
        match self {
            Self::Forever => true,
            Self::Left(left) => std::mem::replace(left, left.saturating_sub(1)) > 0,
        }
    }
}

/// What an operation brings, which is not what is tested.
pub fn ignore<T>(_: T) {}

/// `"names": let state = setup => operation;` is a case. The operation is repeated.
macro_rules! cases {
    ($list:ident; $($($name:literal),+: let $state:pat = $setup:expr => $operation:expr;)+) => {
        pub const $list: &[$crate::ready::Case] = &[$($crate::ready::Case {
            names: &[$($name),+],
            run: |mut rounds| Box::pin(async move {
                #[allow(unused_mut, reason = "some operations of a family need it")]
                let $state = $setup;
                while rounds.next() {
                    $crate::ready::ignore($operation);
                }
            }),
        }),+];
    };
}
use cases;

/// `"names": "reason";`: operations that have no case. `cargo xtask check` reads the names.
macro_rules! exempt {
    ($($($name:literal),+: $reason:literal;)+) => {};
}

exempt! {
    "spawn", "spawn_fn", "spawn_blocking", "spawn_local", "spawn_after",
    "TaskBuilder::spawn", "TaskBuilder::spawn_fn", "TaskBuilder::spawn_blocking",
    "TaskBuilder::spawn_local", "TaskBuilder::spawn_after",
    "TaskBuilder::try_spawn", "TaskBuilder::try_spawn_fn",
    "Handle::spawn", "Handle::spawn_fn", "Handle::spawn_blocking", "Handle::spawn_to",
    "Handle::post_delayed", "worker::post_self_delayed",
    "Group::spawn", "Group::spawn_fn", "JoinHandle::outcome", "graph::Dependent::outcome", "cpu":
        "the task is a new one, so a loop lets go in each round; ready handles are in `sched/tests/fair.rs`";
    "Pipeline::run_async", "pipeline::Collect::run_async":
        "each run has jobs of its own, and the group that it waits in counts";
    "sync::Condvar::wait": "it waits for others, or for a notification that comes later";
    "task_local!": "it declares a key; `sync::LocalKey::scope` has a case";
}

/// How long a loop goes on. The deadline is what is tested, not how fast anything is.
const WHILE: Duration = Duration::from_millis(50);

fn all() -> impl Iterator<Item = &'static Case> {
    let few = [locks::CASES, tasks::CASES, macros::CASES, bytes::CASES, files::CASES];
    few.into_iter().chain(net::CASES).flatten()
}

const BACKENDS: [IoBackend; 2] = [IoBackend::Uring, IoBackend::Epoll];

/// Loops that have not ended, and whether each is being loops. If they never end, they are named before the
/// process ends.
#[derive(Clone)]
struct Loops(Arc<Mutex<BTreeMap<(&'static str, usize), Now>>>);

#[derive(Debug, Clone, Copy)]
enum Now {
    Waits,
    /// One whose poll does not return holds up its worker, and so others too.
    IsPolled,
}

impl Loops {
    /// Calls `body`, and ends the process if it does not return.
    fn watch(body: impl FnOnce(&Self)) {
        let loops = Self(Arc::default());
        let (ended, end) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let watched = &loops;
            scope.spawn(move || {
                if end.recv_timeout(Duration::from_secs(40)) == Err(RecvTimeoutError::Timeout) {
                    let names = watched.0.lock().unwrap();
                    let _ = writeln!(std::io::stderr(), "\nthese loops do not end: {names:?}");
                    std::process::abort();
                }
            });
            // Dropped with the frame, also by a panic.
            let _ended = ended;
            body(&loops);
        });
    }

    /// The loop of a case.
    async fn run(&self, case: &'static Case, rounds: Rounds) {
        let name = case.key();
        let mut looping = (case.run)(rounds);
        poll_fn(|cx| {
            self.0.lock().unwrap().insert(name, Now::IsPolled);
            let result = looping.as_mut().poll(cx);
            self.0.lock().unwrap().insert(name, Now::Waits);
            result
        })
        .await;
        self.0.lock().unwrap().remove(&name);
    }

    /// The loop of a case, which must be ended by the deadline.
    async fn ends(self, case: &'static Case) {
        let ended = timeout(WHILE, self.run(case, Rounds::Forever)).await;
        assert!(ended.is_err(), "the loop over {:?} has no end of its own", case.names);
        self.0.lock().unwrap().remove(&case.key());
    }
}

#[test]
fn every_loop_in_a_spawned_task_is_ended_by_its_deadline() {
    watched(|dog| {
        for backend in BACKENDS {
            let rig = dog.rig_of(Runtime::builder().workers(2).io_backend(backend));
            Loops::watch(|loops| {
                let tasks = all().map(|case| rig.spawn(loops.clone().ends(case)));
                filch::wait_all(tasks.collect::<Vec<_>>());
            });
        }
    });
}

#[test]
fn every_loop_in_block_on_is_ended_by_its_deadline() {
    /// Loops at a time.
    const THREADS: usize = 8;
    watched(|dog| {
        for backend in BACKENDS {
            let rig = dog.rig_of(Runtime::builder().workers(2).io_backend(backend));
            Loops::watch(|loops| {
                std::thread::scope(|scope| {
                    for first in 0..THREADS {
                        let rig = &rig;
                        scope.spawn(move || {
                            for case in all().skip(first).step_by(THREADS) {
                                rig.block_on(loops.clone().ends(case));
                            }
                        });
                    }
                });
            });
        }
    });
}

#[filch::main(workers = 2)]
async fn main_loops_for_a_while() {
    let lock = filch::sync::Mutex::new(0);
    let ended = timeout(WHILE, async {
        loop {
            *lock.lock().await += 1;
        }
    });
    let ended: Result<(), _> = ended.await;
    assert!(ended.is_err());
    let ended: Result<(), _> = timeout(WHILE, async {
        loop {
            filch::io::copy(&b"bytes"[..], filch::io::sink()).await.unwrap();
        }
    })
    .await;
    assert!(ended.is_err());
}

#[test]
fn a_loop_in_main_is_ended_by_its_deadline() {
    watched(|_| main_loops_for_a_while());
}

#[test]
fn a_loop_in_block_on_on_the_only_worker_is_ended_by_its_deadline() {
    watched(|dog| {
        let rig = dog.rig_of(Runtime::builder().single_thread(true));
        let task = rig.spawn(async {
            filch::block_on(async {
                let lock = filch::sync::Mutex::new(0);
                let forever = async {
                    loop {
                        *lock.lock().await += 1;
                    }
                };
                let ended: Result<(), _> = timeout(WHILE, forever).await;
                ended
            })
        });
        assert!(task.wait().is_err());
    });
}

#[test]
fn every_operation_ends_with_a_budget_of_one() {
    watched(|dog| {
        for backend in BACKENDS {
            let rig = dog.rig_of(Runtime::builder().workers(2).poll_budget(1).io_backend(backend));
            Loops::watch(|loops| {
                let few = |case: &'static Case| {
                    let loops = loops.clone();
                    rig.spawn(async move { loops.run(case, Rounds::Left(3)).await })
                };
                filch::wait_all(all().map(few).collect::<Vec<_>>());
            });
        }
    });
}

#[test]
fn executor_inside_a_poll_goes_on_when_the_budget_is_spent() {
    watched(|dog| {
        let rig = dog.rig(1);
        let many = || {
            let permits = Semaphore::new(1);
            for _ in 0..10_000 {
                drop(futures_lite::future::block_on(permits.acquire()).unwrap());
            }
        };
        rig.spawn(async move { many() }).wait();
        rig.block_on(async move { many() });
    });
}

#[test]
fn others_run_while_block_on_on_the_only_worker_finds_everything_ready() {
    watched(|dog| {
        let rig = dog.rig(1);
        let task = rig.spawn(async {
            let other = filch::spawn(async {});
            filch::block_on(async move {
                let permits = Semaphore::new(1);
                while !other.is_finished() {
                    drop(permits.acquire().await);
                }
                let mut other = pin!(other);
                other.as_mut().await;
            });
        });
        task.wait();
    });
}
