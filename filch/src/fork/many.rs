//! Joins of more than two closures.

use std::panic::resume_unwind;

use super::{caught, join};
use crate::task::group::guard_user_code;

/// Closures that are called together by [`join_many`]: a tuple of two to eight.
///
/// ```
/// use filch::Joined;
/// let (a, b) = (|| 1, || 2).join_here();
/// assert_eq!(a + b, 3);
/// ```
pub trait Joined {
    /// The values, in the same order.
    type Output;

    /// Calls all, perhaps at the same time, and returns all values.
    fn join_here(self) -> Self::Output;
}

/// Calls all closures of a tuple, perhaps at the same time, and returns their values as a tuple.
///
/// ```
/// let mut v = vec![3, 1, 2];
/// let (sorted, sum, name) = filch::join_many((|| v.sort(), || 1 + 1, || "three"));
/// assert_eq!((sorted, sum, name), ((), 2, "three"));
/// assert_eq!(v, [1, 2, 3]);
/// ```
///
/// # Panics
/// As [`join`]: once all closures have been called, with the first panic in the order of the tuple.
pub fn join_many<T: Joined>(closures: T) -> T::Output {
    closures.join_here()
}

/// Calls every closure, perhaps at the same time, and returns the values in the same order.
///
/// ```
/// let words = ["to", "be"];
/// let lengths = filch::join_all(words.map(|word| move || word.len()));
/// assert_eq!(lengths, [2, 2]);
/// ```
///
/// # Panics
/// As [`join`]: once all closures have been called, with the first panic in order.
pub fn join_all<F, R>(closures: impl IntoIterator<Item = F>) -> Vec<R>
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    let mut cells: Vec<_> = closures.into_iter().map(Cell::Closure).collect();
    let called = caught(|| {
        super::on_worker(|| {
            let _announced = super::announce(cells.len());
            call_all(&mut cells);
        })
    });
    if let Err(payload) = called {
        // J6: each by itself, because the next is dropped though the drop of one panics.
        cells.into_iter().for_each(|cell| _ = guard_user_code(|| drop(cell)));
        resume_unwind(payload);
    }
    cells.into_iter().map(Cell::into_value).collect()
}

/// A closure, or what it returned.
enum Cell<F, R> {
    Closure(F),
    Called,
    Value(R),
}

impl<F: FnOnce() -> R, R> Cell<F, R> {
    fn call(&mut self) {
        if let Self::Closure(closure) = std::mem::replace(self, Self::Called) {
            *self = Self::Value(closure());
        }
    }

    fn into_value(self) -> R {
        match self {
            Self::Value(value) => value,
            Self::Closure(_) | Self::Called => unreachable!("all were called"),
        }
    }
}

/// Calls all, by halves.
fn call_all<F: FnOnce() -> R + Send, R: Send>(cells: &mut [Cell<F, R>]) {
    match cells {
        [] => {}
        [cell] => cell.call(),
        cells => {
            let (left, right) = cells.split_at_mut(cells.len() / 2);
            join(|| call_all(left), || call_all(right));
        }
    }
}

macro_rules! joined {
    ($($f:ident $r:ident),+ => $body:expr) => {
        impl<$($f, $r),+> Joined for ($($f,)+)
        where
            $($f: FnOnce() -> $r + Send, $r: Send,)+
        {
            type Output = ($($r,)+);

            #[allow(non_snake_case, reason = "a closure is named as its type")]
            fn join_here(self) -> Self::Output {
                let ($($f,)+) = self;
                $body
            }
        }
    };
}

joined!(A RA, B RB => join(A, B));
joined!(A RA, B RB, C RC => {
    let (a, (b, c)) = join(A, || join(B, C));
    (a, b, c)
});
joined!(A RA, B RB, C RC, D RD => {
    let ((a, b), (c, d)) = join(|| join(A, B), || join(C, D));
    (a, b, c, d)
});
joined!(A RA, B RB, C RC, D RD, E RE => {
    let ((a, b), (c, d, e)) = join(|| join(A, B), || join_many((C, D, E)));
    (a, b, c, d, e)
});
joined!(A RA, B RB, C RC, D RD, E RE, F RF => {
    let ((a, b, c), (d, e, f)) = join(|| join_many((A, B, C)), || join_many((D, E, F)));
    (a, b, c, d, e, f)
});
joined!(A RA, B RB, C RC, D RD, E RE, F RF, G RG => {
    let ((a, b, c), (d, e, f, g)) = join(|| join_many((A, B, C)), || join_many((D, E, F, G)));
    (a, b, c, d, e, f, g)
});
joined!(A RA, B RB, C RC, D RD, E RE, F RF, G RG, H RH => {
    let ((a, b, c, d), (e, f, g, h)) = join(|| join_many((A, B, C, D)), || join_many((E, F, G, H)));
    (a, b, c, d, e, f, g, h)
});
