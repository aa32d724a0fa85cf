//! A compute task has no delay: there is nothing to say it with.

use std::time::Duration;

fn main() {
    let runtime = filch::Builder::new().workers(1).build().unwrap();
    let _ = runtime.post_compute_delayed(Duration::from_millis(1), || ());
    let _ = runtime.post_compute(Duration::from_millis(1), || ());
}
