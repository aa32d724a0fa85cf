//! Tests of behaviour, in one binary.

mod hostage;
mod idle_cpu;
mod kit;
mod runtimes;
mod shutdown;
mod smoke;
mod storm;
mod stress;
mod waiting;
