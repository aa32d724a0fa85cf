//! What a piece may do, without any thread.

use super::*;

fn lengths(split: Split<'_>, len: usize, side: Side, into: &mut Vec<usize>) {
    match split.divide(len, side) {
        None => into.push(len),
        Some((at, left, right)) => {
            assert!(0 < at && at < len);
            lengths(left, at, Side::Here, into);
            lengths(right, len - at, side, into);
        }
    }
}

/// The pieces of a guided loop for four workers that has so much of a share.
fn cut(share: usize, len: usize, side: Side) -> Vec<usize> {
    let mut into = Vec::new();
    let rules = Rules { min: 10, max: usize::MAX, cut: Cut::Guided { width: 4 } };
    lengths(Split { rules: &rules, share, depth: u32::MAX }, len, side, &mut into);
    into
}

#[test]
fn guided_piece_is_cut_further_only_if_it_was_stolen() {
    assert_eq!(cut(0, 1000, Side::Here), [1000]);
    let again = cut(0, 1000, Side::Stolen);
    assert!(again.len() > 4 && again.iter().all(|len| *len >= 10), "{again:?}");
}

#[test]
fn guided_loop_starts_with_two_pieces_for_each_of_a_power_of_two() {
    assert_eq!(cut(4, 800, Side::Here), [100; 8]);
}

#[test]
fn equal_pieces_of_a_huge_loop_do_not_overflow() {
    let rules = Rules { min: 1, max: usize::MAX, cut: Cut::Equal };
    let split = Split { rules: &rules, share: 3, depth: 8 };
    let (at, left, right) = split.divide(usize::MAX, Side::Here).unwrap();
    assert_eq!(at, usize::MAX / 3);
    assert!(left.divide(at, Side::Here).is_none());
    assert_eq!(right.divide(usize::MAX - at, Side::Here).unwrap().0, usize::MAX / 3);
}

#[test]
fn piece_of_one_is_never_cut() {
    for cut in [Cut::Guided { width: 9 }, Cut::Dynamic { grain: 1 }, Cut::Equal] {
        let rules = Rules { min: 1, max: usize::MAX, cut };
        let split = Split { rules: &rules, share: 1, depth: 8 };
        assert!(split.divide(1, Side::Stolen).is_none());
        assert!(split.divide(0, Side::Stolen).is_none());
    }
}
