//! Task graphs, from outside.

mod after;
mod algorithm;
mod faults;
mod flow;
mod order;
mod profile;
