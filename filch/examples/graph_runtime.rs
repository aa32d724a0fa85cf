//! A node that runs other nodes of its graph, whatever they wait for.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use filch::Graph;

fn main() {
    let alarms = AtomicUsize::new(0);
    let level = AtomicUsize::new(0);

    let mut g = Graph::new();
    // Nobody chooses the alarm, so it runs only when it is scheduled.
    let never = g.condition("never", || usize::MAX);
    let alarm = g.node("alarm", || _ = alarms.fetch_add(1, Relaxed));
    g.precede(never, alarm);
    let level = &level;
    g.scheduler("watch", move |s| {
        if level.load(Relaxed) > 10 {
            s.schedule(alarm);
        }
    });
    for reading in [3, 12, 7, 40] {
        level.store(reading, Relaxed);
        g.run();
    }
    println!("{} alarms", alarms.load(Relaxed));
    assert_eq!(alarms.load(Relaxed), 2);
}
