//! The product of two square matrices, by quarters down to blocks.
//!
//! M1. A matrix is a slice of blocks in which each quarter is contiguous (top left, top right,
//!     bottom left, bottom right), and so on within the quarters; so it is cut without copying.
//! M2. All entries are small whole numbers, so that sums are exact in any order.

use crate::bench::pools::{Pool, started, timed};
use crate::bench::scenarios::{Load, per_op};
use std::sync::Arc;

/// Rows and columns of a block.
const SIDE: usize = 32;

/// Rows of a block one after another.
#[derive(Clone)]
#[repr(align(64))]
struct Block([[f32; SIDE]; SIDE]);

pub fn run<P: Pool>(load: Load) -> Vec<f64> {
    let side: usize = load.pick(1024, 128);
    let pool = started::<P>(load.threads);
    let (a, b) = (Arc::new(matrix(side, left)), Arc::new(matrix(side, right)));
    let mut product = matrix(side, |_, _| 0);
    let (shared_a, shared_b) = (Arc::clone(&a), Arc::clone(&b));
    let (product, elapsed) = timed(&pool, move |scope| {
        add_product::<P>(scope, &mut product, &shared_a, &shared_b);
        product
    });
    // A row, a column and what lies between them in no simple pattern.
    for index in 0..side {
        for (row, column) in [(0, index), (index, side - 1), (index, index * 7 % side)] {
            assert_eq!(entry(&product, side, row, column), known(side, row, column));
        }
    }
    per_op(elapsed, (side / SIDE).pow(3))
}

fn left(row: usize, column: usize) -> u8 {
    ((row * 7 + column * 3) % 11) as u8
}

fn right(row: usize, column: usize) -> u8 {
    ((row * 5 + column) % 7) as u8
}

fn known(side: usize, row: usize, column: usize) -> f32 {
    (0..side).map(|k| f32::from(left(row, k)) * f32::from(right(k, column))).sum()
}

fn matrix(side: usize, entry: fn(usize, usize) -> u8) -> Vec<Block> {
    let mut blocks = vec![Block([[0.0; SIDE]; SIDE]); (side / SIDE).pow(2)];
    for row in 0..side {
        for column in 0..side {
            let block = &mut blocks[block_index(side, row, column)];
            block.0[row % SIDE][column % SIDE] = entry(row, column).into();
        }
    }
    blocks
}

fn entry(matrix: &[Block], side: usize, row: usize, column: usize) -> f32 {
    matrix[block_index(side, row, column)].0[row % SIDE][column % SIDE]
}

/// Where the block with this entry lies (M1).
fn block_index(side: usize, row: usize, column: usize) -> usize {
    if side == SIDE {
        return 0;
    }
    let half = side / 2;
    let quarter = 2 * (row / half) + column / half;
    quarter * (half / SIDE).pow(2) + block_index(half, row % half, column % half)
}

/// Adds `a * b` to `c`.
fn add_product<P: Pool>(scope: &mut P::Scope<'_>, c: &mut [Block], a: &[Block], b: &[Block]) {
    if let ([c], [a], [b]) = (&mut *c, a, b) {
        return add_block_product(c, a, b);
    }
    let ([a11, a12, a21, a22], [b11, b12, b21, b22]) = (quarters(a), quarters(b));
    let (top, bottom) = c.split_at_mut(a.len() / 2);
    let (c11, c12) = top.split_at_mut(a.len() / 4);
    let (c21, c22) = bottom.split_at_mut(a.len() / 4);
    P::join(
        scope,
        |scope| {
            P::join(
                scope,
                |scope| add_two::<P>(scope, c11, [(a11, b11), (a12, b21)]),
                |scope| add_two::<P>(scope, c12, [(a11, b12), (a12, b22)]),
            )
        },
        |scope| {
            P::join(
                scope,
                |scope| add_two::<P>(scope, c21, [(a21, b11), (a22, b21)]),
                |scope| add_two::<P>(scope, c22, [(a21, b12), (a22, b22)]),
            )
        },
    );
}

fn add_two<P: Pool>(
    scope: &mut P::Scope<'_>,
    c: &mut [Block],
    products: [(&[Block], &[Block]); 2],
) {
    for (a, b) in products {
        add_product::<P>(scope, c, a, b);
    }
}

fn quarters(matrix: &[Block]) -> [&[Block]; 4] {
    let (top, bottom) = matrix.split_at(matrix.len() / 2);
    let (first, second) = top.split_at(matrix.len() / 4);
    let (third, fourth) = bottom.split_at(matrix.len() / 4);
    [first, second, third, fourth]
}

fn add_block_product(c: &mut Block, a: &Block, b: &Block) {
    for (c_row, a_row) in c.0.iter_mut().zip(&a.0) {
        for (&a_entry, b_row) in a_row.iter().zip(&b.0) {
            for (c_entry, &b_entry) in c_row.iter_mut().zip(b_row) {
                *c_entry += a_entry * b_entry;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{SIDE, add_product, block_index, entry, known, left, matrix, right};
    use crate::bench::pools::Seq;

    #[test]
    fn blocks_of_a_quarter_are_contiguous() {
        let corners = [(0, 0), (0, SIDE), (SIDE, 0), (SIDE, SIDE), (0, 2 * SIDE)];
        let indices = corners.map(|(row, column)| block_index(4 * SIDE, row, column));
        assert_eq!(indices, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn product_is_right_in_every_entry() {
        let side = 2 * SIDE;
        let mut product = matrix(side, |_, _| 0);
        add_product::<Seq>(&mut (), &mut product, &matrix(side, left), &matrix(side, right));
        for row in 0..side {
            for column in 0..side {
                assert_eq!(entry(&product, side, row, column), known(side, row, column));
            }
        }
    }
}
