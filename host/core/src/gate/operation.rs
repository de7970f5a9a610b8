//! A reconciler's calls on objects: [`Get`], [`List`], [`Write`] and [`Delete`].
//!
//! Each function a plugin imports from `objects` creates one of these values. The gate, the cache
//! and the client take them; the results have the types of [`ObjectApi`](crate::ports::ObjectApi).

use super::{
    options::check_names,
    path::{check_given_key, check_kind, check_namespace, check_segment, check_subresource},
};
pub use super::{
    options::{DeleteOptions, ListOptions, PatchBody, Propagation, Read, Selection, WriteOptions},
    reply::{Item, Page, Written},
    verb::Verb,
};
use crate::{
    object::{ObjectKey, kind::GroupVersionKind},
    status::ApiError,
};

/// Reads one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Get {
    /// The object's kind.
    pub kind: GroupVersionKind,
    /// The object's key.
    pub key: ObjectKey,
    /// Where to read from.
    pub read: Read,
}

/// Reads one page of a kind's objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The kind of the objects.
    pub kind: GroupVersionKind,
    /// Which objects, and which of their fields.
    pub options: ListOptions,
}

/// Creates, updates or patches one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The object's kind.
    pub kind: GroupVersionKind,
    /// The action.
    pub action: WriteAction,
    /// The options of the write.
    pub options: WriteOptions,
}

/// What a [`Write`] does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WriteAction {
    /// Creates an object.
    Create {
        /// None for cluster-scoped kinds.
        namespace: Option<String>,
        /// The object as JSON.
        object: String,
    },
    /// Replaces an object, or only its status.
    Update {
        /// The object's key.
        key: ObjectKey,
        /// Whether to write through the status subresource.
        status: bool,
        /// The object as JSON.
        object: String,
    },
    /// Patches an object or one of its subresources.
    Patch {
        /// The object's key.
        key: ObjectKey,
        /// The subresource, e.g. `status` or `scale`; None patches the object itself.
        subresource: Option<String>,
        /// The patch.
        body: PatchBody,
        /// Whether to take over fields from other managers (server-side apply only).
        force: bool,
    },
}

/// Deletes one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    /// The object's kind.
    pub kind: GroupVersionKind,
    /// The object's key.
    pub key: ObjectKey,
    /// The options of the deletion.
    pub options: DeleteOptions,
}

/// A call on objects of a kind, with everything the gate needs to count and check it.
pub trait Operation {
    /// The kind of the objects.
    fn kind(&self) -> &GroupVersionKind;
    /// The verb RBAC would check.
    fn verb(&self) -> Verb;
    /// The object's key; None for a list, and for a create, since the API server may generate the
    /// name.
    fn key(&self) -> Option<&ObjectKey>;

    /// The namespace; None for all namespaces and for cluster-scoped kinds.
    fn namespace(&self) -> Option<&str> {
        self.key().and_then(|key| key.namespace.as_deref())
    }

    /// The object's name; None if the operation has none.
    fn name(&self) -> Option<&str> {
        self.key().map(|key| key.name.as_str())
    }

    /// Checks that each name and selector is within its length limit. They end up in requests,
    /// records and messages, and a list compares its selectors with every object.
    ///
    /// # Errors
    /// `BadRequest`, naming the part that is too long or invalid.
    fn check(&self) -> Result<(), ApiError>;

    /// The subresource of the operation, if it has one.
    fn subresource(&self) -> Option<&str> {
        None
    }

    /// The field selector of a list, if it has one.
    fn field_selector(&self) -> Option<&str> {
        None
    }

    /// The field manager, if a write names one.
    fn field_manager(&self) -> Option<&str> {
        None
    }

    /// Whether the operation is a write that stores nothing.
    fn is_dry_run(&self) -> bool {
        false
    }

    /// Whether the operation reads from the cache, and so normally sends no request to the API
    /// server.
    fn is_cached(&self) -> bool {
        false
    }

    /// How many bytes the guest passed.
    fn payload_bytes(&self) -> usize {
        0
    }
}

impl Operation for Get {
    fn kind(&self) -> &GroupVersionKind {
        &self.kind
    }

    fn verb(&self) -> Verb {
        Verb::Get
    }

    fn key(&self) -> Option<&ObjectKey> {
        Some(&self.key)
    }

    fn check(&self) -> Result<(), ApiError> {
        check_kind(&self.kind)?;
        check_given_key(&self.key)
    }

    fn is_cached(&self) -> bool {
        self.read == Read::Cached
    }
}

impl Operation for List {
    fn kind(&self) -> &GroupVersionKind {
        &self.kind
    }

    fn verb(&self) -> Verb {
        Verb::List
    }

    fn key(&self) -> Option<&ObjectKey> {
        None
    }

    fn namespace(&self) -> Option<&str> {
        self.options.namespace.as_deref()
    }

    fn check(&self) -> Result<(), ApiError> {
        check_kind(&self.kind)?;
        self.options.check()
    }

    fn field_selector(&self) -> Option<&str> {
        self.options.fields.as_deref()
    }

    fn is_cached(&self) -> bool {
        self.options.read == Read::Cached
    }
}

impl Operation for Write {
    fn kind(&self) -> &GroupVersionKind {
        &self.kind
    }

    fn verb(&self) -> Verb {
        match &self.action {
            WriteAction::Create { .. } => Verb::Create,
            WriteAction::Update { .. } => Verb::Update,
            WriteAction::Patch { .. } => Verb::Patch,
        }
    }

    fn key(&self) -> Option<&ObjectKey> {
        match &self.action {
            WriteAction::Create { .. } => None,
            WriteAction::Update { key, .. } | WriteAction::Patch { key, .. } => Some(key),
        }
    }

    fn namespace(&self) -> Option<&str> {
        match &self.action {
            WriteAction::Create { namespace, .. } => namespace.as_deref(),
            WriteAction::Update { key, .. } | WriteAction::Patch { key, .. } => {
                key.namespace.as_deref()
            }
        }
    }

    fn check(&self) -> Result<(), ApiError> {
        check_kind(&self.kind)?;
        self.options.check()?;
        match &self.action {
            WriteAction::Create { namespace, .. } => check_namespace(namespace.as_deref()),
            WriteAction::Update { key, .. } => check_given_key(key),
            WriteAction::Patch {
                key, subresource, ..
            } => {
                check_given_key(key)?;
                let Some(name) = subresource.as_deref().filter(|name| !name.is_empty()) else {
                    return Ok(());
                };
                check_segment("subresource", name)?;
                check_subresource(name)
            }
        }
    }

    fn subresource(&self) -> Option<&str> {
        match &self.action {
            WriteAction::Update { status: true, .. } => Some("status"),
            WriteAction::Patch { subresource, .. } => subresource.as_deref(),
            WriteAction::Update { .. } | WriteAction::Create { .. } => None,
        }
    }

    fn field_manager(&self) -> Option<&str> {
        self.options.field_manager.as_deref()
    }

    fn is_dry_run(&self) -> bool {
        self.options.dry_run
    }

    fn payload_bytes(&self) -> usize {
        match &self.action {
            WriteAction::Create { object, .. } | WriteAction::Update { object, .. } => object.len(),
            WriteAction::Patch { body, .. } => match body {
                PatchBody::Merge(text) | PatchBody::Json(text) | PatchBody::Apply(text) => {
                    text.len()
                }
            },
        }
    }
}

impl Operation for Delete {
    fn kind(&self) -> &GroupVersionKind {
        &self.kind
    }

    fn verb(&self) -> Verb {
        Verb::Delete
    }

    fn key(&self) -> Option<&ObjectKey> {
        Some(&self.key)
    }

    fn is_dry_run(&self) -> bool {
        self.options.dry_run
    }

    fn check(&self) -> Result<(), ApiError> {
        check_kind(&self.kind)?;
        check_given_key(&self.key)?;
        let DeleteOptions {
            uid,
            resource_version,
            ..
        } = &self.options;
        check_names(uid.iter().map(|uid| ("uid", uid)))?;

        check_names(
            resource_version
                .iter()
                .map(|version| ("resourceVersion", version)),
        )
    }
}

/// An operation's verb and kind, for messages.
pub(crate) fn describe_call(operation: &dyn Operation) -> String {
    format!("{} {}", operation.verb(), operation.kind())
}
