//! The wall clock, as a type of Kubernetes.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use operetta_core::nondeterminism;

/// The time on the wall clock, or on a simulation's ([`nondeterminism`]).
pub fn now() -> Timestamp {
    let since = SignedDuration::try_from(nondeterminism::wall_clock());
    // Only a clock past the year 9999 has no timestamp.
    since
        .and_then(Timestamp::from_duration)
        .unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn now_is_the_machines_time() {
        let [before, now, after] = [Timestamp::now(), now(), Timestamp::now()];
        assert!(
            (before..=after).contains(&now),
            "{now} is between {before} and {after}"
        );
    }
}
