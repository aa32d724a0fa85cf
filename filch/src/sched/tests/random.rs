//! Random programs on random runtimes: every body ends exactly once, groups end exactly with their
//! members, and an abort at any moment leaves nothing.
//!
//! Everything is a function of one seed, which a failure prints.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::Gate;
use crate::base::rng::Rng;
use crate::base::shim::Mutex;
use crate::config::Config;
use crate::group::group;
use crate::sched::rig::{Rig, config};
use crate::sched::sentry::Beats;
use crate::sched::shared::lock;
use crate::spawn::{spawn, spawn_fn, spawn_local, task, yield_now};
use crate::task::state::Priority;

/// Programs per test.
const SEEDS: u64 = 3000;

/// What became of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fate {
    started: u32,
    ended: u32,
    dropped: u32,
}

/// The fates of all bodies of a program.
#[derive(Clone, Default)]
struct Books(Arc<Mutex<Vec<Fate>>>);

impl Books {
    fn birth(&self) -> Body {
        let mut fates = lock(&self.0);
        fates.push(Fate::default());
        Body { id: fates.len() - 1, books: self.clone() }
    }

    fn of(&self, id: usize) -> Fate {
        lock(&self.0)[id]
    }

    fn all(&self) -> Vec<Fate> {
        lock(&self.0).clone()
    }
}

/// Lives in a task's body, from birth to the drop of the body.
struct Body {
    id: usize,
    books: Books,
}

impl Body {
    fn note(&self, change: impl FnOnce(&mut Fate)) {
        change(&mut lock(&self.books.0)[self.id]);
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.note(|fate| fate.dropped += 1);
    }
}

/// Where in the program a task is.
struct Place {
    rng: Rng,
    depth: usize,
    books: Books,
    /// The members of each group around it, as far as they were not detached.
    rosters: Vec<Arc<Mutex<Vec<usize>>>>,
}

impl Place {
    fn below(&mut self, n: usize) -> usize {
        self.rng.below(n)
    }

    /// A place one deeper, with a body that is a member of the groups here.
    fn child(&mut self) -> (Body, Place) {
        let body = self.books.birth();
        self.rosters.iter().for_each(|roster| lock(roster).push(body.id));
        (body, self.inside(self.rosters.clone()))
    }

    fn inside(&mut self, rosters: Vec<Arc<Mutex<Vec<usize>>>>) -> Place {
        let rng = Rng::new(self.rng.next_u64());
        Place { rng, depth: self.depth + 1, books: self.books.clone(), rosters }
    }

    fn leave_rosters(&self, id: usize) {
        self.rosters.iter().for_each(|roster| lock(roster).retain(|&member| member != id));
    }
}

type Program = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future that does a few random things.
fn future((body, place): (Body, Place)) -> Program {
    Box::pin(async move {
        body.note(|fate| fate.started += 1);
        let mut place = place;
        for _ in 0..place.below(4) {
            act(&mut place).await;
        }
        body.note(|fate| fate.ended += 1);
    })
}

async fn act(place: &mut Place) {
    let deep = place.depth >= 4;
    match place.below(if deep { 3 } else { 10 }) {
        0 => yield_now().await,
        1 => wake_myself().await,
        2 => stall(place.below(6)),
        3 => await_children(place).await,
        4 => cancel_child(place).await,
        5 => run_group(place).await,
        6 => {
            let child = place.child();
            drop(spawn_local(future(child)));
        }
        7 => {
            let child = place.child();
            drop(spawn_fn(move || job(child)));
        }
        8 => {
            let (child, id) = with_id(place.child());
            place.leave_rosters(id);
            spawn(future(child)).detach();
        }
        _ => meet_at_a_gate(place).await,
    }
}

fn with_id(child: (Body, Place)) -> ((Body, Place), usize) {
    let id = child.0.id;
    (child, id)
}

fn job((body, mut place): (Body, Place)) {
    body.note(|fate| fate.started += 1);
    if place.depth < 4 {
        for _ in 0..place.below(3) {
            let child = place.child();
            match place.below(3) {
                0 => drop(spawn(future(child))),
                1 => drop(spawn_fn(move || job(child))),
                _ => drop(task().priority(Priority::Low).spawn_fn(move || job(child))),
            }
        }
    }
    stall(place.below(3));
    body.note(|fate| fate.ended += 1);
}

async fn wake_myself() {
    let mut woken = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut woken, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// Keeps the worker inside a poll while others move, and the sentry looks.
fn stall(moves: usize) {
    let rig = Rig::here();
    let mut beats = Beats::default();
    for _ in 0..moves {
        rig.shared.round(&rig.shared.lanes[0], &mut beats);
        rig.move_any();
    }
}

/// Children of all priorities; each outcome says what the books say.
async fn await_children(place: &mut Place) {
    let priorities = [Priority::High, Priority::Normal, Priority::Normal, Priority::Low];
    let mut handles = Vec::new();
    for _ in 0..1 + place.below(5) {
        let priority = priorities[place.below(4)];
        let (child, id) = with_id(place.child());
        handles.push((id, task().priority(priority).spawn(future(child))));
    }
    for (id, handle) in handles {
        let outcome = handle.outcome().await;
        check_outcome(&place.books, id, outcome.is_ok());
    }
}

async fn cancel_child(place: &mut Place) {
    let (child, id) = with_id(place.child());
    let handle = spawn(future(child));
    if place.below(2) == 0 {
        yield_now().await;
    }
    handle.cancel();
    let outcome = handle.outcome().await;
    check_outcome(&place.books, id, outcome.is_ok());
}

fn check_outcome(books: &Books, id: usize, ok: bool) {
    let fate = books.of(id);
    assert_eq!((fate.ended, fate.dropped), (u32::from(ok), 1), "body {id}");
}

/// A group of its own; when it has ended, so has everybody inside.
async fn run_group(place: &mut Place) {
    let roster: Arc<Mutex<Vec<usize>>> = Arc::default();
    let mut rosters = place.rosters.clone();
    rosters.push(roster.clone());
    let mut inner = place.inside(rosters);
    let fails = inner.below(3) == 0;
    let result = group(async move |g| {
        for n in 0..inner.below(5) {
            let child = inner.child();
            drop(g.spawn(async move {
                future(child).await;
                if fails && n == 1 { Err(()) } else { Ok(()) }
            }));
        }
        Ok(())
    })
    .await;
    assert!(result.is_ok() || fails);
    for id in lock(&roster).iter() {
        assert_eq!(place.books.of(*id).dropped, 1, "body {id} outlives its group");
    }
}

/// Some wait, one opens.
async fn meet_at_a_gate(place: &mut Place) {
    let gate = Arc::new(Gate::default());
    for _ in 0..place.below(3) {
        let (child, gate) = (place.child(), gate.clone());
        drop(spawn(async move {
            gate.pass().await;
            future(child).await;
        }));
    }
    let opener = gate.clone();
    match place.below(3) {
        0 => drop(spawn_fn(move || opener.open())),
        1 => drop(spawn(async move { opener.open() })),
        _ => opener.open(),
    }
    gate.pass().await;
}

/// A runtime that is likely to run into its limits.
fn random_config(rng: &mut Rng) -> Config {
    let base = config(1 + rng.below(4), 1 + rng.below(2));
    Config {
        ring_capacity: 2 << rng.below(4),
        global_interval: 1 + rng.below(8),
        global_batch: 1 + rng.below(8),
        io_interval: 1 + rng.below(16),
        local_budget: 1 + rng.below(16),
        private_budget: 1 + rng.below(4),
        explore_tries: [None, Some(1), Some(3)][rng.below(3)],
        searcher_limit: [None, Some(1)][rng.below(2)],
        slot_streak: 1 + rng.below(3),
        injector_shards: 1 << rng.below(3),
        poll_budget: 1 + rng.below(8),
        single_thread: rng.below(8) == 0,
        seed: Some(rng.next_u64()),
        ..base
    }
}

/// A random runtime with a few random tasks, spawned from outside.
fn start(seed: u64) -> (std::rc::Rc<Rig>, Books, Rng) {
    let mut rng = Rng::new(seed);
    let rig = Rig::seeded(random_config(&mut rng), seed);
    let books = Books::default();
    let place_rng = Rng::new(rng.next_u64());
    let mut place = Place { rng: place_rng, depth: 0, books: books.clone(), rosters: Vec::new() };
    for _ in 0..1 + rng.below(4) {
        let child = place.child();
        match rng.below(3) {
            0 => drop(rig.task().spawn_fn(move || job(child))),
            _ => drop(rig.task().spawn(future(child))),
        }
    }
    (rig, books, rng)
}

/// A few moves, now and then with a park that ends early.
fn wander(rig: &Rig, rng: &mut Rng, moves: usize) {
    for _ in 0..moves {
        rig.move_any();
        let slot = rng.below(rig.shared.slots.len());
        if rng.below(8) == 0 && rig.is_asleep(slot) {
            rig.startle(slot);
        }
    }
}

#[test]
fn every_body_runs_to_its_end_or_is_cancelled_exactly_once() {
    let mut bodies = 0;
    for seed in 0..SEEDS {
        let (rig, books, mut rng) = start(seed);
        wander(&rig, &mut rng, 50);
        rig.drive();
        for (id, fate) in books.all().into_iter().enumerate() {
            assert_eq!(fate.dropped, 1, "seed {seed}: body {id} is left: {fate:?}");
            assert!(fate.ended <= fate.started && fate.started <= 1, "seed {seed}: {id}: {fate:?}");
            bodies += 1;
        }
        assert!(rig.shared.tasks().is_empty(), "seed {seed}");
        rig.leave_root();
        assert!(rig.is_root_finished(), "seed {seed}: a unit is left");
    }
    assert!(bodies > 10 * SEEDS, "the programs are too small to mean anything: {bodies}");
}

#[test]
fn an_abort_at_any_moment_leaves_nothing() {
    for seed in 0..SEEDS {
        let (rig, books, mut rng) = start(seed);
        let moves = rng.below(120);
        wander(&rig, &mut rng, moves);
        rig.abort();
        for (id, fate) in books.all().into_iter().enumerate() {
            assert_eq!(fate.dropped, 1, "seed {seed}: body {id} is left: {fate:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..50 {
        let run = || {
            let (rig, books, mut rng) = start(seed);
            wander(&rig, &mut rng, 50);
            rig.drive();
            let workers = rig.shared.slots.iter().map(|slot| slot.counters.read().polls);
            (books.all(), workers.collect::<Vec<_>>())
        };
        assert_eq!(run(), run(), "seed {seed}");
    }
}
