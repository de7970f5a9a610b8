//! The record of one write, for the audit, the hot-loop detector, the flight recorder and the
//! plugin's finalizers. It begins before the write is sent and ends with the answer.

use crate::{
    controller::request::ReconcileRequest,
    gate::{
        audit::AuditedWrite,
        call::{Call, Resource},
        finalizers::OwnFinalizers,
        records::note,
        reply::Answer,
        shared::Shared,
    },
    hot_loop::write_in_flight::WriteInFlight,
    ports::ObjectLookup,
};

/// A write in progress. Empty if nobody is to learn of it.
pub(super) struct WriteRecord<'a> {
    objects: Option<&'a dyn ObjectLookup>,
    audited: Option<AuditedWrite<'a>>,
    in_flight: Option<WriteInFlight>,
    learning: Option<Learning<'a>>,
}

/// What a write may tell about the plugin's finalizers.
struct Learning<'a> {
    finalizers: &'a OwnFinalizers,
    resource: Resource,
    manager: String,
}

impl<'a> Learning<'a> {
    fn begin(shared: &'a Shared, call: &Call) -> Option<Self> {
        let default = shared
            .audit
            .as_ref()
            .map(|audit| &audit.writer.field_manager);
        Some(Self {
            finalizers: shared.finalizers.as_deref().filter(|_| !call.is_dry_run)?,
            resource: call.resource.clone(),
            manager: call.field_manager.as_ref().or(default)?.clone(),
        })
    }

    fn end(self, answer: &Answer<'_>, objects: Option<&dyn ObjectLookup>) {
        let text = match answer {
            Answer::Stored(object) => object.json(),
            Answer::Raw(body) => *body,
            Answer::Unchanged | Answer::Deleted | Answer::Failed { .. } => return,
        };
        // The answer may be of another kind, such as a PartialObjectMetadata.
        let kind = match self.resource {
            Resource::Kind(kind) => Some(kind),
            Resource::Path {
                api_version,
                plural,
                ..
            } => objects.and_then(|objects| objects.kind_of(&api_version, &plural)),
        };
        if let Some(kind) = kind {
            self.finalizers.learn(&kind, &self.manager, text);
        }
    }
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
            learning: Learning::begin(shared, call),
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
        if let Some(learning) = self.learning {
            learning.end(answer, self.objects);
        }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{
        conflict::{ConflictSink, FieldConflict, FieldConflicts},
        gate::{
            audit::{Audit, AuditRecord, AuditSink, Writer},
            operation::Verb,
        },
        object::{ObjectKey, kind::GroupVersionKind},
    };

    struct Unread;

    impl AuditSink for Unread {
        fn record(&self, _: &AuditRecord) {}
    }

    impl ConflictSink for Unread {
        fn conflict(&self, _: &FieldConflict) {}
    }

    /// A plugin whose field manager is `us`.
    fn shared() -> Shared {
        let writer = Writer {
            plugin: ObjectKey::namespaced("n", "p"),
            digest: String::new(),
            service_account: String::new(),
            field_manager: "us".to_owned(),
        };
        let audit = Audit {
            writer,
            sink: Arc::new(Unread),
            conflicts: FieldConflicts::new(Arc::new(Unread)),
        };
        Shared {
            audit: Some(audit),
            finalizers: Some(Arc::default()),
            ..Shared::default()
        }
    }

    #[test]
    fn finalizers_are_learned_from_writes_that_are_stored() {
        let call = Call {
            verb: Verb::Patch,
            resource: Resource::Kind(GroupVersionKind::new("example.com/v1", "Foo")),
            subresource: None,
            namespace: Some("n".to_owned()),
            name: Some("a".to_owned()),
            field_selector: None,
            field_manager: None,
            is_cached: false,
            is_dry_run: false,
        };
        let dry = Call {
            is_dry_run: true,
            ..call.clone()
        };
        let others = Call {
            field_manager: Some("them".to_owned()),
            ..call.clone()
        };

        let set = json!({"f:metadata": {"f:finalizers": {r#"v:"example.com/x""#: {}}}});
        let answer = json!({"metadata": {
            "name": "a", "namespace": "n", "finalizers": ["example.com/x"],
            "managedFields": [{"manager": "us", "fieldsV1": set}],
        }})
        .to_string();
        let stored = Answer::Raw(&answer);
        let failed = Answer::Failed {
            code: 409,
            reason: "Conflict",
        };
        for (call, answer, learned) in [
            (&call, &stored, 1),
            (&dry, &stored, 0),
            (&others, &stored, 0),
            (&call, &failed, 0),
        ] {
            let shared = shared();
            WriteRecord::begin(&shared, call, None).end(answer);
            let known = shared
                .finalizers
                .as_ref()
                .map(|known| known.all().by_kind().count());
            assert_eq!(known, Some(learned), "{call:?}");
        }
    }
}
