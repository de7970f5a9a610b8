//! Shares of accounts and groups, and their usage.

use std::time::Duration;

/// The share of an account or a group. The default is a weight of 100 and no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Part of the processor time relative to siblings when time is short: 1 to 10000, like
    /// cgroup's `cpu.weight`. Other numbers are clamped.
    pub weight: u32,
    /// Processor seconds per second, at least 0.001, with a burst of 100 ms; None for no limit.
    pub cpu_limit: Option<f64>,
    /// Maximum number of reconciles in flight. 0 lets none begin; None for no limit.
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

/// What an account or a group has used since it was created. All numbers only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time spent polling, to the nanosecond.
    pub polled: Duration,
    /// Number of finished polls.
    pub polls: u64,
    /// How often a `cpu_limit` began to throttle waiters.
    pub throttled: u64,
    /// How long it throttled waiters, up to now.
    pub throttled_time: Duration,
    /// Time from asking for a slot to having it on a thread, summed over all polls; includes
    /// throttling.
    pub wait: Duration,
    /// The longest such wait.
    pub wait_max: Duration,
    /// How long the `cpu_limit` of its group kept waiters of an account back, up to now. None of a
    /// group.
    pub throttled_by_group: Duration,
    /// The part of `wait` in which no limit throttled it: others had their turn.
    pub turn_wait: Duration,
}

/// How long reconciles of an account have waited to begin because as many as `concurrency` allows
/// were in flight, summed over all of them. Both only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryWaits {
    /// For the account's own limit.
    pub account: Duration,
    /// For the limit of its group.
    pub group: Duration,
}
