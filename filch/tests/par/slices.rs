//! Algorithms on slices: they agree with std's, whatever the input, and lose nothing in a panic.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use filch::par;
use filch::par::prelude::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::support::{Drops, Token, panic_of, until};
use crate::watchdog::watched;

/// Numbers that follow no pattern, `distinct` of them.
fn random(seed: u64, len: usize, distinct: u64) -> Vec<u64> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..len).map(|_| next() % distinct).collect()
}

/// Calls `test` with seeds, lengths and numbers of distinct values, in a runtime of four workers.
fn for_random_inputs(test: fn(u64, usize, u64)) {
    watched(move |dog| {
        let runtime = dog.rig(4);
        let config = Config { cases: 16, failure_persistence: None, ..Config::default() };
        let lengths = prop_oneof![0usize..100, 4_000usize..5_000, 30_000usize..90_000];
        let distinct = prop_oneof![Just(1u64), 2u64..20, Just(u64::MAX)];
        TestRunner::new(config)
            .run(&(any::<u64>(), lengths, distinct), |(seed, len, distinct)| {
                runtime.block_on_fn(|| test(seed, len, distinct));
                Ok(())
            })
            .unwrap_or_else(|failure| panic!("{failure}"));
    });
}

/// Inputs with structure.
fn patterns(len: usize) -> Vec<(&'static str, Vec<u64>)> {
    let n = len as u64;
    let nearly = |at: usize| {
        let mut v: Vec<u64> = (0..n).collect();
        v[at] = n / 2;
        v
    };
    vec![
        ("ascending", (0..n).collect()),
        ("descending", (0..n).rev().collect()),
        ("descending with equals", (0..n).rev().map(|x| x / 2).collect()),
        ("all equal", vec![7; len]),
        ("few distinct", random(5, len, 4)),
        ("mostly equal", random(6, len, 100).iter().map(|x| x.saturating_sub(90)).collect()),
        ("organ pipe", (0..n / 2).chain((0..n - n / 2).rev()).collect()),
        ("sawtooth", (0..n).map(|x| x % 1_000).collect()),
        ("falling sawtooth", (0..n).map(|x| 1_000 - x % 1_000).collect()),
        ("swapped halves", (n / 2..n).chain(0..n / 2).collect()),
        ("two values in two halves", (0..n).map(|x| u64::from(x >= n / 2)).collect()),
        ("ascending but the first", nearly(0)),
        ("ascending but the last", nearly(len - 1)),
    ]
}

#[test]
fn sorts_agree_with_std_on_random_input() {
    for_random_inputs(|seed, len, distinct| {
        let input = random(seed, len, distinct);
        let mut expected = input.clone();
        expected.sort_unstable();
        let mut v = input.clone();
        v.par_sort_unstable();
        assert_eq!(v, expected);
        v.clone_from(&input);
        v.par_sort();
        assert_eq!(v, expected);
        v.clone_from(&input);
        v.par_sort_unstable_by_key(|x| x.wrapping_neg());
        assert!(v.is_sorted_by_key(|x| x.wrapping_neg()));
        v.par_sort_unstable_by(|a, b| a.cmp(b));
        assert_eq!(v, expected);
    });
}

#[test]
fn stable_sorts_keep_the_order_of_equals() {
    for_random_inputs(|seed, len, distinct| {
        let input: Vec<(u64, usize)> = random(seed, len, distinct).into_iter().zip(0..).collect();
        let mut expected = input.clone();
        expected.sort_by_key(|pair| pair.0);
        let mut v = input.clone();
        v.par_sort_by_key(|pair| pair.0);
        assert_eq!(v, expected);
        v.clone_from(&input);
        v.par_sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(v, expected);
        v.clone_from(&input);
        v.par_sort_by_cached_key(|pair| pair.0.to_string());
        expected.sort_by_cached_key(|pair| pair.0.to_string());
        assert_eq!(v, expected);
    });
}

#[test]
fn sorts_agree_with_std_on_patterns() {
    watched(|dog| {
        for workers in [1, 2, 3, 5] {
            let runtime = dog.rig(workers);
            runtime.block_on_fn(|| {
                for (name, input) in [4_095, 4_096, 70_000].into_iter().flat_map(patterns) {
                    let mut expected = input.clone();
                    expected.sort();
                    let mut v = input.clone();
                    v.par_sort();
                    assert!(v == expected, "par_sort, {name}, {} elements", v.len());
                    v.clone_from(&input);
                    v.par_sort_unstable();
                    assert!(v == expected, "par_sort_unstable, {name}, {} elements", v.len());
                    let mut pairs: Vec<_> = input.into_iter().zip(0..).collect();
                    pairs.par_sort_by_key(|pair: &(u64, usize)| pair.0);
                    assert!(pairs.is_sorted(), "stability, {name}, {} elements", v.len());
                }
            });
        }
    });
}

#[test]
fn runs_are_sorted_with_one_comparison_per_element() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.block_on_fn(|| {
            let n = 50_000;
            let ascending: Vec<u64> = (0..n).map(|x| x / 3).collect();
            let descending: Vec<u64> = (0..n).rev().collect();
            for input in [ascending, descending] {
                let calls = AtomicUsize::new(0);
                let count = |a: &u64, b: &u64| {
                    calls.fetch_add(1, SeqCst);
                    a.cmp(b)
                };
                let mut v = input.clone();
                v.par_sort_by(count);
                v.clone_from(&input);
                v.par_sort_unstable_by(count);
                // Twice one per element, and twice a look at the beginning.
                assert!(calls.into_inner() < 2 * (n as usize + 10_000));
            }
        });
    });
}

#[test]
fn all_sorts_work_on_every_kind_of_thread() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.everywhere(|| {
            let input = random(9, 20_000, 1_000);
            let mut v = input.clone();
            v.par_sort();
            assert!(v.is_sorted());
            v.clone_from(&input);
            v.par_sort_unstable();
            assert!(v.is_sorted());
            v.clone_from(&input);
            v.par_sort_by_cached_key(|x| *x);
            assert!(v.is_sorted());
            par::inclusive_scan(&mut v, |a, b| a.max(b).to_owned());
            assert!(v.is_sorted());
            assert_eq!(par::generate(20_000, |i| i).len(), 20_000);
        });
    });
}

#[test]
fn strings_and_large_elements_are_sorted() {
    watched(|dog| {
        let runtime = dog.rig(3);
        runtime.block_on_fn(|| {
            let mut strings: Vec<String> =
                random(3, 30_000, 10_000).iter().map(|x| format!("{x:x}")).collect();
            let mut expected = strings.clone();
            expected.sort();
            let mut unstable = strings.clone();
            strings.par_sort();
            unstable.par_sort_unstable();
            assert_eq!(strings, expected);
            assert_eq!(unstable, expected);

            let mut large: Vec<[u64; 40]> =
                random(4, 9_000, u64::MAX).iter().map(|&x| [x; 40]).collect();
            let mut unstable = large.clone();
            large.par_sort();
            unstable.par_sort_unstable();
            assert!(large.is_sorted());
            assert_eq!(unstable, large);
            large.par_sort_by_cached_key(|x| std::cmp::Reverse(x[0]));
            assert!(large.is_sorted_by_key(|x| std::cmp::Reverse(x[0])));
        });
    });
}

#[test]
fn elements_without_size_are_sorted() {
    let mut units = [(); 10_000];
    units.par_sort();
    units.par_sort_unstable();
    units.par_sort_by_cached_key(|()| 1);
    units.par_fill(());
    assert_eq!(par::generate(10_000, |_| ()).len(), 10_000);
}

/// An element that one thread at a time may look at, and which counts how often it was compared.
struct Shy {
    key: u64,
    compared: Cell<usize>,
}

impl Shy {
    fn new(key: u64) -> Self {
        Self { key, compared: Cell::new(0) }
    }

    fn cmp(&self, other: &Self) -> Ordering {
        self.compared.set(self.compared.get() + 1);
        other.compared.set(other.compared.get() + 1);
        self.key.cmp(&other.key)
    }
}

#[test]
fn elements_that_change_while_compared_keep_every_change() {
    watched(|dog| {
        let runtime = dog.rig(4);
        runtime.block_on_fn(|| {
            for distinct in [3, u64::MAX] {
                let calls = AtomicUsize::new(0);
                let compare = |a: &Shy, b: &Shy| {
                    calls.fetch_add(1, SeqCst);
                    a.cmp(b)
                };
                let mut v: Vec<Shy> =
                    random(8, 60_000, distinct).into_iter().map(Shy::new).collect();
                v.par_sort_by(compare);
                v.reverse();
                v.par_sort_unstable_by(compare);
                let changes: usize = v.iter().map(|shy| shy.compared.get()).sum();
                assert_eq!(changes, 2 * calls.into_inner());
                assert!(v.is_sorted_by_key(|shy| shy.key));
            }
        });
    });
}

/// Numbered elements that count their drops.
fn tokens(drops: &Drops, keys: &[u64]) -> Vec<(u64, usize, Token)> {
    keys.iter().enumerate().map(|(i, &key)| (key, i, drops.token())).collect()
}

fn assert_permutation(v: &[(u64, usize, Token)]) {
    let places: HashSet<usize> = v.iter().map(|x| x.1).collect();
    assert_eq!(places.len(), v.len(), "an element is there twice");
    assert!(places.iter().all(|&place| place < v.len()));
}

#[test]
fn comparison_that_panics_leaves_a_permutation() {
    watched(|dog| {
        let runtime = dog.rig(3);
        runtime.block_on_fn(|| {
            let keys = random(11, 20_000, 5_000);
            for fatal in [1, 100, 20_000, 150_000, 220_000, 240_000, 260_000, 270_000] {
                let drops = Drops::default();
                let calls = AtomicUsize::new(0);
                let compare = |a: &(u64, usize, Token), b: &(u64, usize, Token)| {
                    assert!(calls.fetch_add(1, SeqCst) != fatal, "fatal comparison");
                    a.0.cmp(&b.0)
                };
                let mut v = tokens(&drops, &keys);
                let _ = catch_unwind(AssertUnwindSafe(|| v.par_sort_by(compare)));
                assert_permutation(&v);
                calls.store(0, SeqCst);
                v.par_sort_unstable_by_key(|x| x.1);
                let _ = catch_unwind(AssertUnwindSafe(|| v.par_sort_unstable_by(compare)));
                assert_permutation(&v);
                assert_eq!(drops.count(), 0);
                drop(v);
                assert_eq!(drops.count(), keys.len());
            }
        });
    });
}

#[test]
fn key_that_panics_leaves_the_slice_as_it_was() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.block_on_fn(|| {
            let input = random(12, 10_000, u64::MAX);
            let mut v = input.clone();
            let fatal = input[7_777];
            let text = panic_of(|| {
                v.par_sort_by_cached_key(|x| {
                    assert!(*x != fatal, "fatal key");
                    x.to_string()
                });
            });
            assert_eq!(text, "fatal key");
            assert_eq!(v, input);
        });
    });
}

type Liar<'a> = dyn Fn(u64, u64) -> Ordering + Sync + 'a;

#[test]
fn comparisons_that_contradict_each_other_leave_a_permutation() {
    watched(|dog| {
        let runtime = dog.rig(3);
        runtime.block_on_fn(|| {
            let keys = random(13, 30_000, u64::MAX);
            let toss = AtomicUsize::new(1);
            let liars: [(&str, &Liar); 4] = [
                ("always less", &|_, _| Ordering::Less),
                ("never less", &|_, _| Ordering::Greater),
                ("by chance", &|_, _| {
                    let x = toss.fetch_add(0x9E37_79B9_7F4A_7C15, SeqCst);
                    [Ordering::Less, Ordering::Greater, Ordering::Equal][(x >> 40) % 3]
                }),
                ("in a circle", &|a, b| (a % 3).cmp(&((b + 1) % 3))),
            ];
            for (name, liar) in liars {
                let drops = Drops::default();
                let mut v = tokens(&drops, &keys);
                let _ = catch_unwind(AssertUnwindSafe(|| v.par_sort_by(|a, b| liar(a.0, b.0))));
                assert_permutation(&v);
                let unstable = || v.par_sort_unstable_by(|a, b| liar(a.0, b.0));
                let _ = catch_unwind(AssertUnwindSafe(unstable));
                assert_permutation(&v);
                assert_eq!(drops.count(), 0, "{name}");
            }
        });
    });
}

#[test]
fn merges_agree_with_a_stable_sort() {
    for_random_inputs(|seed, len, distinct| {
        let mut a: Vec<(u64, usize)> = random(seed, len, distinct).into_iter().zip(0..).collect();
        // Any split: also one of which a run is short or empty.
        let mut b = a.split_off(seed as usize % (len + 1));
        a.sort_by_key(|x| x.0);
        b.sort_by_key(|x| x.0);
        let mut expected = [&a[..], &b[..]].concat();
        expected.sort_by_key(|x| x.0);
        let mut out = vec![(0, 0); len];
        par::merge_by_key(&a, &b, &mut out, |x| x.0);
        assert_eq!(out, expected);
        out.fill((0, 0));
        par::merge_by(&a, &b, &mut out, |x, y| x.0.cmp(&y.0));
        assert_eq!(out, expected);
        assert_eq!(par::merge_vecs_by_key(a.clone(), b.clone(), |x| x.0), expected);
        expected.sort();
        a.sort();
        b.sort();
        assert_eq!(par::merge_vecs(a, b), expected);
    });
}

#[test]
fn merge_of_vectors_drops_each_element_once() {
    watched(|dog| {
        let runtime = dog.rig(2);
        runtime.block_on_fn(|| {
            let keys: Vec<u64> = (0..20_000).collect();
            for fatal in [0, 50, 9_000, usize::MAX] {
                let drops = Drops::default();
                let (a, b) = (tokens(&drops, &keys), tokens(&drops, &keys));
                let calls = AtomicUsize::new(0);
                let merged = catch_unwind(AssertUnwindSafe(|| {
                    par::merge_vecs_by(a, b, |a, b| {
                        assert!(calls.fetch_add(1, SeqCst) != fatal, "fatal comparison");
                        a.0.cmp(&b.0)
                    })
                }));
                assert_eq!(merged.is_ok(), fatal == usize::MAX);
                assert!(merged.as_ref().map_or(true, |v| v.is_sorted_by_key(|x| (x.0, x.1))));
                drop(merged);
                assert_eq!(drops.count(), 2 * keys.len());
            }
        });
    });
}

#[test]
#[should_panic(expected = "another length")]
fn merge_into_an_output_of_another_length_panics() {
    par::merge(&[1, 2], &[3], &mut [0; 4]);
}

/// A product that is associative and does not commute.
type Matrix = [u32; 4];

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let cell = |r: usize, c: usize| {
        let x = u64::from(a[2 * r]) * u64::from(b[c]);
        let y = u64::from(a[2 * r + 1]) * u64::from(b[2 + c]);
        ((x + y) % 1_000_003) as u32
    };
    [cell(0, 0), cell(0, 1), cell(1, 0), cell(1, 1)]
}

fn matrices(seed: u64, len: usize) -> Vec<Matrix> {
    let cell = |x: u64, i: u32| (x >> (8 * i)) as u32 % 1_000;
    let make = |x: u64| [cell(x, 0), cell(x, 1), cell(x, 2), cell(x, 3)];
    random(seed, len, u64::MAX).into_iter().map(make).collect()
}

/// The scans of std, so to speak: inclusive, exclusive, sum.
fn sequential_scans<T: Clone>(
    v: &[T],
    initial: T,
    op: impl Fn(&T, &T) -> T,
) -> (Vec<T>, Vec<T>, T) {
    let mut inclusive: Vec<T> = Vec::new();
    let mut exclusive = Vec::new();
    let mut sum = initial;
    for x in v {
        inclusive.push(inclusive.last().map_or_else(|| x.clone(), |last| op(last, x)));
        let next = op(&sum, x);
        exclusive.push(std::mem::replace(&mut sum, next));
    }
    (inclusive, exclusive, sum)
}

#[test]
fn scans_agree_with_sequential_ones_for_a_product_that_does_not_commute() {
    for_random_inputs(|seed, len, _| {
        let input = matrices(seed, len);
        let initial = [2, 3, 5, 7];
        let (inclusive, exclusive, sum) = sequential_scans(&input, initial, product);
        let mut v = input.clone();
        par::inclusive_scan(&mut v, product);
        assert_eq!(v, inclusive);
        v.clone_from(&input);
        assert_eq!(par::exclusive_scan(&mut v, initial, product), sum);
        assert_eq!(v, exclusive);
        v.fill([0; 4]);
        par::inclusive_scan_map(&input, &mut v, Matrix::clone, product);
        assert_eq!(v, inclusive);
        v.fill([0; 4]);
        let mapped = par::exclusive_scan_map(&input, &mut v, initial, Matrix::clone, product);
        assert_eq!((v, mapped), (exclusive, sum));
    });
}

#[test]
fn scan_of_strings_concatenates_in_order() {
    watched(|dog| {
        let runtime = dog.rig(3);
        runtime.block_on_fn(|| {
            // The last twelve characters of a concatenation: associative, in order, and short.
            let concat = |a: &String, b: &String| {
                let whole = format!("{a}{b}");
                whole[whole.len().saturating_sub(12)..].to_owned()
            };
            let input: Vec<String> =
                random(21, 30_011, 1_000).iter().map(ToString::to_string).collect();
            let (inclusive, exclusive, sum) = sequential_scans(&input, String::new(), concat);
            let mut v = input.clone();
            par::inclusive_scan(&mut v, concat);
            assert_eq!(v, inclusive);
            v.clone_from(&input);
            assert_eq!(par::exclusive_scan(&mut v, String::new(), concat), sum);
            assert_eq!(v, exclusive);
        });
    });
}

#[test]
fn scan_to_which_thieves_come_keeps_the_order() {
    watched(|dog| {
        for workers in [2, 4] {
            let runtime = dog.rig(workers);
            runtime.block_on_fn(move || {
                let input = matrices(31, 100_003);
                let (inclusive, ..) = sequential_scans(&input, [1, 0, 0, 1], product);
                let threads: Mutex<HashSet<ThreadId>> = Mutex::default();
                let calls = AtomicUsize::new(0);
                let mut v = input.clone();
                par::inclusive_scan(&mut v, |a, b| {
                    // The first thread does not go on before another one has come.
                    if calls.load(SeqCst) < 2 {
                        threads.lock().unwrap().insert(std::thread::current().id());
                        until(|| threads.lock().unwrap().len() > 1);
                        calls.fetch_add(1, SeqCst);
                    }
                    product(a, b)
                });
                assert_eq!(v, inclusive);
            });
        }
    });
}

/// A number with a token.
#[derive(Clone)]
struct Counted(u64, #[allow(dead_code, reason = "it is there to be dropped")] Arc<Token>);

#[test]
fn operator_that_panics_leaves_whole_elements() {
    watched(|dog| {
        let runtime = dog.rig(3);
        runtime.block_on_fn(|| {
            for fatal in [0, 5_000, 29_000] {
                let drops = Drops::default();
                let made = AtomicUsize::new(0);
                let make = |x: u64| {
                    made.fetch_add(1, SeqCst);
                    Counted(x, Arc::new(drops.token()))
                };
                let calls = AtomicUsize::new(0);
                let mut v: Vec<Counted> = (0..30_000).map(make).collect();
                let op = |a: &Counted, b: &Counted| {
                    assert!(calls.fetch_add(1, SeqCst) != fatal, "fatal sum");
                    make(a.0 + b.0)
                };
                assert_eq!(panic_of(|| par::inclusive_scan(&mut v, op)), "fatal sum");
                calls.store(0, SeqCst);
                let exclusive = || par::exclusive_scan(&mut v, make(0), op);
                assert_eq!(panic_of(exclusive), "fatal sum");
                assert_eq!(v.len(), 30_000);
                drop(v);
                assert_eq!(drops.count(), made.into_inner());
            }
        });
    });
}

#[test]
fn fills_set_every_element() {
    watched(|dog| {
        let runtime = dog.rig(3);
        runtime.block_on_fn(|| {
            for len in [0, 1, 7, 1_000, 100_003] {
                let mut v = vec![0usize; len];
                v.par_fill(9);
                assert!(v.iter().all(|&x| x == 9));
                v.par_generate(|i| 3 * i);
                assert!(v.iter().copied().eq((0..len).map(|i| 3 * i)));
                let calls = AtomicUsize::new(0);
                v.par_fill_with(|| calls.fetch_add(1, SeqCst));
                v.sort_unstable();
                assert!(v.iter().copied().eq(0..len));
                let strings = par::generate(len, |i| i.to_string());
                assert!(strings.iter().enumerate().all(|(i, s)| *s == i.to_string()));
            }
        });
    });
}

#[test]
fn generator_that_panics_drops_what_was_made() {
    watched(|dog| {
        let runtime = dog.rig(4);
        runtime.block_on_fn(|| {
            for fatal in [0, 1, 500, 9_999] {
                let drops = Drops::default();
                let made = AtomicUsize::new(0);
                let make = |i: usize| {
                    assert!(i != fatal, "fatal index");
                    made.fetch_add(1, SeqCst);
                    drops.token()
                };
                assert_eq!(panic_of(|| par::generate(10_000, make)), "fatal index");
                assert_eq!(drops.count(), made.load(SeqCst));

                let mut v: Vec<Token> = (0..10_000).map(|_| drops.token()).collect();
                assert_eq!(panic_of(|| v.par_generate(make)), "fatal index");
                drop(v);
                assert_eq!(drops.count(), 10_000 + made.into_inner());
            }
        });
    });
}
