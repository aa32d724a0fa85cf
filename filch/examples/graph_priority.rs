//! Priorities: of the nodes of a run that are ready at the same time, the more urgent come first.

use std::sync::Mutex;

use filch::{Graph, Priority, Runtime};

fn main() -> Result<(), filch::BuildError> {
    let order = Mutex::new(Vec::new());
    let mut g = Graph::new();
    let start = g.node("start", || ());
    let ranks = [("low", Priority::Low), ("normal", Priority::Normal), ("high", Priority::High)];
    for (name, priority) in ranks {
        let order = &order;
        let node = g.node(name, move || order.lock().unwrap().push(name));
        g.prioritize(node, priority);
        g.precede(start, node);
    }
    // One thread, so that there is one order.
    Runtime::builder().single_thread().build()?.block_on_fn(|| _ = g.run());
    let order = order.lock().unwrap();
    println!("{order:?}");
    assert_eq!(*order, ["high", "normal", "low"]);
    Ok(())
}
