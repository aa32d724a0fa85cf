//! How a parameter is written in a configuration file.
//!
//! Not here: which parameters there are (config/file.rs), which values make sense (config/validate.rs).

use std::{fmt::Display, str::FromStr, time::Duration};

use crate::config::{Affinity, IoBackend, Level, UnhandledPanic};

/// A value of a configuration file: what `write` makes, `read` understands as the same.
pub(super) trait Value: Sized {
    fn read(text: &str) -> Result<Self, String>;
    fn write(&self) -> String;

    /// Somebody else decides.
    fn is_open(&self) -> bool {
        false
    }
}

/// A number, as its type has it.
pub(super) fn number<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

impl Value for usize {
    fn read(text: &str) -> Result<Self, String> {
        number(text)
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

/// Decimal, or hexadecimal after `0x`: only seeds are of this type.
impl Value for u64 {
    fn read(text: &str) -> Result<Self, String> {
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).map_err(|error| error.to_string()),
            None => number(text),
        }
    }

    fn write(&self) -> String {
        format!("{self:#x}")
    }
}

impl<T: Value> Value for Option<T> {
    fn read(text: &str) -> Result<Self, String> {
        if text == "auto" { Ok(None) } else { T::read(text).map(Some) }
    }

    fn write(&self) -> String {
        self.as_ref().map_or_else(|| "auto".to_owned(), T::write)
    }

    fn is_open(&self) -> bool {
        self.is_none()
    }
}

impl Value for bool {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "1" | "true" => Ok(true),
            "0" | "false" => Ok(false),
            _ => Err("is none of 1, true, 0, false".to_owned()),
        }
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

/// Units of durations, the greatest first.
const UNITS: [(&str, u128); 4] =
    [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

impl Value for Duration {
    fn read(text: &str) -> Result<Self, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (amount, unit) = (text[..digits].parse::<u64>(), text[digits..].trim_start());
        let unit = UNITS.iter().find(|(name, _)| *name == unit);
        let (Ok(amount), Some(&(_, nanos))) = (amount, unit) else {
            return Err("is no whole number followed by s, ms, us or ns".to_owned());
        };
        let total = u128::from(amount) * nanos;
        let seconds = u64::try_from(total / 1_000_000_000).map_err(|error| error.to_string())?;
        Ok(Self::new(seconds, (total % 1_000_000_000) as u32))
    }

    fn write(&self) -> String {
        let total = self.as_nanos();
        let whole = |&&(_, nanos): &&(&str, u128)| total.is_multiple_of(nanos);
        let (name, nanos) = UNITS.iter().find(whole).expect("nanoseconds divide everything");
        format!("{}{name}", total / nanos)
    }
}

/// In quotation marks, with `\` before what would end or break the line; or bare, if it has none of these.
impl Value for String {
    fn read(text: &str) -> Result<Self, String> {
        let Some(quoted) = text.strip_prefix('"') else {
            return Ok(text.to_owned());
        };
        let mut read = String::new();
        let mut rest = quoted.chars();
        loop {
            match rest.next() {
                Some('"') if rest.as_str().is_empty() => return Ok(read),
                Some('\\') => read.push(match rest.next() {
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some(other @ ('"' | '\\')) => other,
                    _ => return Err(r#"has a \ before none of ", \, n, r"#.to_owned()),
                }),
                Some('"') => return Err("goes on after its closing quotation mark".to_owned()),
                Some(other) => read.push(other),
                None => return Err("has no closing quotation mark".to_owned()),
            }
        }
    }

    fn write(&self) -> String {
        let escaped = self.replace('\\', r"\\").replace('"', r#"\""#);
        format!("\"{}\"", escaped.replace('\n', r"\n").replace('\r', r"\r"))
    }
}

const LEVELS: [(&str, Level); 4] = [
    ("background", Level::Background),
    ("normal", Level::Normal),
    ("display", Level::Display),
    ("urgent", Level::Urgent),
];

impl Value for Level {
    fn read(text: &str) -> Result<Self, String> {
        let named = LEVELS.iter().find(|(name, _)| *name == text);
        let unknown = || "is none of background, normal, display, urgent".to_owned();
        named.map(|&(_, level)| level).ok_or_else(unknown)
    }

    fn write(&self) -> String {
        let named = LEVELS.iter().find(|(_, level)| level == self);
        named.expect("every level has a name").0.to_owned()
    }
}

impl Value for UnhandledPanic {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "propagate" => Ok(Self::Propagate),
            "report" => Ok(Self::Report),
            _ => Err("is none of propagate, report".to_owned()),
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Propagate => "propagate".to_owned(),
            Self::Report => "report".to_owned(),
        }
    }
}

impl Value for Affinity {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "any" => Ok(Self::Any),
            "pin-each" => Ok(Self::PinEach),
            cpus => {
                let list: Result<_, String> = cpus.split_whitespace().map(number).collect();
                list.map(Self::Cpus)
                    .map_err(|_| "is none of any, pin-each, a list of CPUs".to_owned())
            }
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Any => "any".to_owned(),
            Self::PinEach => "pin-each".to_owned(),
            Self::Cpus(cpus) => cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(" "),
        }
    }
}

impl Value for IoBackend {
    fn read(text: &str) -> Result<Self, String> {
        text.parse()
    }

    fn write(&self) -> String {
        self.to_string()
    }

    fn is_open(&self) -> bool {
        *self == Self::Auto
    }
}
