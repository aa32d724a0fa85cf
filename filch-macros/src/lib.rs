//! The attributes `#[filch::main]` and `#[filch::test]`.
