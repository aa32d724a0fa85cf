//! filch: one work-stealing runtime for async tasks and CPU jobs, with structure.

mod base;
mod pool;
