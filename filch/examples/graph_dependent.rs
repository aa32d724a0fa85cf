//! Tasks that come after others and are made on the fly, without a graph: each begins when those that it names have ended.

use std::sync::{Arc, Mutex};

use filch::spawn_after;

fn main() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let step = |name: &'static str| {
        let log = log.clone();
        move || {
            log.lock().unwrap().push(name);
            name.len()
        }
    };
    let flour = spawn_after((), step("flour"));
    let water = spawn_after((), step("water"));
    // Begins when both are there; meanwhile it holds no thread.
    let dough = spawn_after((&flour, &water), step("dough"));
    let oven = spawn_after((), step("oven"));
    let bread = spawn_after((&dough, &oven), step("bread"));
    // One that has ended may be named all the same, and any thread may name it.
    let (flour_done, bread_done) = (flour.milestone(), bread.milestone());
    let baker = std::thread::spawn(move || spawn_after((flour_done, bread_done), || "eat").wait());
    assert_eq!(baker.join().unwrap(), "eat");
    // What tasks return is taken by their handles, as with any other.
    let letters: usize = filch::wait_all([flour, water, dough, oven, bread]).into_iter().sum();
    assert_eq!(letters, 24);
    let log = log.lock().unwrap();
    println!("{}", log.join(", "));
    assert_eq!(log.last(), Some(&"bread"));
    // A failure skips what comes after it.
    let burnt = spawn_after((), || panic!("too hot"));
    let served = spawn_after(&burnt, || unreachable!());
    assert!(served.wait_outcome().unwrap_err().is_cancelled());
    assert!(burnt.wait_outcome().unwrap_err().is_panic());
}
