//! The counters of a queue.

use std::time::Duration;

use super::durations::DurationHistogram;

/// The counters of a queue, with the meaning of controller-runtime's `workqueue_*` metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// `workqueue_depth`: keys that need processing, including those that are being processed and
    /// were added again.
    pub depth: usize,
    /// The keys of `depth` with [`Priority::Low`](super::Priority::Low).
    pub depth_low: usize,
    /// The number of keys whose delay runs.
    pub waiting: usize,
    /// The number of keys handed out and not done.
    pub processing: usize,
    /// `workqueue_adds_total`: the number of times a key came to need processing. Adding it again
    /// before it is handed out does not count.
    pub adds_total: u64,
    /// `workqueue_retries_total`: calls of [`WorkQueue::add_after`](super::WorkQueue::add_after)
    /// and [`WorkQueue::add_rate_limited`](super::WorkQueue::add_rate_limited).
    pub retries_total: u64,
    /// `workqueue_unfinished_work_seconds`: the sum of the times since the keys in `processing`
    /// were handed out.
    pub unfinished_work: Duration,
    /// `workqueue_longest_running_processor_seconds`: the longest of these times.
    pub longest_running: Duration,
    /// `workqueue_queue_duration_seconds`: the times that keys waited until they were handed out.
    pub queue_durations: DurationHistogram,
    /// `workqueue_work_duration_seconds`: the times from handing a key out to
    /// [`WorkQueue::done`](super::WorkQueue::done).
    pub work_durations: DurationHistogram,
}
