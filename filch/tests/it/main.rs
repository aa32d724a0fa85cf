//! Tests of behaviour, in one binary: tasks, handles and structure.

#![allow(
    clippy::async_yields_async,
    reason = "many tests are about a handle that leaves the task that made it"
)]

mod block_on;
mod detach;
mod groups;
mod handle;
mod local;
mod locks;
mod migration;
mod panics;
mod refused;
mod scopes;
mod seeds;
mod support;
mod survival;
mod ui;
mod waiting;
mod watchdog;
