//! Knots: where a task that comes after others meets those that it waits for, and those that wait for it.
//!
//! ```text
//!   tie:      dependency.dependents <- link to the dependent, one more awaited
//!   end:      dependents <- ENDED, and each of them arrives
//!   arrive:   the last one fires the dependent
//! ```
//!
//! K1. A knot is fired once: by the last to arrive among its dependencies and who ties it (J1 of `join`).
//! K2. A link is told by who ends the dependency, or by who ties it and finds the dependency ended; never by both, never by neither.
//! K3. `who` is written by who ties the knot, before it arrives, and only read from then on: by who fires it, and by whoever was given
//!     the knot by who tied it.
//! K4. A dependency that failed is known to have failed by who fires (J2 of `join`).
//!
//! Not here: what firing does (`after`).

use std::ptr;
use std::sync::Arc;

use super::join::{Arrival, Join};
use crate::base::shim::{AtomicPtr, Ordering, UnsafeCell};
use crate::task::state::Fate;

pub(super) struct Knot<W> {
    join: Join,
    /// K3.
    who: UnsafeCell<Option<W>>,
    /// The newest link, or one of the marks.
    dependents: AtomicPtr<Link<W>>,
}

// SAFETY: K3 says when `who` is written; afterwards it is shared, and dropped by any thread.
unsafe impl<W: Send + Sync> Send for Knot<W> {}
// SAFETY: as above; links hold knots.
unsafe impl<W: Send + Sync> Sync for Knot<W> {}

/// A dependent that waits.
struct Link<W> {
    next: *mut Link<W>,
    dependent: Arc<Knot<W>>,
}

/// The mark of a knot whose task has ended.
fn mark<W>(fate: Fate) -> *mut Link<W> {
    ptr::without_provenance_mut(match fate {
        Fate::Done => 1,
        Fate::Failed => 2,
    })
}

fn fate_of<W>(head: *mut Link<W>) -> Option<Fate> {
    match head.addr() {
        1 => Some(Fate::Done),
        2 => Some(Fate::Failed),
        _ => None,
    }
}

impl<W> Knot<W> {
    /// A knot that is being tied: it waits for who ties it.
    pub(super) fn new() -> Self {
        Self {
            join: Join::new(1),
            who: UnsafeCell::new(None),
            dependents: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Has `who` fired once all that it is tied to has ended; by the caller if that is now. `Failed` if not all could be tied.
    ///
    /// # Safety
    /// The caller made the knot, has tied it to all that it waits for, has not let others ask who it is, and calls once.
    pub(super) unsafe fn finish_tying(&self, who: W, fate: Fate, fire: impl FnOnce(&W, Fate)) {
        // SAFETY: K3, the caller has not arrived.
        self.who.with_mut(|place| unsafe { *place = Some(who) });
        if let Some((who, fate)) = self.arrive(fate) {
            fire(who, fate);
        }
    }

    /// Whom the knot fires; `None` if that was refused. For whoever was given the knot by who tied it (K3).
    pub(super) fn who(&self) -> Option<&W> {
        // SAFETY: K3, nobody writes any more.
        self.who.with(|place| unsafe { (*place).as_ref() })
    }

    /// Has this knot wait for `dependency`. Only while the knot is tied.
    pub(super) fn tie(self: &Arc<Self>, dependency: &Self) {
        if dependency.fate() == Some(Fate::Done) {
            return;
        }
        self.join.expect();
        let link = Box::new(Link { next: ptr::null_mut(), dependent: self.clone() });
        if let Err(fate) = dependency.push(link) {
            let fired = self.arrive(fate);
            debug_assert!(fired.is_none(), "who ties the knot is awaited");
        }
    }

    /// Has `link` told at the end, unless that has come (K2).
    fn push(&self, link: Box<Link<W>>) -> Result<(), Fate> {
        let link = Box::into_raw(link);
        // ORDERING: Acquire pairs with the Release in `end`: the dependent sees what was done before it.
        let mut head = self.dependents.load(Ordering::Acquire);
        loop {
            if let Some(fate) = fate_of(head) {
                // SAFETY: the box taken apart above, which nobody has seen.
                drop(unsafe { Box::from_raw(link) });
                return Err(fate);
            }
            // SAFETY: not in the list yet, so ours alone.
            unsafe { (*link).next = head };
            // ORDERING: Release pairs with the Acquire in `end`: the link is seen whole. Acquire on failure, as above.
            let pushed =
                self.dependents.compare_exchange(head, link, Ordering::Release, Ordering::Acquire);
            match pushed {
                Ok(_) => return Ok(()),
                Err(now) => head = now,
            }
        }
    }

    fn arrive(&self, fate: Fate) -> Option<(&W, Fate)> {
        let arrival = match fate {
            Fate::Done => self.join.arrive(),
            Fate::Failed => self.join.arrive_skipped(),
        };
        let fate = match arrival {
            Arrival::Waits => return None,
            Arrival::Runs => Fate::Done,
            Arrival::Skips => Fate::Failed,
        };
        Some((self.who().expect("K3: written before the knot was tied"), fate))
    }

    /// The task of this knot has ended: calls `fire` with each dependent that was waiting for it alone.
    pub(super) fn end(&self, fate: Fate, mut fire: impl FnMut(&W, Fate)) {
        // ORDERING: Release pairs with the Acquire in `tie` and `fate`: they see what the task did. Acquire pairs
        // with the Release in `tie`: we see the links. Model: loom_tie_vs_end_fires_once.
        let mut link = self.dependents.swap(mark(fate), Ordering::AcqRel);
        debug_assert!(fate_of(link).is_none(), "a task ends once");
        while !link.is_null() {
            // SAFETY: `tie` made it from a box, and the swap gave the list to us.
            let Link { next, dependent } = *unsafe { Box::from_raw(link) };
            if let Some((who, fate)) = dependent.arrive(fate) {
                fire(who, fate);
            }
            link = next;
        }
    }

    /// What came of the task, if it has ended.
    pub(super) fn fate(&self) -> Option<Fate> {
        // ORDERING: Acquire pairs with the Release in `end`.
        fate_of(self.dependents.load(Ordering::Acquire))
    }
}

#[cfg(all(test, loom))]
mod model {
    use loom::cell::UnsafeCell;
    use loom::thread;

    use super::*;
    use crate::base::shim::AtomicU32;

    /// What a dependent sees when it is fired.
    struct World {
        work: [UnsafeCell<u32>; 2],
        done: AtomicU32,
        failed: AtomicU32,
    }

    // SAFETY: what the model checks.
    unsafe impl Sync for World {}
    // SAFETY: as above.
    unsafe impl Send for World {}

    type Who = Arc<World>;

    fn world() -> Who {
        Arc::new(World {
            work: [UnsafeCell::new(0), UnsafeCell::new(0)],
            done: AtomicU32::new(0),
            failed: AtomicU32::new(0),
        })
    }

    fn fire(who: &Who, fate: Fate) {
        if fate == Fate::Failed {
            // ORDERING: Relaxed, the joins of threads order it.
            who.failed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        for work in &who.work {
            // SAFETY: K1, both have ended.
            work.with(|work| assert_eq!(unsafe { *work }, 1));
        }
        // ORDERING: Relaxed, as above.
        who.done.fetch_add(1, Ordering::Relaxed);
    }

    fn tied() -> Arc<Knot<Who>> {
        Arc::new(Knot::new())
    }

    /// A dependency does its work and ends.
    fn run(knot: Arc<Knot<Who>>, world: Who, which: usize, fate: Fate) -> thread::JoinHandle<()> {
        thread::spawn(move || {
            // SAFETY: each dependency has its own.
            world.work[which].with_mut(|work| unsafe { *work = 1 });
            knot.end(fate, fire);
        })
    }

    fn depend_on(dependencies: &[&Arc<Knot<Who>>], world: &Who) {
        let knot = tied();
        dependencies.iter().for_each(|dependency| knot.tie(dependency));
        // SAFETY: made and tied here.
        unsafe { knot.finish_tying(world.clone(), Fate::Done, fire) };
    }

    #[test]
    fn loom_tie_vs_end_fires_once() {
        loom::model(|| {
            let (world, a, b) = (world(), tied(), tied());
            let threads = [
                run(a.clone(), world.clone(), 0, Fate::Done),
                run(b.clone(), world.clone(), 1, Fate::Done),
            ];
            depend_on(&[&a, &b], &world);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            // ORDERING: Relaxed, the joins order it.
            assert_eq!(world.done.load(Ordering::Relaxed), 1, "K1");
        });
    }

    #[test]
    fn loom_a_failed_dependency_is_never_missed() {
        loom::model(|| {
            let (world, a, b) = (world(), tied(), tied());
            let threads = [
                run(a.clone(), world.clone(), 0, Fate::Failed),
                run(b.clone(), world.clone(), 1, Fate::Done),
            ];
            depend_on(&[&a, &b], &world);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            // ORDERING: Relaxed, the joins order it.
            assert_eq!(world.failed.load(Ordering::Relaxed), 1, "K4");
            assert_eq!(world.done.load(Ordering::Relaxed), 0, "K4");
        });
    }

    /// Two threads tie dependents to one task while it ends.
    #[test]
    fn loom_dependents_of_two_threads_are_all_fired() {
        loom::model(|| {
            let (world, a) = (world(), tied());
            // SAFETY: nobody else yet.
            world.work[1].with_mut(|work| unsafe { *work = 1 });
            let end = run(a.clone(), world.clone(), 0, Fate::Done);
            let other = {
                let (world, a) = (world.clone(), a.clone());
                thread::spawn(move || depend_on(&[&a], &world))
            };
            depend_on(&[&a], &world);
            end.join().unwrap();
            other.join().unwrap();
            // ORDERING: Relaxed, the joins order it.
            assert_eq!(world.done.load(Ordering::Relaxed), 2, "K2");
            assert_eq!(a.fate(), Some(Fate::Done));
        });
    }
}
