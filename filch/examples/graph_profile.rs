//! The profile of a run: what took how long, on which worker, and what bounds the run.

use std::hint::black_box;

use filch::Graph;

fn spin(rounds: u64) -> u64 {
    (0..rounds).fold(1, |sum, n| black_box(sum ^ n.wrapping_mul(sum)))
}

fn main() {
    let mut g = Graph::new();
    let load = g.node("load", || spin(10_000));
    let parts: Vec<_> =
        (1..=4).map(|n| g.node(format!("part {n}"), move || spin(n * 100_000))).collect();
    let merge = g.node("merge", || spin(10_000));
    g.precede(load, &parts);
    g.succeed(merge, &parts);

    let (run, profile) = g.runner().profile();
    assert!(run.is_ok());
    println!("{profile}");
    for span in profile.spans() {
        let name = g.name(span.node());
        println!("{name:8} {:8.0?} {:8.0?} on {:?}", span.start(), span.time(), span.worker());
    }
    assert_eq!(profile.spans().len(), 6);
    let path = profile.critical_names();
    assert_eq!((path[0].as_str(), path[2].as_str()), ("load", "merge"));
    assert!(profile.possible_parallelism() >= 1.0);

    // For https://ui.perfetto.dev and for Graphviz.
    let (trace, dot) = (profile.to_trace(), profile.to_dot());
    println!("a trace of {} bytes, a picture of {} lines", trace.len(), dot.lines().count());
    assert!(dot.contains("penwidth=3"));
}
