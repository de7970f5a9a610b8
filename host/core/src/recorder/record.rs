//! The flight recorder's records: reconciles with their triggers and calls, and changes of objects.
//!
//! They contain names, versions, field paths, codes and times, but never field values or error
//! messages, which may quote a Secret.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::object::{Object, ObjectKey, kind::GroupVersionKind};

/// An object, as named in records.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// The kind.
    pub kind: GroupVersionKind,
    /// The namespace and name.
    pub key: ObjectKey,
}

impl ObjectRef {
    /// Names an object.
    pub fn new(kind: &GroupVersionKind, key: &ObjectKey) -> Self {
        Self {
            kind: kind.clone(),
            key: key.clone(),
        }
    }

    /// Names an object by its own fields `apiVersion` and `kind`.
    pub fn of(object: &Object) -> Self {
        let text = |field| object.scalar_at(field).unwrap_or_default();
        Self::new(
            &GroupVersionKind::new(text("apiVersion"), text("kind")),
            object.key(),
        )
    }

    /// Whether both name the same object. All versions of a group have the same objects.
    pub fn is_same(&self, other: &Self) -> bool {
        self.key == other.key
            && self.kind.kind == other.kind.kind
            && self.kind.group() == other.kind.group()
    }
}

/// A plugin's code and identity, shared by its records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The sha256 of its code.
    pub digest: String,
    /// The ServiceAccount it acts as.
    pub service_account: String,
}

/// One reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconcile {
    /// Its id, as in logs and the audit.
    pub id: String,
    /// The controller's name in the manifest.
    pub controller: String,
    /// The `group/version` of the reconciled kind.
    pub api_version: String,
    /// The reconciled kind.
    pub kind: String,
    /// The key.
    pub key: ObjectKey,
    /// When it began: time since 1970-01-01 UTC.
    pub started: Duration,
    /// How long the key waited in the queue; None if unknown.
    pub waited: Option<Duration>,
    /// The wall time.
    pub took: Duration,
    /// The processor time.
    pub cpu: Duration,
    /// How often the key had failed in a row before this reconcile.
    pub retries: u32,
    /// The triggers since the key's previous reconcile, in order; at most
    /// [`MAX_TRIGGERS`](super::MAX_TRIGGERS).
    pub triggers: Vec<Trigger>,
    /// How many triggers were left out.
    pub more_triggers: u32,
    /// The calls, in order; at most [`MAX_CALLS`](super::MAX_CALLS).
    pub calls: Vec<CallRecord>,
    /// How many calls were left out.
    pub more_calls: u32,
    /// The result: `success`, `requeue`, `requeue_after`, `error`, or `aborted`.
    pub result: String,
    /// The delay of `requeue_after`.
    pub requeue_after: Option<Duration>,
    /// The reason of an error.
    pub error: Option<String>,
}

impl Reconcile {
    /// The reconciled object.
    pub fn object(&self) -> ObjectRef {
        ObjectRef {
            kind: GroupVersionKind::new(&*self.api_version, &*self.kind),
            key: self.key.clone(),
        }
    }
}

/// What triggered a reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// The cause.
    pub cause: Cause,
    /// The event's object; None for triggers without an event.
    pub object: Option<ObjectRef>,
    /// The object's resourceVersion; empty without an object.
    pub resource_version: String,
}

/// Why a trigger happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// The object was created.
    Added,
    /// The object changed.
    Modified,
    /// The object was deleted.
    Deleted,
    /// The object is in a controller's first list: the host or this replica has started running the
    /// controller, or its code or configuration is new.
    Initial,
    /// The controller's resync.
    Resync,
    /// Somebody asked for it with `operetta retry`.
    Retry,
}

/// A call on objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The verb.
    pub verb: String,
    /// The objects' `group/version`; empty if the call is about no resource.
    pub api_version: String,
    /// The objects' kind; for a raw request the plural name of the resource; empty if the call is
    /// about no resource.
    pub resource: String,
    /// The subresource; empty without one.
    pub subresource: String,
    /// The namespace; None for all namespaces and for cluster-scoped objects.
    pub namespace: Option<String>,
    /// The object's name; None if the call names none.
    pub name: Option<String>,
    /// Whether this is a raw request.
    pub is_raw: bool,
    /// Whether the cache may answer this read.
    pub is_cached: bool,
    /// Whether this is a dry run, which stores nothing.
    pub is_dry_run: bool,
    /// When it began, counted from the start of the reconcile.
    pub began: Duration,
    /// The wall time; None if the call has not ended.
    pub took: Option<Duration>,
    /// The resourceVersion of the object read, or the one after the write; empty if unknown.
    pub resource_version: String,
    /// The resourceVersion before the write; empty if unknown.
    pub before: String,
    /// The fields changed by the write; None if unknown.
    pub paths: Option<Vec<String>>,
    /// How many objects a page had.
    pub items: Option<u32>,
    /// Whether the write was not sent, because it would have changed nothing.
    pub is_suppressed: bool,
    /// Method and status of the last HTTP response; status 0 if there was none.
    pub response: Option<(String, u16)>,
    /// The id of that response's request in the API server's audit log; empty for a request that
    /// succeeded, or without an id.
    #[serde(default)]
    pub audit_id: String,
    /// The kind of error, if the call failed.
    pub error: Option<String>,
    /// The id of its span; 0 if not traced.
    pub span: u64,
}

impl CallRecord {
    /// The verb, with the subresource after a slash.
    pub fn verb_and_subresource(&self) -> String {
        match self.subresource.as_str() {
            "" => self.verb.clone(),
            subresource => format!("{}/{subresource}", self.verb),
        }
    }

    /// The object it names; None without a name, and for a raw request, which names a resource.
    pub fn object(&self) -> Option<ObjectRef> {
        let key = ObjectKey {
            namespace: self.namespace.clone(),
            name: self.name.clone()?,
        };
        let kind = GroupVersionKind::new(&*self.api_version, &*self.resource);
        (!self.is_raw).then_some(ObjectRef { kind, key })
    }

    /// Whether it has changed an object.
    pub fn has_written(&self) -> bool {
        matches!(&*self.verb, "create" | "update" | "patch" | "delete")
            && self.error.is_none()
            && !self.is_suppressed
            && !self.is_dry_run
    }

    /// Whether it is about this object. A raw request names the plural of a kind, not the kind
    /// itself: it is about an object of the same group whose kind may have that plural.
    pub fn is_about(&self, object: &ObjectRef) -> bool {
        let group = |api_version: &str| {
            api_version
                .rsplit_once('/')
                .map(|(group, _)| group.to_owned())
        };
        let is_kind = match self.is_raw {
            false => self.resource == object.kind.kind,
            true => is_plural(&self.resource, &object.kind.kind),
        };

        is_kind
            && self.name.as_deref() == Some(&*object.key.name)
            && self.namespace == object.key.namespace
            && group(&self.api_version) == group(&object.kind.api_version)
    }
}

/// Whether a resource may be the plural of a kind, formed as in Kubernetes
/// ([`UnsafeGuessKindToResource`]).
///
/// [`UnsafeGuessKindToResource`]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/api/meta/restmapper.go#L126
fn is_plural(resource: &str, kind: &str) -> bool {
    let kind = kind.to_lowercase();
    let stem = |cut: usize| &kind[..kind.len() - cut];
    match kind.as_bytes().last() {
        Some(b's') => resource.strip_suffix("es") == Some(&*kind) || resource == kind,
        Some(b'y') => {
            resource.strip_suffix("ies") == Some(stem(1))
                || resource.strip_suffix('s') == Some(&*kind)
        }
        _ => resource.strip_suffix('s') == Some(&*kind) || resource == kind,
    }
}

/// A change of an object, as seen by a watch of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Time since 1970-01-01 UTC.
    pub at: Duration,
    /// The object.
    pub object: ObjectRef,
    /// [`Cause::Added`], [`Cause::Modified`] or [`Cause::Deleted`].
    pub cause: Cause,
    /// The resourceVersion before; empty for a new object.
    pub before: String,
    /// The resourceVersion after.
    pub resource_version: String,
    /// The changed fields; None if unknown.
    pub paths: Option<Vec<String>>,
    /// Who may have made the change: the writers with the latest time in the object's
    /// managedFields.
    pub writers: Vec<FieldWriter>,
}

/// A writer of an object, from an entry of its managedFields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldWriter {
    /// The field manager.
    pub manager: String,
    /// The subresource written; empty for the object itself.
    pub subresource: String,
    /// The time in RFC 3339, with seconds.
    pub time: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_call_is_about_object_of_its_plural() {
        let call = |resource: &str| CallRecord {
            api_version: "networking.k8s.io/v1".to_owned(),
            resource: resource.to_owned(),
            namespace: Some("n".to_owned()),
            name: Some("a".to_owned()),
            is_raw: true,
            ..CallRecord::default()
        };
        let object = |kind: &str| {
            ObjectRef::new(
                &GroupVersionKind::new("networking.k8s.io/v1", kind),
                &ObjectKey::namespaced("n", "a"),
            )
        };
        for (resource, kind) in [
            ("ingresses", "Ingress"),
            ("networkpolicies", "NetworkPolicy"),
            ("ipaddresses", "IPAddress"),
            ("gateways", "Gateway"),
            ("endpoints", "Endpoints"),
        ] {
            assert!(call(resource).is_about(&object(kind)), "{resource} {kind}");
        }
        assert!(!call("ingresses").is_about(&object("NetworkPolicy")));
        let mut other = call("ingresses");
        other.namespace = Some("m".to_owned());
        assert!(!other.is_about(&object("Ingress")));
    }

    #[test]
    fn versions_of_a_group_have_the_same_objects() {
        let of = |version: &str, name: &str| {
            ObjectRef::new(
                &GroupVersionKind::new(version, "Foo"),
                &ObjectKey::namespaced("n", name),
            )
        };
        assert!(of("g/v1", "a").is_same(&of("g/v1beta1", "a")));
        assert!(!of("g/v1", "a").is_same(&of("h/v1", "a")));
        assert!(!of("g/v1", "a").is_same(&of("g/v1", "b")));
    }
}
