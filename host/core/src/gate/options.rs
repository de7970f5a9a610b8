//! The options of operations, and the limits of what they name.

use crate::{
    gate::path::{MAX_NAME, check_namespace},
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

/// Bytes of one selector, or of a continue token.
const MAX_SELECTOR: usize = 8 * 1024;

/// Field paths that a list may keep.
const MAX_PROJECTION: usize = 128;

impl ListOptions {
    /// Checks the options as [`Operation::check`](super::operation::Operation::check) does.
    ///
    /// # Errors
    /// `BadRequest` that names the part.
    pub fn check(&self) -> Result<(), ApiError> {
        check_namespace(self.namespace.as_deref())?;
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
    pub(super) fn check(&self) -> Result<(), ApiError> {
        check_names(self.field_manager.iter().map(|manager| ("field manager", manager)))
    }
}

pub(super) fn check_names<'a>(all: impl IntoIterator<Item = (&'static str, &'a String)>) -> Result<(), ApiError> {
    all.into_iter().try_for_each(|(what, name)| within(what, name.len(), MAX_NAME))
}

fn within(what: &str, bytes: usize, limit: usize) -> Result<(), ApiError> {
    if bytes <= limit {
        return Ok(());
    }
    Err(ApiError::new(ErrorKind::BadRequest, format!("the {what} has {bytes} bytes, over the limit of {limit} bytes")))
}
