// A child gets a scope of its own to spawn with; the body's may be gone when it runs.
fn main() {
    filch::scope(|s| {
        s.spawn(move |_| s.spawn(|_| ()));
    });
}
