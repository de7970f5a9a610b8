//! The record of one write, for the audit, the hot-loop detector and the flight recorder: it begins before the write is sent and
//! ends with the response.

use crate::{
    controller::request::ReconcileRequest,
    gate::{
        attempt::Attempt,
        audit::{Audit, Begun},
        operation::{Verb, Written},
        raw_request::RawResponse,
        records::{WriteNote, note_delete, note_write, noted_raw},
        shared::Shared,
    },
    hot_loop::OwnWrite,
    ports::ObjectLookup,
    status::ApiError,
};

/// A write that has begun. It is empty if neither the audit nor the detector is enabled.
pub(super) struct Recording<'a> {
    audit: Option<(&'a Audit, Begun)>,
    own: Option<OwnWrite>,
    objects: Option<&'a dyn ObjectLookup>,
}

impl<'a> Recording<'a> {
    /// Begins the record of a write of `reconcile`.
    pub fn begin(shared: &'a Shared, attempt: &Attempt, reconcile: Option<&ReconcileRequest>) -> Self {
        let objects = shared.objects.as_deref();
        let begin = |audit: &'a Audit| (audit, audit.begin(attempt, reconcile, objects));
        let audit = shared.audit.as_ref().map(begin);
        let own = shared.loops.as_ref().and_then(|loops| OwnWrite::begin(loops, attempt, reconcile?, objects));
        Self { audit, own, objects }
    }

    /// Looks up the object's previous writer if this write may be part of a field conflict with an unknown writer.
    pub async fn look(&mut self) {
        if let (Some((audit, begun)), Some(objects)) = (&mut self.audit, self.objects) {
            audit.look(begun, objects).await;
        }
    }

    /// Ends the record of a create, an update or a patch.
    pub fn end_write(self, result: &Result<Written, ApiError>) {
        if let Some(own) = self.own {
            own.end_write(result);
        }
        note_write(about(self.audit, |audit, begun| audit.end_write(begun, result)), result);
    }

    /// Ends the record of a deletion.
    pub fn end_delete(self, result: &Result<(), ApiError>) {
        if let Some(own) = self.own {
            own.end_delete(result);
        }
        note_delete(about(self.audit, |audit, begun| audit.end_delete(begun, result)));
    }

    /// Ends the record of a raw request.
    /// Returns the result.
    pub fn end_raw(self, verb: Verb, result: Result<RawResponse, ApiError>) -> Result<RawResponse, ApiError> {
        if let Some(own) = self.own {
            own.end_raw(verb, &result);
        }
        noted_raw(about(self.audit, |audit, begun| audit.end_raw(begun, &result)), result)
    }
}

/// Ends the audit of a write, and returns what it knows for the record of the call.
fn about(audit: Option<(&Audit, Begun)>, end: impl FnOnce(&Audit, Begun) -> Option<Vec<String>>) -> WriteNote {
    let Some((audit, begun)) = audit else { return WriteNote::default() };
    let is_dry_run = begun.is_dry_run();
    let before = begun.resource_version_before().unwrap_or_default();
    WriteNote { is_dry_run, before, paths: end(audit, begun) }
}
