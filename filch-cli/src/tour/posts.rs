//! Chapters on posts and the hive: closures that nobody waits for, for any worker, for one, for later.

use super::guide::{Bound, Guide, Says};
use super::{Shown, seconds, span};
use crate::style::grouped;
use filch::{Handle, WorkerId};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

/// How many closures one worker is posted.
const POSTS: u64 = 1_000;

/// Late posts beside Tokio's, then posts and a future for one worker.
pub fn posts(guide: &Guide) -> Shown {
    let runtime = super::runtime(2);
    let worker = &runtime.workers()[1];
    let ran = post_all(&runtime, worker.id);
    let here = |&(number, place): &(u64, WorkerId)| (place == worker.id).then_some(number);
    assert!(ran.iter().map(here).eq((0..POSTS).map(Some)), "all there, in order");
    let awaits = stay(&runtime, worker.id);
    drop(runtime);
    let late = match guide.measure("post_delayed_1ms", "tokio", Bound::Time(None), 2) {
        Ok(late) => late.words(0, Says::Delay, |us| seconds(us / 1e6)),
        Err(failure) => failure,
    };
    format!(
        "{} posts to worker {} all ran there, in order\n\
         spawn_to kept a future that is not Send on that worker through {awaits} awaits\n\
         a post for 1 ms later runs late by (median): {late}",
        grouped(POSTS),
        worker.name,
    )
}

/// Each post with the worker that ran it, in the order in which they ran.
fn post_all(runtime: &Handle, worker: WorkerId) -> Vec<(u64, WorkerId)> {
    let (tell, told) = mpsc::channel();
    for number in 0..POSTS {
        let tell = tell.clone();
        let task = move || {
            let place = filch::worker::current().expect("a post runs on a worker").id();
            tell.send((number, place)).expect("the tour listens");
        };
        runtime.post_to(worker, task).expect("it is attached");
    }
    drop(tell);
    told.iter().collect()
}

/// How often a future awaited and found itself on its worker again.
fn stay(runtime: &Handle, worker: WorkerId) -> usize {
    const AWAITS: usize = 100;
    let stays = runtime.spawn_to(worker, move || {
        let own = Rc::new(worker);
        async move {
            let mut stays = 0;
            for _ in 0..AWAITS {
                filch::yield_now().await;
                let here = filch::worker::current().expect("a task runs on a worker").id();
                stays += usize::from(here == *own);
            }
            stays
        }
    });
    let stays = stays.expect("it is attached").wait();
    assert_eq!(stays, AWAITS, "it never left");
    stays
}

/// Another thread posts to this one, which runs the hive until it is asked to stop.
pub fn hive() -> Shown {
    let hive = filch::Builder::new().io_workers(1).compute_workers(1).hive();
    let hive = hive.expect("the configuration makes sense");
    let (handle, this_thread) = (hive.handle(), hive.workers()[0].id);
    let (tell, told) = mpsc::channel();
    let start = Instant::now();
    let poster = thread::spawn(move || {
        for number in 0..POSTS {
            let tell = tell.clone();
            let task = move || tell.send((number, thread::current().id()));
            handle.post_to(this_thread, move || _ = task()).expect("the hive is open");
        }
        let stop = handle.clone();
        handle.post_to(this_thread, move || stop.request_stop()).expect("the hive is open");
    });
    hive.run().expect("its threads start");
    let time = span(start.elapsed());
    poster.join().expect("the poster does not panic");
    let here = thread::current().id();
    assert!(told.iter().eq((0..POSTS).map(|number| (number, here))), "all here, in order");
    format!(
        "{} posts from another thread all ran on this one, in order, within {time}",
        grouped(POSTS)
    )
}
