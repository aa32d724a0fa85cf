//! The hive: roles, posts, its life, event loops of others, crews that change.

mod bounded;
mod crews;
mod edges;
mod elastic;
mod guests;
mod hostile;
mod kit;
mod life;
mod loops;
mod nesting;
mod order;
mod posting;
mod pumps;
mod roles;
mod sims;
mod support;
