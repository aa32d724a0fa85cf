//! A job: made, run, waited for.

use std::sync::mpsc;

use filch::Job;

fn main() {
    let (tx, rx) = mpsc::channel();
    let job = Job::new(move |_| tx.send("the work is done").unwrap());

    // `run` gives the handle up, so one is kept to wait with.
    job.clone().run();
    job.wait();

    println!("{}", rx.try_recv().expect("a job that was waited for has run"));
}
