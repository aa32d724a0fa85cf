//! Why a runtime could not be built.
//!
//! Not here: how a task ended (the join handle's error lives with the task).

use std::{error::Error, fmt, io, path::PathBuf};

use crate::base::thread;

/// A parameter whose value makes no sense: which one, and why.
///
/// # Examples
///
/// ```
/// let mut config = filch::Config::default();
/// config.sentry_period = std::time::Duration::from_secs(1);
/// let error = config.validate().unwrap_err();
/// assert_eq!(error.field(), "sentry_period");
/// assert_eq!(error.to_string(), "`sentry_period`: 1s is not more than zero and at most 10ms");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    field: &'static str,
    reason: String,
}

impl ConfigError {
    pub(crate) fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self { field, reason: reason.into() }
    }

    /// The name of the field in [`Config`](crate::Config).
    ///
    /// # Examples
    ///
    /// ```
    /// let mut config = filch::Config::default();
    /// config.slot_streak = 0;
    /// assert_eq!(config.validate().unwrap_err().field(), "slot_streak");
    /// ```
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// What is wrong with its value.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut config = filch::Config::default();
    /// config.thread_name.clear();
    /// assert_eq!(config.validate().unwrap_err().reason(), "is empty");
    /// ```
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.field, self.reason)
    }
}

impl Error for ConfigError {}

/// Why a [`Builder`](crate::Builder) could not build a runtime.
///
/// # Examples
///
/// ```
/// use filch::BuildError;
///
/// let error = filch::Builder::new().ring_capacity(3).resolve().unwrap_err();
/// assert!(matches!(&error, BuildError::Config(e) if e.field() == "ring_capacity"));
/// assert!(error.to_string().starts_with("invalid configuration"));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A parameter makes no sense.
    Config(ConfigError),
    /// An environment variable could not be understood.
    Environment {
        /// Its name.
        variable: &'static str,
        /// Its value, with anything that is not UTF-8 replaced.
        value: String,
        /// What is wrong with the value.
        reason: String,
    },
    /// A configuration file could not be read or understood.
    File {
        /// Where it should be.
        path: PathBuf,
        /// The system's refusal, or of kind `InvalidData` what is wrong in which line.
        source: io::Error,
    },
    /// A thread could not be started.
    Thread {
        /// The name that it would have had.
        name: String,
        /// The system's refusal.
        source: io::Error,
    },
    /// What the program or the environment wants to drive I/O is refused by the system.
    Io {
        /// What was wanted, as `FILCH_IO` has it.
        backend: String,
        /// The system's refusal.
        source: io::Error,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => write!(f, "invalid configuration: {error}"),
            Self::Environment { variable, value, reason } => {
                write!(f, "invalid environment variable {variable}={value:?}: {reason}")
            }
            Self::File { path, source } => {
                write!(f, "invalid configuration file {}: {source}", path.display())
            }
            Self::Thread { name, source } => {
                write!(f, "cannot start thread {name:?}: {source}{}", thread::hint(source))
            }
            Self::Io { backend, source } => write!(f, "cannot drive I/O by {backend}: {source}"),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Environment { .. } => None,
            Self::File { source, .. } | Self::Thread { source, .. } | Self::Io { source, .. } => {
                Some(source)
            }
        }
    }
}

impl From<ConfigError> for BuildError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<BuildError> for io::Error {
    fn from(error: BuildError) -> Self {
        let kind = match &error {
            BuildError::File { source, .. }
            | BuildError::Thread { source, .. }
            | BuildError::Io { source, .. } => source.kind(),
            BuildError::Config(_) | BuildError::Environment { .. } => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, error)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
