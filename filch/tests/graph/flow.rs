//! Conditions, loops, subflows, modules, schedulers, semaphores, priorities, async nodes.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use filch::graph::{Own, Semaphore};
use filch::testkit::{self, Sim};
use filch::{Graph, Priority};

#[test]
fn a_loop_runs_until_its_condition_says_otherwise() {
    let rounds = AtomicUsize::new(0);
    let mut g = Graph::new();
    let start = g.node("start", || rounds.store(0, Relaxed));
    let body = g.node("body", || _ = rounds.fetch_add(1, Relaxed));
    let again = g.condition("again", || usize::from(rounds.load(Relaxed) == 1000));
    let done = g.node("done", || assert_eq!(rounds.load(Relaxed), 1000));
    g.linearize([start.id(), body.id(), again.id()]);
    g.precede(again, (body, done));
    g.run_n(3);
    assert_eq!(rounds.load(Relaxed), 1000);
}

#[test]
fn a_choice_out_of_range_ends_the_branch() {
    let mut g = Graph::new();
    let choice = g.condition("choice", || 7);
    let never = g.node("never", || unreachable!());
    let after = g.node("after", || unreachable!());
    g.precede(choice, never);
    g.precede(never, after);
    g.run_n(2);
}

#[test]
fn counters_are_right_again_after_a_branch_that_was_not_taken() {
    let (side, takes, joins) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let mut g = Graph::new();
    // Ready at once, so that it arrives before the other.
    let plain = g.node("plain", || ());
    let start = g.node("start", || ());
    let choice = g.condition("choice", || side.load(Relaxed));
    let taken = g.node("taken", || _ = takes.fetch_add(1, Relaxed));
    let join = g.node("join", || {
        let before = joins.fetch_add(1, Relaxed);
        assert_eq!(takes.load(Relaxed), before + 1, "it waits for both");
    });
    g.precede(start, choice);
    g.precede(choice, taken);
    g.succeed(join, (plain, taken));
    side.store(1, Relaxed);
    g.run();
    assert_eq!(joins.load(Relaxed), 0);
    side.store(0, Relaxed);
    g.run_n(2);
    assert_eq!(joins.load(Relaxed), 2);
}

#[test]
fn a_subflow_is_over_before_what_follows() {
    let count = AtomicUsize::new(0);
    let mut g = Graph::new();
    let parts = g.subflow("parts", |sub| {
        for _ in 0..10 {
            let first = sub.node("", || _ = count.fetch_add(1, Relaxed));
            let nested =
                sub.subflow("", |sub| _ = sub.node("", || _ = count.fetch_add(1, Relaxed)));
            sub.precede(first, nested);
        }
    });
    let check = g.node("check", || assert_eq!(count.swap(0, Relaxed), 20));
    g.precede(parts, check);
    g.run_n(3);
}

#[test]
fn a_semaphore_is_never_exceeded_and_nobody_starves() {
    let (wide, narrow) = (Semaphore::new(3), Semaphore::new(2));
    let (at_work, most, ran) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let mut g = Graph::new();
    for n in 0..60 {
        let node = g.node("", || {
            most.fetch_max(at_work.fetch_add(1, Relaxed) + 1, Relaxed);
            std::thread::yield_now();
            at_work.fetch_sub(1, Relaxed);
            ran.fetch_add(1, Relaxed);
        });
        g.limit(node, &wide, 1 + n % 3);
        if n % 2 == 0 {
            g.limit(node, &narrow, 1 + n % 2);
        }
    }
    std::thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| g.run_n(3));
        }
    });
    assert_eq!(ran.load(Relaxed), 3 * 3 * 60);
    assert!(most.load(Relaxed) <= 3);
    assert_eq!((wide.available(), narrow.available()), (3, 2));
}

/// A heavy node gives its permits back, and all whom they are enough for go on: two light ones wait for each other.
#[test]
fn permits_that_come_back_are_given_to_all_they_are_enough_for() {
    Sim::new().workers(3).check(0..200, || {
        let permits = Semaphore::new(2);
        let [held, parked] = [(); 2].map(|()| Arc::new(Gate::default()));
        let mut heavy = Graph::new();
        let (tell, wait) = (held.clone(), parked.clone());
        let node = heavy.node("heavy", move || {
            tell.pass(1);
            wait.meet(1);
        });
        heavy.limit(node, &permits, 2);
        let heavy = Arc::new(heavy).run_async();
        held.meet(1);
        let mut light = Graph::new();
        let meeting = Arc::new(Gate::default());
        for _ in 0..2 {
            let meeting = meeting.clone();
            let node = light.node("light", move || {
                meeting.pass(1);
                meeting.meet(2);
            });
            light.limit(node, &permits, 1);
        }
        light.node("tell", move || parked.pass(1));
        light.run();
        drop(heavy.wait());
        assert_eq!(permits.available(), 2);
    });
}

/// Counts who has passed, and has others wait for so many.
#[derive(Default)]
struct Gate(testkit::Mutex<usize>, testkit::Condvar);

impl Gate {
    fn pass(&self, count: usize) {
        *self.0.lock().unwrap() += count;
        self.1.notify_all();
    }

    fn meet(&self, count: usize) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |passed| *passed < count).unwrap());
    }
}

#[test]
fn who_is_ready_runs_by_priority() {
    let runtime = filch::Builder::new().single_thread(true).build().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut g = Graph::new();
    let start = g.node("start", || ());
    for (n, priority) in [Priority::Low, Priority::Normal, Priority::High].into_iter().enumerate() {
        let order = order.clone();
        let node = g.node("", move || order.lock().unwrap().push(n));
        g.precede(start, node);
        g.prioritize(node, priority);
    }
    runtime.block_on(async move { filch::cpu(move || drop(g.run())).await });
    assert_eq!(*order.lock().unwrap(), [2, 1, 0]);
}

#[test]
fn an_async_node_waits_without_a_thread() {
    let mut g = Graph::new();
    let nodes: Vec<_> = (0..100)
        .map(|n| {
            g.async_node("", move || async move {
                filch::yield_now().await;
                filch::time::sleep(std::time::Duration::from_micros(100)).await;
                n
            })
        })
        .collect();
    let sum = g.placeholder("sum");
    g.succeed(sum, &nodes);
    for _ in 0..3 {
        let run = g.run();
        assert_eq!(nodes.iter().map(|&node| run.take(node)).sum::<i32>(), 4950);
    }
}

#[test]
fn an_async_node_takes_references_and_values() {
    let mut g = Graph::new();
    let list = g.node("list", || vec![1, 2, 3]);
    let word = g.node("word", || String::from("ab"));
    let prefix = "x";
    let mut h = Graph::new();
    let both = g
        .async_node("both", async |list: &Vec<usize>, Own(word): Own<String>| {
            filch::yield_now().await;
            word.repeat(list.len())
        })
        .after((&list, word));
    let len = g.async_node("len", async |list: &Vec<usize>| list.len()).after(&list);
    let bad = h.try_async_node("bad", async || Err::<(), _>(prefix));
    for _ in 0..3 {
        let run = g.run();
        assert_eq!((run.take(both), run.take(len)), ("ababab".to_owned(), 3));
    }
    assert_eq!(h.try_run().unwrap_err().failures()[0].node(), bad.id());
}

#[test]
fn an_async_node_in_a_loop_reads_what_the_last_round_made() {
    let rounds = AtomicUsize::new(0);
    let seen = AtomicUsize::new(0);
    let mut g = Graph::new();
    let start = g.node("start", || ());
    let make = g.node("make", || rounds.fetch_add(1, Relaxed) + 1);
    let read = g
        .async_node("read", async |n: &usize| {
            filch::yield_now().await;
            seen.fetch_add(*n, Relaxed);
        })
        .after(&make);
    let again = g.condition("again", || usize::from(rounds.load(Relaxed) == 4));
    g.precede(start, make);
    g.precede(read, again);
    g.precede(again, make);
    g.run();
    assert_eq!(seen.load(Relaxed), 10);
}

/// Futures of one node that run at the same time have places of their own.
#[test]
fn an_async_node_that_is_chosen_twice_at_once_runs_twice() {
    let ran = AtomicUsize::new(0);
    let mut g = Graph::new();
    let twice = g.multi_condition("twice", || [0, 0, 0]);
    let node = g.async_node("node", || async {
        for _ in 0..5 {
            filch::yield_now().await;
        }
        ran.fetch_add(1, Relaxed);
    });
    g.precede(twice, node);
    for round in 1..20 {
        g.run();
        assert_eq!(ran.load(Relaxed), 3 * round);
    }
}

#[test]
fn dumps_show_what_is_inside_of_nodes() {
    let mut inner = Graph::new();
    inner.node("leaf", || ());
    let mut g = Graph::new();
    let module = g.module("module", &inner);
    let kept = g.retained_subflow("kept", |sub| {
        let (a, b) = (sub.node("a", || ()), sub.condition("b", || 9));
        sub.precede(a, b);
    });
    g.precede(module, kept);
    assert!(!g.dump_dot().contains("cluster_n1"), "it is not made yet");
    g.run();
    let dot = "digraph {\n  n0 [label=\"module\"];\n  subgraph cluster_n0 {\n  label=\"module\";\n  n0_0 [label=\"leaf\"];\n  }\n  \
               n1 [label=\"kept\"];\n  subgraph cluster_n1 {\n  label=\"kept\";\n  n1_0 [label=\"a\"];\n  \
               n1_1 [label=\"b\", shape=diamond];\n  n1_0 -> n1_1;\n  }\n  n0 -> n1;\n}\n";
    assert_eq!(g.dump_dot(), dot);
    let json = r#""name":"module","kind":"node","graph":{"nodes":[{"id":0,"name":"leaf","kind":"node"}],"edges":[]}}"#;
    assert!(g.dump_json().contains(json), "{}", g.dump_json());
    g.erase(module);
    assert!(!g.dump_dot().contains("leaf"));
}
