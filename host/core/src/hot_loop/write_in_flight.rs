//! A plugin's write between request and answer.

use std::sync::Arc;

use super::{HotLoops, writes::Target};
use crate::{
    controller::request::ReconcileRequest,
    gate::{call::Call, reply::Answer, verb::Verb},
    object::{ManagedFields, Object},
    ports::ObjectLookup,
};

/// An in-flight write. Dropping it ends it and judges the events that arrived meanwhile.
pub(crate) struct WriteInFlight {
    loops: Arc<HotLoops>,
    id: u64,
    /// Hash of the object version created by the write, once known.
    made: Option<u64>,
}

impl WriteInFlight {
    /// Begins a write of a reconcile; None for a dry run, which stores nothing.
    pub fn begin(
        loops: &Arc<HotLoops>,
        call: &Call,
        reconcile: &ReconcileRequest,
        objects: Option<&dyn ObjectLookup>,
    ) -> Option<Self> {
        if call.is_dry_run {
            return None;
        }

        // The response to a deletion names no version, so look up the uid. An object outside the
        // caches has no event anyway.
        let deleted = objects
            .filter(|_| call.verb == Verb::Delete)
            .and_then(|objects| {
                let (kind, key) = objects.named_by(call)?;
                objects.cached(&kind, &key)
            });
        Some(loops.begin(
            reconcile,
            deleted.map(|object| object.uid().to_owned()).as_deref(),
        ))
    }

    pub fn end(mut self, answer: &Answer<'_>) {
        match answer {
            Answer::Stored(object) => self.made = Some(self.loops.made(object)),
            // Responses other than objects, such as that to an eviction, create no version.
            Answer::Raw(body) => {
                if let Ok(object) = Object::untyped(body, ManagedFields::Keep) {
                    self.made = Some(self.loops.made(&object));
                }
            }
            // Its version is known already.
            Answer::Deleted => {}
            Answer::Unchanged | Answer::Failed { .. } => self.made = None,
        }
    }
}

impl HotLoops {
    /// Begins a write in a reconcile. `deletes` is the uid of the object to delete, if known.
    pub(super) fn begin(
        self: &Arc<Self>,
        reconcile: &ReconcileRequest,
        deletes: Option<&str>,
    ) -> WriteInFlight {
        let guard = self.guards.lock().get(&reconcile.controller).cloned();
        let depth = guard.map_or(0, |guard| guard.depth(&reconcile.key));
        let writer = self.writer(&reconcile.controller, &reconcile.key);
        let made = deletes.map(|uid| self.gone(uid));
        WriteInFlight {
            loops: self.clone(),
            id: self.writes.lock().begin(writer, depth),
            made,
        }
    }
}

impl Drop for WriteInFlight {
    fn drop(&mut self) {
        let settled = self.loops.writes.lock().end(self.id, self.made);
        for (Target { controller, key }, origin) in settled {
            let guard = self.loops.guards.lock().get(&controller).cloned();
            if let Some(guard) = guard
                && guard.corrected(&key, &origin)
            {
                guard.queue.add(key);
            }
        }
    }
}
