//! Each adaptor does what its sequential twin does.

use std::collections::LinkedList;

use filch::par::prelude::*;

use super::{cut, numbers, property, same};

#[test]
fn item_by_item() {
    property(numbers(), |(v, how)| {
        let par = || cut(&v, how);
        same!(par().map(|n| n * 2), v.iter().map(|n| n * 2));
        same!(par().cloned(), v.iter().cloned());
        same!(par().copied(), v.iter().copied());
        same!(par().copied().update(|n| *n += 1), v.iter().map(|n| n + 1));
        same!(par().map_with(1, |one, n| n + *one), v.iter().map(|n| n + 1));
        same!(par().map_init(|| 1, |one, n| n + *one), v.iter().map(|n| n + 1));
        let seen = std::sync::atomic::AtomicUsize::new(0);
        let inspect =
            par().inspect(|_| _ = seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        same!(inspect, v.iter());
        assert_eq!(seen.into_inner(), v.len());
    });
}

#[test]
fn item_by_item_where_positions_matter_later() {
    property(numbers(), |(v, how)| {
        let par = || cut(&v, how);
        same!(par().map(|n| n * 2).rev(), v.iter().map(|n| n * 2).rev());
        same!(par().copied().enumerate().rev(), v.iter().copied().enumerate().rev());
        same!(par().map_with(1, |one, n| n + *one).rev(), v.iter().map(|n| n + 1).rev());
        same!(
            par().map_init(|| 1, |one, n| n + *one).enumerate(),
            v.iter().map(|n| n + 1).enumerate()
        );
        same!(par().copied().update(|n| *n -= 1).zip(&v), v.iter().map(|n| n - 1).zip(&v));
    });
}

#[test]
fn sifting() {
    property(numbers(), |(v, how)| {
        let par = || cut(&v, how);
        same!(par().filter(|n| **n > 0), v.iter().filter(|n| **n > 0));
        let half = |n: &i32| (n % 2 == 0).then_some(n / 2);
        same!(par().filter_map(half), v.iter().filter_map(half));
        same!(
            par().filter(|n| **n > 0).map(|n| n + 1),
            v.iter().filter(|n| **n > 0).map(|n| n + 1)
        );
        same!(par().map(Some).while_some(), v.iter());
    });
}

#[test]
fn flattening() {
    property(numbers(), |(v, how)| {
        let par = || cut(&v, how);
        let few = |n: &i32| 0..n.rem_euclid(5);
        same!(par().flat_map(|n| few(n).into_par_iter()), v.iter().flat_map(few));
        same!(par().flat_map_iter(few), v.iter().flat_map(few));
        same!(par().map(|n| few(n).collect::<Vec<_>>()).flatten(), v.iter().flat_map(few));
        same!(par().map(few).flatten_iter(), v.iter().flat_map(few));
        let nested =
            par().flat_map(|n| few(n).into_par_iter().flat_map(|m| (0..m).into_par_iter()));
        same!(
            nested.filter(|n| *n != 1),
            v.iter().flat_map(few).flat_map(|m| 0..m).filter(|n| *n != 1)
        );
    });
}

#[test]
fn by_position() {
    property((numbers(), 0..600usize, 1..60usize), |((v, how), n, step)| {
        let par = || cut(&v, how);
        same!(par().enumerate(), v.iter().enumerate());
        same!(par().rev(), v.iter().rev());
        same!(par().skip(n), v.iter().skip(n));
        same!(par().take(n), v.iter().take(n));
        same!(par().rev().skip(n).enumerate(), v.iter().rev().skip(n).enumerate());
        same!(par().step_by(step), v.iter().step_by(step));
        same!(par().step_by(step).rev(), v.iter().step_by(step).rev());
        same!(par().skip(n).take(step).rev(), v.iter().skip(n).take(step).rev());
        same!(par().copied().chunks(step), v.chunks(step).map(<[_]>::to_vec));
        same!(par().copied().chunks(step).rev(), v.chunks(step).rev().map(<[_]>::to_vec));
    });
}

#[test]
fn two_together() {
    property((numbers(), numbers()), |((a, how), (b, other))| {
        let (x, y) = (|| cut(&a, how), || cut(&b, other));
        same!(x().zip(y()), a.iter().zip(&b));
        same!(x().zip(y()).rev(), a.iter().zip(&b).collect::<Vec<_>>().into_iter().rev());
        same!(x().chain(y()), a.iter().chain(&b));
        same!(x().chain(y()).rev(), a.iter().chain(&b).rev());
        same!(x().chain(y()).enumerate(), a.iter().chain(&b).enumerate());
        let odd = |n: &&i32| **n % 2 != 0;
        same!(x().filter(odd).chain(y()), a.iter().filter(odd).chain(&b));
        same!(x().chain(y().filter(odd)), a.iter().chain(b.iter().filter(odd)));
        let turns = in_turn(&a, &b);
        same!(x().interleave(y()), turns.iter().copied());
        same!(x().interleave(y()).rev(), turns.iter().copied().rev());
        same!(x().interleave(y()).skip(3), turns.iter().copied().skip(3));
        let shortest = if a.len() <= b.len() { 2 * a.len() } else { 2 * b.len() + 1 };
        same!(x().interleave_shortest(y()), turns.iter().copied().take(shortest));
    });
}

fn in_turn<'a>(a: &'a [i32], b: &'a [i32]) -> Vec<&'a i32> {
    let (mut a, mut b) = (a.iter(), b.iter());
    let mut turns = Vec::new();
    while a.len() + b.len() > 0 {
        turns.extend(a.next());
        turns.extend(b.next());
    }
    turns
}

#[test]
fn zip_eq_takes_equal_lengths() {
    assert_eq!([1, 2].par_iter().zip_eq(&[3, 4]).count(), 2);
}

#[test]
#[should_panic(expected = "iterators of 2 and of 1 items")]
fn zip_eq_refuses_other_lengths() {
    let _ = [1, 2].par_iter().zip_eq(&[3]);
}

#[test]
#[should_panic(expected = "a step leads on")]
fn step_of_nothing_is_refused() {
    let _ = [1, 2].par_iter().step_by(0);
}

#[test]
fn folds_keep_all_items_in_order() {
    property(numbers(), |(v, how)| {
        let par = || cut(&v, how);
        let push = |mut all: Vec<i32>, n: &i32| {
            all.push(*n);
            all
        };
        assert_eq!(par().fold(Vec::new, push).collect::<Vec<_>>().concat(), v);
        assert_eq!(par().fold_with(Vec::new(), push).collect::<Vec<_>>().concat(), v);
        let try_push = |all: Vec<i32>, n: &i32| if *n < 90 { Ok(push(all, n)) } else { Err(*n) };
        let concat = |a: Vec<i32>, b: Vec<i32>| Ok([a, b].concat());
        let expected = v.iter().find(|n| **n >= 90).map_or(Ok(v.clone()), |_| Err(()));
        let tried = par().try_fold(Vec::new, try_push).try_reduce(Vec::new, concat);
        assert_eq!(tried.map_err(|n| assert!(n >= 90)), expected);
        let tried = par().try_fold_with(Vec::new(), try_push).try_reduce(Vec::new, concat);
        assert_eq!(tried.map_err(|n| assert!(n >= 90)), expected);
    });
}

#[test]
fn long_chain_of_adaptors() {
    property(numbers(), |(v, how)| {
        let par = cut(&v, how).copied().enumerate().skip(1).step_by(3).rev();
        let par = par.map(|(i, n)| i as i32 * n).filter(|n| n % 7 != 0).flat_map_iter(|n| [n, -n]);
        let seq: Vec<_> = v.iter().copied().enumerate().skip(1).step_by(3).collect();
        let seq = seq.into_iter().rev().map(|(i, n)| i as i32 * n);
        same!(par, seq.filter(|n| n % 7 != 0).flat_map(|n| [n, -n]));
    });
}
