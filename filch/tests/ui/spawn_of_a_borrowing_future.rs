// A spawned future may outlive the frame that spawned it, so it cannot borrow from it.
fn main() {
    let text = String::from("on the stack");
    let handle = filch::spawn(async { text.len() });
    handle.wait();
}
