//! What is read of the host during the run.

use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use operetta_testkit::{
    AuditLog, AuditTail, ControlPlane, Host, metric_sum,
    usage::{self, megabytes},
};
use tokio::time::Instant;

/// The most disk space that the control plane and the host may use, in bytes.
const DISK: u64 = 5 << 30;

/// The host at one time.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The time since the load began.
    pub at: Duration,
    /// The Foos created so far.
    pub foos: f64,
    /// Resident memory in MB.
    pub rss: f64,
    /// The part of it that no file backs, in MB.
    pub anonymous: f64,
    /// Open file descriptors.
    pub files: f64,
    pub threads: f64,
    pub metrics: Metrics,
    /// The disk space of the control plane's and the host's files, in MB.
    pub disk: f64,
}

/// What the host's metrics say.
#[derive(Clone, Copy, Debug)]
pub struct Metrics {
    pub reconciles: f64,
    /// Reconciles that returned an error, and were retried.
    pub errors: f64,
    /// Reconciles that trapped or exceeded their deadline.
    pub failures: f64,
    /// Keys in queues.
    pub depth: f64,
    /// Keys in quarantine, and crashes of the host for which a Plugin may be quarantined.
    pub quarantined: f64,
    /// The flight recorder's part of the memory, in MB.
    pub recorder: f64,
    /// The part of the objects in informers, in MB.
    pub cached: f64,
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at,
            foos,
            rss,
            anonymous,
            files,
            threads,
            metrics,
            disk,
        } = self;
        let Metrics {
            reconciles,
            errors,
            failures,
            depth,
            quarantined,
            recorder,
            cached,
        } = metrics;
        write!(
            f,
            "{:>6.0} s: {foos} Foos, {reconciles} reconciles, {errors} retried, {failures} failed, ",
            at.as_secs_f64()
        )?;
        write!(
            f,
            "{depth} queued, {quarantined} in quarantine; {rss:.1} MB, anonymous {anonymous:.1} MB, "
        )?;
        write!(
            f,
            "recorder {recorder:.1} MB, cached {cached:.1} MB; {files} fds, {threads} threads; disk {disk:.0} MB"
        )
    }
}

/// Reads the host and the audit log.
pub struct Reader {
    host: Arc<Host>,
    folder: PathBuf,
    audit: AuditTail,
    /// What was read and not yet taken.
    audited: Vec<AuditLog>,
}

impl Reader {
    pub fn new(control_plane: &ControlPlane, host: &Arc<Host>) -> Self {
        Self {
            host: host.clone(),
            folder: control_plane.folder().to_owned(),
            audit: control_plane.audit_tail(),
            audited: Vec::new(),
        }
    }

    /// Reads the host, and the audit log since the last time. Blocks.
    ///
    /// # Errors
    /// Returns an error if the host does not answer, or if the files take more than [`DISK`].
    ///
    /// # Panics
    /// Panics if the host has ended or panicked.
    pub fn read(&mut self, start: Instant, foos: usize) -> anyhow::Result<Reading> {
        self.host.assert_sound();
        let pid = self.host.pid();
        self.audited.push(self.audit.read_new()?);
        let disk = disk_bytes(&self.folder)?;
        anyhow::ensure!(
            disk < DISK,
            "{} has {:.0} MB",
            self.folder.display(),
            megabytes(disk)
        );
        let reading = Reading {
            at: start.elapsed(),
            foos: foos as f64,
            rss: megabytes(usage::memory_bytes(pid)),
            anonymous: megabytes(usage::anonymous_bytes(pid)),
            files: usage::open_files(pid) as f64,
            threads: usage::threads(pid) as f64,
            metrics: self.metrics()?,
            disk: megabytes(disk),
        };
        Ok(reading)
    }

    /// Reads the host's metrics. Blocks.
    ///
    /// # Errors
    /// Returns an error if the host does not answer.
    pub fn metrics(&self) -> anyhow::Result<Metrics> {
        let text = self.host.get("/metrics").map_err(anyhow::Error::msg)?;
        let sum =
            |names: &[&str]| -> f64 { names.iter().map(|name| metric_sum(&text, name, &[])).sum() };
        let megabytes = |name: &str| sum(&[name]) / f64::from(1 << 20);
        Ok(Metrics {
            reconciles: sum(&["controller_runtime_reconcile_total"]),
            errors: sum(&["controller_runtime_reconcile_errors_total"]),
            failures: sum(&[
                "controller_runtime_reconcile_panics_total",
                "controller_runtime_reconcile_timeouts_total",
                "controller_runtime_terminal_reconcile_errors_total",
            ]),
            depth: sum(&["workqueue_depth", "controller_runtime_active_workers"]),
            quarantined: sum(&["operetta_quarantined_keys", "operetta_plugin_crashes"]),
            recorder: megabytes("operetta_flight_recorder_bytes"),
            cached: megabytes("operetta_informer_bytes"),
        })
    }

    /// Returns the parts of the audit log that were read since the last call.
    pub fn take_audited(&mut self) -> Vec<AuditLog> {
        std::mem::take(&mut self.audited)
    }

    /// Returns the size of the audit log so far, in bytes, with what was freed.
    pub fn audit_bytes(&self) -> u64 {
        self.audit.bytes()
    }
}

/// Returns the disk space of a folder in bytes. Files that are removed meanwhile do not count.
fn disk_bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)?.flatten() {
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        bytes += if metadata.is_dir() {
            disk_bytes(&entry.path()).unwrap_or(0)
        } else {
            metadata.blocks() * 512
        };
    }
    Ok(bytes)
}
