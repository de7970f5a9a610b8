//! Samples of plugins: their queues and their use of resources.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use operetta_core::{
    controller::Controller, gate::operation::Verb, object::ObjectKey, replicas::Shard,
};
use operetta_wasm::MappedTotals;
use tokio::time::{Instant, timeout_at};

use crate::{
    metrics::{
        queues::Queues,
        samples::{Labels, Samples},
    },
    plugin::{hosted_plugins::HostedPlugins, setup::assembly::Metered},
};

/// The longest wait of a scrape for plugins that are being reconciled.
const WAIT: Duration = Duration::from_millis(500);

/// Takes samples of all plugins, and of the queues of the host's own controllers. It waits half a
/// second for plugins that are being set up, and then leaves them out.
pub async fn sample(
    hosted_plugins: &HostedPlugins,
    own: &[Arc<Controller>],
    samples: &mut Samples,
) {
    let mut queues = Queues::default();
    own.iter()
        .for_each(|controller| queues.add(controller, &Labels::new()));
    let mut usage = Usage::default();
    let mut quarantined = Vec::new();
    let mut shards = Vec::new();
    let end = Instant::now() + WAIT;
    for (key, hosted) in hosted_plugins.all() {
        let Ok(state) = timeout_at(end, hosted.state.lock()).await else {
            continue;
        };
        let Some(running) = &state.running else {
            continue;
        };

        let plugin = plugin_labels(&key);
        if let Some(metered) = running.metered() {
            usage.add(
                plugin.clone(),
                metered,
                hosted.cached_bytes.load(Ordering::Relaxed),
            );
        }

        for running in running.iter() {
            let labels = shard_labels(&plugin, running.shard());
            for controller in running.controllers() {
                queues.add(controller, &labels);
                let loops = running.loops().summary(controller.name());
                quarantined.push((
                    with(&labels, "name", controller.name()),
                    loops.quarantined as u64,
                ));
            }
        }

        let split = hosted
            .shards()
            .into_iter()
            .filter(|local| !local.shard.is_whole());
        shards.extend(split.map(|local| {
            (
                shard_labels(&plugin, local.shard),
                u64::from(local.is_owned),
            )
        }));
    }
    queues.write(samples);

    samples.gauge(
        "operetta_quarantined_keys",
        "Number of keys quarantined because of a hot loop",
        quarantined,
    );
    let help = "1 for a shard of a split plugin that this replica runs, 0 for one that it prepares to take over";
    samples.gauge("operetta_plugin_shard", help, shards);
    usage.write(samples);
}

/// Adds samples of the plugins' compiled code.
pub fn sample_code(code: MappedTotals, samples: &mut Samples) {
    let one = |value: u64| [(Labels::new(), value)];
    samples.gauge(
        "operetta_plugins_loaded",
        "Number of components whose code is loaded; plugins of one digest share it",
        one(code.loaded as u64),
    );
    samples.gauge(
        "operetta_plugins_mapped",
        "Number of components whose code is mapped into memory",
        one(code.mapped as u64),
    );
    samples.gauge(
        "operetta_mapped_code_bytes",
        "Address space of mapped code in bytes",
        one(code.bytes),
    );

    samples.counter(
        "operetta_code_mapped_again",
        "Number of times that a call had to map code again",
        one(code.again),
    );
}

/// The labels of a plugin's samples: its name and its namespace.
pub fn plugin_labels(plugin: &ObjectKey) -> Labels {
    vec![
        ("plugin", plugin.name.clone()),
        ("namespace", plugin.namespace.clone().unwrap_or_default()),
    ]
}

/// Returns the labels of a shard: those of its plugin, and its number if the plugin is split.
fn shard_labels(plugin: &Labels, shard: Shard) -> Labels {
    match shard.is_whole() {
        true => plugin.clone(),
        false => with(plugin, "shard", shard.index()),
    }
}

/// Returns the labels with one more.
fn with(labels: &Labels, name: &'static str, value: impl ToString) -> Labels {
    let mut labels = labels.clone();
    labels.push((name, value.to_string()));
    labels
}

/// The samples of plugins' use of resources.
#[derive(Default)]
struct Usage {
    cpu: Vec<(Labels, f64)>,
    waited: Vec<(Labels, f64)>,
    throttled: Vec<(Labels, f64)>,
    calls: Vec<(Labels, u64)>,
    suppressed: Vec<(Labels, u64)>,
    memory: Vec<(Labels, u64)>,
    cached: Vec<(Labels, u64)>,
}

impl Usage {
    fn add(&mut self, labels: Labels, metered: &Metered, cached_bytes: u64) {
        let usage = metered.account.usage();
        let meter = &metered.throttle.meter;
        let entry = metered.account.entry_waits();
        for (quota, time) in [
            ("cpu", usage.throttled_time),
            ("namespaceCpu", usage.throttled_by_group),
            ("concurrency", entry.account + entry.group),
            ("instances", meter.slot_waits.total()),
            ("api", meter.delayed_time()),
        ] {
            self.throttled
                .push((with(&labels, "quota", quota), time.as_secs_f64()));
        }
        for verb in Verb::ALL {
            self.calls
                .push((with(&labels, "verb", verb), meter.calls(verb)));
        }
        for verb in [Verb::Update, Verb::Patch] {
            self.suppressed
                .push((with(&labels, "verb", verb), meter.suppressed(verb)));
        }

        self.cpu.push((labels.clone(), usage.polled.as_secs_f64()));
        self.waited.push((labels.clone(), usage.wait.as_secs_f64()));
        self.memory.push((
            labels.clone(),
            meter.peak_memory_bytes.load(Ordering::Relaxed),
        ));
        self.cached.push((labels, cached_bytes));
    }

    fn write(self, samples: &mut Samples) {
        samples.counter(
            "operetta_plugin_cpu_seconds",
            "CPU time of a plugin in seconds",
            self.cpu,
        );
        samples.counter(
            "operetta_plugin_wait_seconds",
            "Time that a plugin waited for a processor in seconds",
            self.waited,
        );
        let help = "Time that a plugin was throttled by a quota in seconds";
        samples.counter("operetta_plugin_throttled_seconds", help, self.throttled);
        samples.counter(
            "operetta_plugin_calls",
            "Number of host calls of a plugin by verb",
            self.calls,
        );

        let help = "Number of writes that were not sent because they would have changed nothing";
        samples.counter("operetta_suppressed_writes", help, self.suppressed);
        let help = "Peak linear memory of one instance of a plugin in bytes";
        samples.gauge("operetta_plugin_peak_memory_bytes", help, self.memory);

        let help = "Bytes cached for a plugin; shared informers count in equal parts";
        samples.gauge("operetta_plugin_cached_bytes", help, self.cached);
    }
}
