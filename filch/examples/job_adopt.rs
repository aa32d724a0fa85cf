//! A thread of the program becomes a worker, runs jobs, and leaves.

use std::error::Error;
use std::sync::mpsc;

use filch::{Job, Runtime};

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().workers(1).adoptable_threads(1).build()?;

    let adopted = runtime.adopt()?;
    let (tx, rx) = mpsc::channel();
    let job = Job::new(move |job| {
        for i in 0..4 {
            let tx = tx.clone();
            job.run_child(move |_| tx.send(i).unwrap());
        }
    });
    // Its children lie in this thread's queue: others steal them, or the wait runs them.
    job.clone().run();
    job.wait();
    drop(adopted);

    let mut seen: Vec<i32> = rx.iter().collect();
    seen.sort();
    assert_eq!(seen, [0, 1, 2, 3]);
    println!("four children of an adopted thread's job have run");
    Ok(())
}
