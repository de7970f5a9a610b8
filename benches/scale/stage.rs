//! One API server, and the cells that are measured on it.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::{WatchStreamExt, watcher},
};
use operetta_testkit::{
    ControlPlane, Host, HostOptions, TestNamespace,
    bench::number,
    kinds, metric_sum,
    usage::{self, megabytes},
};
use tokio::time::{sleep, timeout_at};

use crate::{
    Sizes, embedded,
    fill::{code, noop, plugin, poll},
    model::{All, Objects, Plugins, Rate, Reading},
};

/// The time by which a host must have done what is measured.
const LIMIT: Duration = Duration::from_secs(1200);
/// The pause after the start of a host without plugins.
const START: Duration = Duration::from_secs(1);
/// The namespace of the objects, and of the plugins that reconcile them.
const NAMESPACE: &str = "objects-0";
/// A part of the label of the objects' kind.
const KIND: &str = "ConfigMap.v1\"";
/// The quotas of a namespace, which by default are smaller.
const CONFIG: &str = "quotas: {namespace: {cacheBytes: 17179869184, plugins: 100000, controllers: 100000, sources: 100000}}";

/// When a cache had all objects and when each was reconciled, in seconds, and the host's figures at
/// that time.
struct Reconciled {
    synced: f64,
    all: f64,
    reading: Reading,
}

/// An API server with its objects.
pub struct Stage {
    control_plane: ControlPlane,
    is_real: bool,
    limit: u64,
}

impl Stage {
    /// Starts an API server, a real one if `SERVER=real`, and prepares it for hosts.
    ///
    /// # Errors
    /// Returns an error if it does not start.
    pub fn start() -> anyhow::Result<Self> {
        let is_real = std::env::var("SERVER").is_ok_and(|server| server == "real");
        let control_plane = match is_real {
            true => ControlPlane::start(&[]),
            false => ControlPlane::start_embedded_process(embedded()?),
        };
        let control_plane = control_plane.map_err(anyhow::Error::msg)?;
        control_plane.install_host();
        Ok(Self {
            control_plane,
            is_real,
            limit: (number("LIMIT_GIB", 10) as u64) << 30,
        })
    }

    pub fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    /// Returns the namespace of the objects, which the first call creates.
    pub async fn namespace(&self) -> TestNamespace<'_> {
        let namespace = self.control_plane.existing_namespace(NAMESPACE).await;
        if namespace
            .get(kinds::SERVICE_ACCOUNT, "plugin")
            .await
            .is_some()
        {
            return namespace;
        }
        let namespace = self.control_plane.namespace("objects").await;
        assert_eq!(
            namespace.name(),
            NAMESPACE,
            "the first namespace of this control plane"
        );
        namespace.allow_all("plugin").await;
        namespace
    }

    /// Checks that the processes take no more memory than they may.
    ///
    /// # Errors
    /// Returns an error that names the sum.
    pub fn check(&self) -> anyhow::Result<()> {
        self.check_with(0)
    }

    fn check_with(&self, host: u64) -> anyhow::Result<()> {
        let taken = host + self.server_bytes() + usage::memory_bytes(std::process::id());
        anyhow::ensure!(
            taken <= self.limit,
            "{:.0} MB are taken: more than LIMIT_GIB",
            megabytes(taken)
        );
        Ok(())
    }

    /// Returns the resident memory of API server and etcd.
    fn server_bytes(&self) -> u64 {
        let etcd = if self.is_real {
            usage::memory_bytes(self.control_plane.pid("etcd"))
        } else {
            0
        };
        etcd + usage::memory_bytes(self.control_plane.pid("kube-apiserver"))
    }

    /// Starts a host and returns it with its figures while it has no plugin.
    async fn host(&self) -> (Host, Reading) {
        let host = self.spawn().when_ready().await;
        sleep(START).await;
        usage::forget_peak(host.pid());
        let base = Reading::of(&host);
        (host, base)
    }

    fn spawn(&self) -> Host {
        let options = HostOptions {
            is_installed: true,
            config: CONFIG.to_owned(),
            ..HostOptions::default()
        };
        Host::spawn(&self.control_plane, &options)
    }

    /// Measures a plugin that does nothing with all objects of a set.
    pub async fn objects(&self, set: &str, count: usize) -> anyhow::Result<Objects> {
        let namespace = self.namespace().await;
        let (host, base) = self.host().await;
        namespace
            .create_object(kinds::CONFIG_MAP, code(set, &noop(set)).code())
            .await;
        plugin(&namespace, set, set).await;
        let began = Instant::now();
        let Reconciled {
            synced,
            all: reconciled,
            reading: loaded,
        } = self.until_reconciled(&host, began, "noop", count).await?;
        let peak_mb = megabytes(host.peak_memory_bytes());
        let idle_cpu = idle(&host).await;
        let cached = host.metric("operetta_informer_bytes", &[KIND]);
        let idle = Reading::of(&host);
        let server_mb = megabytes(self.server_bytes());
        namespace.delete(kinds::PLUGIN, set).await;
        host.assert_sound();
        Ok(Objects {
            count,
            synced,
            reconciled,
            base,
            loaded,
            idle,
            peak_mb,
            idle_cpu,
            cached,
            server_mb,
        })
    }

    /// Waits until the cache has so many objects, and each was reconciled.
    async fn until_reconciled(
        &self,
        host: &Host,
        began: Instant,
        controller: &str,
        count: usize,
    ) -> anyhow::Result<Reconciled> {
        let controller = format!("controller=\"{controller}\"");
        let mut synced = None;
        loop {
            // Before the scrape, which takes seconds with 10,000 plugins.
            let reading = Reading::of(host);
            let elapsed = began.elapsed().as_secs_f64();
            let metrics = host.metrics();
            let objects = metric_sum(&metrics, "operetta_informer_objects", &[KIND]);
            if objects >= count as f64 {
                synced.get_or_insert(elapsed);
            }
            let done = metric_sum(
                &metrics,
                "controller_runtime_reconcile_total",
                &[&controller],
            );
            if done >= count as f64 {
                return Ok(Reconciled {
                    synced: synced.unwrap_or(elapsed),
                    all: elapsed,
                    reading,
                });
            }
            anyhow::ensure!(
                began.elapsed() < LIMIT,
                "{done} of {count} were reconciled, {objects} are cached"
            );
            self.check_with(host.memory_bytes())?;
            host.assert_sound();
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Measures a host that starts with so many Plugins.
    pub async fn plugins(&self, count: usize) -> anyhow::Result<Plugins> {
        let host = self.spawn();
        let began = Instant::now();
        self.until_ready(&host, count).await?;
        let ready = began.elapsed().as_secs_f64();
        let host = host.when_ready().await;
        let loaded = Reading::of(&host);
        let peak_mb = megabytes(host.peak_memory_bytes());
        let idle_cpu = idle(&host).await;
        let idle = Reading::of(&host);
        host.assert_sound();
        let server_mb = megabytes(self.server_bytes());
        Ok(Plugins {
            count,
            ready,
            loaded,
            idle,
            peak_mb,
            idle_cpu,
            server_mb,
        })
    }

    /// Waits until the status of so many Plugins of [`crate::fill::plugins`] says that they are
    /// ready.
    async fn until_ready(&self, host: &Host, count: usize) -> anyhow::Result<()> {
        let end = tokio::time::Instant::now() + LIMIT;
        let kind = GroupVersionKind::gvk("operetta.dev", "v1alpha1", "Plugin");
        let plugins: Api<DynamicObject> = Api::all_with(
            self.control_plane.client().await,
            &ApiResource::from_gvk(&kind),
        );
        let events = watcher(plugins, watcher::Config::default())
            .default_backoff()
            .applied_objects();
        let mut events = events.boxed();
        let mut ready = HashSet::new();
        while ready.len() < count {
            let event = timeout_at(end, events.try_next()).await;
            let event = event
                .with_context(|| format!("{} of {count} are ready after {LIMIT:?}", ready.len()))?;
            let found = event?.context("the watch of Plugins ended")?;
            let conditions = found.data["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let is_ready = conditions
                .iter()
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
            if is_ready
                && found.name_any().starts_with("p-")
                && ready.insert(found.name_any())
                && ready.len() % 100 == 0
            {
                self.check_with(host.memory_bytes())?;
                host.assert_sound();
            }
        }
        Ok(())
    }

    /// Measures a plugin that polls the objects of a set.
    pub async fn rate(&self, set: &str, rate: usize) -> anyhow::Result<Rate> {
        let namespace = self.namespace().await;
        let (host, _) = self.host().await;
        let idle_cpu = idle(&host).await;
        namespace
            .create_object(kinds::CONFIG_MAP, code(set, &poll(set)).code())
            .await;
        plugin(&namespace, set, set).await;
        // By then all keys were reconciled twice or more, and are spread.
        sleep(Duration::from_secs(10).min(seconds() * 3)).await;
        let mut measured = window(&host, rate).await;
        measured.idle_cpu = idle_cpu;
        namespace.delete(kinds::PLUGIN, set).await;
        host.assert_sound();
        Ok(measured)
    }

    /// Measures one host with everything.
    pub async fn all(&self, sizes: &Sizes) -> anyhow::Result<All> {
        let namespace = self.namespace().await;
        for (set, guest) in [("large", noop("large")), ("fast", poll("fast"))] {
            if namespace.get(kinds::CONFIG_MAP, set).await.is_none() {
                namespace
                    .create_object(kinds::CONFIG_MAP, code(set, &guest).code())
                    .await;
            }
            plugin(&namespace, set, set).await;
        }
        let host = self.spawn();
        let began = Instant::now();
        self.until_ready(&host, sizes.plugins).await?;
        let host = host.when_ready().await;
        let reconciled = self
            .until_reconciled(&host, began, "noop", sizes.objects + sizes.plugins)
            .await?;
        let (ready, cpu) = (reconciled.all, reconciled.reading.cpu);
        let peak_mb = megabytes(host.peak_memory_bytes());
        sleep(seconds()).await;
        let rate = window(&host, sizes.rate).await;
        let reading = Reading::of(&host);
        host.assert_sound();
        Ok(All {
            sizes: *sizes,
            ready,
            cpu,
            peak_mb,
            reading,
            rate,
            server_mb: megabytes(self.server_bytes()),
        })
    }
}

impl Reading {
    fn of(host: &Host) -> Self {
        Self {
            rss_mb: megabytes(host.memory_bytes()),
            anonymous_mb: megabytes(usage::anonymous_bytes(host.pid())),
            cpu: host.cpu_time().as_secs_f64(),
        }
    }
}

/// Returns the processor time of a host in a window, in percent of a core.
async fn idle(host: &Host) -> f64 {
    // What a start leaves to do, such as the status of Plugins and pages that are returned to the
    // kernel.
    sleep(seconds() / 2).await;
    let before = host.cpu_time();
    sleep(seconds()).await;
    (host.cpu_time() - before).as_secs_f64() / seconds().as_secs_f64() * 100.0
}

/// Returns the length of a window.
fn seconds() -> Duration {
    Duration::from_secs(number("SECONDS", 30) as u64)
}

/// Measures the reconciles of the controller `poll` in a window.
async fn window(host: &Host, rate: usize) -> Rate {
    const LABEL: &str = "controller=\"poll\"";
    let scrape = || (host.metrics(), Instant::now());
    let (first, began) = scrape();
    let before = (host.cpu_time(), Instant::now());
    sleep(seconds()).await;
    let cpu = (host.cpu_time() - before.0).as_secs_f64() / before.1.elapsed().as_secs_f64() * 100.0;
    let scraping = Instant::now();
    let (last, ended) = scrape();
    let count = |text: &str| metric_sum(text, "controller_runtime_reconcile_total", &[LABEL]);
    let grown = |name: &str| metric_sum(&last, name, &[LABEL]) - metric_sum(&first, name, &[LABEL]);
    let waited = "workqueue_queue_duration_seconds";
    let buckets = buckets(&first, &last, LABEL);
    Rate {
        rate,
        queue_mean: grown(&format!("{waited}_sum")) / grown(&format!("{waited}_count")),
        achieved: (count(&last) - count(&first)) / (ended - began).as_secs_f64(),
        cpu,
        idle_cpu: 0.0,
        queue: [0.5, 0.99].map(|share| quantile(&buckets, share)),
        within: [1e-3, 1e-2].map(|bound| share_within(&buckets, bound)),
        scrape: (
            scraping.elapsed().as_secs_f64(),
            megabytes(last.len() as u64),
        ),
    }
}

/// Returns the bounds of the buckets of queue latency with the number of keys at or below them
/// between two scrapes.
fn buckets(first: &str, last: &str, label: &str) -> Vec<(f64, f64)> {
    const NAME: &str = "workqueue_queue_duration_seconds_bucket";
    let bounds = last
        .lines()
        .filter(|line| line.starts_with(NAME) && line.contains(label));
    let bounds = bounds
        .filter_map(|line| line.split_once("le=\"")?.1.split_once('"'))
        .map(|(bound, _)| bound);
    let at_most = |bound: &str| {
        let bound = format!("le=\"{bound}\"");
        let count = |text: &str| metric_sum(text, NAME, &[label, &bound]);
        count(last) - count(first)
    };
    bounds
        .map(|bound| (bound.parse().unwrap_or(f64::INFINITY), at_most(bound)))
        .collect()
}

/// Returns the share of keys in the buckets up to a bound.
fn share_within(buckets: &[(f64, f64)], limit: f64) -> f64 {
    let within = buckets
        .iter()
        .filter(|(bound, _)| *bound <= limit * 1.001)
        .map(|(_, count)| *count)
        .fold(0.0, f64::max);
    within / buckets.last().map_or(1.0, |(_, count)| *count)
}

/// Interpolates in the buckets, as `histogram_quantile` of Prometheus does.
fn quantile(buckets: &[(f64, f64)], share: f64) -> f64 {
    let wanted = buckets.last().map_or(0.0, |(_, count)| *count) * share;
    let mut below = (0.0, 0.0);
    for (bound, count) in buckets {
        if *count >= wanted && *count > below.1 {
            let part = (wanted - below.1) / (count - below.1);
            return if bound.is_finite() {
                below.0 + part * (bound - below.0)
            } else {
                below.0
            };
        }
        below = (*bound, *count);
    }
    0.0
}
