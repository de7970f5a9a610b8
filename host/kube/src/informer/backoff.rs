//! Backoff of an informer after a failed list or watch.

use std::time::Duration;

use operetta_core::nondeterminism;

use super::scope::Timing;

/// An exponential backoff: the first pause, doubled with each failure up to a maximum, plus a
/// random addition of up to half of it. Reset after a success. A server's Retry-After is the
/// minimum.
pub(super) struct Backoff {
    timing: Timing,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(timing: Timing) -> Self {
        Self {
            timing,
            failures: 0,
        }
    }

    /// The next pause. `retry_after` is the server's Retry-After in seconds, of which we honor at
    /// most a minute.
    pub(super) fn next(&mut self, retry_after: Option<u32>) -> Duration {
        let Timing {
            backoff,
            max_backoff,
            ..
        } = self.timing;
        let pause = backoff
            .saturating_mul(1 << self.failures.min(16))
            .min(max_backoff);
        self.failures = self.failures.saturating_add(1);
        let pause = pause
            .mul_f32(1.0 + nondeterminism::random_fraction() / 2.0)
            .min(max_backoff);
        let wished = Duration::from_secs(retry_after.unwrap_or_default().min(60).into());

        pause.max(wished)
    }

    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_bound_and_reset_on_success() {
        let timing = Timing::default();
        let mut waits = Backoff::new(timing);
        let pauses: Vec<Duration> = (0..40).map(|_| waits.next(None)).collect();
        assert!(
            pauses[0] >= timing.backoff && pauses[0] <= timing.backoff.mul_f32(1.5),
            "{pauses:?}"
        );
        assert!(pauses.iter().all(|pause| *pause <= timing.max_backoff));
        assert_eq!(pauses[39], timing.max_backoff);
        waits.reset();
        assert!(waits.next(None) <= timing.backoff.mul_f32(1.5));
    }

    #[test]
    fn honours_retry_after_within_bounds() {
        let mut waits = Backoff::new(Timing::default());
        assert_eq!(waits.next(Some(7)), Duration::from_secs(7));
        assert_eq!(waits.next(Some(u32::MAX)), Duration::from_secs(60));
    }
}
