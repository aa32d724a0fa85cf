// A group's future can be forgotten half-way, so its children cannot borrow.
fn main() {
    let text = String::from("on the stack");
    let result: Result<(), ()> = filch::block_on(async {
        filch::group(async |g| {
            let child = g.spawn(async { Ok(text.len()) });
            child.await;
            Ok(())
        })
        .await
    });
    result.unwrap();
}
