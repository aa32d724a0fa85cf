//! The simulator: what a seed decides, what it finds, and what it says.

use filch::testkit::Sim;
use std::time::Instant;

fn mixed() {
    let v = filch::block_on(async {
        let a = filch::spawn(async { 1 });
        let b = filch::spawn_fn(|| filch::join(|| 2, || 3));
        let (x, y) = b.await;
        x + y + a.await
    });
    assert_eq!(v, 6);
}

#[test]
fn speed() {
    let t = Instant::now();
    Sim::new().check(0..1000, mixed);
    let run = Sim::new().seed(3).try_run(mixed).unwrap();
    eprintln!("{:?} {run:?}", t.elapsed());
}
