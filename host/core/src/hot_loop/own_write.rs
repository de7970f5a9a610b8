//! The writes of a plugin as the gate sees them: which begin, and what the API server has answered.

use std::sync::Arc;

use super::{HotLoops, lock, writes::Target};
use crate::{
    controller::request::ReconcileRequest,
    gate::{
        operation::{Operation, OperationAction, Reply, Verb},
        raw_request::{RawRequest, RawResponse, Target as RawTarget},
    },
    object::{ManagedFields, Object, ObjectKey, kind::GroupVersionKind},
    ports::ObjectApi,
    status::ApiError,
};

/// A write that is under way. Dropping it ends it: events that came meanwhile are judged.
pub(crate) struct OwnWrite {
    loops: Arc<HotLoops>,
    id: u64,
    /// A hash of the version that it makes, once that is known.
    made: Option<u64>,
}

impl OwnWrite {
    /// Begins an operation; None for what stores nothing.
    pub fn begin(
        loops: &Arc<HotLoops>,
        operation: &Operation,
        reconcile: Option<&ReconcileRequest>,
        api: &dyn ObjectApi,
    ) -> Option<Self> {
        let (dry_run, deletes) = match &operation.action {
            OperationAction::Get { .. } | OperationAction::List(_) => return None,
            OperationAction::Create { options, .. }
            | OperationAction::Update { options, .. }
            | OperationAction::Patch { options, .. } => (options.dry_run, None),
            OperationAction::Delete { key, options } => (options.dry_run, Some((&operation.kind, key))),
        };
        if dry_run { None } else { Some(Self::new(loops, reconcile?, deletes, api)) }
    }

    /// Begins a raw write.
    pub fn begin_raw(
        loops: &Arc<HotLoops>,
        request: &RawRequest,
        target: &RawTarget,
        reconcile: Option<&ReconcileRequest>,
        api: &dyn ObjectApi,
    ) -> Option<Self> {
        if !request.verb().is_write() || request.is_dry_run(&request.parameters().ok()?) {
            return None;
        }
        let deletes = match target {
            RawTarget::Resource(path) if request.verb() == Verb::Delete && path.subresource.is_none() => {
                api.kind_of(path).zip(path.key())
            }
            _ => None,
        };
        let deletes = deletes.as_ref().map(|(kind, key)| (kind, key));
        Some(Self::new(loops, reconcile?, deletes, api))
    }

    fn new(
        loops: &Arc<HotLoops>,
        reconcile: &ReconcileRequest,
        deletes: Option<(&GroupVersionKind, &ObjectKey)>,
        api: &dyn ObjectApi,
    ) -> Self {
        // The answer to a deletion names no version. What no cache has, no event tells of.
        let deleted = deletes.and_then(|(kind, key)| api.known(kind, key));
        loops.begin(reconcile, deleted.map(|object| object.uid().to_owned()).as_deref())
    }

    /// Ends it.
    pub fn end(mut self, result: &Result<Reply, ApiError>) {
        match result {
            Ok(Reply::Object(object)) => self.answered(object),
            // A deletion: what it makes was known before.
            Ok(Reply::Done) => {}
            Ok(Reply::Unchanged(_) | Reply::Page(_)) | Err(_) => self.made = None,
        }
    }

    /// Ends a raw one.
    pub fn end_raw(mut self, verb: Verb, result: &Result<RawResponse, ApiError>) {
        match result {
            Ok(answer) if answer.status < 400 && verb == Verb::Delete => {}
            Ok(answer) if answer.status < 400 => {
                // What is no object, as the answer to an eviction, has made none.
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
    /// A write begins, in a reconcile. `deletes` is the uid of the object that it deletes, where that is known.
    pub(super) fn begin(self: &Arc<Self>, reconcile: &ReconcileRequest, deletes: Option<&str>) -> OwnWrite {
        let guard = lock(&self.guards).get(&reconcile.controller).cloned();
        let depth = guard.map_or(0, |guard| guard.depth(&reconcile.key));
        let writer = self.writer(&reconcile.controller, &reconcile.key);
        let made = deletes.map(|uid| self.gone(uid));
        OwnWrite { loops: self.clone(), id: lock(&self.writes).begin(writer, depth), made }
    }
}

impl Drop for OwnWrite {
    fn drop(&mut self) {
        let settled = lock(&self.loops.writes).end(self.id, self.made);
        for (Target { controller, key }, origin) in settled {
            let guard = lock(&self.loops.guards).get(&controller).cloned();
            if let Some(guard) = guard
                && guard.corrected(&key, &origin)
            {
                guard.queue.add(key);
            }
        }
    }
}
