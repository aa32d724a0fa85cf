//! Frames: when each is due, and how late it began.
//!
//! P1. Frame n is due n periods after the start, whatever became of those before it: a late frame makes no
//!     other late. A frame that has not begun when the next one is due is missed, and that one begins.

use std::fmt;
use std::time::{Duration, Instant};

use crate::ms;

/// Frames a second.
pub const HZ: u32 = 60;

pub struct Pace {
    start: Instant,
    /// The frame that begins next, counted from the start.
    next: u32,
    /// Of each frame that has begun, after its due time.
    late: Vec<Duration>,
    /// From the begin of one frame to that of the next.
    intervals: Vec<Duration>,
    /// From the begin of a frame until it was shown.
    shown: Vec<Duration>,
    begun: Option<Instant>,
    is_shown: bool,
    missed: u32,
}

impl Pace {
    pub fn new(start: Instant) -> Self {
        Self {
            start,
            next: 1,
            late: Vec::new(),
            intervals: Vec::new(),
            shown: Vec::new(),
            begun: None,
            is_shown: true,
            missed: 0,
        }
    }

    /// When the next frame should begin (P1).
    pub fn due(&self) -> Instant {
        self.start + Duration::from_secs(1) * self.next / HZ
    }

    /// Begins a frame if one is due.
    #[must_use]
    pub fn begin(&mut self, now: Instant) -> bool {
        let due = self.due();
        if now < due {
            return false;
        }
        self.late.push(now - due);
        if let Some(last) = self.begun.replace(now) {
            self.intervals.push(now - last);
        }
        self.is_shown = false;
        self.next += 1;
        while self.due() <= now {
            self.next += 1;
            self.missed += 1;
        }
        true
    }

    /// The frame is shown; a picture that is shown again does not count.
    pub fn end(&mut self, now: Instant) {
        if let (false, Some(begun)) = (self.is_shown, self.begun) {
            self.shown.push(now - begun);
            self.is_shown = true;
        }
    }

    /// How many have begun.
    pub fn frames(&self) -> usize {
        self.late.len()
    }

    /// How late the last ones were, the latest first.
    pub fn late(&self) -> impl Iterator<Item = Duration> {
        self.late.iter().rev().copied()
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} frames at {HZ} Hz, {} missed", self.frames(), self.missed)?;
        writeln!(f, "{:<28}{:>9}{:>9}{:>9}{:>9}", "ms", "p50", "p95", "p99", "max")?;
        let rows = [
            ("from frame to frame", &self.intervals),
            ("begins after it is due", &self.late),
            ("shown after it began", &self.shown),
        ];
        for (name, times) in rows {
            let [p50, p95, p99, max] = [0.5, 0.95, 0.99, 1.0].map(|share| ms(at(times, share)));
            writeln!(f, "{name:<28}{p50:>9.3}{p95:>9.3}{p99:>9.3}{max:>9.3}")?;
        }
        Ok(())
    }
}

/// The least of the times that this share of all does not exceed.
fn at(times: &[Duration], share: f64) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    let count = (times.len() as f64 * share).ceil() as usize;
    times.get(count.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{HZ, Pace, at};
    use std::time::{Duration, Instant};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_late_frame_makes_no_other_late_and_one_that_is_passed_over_is_missed() {
        let start = Instant::now();
        let due = |frame: u32| start + Duration::from_secs(1) * frame / HZ;
        let mut pace = Pace::new(start);
        assert!(!pace.begin(due(1) - MS));
        assert!(pace.begin(due(1) + 3 * MS));
        assert_eq!(pace.due(), due(2));
        assert!(pace.begin(due(2)));
        assert_eq!(pace.missed, 0);
        assert!(pace.begin(due(5) + MS));
        assert_eq!((pace.missed, pace.due()), (2, due(6)));
        let late: Vec<_> = pace.late().collect();
        assert_eq!(late, [due(5) - due(3) + MS, Duration::ZERO, 3 * MS]);
        assert_eq!(pace.intervals, [due(2) - due(1) - 3 * MS, due(5) - due(2) + MS]);
    }

    #[test]
    fn a_frame_is_shown_once() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        pace.end(start + MS);
        assert!(pace.begin(start + 20 * MS));
        pace.end(start + 22 * MS);
        pace.end(start + 25 * MS);
        assert_eq!(pace.shown, [2 * MS]);
    }

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let times: Vec<_> = (1..=100).rev().map(|n| n * MS).collect();
        let seen = [0.5, 0.99, 1.0].map(|share| at(&times, share));
        assert_eq!(seen, [50 * MS, 99 * MS, 100 * MS]);
        assert_eq!(at(&[], 0.5), Duration::ZERO);
    }
}
