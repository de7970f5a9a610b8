//! The quota of a plugin's log: lines beyond it are dropped and counted.

use tokio::time::Instant;

/// What the host adds to a line's text, in bytes.
const LINE: u64 = 128;

/// Bytes per second.
const RATE: u64 = 256 * 1024;

/// The bytes allowed after a pause.
const BURST: u64 = 2 * 1024 * 1024;

/// Why lines are missing.
pub const TOO_MUCH: &str = "over the limit of 256 KiB per second with bursts of 2 MiB";

/// How much a plugin may log now: a token bucket.
#[derive(Debug)]
pub struct LogQuota {
    /// Tokens in bytes, at most [`BURST`].
    left: u64,
    /// When tokens were last added.
    at: Instant,
    /// Lines dropped since the last one was kept.
    dropped: u64,
}

impl LogQuota {
    /// Creates a full bucket.
    pub fn new(now: Instant) -> Self {
        Self {
            left: BURST,
            at: now,
            dropped: 0,
        }
    }

    /// Takes the tokens for a line. Returns how many lines were dropped before it, or None if this
    /// one is dropped.
    ///
    /// After dropping a line we drop all others until half the burst is available again. That way a
    /// flood is logged in contiguous pieces, some seconds apart, and not as every tenth line.
    pub fn admit(&mut self, bytes: u64, now: Instant) -> Option<u64> {
        let grown =
            now.saturating_duration_since(self.at).as_nanos() * u128::from(RATE) / 1_000_000_000;
        let grown = u64::try_from(grown).unwrap_or(BURST);
        if grown > 0 {
            self.left = self.left.saturating_add(grown).min(BURST);
            self.at = now;
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

/// Returns the size of a text in a JSON log, where some characters are escaped.
pub fn escaped(text: &str) -> u64 {
    let size = |byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | b'\x08' | b'\x0c' => 2,
        0..b' ' => 6,
        _ => 1,
    };
    text.bytes().map(size).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Logs lines of a kilobyte. Returns how many are kept.
    fn kept(quota: &mut LogQuota, lines: u32, now: Instant) -> usize {
        (0..lines)
            .filter(|_| quota.admit(1024 - LINE, now).is_some())
            .count()
    }

    #[test]
    fn keeps_the_burst_and_then_the_rate() {
        let start = Instant::now();
        let mut quota = LogQuota::new(start);
        assert_eq!(kept(&mut quota, 10_000, start), 2048);

        let per_minute: usize = (1..=60_000)
            .map(|at| kept(&mut quota, 1, start + Duration::from_millis(at)))
            .sum();
        assert!(
            (14 * 1024..=15 * 1024 + 1024).contains(&per_minute),
            "{per_minute}"
        );
    }

    #[test]
    fn keeps_all_lines_below_the_rate() {
        let start = Instant::now();
        let mut quota = LogQuota::new(start);
        let second = |at: u64| start + Duration::from_secs(at);
        assert!((0..1000).all(|at| kept(&mut quota, 255, second(at)) == 255));
    }

    #[test]
    fn first_line_after_a_flood_counts_the_dropped() {
        let start = Instant::now();
        let mut quota = LogQuota::new(start);
        kept(&mut quota, 2048 + 7, start);
        assert_eq!(
            quota.admit(0, start + Duration::from_secs(1)),
            None,
            "a quarter of a mebibyte is too little"
        );
        assert_eq!(quota.admit(0, start + Duration::from_secs(5)), Some(8));
        assert_eq!(quota.admit(0, start + Duration::from_secs(5)), Some(0));
    }

    #[test]
    fn tolerates_time_that_jumps() {
        let start = Instant::now();
        let mut quota = LogQuota::new(start + Duration::from_secs(9));
        assert_eq!(kept(&mut quota, 3000, start), 2048);
        assert_eq!(
            kept(&mut quota, 3000, start + Duration::from_secs(1 << 40)),
            2048
        );
    }

    #[test]
    fn escaped_characters_count_as_many_bytes_as_json_has() {
        let every_byte: String = (0..=u8::MAX).map(char::from).collect();
        for text in ["a\0\n", "\"\\\"\\", "é\u{2028}🎭", &every_byte] {
            let json = serde_json::to_string(text).expect("a string");
            assert_eq!(escaped(text), json.len() as u64 - 2, "{json}");
        }
    }
}
