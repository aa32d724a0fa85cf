//! filch: one work-stealing runtime for async tasks and CPU jobs, with structure.

mod base;
mod idle;
mod timer;

pub mod builder;
pub mod config;
pub mod error;

pub use builder::{Builder, PanicInfo, Role, WorkerInfo};
pub use config::{Affinity, Config, Level};
pub use error::{BuildError, ConfigError};
