//! Samples of work queues and workers, under controller-runtime's names.

use operetta_core::{controller::Controller, queue::DurationHistogram};

use crate::metrics::samples::{Labels, Samples};

/// controller-runtime's priorities: of changes, and of initial lists and resyncs.
const NORMAL: &str = "0";
const LOW: &str = "-100";

#[derive(Default)]
pub(super) struct Queues {
    depth: Vec<(Labels, u64)>,
    adds: Vec<(Labels, u64)>,
    retries: Vec<(Labels, u64)>,
    unfinished: Vec<(Labels, f64)>,
    longest: Vec<(Labels, f64)>,
    queue_durations: Vec<(Labels, DurationHistogram)>,
    work_durations: Vec<(Labels, DurationHistogram)>,
    workers: Workers,
}

#[derive(Default)]
struct Workers {
    wanted: Vec<(Labels, u64)>,
    active: Vec<(Labels, u64)>,
}

impl Queues {
    /// Adds samples of a controller. `plugin` are its plugin's labels.
    pub(super) fn add(&mut self, controller: &Controller, plugin: &Labels) {
        let stats = controller.queue().stats();
        let with = |own: &[(&'static str, &str)]| -> Labels {
            let own = own.iter().map(|(name, value)| (*name, (*value).to_owned()));
            own.chain(plugin.iter().cloned()).collect()
        };
        let name = controller.name();

        // controller-runtime has both; `name` is the older one.
        let labels = with(&[("name", name), ("controller", name)]);
        let normal = stats.depth.saturating_sub(stats.depth_low);
        for (priority, depth) in [(NORMAL, normal), (LOW, stats.depth_low)] {
            let labels = with(&[("name", name), ("controller", name), ("priority", priority)]);
            self.depth.push((labels, depth as u64));
        }
        self.adds.push((labels.clone(), stats.adds_total));
        self.retries.push((labels.clone(), stats.retries_total));
        self.unfinished
            .push((labels.clone(), stats.unfinished_work.as_secs_f64()));
        self.longest
            .push((labels.clone(), stats.longest_running.as_secs_f64()));
        self.queue_durations
            .push((labels.clone(), stats.queue_durations));

        self.work_durations.push((labels, stats.work_durations));
        let labels = with(&[("controller", name)]);
        self.workers
            .wanted
            .push((labels.clone(), controller.workers().into()));
        self.workers.active.push((labels, stats.processing as u64));
    }

    pub(super) fn write(self, samples: &mut Samples) {
        samples.gauge(
            "workqueue_depth",
            "Current depth of the workqueue by priority",
            self.depth,
        );
        samples.counter(
            "workqueue_adds",
            "Number of keys added to the workqueue",
            self.adds,
        );
        samples.counter(
            "workqueue_retries",
            "Number of retries handled by the workqueue",
            self.retries,
        );

        let help = "Time that a key stays in the workqueue before it is reconciled, in seconds";
        samples.histogram(
            "workqueue_queue_duration_seconds",
            help,
            self.queue_durations,
        );
        let help = "Time from taking a key out of the workqueue until it is done, in seconds";
        samples.histogram("workqueue_work_duration_seconds", help, self.work_durations);

        let help = "Duration of all reconciles in flight in seconds";
        samples.gauge("workqueue_unfinished_work_seconds", help, self.unfinished);
        let help = "Duration of the longest reconcile in flight in seconds";
        samples.gauge(
            "workqueue_longest_running_processor_seconds",
            help,
            self.longest,
        );

        let help = "Maximum number of concurrent reconciles of a controller";
        samples.gauge(
            "controller_runtime_max_concurrent_reconciles",
            help,
            self.workers.wanted,
        );
        let help = "Number of busy workers of a controller";
        samples.gauge(
            "controller_runtime_active_workers",
            help,
            self.workers.active,
        );
    }
}
