//! The share of an account or a group, and its usage so far.

use std::time::Duration;

/// The share of an account or a group. The default is a weight of 100 and no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The part of the processor time relative to its siblings, when time is short: 1 to 10000, as
    /// cgroup's `cpu.weight`. Other numbers are clamped.
    pub weight: u32,
    /// The processor seconds per second, at least 0.001 and with a burst of 100 ms; None for no
    /// limit.
    pub cpu_limit: Option<f64>,
    /// The number of reconciles in flight at the same time. 0 lets none begin; None for no limit.
    pub concurrency: Option<u32>,
}

impl Share {
    /// The default weight.
    pub const DEFAULT_WEIGHT: u32 = 100;
    /// The highest weight.
    pub const MAX_WEIGHT: u32 = 10_000;
}

impl Default for Share {
    fn default() -> Self {
        Self {
            weight: Self::DEFAULT_WEIGHT,
            cpu_limit: None,
            concurrency: None,
        }
    }
}

/// The usage of an account or a group since it was created. All numbers only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The time spent polling, to the nanosecond.
    pub polled: Duration,
    /// The number of finished polls.
    pub polls: u64,
    /// The number of times that a `cpu_limit` began to throttle waiters.
    pub throttled: u64,
    /// The time during which it throttled waiters, up to now.
    pub throttled_time: Duration,
    /// The time between asking for a slot and having it on a thread, summed over all polls;
    /// includes throttling.
    pub wait: Duration,
    /// The longest such time.
    pub wait_max: Duration,
}
