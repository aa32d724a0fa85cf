//! What a piece may do, without any thread.

use super::*;

fn lengths(split: Split, len: usize, side: Side, into: &mut Vec<usize>) {
    match split.divide(len, side) {
        None => into.push(len),
        Some((at, left, right)) => {
            assert!(0 < at && at < len);
            lengths(left, at, Side::Here, into);
            lengths(right, len - at, side, into);
        }
    }
}

fn cut(state: State, len: usize, side: Side) -> Vec<usize> {
    let mut into = Vec::new();
    let split = Split { min: 10, max: usize::MAX, depth: u32::MAX, state };
    lengths(split, len, side, &mut into);
    into
}

#[test]
fn guided_piece_is_cut_further_only_if_it_was_stolen() {
    let spent = State::Guided { budget: 0, width: 4 };
    assert_eq!(cut(spent, 1000, Side::Here), [1000]);
    let again = cut(spent, 1000, Side::Stolen);
    assert!(again.len() > 4 && again.iter().all(|len| *len >= 10), "{again:?}");
}

#[test]
fn guided_loop_starts_with_two_pieces_for_each_of_a_power_of_two() {
    let start = State::Guided { budget: 4, width: 4 };
    assert_eq!(cut(start, 800, Side::Here), [100; 8]);
}

#[test]
fn equal_pieces_of_a_huge_loop_do_not_overflow() {
    let split = Split { min: 1, max: usize::MAX, depth: 8, state: State::Equal { pieces: 3 } };
    let (at, left, right) = split.divide(usize::MAX, Side::Here).unwrap();
    assert_eq!(at, usize::MAX / 3);
    assert!(left.divide(at, Side::Here).is_none());
    assert_eq!(right.divide(usize::MAX - at, Side::Here).unwrap().0, usize::MAX / 3);
}

#[test]
fn piece_of_one_is_never_cut() {
    for state in [
        State::Guided { budget: 9, width: 9 },
        State::Dynamic { grain: 1 },
        State::Equal { pieces: 1 },
    ] {
        let split = Split { min: 1, max: usize::MAX, depth: 8, state };
        assert!(split.divide(1, Side::Stolen).is_none());
        assert!(split.divide(0, Side::Stolen).is_none());
    }
}
