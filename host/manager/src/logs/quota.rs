//! How much of what a plugin logs is kept: what is too much is counted.

use std::time::Instant;

/// What a line counts beside its text: what the host adds to it, in bytes.
const LINE: u64 = 128;

/// Bytes in a second, over time.
const RATE: u64 = 256 * 1024;

/// Bytes at once, after a rest.
const BURST: u64 = 2 * 1024 * 1024;

/// Why lines are missing.
pub const TOO_MUCH: &str = "a plugin may log 256 KiB a second, and 2 MiB at once";

/// What a plugin may log now.
#[derive(Debug)]
pub struct LogQuota {
    /// Bytes, at most [`BURST`].
    left: u64,
    /// The time up to which they have grown.
    at: Instant,
    /// Lines that were too many since the last one that was not.
    dropped: u64,
}

impl LogQuota {
    /// All of the burst.
    pub fn new(now: Instant) -> Self {
        Self { left: BURST, at: now, dropped: 0 }
    }

    /// Asks for a line of so many bytes. Returns how many were dropped before it, or None: it is dropped, too.
    ///
    /// After the first one that is dropped none is kept until half of the burst is there again: a flood is silent for some
    /// seconds and then shows a piece in one, and not every tenth line.
    pub fn admit(&mut self, bytes: u64, now: Instant) -> Option<u64> {
        let grown = now.saturating_duration_since(self.at).as_nanos() * u128::from(RATE) / 1_000_000_000;
        let grown = u64::try_from(grown).unwrap_or(BURST);
        if grown > 0 {
            (self.left, self.at) = (self.left.saturating_add(grown).min(BURST), now);
        }
        let cost = bytes.saturating_add(LINE);
        let needed = if self.dropped > 0 { BURST / 2 } else { cost };
        if self.left < needed {
            self.dropped += 1;
            return None;
        }
        self.left = self.left.saturating_sub(cost);
        Some(std::mem::take(&mut self.dropped))
    }
}

/// The bytes of a text as a log in JSON has it: each control character is written as six.
pub fn escaped(text: &str) -> u64 {
    text.bytes().map(|byte| if byte < b' ' { 6 } else { 1 }).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// How many of so many lines of a kilobyte are kept.
    fn kept(quota: &mut LogQuota, lines: u32, now: Instant) -> usize {
        (0..lines).filter(|_| quota.admit(1024 - LINE, now).is_some()).count()
    }

    #[test]
    fn a_burst_is_kept_and_then_so_much_a_second_as_the_rate_says() {
        let start = Instant::now();
        let mut quota = LogQuota::new(start);
        assert_eq!(kept(&mut quota, 10_000, start), 2048);
        let per_minute: usize = (1..=60_000).map(|at| kept(&mut quota, 1, start + Duration::from_millis(at))).sum();
        assert!((14 * 1024..=15 * 1024 + 1024).contains(&per_minute), "{per_minute}");
    }

    #[test]
    fn one_that_logs_less_than_that_loses_nothing() {
        let start = Instant::now();
        let mut quota = LogQuota::new(start);
        let second = |at: u64| start + Duration::from_secs(at);
        assert!((0..1000).all(|at| kept(&mut quota, 255, second(at)) == 255));
    }

    #[test]
    fn the_first_line_after_a_flood_tells_how_many_are_missing() {
        let start = Instant::now();
        let mut quota = LogQuota::new(start);
        kept(&mut quota, 2048 + 7, start);
        assert_eq!(quota.admit(0, start + Duration::from_secs(1)), None, "a quarter of a mebibyte is too little");
        assert_eq!(quota.admit(0, start + Duration::from_secs(5)), Some(8));
        assert_eq!(quota.admit(0, start + Duration::from_secs(5)), Some(0));
    }

    #[test]
    fn time_that_stands_still_or_runs_away_does_no_harm() {
        let start = Instant::now();
        let mut quota = LogQuota::new(start + Duration::from_secs(9));
        assert_eq!(kept(&mut quota, 3000, start), 2048);
        assert_eq!(kept(&mut quota, 3000, start + Duration::from_secs(1 << 40)), 2048);
    }

    #[test]
    fn control_characters_count_as_they_are_written() {
        assert_eq!(escaped("a\0\n"), 13);
    }
}
