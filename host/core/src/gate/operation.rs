//! The calls that a reconciler can make on objects: [`Get`], [`List`], [`Write`] and [`Delete`].
//!
//! Each function that a plugin imports from `objects` makes one of these values. The gate, the cache and the client take
//! it, and each has an answer of its own type: see [`ObjectApi`](crate::ports::ObjectApi).

use std::fmt;

pub use crate::gate::reply::{Item, Page, Written};
use crate::{
    object::{ObjectKey, kind::GroupVersionKind},
    status::{ApiError, ErrorKind},
};

/// The source of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The shared informer, overlaid by the host's own writes.
    Cached,
    /// The API server.
    Live,
}

/// Which objects of a kind a list returns, before selectors apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All of them.
    All,
    /// Those with `value` in the declared index `name`.
    ByIndex {
        /// The index's name in the manifest.
        name: String,
        /// The value looked up.
        value: String,
    },
    /// Those whose controlling ownerReference has this uid.
    ByOwner(String),
}

/// The options of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListOptions {
    /// None lists all namespaces.
    pub namespace: Option<String>,
    /// A label selector in the API server's syntax.
    pub labels: Option<String>,
    /// A field selector in the API server's syntax.
    pub fields: Option<String>,
    /// Which objects.
    pub selection: Selection,
    /// At most this many items.
    pub limit: Option<u32>,
    /// The token of the page before.
    pub continue_token: Option<String>,
    /// The source of the read.
    pub read: Read,
    /// Field paths to keep; empty keeps the whole object.
    pub projection: Vec<String>,
}

/// Options of create, update and patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Validate and admit, but store nothing.
    pub dry_run: bool,
    /// The field manager; None means the plugin's own.
    pub field_manager: Option<String>,
    /// Reject unknown and duplicate fields.
    pub strict: bool,
}

/// A patch and its content type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchBody {
    /// RFC 7386.
    Merge(String),
    /// RFC 6902.
    Json(String),
    /// Server-side apply.
    Apply(String),
}

/// metav1.DeletionPropagation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The object first, dependents later.
    Background,
    /// Dependents first.
    Foreground,
    /// Dependents are kept.
    Orphan,
}

/// metav1.DeleteOptions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Precondition: metadata.uid.
    pub uid: Option<String>,
    /// Precondition: metadata.resourceVersion.
    pub resource_version: Option<String>,
    /// In seconds.
    pub grace_period_seconds: Option<u32>,
    /// None leaves it to the kind's default.
    pub propagation: Option<Propagation>,
    /// Validate and admit, but delete nothing.
    pub dry_run: bool,
}

/// Reads one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Get {
    /// The object's kind.
    pub kind: GroupVersionKind,
    /// The object's key.
    pub key: ObjectKey,
    /// The source of the read.
    pub read: Read,
}

/// Reads a page of a kind's objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The kind of the objects.
    pub kind: GroupVersionKind,
    /// Which of them, and what of each.
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

/// The action of a [`Write`].
#[derive(Clone, Debug, PartialEq, Eq)]
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
        /// Through the status subresource.
        status: bool,
        /// The object as JSON.
        object: String,
    },
    /// Patches an object, or a subresource of it.
    Patch {
        /// The object's key.
        key: ObjectKey,
        /// E.g. `status` or `scale`.
        subresource: Option<String>,
        /// The patch.
        body: PatchBody,
        /// Take over fields from other managers (apply only).
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

/// The Kubernetes verb of a call, as RBAC names it, plus those the host adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is the RBAC verb of its name")]
pub enum Verb {
    Get,
    List,
    Create,
    Update,
    Patch,
    Delete,
    Event,
    Log,
    Config,
}

impl Verb {
    /// Reports whether the verb changes objects.
    pub fn is_write(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Patch | Self::Delete)
    }

    /// Each of them.
    pub const ALL: [Self; 9] = [
        Self::Get,
        Self::List,
        Self::Create,
        Self::Update,
        Self::Patch,
        Self::Delete,
        Self::Event,
        Self::Log,
        Self::Config,
    ];

    /// The verb in RBAC's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::Event => "event",
            Self::Log => "log",
            Self::Config => "config",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One call on objects of a kind, as the gate meters and checks it and as RBAC names it.
pub trait Operation {
    /// The kind concerned.
    fn kind(&self) -> &GroupVersionKind;
    /// The verb RBAC would check.
    fn verb(&self) -> Verb;
    /// The namespace concerned; None for all of them, and for cluster-scoped kinds.
    fn namespace(&self) -> Option<&str>;
    /// The object's name, where the operation is about one that has a name.
    fn name(&self) -> Option<&str>;

    /// Checks that each name and each selector is within its limit of length: they are part of requests, records and
    /// messages, and are compared with each object of a list.
    ///
    /// # Errors
    /// `BadRequest` that names the part.
    fn check(&self) -> Result<(), ApiError>;

    /// The subresource that is written.
    fn subresource(&self) -> Option<&str> {
        None
    }

    /// Reports whether the operation asks for the cache only, so that normally nothing reaches the API server.
    fn is_cached(&self) -> bool {
        false
    }

    /// Bytes the guest handed over.
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

    fn namespace(&self) -> Option<&str> {
        self.key.namespace.as_deref()
    }

    fn name(&self) -> Option<&str> {
        Some(&self.key.name)
    }

    fn check(&self) -> Result<(), ApiError> {
        check_kind(&self.kind)?;
        check_key(&self.key)
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

    fn namespace(&self) -> Option<&str> {
        self.options.namespace.as_deref()
    }

    fn name(&self) -> Option<&str> {
        None
    }

    fn check(&self) -> Result<(), ApiError> {
        check_kind(&self.kind)?;
        self.options.check()
    }

    fn is_cached(&self) -> bool {
        self.options.read == Read::Cached
    }
}

impl Write {
    /// The key of the object; None for a create, where the object may leave its name to the API server.
    pub fn key(&self) -> Option<&ObjectKey> {
        match &self.action {
            WriteAction::Create { .. } => None,
            WriteAction::Update { key, .. } | WriteAction::Patch { key, .. } => Some(key),
        }
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

    fn namespace(&self) -> Option<&str> {
        match &self.action {
            WriteAction::Create { namespace, .. } => namespace.as_deref(),
            WriteAction::Update { key, .. } | WriteAction::Patch { key, .. } => key.namespace.as_deref(),
        }
    }

    fn name(&self) -> Option<&str> {
        self.key().map(|key| key.name.as_str())
    }

    fn check(&self) -> Result<(), ApiError> {
        check_kind(&self.kind)?;
        self.options.check()?;
        match &self.action {
            WriteAction::Create { namespace, .. } => {
                check_names(namespace.iter().map(|namespace| ("namespace", namespace)))
            }
            WriteAction::Update { key, .. } => check_key(key),
            WriteAction::Patch { key, subresource, .. } => {
                check_key(key)?;
                check_names(subresource.iter().map(|subresource| ("subresource", subresource)))
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

    fn payload_bytes(&self) -> usize {
        match &self.action {
            WriteAction::Create { object, .. } | WriteAction::Update { object, .. } => object.len(),
            WriteAction::Patch { body, .. } => match body {
                PatchBody::Merge(text) | PatchBody::Json(text) | PatchBody::Apply(text) => text.len(),
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

    fn namespace(&self) -> Option<&str> {
        self.key.namespace.as_deref()
    }

    fn name(&self) -> Option<&str> {
        Some(&self.key.name)
    }

    fn check(&self) -> Result<(), ApiError> {
        check_kind(&self.kind)?;
        check_key(&self.key)?;
        let DeleteOptions { uid, resource_version, .. } = &self.options;
        check_names(uid.iter().map(|uid| ("uid", uid)))?;
        check_names(resource_version.iter().map(|version| ("resourceVersion", version)))
    }
}

/// Bytes of one name, such as a kind, an object's name or a field path.
const MAX_NAME: usize = 512;

/// Bytes of one selector, or of a continue token.
const MAX_SELECTOR: usize = 8 * 1024;

/// Field paths that a list may keep.
const MAX_PROJECTION: usize = 128;

impl ListOptions {
    /// Checks the options as [`Operation::check`] does.
    ///
    /// # Errors
    /// `BadRequest` that names the part.
    pub fn check(&self) -> Result<(), ApiError> {
        check_names(self.namespace.iter().map(|namespace| ("namespace", namespace)))?;
        match &self.selection {
            Selection::All => {}
            Selection::ByIndex { name, value } => check_names([("index", name), ("value of the index", value)])?,
            Selection::ByOwner(uid) => check_names([("uid", uid)])?,
        }
        for (what, text) in [
            ("label selector", &self.labels),
            ("field selector", &self.fields),
            ("continue token", &self.continue_token),
        ] {
            within(what, text.iter().map(String::len).sum(), MAX_SELECTOR)?;
        }
        if self.projection.len() > MAX_PROJECTION {
            let message = format!("{} field paths are more than {MAX_PROJECTION}", self.projection.len());
            return Err(ApiError::new(ErrorKind::BadRequest, message));
        }
        check_names(self.projection.iter().map(|path| ("field path", path)))
    }
}

impl WriteOptions {
    fn check(&self) -> Result<(), ApiError> {
        check_names(self.field_manager.iter().map(|manager| ("field manager", manager)))
    }
}

fn check_kind(kind: &GroupVersionKind) -> Result<(), ApiError> {
    check_names([("apiVersion", &kind.api_version), ("kind", &kind.kind)])
}

fn check_key(key: &ObjectKey) -> Result<(), ApiError> {
    check_names([("name", &key.name)])?;
    check_names(key.namespace.iter().map(|namespace| ("namespace", namespace)))
}

fn check_names<'a>(all: impl IntoIterator<Item = (&'static str, &'a String)>) -> Result<(), ApiError> {
    all.into_iter().try_for_each(|(what, name)| within(what, name.len(), MAX_NAME))
}

fn within(what: &str, bytes: usize, limit: usize) -> Result<(), ApiError> {
    if bytes <= limit {
        return Ok(());
    }
    Err(ApiError::new(ErrorKind::BadRequest, format!("the {what} has {bytes} bytes, over the limit of {limit} bytes")))
}
