//! The configuration of replicas.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

/// The longest time between two renewals of a Lease, and so until a failure is noticed.
const PERIOD: Duration = Duration::from_secs(2);

/// The times of a replica's Lease.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ReplicaConfig {
    /// The seconds after which another replica takes over the Plugins of one that has not renewed
    /// its Lease. A write of a plugin has at most as long for its response. The Lease is renewed
    /// after two fifths of it, or after two seconds.
    pub lease_seconds: u32,
}

impl Default for ReplicaConfig {
    fn default() -> Self {
        Self { lease_seconds: 15 }
    }
}

impl ReplicaConfig {
    pub(super) fn duration(&self) -> Duration {
        Duration::from_secs(self.lease_seconds.max(1).into())
    }

    pub(super) fn period(&self) -> Duration {
        (self.duration() * 2 / 5).min(PERIOD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_is_renewed_twice_before_it_expires() {
        for (lease_seconds, millis) in [(4, 1600), (15, 2000), (1, 400), (0, 400)] {
            let config = ReplicaConfig { lease_seconds };
            assert_eq!(
                config.period(),
                Duration::from_millis(millis),
                "{lease_seconds} s"
            );
            assert!(config.period() * 2 < config.duration());
        }

        let config: ReplicaConfig =
            serde_json::from_str("{\"leaseSeconds\": 4}").expect("a configuration");
        assert_eq!(config.duration(), Duration::from_secs(4));
    }
}
