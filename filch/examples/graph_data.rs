//! Values that flow along edges, checked by the compiler, and nodes that await without holding a thread.

use std::sync::Arc;
use std::time::Duration;

use filch::Graph;
use filch::graph::Own;

fn main() {
    let mut g = Graph::new();
    let fetched = ["the quick fox", "the lazy dog"].map(|page| {
        g.async_node("fetch", move || async move {
            filch::time::sleep(Duration::from_millis(2)).await;
            page.to_owned()
        })
    });
    // By shared reference: any number of nodes may look at an output.
    let counts =
        fetched.map(|page| g.node("count", |text: &String| text.split(' ').count()).after(&page));
    let total = g.node("total", |a: &usize, b: &usize| a + b).after((&counts[0], &counts[1]));
    // By value: one node takes it.
    let pages = g.node("pages", |a: &String, b: &String| vec![a.clone(), b.clone()]);
    let pages = pages.after((&fetched[0], &fetched[1]));
    let sorted = g
        .node("sort", |Own(mut pages): Own<Vec<String>>| {
            pages.sort();
            pages
        })
        .after(pages);

    let run = g.run();
    let (words, pages) = (run.take(total), run.take(sorted));
    println!("{words} words in {pages:?}");
    assert_eq!((words, pages[0].as_str()), (6, "the lazy dog"));
    drop(run);

    // Runs of one graph may overlap, each with outputs of its own.
    let g = Arc::new(g);
    let totals = filch::block_on(async move {
        let (one, two) = (g.run_async(), g.run_async());
        (one.await.take(total), two.await.take(total))
    });
    println!("{totals:?}");
    assert_eq!(totals, (6, 6));
}
