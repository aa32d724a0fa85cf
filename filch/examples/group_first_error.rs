//! A group of async tasks: the first error cancels the others, and all are gone when it returns.

use filch::Group;

async fn fetch(page: u32) -> Result<String, String> {
    filch::yield_now().await;
    match page {
        7 => Err(format!("page {page} is missing")),
        // The others would wait for ever: the error ends them.
        8.. => std::future::pending().await,
        _ => Ok(format!("page {page}")),
    }
}

async fn fetch_all(pages: std::ops::Range<u32>) -> Result<Vec<String>, String> {
    filch::group(async |g: Group<String>| {
        let children: Vec<_> = pages.map(|page| g.spawn(fetch(page))).collect();
        Ok(filch::wait_all_async(children).await)
    })
    .await
}

fn main() {
    let few = filch::block_on(fetch_all(0..3));
    println!("{few:?}");
    assert_eq!(few.map(|pages| pages.len()), Ok(3));

    // The error of page 7 ends the others, and the body that awaits them.
    let many = filch::block_on(fetch_all(0..20));
    println!("{many:?}");
    assert_eq!(many, Err("page 7 is missing".to_owned()));
}
