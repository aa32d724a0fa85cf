//! Random allocs and frees against a model.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Alloc { bytes: usize, align: usize, via: Via },
    Free { pick: usize, via: Via },
    Flush,
    Trim,
    Close,
}

#[derive(Clone, Copy, Debug)]
enum Via {
    Cache,
    Shard,
}

fn via() -> impl Strategy<Value = Via> {
    prop_oneof![Just(Via::Cache), Just(Via::Shard)]
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![8 => 1..=300_usize, 2 => 300..=4200_usize, 1 => 4200..=80_000_usize];
    let align = prop_oneof![8 => 0..=6_u32, 1 => 7..=14_u32].prop_map(|shift| 1 << shift);
    prop_oneof![
        60 => (bytes, align, via()).prop_map(|(bytes, align, via)| Step::Alloc { bytes, align, via }),
        50 => (any::<usize>(), via()).prop_map(|(pick, via)| Step::Free { pick, via }),
        1 => Just(Step::Flush),
        1 => Just(Step::Trim),
        1 => Just(Step::Close),
    ]
}

/// What the model knows of a live cell: its bytes and the pattern in them.
struct Known {
    cell: NonNull<u8>,
    bytes: usize,
    pattern: u8,
}

impl Known {
    fn fill(cell: NonNull<u8>, bytes: usize, pattern: u8) -> Self {
        publish(cell, u64::MAX);
        for offset in 8..bytes {
            // SAFETY: the cell holds `bytes` bytes and is this test's.
            let byte = unsafe { cell.add(offset) };
            // SAFETY: as above.
            unsafe { byte.write(pattern) };
        }
        Self { cell, bytes, pattern }
    }

    fn check(&self) {
        for offset in 8..self.bytes {
            // SAFETY: the cell holds `bytes` bytes and is this test's.
            let byte = unsafe { self.cell.add(offset) };
            // SAFETY: `fill` wrote it.
            assert_eq!(unsafe { byte.read() }, self.pattern, "contents lost");
        }
    }
}

fn run(steps: Vec<Step>) {
    let pool = Pool::new();
    let cache = Cache::new(Arc::clone(&pool));
    let mut model = BTreeMap::<usize, Known>::new();
    for (index, step) in steps.into_iter().enumerate() {
        match step {
            Step::Alloc { bytes, align, via } => {
                let layout = CellLayout::new(bytes, align);
                let cell = match via {
                    Via::Cache => cache.alloc(layout),
                    Via::Shard => pool.alloc(layout),
                };
                let start = cell.addr().get();
                assert_eq!(start % align, 0);
                if let Some((below, known)) = model.range(..=start).next_back() {
                    assert!(below + known.bytes.max(16) <= start, "overlap");
                }
                if let Some((above, _)) = model.range(start..).next() {
                    assert!(start + bytes.max(16) <= *above, "overlap");
                }
                model.insert(start, Known::fill(cell, bytes, index as u8));
            }
            Step::Free { pick, via } => {
                let picked = model.keys().nth(pick % model.len().max(1)).copied();
                let Some(known) = picked.and_then(|start| model.remove(&start)) else {
                    continue;
                };
                known.check();
                match via {
                    Via::Cache => free_to(&cache, known.cell),
                    Via::Shard => free(known.cell),
                }
            }
            Step::Flush => cache.flush(),
            Step::Trim => pool.trim(),
            Step::Close => pool.close(),
        }
    }
    let mut seen = Vec::new();
    pool.for_each_cell(|cell| Some(cell.addr().get()), |start| seen.push(start));
    seen.sort_unstable();
    assert!(seen.iter().eq(model.keys()), "registry differs from model");
    for known in model.into_values() {
        known.check();
        free(known.cell);
    }
    drop(cache);
    pool.close();
    assert_eq!(pool.stats(), NOTHING);
    assert_eq!(Arc::strong_count(&pool), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 64 }, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_steps_match_the_model(steps in prop::collection::vec(step(), 1..if cfg!(miri) { 30 } else { 1500 })) {
        run(steps);
    }
}
