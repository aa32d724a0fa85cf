// If this compiled, the child would write to a vector that is gone.
fn main() {
    filch::block_on(async {
        let mut numbers = vec![1, 2, 3];
        let group = filch::group(async |g: filch::Group<()>| {
            drop(g.spawn(async {
                numbers.push(4);
                Ok(())
            }));
            Ok(())
        });
        std::mem::forget(group);
    });
}
