//! Reports of reconciles that run for long: a line in the plugin's log, and a Warning Event on the
//! Plugin.
//!
//! A plugin with an endless loop enters it for each key, so a controller is reported at most once a
//! minute.

use std::{collections::HashMap, fmt, time::Duration};

use operetta_api::reasons;
use operetta_core::{
    controller::request::ReconcileRequest,
    object::{ObjectKey, kind::GroupVersionKind},
    ports::{LogLevel, LogRecord, LogSink},
};
use tokio::time::Instant;

use crate::{
    events::Regarding,
    logs::store::PluginLog,
    plugin::{crd, status::hot_loop::LoopReporter},
};

/// The shortest pause between two reports about a controller.
const PAUSE: Duration = Duration::from_secs(60);

/// The times of the last reports.
#[derive(Default)]
pub(super) struct LongRuns {
    by_controller: HashMap<String, Instant>,
}

impl LongRuns {
    /// Reports whether a reconcile of a controller is reported now.
    pub(super) fn admit(&mut self, controller: &str, now: Instant) -> bool {
        let is_due = |last: &Instant| now.saturating_duration_since(*last) >= PAUSE;
        let is_admitted = self.by_controller.get(controller).is_none_or(is_due);
        if is_admitted {
            self.by_controller.insert(controller.to_owned(), now);
        }
        is_admitted
    }
}

pub(super) struct LongRun<'a> {
    pub(super) plugin: &'a ObjectKey,
    pub(super) request: &'a ReconcileRequest,
    /// How long it has run, without the time that it has waited.
    pub(super) ran: Duration,
    /// The functions that it is in, the innermost first.
    pub(super) stack: &'a str,
}

impl LongRun<'_> {
    /// Reports it in the plugin's log and as an Event. `cached_uid` knows the Plugin's uid.
    pub(super) fn report(
        &self,
        log: &PluginLog,
        LoopReporter { events, cached_uid }: &LoopReporter,
    ) {
        let message = self.to_string();
        let kind = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
        let uid = cached_uid(&kind, self.plugin);
        let regarding = Regarding {
            kind,
            key: self.plugin.clone(),
            uid,
        };
        events.emit(regarding.warning(reasons::LONG_RECONCILE, message.clone()));

        let reconcile = Some(self.request.clone());
        log.write(LogRecord {
            level: LogLevel::Warn,
            message,
            fields: vec![],
            reconcile,
        });
    }
}

impl fmt::Display for LongRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            request,
            ran,
            stack,
            ..
        } = self;
        write!(
            f,
            "running for {} s in reconcile of {}, without waiting: in {stack}",
            ran.as_secs(),
            request.key
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_controller_is_reported_once_a_minute() {
        let mut runs = LongRuns::default();
        let start = Instant::now();
        assert!(runs.admit("a", start) && runs.admit("b", start));
        assert!(!runs.admit("a", start + PAUSE / 2));
        assert!(runs.admit("a", start + PAUSE) && !runs.admit("a", start + PAUSE));
    }
}
