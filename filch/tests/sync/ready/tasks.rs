//! Time, groups, graphs and waits.

use std::future::{poll_fn, ready};
use std::sync::Arc;
use std::time::Duration;

use filch::time::{Instant, interval, sleep, sleep_until, timeout, timeout_at};
use filch::{Graph, JoinHandle, NewWorker, Runtime, WorkerId};
use futures_lite::StreamExt;

use super::cases;

const NONE: [JoinHandle<()>; 0] = [];

/// A runtime with a worker that has left it.
async fn left() -> (Runtime, WorkerId) {
    let runtime = Runtime::builder().workers(1).attachable_workers(1).build().unwrap();
    let worker = runtime.attach(NewWorker::io()).unwrap();
    runtime.detach(worker).await.unwrap();
    (runtime, worker)
}

cases! { CASES;
    "Handle::detach": let (runtime, worker) = left().await =>
        runtime.detach(worker).await.unwrap_err();
    "time::sleep": let () = () => sleep(Duration::ZERO).await;
    "time::sleep_until": let () = () => sleep_until(Instant::now()).await;
    "time::timeout": let () = () => timeout(Duration::ZERO, ready(7)).await.unwrap();
    "time::timeout_at": let () = () => timeout_at(Instant::now(), ready(7)).await.unwrap();
    "time::Interval::tick": let mut often = interval(Duration::from_nanos(1)) =>
        often.tick().await;
    "time::Interval::poll_tick": let mut often = interval(Duration::from_nanos(1)) =>
        poll_fn(|cx| often.poll_tick(cx)).await;
    "time::Interval: Stream": let mut often = interval(Duration::from_nanos(1)) =>
        often.next().await;
    "yield_now": let () = () => filch::yield_now().await;
    "group": let () = () => filch::group(async |_| Ok::<_, ()>(())).await.unwrap();
    "Group::cancelled": let group = {
        let kept = filch::group(async |group| Ok::<_, ()>(group.clone())).await;
        kept.unwrap()
    } => group.cancelled().await;
    "wait_async": let () = () => filch::wait_async(Vec::from(NONE)).await;
    "wait_all_async": let () = () => filch::wait_all_async(NONE).await;
    "Graph::run_async", "graph::RunHandle::outcome": let graph = Arc::new(Graph::new()) => {
        graph.run_async().await;
        graph.run_async().outcome().await.unwrap();
    };
}
