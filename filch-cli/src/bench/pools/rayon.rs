//! Rayon, with its own loops, sorts and scopes.

use super::{Jobs, Loops, Pool};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

pub struct Rayon(ThreadPool);

impl Pool for Rayon {
    const NAME: &'static str = "rayon";
    type Scope<'s> = ();

    fn start(threads: usize) -> Self {
        Self(ThreadPoolBuilder::new().num_threads(threads).build().expect("rayon starts"))
    }

    fn run<T, F>(&self, work: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&mut ()) -> T + Send + 'static,
    {
        self.0.install(|| work(&mut ()))
    }

    #[inline(always)]
    fn join<A: Send, B: Send>(
        (): &mut (),
        now: impl FnOnce(&mut ()) -> A + Send,
        later: impl FnOnce(&mut ()) -> B + Send,
    ) -> (A, B) {
        rayon::join(|| now(&mut ()), || later(&mut ()))
    }

    fn with_child((): &mut (), child: impl FnOnce() + Send, body: impl FnOnce(&mut ()) + Send) {
        rayon::scope(|scope| {
            scope.spawn(|_| child());
            body(&mut ());
        });
    }
}

impl Loops for Rayon {
    fn for_each<T: Send>(data: &mut [T], body: impl Fn(&mut T) + Send + Sync) {
        data.par_iter_mut().for_each(body);
    }

    fn sum(data: &[u64]) -> u64 {
        data.par_iter().sum()
    }

    fn sort<T: Ord + Send>(data: &mut [T]) {
        data.par_sort();
    }

    fn sort_unstable<T: Ord + Send>(data: &mut [T]) {
        data.par_sort_unstable();
    }

    fn each_index(count: usize, body: impl Fn(usize) + Send + Sync) {
        (0..count).into_par_iter().for_each(body);
    }
}

impl Jobs for Rayon {
    fn run_and_wait<J: Fn() + Copy + Send + 'static>(job: J) {
        rayon::scope(move |scope| scope.spawn(move |_| job()));
    }

    fn run_children<J: Fn() + Copy + Send + 'static>(children: usize, job: J) {
        rayon::scope(move |scope| (0..children).for_each(|_| scope.spawn(move |_| job())));
    }
}
