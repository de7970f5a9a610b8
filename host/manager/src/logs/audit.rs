//! The audit log: a structured line in the host's log for each write of a plugin (target `audit`),
//! and a line of JSON in a file if one is configured.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use anyhow::{Context, Result};
use operetta_core::gate::audit::{AuditRecord, AuditSink, AuditSource};
use parking_lot::Mutex;
use serde::Serialize;

/// The audit log of plugins' writes.
pub struct AuditLog {
    file: Option<Mutex<File>>,
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    #[serde(flatten)]
    record: &'a AuditRecord,
}

impl AuditLog {
    /// Opens the audit log. If there is a `file`, appends to it; only this user may read it.
    ///
    /// # Errors
    /// When the file can't be opened; the message names it.
    pub fn open(file: Option<&Path>) -> Result<Self> {
        let open = |path: &Path| {
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .mode(0o600)
                .open(path);
            file.with_context(|| format!("auditFile: failed to open {}", path.display()))
        };
        Ok(Self {
            file: file.map(open).transpose()?.map(Mutex::new),
        })
    }
}

impl AuditSink for AuditLog {
    fn record(&self, record: &AuditRecord) {
        let AuditRecord {
            source,
            verb,
            kind,
            object,
            subresource,
            result,
            ..
        } = record;

        let AuditSource {
            plugin,
            digest,
            service_account,
            controller,
            reconcile_id,
            key,
        } = source;

        let changed = record.changed.as_ref().map(|paths| paths.join(","));
        tracing::info!(
            target: "audit", plugin, digest, service_account, controller, reconcile_id, key, kind, object, subresource,
            dry_run = record.dry_run, changed, result, "{verb}"
        );
        let Some(file) = &self.file else { return };
        let line = Line {
            time: k8s_openapi::jiff::Timestamp::now().to_string(),
            record,
        };

        let written = serde_json::to_string(&line)
            .map_err(std::io::Error::other)
            .and_then(|line| {
                // A single write, so that lines of different plugins don't mix.
                file.lock().write_all(format!("{line}\n").as_bytes())
            });
        if let Err(error) = written {
            tracing::error!(%error, "failed to write to auditFile: the record is in this log only");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_each_record_as_a_line_of_json() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        for verb in ["create", "update"] {
            let log = AuditLog::open(Some(&path)).expect("opens");
            log.record(&AuditRecord {
                verb: verb.to_owned(),
                ..AuditRecord::default()
            });
        }

        let text = std::fs::read_to_string(&path).expect("read");
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("a line of JSON"))
            .collect();
        assert_eq!(
            lines
                .iter()
                .map(|line| line["verb"].as_str())
                .collect::<Vec<_>>(),
            [Some("create"), Some("update")]
        );

        let error = AuditLog::open(Some(Path::new("/proc/none")))
            .err()
            .expect("refused");
        assert!(
            format!("{error:#}").contains("auditFile: failed to open /proc/none"),
            "{error:#}"
        );
    }
}
