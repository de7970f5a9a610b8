//! Counters of a queue.

use std::time::Duration;

use super::durations::DurationHistogram;

/// A queue's counters, with the meaning of controller-runtime's `workqueue_*` metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// `workqueue_depth`: keys in need of processing, including those added again while being
    /// processed.
    pub depth: usize,
    /// Keys of `depth` with [`Priority::Low`](super::Priority::Low).
    pub depth_low: usize,
    /// Keys with a running delay.
    pub waiting: usize,
    /// Keys handed out and not done.
    pub processing: usize,
    /// `workqueue_adds_total`: how often a key came to need processing. Adding it again before it
    /// is handed out doesn't count.
    pub adds_total: u64,
    /// `workqueue_retries_total`: calls of [`WorkQueue::add_after`](super::WorkQueue::add_after)
    /// and [`WorkQueue::add_rate_limited`](super::WorkQueue::add_rate_limited).
    pub retries_total: u64,
    /// `workqueue_unfinished_work_seconds`: total time since the keys in `processing` were handed
    /// out.
    pub unfinished_work: Duration,
    /// `workqueue_longest_running_processor_seconds`: the longest of these times.
    pub longest_running: Duration,
    /// `workqueue_queue_duration_seconds`: how long keys waited to be handed out.
    pub queue_durations: DurationHistogram,
    /// `workqueue_work_duration_seconds`: times from handing a key out to
    /// [`WorkQueue::done`](super::WorkQueue::done).
    pub work_durations: DurationHistogram,
}
