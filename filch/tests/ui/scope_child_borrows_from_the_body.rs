// A child may outlive the body of its scope, so it cannot borrow what the body owns.
fn main() {
    filch::scope(|s| {
        let local = vec![1, 2, 3];
        s.spawn(|_| println!("{}", local.len()));
    });
}
