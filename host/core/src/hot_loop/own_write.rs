//! The writes of a plugin as the gate sees them: their begin, and the API server's response.

use std::sync::Arc;

use super::{HotLoops, writes::Target};
use crate::{
    controller::request::ReconcileRequest,
    gate::{
        attempt::Attempt,
        operation::{Verb, Written},
        raw_request::RawResponse,
    },
    object::{ManagedFields, Object},
    ports::ObjectLookup,
    status::ApiError,
};

/// A write that is in flight. Dropping it ends it, and judges the events that arrived meanwhile.
pub(crate) struct OwnWrite {
    loops: Arc<HotLoops>,
    id: u64,
    /// A hash of the object version that the write creates, once it is known.
    made: Option<u64>,
}

impl OwnWrite {
    /// Begins a write of a reconcile. Returns None for a dry run, which stores nothing.
    pub fn begin(
        loops: &Arc<HotLoops>,
        attempt: &Attempt,
        reconcile: &ReconcileRequest,
        objects: Option<&dyn ObjectLookup>,
    ) -> Option<Self> {
        if attempt.dry_run {
            return None;
        }
        // The response to a deletion names no version, so the uid is looked up. An object that is in no cache has no
        // event.
        let deletes = attempt.about.as_ref().filter(|_| attempt.verb == Verb::Delete);
        let deleted = objects.zip(deletes).and_then(|(objects, (kind, key))| objects.cached(kind, key));
        Some(loops.begin(reconcile, deleted.map(|object| object.uid().to_owned()).as_deref()))
    }

    /// Ends a create, an update or a patch.
    pub fn end_write(mut self, result: &Result<Written, ApiError>) {
        match result {
            Ok(Written::Stored(object)) => self.answered(object),
            Ok(Written::Unchanged(_)) | Err(_) => self.made = None,
        }
    }

    /// Ends a deletion. Its version was known before.
    pub fn end_delete(mut self, result: &Result<(), ApiError>) {
        if result.is_err() {
            self.made = None;
        }
    }

    /// Ends a raw request.
    pub fn end_raw(mut self, verb: Verb, result: &Result<RawResponse, ApiError>) {
        match result {
            Ok(answer) if answer.status < 400 && verb == Verb::Delete => {}
            Ok(answer) if answer.status < 400 => {
                // A response that is not an object, such as that to an eviction, creates no version.
                if let Ok(object) = Object::untyped(&answer.body, ManagedFields::Keep) {
                    self.answered(&object);
                }
            }
            Ok(_) | Err(_) => self.made = None,
        }
    }

    fn answered(&mut self, object: &Object) {
        self.made = Some(self.loops.made(object));
    }
}

impl HotLoops {
    /// Begins a write in a reconcile. `deletes` is the uid of the object to delete, if it is known.
    pub(super) fn begin(self: &Arc<Self>, reconcile: &ReconcileRequest, deletes: Option<&str>) -> OwnWrite {
        let guard = self.guards.lock().get(&reconcile.controller).cloned();
        let depth = guard.map_or(0, |guard| guard.depth(&reconcile.key));
        let writer = self.writer(&reconcile.controller, &reconcile.key);
        let made = deletes.map(|uid| self.gone(uid));
        OwnWrite { loops: self.clone(), id: self.writes.lock().begin(writer, depth), made }
    }
}

impl Drop for OwnWrite {
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
