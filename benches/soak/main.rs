//! `make soak-load`: the sample-controller under a load of an hour, with churn: memory and file
//! descriptors stay flat, nothing is lost, and nothing is done twice.
//!
//! The host runs Kubernetes' sample-controller as a plugin in Rust on a real API server with etcd.
//! The load creates Foos and deletes the oldest, so that [`KEEP`] of them exist at a time; in one
//! of ten steps it changes the replicas of a Foo, in another the available replicas of a
//! Deployment. First it is measured flat out: how many steps end in a second. Then it goes on at
//! `SHARE=70` percent of that for `SECONDS=3600`. Meanwhile the plugin's code is swapped each
//! `SWAP=60` seconds between two components that differ in a custom section, and the API server is
//! killed each `RESTART=600` seconds; etcd goes on. In a short run these periods are a sixth and a
//! third of it. Control plane, host and this program share the machine's cores. There is no garbage
//! collector: this program deletes the Deployment of a deleted Foo, some seconds later.
//!
//! The host is a release build, as cargo builds it for benches. Each 10 seconds (in a short run
//! each sixtieth of it) its memory, file descriptors, threads and metrics are read. At the end,
//! when the host is quiet:
//!
//! - `soak.rss`, `soak.anonymous`, `soak.fds`, `soak.threads` are medians of the last tenth of the
//!   run, those with `_early` of the second tenth, and those with `_growth` the ratio of the two;
//! - `soak.lost` counts Foos whose Deployment is missing or has the wrong replicas, whose status is
//!   wrong, or that have never had a Deployment, and Deployments that are left. Each Foo must have
//!   a Deployment before it is deleted;
//! - `soak.twice` counts Foos that have had more than one Deployment, as this program's watch and
//!   the API server's audit log show;
//! - `soak.conflicts` are attempts to create a Deployment that existed, as when an earlier one got
//!   no response;
//! - `soak.retries` are reconciles that returned an error and were repeated;
//! - `soak.swap` is the time from the change of the ConfigMap until the Plugin's status has the
//!   digest of the new code, `soak.outage` the time from the death of the API server until it is
//!   ready again, `soak.recovery` that until the next Foo has a Deployment;
//! - `soak.requests` and `soak.audit` are the requests of everybody and the bytes of the audit log
//!   for each Foo. The log is read and freed during the run; `soak.disk` is the most disk space
//!   that control plane and host took.
//!
//! The run fails if anything is lost or done twice, if the host ends, panics, logs an error that no
//! outage explains or quarantines a key, and if the disk space exceeds 5 GB.
//! `target/bench/soak.svg` is a plot; if the run fails, `target/bench/soak-host.log` is the host's
//! log.

mod disturb;
mod figures;
mod foos;
mod ledger;
mod load;
mod log;
mod plot;
mod readings;
mod verdict;

use std::{fs, sync::Arc, time::Duration};

use operetta_testkit::{
    ControlPlane, Host, HostOptions,
    bench::{number, only_starts, reports_folder},
};
use parking_lot::Mutex;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep, sleep_until},
};

use crate::{
    disturb::{Disturber, PLUGIN, version},
    figures::Figures,
    foos::Foos,
    load::Load,
    readings::{Reader, Reading},
    verdict::check,
};

/// The number of Foos that exist at a time. A short run has fewer, so that their number is constant
/// before the second tenth.
const KEEP: usize = 2000;
/// The ServiceAccount of the plugin.
const SERVICE_ACCOUNT: &str = "plugin";
/// The longest time from the end of the load until the host is quiet.
const SETTLE: Duration = Duration::from_secs(300);
/// The time without a reconcile after which a host with empty queues is quiet.
const QUIET: Duration = Duration::from_secs(5);

/// The settings of a run.
struct Settings {
    time: Duration,
    swap: Duration,
    restart: Duration,
    read: Duration,
    /// The Foos of the flat-out load that count.
    foos: usize,
    /// The part of the flat-out rate.
    share: f64,
}

impl Settings {
    fn from_environment() -> Self {
        let seconds = number("SECONDS", 3600).max(30);
        let period = |name, longest: usize, part| {
            Duration::from_secs(number(name, longest.min(seconds / part)) as u64)
        };
        Self {
            time: Duration::from_secs(seconds as u64),
            swap: period("SWAP", 60, 6),
            restart: period("RESTART", 600, 3),
            read: Duration::from_secs_f64((seconds as f64 / 60.0).min(10.0)),
            foos: number("FOOS", 500),
            share: number("SHARE", 70) as f64 / 100.0,
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if only_starts() {
        return Ok(());
    }
    if cfg!(debug_assertions) {
        anyhow::bail!("a debug build of this bench measures the debug build: run `make soak-load`");
    }
    let settings = Settings::from_environment();
    let mut terminated = signal(SignalKind::terminate())?;
    // The dropped future ends its processes.
    tokio::select! {
        soaked = soak(&settings) => soaked,
        _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
        _ = terminated.recv() => anyhow::bail!("terminated"),
    }
}

/// Starts the control plane and the host, and runs the load.
async fn soak(settings: &Settings) -> anyhow::Result<()> {
    let control_plane = ControlPlane::start(&[]).map_err(anyhow::Error::msg)?;
    control_plane.apply(include_str!("../../examples/sample-controller/crd.yaml"));
    let options = HostOptions {
        compiles_anew: true,
        ..HostOptions::default()
    };
    let host = Arc::new(Host::start(&control_plane, &options).await);
    let namespace = control_plane.namespace("soak").await;
    namespace.allow_all(SERVICE_ACCOUNT).await;
    namespace.drop_in(&version(0).0).await;
    namespace
        .until_condition(PLUGIN, "Ready", "True", "Running")
        .await;

    let foos = Foos::new(control_plane.client().await, namespace.name());
    let stage = Stage {
        control_plane: &control_plane,
        namespace: namespace.name(),
        host: &host,
        foos: &foos,
        reader: Arc::new(Mutex::new(Reader::new(&control_plane, &host))),
        readings: Mutex::default(),
    };
    // The first two never end.
    let soaked = tokio::select! {
        Err(error) = foos.follow() => Err(error),
        Err(error) = foos.collect() => Err(error),
        soaked = stage.run(settings) => soaked,
    };
    if soaked.is_err() {
        fs::write(reports_folder()?.join("soak-host.log"), host.log())?;
    }
    soaked
}

/// What a run uses.
struct Stage<'a> {
    control_plane: &'a ControlPlane,
    namespace: &'a str,
    host: &'a Host,
    foos: &'a Foos,
    reader: Arc<Mutex<Reader>>,
    readings: Mutex<Vec<Reading>>,
}

impl Stage<'_> {
    /// Measures the load flat out, runs it at its pace, and reports.
    async fn run(&self, settings: &Settings) -> anyhow::Result<()> {
        let load = Load::new(self.foos, settings.foos);
        let flat_rate = load.flat_out(settings.foos).await?;
        let wanted = flat_rate * settings.share;
        println!(
            "flat out {flat_rate:.1} Foos/s; the load is {wanted:.1}/s for {:?}",
            settings.time
        );
        load.keep(KEEP.min((wanted * settings.time.as_secs_f64() / 20.0) as usize));

        let before = self.foos.ledger.borrow().len();
        let client = self.control_plane.client().await;
        let disturber = Disturber::new(
            self.control_plane,
            client,
            self.namespace,
            self.foos,
            settings.time,
        );
        let loaded = async {
            tokio::try_join!(
                load.paced(wanted, settings.time),
                disturber.swap(settings.swap),
                disturber.restart(settings.restart),
            )
        };
        let loaded = tokio::select! {
            loaded = loaded => loaded.map(drop),
            Err(error) = self.read_each(settings.read, disturber.start) => Err(error),
        };
        let elapsed = disturber.start.elapsed();
        let marks = disturber.marks.take();
        let plot = reports_folder()?.join("soak.svg");
        plot::draw(settings.time, &self.readings.lock(), &marks, &plot)?;
        println!("plot: {}", plot.display());
        loaded?;

        let rate = (self.foos.ledger.borrow().len() - before) as f64 / elapsed.as_secs_f64();
        self.until_quiet().await?;
        // The last requests.
        self.read(disturber.start).await?;
        let outages = disturber.outages.take();
        let mut verdict = check(self.foos, outages.len()).await?;
        verdict.unsound = self.unsound(&outages);
        let ledger = self.foos.ledger.borrow();
        let figures = Figures {
            time: settings.time,
            flat_rate,
            rate,
            foos: ledger.len(),
            readings: self.readings.lock().clone(),
            marks,
            verdict,
            conflicts: ledger.conflicts(),
            requests: ledger.requests(),
            audit_bytes: self.reader.lock().audit_bytes(),
        };
        figures.report()?;
        figures.verdict.result()
    }

    /// Reads the host each `period`. Never ends.
    async fn read_each(
        &self,
        period: Duration,
        start: Instant,
    ) -> anyhow::Result<std::convert::Infallible> {
        for number in 0.. {
            sleep_until(start + period * number).await;
            self.read(start).await?;
        }
        unreachable!("an hour has fewer readings")
    }

    /// Reads the host and the audit log.
    async fn read(&self, start: Instant) -> anyhow::Result<()> {
        let reader = self.reader.clone();
        let foos = self.foos.ledger.borrow().len();
        let reading =
            tokio::task::spawn_blocking(move || reader.lock().read(start, foos)).await??;
        for audit in self.reader.lock().take_audited() {
            self.foos.ledger.borrow_mut().saw_requests(&audit);
        }
        println!("{reading}");
        self.readings.lock().push(reading);
        Ok(())
    }

    /// Waits until all work has ended.
    async fn until_quiet(&self) -> anyhow::Result<()> {
        self.foos.until_collected().await;
        let began = Instant::now();
        let mut last = self.reader.lock().metrics()?;
        loop {
            sleep(QUIET).await;
            let now = self.reader.lock().metrics()?;
            if now.reconciles == last.reconciles && now.depth == 0.0 {
                return Ok(());
            }
            anyhow::ensure!(
                began.elapsed() < SETTLE,
                "the host is not quiet: {last:?}, {QUIET:?} later {now:?}"
            );
            last = now;
        }
    }

    /// Returns what is wrong with the host itself.
    fn unsound(&self, outages: &[log::Outage]) -> Vec<String> {
        self.host.assert_sound();
        let log = self.host.log();
        for (message, count) in log::counts(&log) {
            println!("{count:>8} {message}");
        }
        let mut unsound = log::errors(&log, outages);
        for reading in &*self.readings.lock() {
            if reading.metrics.quarantined > 0.0 || reading.metrics.failures > 0.0 {
                unsound.push(reading.to_string());
            }
        }
        unsound
    }
}
