//! Profiles of runs, in virtual time or under a clock moved by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use filch::Graph;
use filch::graph::{NodeId, Semaphore};
use filch::testkit::{self, Clock, ManualClock, Sim};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Runs on a runtime whose clock only `program` moves.
fn by_hand<T: Send>(program: impl FnOnce(&ManualClock) -> T + Send) -> T {
    let clock = Arc::new(ManualClock::new());
    let builder = filch::Builder::new().workers(1).clock(Clock::Manual(clock.clone()));
    let runtime = builder.build().unwrap();
    runtime.block_on_fn(|| program(&clock))
}

#[test]
fn a_chain_is_its_own_critical_path() {
    by_hand(|clock| {
        let mut g = Graph::new();
        let nodes =
            [3, 0, 5].map(|time| g.node(format!("n{time}"), move || clock.advance(ms(time))));
        g.linearize(nodes);
        let (run, profile) = g.runner().profile();
        assert!(run.is_ok());
        assert_eq!(profile.critical_names(), ["n3", "n0", "n5"]);
        assert_eq!(
            (profile.elapsed(), profile.work(), profile.critical_time()),
            (ms(8), ms(8), ms(8))
        );
        assert_eq!((profile.possible_parallelism(), profile.achieved_parallelism()), (1.0, 1.0));
        let times: Vec<_> = profile.spans().iter().map(|span| (span.start(), span.end())).collect();
        assert_eq!(times, [(ms(0), ms(3)), (ms(3), ms(3)), (ms(3), ms(8))]);
    });
}

#[test]
fn nodes_that_take_no_time_are_in_the_order_of_their_edges() {
    by_hand(|_| {
        let mut g = Graph::new();
        let last = g.node("last", || ());
        let first = g.node("first", || ());
        g.precede(first, last);
        let (_, profile) = g.runner().profile();
        assert_eq!(profile.critical_names(), ["first", "last"]);
        assert_eq!(profile.possible_parallelism(), 1.0);
    });
}

#[test]
fn a_loop_counts_each_round() {
    by_hand(|clock| {
        let rounds = AtomicUsize::new(0);
        let mut g = Graph::new();
        let start = g.node("start", || ());
        let body = g.node("body", || clock.advance(ms(2)));
        let again = g.condition("again", || usize::from(rounds.fetch_add(1, Relaxed) == 2));
        let done = g.node("done", || clock.advance(ms(1)));
        g.linearize([start.id(), body.id(), again.id()]);
        g.precede(again, (body, done));
        let (_, profile) = g.runner().profile();
        assert_eq!((profile.runs_of(body), profile.time_of(body)), (3, ms(6)));
        assert_eq!(profile.critical_time(), ms(7));
        assert_eq!(
            profile.critical_names().join(" "),
            "start body again body again body again done"
        );
        assert!(profile.to_dot().contains("in 3 runs"));
    });
}

#[test]
fn a_failed_run_has_a_profile_and_the_next_has_none_of_it() {
    by_hand(|clock| {
        let bad = AtomicUsize::new(1);
        let mut g = Graph::new();
        let a = g.node("a", || {
            clock.advance(ms(4));
            assert_eq!(bad.load(Relaxed), 0, "bad");
        });
        let b = g.node("b", || ());
        g.precede(a, b);
        let (run, profile) = g.runner().profile();
        assert_eq!(run.unwrap_err().skipped(), [b.id()]);
        assert_eq!((profile.time_of(a), profile.runs_of(b)), (ms(4), 0));
        assert!(profile.to_dot().contains("label=\"b\", style=dashed"));
        bad.store(0, Relaxed);
        g.run();
        let (_, profile) = g.runner().profile();
        assert_eq!((profile.runs_of(a), profile.runs_of(b)), (1, 1));
    });
}

/// A diamond with a fast and a slow side, whose nodes sleep.
fn diamond() -> (Graph<'static>, [NodeId; 4]) {
    let mut g = Graph::new();
    let sleeps = [("first", 1), ("fast", 2), ("slow", 10), ("last", 1)];
    let nodes = sleeps.map(|(name, time)| g.node(name, move || testkit::sleep(ms(time))).id());
    let [first, fast, slow, last] = nodes;
    g.precede(first, [fast, slow]);
    g.succeed(last, [fast, slow]);
    (g, nodes)
}

#[test]
fn of_a_diamond_the_slow_side_is_critical_under_every_seed() {
    Sim::new().check(0..50, || {
        let (g, [first, fast, slow, last]) = diamond();
        let (run, profile) = g.runner().profile();
        assert!(run.is_ok());
        assert!(profile.critical_path().eq([first, slow, last]));
        assert!(profile.work() >= ms(14) && profile.critical_time() >= ms(12));
        assert!(profile.elapsed() >= profile.critical_time());
        assert!(profile.possible_parallelism() > 1.1);
        assert!(profile.achieved_parallelism() <= profile.possible_parallelism());
        assert!(profile.spans().iter().any(|span| span.node() == fast));
    });
}

#[test]
fn the_same_seed_gives_the_same_profile() {
    let trace = |seed| Sim::new().seed(seed).run(|| diamond().0.runner().profile().1.to_trace());
    for seed in 0..5 {
        assert_eq!(trace(seed), trace(seed));
    }
}

#[test]
fn what_an_async_node_waits_is_its_time_and_overlaps() {
    Sim::new().check(0..20, || {
        let mut g = Graph::new();
        let waits =
            ["one", "two", "three"].map(|name| g.async_node(name, || filch::time::sleep(ms(10))));
        let last = g.node("last", || ());
        g.succeed(last, waits);
        let (_, profile) = g.runner().profile();
        assert!(waits.iter().all(|&wait| profile.time_of(wait) >= ms(10)));
        assert!(profile.achieved_parallelism() > 2.0, "{profile}");
        let trace = profile.to_trace();
        assert_eq!(trace.matches("\"ph\":\"b\"").count(), 3);
        assert_eq!(trace.matches("\"ph\":\"e\"").count(), 3);
    });
}

#[test]
fn the_wait_for_a_permit_is_not_time_at_work() {
    Sim::new().check(0..20, || {
        let one = Semaphore::new(1);
        let mut g = Graph::new();
        let nodes = ["a", "b"].map(|name| g.node(name, || testkit::sleep(ms(10))));
        g.limit(nodes, &one, 1);
        let (_, profile) = g.runner().profile();
        let [first, second] = profile.spans() else { panic!("two spans") };
        assert!(first.end() <= second.start());
        assert!(profile.work() < ms(21) && profile.elapsed() >= ms(20));
    });
}

#[test]
fn a_trace_is_json_with_a_track_for_each_worker() {
    let mut g = Graph::new();
    g.node("quote \" and \\ slash", || ());
    let (_, profile) = g.runner().profile();
    let trace = profile.to_trace();
    assert!(
        trace.starts_with("{\"traceEvents\":[{")
            && trace.ends_with("],\"displayTimeUnit\":\"ns\"}")
    );
    assert!(trace.contains(r#""name":"quote \" and \\ slash","cat":"node","ph":"X","ts":"#));
    assert_eq!(trace.matches("thread_name").count(), 1);
    assert_eq!(trace.matches('{').count(), trace.matches('}').count());
}

#[test]
fn a_graph_without_nodes_has_an_empty_profile() {
    let g = Graph::new();
    let (_, profile) = g.runner().profile();
    assert!(profile.spans().is_empty() && profile.critical_path().next().is_none());
    assert_eq!(profile.possible_parallelism(), 1.0);
}
