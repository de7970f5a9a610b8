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

/// The same of waits for a turn. Whoever has several workers waits for the processors whenever they
/// all have something to do, and a host that is busy for a moment is no news.
const TURN_SHARE: f64 = 0.5;

/// What a plugin can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    Cpu,
    NamespaceCpu,
    Turn,
    Concurrency,
    NamespaceConcurrency,
    Slots,
    Requests(Delay),
}

const BOUNDS: [Bound; 9] = [
    Bound::Cpu,
    Bound::NamespaceCpu,
    Bound::Turn,
    Bound::Concurrency,
    Bound::NamespaceConcurrency,
    Bound::Slots,
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
        let usage = metered.account.usage();
        let entry = metered.account.entry_waits();
        let meter = &metered.throttle.meter;
        Self(BOUNDS.map(|bound| match bound {
            Bound::Cpu => usage.throttled_time,
            Bound::NamespaceCpu => usage.throttled_by_group,
            Bound::Turn => usage.turn_wait,
            Bound::Concurrency => entry.account,
            Bound::NamespaceConcurrency => entry.group,
            Bound::Slots => meter.slot_waits.total(),
            Bound::Requests(delay) => meter.delayed_by(delay),
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
        self.latest = waited
            .map(|((bound, now), before)| Throttled {
                bound,
                waited: now.saturating_sub(before),
                within,
            })
            .filter(Throttled::is_much)
            .max_by_key(|throttled| throttled.waited);
        self.latest.clone()
    }
}

impl Throttled {
    fn is_much(&self) -> bool {
        let share = match self.bound {
            Bound::Turn => TURN_SHARE,
            _ => SHARE,
        };
        self.waited.as_secs_f64() > share * self.within.as_secs_f64()
    }

    /// Says what a plugin of this namespace waits for, and which setting of the host's
    /// configuration gives it more.
    pub fn message(&self, quotas: &Quotas, namespace: &str) -> String {
        let Self {
            bound,
            waited,
            within,
        } = self;
        let own = |is_set: bool, field: &str| quotas.path(is_set, namespace, field);
        let shared = |field: &str| quotas.path(false, namespace, field);
        let of_namespace = quotas.of_namespace(namespace);

        let (waiting, what) = match bound {
            Bound::Cpu => {
                let path = own(quotas.plugin.cpu.is_some(), "cpu");
                ("its reconciles", quota("processor time", &path))
            }
            Bound::NamespaceCpu => (
                "its reconciles",
                quota("its namespace's processor time", &shared("cpu")),
            ),
            Bound::Turn => {
                let path = shared("weight");
                let what = format!(
                    "their turns on the processors, which all namespaces share by weight: give the host more processors, or \
                     the namespace more weight ({path} of the host's configuration)"
                );
                ("its reconciles", what)
            }
            Bound::Concurrency => {
                let path = own(quotas.plugin.concurrency.is_some(), "concurrency");
                (
                    "its reconciles",
                    quota("reconciles in flight at once", &path),
                )
            }
            Bound::NamespaceConcurrency => {
                let limit = of_namespace.concurrency.unwrap_or_default();
                let what = format!("its namespace's {limit} reconciles in flight at once");
                ("its reconciles", quota(&what, &shared("concurrency")))
            }
            Bound::Slots => {
                let what = "an instance, of which all plugins of the host together have a fixed number: run another replica of the \
                            host, or set fewer workers in the controllers that wait longest for the API server";
                ("its reconciles", what.to_owned())
            }
            Bound::Requests(Delay::Rate) => {
                let path = own(quotas.plugin.api_qps.is_some(), "apiQps");
                ("its requests", quota("requests in each second", &path))
            }
            Bound::Requests(Delay::InFlight) => {
                let limit = of_namespace.api_in_flight.unwrap_or_default();
                let what = format!("the namespace's {limit} requests in flight");
                ("its requests", quota(&what, &shared("apiInFlight")))
            }
            Bound::Requests(Delay::Shared) => (
                "its requests",
                quota(
                    "the requests in flight that all namespaces share",
                    "quotas.apiInFlight",
                ),
            ),
        };

        format!(
            "in the last {} s {waiting} waited {:.1} s, added up, for {what}",
            within.as_secs(),
            waited.as_secs_f64()
        )
    }
}

/// Words a quota, with the setting to raise.
fn quota(of: &str, path: &str) -> String {
    format!("the quota of {of} ({path}) of the host's configuration")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits_for(bound: Bound, millis: u64) -> Waits {
        let mut waits = Waits::default();
        let at = BOUNDS.iter().position(|one| *one == bound);
        waits.0[at.expect("a bound")] = Duration::from_millis(millis);
        waits
    }

    fn waits(rate_millis: u64) -> Waits {
        waits_for(Bound::Requests(Delay::Rate), rate_millis)
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
    fn each_bound_is_found_and_turns_count_from_half_of_the_time() {
        let start = Instant::now();
        let observe = |waits| {
            let mut throttling = Throttling::default();
            throttling.observe(start, Waits::default());
            throttling.observe(start + Duration::from_secs(60), waits)
        };

        for bound in BOUNDS {
            let bounds = |millis| observe(waits_for(bound, millis)).map(|found| found.bound);
            assert_eq!(bounds(31_000), Some(bound));
            let short = (bound != Bound::Turn).then_some(bound);
            assert_eq!(bounds(29_000), short);
        }

        // What a quota takes is told, even beside longer waits that are not much.
        let mut both = waits_for(Bound::Turn, 29_000);
        both.0[0] = Duration::from_secs(7);
        assert_eq!(observe(both).map(|found| found.bound), Some(BOUNDS[0]));
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
                Bound::NamespaceCpu,
                "{plugin: {cpu: 1}, namespaces: {team: {cpu: 2}}}",
                "its namespace's processor time (quotas.namespaces.team.cpu)",
            ),
            (Bound::Turn, "{}", "(quotas.namespace.weight of the host's"),
            (
                Bound::Concurrency,
                "plugin: {concurrency: 3}",
                "quotas.plugin.concurrency",
            ),
            (
                Bound::NamespaceConcurrency,
                "{}",
                "100 reconciles in flight at once (quotas.namespace.concurrency)",
            ),
            (Bound::Slots, "{}", "run another replica"),
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
