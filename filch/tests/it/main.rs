//! Tests of behaviour, in one binary: tasks, handles and structure.

mod block_on;
mod detach;
mod groups;
mod handle;
mod local;
mod locks;
mod migration;
mod panics;
mod refused;
mod regress;
mod scopes;
mod seeds;
mod settle;
mod support;
mod survival;
mod ui;
mod waiting;
mod watchdog;
