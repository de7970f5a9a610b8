//! The options of reads and writes. Each is a builder with defaults.

use serde::Serialize;

use crate::{ApiError, Object, ObjectKey};

/// The source of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Read {
    /// Reads from the host's shared informer, which includes this plugin's own writes.
    #[default]
    Cached,
    /// Sends a request to the API server.
    Live,
}

/// The objects of a list, before selectors apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Selection {
    #[default]
    All,
    Index {
        name: String,
        value: String,
    },
    Owner(String),
}

/// The selection of a list's objects. The default is every object of the kind, whole, from the
/// cache.
///
/// ```
/// # use operetta_sdk::ListOptions;
/// let databases = ListOptions::in_namespace("shop").labels("app=db,tier in (a, b)");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct ListOptions {
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    pub(crate) selection: Selection,
    pub(crate) page_size: Option<u32>,
    pub(crate) continue_token: Option<String>,
    pub(crate) read: Read,
    pub(crate) projection: Vec<String>,
}

impl ListOptions {
    /// Selects the objects of every namespace, or of a cluster-scoped kind.
    pub fn all_namespaces() -> Self {
        Self::default()
    }

    /// Selects the objects of one namespace.
    pub fn in_namespace(namespace: impl Into<String>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            ..Self::default()
        }
    }

    /// Selects objects by a label selector, in the API server's syntax.
    pub fn labels(self, selector: impl Into<String>) -> Self {
        Self {
            labels: Some(selector.into()),
            ..self
        }
    }

    /// Selects objects by a field selector. Cached reads support `metadata.name` and
    /// `metadata.namespace`; other fields need an index, or [`live`](Self::live).
    pub fn fields(self, selector: impl Into<String>) -> Self {
        Self {
            fields: Some(selector.into()),
            ..self
        }
    }

    /// Selects objects whose controlling ownerReference is this object. It must have been read from
    /// the API server.
    pub fn owned_by(self, owner: &impl Object) -> Self {
        self.owner_uid(owner.uid().unwrap_or_default())
    }

    /// Selects objects whose controlling ownerReference has this uid.
    pub fn owner_uid(self, uid: impl Into<String>) -> Self {
        Self {
            selection: Selection::Owner(uid.into()),
            ..self
        }
    }

    /// Selects objects with this value in an index that [`Plugin::index`](crate::Plugin::index)
    /// declares.
    pub fn index(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            selection: Selection::Index {
                name: name.into(),
                value: value.into(),
            },
            ..self
        }
    }

    /// Limits the objects of one page. [`Context::list`](crate::Context::list) reads every page.
    pub fn page_size(self, limit: u32) -> Self {
        Self {
            page_size: Some(limit),
            ..self
        }
    }

    /// Continues after the page that returned this token.
    pub fn continue_from(self, token: impl Into<String>) -> Self {
        Self {
            continue_token: Some(token.into()),
            ..self
        }
    }

    /// Reads from the API server instead of the cache. It supports neither indexes nor owners.
    pub fn live(self) -> Self {
        Self {
            read: Read::Live,
            ..self
        }
    }

    /// Reads only these fields of each object, e.g. `.metadata.labels`, besides apiVersion, kind,
    /// name, namespace, uid and resourceVersion. All other fields of the type must be optional.
    pub fn project<Path: Into<String>>(self, paths: impl IntoIterator<Item = Path>) -> Self {
        Self {
            projection: paths.into_iter().map(Into::into).collect(),
            ..self
        }
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The objects; those of cached reads are ordered by namespace, then name.
    pub items: Vec<T>,
    /// The collection's resourceVersion.
    pub resource_version: String,
    /// The token for [`ListOptions::continue_from`]; `None` on the last page.
    pub continue_token: Option<String>,
}

/// An object of a list that does not fit its Rust type.
#[derive(Clone, Debug)]
pub struct Misfit {
    /// Its key.
    pub key: ObjectKey,
    /// Names the field.
    pub error: ApiError,
}

/// Options of create, update and patch.
///
/// ```
/// # use operetta_sdk::WriteOptions;
/// let options = WriteOptions::new().dry_run().field_manager("contact");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_manager: Option<String>,
    pub(crate) strict: bool,
}

impl WriteOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Validates and admits the object, and stores nothing.
    pub fn dry_run(self) -> Self {
        Self {
            dry_run: true,
            ..self
        }
    }

    /// Sets the field manager of the write; the plugin's own by default.
    pub fn field_manager(self, name: impl Into<String>) -> Self {
        Self {
            field_manager: Some(name.into()),
            ..self
        }
    }

    /// Rejects unknown and duplicate fields instead of dropping them.
    pub fn strict(self) -> Self {
        Self {
            strict: true,
            ..self
        }
    }
}

/// The policy for the objects that a deleted object owns (`metav1.DeletionPropagation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Propagation {
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They remain, without an owner.
    Orphan,
}

/// Options of a deletion. If a precondition does not hold, nothing is deleted and the call fails
/// with a conflict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct DeleteOptions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) grace_period_seconds: Option<u32>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// Returns the defaults: deletes the object of the name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requires this uid, so a new object of the same name is not deleted.
    pub fn if_uid(self, uid: impl Into<String>) -> Self {
        Self {
            uid: Some(uid.into()),
            ..self
        }
    }

    /// Requires this resourceVersion, so an object that has changed is not deleted.
    pub fn if_resource_version(self, version: impl Into<String>) -> Self {
        Self {
            resource_version: Some(version.into()),
            ..self
        }
    }

    /// Sets the grace period in seconds.
    pub fn grace_period_seconds(self, seconds: u32) -> Self {
        Self {
            grace_period_seconds: Some(seconds),
            ..self
        }
    }

    /// Sets the policy for the objects that it owns; the kind's by default.
    pub fn propagation(self, propagation: Propagation) -> Self {
        Self {
            propagation: Some(propagation),
            ..self
        }
    }

    /// Validates and admits the deletion, and deletes nothing.
    pub fn dry_run(self) -> Self {
        Self {
            dry_run: true,
            ..self
        }
    }
}

/// The three content types of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    Merge,
    Json,
    Apply,
}

/// A change to an object, or to a subresource of it.
///
/// ```
/// # use operetta_sdk::Patch;
/// # use serde_json::json;
/// let scale = Patch::merge(&json!({"spec": {"replicas": 3}}));
/// let unlabel = Patch::json(&json!([{"op": "remove", "path": "/metadata/labels/old"}]));
/// ```
#[derive(Debug)]
#[must_use]
pub struct Patch {
    pub(crate) kind: PatchType,
    /// The body. The call that sends the patch returns the error of writing it.
    pub(crate) body: Result<String, crate::json::Fault>,
    pub(crate) force: bool,
    pub(crate) subresource: Option<String>,
    pub(crate) options: WriteOptions,
}

impl Patch {
    /// Returns a JSON merge patch, RFC 7386: `null` removes a field, an array replaces the whole
    /// array.
    pub fn merge(body: &impl Serialize) -> Self {
        Self::new(PatchType::Merge, body)
    }

    /// Returns a JSON patch, RFC 6902: an array of operations.
    pub fn json(operations: &impl Serialize) -> Self {
        Self::new(PatchType::Json, operations)
    }

    /// Returns a server-side apply: the object, with only the fields that this plugin manages.
    pub fn apply(object: &impl Serialize) -> Self {
        Self::new(PatchType::Apply, object)
    }

    fn new(kind: PatchType, body: &impl Serialize) -> Self {
        let body = crate::json::to_string(body);
        Self {
            kind,
            body,
            force: false,
            subresource: None,
            options: WriteOptions::default(),
        }
    }

    /// Takes over fields of other managers; for [`apply`](Self::apply) only.
    pub fn force(self) -> Self {
        Self {
            force: true,
            ..self
        }
    }

    /// Patches a subresource, `status` or `scale`.
    pub fn subresource(self, name: impl Into<String>) -> Self {
        Self {
            subresource: Some(name.into()),
            ..self
        }
    }

    /// Sets dry run, field manager and strictness.
    pub fn options(self, options: WriteOptions) -> Self {
        Self { options, ..self }
    }
}
