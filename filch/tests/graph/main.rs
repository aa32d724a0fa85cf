//! Task graphs, from outside.

mod algorithm;
mod faults;
mod flow;
mod order;
mod profile;
