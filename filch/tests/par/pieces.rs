//! How a loop is cut: lengths of pieces are counted by folding.

use std::sync::atomic::{AtomicUsize, Ordering};

use filch::par;
use filch::par::prelude::*;

use super::property;
use crate::support::Gate;
use crate::watchdog::watched;

/// The lengths of the pieces that a loop was cut into, in order.
fn pieces<I: ParallelIterator>(items: I) -> Vec<usize> {
    items.fold(|| 0, |len, _| len + 1).collect()
}

#[test]
fn minimum_and_maximum_hold() {
    property((0..2000usize, 1..200usize, 1..200usize), |(len, min, max)| {
        let all = (0..len).into_par_iter();
        let cut = pieces(all.clone().with_min_len(min));
        assert_eq!(cut.iter().sum::<usize>(), len);
        assert!(cut.len() == 1 || cut.iter().all(|piece| *piece >= min), "{cut:?}");
        let cut = pieces(all.clone().with_max_len(max));
        assert!(cut.iter().all(|piece| *piece <= max), "{cut:?}");
        let cut = pieces(all.with_min_len(min).with_max_len(max));
        assert!(cut.len() == 1 || cut.iter().all(|piece| *piece >= min), "{cut:?}");
        assert!(cut.iter().all(|piece| *piece <= max.max(2 * min)), "{cut:?}");
    });
}

#[test]
fn dynamic_pieces_have_the_grain() {
    property((1..2000usize, 1..200usize), |(len, grain)| {
        let cut = pieces((0..len).into_par_iter().partition_by(par::dynamic(grain)));
        let (last, others) = cut.split_last().unwrap();
        assert!(others.iter().all(|piece| *piece == grain), "{cut:?}");
        assert!(*last <= grain);
    });
}

#[test]
fn equal_pieces_are_one_for_each_worker() {
    property(0..2000usize, |len| {
        let cut = pieces((0..len).into_par_iter().partition_by(par::equal()));
        assert_eq!(cut.len(), len.clamp(1, 4));
        assert!(cut.iter().max().unwrap() - cut.iter().min().unwrap() <= 1, "{cut:?}");
    });
}

#[test]
fn depth_caps_the_number_of_pieces() {
    property((1..2000usize, 0..6u32), |(len, depth)| {
        for how in [par::dynamic(1), par::guided(), par::equal()] {
            let cut = pieces((0..len).into_par_iter().partition_by(how.max_depth(depth)));
            assert!(cut.len() <= 1 << depth, "{cut:?}");
        }
        // Two cuts make a piece for each of the four workers.
        let shallow = par::dynamic(1).max_depth_of_runtime();
        let cut = pieces((0..len).into_par_iter().partition_by(shallow));
        assert_eq!(cut.len(), len.min(4));
    });
}

#[test]
fn plans_survive_adaptors() {
    property((1..2000usize, 1..100usize), |(len, grain)| {
        let all = || (0..len).into_par_iter().partition_by(par::dynamic(grain));
        let expected = pieces(all());
        assert_eq!(pieces(all().map(|n| n)), expected);
        assert_eq!(pieces(all().enumerate()), expected);
        assert_eq!(pieces(all().zip(0..len)), expected);
        assert_eq!(pieces((0..len).into_par_iter().zip(all())), expected);
        assert_eq!(pieces(all().map_init(|| (), |(), n| n).rev()).len(), expected.len());
        assert_eq!(pieces(all().take(len)), expected);
        let steps = pieces(all().step_by(3));
        assert!(steps.iter().all(|piece| *piece <= grain.div_ceil(3)), "{steps:?}");
    });
}

#[test]
fn one_worker_cuts_nothing_unasked() {
    watched(|dog| {
        dog.rig(1).block_on_fn(|| {
            assert_eq!(pieces((0..1000).into_par_iter()), [1000]);
            assert_eq!(pieces((0..1000).into_par_iter().partition_by(par::equal())), [1000]);
            assert_eq!(
                pieces((0..1000).into_par_iter().partition_by(par::dynamic(500))),
                [500, 500]
            );
            assert_eq!(pieces((0..1000u128).into_par_iter()), [1000]);
        });
    });
}

#[test]
fn guided_loop_starts_with_pieces_for_all_workers() {
    watched(|dog| {
        for workers in [2, 3, 4] {
            dog.rig(workers).block_on_fn(|| {
                let cut = pieces((0..1000).into_par_iter());
                assert!(cut.len() >= workers, "{cut:?}");
                let cut = pieces((0..1000u128).into_par_iter());
                assert!(cut.len() >= workers, "{cut:?}");
            });
        }
    });
}

#[test]
fn piece_that_blocks_holds_up_no_other() {
    watched(|dog| {
        dog.rig(2).block_on_fn(|| {
            let gate = Gate::default();
            let left = AtomicUsize::new(500);
            (0..1000).into_par_iter().for_each(|n| match n {
                0 => gate.block(),
                500.. if left.fetch_sub(1, Ordering::SeqCst) == 1 => gate.open(),
                _ => {}
            });
        });
    });
}
