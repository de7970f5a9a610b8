//! The record of one write: the audit and the detector of hot loops see it before it goes out and when it is answered.

use crate::{
    controller::request::ReconcileRequest,
    gate::{
        Shared,
        audit::{Audit, Begun},
        operation::{Delete, Operation, Verb, Write, Written},
        raw_request::{RawRequest, RawResponse, Target},
    },
    hot_loop::OwnWrite,
    object::{ObjectKey, kind::GroupVersionKind},
    ports::ObjectLookup,
    status::ApiError,
};

/// A write that is about to go out.
pub(crate) struct Attempt {
    /// The verb.
    pub verb: Verb,
    /// The kind, or the path of a raw request, for the record.
    pub kind: String,
    /// The object for the record: namespace/name; empty for a raw request.
    pub object: String,
    /// The subresource for the record; empty for a raw request.
    pub subresource: String,
    /// The object concerned, where it is known. A create's key has no name.
    pub about: Option<(GroupVersionKind, ObjectKey)>,
    /// True if nothing is stored.
    pub dry_run: bool,
    /// The field manager, if the write names one.
    pub manager: Option<String>,
}

impl Attempt {
    /// Describes a create, an update or a patch.
    pub fn of_write(write: &Write) -> Self {
        let namespace = write.namespace().map(str::to_owned);
        let key = write.key().cloned().unwrap_or(ObjectKey { namespace, name: String::new() });
        Self { dry_run: write.options.dry_run, manager: write.options.field_manager.clone(), ..Self::new(write, key) }
    }

    /// Describes a deletion.
    pub fn of_delete(delete: &Delete) -> Self {
        Self { dry_run: delete.options.dry_run, ..Self::new(delete, delete.key.clone()) }
    }

    fn new(operation: &dyn Operation, key: ObjectKey) -> Self {
        Self {
            verb: operation.verb(),
            kind: operation.kind().to_string(),
            object: key.to_string(),
            subresource: operation.subresource().unwrap_or_default().to_owned(),
            about: Some((operation.kind().clone(), key)),
            dry_run: false,
            manager: None,
        }
    }

    /// Describes a raw request.
    pub fn of_raw(request: &RawRequest, target: &Target, objects: Option<&dyn ObjectLookup>) -> Self {
        let mut parameters = request.parameters().unwrap_or_default();
        let verb = request.verb();
        let about = match target {
            // A deletion of a subresource leaves the object.
            Target::Resource(path) if verb != Verb::Delete || path.subresource.is_none() => {
                objects.and_then(|objects| objects.kind_of(path)).zip(path.key())
            }
            _ => None,
        };
        Self {
            verb,
            kind: request.path.clone(),
            object: String::new(),
            subresource: String::new(),
            about,
            dry_run: request.is_dry_run(&parameters),
            manager: parameters.remove("fieldManager"),
        }
    }
}

/// A write that has begun: where nobody wants a record, it holds nothing.
pub(super) struct Recording<'a> {
    audit: Option<(&'a Audit, Begun)>,
    own: Option<OwnWrite>,
    objects: Option<&'a dyn ObjectLookup>,
}

impl<'a> Recording<'a> {
    /// Begins the record. `reconcile` is the one that writes.
    pub fn begin(shared: &'a Shared, attempt: &Attempt, reconcile: Option<&ReconcileRequest>) -> Self {
        let objects = shared.objects.as_deref();
        let begin = |audit: &'a Audit| (audit, audit.begin(attempt, reconcile, objects));
        let audit = shared.audit.as_ref().map(begin);
        let own = shared.loops.as_ref().and_then(|loops| OwnWrite::begin(loops, attempt, reconcile?, objects));
        Self { audit, own, objects }
    }

    /// Looks up the object's former writer, where this write may be part of a field conflict with somebody unknown.
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
        if let Some((audit, begun)) = self.audit {
            audit.end_write(begun, result);
        }
    }

    /// Ends the record of a deletion.
    pub fn end_delete(self, result: &Result<(), ApiError>) {
        if let Some(own) = self.own {
            own.end_delete(result);
        }
        if let Some((audit, begun)) = self.audit {
            audit.end_delete(begun, result);
        }
    }

    /// Ends the record of a raw request.
    pub fn end_raw(self, verb: Verb, result: &Result<RawResponse, ApiError>) {
        if let Some(own) = self.own {
            own.end_raw(verb, result);
        }
        if let Some((audit, begun)) = self.audit {
            audit.end_raw(begun, result);
        }
    }
}
