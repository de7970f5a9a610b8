//! Leases that are no longer renewed, noticed the same way as in client-go's [`leaderelection`].
//!
//! [`leaderelection`]: https://github.com/kubernetes/client-go/blob/v0.36.2/tools/leaderelection/leaderelection.go#L541

use std::{collections::HashMap, time::Duration};

/// When one replica last saw each Lease change, by its own clock. No other clock matters: a Lease
/// is silent if this replica has seen no change of it for the Lease's duration.
#[derive(Debug, Default)]
pub struct Silence {
    /// Lease name to its last change.
    seen: HashMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    version: String,
    /// Since when the Lease has had this version.
    since: Duration,
    duration: Duration,
}

impl Silence {
    /// Records a look at a Lease. A new version restarts its time; being gone counts as a version.
    pub fn observe(&mut self, lease: &str, version: &str, duration: Duration, now: Duration) {
        match self
            .seen
            .get_mut(lease)
            .filter(|seen| seen.version == version)
        {
            Some(seen) => seen.duration = duration,
            None => {
                let seen = Seen {
                    version: version.to_owned(),
                    since: now,
                    duration,
                };
                self.seen.insert(lease.to_owned(), seen);
            }
        }
    }

    /// Forgets all Leases, because renewals may have been missed.
    pub fn clear(&mut self) {
        self.seen.clear();
    }

    /// Forgets the Leases not selected by `is_known`.
    pub fn retain(&mut self, is_known: impl Fn(&str) -> bool) {
        self.seen.retain(|lease, _| is_known(lease));
    }

    /// The version of a Lease that has been silent for its duration.
    pub fn silent(&self, lease: &str, now: Duration) -> Option<&str> {
        let seen = self
            .seen
            .get(lease)
            .filter(|seen| now >= seen.since + seen.duration)?;
        Some(&seen.version)
    }

    /// When the next Lease becomes silent, provided none changes.
    pub fn next(&self, now: Duration) -> Option<Duration> {
        self.seen
            .values()
            .map(|seen| seen.since + seen.duration)
            .filter(|at| *at > now)
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn lease_is_silent_after_its_duration_without_a_change() {
        let mut silence = Silence::default();
        silence.observe("a", "1", 4 * SECOND, 10 * SECOND);
        silence.observe("a", "1", 4 * SECOND, 13 * SECOND);
        assert_eq!(silence.silent("a", 13 * SECOND), None);
        assert_eq!(silence.next(13 * SECOND), Some(14 * SECOND));
        assert_eq!(silence.silent("a", 14 * SECOND), Some("1"));
        silence.observe("a", "2", 4 * SECOND, 15 * SECOND);
        assert_eq!(
            silence.silent("a", 18 * SECOND),
            None,
            "a change restarts the time"
        );
        assert_eq!(
            silence.silent("b", 99 * SECOND),
            None,
            "one that was never seen is not silent"
        );
        silence.retain(|lease| lease != "a");
        assert_eq!(
            (silence.silent("a", 99 * SECOND), silence.next(SECOND)),
            (None, None)
        );
    }
}
