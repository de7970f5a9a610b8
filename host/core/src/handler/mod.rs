//! Event handlers: which keys an event enqueues, like controller-runtime's For, Owns and Watches.

pub mod backlog;
pub mod event;
pub mod mapping;
pub mod unmapped_events;

use std::{collections::HashSet, sync::Arc};

use crate::{
    handler::{event::Event, mapping::KeyRules},
    manifest::{Mapping, Predicate},
    object::{Object, ObjectKey, kind::GroupVersionKind},
    predicate,
};

/// Maps events of a watched kind to the keys they enqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventHandler {
    /// An event must pass all of these predicates.
    pub predicates: Vec<Predicate>,
    /// Only objects in this namespace count; None for all namespaces.
    pub namespace: Option<String>,
    /// How an object names keys.
    pub target: Target,
}

/// How to get from an object to the keys its events enqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The object's own key (For).
    Itself,
    /// Keys of `kind`, found by a mapping (Owns and Watches).
    Mapped {
        /// The controller's `for` kind.
        kind: GroupVersionKind,
        /// Whether `kind` is cluster-scoped, so that its keys have no namespace.
        cluster_scoped: bool,
        /// Only keys in this namespace count, whatever the object names; None for all namespaces.
        namespace: Option<String>,
        /// The mapping.
        mapping: Mapping,
    },
    /// Keys named by the plugin's own mapping and admitted by the rules: see
    /// [`crate::handler::mapping`].
    Custom(KeyRules),
}

impl EventHandler {
    /// The keys an event enqueues, without duplicates. If an object changes owners, both the old
    /// and the new owner's keys are returned, as in controller-runtime's
    /// [`EnqueueRequestForOwner`].
    ///
    /// [`EnqueueRequestForOwner`]: https://github.com/kubernetes-sigs/controller-runtime/blob/v0.24.1/pkg/handler/enqueue_owner.go#L117
    pub fn keys(&self, event: &Event) -> Vec<ObjectKey> {
        if !self.passes(event) {
            return Vec::new();
        }
        self.target.keys_of(event.old(), event.object())
    }

    /// Whether an event enqueues keys.
    pub fn passes(&self, event: &Event) -> bool {
        let elsewhere =
            self.namespace.is_some() && self.namespace != event.object().key().namespace;
        !elsewhere && predicate::passes(&self.predicates, event)
    }
}

impl Target {
    /// The keys named by the new and the old state of an object, without duplicates.
    pub(crate) fn keys_of(&self, old: Option<&Arc<Object>>, new: &Object) -> Vec<ObjectKey> {
        let mut keys = self.keys(new);
        if let Some(old) = old {
            keys.extend(self.keys(old));
        }

        // A set, because an object may have some ten thousand owners.
        if keys.len() > 1 {
            let mut seen = HashSet::new();
            keys.retain(|key| seen.insert(key.clone()));
        }

        keys
    }

    fn keys(&self, object: &Object) -> Vec<ObjectKey> {
        let own = object.key();
        let (kind, cluster_scoped, only, mapping) = match self {
            Self::Itself => return vec![own.clone()],
            // Known only after asking the plugin.
            Self::Custom(_) => return Vec::new(),
            Self::Mapped {
                kind,
                cluster_scoped,
                namespace,
                mapping,
            } => (kind, cluster_scoped, namespace, mapping),
        };

        let key = |namespace: Option<String>, name: String| ObjectKey {
            namespace: if *cluster_scoped { None } else { namespace },
            name,
        };

        let mut keys = match mapping {
            Mapping::SameName {} => vec![key(own.namespace.clone(), own.name.clone())],
            Mapping::FieldPath {
                path,
                namespace_path,
            } => {
                let namespace = match namespace_path {
                    Some(path) => object.scalar_at(path),
                    None => own.namespace.clone(),
                };
                let name = object.scalar_at(path).filter(|name| !name.is_empty());
                name.map(|name| key(namespace, name)).into_iter().collect()
            }
            Mapping::Owner { all_owners } => {
                let mut keys = Vec::new();
                for owner in object.owners() {
                    // Compare only the group: the owner reference may use another version.
                    let owner_kind = GroupVersionKind::new(&owner.api_version, &owner.kind);
                    let same = owner_kind.group() == kind.group() && owner.kind == kind.kind;
                    let key = key(own.namespace.clone(), owner.name.clone());
                    if same && (*all_owners || owner.controller) {
                        keys.push(key);
                    }
                }
                keys
            }
            Mapping::Custom {} => Vec::new(),
        };

        keys.retain(|key| only.is_none() || key.namespace == *only);
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ManagedFields;

    fn object(text: &str) -> Arc<Object> {
        let kind = GroupVersionKind::new("apps/v1", "Deployment");
        Arc::new(Object::from_json(text, &kind, ManagedFields::Drop).expect("object"))
    }

    fn owned_by(owner: &str, controller: bool) -> Arc<Object> {
        object(&format!(
            r#"{{"metadata":{{"name":"d","namespace":"n","ownerReferences":[
                {{"apiVersion":"v1","kind":"Foo","name":"wrong-group","uid":"1","controller":true}},
                {{"apiVersion":"g/v2","kind":"Foo","name":"{owner}","uid":"2","controller":{controller}}}]}},
                "spec":{{"ref":"r","refns":"elsewhere"}}}}"#
        ))
    }

    fn handler(mapping: Mapping, cluster_scoped: bool) -> EventHandler {
        let kind = GroupVersionKind::new("g/v1", "Foo");
        let target = Target::Mapped {
            kind,
            cluster_scoped,
            namespace: None,
            mapping,
        };
        EventHandler {
            predicates: vec![],
            namespace: None,
            target,
        }
    }

    #[test]
    fn maps_owned_object_to_its_controlling_owner() {
        let handler = handler(Mapping::Owner { all_owners: false }, false);
        let event = Event::Added {
            object: owned_by("a", true),
            initial: false,
        };
        assert_eq!(handler.keys(&event), [ObjectKey::namespaced("n", "a")]);
        let event = Event::Added {
            object: owned_by("a", false),
            initial: false,
        };
        assert_eq!(handler.keys(&event), []);
    }

    #[test]
    fn change_of_owner_enqueues_both_owners() {
        let handler = handler(Mapping::Owner { all_owners: false }, false);
        let event = Event::Modified {
            old: owned_by("a", true),
            object: owned_by("b", true),
        };
        assert_eq!(
            handler.keys(&event),
            [
                ObjectKey::namespaced("n", "b"),
                ObjectKey::namespaced("n", "a")
            ]
        );
    }

    #[test]
    fn maps_to_other_names_namespaces_and_cluster_scoped_kinds() {
        let field = |namespace_path: Option<&str>| Mapping::FieldPath {
            path: ".spec.ref".into(),
            namespace_path: namespace_path.map(Into::into),
        };
        let event = Event::deleted(owned_by("a", false));
        assert_eq!(
            handler(field(None), false).keys(&event),
            [ObjectKey::namespaced("n", "r")]
        );
        assert_eq!(
            handler(field(Some(".spec.refns")), false).keys(&event),
            [ObjectKey::namespaced("elsewhere", "r")]
        );
        assert_eq!(
            handler(field(None), true).keys(&event),
            [ObjectKey::cluster_scoped("r")]
        );
        assert_eq!(
            handler(Mapping::SameName {}, false).keys(&event),
            [ObjectKey::namespaced("n", "d")]
        );
        let all = handler(Mapping::Owner { all_owners: true }, false);
        assert_eq!(all.keys(&event), [ObjectKey::namespaced("n", "a")]);
    }

    #[test]
    fn drops_keys_outside_the_controllers_namespace() {
        let only = |mapping: Mapping, only: &str| {
            let mut handler = handler(mapping, false);
            if let Target::Mapped { namespace, .. } = &mut handler.target {
                *namespace = Some(only.into());
            }
            handler.keys(&Event::Added {
                object: owned_by("a", true),
                initial: false,
            })
        };
        let elsewhere = Mapping::FieldPath {
            path: ".spec.ref".into(),
            namespace_path: Some(".spec.refns".into()),
        };
        let mappings = [
            Mapping::Owner { all_owners: true },
            Mapping::SameName {},
            elsewhere,
        ];
        for (mapping, home) in mappings.into_iter().zip(["n", "n", "elsewhere"]) {
            assert_eq!(only(mapping.clone(), "m"), [], "{mapping:?}");
            assert_eq!(only(mapping.clone(), home).len(), 1, "{mapping:?}");
        }
    }

    #[test]
    fn ignores_objects_of_other_namespaces() {
        let mut handler = EventHandler {
            predicates: vec![],
            namespace: Some("n".into()),
            target: Target::Itself,
        };
        let event = Event::Added {
            object: owned_by("a", true),
            initial: true,
        };
        assert_eq!(handler.keys(&event).len(), 1);
        handler.namespace = Some("m".into());
        assert_eq!(handler.keys(&event), []);
    }
}
