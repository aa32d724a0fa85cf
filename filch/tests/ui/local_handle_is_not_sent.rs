// The output of a local future stays on its thread unless it is `Send`.
fn main() {
    filch::block_on(filch::spawn(async {
        let handle = filch::spawn_local(async { std::rc::Rc::new(1) });
        std::thread::spawn(move || handle.wait());
    }));
}
