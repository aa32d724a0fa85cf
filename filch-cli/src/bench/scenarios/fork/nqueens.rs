//! All ways to put queens on a board so that none attacks another, a row at a time.

use super::sum_over;
use crate::bench::pools::{Pool, started, timed};
use crate::bench::scenarios::{Load, per_op};
use std::hint::black_box;

/// The largest board.
const MAX: usize = 12;

/// A board, the number of its solutions and of the boards on the way, the empty one included.
struct Known {
    size: usize,
    solutions: u64,
    boards: usize,
}

const FULL: Known = Known { size: MAX, solutions: 14_200, boards: 856_189 };
const QUICK: Known = Known { size: 8, solutions: 92, boards: 2_057 };

pub fn run<P: Pool>(load: Load) -> Vec<f64> {
    let known = load.pick(FULL, QUICK);
    let pool = started::<P>(load.threads);
    let (solutions, elapsed) =
        timed(&pool, move |scope| solutions::<P>(scope, black_box(Board::empty(known.size))));
    assert_eq!(solutions, known.solutions);
    per_op(elapsed, known.boards)
}

/// Queens in the first rows.
#[derive(Clone, Copy)]
struct Board {
    size: usize,
    rows: usize,
    columns: [u8; MAX],
}

impl Board {
    fn empty(size: usize) -> Self {
        Self { size, rows: 0, columns: [0; MAX] }
    }

    fn is_safe(&self, column: u8) -> bool {
        let queens = &self.columns[..self.rows];
        queens.iter().rev().zip(1..).all(|(&queen, distance)| {
            let apart = queen.abs_diff(column);
            apart != 0 && apart != distance
        })
    }

    /// The columns of the next row that no queen attacks, and how many there are.
    fn safe_columns(&self) -> ([u8; MAX], usize) {
        let (mut safe, mut count) = ([0; MAX], 0);
        for column in (0..self.size as u8).filter(|&column| self.is_safe(column)) {
            safe[count] = column;
            count += 1;
        }
        (safe, count)
    }

    fn with(mut self, column: u8) -> Self {
        self.columns[self.rows] = column;
        self.rows += 1;
        self
    }
}

fn solutions<P: Pool>(scope: &mut P::Scope<'_>, board: Board) -> u64 {
    if board.rows == board.size {
        return 1;
    }
    let (safe, count) = board.safe_columns();
    sum_over::<P, _>(scope, 0..count, &|scope, index| {
        solutions::<P>(scope, board.with(safe[index]))
    })
}

#[cfg(test)]
mod tests {
    use super::{Board, FULL, QUICK};

    fn boards(board: Board) -> usize {
        if board.rows == board.size {
            return 1;
        }
        let (safe, count) = board.safe_columns();
        1 + safe[..count].iter().map(|&column| boards(board.with(column))).sum::<usize>()
    }

    #[test]
    fn boards_are_counted_right() {
        for known in [QUICK, FULL] {
            assert_eq!(boards(Board::empty(known.size)), known.boards);
        }
    }
}
