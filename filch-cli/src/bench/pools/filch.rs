//! filch: as many compute workers as asked for, and one I/O worker, which sleeps here.

mod jobs;
mod loops;

use super::Pool;
use filch::Runtime;
use std::sync::mpsc;

pub struct Filch(Runtime);

impl Pool for Filch {
    const NAME: &'static str = crate::bench::peers::BASE;
    type Scope<'s> = ();

    fn start(threads: usize) -> Self {
        let runtime = Runtime::builder().io_workers(1).compute_workers(threads).build();
        Self(runtime.expect("filch starts"))
    }

    /// Through a channel: the handle's own wait would run the work here, outside the workers.
    fn run<T, F>(&self, work: F) -> T
    where
        T: Send + 'static,
        F: FnOnce(&mut ()) -> T + Send + 'static,
    {
        let (done, is_done) = mpsc::channel();
        drop(self.0.handle().spawn_fn(move || done.send(work(&mut ()))));
        is_done.recv().expect("the work does not panic")
    }

    #[inline(always)]
    fn join<A: Send, B: Send>(
        (): &mut (),
        now: impl FnOnce(&mut ()) -> A + Send,
        later: impl FnOnce(&mut ()) -> B + Send,
    ) -> (A, B) {
        filch::join(|| now(&mut ()), || later(&mut ()))
    }

    fn with_child((): &mut (), child: impl FnOnce() + Send, body: impl FnOnce(&mut ()) + Send) {
        filch::scope(|scope| {
            scope.spawn(|_| child());
            body(&mut ());
        });
    }
}
