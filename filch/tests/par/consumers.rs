//! Each ending has the result of its sequential twin.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, LinkedList, VecDeque};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use filch::par::Either;
use filch::par::prelude::*;

use super::{cut, numbers, property};

#[test]
fn calls_for_each_item() {
    property(numbers(), |(v, how)| {
        let par = || cut(&v, how);
        let sum: i64 = v.iter().map(|n| i64::from(*n)).sum();
        let seen = AtomicI64::new(0);
        let add = |n: &i32| _ = seen.fetch_add((*n).into(), Ordering::Relaxed);
        par().for_each(add);
        par().for_each_with(1, |_, n| add(n));
        par().for_each_init(|| 1, |_, n| add(n));
        let try_add = |n| {
            add(n);
            Some(())
        };
        par().try_for_each(try_add).unwrap();
        par().try_for_each_with(1, |_, n| try_add(n)).unwrap();
        par().try_for_each_init(|| 1, |_, n| try_add(n).ok_or(())).unwrap();
        assert_eq!(seen.into_inner(), 6 * sum);
    });
}

#[test]
fn one_value_of_all() {
    property(numbers(), |(v, how)| {
        let par = || cut(&v, how).copied().map(i64::from);
        let seq = || v.iter().copied().map(i64::from);
        assert_eq!(par().count(), seq().count());
        assert_eq!(par().sum::<i64>(), seq().sum::<i64>());
        assert_eq!(
            par().map(|n| n | 1).map(std::num::Wrapping).product::<std::num::Wrapping<i64>>(),
            seq().map(|n| n | 1).map(std::num::Wrapping).product()
        );
        assert_eq!(
            par().map(|n| n.checked_sub(1)).sum::<Option<i64>>(),
            seq().map(|n| n.checked_sub(1)).sum()
        );
        assert_eq!(par().reduce(|| 0, |a, b| a + b), seq().sum::<i64>());
        assert_eq!(par().reduce_with(|a, b| a.max(b)), seq().max());
        assert_eq!(par().map(Some).try_reduce(|| 0, |a, b| a.checked_add(b)), Some(seq().sum()));
        assert_eq!(
            par().map(Some).try_reduce_with(|a, b| a.checked_add(b)),
            (!v.is_empty()).then(|| Some(seq().sum()))
        );
        let words = cut(&v, how).map(|n| n.to_string());
        assert_eq!(
            words.reduce(String::new, |a, b| a + &b),
            v.iter().map(i32::to_string).collect::<String>()
        );
    });
}

#[test]
fn smallest_and_largest_pick_the_same_of_equals() {
    property(numbers(), |(v, how)| {
        let par = || cut(&v, how).enumerate();
        let seq = || v.iter().enumerate();
        assert_eq!(cut(&v, how).min(), v.iter().min());
        assert_eq!(cut(&v, how).max(), v.iter().max());
        assert_eq!(par().min_by(|a, b| a.1.cmp(b.1)), seq().min_by(|a, b| a.1.cmp(b.1)));
        assert_eq!(par().max_by(|a, b| a.1.cmp(b.1)), seq().max_by(|a, b| a.1.cmp(b.1)));
        assert_eq!(par().min_by_key(|a| a.1 / 10), seq().min_by_key(|a| a.1 / 10));
        assert_eq!(par().max_by_key(|a| a.1 / 10), seq().max_by_key(|a| a.1 / 10));
    });
}

#[test]
fn searching() {
    property((numbers(), -110..110), |((v, how), x)| {
        let par = || cut(&v, how);
        let is = |n: &i32| *n == x;
        assert_eq!(par().any(is), v.iter().any(is));
        assert_eq!(par().all(|n| *n != x), v.iter().all(|n| *n != x));
        assert_eq!(par().find_any(|n| is(n)), v.iter().find(|n| is(n)));
        let above = |n: &(usize, &i32)| *n.1 > x;
        assert_eq!(par().enumerate().find_first(above), v.iter().enumerate().find(above));
        assert_eq!(par().enumerate().find_last(above), v.iter().enumerate().rfind(above));
        let sifted = || par().enumerate().filter(|(i, _)| i % 3 == 0);
        assert_eq!(sifted().find_first(above), v.iter().enumerate().step_by(3).find(above));
        assert_eq!(sifted().find_last(above), v.iter().enumerate().step_by(3).rfind(above));
        let half = |n: &i32| (*n > x && n % 2 == 0).then_some(n / 2);
        assert_eq!(par().find_map_any(half).is_some(), v.iter().any(|n| half(n).is_some()));
        assert_eq!(par().find_map_first(half), v.iter().find_map(half));
        assert_eq!(par().find_map_last(half), v.iter().rev().find_map(half));
        let at = par().position_any(is);
        assert_eq!(at.map(|at| v[at]), v.iter().copied().find(|n| is(n)));
        assert_eq!(par().position_first(is), v.iter().position(is));
        assert_eq!(par().position_last(is), v.iter().rposition(is));
    });
}

#[test]
fn first_and_last_of_many_nested_loops() {
    property((numbers(), 0..40), |((v, how), x)| {
        let par = || {
            cut(&v, how)
                .enumerate()
                .flat_map(|(i, n)| (0..n.abs() / 2).into_par_iter().map(move |m| (i, m)))
        };
        let seq = || v.iter().enumerate().flat_map(|(i, n)| (0..n.abs() / 2).map(move |m| (i, m)));
        assert_eq!(par().find_first(|(_, m)| *m == x), seq().find(|(_, m)| *m == x));
        assert_eq!(par().find_last(|(_, m)| *m == x), seq().rfind(|(_, m)| *m == x));
    });
}

#[test]
fn breaking_off() {
    property((numbers(), -110..110), |((v, how), x)| {
        let par = || cut(&v, how);
        let odd = v.iter().filter(|n| **n == x).count() > 0;
        assert_eq!(par().try_for_each(|n| (*n != x).then_some(())).is_none(), odd);
        assert_eq!(
            par().try_for_each(|n| if *n == x { Err(*n) } else { Ok(()) }),
            if odd { Err(x) } else { Ok(()) }
        );
        let flow = par().try_for_each(|n| {
            if *n == x { ControlFlow::Break(*n) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(flow.is_break(), odd);
        let all: Option<Vec<i32>> = par().map(|n| (*n != x).then_some(*n)).collect();
        assert_eq!(all, (!odd).then(|| v.clone()));
        let all: Result<Vec<i32>, i32> =
            par().map(|n| if *n == x { Err(x) } else { Ok(*n) }).collect();
        assert_eq!(all, if odd { Err(x) } else { Ok(v.clone()) });
    });
}

#[test]
fn collections() {
    property(numbers(), |(v, how)| {
        macro_rules! collect {
            ($($into:ty: $items:ident),*) => { $(
                let expected: $into = $items!(v.iter()).collect();
                assert_eq!($items!(cut(&v, how)).collect::<$into>(), expected);
                let odd = |n: &&i32| **n % 2 != 0;
                let expected: $into = $items!(v.iter().filter(odd)).collect();
                assert_eq!($items!(cut(&v, how).filter(odd)).collect::<$into>(), expected);
            )* };
        }
        macro_rules! copied {
            ($i:expr) => {
                $i.copied()
            };
        }
        macro_rules! pairs {
            ($i:expr) => {
                $i.map(|n| (*n, n % 7))
            };
        }
        macro_rules! strings {
            ($i:expr) => {
                $i.map(|n| n.to_string())
            };
        }
        macro_rules! units {
            ($i:expr) => {
                $i.map(|_| ())
            };
        }
        collect!(Vec<i32>: copied, Box<[i32]>: copied, std::sync::Arc<[i32]>: copied, VecDeque<i32>: copied,
            LinkedList<i32>: copied, BTreeSet<i32>: copied, HashSet<i32>: copied,
            BTreeMap<i32, i32>: pairs, HashMap<i32, i32>: pairs, String: strings, (): units, Vec<()>: units);
    });
}

#[test]
fn extending_and_collecting_into_what_is_there() {
    property(numbers(), |(v, how)| {
        let mut extended = vec![7; 3];
        extended.par_extend(cut(&v, how).copied());
        extended.par_extend(cut(&v, how).filter(|n| **n > 0));
        let positive = v.iter().filter(|n| **n > 0);
        assert!(extended.iter().eq([7; 3].iter().chain(&v).chain(positive)));
        cut(&v, how).map(|n| n * 2).collect_into_vec(&mut extended);
        assert!(extended.iter().copied().eq(v.iter().map(|n| n * 2)));
        let mut labels = Vec::new();
        cut(&v, how).map(|n| (n + 1, n.to_string())).unzip_into_vecs(&mut extended, &mut labels);
        assert!(extended.iter().copied().eq(v.iter().map(|n| n + 1)));
        assert!(labels.into_iter().eq(v.iter().map(i32::to_string)));
    });
}

#[test]
fn two_collections() {
    property(numbers(), |(v, how)| {
        let par = || cut(&v, how).copied();
        let seq = || v.iter().copied();
        let split: (Vec<_>, Vec<_>) = par().partition(|n| *n > 0);
        assert_eq!(split, seq().partition(|n| *n > 0));
        let halves: (Vec<_>, BTreeSet<_>) = par().map(|n| (n, -n)).unzip();
        assert_eq!(halves, seq().map(|n| (n, -n)).unzip());
        let (words, rest): (Vec<String>, Vec<i32>) = par().partition_map(|n| {
            if n % 3 == 0 { Either::Left(n.to_string()) } else { Either::Right(n) }
        });
        assert!(words.into_iter().eq(seq().filter(|n| n % 3 == 0).map(|n| n.to_string())));
        assert!(rest.into_iter().eq(seq().filter(|n| n % 3 != 0)));
    });
}

#[test]
fn comparing() {
    property((numbers(), numbers()), |((a, how), (mut b, other))| {
        if a.len() % 2 == 0 {
            b.splice(..a.len().min(b.len()), a[..a.len().min(b.len())].iter().copied());
        }
        let (x, y) = (|| cut(&a, how), || cut(&b, other));
        assert_eq!(x().cmp(y()), a.iter().cmp(&b));
        assert_eq!(x().partial_cmp(y()), a.iter().partial_cmp(&b));
        assert_eq!(x().eq(y()), a == b);
        assert_eq!(x().ne(y()), a != b);
        assert_eq!(x().lt(y()), a < b);
        assert_eq!(x().le(y()), a <= b);
        assert_eq!(x().gt(y()), a > b);
        assert_eq!(x().ge(y()), a >= b);
        assert!(x().eq(&a));
    });
}

#[test]
fn order_of_side_effects_of_one_piece_is_kept() {
    let seen = Mutex::new(Vec::new());
    let one = filch::par::dynamic(1).max_depth(0);
    (0..100).into_par_iter().partition_by(one).for_each(|n| seen.lock().unwrap().push(n));
    assert!(seen.into_inner().unwrap().into_iter().eq(0..100));
}
