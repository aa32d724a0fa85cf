//! Checks that a reviewer would make.
fn main() {}
