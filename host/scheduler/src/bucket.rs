//! An exact token bucket for processor time. The caller passes in the time.

/// Capacity of a bucket: the burst allowed after idling, in nanoseconds of processor time.
pub const BURST: u64 = 100_000_000;

/// Tokens per nanosecond of processor time. With this unit, limits are integers in millionths of a
/// processor.
const UNIT: i64 = 1_000_000;

const FULL: i64 = BURST as i64 * UNIT;

/// The lowest limit, in millionths of a processor. With a limit of zero, a reconcile would stay in
/// flight forever.
const LOWEST: i64 = 1_000;

/// The highest limit, in millionths of a processor.
const HIGHEST: i64 = 1_000_000_000;

/// A token bucket of processor time, refilled over time up to `BURST`. Polls are charged when they
/// end, so a bucket can be in debt.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Tokens added per nanosecond, which is the limit in millionths of a processor.
    rate: i64,
    /// At most [`FULL`]. The bucket is open while this is positive.
    tokens: i64,
    /// Time of the last refill, in nanoseconds.
    at: u64,
}

impl Bucket {
    /// Creates a full bucket. `limit` is in processor seconds per second; anything below a
    /// thousandth counts as a thousandth.
    pub fn new(limit: f64, now: u64) -> Self {
        Self {
            rate: rate(limit),
            tokens: FULL,
            at: now,
        }
    }

    /// Changes the limit; tokens and debt stay.
    pub fn set_limit(&mut self, limit: f64, now: u64) {
        self.refill(now);
        self.rate = rate(limit);
    }

    /// Charges a poll of `polled` nanoseconds.
    pub fn charge(&mut self, polled: u64, now: u64) {
        self.refill(now);
        let polled = i64::try_from(polled).unwrap_or(i64::MAX);
        self.tokens = self.tokens.saturating_sub(polled.saturating_mul(UNIT));
    }

    /// When the bucket opens, in nanoseconds; None if it is open now.
    pub fn opens_at(&mut self, now: u64) -> Option<u64> {
        self.refill(now);
        let missing = 1_i64
            .saturating_sub(self.tokens)
            .try_into()
            .unwrap_or(0_u64);
        (missing > 0).then(|| {
            self.at
                .saturating_add(missing.div_ceil(self.rate.unsigned_abs()))
        })
    }

    fn refill(&mut self, now: u64) {
        let elapsed = i64::try_from(now.saturating_sub(self.at)).unwrap_or(i64::MAX);
        self.tokens = self
            .tokens
            .saturating_add(elapsed.saturating_mul(self.rate))
            .min(FULL);
        self.at = self.at.max(now);
    }
}

/// The float cast saturates and turns NaN into zero, so any limit is safe here.
fn rate(limit: f64) -> i64 {
    ((limit * UNIT as f64).round() as i64).clamp(LOWEST, HIGHEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn bucket_closes_after_burst_and_reopens() {
        let mut bucket = Bucket::new(0.25, 0);
        bucket.charge(99 * MS, 0);
        assert_eq!(bucket.opens_at(0), None);
        bucket.charge(2 * MS, 0);
        assert_eq!(
            bucket.opens_at(0),
            Some(4 * MS + 1),
            "1 ms of debt is refilled at a quarter"
        );
        assert_eq!(bucket.opens_at(4 * MS), Some(4 * MS + 1));
        assert_eq!(bucket.opens_at(4 * MS + 1), None);
    }

    #[test]
    fn bucket_never_exceeds_burst() {
        let mut bucket = Bucket::new(64.0, 0);
        bucket.charge(BURST, u64::MAX / 2);
        assert!(bucket.opens_at(u64::MAX / 2).is_some());
    }

    #[test]
    fn bucket_never_overflows_or_stays_closed() {
        for limit in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY, f64::MIN_POSITIVE] {
            let mut bucket = Bucket::new(limit, 0);
            bucket.charge(BURST + MS, 0);
            assert_eq!(
                bucket.opens_at(0),
                Some(1000 * MS + 1),
                "{limit} counts as a thousandth"
            );
        }
        let mut bucket = Bucket::new(f64::INFINITY, 0);
        bucket.charge(u64::MAX, 5);
        bucket.charge(u64::MAX, 3);
        assert!(bucket.opens_at(0).is_some_and(|at| at > 5));
    }

    #[test]
    fn limit_change_keeps_debt() {
        let mut bucket = Bucket::new(1.0, 0);
        bucket.charge(BURST + 10 * MS, 0);
        bucket.set_limit(0.5, 4 * MS);
        assert_eq!(bucket.opens_at(4 * MS), Some(16 * MS + 1));
    }
}
