//! Jobs that borrow from the stack: `scope` returns when they are done.

fn main() {
    let mut pixels = vec![1u32; 1 << 16];
    let brightness = 3;

    filch::scope(|s| {
        for row in pixels.chunks_mut(4096) {
            s.spawn(move |_| row.iter_mut().for_each(|pixel| *pixel *= brightness));
        }
    });

    let sum: u32 = pixels.iter().sum();
    println!("{sum}");
    assert_eq!(sum, 3 << 16);
}
