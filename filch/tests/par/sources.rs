//! Each source has the items of its sequential twin, in order.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};

use proptest::prelude::*;

use filch::par::prelude::*;
use filch::par::{empty, grid, once, repeat, repeat_n};

use super::{numbers, partition, property, same};

/// Ranges of one type, wherever they lie and also out of order.
macro_rules! range_test {
    ($name:ident, $t:ty) => {
        #[test]
        fn $name() {
            let near = |at: $t| {
                (0..1500u32, 0..1500u32).prop_map(move |(a, b)| {
                    let from = at.saturating_add(<$t>::try_from(a % 250).unwrap());
                    (from, from.saturating_add(<$t>::try_from(b % 120).unwrap()))
                })
            };
            let ends = prop_oneof![
                near(<$t>::MIN),
                near(<$t>::MAX - 100),
                near(3),
                near(3).prop_map(|(a, b)| (b, a))
            ];
            property(ends, |(a, b)| {
                same!((a..b).into_par_iter(), a..b);
                same!((a..=b).into_par_iter(), a..=b);
            });
        }
    };
}

range_test!(ranges_of_u8, u8);
range_test!(ranges_of_u64, u64);
range_test!(ranges_of_u128, u128);
range_test!(ranges_of_i32, i32);
range_test!(ranges_of_i64, i64);

#[test]
fn ranges_of_every_integer_reach_both_ends() {
    macro_rules! ends {
        ($($t:ty)*) => { $(
            let (low, high) = (<$t>::MIN..<$t>::MIN + 100, <$t>::MAX - 99..=<$t>::MAX);
            assert_eq!(low.into_par_iter().count(), 100);
            assert_eq!(high.into_par_iter().count(), 100);
        )* };
    }
    ends!(u16 u32 usize i8 i16 i128 isize);
}

#[test]
fn ranges_with_a_step_that_need_not_divide_the_length() {
    property((0..2000u64, 0..2000i64, 1..300usize, partition()), |(len, from, step, how)| {
        let (wide, odd) = (0..len, -from..from / 2);
        let cut = wide.clone().into_par_iter().partition_by(how);
        same!(cut.step_by(step), wide.step_by(step));
        let cut = odd.clone().into_par_iter().partition_by(how);
        same!(cut.clone().step_by(step), odd.clone().step_by(step));
        let back: Vec<_> = odd.step_by(step).collect();
        same!(cut.step_by(step).rev(), back.into_iter().rev());
        let small = (0..len as u32).into_par_iter().partition_by(how).skip(3).step_by(step);
        same!(small, (0..len as u32).skip(3).step_by(step));
    });
}

#[test]
fn whole_byte_range_is_of_known_length() {
    assert_eq!((0..=u8::MAX).into_par_iter().len(), 256);
    assert_eq!((i8::MIN..=i8::MAX).into_par_iter().rev().len(), 256);
    same!((i8::MIN..=i8::MAX).into_par_iter().rev(), (i8::MIN..=i8::MAX).rev());
    let mut spent = 3..=5u8;
    spent.by_ref().for_each(drop);
    assert_eq!(spent.into_par_iter().count(), 0);
}

#[test]
fn characters_leave_out_the_surrogates() {
    same!(('b'..'y').into_par_iter(), 'b'..'y');
    same!(('z'..='a').into_par_iter(), 'z'..='a');
    let around = '\u{d700}'..='\u{e0ff}';
    same!(around.clone().into_par_iter(), around);
}

#[test]
fn slices_vectors_boxes_and_arrays() {
    property(numbers(), |(mut v, how)| {
        same!(v.par_iter().partition_by(how), v.iter());
        same!(v.as_slice().into_par_iter(), v.iter());
        same!(v.clone().into_par_iter().partition_by(how), v.clone().into_iter());
        same!(v.clone().into_boxed_slice().into_par_iter(), v.clone().into_iter());
        let mut twin = v.clone();
        v.par_iter_mut().partition_by(how).for_each(|n| *n += 1);
        twin.iter_mut().for_each(|n| *n += 1);
        assert_eq!(v, twin);
    });
    let mut array = [1, 2, 3];
    array.par_iter_mut().for_each(|n| *n *= 2);
    same!(array.par_iter(), [2, 4, 6].iter());
    same!(array.into_par_iter(), [2, 4, 6].into_iter());
}

#[test]
fn parts_of_slices() {
    property((numbers(), 1..70usize), |((v, how), size)| {
        same!(v.par_chunks(size).partition_by(how), v.chunks(size));
        same!(v.par_chunks_exact(size).partition_by(how), v.chunks_exact(size));
        same!(v.par_rchunks(size).partition_by(how), v.rchunks(size));
        same!(v.par_rchunks_exact(size).partition_by(how), v.rchunks_exact(size));
        same!(v.par_windows(size).partition_by(how), v.windows(size));
        same!(v.par_chunks(size).rev().partition_by(how), v.chunks(size).rev());
        same!(v.par_windows(size).rev().partition_by(how), v.windows(size).rev());
    });
}

#[test]
fn exclusive_parts_of_slices() {
    property((numbers(), 1..70usize), |((v, how), size)| {
        macro_rules! same_writes {
            ($par:ident, $seq:ident) => {
                let (mut a, mut b) = (v.clone(), v.clone());
                let parts = a.$par(size).partition_by(how).enumerate();
                parts.for_each(|(i, part)| part.iter_mut().for_each(|n| *n += i as i32));
                for (i, part) in b.$seq(size).enumerate() {
                    part.iter_mut().for_each(|n| *n += i as i32);
                }
                assert_eq!(a, b);
            };
        }
        same_writes!(par_chunks_mut, chunks_mut);
        same_writes!(par_chunks_exact_mut, chunks_exact_mut);
        same_writes!(par_rchunks_mut, rchunks_mut);
        same_writes!(par_rchunks_exact_mut, rchunks_exact_mut);
    });
}

#[test]
#[should_panic(expected = "at least one item")]
fn chunks_of_nothing_are_refused() {
    let _ = [1].par_chunks(0);
}

#[test]
fn std_collections() {
    property(numbers(), |(v, _)| {
        let mut deque: VecDeque<_> = v.iter().copied().collect();
        deque.rotate_left(deque.len() / 3);
        same!(deque.par_iter(), deque.iter());
        same!(deque.clone().into_par_iter(), deque.clone().into_iter());
        deque.par_iter_mut().for_each(|n| *n = -*n);
        let list: LinkedList<_> = v.iter().copied().collect();
        same!(list.par_iter(), list.iter());
        let heap: BinaryHeap<_> = v.iter().copied().collect();
        same!(heap.par_iter(), heap.iter());
        let tree: BTreeSet<_> = v.iter().copied().collect();
        same!(tree.par_iter(), tree.iter());
        let mut map: BTreeMap<_, _> = v.iter().map(|n| (*n, n * n)).collect();
        same!(map.par_iter(), map.iter());
        map.par_iter_mut().for_each(|(k, v)| *v += k);
        same!(
            map.clone().into_par_iter(),
            v.iter().collect::<BTreeSet<_>>().into_iter().map(|n| (*n, n * n + n))
        );
        let set: HashSet<_> = v.iter().copied().collect();
        assert_eq!(set.par_iter().copied().collect::<HashSet<_>>(), set);
        let hash: HashMap<_, _> = v.iter().map(|n| (*n, n * n)).collect();
        assert_eq!(hash.clone().into_par_iter().collect::<HashMap<_, _>>(), hash);
    });
}

#[test]
fn options_results_and_single_items() {
    let mut some = Some(3);
    some.par_iter_mut().for_each(|n| *n += 1);
    same!(some.par_iter(), some.iter());
    same!(some.into_par_iter(), some.into_iter());
    same!(None::<u8>.into_par_iter(), None::<u8>.into_iter());
    same!(Ok::<u8, ()>(3).into_par_iter(), [3].into_iter());
    assert_eq!(Err::<u8, _>(()).into_par_iter().count(), 0);
    same!(once(3).chain(empty()).chain(once(4)).rev(), [4, 3].into_iter());
}

#[test]
fn repeated_values() {
    property((0..500usize, partition()), |(n, how)| {
        let word = String::from("ab");
        assert_eq!(repeat_n(word.clone(), n).partition_by(how).collect::<String>(), word.repeat(n));
        same!(repeat(7).take(n), std::iter::repeat_n(7, n));
        same!(repeat(7).zip(0..n), std::iter::repeat(7).zip(0..n));
    });
}

#[test]
fn bridged_iterators_lose_no_item() {
    property(0..800u32, |n| {
        let odd = (0..n).filter(|n| n % 2 == 1);
        let mut all: Vec<_> = odd.clone().par_bridge().collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(odd));
    });
}

#[test]
fn texts() {
    let any = prop::collection::vec(
        prop_oneof![Just('\n'), Just(' '), Just('é'), Just('x'), Just('\r')],
        0..400,
    );
    property(any, |chars| {
        let text: String = chars.into_iter().collect();
        same!(text.par_chars(), text.chars());
        same!(text.par_char_indices(), text.char_indices());
        same!(text.par_bytes(), text.bytes());
        same!(text.par_lines(), text.lines());
        same!(text.par_split_whitespace(), text.split_whitespace());
    });
}

#[test]
fn grids_visit_every_cell_once() {
    property((0..40usize, 0..40usize, 0..10usize, 1..50usize), |(x, y, z, min)| {
        let mut flat: Vec<_> = grid((3..x, 0..y)).with_min_len(min).collect();
        flat.sort_unstable();
        assert!(flat.into_iter().eq((3..x).flat_map(|x| (0..y).map(move |y| (x, y)))));
        let mut cube: Vec<_> = grid((0..x, 0..y, 0..z)).with_min_len(min).collect();
        cube.sort_unstable();
        let cells = (0..x).flat_map(|x| (0..y).flat_map(move |y| (0..z).map(move |z| (x, y, z))));
        assert!(cube.into_iter().eq(cells));
    });
}

#[test]
fn grid_tiles_are_cut_along_the_longest_axis() {
    let widest = |cells: Vec<(usize, usize)>| {
        let xs = cells.iter().map(|c| c.0);
        let ys = cells.iter().map(|c| c.1);
        let span = |lo: Option<usize>, hi: Option<usize>| hi.unwrap() - lo.unwrap() + 1;
        (span(xs.clone().min(), xs.max()), span(ys.clone().min(), ys.max()))
    };
    crate::watchdog::watched(move |dog| {
        let runtime = dog.rig(4);
        runtime.block_on_fn(|| {
            let tiles = grid((0..4, 0..64)).fold(Vec::new, |mut tile, cell| {
                tile.push(cell);
                tile
            });
            let tiles: Vec<_> = tiles.map(widest).collect();
            assert!(tiles.len() > 1);
            // However far thieves made it go on: the short axis is cut only once it is the longest.
            assert!(tiles.iter().all(|(x, y)| *y <= 32 && (*x == 4 || *y <= 4)), "{tiles:?}");
        });
    });
}
