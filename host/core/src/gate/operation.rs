//! What a reconciler can ask of the API server, as one typed value: the gate, the cache and the client all take it.
//!
//! Every import of `objects` becomes one [`Operation`], so that metering, quotas, recording and replay are written
//! once, around one function.

use std::fmt;

pub use crate::gate::reply::{Item, Page, Reply};
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

/// One call at the API server or its cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The kind concerned.
    pub kind: GroupVersionKind,
    /// The action.
    pub action: OperationAction,
}

/// The action of an [`Operation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationAction {
    /// Read one object.
    Get {
        /// Which.
        key: ObjectKey,
        /// The source of the read.
        read: Read,
    },
    /// Read many.
    List(ListOptions),
    /// Create one.
    Create {
        /// None for cluster-scoped kinds.
        namespace: Option<String>,
        /// The object as JSON.
        object: String,
        /// The options of the write.
        options: WriteOptions,
    },
    /// Replace one, or only its status.
    Update {
        /// Which.
        key: ObjectKey,
        /// Through the status subresource.
        status: bool,
        /// The object as JSON.
        object: String,
        /// The options of the write.
        options: WriteOptions,
    },
    /// Patch one, or a subresource of it.
    Patch {
        /// Which.
        key: ObjectKey,
        /// E.g. `status` or `scale`.
        subresource: Option<String>,
        /// The patch.
        body: PatchBody,
        /// Take over fields from other managers (apply only).
        force: bool,
        /// The options of the write.
        options: WriteOptions,
    },
    /// Delete one.
    Delete {
        /// Which.
        key: ObjectKey,
        /// The options of the deletion.
        options: DeleteOptions,
    },
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

impl Operation {
    /// The verb RBAC would check.
    pub fn verb(&self) -> Verb {
        match &self.action {
            OperationAction::Get { .. } => Verb::Get,
            OperationAction::List(_) => Verb::List,
            OperationAction::Create { .. } => Verb::Create,
            OperationAction::Update { .. } => Verb::Update,
            OperationAction::Patch { .. } => Verb::Patch,
            OperationAction::Delete { .. } => Verb::Delete,
        }
    }

    /// The namespace that it is about; None for all, and for cluster-scoped kinds.
    pub fn namespace(&self) -> Option<&str> {
        match &self.action {
            OperationAction::List(options) => options.namespace.as_deref(),
            OperationAction::Create { namespace, .. } => namespace.as_deref(),
            OperationAction::Get { key, .. }
            | OperationAction::Update { key, .. }
            | OperationAction::Patch { key, .. }
            | OperationAction::Delete { key, .. } => key.namespace.as_deref(),
        }
    }

    /// The subresource that it writes.
    pub fn subresource(&self) -> Option<&str> {
        match &self.action {
            OperationAction::Update { status: true, .. } => Some("status"),
            OperationAction::Patch { subresource, .. } => subresource.as_deref(),
            _ => None,
        }
    }

    /// Reports whether the operation asks for the cache only, so that normally nothing reaches the API server.
    pub fn is_cached(&self) -> bool {
        match &self.action {
            OperationAction::Get { read, .. } => *read == Read::Cached,
            OperationAction::List(options) => options.read == Read::Cached,
            _ => false,
        }
    }

    /// Checks that what names something, or selects it, is not longer than anything of its sort: it stands in requests,
    /// records and messages, and is looked at for each object of a list.
    ///
    /// # Errors
    /// `BadRequest` that names the part.
    pub fn check(&self) -> Result<(), ApiError> {
        names([("apiVersion", &self.kind.api_version), ("kind", &self.kind.kind)])?;
        match &self.action {
            OperationAction::List(options) => options.check(),
            OperationAction::Get { key, .. } => check_key(key),
            OperationAction::Create { namespace, options, .. } => {
                options.check()?;
                names(namespace.iter().map(|namespace| ("namespace", namespace)))
            }
            OperationAction::Update { key, options, .. } => check_key(key).and_then(|()| options.check()),
            OperationAction::Patch { key, subresource, options, .. } => {
                check_key(key).and_then(|()| options.check())?;
                names(subresource.iter().map(|subresource| ("subresource", subresource)))
            }
            OperationAction::Delete { key, options } => {
                check_key(key)?;
                names(options.uid.iter().map(|uid| ("uid", uid)))?;
                names(options.resource_version.iter().map(|version| ("resourceVersion", version)))
            }
        }
    }

    /// Bytes the guest handed over.
    pub fn payload_bytes(&self) -> usize {
        match &self.action {
            OperationAction::Create { object, .. } | OperationAction::Update { object, .. } => object.len(),
            OperationAction::Patch { body, .. } => match body {
                PatchBody::Merge(text) | PatchBody::Json(text) | PatchBody::Apply(text) => text.len(),
            },
            OperationAction::Get { .. } | OperationAction::List(_) | OperationAction::Delete { .. } => 0,
        }
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
        names(self.namespace.iter().map(|namespace| ("namespace", namespace)))?;
        match &self.selection {
            Selection::All => {}
            Selection::ByIndex { name, value } => names([("index", name), ("value of the index", value)])?,
            Selection::ByOwner(uid) => names([("uid", uid)])?,
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
        names(self.projection.iter().map(|path| ("field path", path)))
    }
}

impl WriteOptions {
    fn check(&self) -> Result<(), ApiError> {
        names(self.field_manager.iter().map(|manager| ("field manager", manager)))
    }
}

fn check_key(key: &ObjectKey) -> Result<(), ApiError> {
    names([("name", &key.name)])?;
    names(key.namespace.iter().map(|namespace| ("namespace", namespace)))
}

fn names<'a>(all: impl IntoIterator<Item = (&'static str, &'a String)>) -> Result<(), ApiError> {
    all.into_iter().try_for_each(|(what, name)| within(what, name.len(), MAX_NAME))
}

fn within(what: &str, bytes: usize, limit: usize) -> Result<(), ApiError> {
    if bytes <= limit {
        return Ok(());
    }
    Err(ApiError::new(ErrorKind::BadRequest, format!("the {what} has {bytes} bytes, over the limit of {limit} bytes")))
}
