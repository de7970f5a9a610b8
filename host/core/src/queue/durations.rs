//! A histogram of durations, with the buckets of the `workqueue_*` metrics.

use std::time::Duration;

/// Upper bounds of the buckets in nanoseconds: powers of ten from 10 ns to 1000 s, like
/// [controller-runtime's].
///
/// [controller-runtime's]: https://github.com/kubernetes-sigs/controller-runtime/blob/v0.24.1/pkg/internal/metrics/workqueue.go#L63
const BOUNDS: [u64; 12] = {
    let mut bounds = [10; 12];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 10;
        at += 1;
    }
    bounds
};

/// Counts of durations in the buckets of `workqueue_queue_duration_seconds`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurationHistogram {
    /// The number of durations in each bucket; the last is for those above all bounds.
    counts: [u64; BOUNDS.len() + 1],
    sum: Duration,
}

impl DurationHistogram {
    /// Counts a duration.
    pub fn observe(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[BOUNDS.partition_point(|bound| *bound < nanos)] += 1;
        self.sum = self.sum.saturating_add(duration);
    }

    /// Each bucket's upper bound in seconds, with its own count (not cumulative). The last bound is
    /// infinite.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = BOUNDS
            .iter()
            .map(|nanos| *nanos as f64 / 1e9)
            .chain([f64::INFINITY]);
        bounds.zip(self.counts)
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of the durations.
    pub fn sum(&self) -> Duration {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_belong_to_their_bucket() {
        let mut histogram = DurationHistogram::default();
        for nanos in [
            0,
            10,
            11,
            1_000_000_000,
            1_000_000_000_000,
            1_000_000_000_001,
            u64::MAX,
        ] {
            histogram.observe(Duration::from_nanos(nanos));
        }
        let filled: Vec<_> = histogram
            .buckets()
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(
            filled,
            [
                (1e-8, 2),
                (1e-7, 1),
                (1.0, 1),
                (1000.0, 1),
                (f64::INFINITY, 2)
            ]
        );
        assert_eq!(histogram.count(), 7);
        assert!(histogram.sum() > Duration::from_secs(2001));
    }
}
