//! Loops from every kind of thread, borrowed data, and loops in loops.

use std::sync::Mutex;

use filch::par::grid;
use filch::par::prelude::*;

use crate::watchdog::watched;

#[test]
fn loops_run_on_every_kind_of_thread() {
    watched(|dog| {
        for workers in [1, 2, 4] {
            dog.rig(workers).everywhere(|| {
                let words: Vec<String> = (0..300).map(|n| n.to_string()).collect();
                let lengths: Vec<usize> = words.par_iter().map(String::len).collect();
                assert!(lengths.iter().copied().eq(words.iter().map(String::len)));
                assert_eq!(words.into_par_iter().map(|word| word.len()).sum::<usize>(), 790);
            });
        }
    });
}

#[test]
fn loops_run_on_the_default_runtime_from_plain_threads() {
    std::thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| assert_eq!((0..1000u64).into_par_iter().sum::<u64>(), 499_500));
        }
    });
}

#[test]
fn loops_in_tasks_and_jobs() {
    watched(|dog| {
        let runtime = dog.rig(2);
        let sums = runtime.block_on(async {
            let task = filch::spawn(async { (0..1000u32).into_par_iter().sum::<u32>() });
            let job = filch::spawn_fn(|| (0..1000u32).into_par_iter().rev().sum::<u32>());
            (task.await, job.await)
        });
        assert_eq!(sums, (499_500, 499_500));
    });
}

#[test]
fn loops_nest() {
    watched(|dog| {
        for workers in [1, 2, 4] {
            dog.rig(workers).everywhere(|| {
                let mut table = vec![vec![0usize; 50]; 50];
                table.par_iter_mut().enumerate().for_each(|(x, row)| {
                    row.par_iter_mut().enumerate().for_each(|(y, cell)| {
                        *cell = (0..x + y).into_par_iter().count();
                    });
                });
                let sum: usize = grid((0..50, 0..50)).map(|(x, y)| table[x][y]).sum();
                assert_eq!(sum, 50 * 50 * 49);
            });
        }
    });
}

#[test]
fn lock_held_across_a_loop_is_safe() {
    watched(|dog| {
        dog.rig(2).everywhere(|| {
            let lock = Mutex::new(0u64);
            (0..64u64).into_par_iter().for_each(|n| {
                let mut total = lock.lock().unwrap();
                *total += (0..n).into_par_iter().map(|m| m % 2).sum::<u64>();
            });
            assert_eq!(lock.into_inner().unwrap(), (0..64u64).map(|n| n / 2).sum::<u64>());
        });
    });
}

#[test]
fn loop_inside_a_join_and_a_scope() {
    watched(|dog| {
        dog.rig(2).everywhere(|| {
            let data: Vec<u32> = (0..500).collect();
            let (a, b) = filch::join(|| data.par_iter().sum::<u32>(), || data.par_iter().max());
            assert_eq!((a, b), (124_750, Some(&499)));
            let found = Mutex::new(None);
            filch::scope(|s| {
                s.spawn(|_| *found.lock().unwrap() = data.par_iter().position_any(|n| *n == 77));
            });
            assert_eq!(found.into_inner().unwrap(), Some(77));
        });
    });
}
