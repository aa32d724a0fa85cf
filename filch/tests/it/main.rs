//! Tests of behaviour, in one binary.

#![allow(
    clippy::async_yields_async,
    reason = "many tests are about a handle that leaves the task that made it"
)]

mod adopt;
mod block_on;
mod blocking;
mod bounded;
mod cpu;
mod detach;
mod filament;
mod fork;
mod fork_panics;
mod group_body;
mod groups;
mod handle;
mod hostage;
mod hostile;
mod idle_cpu;
mod jobs;
mod kept;
mod kit;
mod local;
mod locks;
mod migration;
mod panics;
mod refused;
mod regress;
mod runtimes;
mod scopes;
mod seeds;
mod settle;
mod shutdown;
mod sim;
mod spawn_blocking;
mod support;
mod survival;
mod time;
mod ui;
mod unwind_safe;
mod waiting;
mod watchdog;
