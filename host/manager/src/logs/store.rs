//! The plugins' logs: the last lines of each in memory, for `operetta logs`, and every line in the
//! host's own log.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, Ordering},
    },
};

use operetta_api::annotations::LOG_LEVEL;
use operetta_core::{
    object::ObjectKey,
    ports::{LogLevel, LogRecord, LogSink},
};
use operetta_kube::clock;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use tokio::{sync::broadcast, time::Instant};

use crate::logs::quota::{LogQuota, TOO_MUCH, escaped};

const KEPT: usize = 1_000;
/// The bytes kept per plugin.
const KEPT_BYTES: usize = 2 * 1024 * 1024;
/// How many lines a follower may lag behind.
const WAITING: usize = 256;
/// The longest message to keep, and the longest sum of its fields, in bytes.
const MESSAGE: usize = 16 * 1024;
/// How much of an annotation with a level is read, in characters.
const MAX_LEVEL: usize = 32;

/// One line, as `operetta logs -o json` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// The time; RFC 3339.
    pub time: String,
    /// The level: error, warn, info, debug or trace.
    pub level: String,
    /// The controller, during a reconcile.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub controller: String,
    /// The key, during a reconcile.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The id of the reconcile.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reconcile_id: String,
    /// The id of the trace, if the reconcile is traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// The message.
    pub message: String,
    /// The fields, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<(String, String)>,
}

/// A [`LogLine`] as JSON. It is encoded once for all who read it: a log may have many followers.
pub type EncodedLine = Arc<RawValue>;

/// The logs of all plugins.
#[derive(Default)]
pub struct LogStore {
    plugins: Mutex<HashMap<ObjectKey, Arc<PluginLog>>>,
}

/// One plugin's log. It outlives the plugin's code, and says why code doesn't load.
pub struct PluginLog {
    plugin: String,
    /// The least important level to keep, as a number.
    level: AtomicU8,
    /// The level last set by the Plugin's annotation.
    annotated: Mutex<Option<String>>,
    kept: Mutex<Kept>,
    /// Sends each line to the followers, once there has been one.
    tail: OnceLock<broadcast::Sender<EncodedLine>>,
}

struct Kept {
    lines: VecDeque<EncodedLine>,
    bytes: usize,
    quota: LogQuota,
}

impl Kept {
    fn push(&mut self, line: EncodedLine) {
        self.bytes += line.get().len();
        self.lines.push_back(line);
        while self.lines.len() > KEPT || self.bytes > KEPT_BYTES {
            let Some(oldest) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= oldest.get().len();
        }
    }
}

fn field_bytes((name, value): &(String, String)) -> usize {
    size_of::<(String, String)>() + name.len() + value.len()
}

impl LogStore {
    /// Returns a plugin's log, or creates it with this level.
    pub fn get_or_create(&self, plugin: &ObjectKey, level: LogLevel) -> Arc<PluginLog> {
        let mut plugins = self.plugins.lock();
        let create = || {
            let kept = Kept {
                lines: VecDeque::new(),
                bytes: 0,
                quota: LogQuota::new(Instant::now()),
            };
            Arc::new(PluginLog {
                plugin: plugin.to_string(),
                level: AtomicU8::new(level as u8),
                annotated: Mutex::default(),
                kept: Mutex::new(kept),
                tail: OnceLock::new(),
            })
        };
        plugins.entry(plugin.clone()).or_insert_with(create).clone()
    }

    /// Returns a plugin's log.
    pub fn get(&self, plugin: &ObjectKey) -> Option<Arc<PluginLog>> {
        self.plugins.lock().get(plugin).cloned()
    }

    /// Drops the log of a deleted plugin.
    pub fn remove(&self, plugin: &ObjectKey) {
        self.plugins.lock().remove(plugin);
    }
}

impl PluginLog {
    /// Returns at most the last `tail` lines and a receiver of the lines to come. No line is
    /// missing or duplicated in between.
    pub fn follow(&self, tail: usize) -> (Vec<EncodedLine>, broadcast::Receiver<EncodedLine>) {
        let kept = self.kept.lock();
        let skipped = kept.lines.len().saturating_sub(tail);
        let tail = self.tail.get_or_init(|| broadcast::channel(WAITING).0);
        (
            kept.lines.iter().skip(skipped).cloned().collect(),
            tail.subscribe(),
        )
    }

    /// Sets the level from the Plugin's annotation, or `default` if it's missing or invalid. A
    /// change is logged, and applies to the next line of in-flight reconciles.
    pub fn set_level(&self, annotation: Option<&str>, default: LogLevel) {
        let annotation = annotation.map(|text| text.chars().take(MAX_LEVEL).collect::<String>());
        let mut annotated = self.annotated.lock();
        if *annotated == annotation {
            return;
        }
        annotated.clone_from(&annotation);
        drop(annotated);

        let (level, problem) = match annotation.as_deref().map(|text| (text, level(text))) {
            None => (default, None),
            Some((_, Some(level))) => (level, None),
            Some((text, None)) => (default, Some(text)),
        };
        self.level.store(level as u8, Ordering::Relaxed);
        let now = name(level);

        match problem {
            None => self.write_host_line(LogLevel::Info, format!("log level is {now}")),
            Some(text) => {
                let message = format!(
                    "{LOG_LEVEL} is {text:?}: use error, warn, info, debug or trace; log level is {now}"
                );
                self.write_host_line(LogLevel::Warn, message);
            }
        }
    }

    /// Writes a line of the host itself to the plugin's log, outside the plugin's quota.
    pub fn write_host_line(&self, level: LogLevel, message: String) {
        self.append(LogRecord {
            level,
            message,
            fields: vec![],
            reconcile: None,
        });
    }
}

impl LogSink for PluginLog {
    fn enabled(&self, level: LogLevel) -> bool {
        level as u8 <= self.level.load(Ordering::Relaxed)
    }

    fn write(&self, record: LogRecord) {
        let texts = record
            .fields
            .iter()
            .flat_map(|(name, value)| [name, value])
            .chain([&record.message]);
        let bytes = texts.map(|text| escaped(text)).sum();
        let admitted = self.kept.lock().quota.admit(bytes, Instant::now());
        match admitted {
            None => return,
            Some(0) => {}
            Some(dropped) => {
                self.write_host_line(
                    LogLevel::Warn,
                    format!("dropped {dropped} log lines: {TOO_MUCH}"),
                );
            }
        }

        self.append(record);
    }
}

impl PluginLog {
    fn append(&self, record: LogRecord) {
        let LogRecord {
            level,
            mut message,
            mut fields,
            reconcile,
        } = record;
        if message.len() > MESSAGE {
            message.truncate(message.floor_char_boundary(MESSAGE));
            message.push('…');
        }

        let mut left = MESSAGE;
        let kept = fields.iter().position(|field| {
            left = left.saturating_sub(field_bytes(field));
            left == 0
        });
        if let Some(kept) = kept {
            fields.truncate(kept);
            fields.push(("…".to_owned(), String::new()));
            fields.shrink_to_fit();
        }

        let line = match &reconcile {
            Some(request) => LogLine {
                time: clock::now().to_string(),
                level: name(level).to_owned(),
                controller: request.controller.clone(),
                key: request.key.to_string(),
                reconcile_id: request.reconcile_id.clone(),
                trace_id: request
                    .record
                    .as_ref()
                    .and_then(|record| Some(record.trace()?.context.trace_id())),
                message,
                fields,
            },
            None => LogLine {
                time: clock::now().to_string(),
                level: name(level).to_owned(),
                controller: String::new(),
                key: String::new(),
                reconcile_id: String::new(),
                trace_id: None,
                message,
                fields,
            },
        };
        trace(&self.plugin, level, &line);
        let Ok(line) = to_raw_value(&line) else {
            unreachable!("a line is texts");
        };
        let line = EncodedLine::from(line);

        let mut kept = self.kept.lock();
        if let Some(tail) = self.tail.get() {
            // An error means that nobody follows the log.
            let _followers = tail.send(line.clone());
        }

        kept.push(line);
    }
}

fn level(name_of: &str) -> Option<LogLevel> {
    let levels = [
        LogLevel::Error,
        LogLevel::Warn,
        LogLevel::Info,
        LogLevel::Debug,
        LogLevel::Trace,
    ];
    levels.into_iter().find(|level| name(*level) == name_of)
}

/// Returns a level's name in log lines.
pub fn name(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    }
}

fn trace(plugin: &str, level: LogLevel, line: &LogLine) {
    let LogLine {
        controller,
        key,
        reconcile_id,
        message,
        ..
    } = line;

    let trace_id = line.trace_id.as_deref();
    let fields: String = line
        .fields
        .iter()
        .map(|(name, value)| format!(" {name}={value:?}"))
        .collect();
    macro_rules! event {
        ($level:ident) => {
            tracing::$level!(target: "plugin", plugin, controller, key, reconcile_id, trace_id, "{message}{fields}")
        };
    }

    match level {
        LogLevel::Error => event!(error),
        LogLevel::Warn => event!(warn),
        LogLevel::Info => event!(info),
        LogLevel::Debug => event!(debug),
        LogLevel::Trace => event!(trace),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(encoded: &RawValue) -> LogLine {
        serde_json::from_str(encoded.get()).expect("a line")
    }

    fn record(message: &str) -> LogRecord {
        LogRecord {
            level: LogLevel::Info,
            message: message.into(),
            fields: vec![],
            reconcile: None,
        }
    }

    #[test]
    fn keeps_the_last_lines_and_followers_miss_none() {
        let log =
            LogStore::default().get_or_create(&ObjectKey::namespaced("n", "p"), LogLevel::Info);
        for at in 0..KEPT + 5 {
            log.write(record(&at.to_string()));
        }
        let (lines, mut tail) = log.follow(2);
        assert_eq!(
            lines
                .iter()
                .map(|encoded| line(encoded).message)
                .collect::<Vec<_>>(),
            ["1003", "1004"]
        );

        log.write(record("next"));
        assert_eq!(line(&tail.try_recv().expect("followed")).message, "next");
        assert_eq!(log.follow(usize::MAX).0.len(), KEPT);
    }

    #[test]
    fn bounds_the_fields_of_a_line() {
        let log =
            LogStore::default().get_or_create(&ObjectKey::namespaced("n", "p"), LogLevel::Info);
        let of = |field: (&str, &str), count: usize| {
            let fields = vec![(field.0.to_owned(), field.1.to_owned()); count];
            log.write(LogRecord {
                fields,
                ..record("line")
            });
            line(&log.follow(1).0[0]).fields
        };
        assert_eq!(of(("a", "b"), 10).len(), 10);

        for fields in [of(("", ""), 100_000), of(("name", &"x".repeat(1000)), 100)] {
            let bytes: usize = fields
                .iter()
                .map(|(name, value)| 48 + name.len() + value.len())
                .sum();
            assert!(bytes <= MESSAGE + 100, "{bytes}");
            assert_eq!(fields.last().map(|(name, _)| name.as_str()), Some("…"));
        }
    }

    #[test]
    fn drops_a_flood_but_not_host_lines() {
        let log =
            LogStore::default().get_or_create(&ObjectKey::namespaced("n", "p"), LogLevel::Info);
        let big = "x".repeat(MESSAGE);
        (0..10_000).for_each(|_| log.write(record(&big)));
        log.write_host_line(LogLevel::Warn, "loaded".to_owned());

        let kept = log.kept.lock();
        assert_eq!(
            kept.lines.back().map(|encoded| line(encoded).message),
            Some("loaded".to_owned())
        );
        assert!(
            kept.bytes <= KEPT_BYTES && kept.bytes > KEPT_BYTES / 2,
            "{}",
            kept.bytes
        );
        assert_eq!(
            kept.bytes,
            kept.lines
                .iter()
                .map(|line| line.get().len())
                .sum::<usize>()
        );
    }

    #[test]
    fn annotation_sets_the_level_until_it_is_removed() {
        let log =
            LogStore::default().get_or_create(&ObjectKey::namespaced("n", "p"), LogLevel::Info);
        let set = |annotation| {
            log.set_level(annotation, LogLevel::Info);
            let levels = [
                LogLevel::Error,
                LogLevel::Info,
                LogLevel::Debug,
                LogLevel::Trace,
            ];
            levels.map(|level| log.enabled(level))
        };
        assert_eq!(set(None), [true, true, false, false]);
        assert_eq!(set(Some("debug")), [true, true, true, false]);
        assert_eq!(set(Some("error")), [true, false, false, false]);
        assert_eq!(set(Some("Debug")), [true, true, false, false]);
        assert_eq!(set(Some("Debug")), [true, true, false, false]);
        assert_eq!(set(None), [true, true, false, false]);

        let lines: Vec<String> = log
            .follow(10)
            .0
            .iter()
            .map(|encoded| line(encoded).message)
            .collect();
        let refused = "operetta.dev/log-level is \"Debug\": use error, warn, info, debug or trace; log level is info";
        assert_eq!(
            lines,
            [
                "log level is debug",
                "log level is error",
                refused,
                "log level is info"
            ]
        );
    }

    #[test]
    fn cuts_a_huge_line_between_characters() {
        let log =
            LogStore::default().get_or_create(&ObjectKey::namespaced("n", "p"), LogLevel::Info);
        log.write(record(&"é".repeat(MESSAGE)));
        assert!(line(&log.follow(1).0[0]).message.len() <= MESSAGE + '…'.len_utf8());
    }
}
