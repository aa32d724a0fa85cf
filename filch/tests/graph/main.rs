//! Task graphs, from outside.

mod faults;
mod flow;
mod order;
