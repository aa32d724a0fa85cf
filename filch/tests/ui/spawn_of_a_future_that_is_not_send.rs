// A spawned future may move to another thread between two polls.
fn main() {
    let handle = filch::spawn(async {
        let local = std::rc::Rc::new(1);
        filch::yield_now().await;
        *local
    });
    handle.wait();
}
