//! Stages that wait for time or I/O hold no thread: a hundred requests are under way at once, their answers come
//! out in order, and the pipeline is awaited.

use std::time::{Duration, Instant};

use filch::Pipeline;

async fn request(number: u64) -> u64 {
    filch::time::sleep(Duration::from_millis(5 + number % 7)).await;
    number * number
}

#[filch::main]
async fn main() {
    let start = Instant::now();
    let pipeline = Pipeline::new(100).items(0..300).parallel_async(request).collect();
    let (_pipeline, answers) = pipeline.run_async().await;
    let answers = answers.expect("no request fails");
    println!("{} answers after {:?}", answers.len(), start.elapsed());
    assert!(answers.into_iter().eq((0..300).map(|number| number * number)));
}
