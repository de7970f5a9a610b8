//! The share of an account or a group, and its use so far.

use std::time::Duration;

/// The share of an account or a group. The default is a weight of 100 and no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Its part of the processor time compared with its siblings, when that is short: 1 to 10000, as cgroup's
    /// `cpu.weight`. Other numbers count as the nearest of these.
    pub weight: u32,
    /// Processor seconds for each second, at least 0.001 and with a burst of 100 ms; None: no limit.
    pub cpu_limit: Option<f64>,
    /// Reconciles in flight at the same time; 0 lets none begin; None: no limit.
    pub concurrency: Option<u32>,
}

impl Share {
    /// The weight of those who do not say.
    pub const DEFAULT_WEIGHT: u32 = 100;
    /// The highest weight.
    pub const MAX_WEIGHT: u32 = 10_000;
}

impl Default for Share {
    fn default() -> Self {
        Self { weight: Self::DEFAULT_WEIGHT, cpu_limit: None, concurrency: None }
    }
}

/// The usage of an account or a group since it was made: all numbers only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time spent polling, to the nanosecond.
    pub polled: Duration,
    /// Polls that are over.
    pub polls: u64,
    /// The number of times that a `cpu_limit` began to hold back a waiter.
    pub throttled: u64,
    /// The time that it held back waiters, up to now.
    pub throttled_time: Duration,
    /// Time between wanting a slot and having it on a thread, of all polls together; throttling included.
    pub wait: Duration,
    /// The longest such time.
    pub wait_max: Duration,
}
