// The scope itself must not leave the call: what it spawned later would not be waited for.
fn main() {
    let mut escaped = None;
    filch::scope(|s| escaped = Some(s));
    escaped.unwrap().spawn(|_| ());
}
