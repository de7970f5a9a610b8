//! Whether a plugin waits for its quotas: what the condition `Throttled` says.

use std::time::Duration;

use operetta_core::gate::in_flight::Delay;
use tokio::time::Instant;

use crate::{plugin::setup::assembly::Metered, tenancy::quotas::Quotas};

/// The shortest time over which waiting is judged.
const WINDOW: Duration = Duration::from_secs(20);

/// The share of the time from which on a plugin is throttled. Reconciles that run at once wait at
/// once, and their waits are added up.
const SHARE: f64 = 0.1;

/// What a plugin can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    Cpu,
    Requests(Delay),
}

const BOUNDS: [Bound; 4] = [
    Bound::Cpu,
    Bound::Requests(Delay::Rate),
    Bound::Requests(Delay::InFlight),
    Bound::Requests(Delay::Shared),
];

/// The waits of a plugin so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits([Duration; BOUNDS.len()]);

impl Waits {
    /// Reads the waits off a plugin's meters.
    pub fn of(metered: &Metered) -> Self {
        Self(BOUNDS.map(|bound| match bound {
            Bound::Cpu => metered.account.usage().throttled_time,
            Bound::Requests(delay) => metered.throttle.meter.delayed_by(delay),
        }))
    }
}

/// The throttling of a plugin, judged once in each window.
#[derive(Debug, Default)]
pub struct Throttling {
    /// The waits at the start of the window.
    before: Option<(Instant, Waits)>,
    latest: Option<Throttled>,
}

/// A plugin that waits for more than a tenth of the time.
#[derive(Clone, Debug, PartialEq)]
pub struct Throttled {
    bound: Bound,
    waited: Duration,
    within: Duration,
}

impl Throttling {
    /// Judges the waits so far. Returns for what the plugin has waited most, if that is much.
    pub fn observe(&mut self, now: Instant, waits: Waits) -> Option<Throttled> {
        let (since, before) = *self.before.get_or_insert((now, waits));
        let within = now - since;
        if within < WINDOW {
            return self.latest.clone();
        }

        self.before = Some((now, waits));
        let waited = BOUNDS.into_iter().zip(waits.0).zip(before.0);
        // A plugin that was set up again counts from zero.
        let (waited, bound) = waited
            .map(|((bound, now), before)| (now.saturating_sub(before), bound))
            .max_by_key(|(waited, _)| *waited)?;
        let is_much = waited.as_secs_f64() > SHARE * within.as_secs_f64();
        self.latest = is_much.then_some(Throttled {
            bound,
            waited,
            within,
        });
        self.latest.clone()
    }
}

impl Throttled {
    /// Says what a plugin of this namespace waits for, and which setting of the host's
    /// configuration gives it more.
    pub fn message(&self, quotas: &Quotas, namespace: &str) -> String {
        let Self {
            bound,
            waited,
            within,
        } = self;
        let (waiting, quota) = match bound {
            Bound::Cpu => {
                let path = quotas.path(quotas.plugin.cpu.is_some(), namespace, "cpu");
                ("its reconciles", format!("processor time ({path})"))
            }
            Bound::Requests(Delay::Rate) => {
                let path = quotas.path(quotas.plugin.api_qps.is_some(), namespace, "apiQps");
                ("its requests", format!("requests in each second ({path})"))
            }
            Bound::Requests(Delay::InFlight) => {
                let of_namespace = quotas.of_namespace(namespace);
                let limit = of_namespace.api_in_flight.unwrap_or_default();
                let path = quotas.path(false, namespace, "apiInFlight");
                (
                    "its requests",
                    format!("the namespace's {limit} requests in flight ({path})"),
                )
            }
            Bound::Requests(Delay::Shared) => (
                "its requests",
                "the requests in flight that all namespaces share (quotas.apiInFlight)".to_owned(),
            ),
        };

        format!(
            "in the last {} s {waiting} waited {:.1} s, added up, for the quota of {quota} of the host's configuration",
            within.as_secs(),
            waited.as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(rate_millis: u64) -> Waits {
        let mut waits = Waits::default();
        waits.0[1] = Duration::from_millis(rate_millis);
        waits
    }

    #[test]
    fn plugin_is_throttled_while_it_waits_for_a_tenth_of_the_time() {
        let mut throttling = Throttling::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);

        assert_eq!(throttling.observe(at(0), waits(90_000)), None, "long ago");
        assert_eq!(throttling.observe(at(5), waits(99_000)), None, "too early");
        let throttled = throttling
            .observe(at(20), waits(99_000))
            .expect("9 of 20 s");
        assert_eq!(throttled.bound, Bound::Requests(Delay::Rate));
        assert_eq!(
            throttling.observe(at(30), waits(99_000)),
            Some(throttled),
            "until the next window"
        );
        assert_eq!(
            throttling.observe(at(41), waits(100_000)),
            None,
            "1 of 21 s"
        );
        assert_eq!(throttling.observe(at(90), waits(0)), None, "set up again");
    }

    #[test]
    fn message_names_the_quota_to_raise() {
        let quotas = |text: &str| serde_yaml_ng::from_str::<Quotas>(text).expect("yaml");
        let message = |bound, text: &str| {
            let throttled = Throttled {
                bound,
                waited: Duration::from_secs(9),
                within: Duration::from_secs(60),
            };
            throttled.message(&quotas(text), "team")
        };

        for (bound, text, path) in [
            (Bound::Cpu, "plugin: {cpu: 1}", "quotas.plugin.cpu"),
            (Bound::Cpu, "namespace: {cpu: 1}", "quotas.namespace.cpu"),
            (
                Bound::Requests(Delay::Rate),
                "namespaces: {team: {apiQps: 5}}",
                "quotas.namespaces.team.apiQps",
            ),
            (
                Bound::Requests(Delay::InFlight),
                "{}",
                "16 requests in flight (quotas.namespace.apiInFlight)",
            ),
            (Bound::Requests(Delay::Shared), "{}", "quotas.apiInFlight"),
        ] {
            let said = message(bound, text);
            assert!(said.contains(path), "{said}");
            assert!(said.starts_with("in the last 60 s its re"), "{said}");
        }
    }
}
