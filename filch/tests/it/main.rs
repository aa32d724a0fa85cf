//! Tests of behaviour, in one binary.

mod settle;
mod smoke;
