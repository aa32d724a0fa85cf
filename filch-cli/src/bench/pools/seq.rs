//! Plain sequential code: the same program with calls in place of forks, on the calling thread.

use super::{Loops, Pool, Scans};

pub struct Seq;

impl Pool for Seq {
    const NAME: &'static str = "seq";
    type Scope<'s> = ();

    fn start(_: usize) -> Self {
        Self
    }

    fn run<T, F>(&self, work: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&mut ()) -> T + Send + 'static,
    {
        work(&mut ())
    }

    #[inline(always)]
    fn join<A: Send, B: Send>(
        (): &mut (),
        now: impl FnOnce(&mut ()) -> A + Send,
        later: impl FnOnce(&mut ()) -> B + Send,
    ) -> (A, B) {
        let now = now(&mut ());
        (now, later(&mut ()))
    }
}

impl Loops for Seq {
    fn for_each<T: Send>(data: &mut [T], body: impl Fn(&mut T) + Send + Sync) {
        data.iter_mut().for_each(body);
    }

    fn sum(data: &[u64]) -> u64 {
        data.iter().sum()
    }

    fn sort<T: Ord + Send>(data: &mut [T]) {
        data.sort();
    }

    fn sort_unstable<T: Ord + Send>(data: &mut [T]) {
        data.sort_unstable();
    }

    fn each_index(count: usize, body: impl Fn(usize) + Send + Sync) {
        (0..count).for_each(body);
    }
}

impl Scans for Seq {
    fn scan<T: Copy + Send + Sync>(data: &mut [T], op: impl Fn(T, T) -> T + Send + Sync) {
        let mut elements = data.iter_mut();
        let Some(&mut mut sum) = elements.next() else { return };
        for element in elements {
            sum = op(sum, *element);
            *element = sum;
        }
    }
}
