//! The wall clock as Kubernetes' types have it.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use operetta_core::nondeterminism;

/// Returns the time on the wall clock, or on that of a simulation ([`nondeterminism`]).
pub fn now() -> Timestamp {
    let since = SignedDuration::try_from(nondeterminism::wall_clock());
    // Only a clock after the year 9999 has no timestamp.
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
