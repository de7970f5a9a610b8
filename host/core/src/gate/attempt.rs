//! A write before it is sent, as the audit and the hot-loop detector see it.

use crate::{
    gate::{
        operation::{Delete, Operation, Verb, Write},
        raw_request::{RawRequest, Target},
    },
    object::{ObjectKey, kind::GroupVersionKind},
    ports::ObjectLookup,
};

/// A write that is about to be sent.
pub(crate) struct Attempt {
    /// The verb.
    pub verb: Verb,
    /// The kind, or the path of a raw request, for the record.
    pub kind: String,
    /// The object for the record: namespace/name; empty for a raw request.
    pub object: String,
    /// The subresource for the record; empty for a raw request.
    pub subresource: String,
    /// The object that is written, if it is known. A create may leave the name to the API server.
    pub about: Option<(GroupVersionKind, ObjectKey)>,
    /// True for a dry run, which stores nothing.
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
            // Deleting a subresource does not delete the object.
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
