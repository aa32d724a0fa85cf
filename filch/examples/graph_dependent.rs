//! Tasks that depend on others and are made on the fly, without a graph: each awaits the handles of those before it.

use filch::{spawn, spawn_fn, wait_async};

fn main() {
    let text = filch::block_on(async {
        let flour = spawn_fn(|| "flour");
        let water = spawn(async { "water" });
        // Begins when both are there; meanwhile it holds no thread.
        let dough = spawn(async move {
            let (flour, water) = wait_async((flour, water)).await;
            format!("dough of {flour} and {water}")
        });
        let oven = spawn_fn(|| 220);
        let bread = spawn(async move {
            let (dough, degrees) = wait_async((dough, oven)).await;
            format!("bread from {dough}, baked at {degrees} degrees")
        });
        bread.await
    });
    println!("{text}");
    assert_eq!(text, "bread from dough of flour and water, baked at 220 degrees");
}
