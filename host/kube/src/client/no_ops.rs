//! Writes that changed nothing although they differ from the object: the API server had filled in
//! the difference itself, with its defaults (a port's `protocol`) or its normal forms (`cpu: "0.5"`
//! is `500m`). Repeated while the object has the same version, such a write would change nothing
//! again.
//!
//! This is how a reconciler behaves that sets a whole template each time (`CreateOrUpdate`). It
//! need not know the defaults, and the host asks the API server once.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

use operetta_core::{
    gate::operation::Write,
    object::{Object, ObjectKey, kind::GroupVersionKind},
};
use parking_lot::Mutex;

/// The most objects to remember writes of, at some 300 bytes each. Beyond that we forget all.
const MAX_OBJECTS: usize = 4_096;

/// The most writes of an object: of its spec, of its status, by a few controllers.
const MAX_WRITES: usize = 4;

/// A write, by a hash with a secret key.
type Hash = u64;

/// The writes of one plugin that changed nothing.
#[derive(Default)]
pub(crate) struct NoOps {
    hasher: RandomState,
    known: Mutex<HashMap<(GroupVersionKind, ObjectKey), NoOpsOfObject>>,
}

struct NoOpsOfObject {
    uid: String,
    resource_version: String,
    writes: Vec<Hash>,
}

impl NoOps {
    /// The write as [`NoOps::note`] takes it.
    pub(crate) fn hash(&self, write: &Write) -> Hash {
        let Write {
            kind,
            action,
            options,
        } = write;
        self.hasher.hash_one((kind, action, options))
    }

    /// Notes that a write left the object in this version.
    pub(crate) fn note(&self, kind: &GroupVersionKind, object: &Object, write: Hash) {
        let mut known = self.known.lock();
        if known.len() >= MAX_OBJECTS {
            known.clear();
        }

        let key = (kind.clone(), object.key().clone());
        let of_object = known
            .entry(key)
            .or_insert_with(|| NoOpsOfObject::of(object));
        if !of_object.is_about(object) {
            *of_object = NoOpsOfObject::of(object);
        }
        of_object.writes.truncate(MAX_WRITES - 1);
        of_object.writes.insert(0, write);
    }

    /// Whether this write has already changed nothing in this version of the object.
    pub(crate) fn knows(&self, object: &Object, write: &Write) -> bool {
        let known = self.known.lock();
        let of_object = known.get(&(write.kind.clone(), object.key().clone()));
        of_object
            .is_some_and(|known| known.is_about(object) && known.writes.contains(&self.hash(write)))
    }
}

impl NoOpsOfObject {
    fn of(object: &Object) -> Self {
        Self {
            uid: object.uid().to_owned(),
            resource_version: object.resource_version().to_owned(),
            writes: Vec::new(),
        }
    }

    fn is_about(&self, object: &Object) -> bool {
        self.uid == object.uid() && self.resource_version == object.resource_version()
    }
}

#[cfg(test)]
mod tests {
    use operetta_core::{
        gate::operation::{PatchBody, WriteAction, WriteOptions},
        object::ManagedFields,
    };

    use super::*;

    fn kind() -> GroupVersionKind {
        GroupVersionKind::new("v1", "ConfigMap")
    }

    fn object(name: &str, uid: &str, version: &str) -> Object {
        let text = format!(
            r#"{{"metadata":{{"namespace":"n","name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
        );
        Object::from_json(&text, &kind(), ManagedFields::Drop).expect("an object")
    }

    fn write(body: &str) -> Write {
        let action = WriteAction::Patch {
            key: ObjectKey::namespaced("n", "a"),
            subresource: None,
            body: PatchBody::Merge(body.to_owned()),
            force: false,
        };
        Write {
            kind: kind(),
            action,
            options: WriteOptions::default(),
        }
    }

    #[test]
    fn write_is_known_for_one_version_of_one_incarnation() {
        let no_ops = NoOps::default();
        let (one, other) = (write("{}"), write(r#"{"a":1}"#));
        no_ops.note(&kind(), &object("a", "u", "7"), no_ops.hash(&one));
        assert!(no_ops.knows(&object("a", "u", "7"), &one));
        assert!(!no_ops.knows(&object("a", "u", "7"), &other));
        for later in [
            object("a", "u", "8"),
            object("a", "v", "7"),
            object("b", "u", "7"),
        ] {
            assert!(!no_ops.knows(&later, &one));
        }

        no_ops.note(&kind(), &object("a", "u", "7"), no_ops.hash(&other));
        assert!(no_ops.knows(&object("a", "u", "7"), &one), "both");
        no_ops.note(&kind(), &object("a", "u", "8"), no_ops.hash(&other));
        assert!(!no_ops.knows(&object("a", "u", "7"), &one));
    }

    #[test]
    fn memory_is_bounded() {
        let no_ops = NoOps::default();
        let hash = no_ops.hash(&write("{}"));
        for number in 0..3 * MAX_OBJECTS {
            no_ops.note(&kind(), &object(&number.to_string(), "u", "7"), hash);
        }
        for _ in 0..20 {
            no_ops.note(&kind(), &object("a", "u", "7"), hash);
        }
        let known = no_ops.known.lock();
        assert!(known.len() <= MAX_OBJECTS);
        assert!(known.values().all(|known| known.writes.len() <= MAX_WRITES));
    }
}
