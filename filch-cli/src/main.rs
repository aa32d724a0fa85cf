//! The command line of filch.
fn main() {}
