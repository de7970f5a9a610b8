//! The flight recorder: what each plugin did recently, and why.
//!
//! It is always on. For each reconcile it keeps the triggers, the calls with the versions of
//! objects they read and wrote, the times and the outcome. For each change seen by a watch of the
//! host, it keeps the fields and their writers. [`explain`] follows them back from a change of an
//! object to its cause. Trace spans are made from the same records.
//!
//! Records are encoded when they end, so each takes few bytes and a single allocation. They are
//! bounded in bytes and in time, and a busy plugin shortens its own history before others'
//! (`rings.rs`).

pub mod explain;
#[cfg(test)]
mod explain_tests;
mod explanation;
mod facts;
mod open;
pub mod record;
mod rings;
mod sources;
mod triggers;
mod writers;

use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::time::Instant;

pub(crate) use self::triggers::PendingTriggers;
pub use self::{
    facts::{Facts, WriteFact},
    open::{OpenCall, OpenReconcile, Outcome, SpanContext, Trace, current_call, recorded},
    rings::{Counts, Limits},
    triggers::Triggers,
};
use self::{
    record::{Cause, Change, Reconcile, Source, Trigger},
    rings::{Found, Marks, Pattern, Rings, decode, encode},
    sources::Sources,
    writers::writers,
};
use crate::{
    handler::event::Event,
    nondeterminism,
    object::{ObjectKey, changes::changes},
};

/// Recorded triggers per reconcile.
pub const MAX_TRIGGERS: usize = 8;
/// Recorded calls per reconcile.
pub const MAX_CALLS: usize = 128;
/// The largest object whose versions are compared, in bytes.
const MAX_COMPARED: usize = 256 << 10;

/// What a ring records.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum History {
    /// Changes of objects.
    Changes,
    /// Reconciles of a Plugin.
    Plugin(ObjectKey),
}

/// A reconcile in a ring.
#[derive(Serialize, Deserialize)]
struct Encoded<R> {
    /// Number of the plugin's code and identity in [`Sources`].
    source: u64,
    reconcile: R,
}

/// A reconcile, with the plugin that ran it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The Plugin.
    pub plugin: ObjectKey,
    /// The plugin's code and identity at that time.
    pub source: Arc<Source>,
    /// The reconcile.
    pub reconcile: Reconcile,
}

/// Exports traced reconciles.
pub trait TraceSink: Send + Sync {
    /// Takes a finished record. Must not block.
    fn export(&self, plugin: &ObjectKey, reconcile: &Reconcile, trace: &Trace);
}

/// A host's flight recorder.
pub struct Recorder {
    rings: Mutex<Rings<History>>,
    sources: Mutex<Sources>,
    traces: Option<Arc<dyn TraceSink>>,
    /// False with a limit of zero bytes: only traces are made then.
    is_on: bool,
}

impl Recorder {
    /// Creates a recorder. With a limit of zero bytes it keeps nothing. `traces` gets the traced
    /// reconciles.
    pub fn new(limits: Limits, traces: Option<Arc<dyn TraceSink>>) -> Arc<Self> {
        let rings = Mutex::new(Rings::new(limits));
        let sources = Mutex::new(Sources::new(limits.window));
        Arc::new(Self {
            rings,
            sources,
            traces,
            is_on: limits.bytes > 0,
        })
    }

    /// Whether it keeps records.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Records a change seen by a watch. `managed_fields` is the text of the object's
    /// managedFields, before they are dropped.
    pub fn change(&self, event: &Event, managed_fields: Option<&str>) {
        let trigger = Trigger::of_event(event);
        let (Some(object), true) = (trigger.object, self.is_on) else {
            return;
        };
        if matches!(trigger.cause, Cause::Initial | Cause::Resync) {
            return;
        }

        let changed = event
            .old()
            .and_then(|old| changes(old.json(), event.object().json(), MAX_COMPARED));
        let named = changed
            .as_ref()
            .map(|changed| changed.named.as_slice())
            .unwrap_or_default();

        let change = Change {
            at: nondeterminism::wall_clock(),
            object,
            cause: trigger.cause,
            before: event
                .old()
                .map(|old| old.resource_version().to_owned())
                .unwrap_or_default(),
            resource_version: trigger.resource_version,
            paths: changed.as_ref().map(|changed| changed.paths(usize::MAX)),
            writers: managed_fields
                .map(|text| writers(text, named))
                .unwrap_or_default(),
        };

        if let Some(bytes) = encode(&change) {
            let mut marks = Marks::default();
            marks.add(&change.object.key.name);
            self.rings
                .lock()
                .push(&History::Changes, bytes, marks, Instant::now());
        }
    }

    /// The recorder for a plugin's reconciles, under this code and identity.
    pub fn of_plugin(self: &Arc<Self>, plugin: &ObjectKey, source: Source) -> Arc<PluginRecorder> {
        let source = self.sources.lock().begin(source, Instant::now());
        let history = History::Plugin(plugin.clone());
        Arc::new(PluginRecorder {
            recorder: self.clone(),
            plugin: plugin.clone(),
            history,
            source,
        })
    }

    /// A Plugin's latest reconciles, and the number of older ones. With keys, only theirs; all keys
    /// must have the same name.
    pub fn reconciles(
        &self,
        plugin: &ObjectKey,
        keys: &[ObjectKey],
        limit: usize,
    ) -> (Vec<Recorded>, usize) {
        let mut found = Vec::new();
        let Some(key) = keys.first() else {
            self.reconciles_with(plugin, &Pattern::all(), |recorded| {
                found.extend((found.len() < limit).then_some(recorded));
                found.len() < limit
            });
            let all = self
                .rings
                .lock()
                .count(&History::Plugin(plugin.clone()), Instant::now());
            let older = all.saturating_sub(found.len());
            return (found, older);
        };

        let mut older = 0;
        self.reconciles_with(plugin, &Pattern::of(&key.name, &key.name), |recorded| {
            match keys.contains(&recorded.reconcile.key) {
                true if found.len() < limit => found.push(recorded),
                true => older += 1,
                false => {}
            }
            true
        });

        (found, older)
    }

    /// Calls a function with a Plugin's reconciles whose records contain a pattern, newest first,
    /// until it returns false.
    fn reconciles_with(
        &self,
        plugin: &ObjectKey,
        pattern: &Pattern,
        mut each: impl FnMut(Recorded) -> bool,
    ) {
        self.search(
            &History::Plugin(plugin.clone()),
            pattern,
            |record: Encoded<Reconcile>| {
                let source = self.sources.lock().find(record.source);
                each(Recorded {
                    plugin: plugin.clone(),
                    source,
                    reconcile: record.reconcile,
                })
            },
        );
    }

    /// Calls a function with a ring's records containing a pattern, newest first, until it returns
    /// false. The rings are unlocked during the calls.
    fn search<T: DeserializeOwned>(
        &self,
        history: &History,
        pattern: &Pattern,
        mut each: impl FnMut(T) -> bool,
    ) {
        let now = Instant::now();
        let mut before = Some(u64::MAX);
        while let Some(place) = before {
            let Found { records, rest } = self.rings.lock().search(history, pattern, place, now);
            for bytes in records {
                // Records of this process always decode.
                if let Ok(record) = decode(&bytes)
                    && !each(record)
                {
                    return;
                }
            }
            before = rest;
        }
    }

    /// The Plugins with records.
    pub fn plugins(&self) -> Vec<ObjectKey> {
        let mut rings = self.rings.lock();
        rings.expire(Instant::now());
        let plugins = rings
            .keys()
            .into_iter()
            .filter_map(|history| match history {
                History::Plugin(plugin) => Some(plugin),
                History::Changes => None,
            });
        plugins.collect()
    }

    /// Counts over all records.
    pub fn counts(&self) -> Counts {
        self.rings.lock().counts()
    }
}

/// Records one plugin's reconciles.
pub struct PluginRecorder {
    recorder: Arc<Recorder>,
    plugin: ObjectKey,
    history: History,
    source: u64,
}

impl Drop for PluginRecorder {
    fn drop(&mut self) {
        self.recorder
            .sources
            .lock()
            .end(self.source, Instant::now());
    }
}

impl PluginRecorder {
    /// Adds a finished reconcile, and exports it if it is traced.
    fn add(&self, reconcile: &Reconcile, trace: Option<&Trace>) {
        if let (Some(sink), Some(trace)) = (&self.recorder.traces, trace) {
            sink.export(&self.plugin, reconcile, trace);
        }
        if !self.recorder.is_on {
            return;
        }

        if let Some(bytes) = encode(&Encoded {
            source: self.source,
            reconcile,
        }) {
            self.recorder
                .rings
                .lock()
                .push(&self.history, bytes, marks(reconcile), Instant::now());
        }
    }
}

/// Marks of the names a reconcile may be searched for: its key's and those in its calls.
fn marks(reconcile: &Reconcile) -> Marks {
    let mut marks = Marks::default();
    marks.add(&reconcile.key.name);
    let names = reconcile.calls.iter().filter_map(|call| call.name.as_ref());
    names
        .filter(|name| **name != reconcile.key.name)
        .for_each(|name| marks.add(name));
    marks
}
