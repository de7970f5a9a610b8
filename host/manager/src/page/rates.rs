//! Rates of plugins from the counts that the host has anyway: the page keeps the last counts for
//! some seconds, and only while somebody reads it.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use operetta_core::{object::ObjectKey, queue::DurationHistogram};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::plugin::{hosted_plugin::HostedPlugin, hosted_plugins::HostedPlugins};

/// The longest period over which rates are computed.
const WINDOW: Duration = Duration::from_secs(10);
/// The shortest time between two counts that are kept.
const STEP: Duration = Duration::from_secs(2);
/// The longest wait for plugins that are being reconciled.
const BUSY: Duration = Duration::from_millis(100);

/// The counts of a plugin on this replica.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    reconciles: u64,
    errors: u64,
    cpu: Duration,
    throttled: Duration,
    /// The number of reconciles in each bucket of durations.
    durations: Vec<(f64, u64)>,
    /// The peak memory of one instance.
    pub memory_bytes: u64,
    /// The number of queued keys.
    pub queued: usize,
}

/// The rates of a plugin on this replica. None: nothing to compute them from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rates {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconciles_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_percent: Option<f64>,
}

pub(super) type AllCounts = HashMap<ObjectKey, Counts>;

/// The counts of the last seconds.
#[derive(Default)]
pub(super) struct History(VecDeque<(Instant, Arc<AllCounts>)>);

/// Counts all plugins that run here. Those that are being set up are left out.
pub(super) async fn count(hosted_plugins: &HostedPlugins) -> AllCounts {
    let mut all = AllCounts::new();
    let end = Instant::now() + BUSY;
    for (key, hosted) in hosted_plugins.all() {
        if let Some(counts) = count_one(&hosted, end).await {
            all.insert(key, counts);
        }
    }
    all
}

async fn count_one(hosted: &HostedPlugin, end: Instant) -> Option<Counts> {
    let state = timeout_at(end, hosted.state.lock()).await.ok()?;
    let running = state.running.as_ref()?;
    let mut counts = Counts::default();

    if let Some(metered) = running.metered() {
        let usage = metered.account.usage();
        counts.cpu = usage.polled;
        counts.throttled =
            usage.throttled_time + usage.throttled_by_group + metered.throttle.meter.delayed_time();
        counts.memory_bytes = metered
            .throttle
            .meter
            .peak_memory_bytes
            .load(Ordering::Relaxed);
    }

    let mut names: Vec<&str> = Vec::new();
    for controller in running.iter().flat_map(|shard| shard.controllers()) {
        counts.add(&controller.queue().stats().work_durations);
        if !names.contains(&controller.name()) {
            names.push(controller.name());
        }
    }

    for name in names {
        let health = hosted.health.of(name);
        counts.reconciles += health.reconciles;
        counts.errors += health.errors;
        counts.queued += running.queued(name);
    }

    Some(counts)
}

impl Counts {
    fn add(&mut self, durations: &DurationHistogram) {
        if self.durations.is_empty() {
            self.durations = durations.buckets().collect();
            return;
        }
        for (own, (_, count)) in self.durations.iter_mut().zip(durations.buckets()) {
            own.1 += count;
        }
    }

    /// Returns the rates since earlier counts.
    pub(super) fn rates(&self, before: Option<&(Duration, Self)>) -> Rates {
        let Some((elapsed, before)) = before else {
            return Rates::default();
        };
        let seconds = elapsed.as_secs_f64();
        let rate =
            |now: u64, before: u64| Some(rounded(now.saturating_sub(before) as f64 / seconds));
        let percent = |now: Duration, before: Duration| {
            Some(rounded(
                now.saturating_sub(before).as_secs_f64() / seconds * 100.0,
            ))
        };

        let zero = before
            .durations
            .iter()
            .map(|(_, count)| *count)
            .chain(std::iter::repeat(0));
        let new: Vec<_> = self
            .durations
            .iter()
            .zip(zero)
            .map(|((bound, now), old)| (*bound, now - now.min(&old)))
            .collect();

        Rates {
            reconciles_per_second: rate(self.reconciles, before.reconciles),
            errors_per_second: rate(self.errors, before.errors),
            p50_ms: quantile(&new, 0.5).map(|seconds| rounded(seconds * 1e3)),
            p99_ms: quantile(&new, 0.99).map(|seconds| rounded(seconds * 1e3)),
            cpu_percent: percent(self.cpu, before.cpu),
            throttled_percent: percent(self.throttled, before.throttled),
        }
    }
}

impl History {
    /// Keeps counts. Returns the earlier ones that rates are computed from, with their age.
    pub(super) fn push(
        &mut self,
        now: Instant,
        counts: Arc<AllCounts>,
    ) -> Option<(Duration, Arc<AllCounts>)> {
        while self.0.front().is_some_and(|(at, _)| now - *at > WINDOW) {
            self.0.pop_front();
        }
        let before = self
            .0
            .front()
            .map(|(at, counts)| (now - *at, counts.clone()));
        if self.0.back().is_none_or(|(at, _)| now - *at >= STEP) {
            self.0.push_back((now, counts));
        }

        before.filter(|(elapsed, _)| !elapsed.is_zero())
    }
}

/// Returns a quantile of durations in seconds. Buckets are powers of ten, and within one the
/// logarithm is interpolated: an estimate. None without durations.
fn quantile(buckets: &[(f64, u64)], quantile: f64) -> Option<f64> {
    let all: u64 = buckets.iter().map(|(_, count)| count).sum();
    let wanted = quantile * all as f64;
    let mut below = 0.0;
    let mut lower = None;

    for (bound, count) in buckets {
        let count = *count as f64;
        if count > 0.0 && below + count >= wanted {
            let lower = lower.unwrap_or(bound / 10.0);
            let upper = if bound.is_finite() { *bound } else { lower };
            return Some(lower * (upper / lower).powf((wanted - below) / count));
        }
        below += count;
        lower = Some(*bound);
    }

    None
}

/// Returns a number with three digits after the point, so that noise is no change.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let mut before = Counts {
            reconciles: 100,
            errors: 1,
            cpu: Duration::from_secs(5),
            ..Counts::default()
        };
        let mut durations = DurationHistogram::default();
        durations.observe(Duration::from_secs(5));
        before.add(&durations);
        for _ in 0..100 {
            durations.observe(Duration::from_millis(5));
        }

        let mut now = Counts {
            reconciles: 150,
            errors: 1,
            cpu: Duration::from_secs(6),
            ..Counts::default()
        };
        now.add(&durations);
        let rates = now.rates(Some(&(Duration::from_secs(10), before)));
        assert_eq!(
            (rates.reconciles_per_second, rates.errors_per_second),
            (Some(5.0), Some(0.0))
        );
        assert_eq!(rates.cpu_percent, Some(10.0));

        let p99 = rates.p99_ms.expect("durations");
        assert!((1.0..=10.0).contains(&p99), "5 s was before: {p99}");
        assert_eq!(
            now.rates(None),
            Rates::default(),
            "nothing is known from one count"
        );
    }

    #[test]
    fn history_is_bounded() {
        let mut history = History::default();
        let start = Instant::now();
        assert!(history.push(start, Arc::default()).is_none());

        for tick in 1..1_000 {
            let now = start + Duration::from_millis(500) * tick;
            let (elapsed, _) = history.push(now, Arc::default()).expect("earlier counts");
            assert!(
                elapsed <= WINDOW && history.0.len() <= 6,
                "{elapsed:?} {}",
                history.0.len()
            );
        }
    }
}
