//! Wait for several tasks at once; their types need not agree.

fn main() {
    let first = filch::spawn_fn(|| 1);
    let second = filch::spawn_fn(|| 2.0);

    let (first, second) = filch::wait((first, second));
    println!("Results: {first}, {second}");
    assert_eq!((first, second), (1, 2.0));
}
