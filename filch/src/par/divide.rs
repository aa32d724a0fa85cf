//! How far an algorithm over a slice divides: a few pieces for each worker, and more where a piece
//! was stolen, because somebody was idle there.
//!
//! Also here: the moves of elements that several algorithms share.

use crate::fork::{Side, join, join_sides, width};

/// Halvings beyond one piece for each worker, so that a late worker still finds something. Guessed.
const EXTRA: u32 = 2;

/// Bytes below which moving elements is not worth a fork. Guessed: about 2 µs of copying.
const MOVE_BYTES: usize = 32 << 10;

/// What is left of the right to divide.
#[derive(Debug, Clone, Copy)]
pub(super) struct Divide {
    halvings: u32,
    fresh: u32,
    grain: usize,
}

impl Divide {
    /// For pieces that are never shorter than `grain`.
    pub(super) fn new(grain: usize) -> Self {
        let fresh = width().next_power_of_two().ilog2() + EXTRA;
        Self { halvings: fresh, fresh, grain: grain.max(1) }
    }

    /// For elements of `T` that are moved and nothing else.
    pub(super) fn moves<T>() -> Self {
        Self::new(MOVE_BYTES / size_of::<T>().max(1))
    }

    /// The right of each half, if `len` elements may be halved.
    pub(super) fn halve(self, len: usize) -> Option<Self> {
        let fits = len / 2 >= self.grain;
        (fits && self.halvings > 0).then(|| Self { halvings: self.halvings - 1, ..self })
    }

    /// A thief is proof of idleness: what it took may be divided anew.
    pub(super) fn on(self, side: Side) -> Self {
        match side {
            Side::Here => self,
            Side::Stolen => Self { halvings: self.fresh, ..self },
        }
    }
}

/// Exchanges the elements of two slices of one length.
pub(super) fn swap<T: Send>(a: &mut [T], b: &mut [T], divide: Divide) {
    debug_assert_eq!(a.len(), b.len());
    let Some(divide) = divide.halve(a.len()) else {
        a.swap_with_slice(b);
        return;
    };
    let mid = a.len() / 2;
    let (a1, a2) = a.split_at_mut(mid);
    let (b1, b2) = b.split_at_mut(mid);
    join_sides(|_| swap(a1, b1, divide), |side| swap(a2, b2, divide.on(side)));
}

/// Reverses the order of the elements.
pub(super) fn reverse<T: Send>(v: &mut [T]) {
    let mid = v.len() / 2;
    let odd = v.len() % 2;
    let (front, back) = v.split_at_mut(mid);
    swap_mirrored(front, &mut back[odd..], Divide::moves::<T>());
}

fn swap_mirrored<T: Send>(front: &mut [T], back: &mut [T], divide: Divide) {
    let Some(divide) = divide.halve(front.len()) else {
        for (a, b) in front.iter_mut().zip(back.iter_mut().rev()) {
            std::mem::swap(a, b);
        }
        return;
    };
    let mid = front.len() / 2;
    let (f1, f2) = front.split_at_mut(mid);
    let (b1, b2) = back.split_at_mut(back.len() - mid);
    join(|| swap_mirrored(f1, b2, divide), || swap_mirrored(f2, b1, divide));
}
