//! Fork-join programs under many seeds of the simulator: locks held across every kind of
//! wait, and a mixture of all that forks.
//!
//! `FILCH_SIM_SEEDS` sets how many, `.ci/run long` takes ten thousand; a failing run names the seed that replays it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use filch::par::prelude::*;
use filch::testkit::{Mutex, RwLock, Sim, random, spawn_thread, switch_point};
use filch::{Scope, join, scope};

/// Runs the program under every seed, on two workers of each kind: from outside, or on one of them.
fn under_all_seeds(program: fn()) {
    let seeds = match std::env::var("FILCH_SIM_SEEDS") {
        Ok(text) => text.parse().expect("FILCH_SIM_SEEDS is a number"),
        Err(_) => 1_000,
    };
    Sim::new().workers(2).check(0..seeds, move || match random() % 3 {
        0 => program(),
        1 => filch::block_on(async move { filch::spawn(async move { program() }).await }),
        _ => filch::block_on(async move { filch::spawn_fn(program).await }),
    });
}

/// Jobs that run at the same time, each under a lock that the others want.
fn crowd(jobs: usize, job: impl Fn(usize) + Sync) {
    scope(|s| {
        for n in 0..jobs {
            let job = &job;
            s.spawn(move |_| job(n));
        }
    });
}

/// A little work, forked.
fn forked(depth: u32) -> u32 {
    match depth {
        0 => {
            switch_point();
            1
        }
        _ => {
            let (a, b) = join(|| forked(depth - 1), || forked(depth - 1));
            a + b
        }
    }
}

/// The program of rayon#592.
#[test]
fn lock_held_across_join() {
    under_all_seeds(|| {
        let lock = Mutex::new(0);
        crowd(3, |_| {
            let mut held = lock.lock().unwrap();
            *held += forked(2);
        });
        assert_eq!(lock.into_inner().unwrap(), 3 * 4);
    });
}

#[test]
fn locks_held_across_nested_joins() {
    under_all_seeds(|| {
        let locks = [Mutex::new(0), Mutex::new(0)];
        crowd(3, |_| {
            let mut outer = locks[0].lock().unwrap();
            let inner = || {
                let mut inner = locks[1].lock().unwrap();
                *inner += forked(1);
                1
            };
            let (a, b) = join(inner, || forked(1));
            *outer += a + b;
        });
        let [outer, inner] = locks.map(|lock| lock.into_inner().unwrap());
        assert_eq!((outer, inner), (9, 6));
    });
}

/// The program of rayon#1205.
#[test]
fn read_lock_held_across_join_while_another_writes() {
    under_all_seeds(|| {
        let lock = RwLock::new(0);
        crowd(3, |n| {
            if n == 1 {
                *lock.write().unwrap() += 1;
            } else {
                let held = lock.read().unwrap();
                assert_eq!(forked(2), 4);
                drop(held);
            }
        });
        assert_eq!(lock.into_inner().unwrap(), 1);
    });
}

/// A job of the outer scope wants the lock under which the inner scope is waited for.
#[test]
fn lock_held_across_an_inner_scope() {
    under_all_seeds(|| {
        let (lock, order) = (Mutex::new(()), Mutex::new(Vec::new()));
        scope(|outer| {
            let guard = lock.lock().unwrap();
            let (lock, order) = (&lock, &order);
            let wants = move |_: &Scope<'_>| {
                let _guard = lock.lock().unwrap();
                order.lock().unwrap().push("outer");
            };
            scope(|inner| {
                outer.spawn(wants);
                inner.spawn(|_| order.lock().unwrap().push("inner"));
                outer.spawn(wants);
            });
            order.lock().unwrap().push("waited");
            drop(guard);
        });
        assert_eq!(order.into_inner().unwrap(), ["inner", "waited", "outer", "outer"]);
    });
}

/// The stolen half leaves a job in its thief's deque that wants the lock of who waits for it.
#[test]
fn lock_held_across_a_join_whose_half_spawns_who_wants_it() {
    under_all_seeds(|| {
        let lock = Mutex::new(0);
        scope(|outer| {
            let mut held = lock.lock().unwrap();
            let lock = &lock;
            let spawns = move || {
                outer.spawn(move |_| *lock.lock().unwrap() += 1);
                forked(2)
            };
            let (a, b) = join(|| forked(1), spawns);
            *held += a + b;
            drop(held);
        });
        assert_eq!(lock.into_inner().unwrap(), 7);
    });
}

#[test]
fn lock_held_across_a_loop() {
    under_all_seeds(|| {
        let lock = Mutex::new(0);
        crowd(2, |_| {
            let mut held = lock.lock().unwrap();
            *held += (0..4u32).into_par_iter().with_max_len(1).map(|n| n + 1).sum::<u32>();
        });
        assert_eq!(lock.into_inner().unwrap(), 20);
    });
}

/// Joins, scopes, loops, jobs with children, strangers in the deque, `cpu` from async code, a thread
/// from outside, and a panic, all at once.
#[test]
fn everything_that_forks() {
    under_all_seeds(|| {
        let count = Arc::new(AtomicUsize::new(0));
        let add = {
            let count = count.clone();
            move |n: usize| {
                switch_point();
                count.fetch_add(n, Ordering::Relaxed);
            }
        };
        let outside = {
            let add = add.clone();
            spawn_thread(move || {
                let (a, b) = join(|| forked(2), || forked(1));
                add((a + b) as usize);
            })
        };
        filch::block_on(async {
            let job = add.clone();
            let parent = filch::Job::new(move |parent| {
                for _ in 0..2 {
                    let job = job.clone();
                    parent.run_child(move |_| job(1));
                }
            });
            parent.clone().run();
            let inside = add.clone();
            let computed = filch::cpu(move || {
                let stranger = inside.clone();
                drop(filch::spawn_fn(move || stranger(10)));
                let panicked = std::panic::catch_unwind(|| {
                    join(|| std::panic::resume_unwind(Box::new(())), || forked(1))
                });
                assert!(panicked.is_err());
                scope(|s| (0..2).for_each(|_| s.spawn(|_| inside(100))));
                (0..3usize).into_par_iter().with_max_len(1).for_each(|n| inside(n * 1000));
                forked(2)
            });
            assert_eq!(computed.await, 4);
            parent.wait();
        });
        outside.join().unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 6 + 2 + 10 + 200 + 3000);
    });
}
