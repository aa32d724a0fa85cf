//! Tests of behaviour, in one binary.

mod smoke;
