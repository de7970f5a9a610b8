//! The record of one write, for the audit, the hot-loop detector and the flight recorder. It begins
//! before the write is sent and ends with the answer.

use crate::{
    controller::request::ReconcileRequest,
    gate::{audit::AuditedWrite, call::Call, records::note, reply::Answer, shared::Shared},
    hot_loop::write_in_flight::WriteInFlight,
    ports::ObjectLookup,
};

/// A write in progress. Empty if neither the audit nor the detector is enabled.
pub(super) struct WriteRecord<'a> {
    objects: Option<&'a dyn ObjectLookup>,
    audited: Option<AuditedWrite<'a>>,
    in_flight: Option<WriteInFlight>,
}

impl<'a> WriteRecord<'a> {
    /// Begins the record of a write by `reconcile`.
    pub fn begin(shared: &'a Shared, call: &Call, reconcile: Option<&ReconcileRequest>) -> Self {
        let objects = shared.objects.as_deref();
        let audited = shared
            .audit
            .as_ref()
            .map(|audit| audit.begin(call, reconcile, objects));
        let in_flight = shared
            .loops
            .as_ref()
            .and_then(|loops| WriteInFlight::begin(loops, call, reconcile?, objects));

        Self {
            objects,
            audited,
            in_flight,
        }
    }

    /// Looks up the object's previous writer, if this write may be part of a field conflict with an
    /// unknown writer.
    pub async fn find_previous_writer(&mut self) {
        if let (Some(audited), Some(objects)) = (&mut self.audited, self.objects) {
            audited.find_previous_writer(objects).await;
        }
    }

    pub fn end(self, answer: &Answer<'_>) {
        if let Some(in_flight) = self.in_flight {
            in_flight.end(answer);
        }

        if let Some(audited) = self.audited {
            let is_dry_run = audited.is_dry_run();
            let before = audited.resource_version_before().unwrap_or_default();
            let paths = audited.end(answer);
            note(|call| {
                call.is_dry_run = is_dry_run;
                call.before = before;
                call.paths = paths;
            });
        }
    }
}
