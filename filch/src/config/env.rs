//! What the environment says: it fills what the program left open, and no more.
//!
//! N1. Every variable is parsed, whether it will be used or not: a malformed one is an error.
//! N2. A choice that the program made is never overruled.
//! N3. Nothing here reads the process environment: the caller brings the lookup.
//!
//! The variables are documented for users at `Builder`.

use std::{ffi::OsString, str::FromStr};

use crate::{
    config::{
        Config, IoBackend, UnhandledPanic,
        file::Chosen,
        value::{Value, number},
    },
    error::BuildError,
};

/// The variables that were set, parsed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Environment {
    workers: Option<usize>,
    io_workers: Option<usize>,
    compute_workers: Option<usize>,
    max_workers: Option<usize>,
    stack_size: Option<usize>,
    seed: Option<u64>,
    single_thread: Option<bool>,
    thread_name: Option<String>,
    io: Option<IoBackend>,
    unhandled_panic: Option<UnhandledPanic>,
}

impl Environment {
    /// Parses all variables that `lookup` finds (N1).
    pub(crate) fn parse(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, BuildError> {
        let vars = Variables { lookup };
        let env = Self {
            workers: vars.read("FILCH_WORKERS", number, |c, n| c.io_workers = *n)?,
            io_workers: vars.read("FILCH_IO_WORKERS", number, |c, n| c.io_workers = *n)?,
            compute_workers: vars
                .read("FILCH_COMPUTE_WORKERS", number, |c, n| c.compute_workers = *n)?,
            max_workers: vars.read("FILCH_MAX_WORKERS", number, |c, n| c.max_workers = *n)?,
            stack_size: vars.read("FILCH_STACK_SIZE", number, |c, n| c.stack_size = Some(*n))?,
            seed: vars.read("FILCH_SEED", u64::read, |c, n| c.seed = Some(*n))?,
            single_thread: vars
                .read("FILCH_SINGLE_THREAD", bool::read, |c, b| c.single_thread = *b)?,
            thread_name: vars
                .read("FILCH_THREAD_NAME", text, |c, s| c.thread_name.clone_from(s))?,
            io: vars.read("FILCH_IO", IoBackend::from_str, |c, b| c.io_backend = *b)?,
            unhandled_panic: vars
                .read("FILCH_UNHANDLED_PANIC", Value::read, |c, p| c.unhandled_panic = *p)?,
        };
        env.agree_with_itself()?;
        Ok(env)
    }

    /// The count that the environment gives each role; the role's own variable wins.
    fn counts(&self) -> [(&'static str, Option<usize>); 2] {
        let pick = |own: Option<usize>, name| match own {
            Some(_) => (name, own),
            None => ("FILCH_WORKERS", self.workers),
        };
        [
            pick(self.io_workers, "FILCH_IO_WORKERS"),
            pick(self.compute_workers, "FILCH_COMPUTE_WORKERS"),
        ]
    }

    fn agree_with_itself(&self) -> Result<(), BuildError> {
        if self.single_thread != Some(true) {
            return Ok(());
        }
        let too_many =
            |(variable, count): (_, Option<usize>)| Some((variable, count.filter(|&n| n > 1)?));
        let Some((variable, count)) = self.counts().into_iter().find_map(too_many) else {
            return Ok(());
        };
        Err(BuildError::Environment {
            variable,
            value: count.to_string(),
            reason: "contradicts FILCH_SINGLE_THREAD".to_owned(),
        })
    }

    /// Fills what `config` leaves open and the program has not `chosen` (N2), and adds it to that.
    pub(crate) fn apply(self, config: &mut Config, chosen: &mut Chosen) {
        let [(_, io), (_, compute)] = self.counts();
        let program_counts = config.io_workers > 1 || config.compute_workers > 1;
        if let (Some(single), false) =
            (self.single_thread, chosen.has("single_thread") || program_counts)
        {
            config.single_thread = single;
            chosen.add("single_thread");
        }
        if !config.single_thread {
            fill_zero(&mut config.io_workers, io);
            fill_zero(&mut config.compute_workers, compute);
        }
        if let (Some(most), false) = (self.max_workers, chosen.has("max_workers")) {
            config.max_workers = most;
            chosen.add("max_workers");
        }
        config.stack_size = config.stack_size.or(self.stack_size);
        config.seed = config.seed.or(self.seed);
        if config.io_backend == IoBackend::Auto {
            config.io_backend = self.io.unwrap_or_default();
        }
        if let (Some(policy), false) = (self.unhandled_panic, chosen.has("unhandled_panic")) {
            config.unhandled_panic = policy;
            chosen.add("unhandled_panic");
        }
        if let (Some(name), false) = (self.thread_name, chosen.has("thread_name")) {
            config.thread_name = name;
            chosen.add("thread_name");
        }
        for (field, open) in [
            ("io_workers", config.io_workers == 0),
            ("compute_workers", config.compute_workers == 0),
            ("stack_size", config.stack_size.is_none()),
            ("seed", config.seed.is_none()),
            ("io_backend", config.io_backend == IoBackend::Auto),
        ] {
            if !open {
                chosen.add(field);
            }
        }
    }
}

fn fill_zero(field: &mut usize, value: Option<usize>) {
    if *field == 0 {
        *field = value.unwrap_or(0);
    }
}

struct Variables<F> {
    lookup: F,
}

impl<F: Fn(&str) -> Option<OsString>> Variables<F> {
    /// Parses one variable, and checks its value as the field that `set` puts it into.
    fn read<T>(
        &self,
        variable: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
        set: impl Fn(&mut Config, &T),
    ) -> Result<Option<T>, BuildError> {
        let Some(raw) = (self.lookup)(variable) else {
            return Ok(None);
        };
        let fail = |reason: String| BuildError::Environment {
            variable,
            value: raw.to_string_lossy().into_owned(),
            reason,
        };
        let text = raw.to_str().ok_or_else(|| fail("is not UTF-8".to_owned()))?;
        let value = parse(text).map_err(fail)?;
        let mut probe = Config::default();
        set(&mut probe, &value);
        probe.validate().map_err(|error| fail(error.reason().to_owned()))?;
        Ok(Some(value))
    }
}

fn text(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}
