//! Submit a job, do something else, get its result.

fn main() {
    let (a, b) = (10, 20);
    let handle = filch::spawn_fn(move || a + b);

    println!("The job runs, or waits for its turn.");

    let result = handle.wait();
    println!("Result: {result}");
    assert_eq!(result, 30);
}
