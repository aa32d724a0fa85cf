//! Configuration files: one parameter a line, by its name in `Config`.
//!
//! F1. A file names each parameter at most once, and nothing else; an error tells the line.
//! F2. What a `Config` prints is read back as the same `Config`.
//! F3. The table `fields!` has every field of `Config`: one that is missing does not compile.
//!
//! Not here: how values are written (config/value.rs), who reads files when (builder.rs).

use std::{collections::BTreeSet, error::Error, fmt, str::FromStr};

use crate::config::{Config, value::Value};

/// Names of the parameters that somebody has chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chosen(BTreeSet<&'static str>);

impl Chosen {
    /// Somebody handed over a whole `Config`.
    pub(crate) fn all() -> Self {
        Self(FIELDS.iter().copied().collect())
    }

    pub(crate) fn add(&mut self, field: &'static str) {
        debug_assert!(FIELDS.contains(&field), "{field} is no parameter");
        self.0.insert(field);
    }

    pub(crate) fn has(&self, field: &str) -> bool {
        self.0.contains(field)
    }
}

macro_rules! fields {
    ($($field:ident)*) => {
        /// Every parameter, in the order of declaration.
        const FIELDS: &[&str] = &[$(stringify!($field)),*];

        /// A configuration file: every parameter on a line of its own. [`FromStr`] reads it back.
        ///
        /// ```
        /// let mut config = filch::Config::default();
        /// config.ring_capacity = 512;
        /// assert!(config.to_string().contains("ring_capacity = 512\nglobal_interval = 61\n"));
        /// assert_eq!(config.to_string().parse(), Ok(config));
        /// ```
        impl fmt::Display for Config {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Self { $($field),* } = self;
                $(writeln!(f, "{} = {}", stringify!($field), $field.write())?;)*
                Ok(())
            }
        }

        impl Config {
            /// Reads one parameter; `None` if there is none of this name.
            fn read(&mut self, field: &str, text: &str) -> Option<Result<&'static str, String>> {
                match field {
                    $(stringify!($field) => Some(Value::read(text).map(|value| {
                        self.$field = value;
                        stringify!($field)
                    })),)*
                    _ => None,
                }
            }

            /// Takes one parameter from `other`, unless it is `taken` here with a value that is not open.
            fn fill(&mut self, field: &str, other: &Self, taken: bool) {
                match field {
                    $(stringify!($field) => {
                        if !taken || self.$field.is_open() {
                            self.$field = other.$field.clone();
                        }
                    })*
                    _ => unreachable!("{field} is a parameter"),
                }
            }
        }
    };
}

fields! {
    io_workers compute_workers max_workers ring_capacity global_interval global_batch io_interval
    local_budget private_budget timer_budget explore_tries explore_yields searcher_limit slot_streak
    io_spares compute_spares adoptable_threads attachable_workers elastic guest_threads spare_keep_alive
    blocking_threads blocking_keep_alive sentry_period outbound_batch injector_shards poll_budget unhandled_panic seed
    stack_size thread_name physical_cores caller_works io_level compute_level lane_slices io_affinity
    compute_affinity io_backend single_thread
}

/// What a file says: values, and which parameters it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) config: Config,
    pub(crate) named: Chosen,
}

impl File {
    /// Fills what `config` leaves open and nobody has `chosen`.
    pub(crate) fn apply(&self, config: &mut Config, chosen: &Chosen) {
        let counts = config.io_workers > 1 || config.compute_workers > 1;
        for field in &self.named.0 {
            let open_count = match *field {
                "single_thread" if counts => continue,
                "io_workers" | "compute_workers" if config.single_thread => continue,
                "io_workers" => config.io_workers == 0,
                "compute_workers" => config.compute_workers == 0,
                _ => false,
            };
            config.fill(field, &self.config, chosen.has(field) && !open_count);
        }
    }
}

impl FromStr for File {
    type Err = ParseConfigError;

    fn from_str(text: &str) -> Result<Self, ParseConfigError> {
        let mut file = Self::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fail = |reason| ParseConfigError { line: number + 1, reason };
            let parts = line.split_once('=').ok_or_else(|| fail(format!("{line:?} has no `=`")))?;
            let (field, value) = (parts.0.trim_end(), parts.1.trim_start());
            let unknown = || fail(format!("there is no parameter `{field}`"));
            let read = file.config.read(field, value).ok_or_else(unknown)?;
            let field = read.map_err(|reason| fail(format!("`{field}`: {value:?} {reason}")))?;
            if file.named.has(field) {
                return Err(fail(format!("`{field}` comes a second time")));
            }
            file.named.add(field);
        }
        Ok(file)
    }
}

/// Reads a configuration file; what it does not name has its default. The values are not validated.
///
/// Empty lines and lines that begin with `#` do not count.
///
/// ```
/// let config: filch::Config = "# for the night\nio_workers = 2\nsentry_period = 5ms".parse()?;
/// assert_eq!((config.io_workers, config.sentry_period.as_millis()), (2, 5));
///
/// let error = "io_wrokers = 2".parse::<filch::Config>().unwrap_err();
/// assert_eq!(error.to_string(), "line 1: there is no parameter `io_wrokers`");
/// # Ok::<(), filch::ParseConfigError>(())
/// ```
impl FromStr for Config {
    type Err = ParseConfigError;

    fn from_str(text: &str) -> Result<Self, ParseConfigError> {
        text.parse::<File>().map(|file| file.config)
    }
}

/// A line of a configuration file that cannot be understood.
///
/// ```
/// let error = "\nring_capacity = many".parse::<filch::Config>().unwrap_err();
/// assert_eq!(error.line(), 2);
/// assert_eq!(error.to_string(), r#"line 2: `ring_capacity`: "many" invalid digit found in string"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseConfigError {
    line: usize,
    reason: String,
}

impl ParseConfigError {
    /// Which line, counted from 1.
    ///
    /// ```
    /// assert_eq!("seed".parse::<filch::Config>().unwrap_err().line(), 1);
    /// ```
    pub fn line(&self) -> usize {
        self.line
    }
}

impl fmt::Display for ParseConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl Error for ParseConfigError {}

#[cfg(all(test, not(loom)))]
mod tests;
