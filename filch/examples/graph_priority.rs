//! Priorities: of the nodes of a run that are ready at the same time, the more urgent come first.

use std::sync::{Arc, Mutex};

use filch::{Graph, Priority, Runtime};

fn main() -> Result<(), filch::BuildError> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut g = Graph::new();
    let start = g.node("start", || ());
    let ranks = [("low", Priority::Low), ("normal", Priority::Normal), ("high", Priority::High)];
    for (name, priority) in ranks {
        let order = order.clone();
        let node = g.node(name, move || order.lock().unwrap().push(name));
        g.prioritize(node, priority);
        g.precede(start, node);
    }
    // One worker, so that there is one order.
    let runtime = Runtime::builder().single_thread(true).build()?;
    runtime.block_on(async move { filch::cpu(move || drop(g.run())).await });
    let order = order.lock().unwrap();
    println!("{order:?}");
    assert_eq!(*order, ["high", "normal", "low"]);
    Ok(())
}
