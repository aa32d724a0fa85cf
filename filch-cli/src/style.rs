//! Style: colour on a terminal, plain text elsewhere, a line that tells of progress, and figures in few digits.

use std::fmt::Display;
use std::io::{IsTerminal, Write, stderr};
use std::mem::MaybeUninit;

/// Whether escape codes may be written to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Coloured,
    Plain,
}

impl Style {
    /// Coloured on a terminal, unless `NO_COLOR` is set.
    pub fn detect() -> Self {
        let asked_not_to = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if std::io::stdout().is_terminal() && !asked_not_to { Self::Coloured } else { Self::Plain }
    }

    pub fn bold(self, text: impl Display) -> String {
        self.wrap("1", text)
    }

    pub fn dim(self, text: impl Display) -> String {
        self.wrap("2", text)
    }

    pub fn good(self, text: impl Display) -> String {
        self.wrap("32", text)
    }

    pub fn bad(self, text: impl Display) -> String {
        self.wrap("31", text)
    }

    fn wrap(self, code: &str, text: impl Display) -> String {
        match self {
            Self::Coloured => format!("\x1b[{code}m{text}\x1b[0m"),
            Self::Plain => text.to_string(),
        }
    }
}

/// A line on standard error that the next one overwrites, and an empty one erases. Nothing when nobody
/// watches, and no escape codes.
pub fn show_progress(what: &str) {
    let mut error = stderr();
    if error.is_terminal() {
        // The last column is left free: some terminals go on to the next line after it.
        let width = columns() - 1;
        // Progress that cannot be shown is no reason to stop.
        let _ = write!(error, "\r{what:width$.width$}\r");
        let _ = error.flush();
    }
}

/// The width of the terminal on standard error; a usual one if it does not tell.
fn columns() -> usize {
    let mut size = MaybeUninit::<libc::winsize>::zeroed();
    // SAFETY: the pointer is valid for writing one `winsize`.
    unsafe { libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, size.as_mut_ptr()) };
    // SAFETY: zeroed, and zeros are a size.
    match unsafe { size.assume_init() }.ws_col {
        0 => 80,
        columns => columns.into(),
    }
}

/// Three significant digits for values below a thousand, whole numbers above.
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A whole number with a comma between groups of three digits.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::{Style, figure, grouped};

    #[test]
    fn plain_style_writes_no_escape_codes() {
        assert_eq!(Style::Plain.bold("x"), "x");
        assert_eq!(Style::Coloured.bold("x"), "\x1b[1mx\x1b[0m");
    }

    #[test]
    fn figures_keep_three_digits_at_the_borders() {
        let shown: Vec<_> =
            [0.0, 0.0214, 0.9996, 1.234, 9.996, 12.34, 99.96, 1234.5].map(figure).into();
        assert_eq!(shown, ["0.00", "0.021", "1.00", "1.23", "10.0", "12.3", "100", "1234"]);
    }

    #[test]
    fn groups_begin_at_the_right() {
        let shown: Vec<_> = [0, 999, 1_000, 123_456, 1_234_567].map(grouped).into();
        assert_eq!(shown, ["0", "999", "1,000", "123,456", "1,234,567"]);
    }
}
