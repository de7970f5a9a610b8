//! Options of operations, and length limits of their values.

use crate::{
    gate::path::{MAX_NAME, check_namespace},
    status::{ApiError, ErrorKind},
};

/// Where to read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The shared informer, overlaid with the host's own writes.
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
        /// The value to look up.
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
    /// Which objects to list.
    pub selection: Selection,
    /// The maximum number of items; None for no maximum.
    pub limit: Option<u32>,
    /// The continue token of the previous page.
    pub continue_token: Option<String>,
    /// Where to read from.
    pub read: Read,
    /// Field paths to keep; if empty, objects are returned in full.
    pub projection: Vec<String>,
}

/// Options of create, update and patch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WriteOptions {
    /// Whether to validate and admit the object without storing it.
    pub dry_run: bool,
    /// The field manager; None for the plugin's own.
    pub field_manager: Option<String>,
    /// Whether to reject unknown and duplicate fields.
    pub strict: bool,
}

/// A patch and its content type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PatchBody {
    /// A JSON merge patch (RFC 7386).
    Merge(String),
    /// A JSON patch (RFC 6902).
    Json(String),
    /// A server-side apply configuration.
    Apply(String),
}

/// metav1.DeletionPropagation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Deletes the object first and its dependents later.
    Background,
    /// Deletes the dependents first.
    Foreground,
    /// Keeps the dependents.
    Orphan,
}

/// metav1.DeleteOptions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Precondition on metadata.uid.
    pub uid: Option<String>,
    /// Precondition on metadata.resourceVersion.
    pub resource_version: Option<String>,
    /// The grace period in seconds.
    pub grace_period_seconds: Option<u32>,
    /// The propagation policy; None for the kind's default.
    pub propagation: Option<Propagation>,
    /// Whether to validate and admit the deletion without deleting.
    pub dry_run: bool,
}

/// The maximum length of a selector or a continue token, in bytes.
const MAX_SELECTOR: usize = 8 * 1024;

/// The maximum number of field paths in a projection.
const MAX_PROJECTION: usize = 128;

impl ListOptions {
    /// Options to list all objects of a namespace, or of all namespaces with None.
    pub fn all(namespace: Option<String>, read: Read) -> Self {
        Self {
            namespace,
            labels: None,
            fields: None,
            selection: Selection::All,
            limit: None,
            continue_token: None,
            read,
            projection: Vec::new(),
        }
    }

    /// Checks the options like [`Operation::check`](super::operation::Operation::check).
    ///
    /// # Errors
    /// `BadRequest`, naming the option that is too long or invalid.
    pub fn check(&self) -> Result<(), ApiError> {
        check_namespace(self.namespace.as_deref())?;
        match &self.selection {
            Selection::All => {}
            Selection::ByIndex { name, value } => {
                check_names([("index", name), ("value of the index", value)])?;
            }
            Selection::ByOwner(uid) => check_names([("uid", uid)])?,
        }

        for (part, text) in [
            ("label selector", &self.labels),
            ("field selector", &self.fields),
            ("continue token", &self.continue_token),
        ] {
            within(part, text.iter().map(String::len).sum(), MAX_SELECTOR)?;
        }

        if self.projection.len() > MAX_PROJECTION {
            let message = format!(
                "{} field paths, over the limit of {MAX_PROJECTION}",
                self.projection.len()
            );
            return Err(ApiError::new(ErrorKind::BadRequest, message));
        }

        check_names(self.projection.iter().map(|path| ("field path", path)))
    }
}

impl WriteOptions {
    pub(super) fn check(&self) -> Result<(), ApiError> {
        check_names(
            self.field_manager
                .iter()
                .map(|manager| ("field manager", manager)),
        )
    }
}

pub(super) fn check_names<'a>(
    all: impl IntoIterator<Item = (&'static str, &'a String)>,
) -> Result<(), ApiError> {
    all.into_iter()
        .try_for_each(|(part, name)| within(part, name.len(), MAX_NAME))
}

fn within(part: &str, bytes: usize, limit: usize) -> Result<(), ApiError> {
    if bytes <= limit {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorKind::BadRequest,
        format!("the {part} has {bytes} bytes, over the limit of {limit} bytes"),
    ))
}
