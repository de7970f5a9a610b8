//! The finalizers that a plugin puts on objects, learned from the answers to its writes.
//!
//! A plugin whose finalizers nobody declared would leave its objects behind when it is deleted. So
//! the answer to each write is searched for finalizers that the write's field manager owns: the API
//! server notes in managedFields who has set each one. A later write to the object tells as much as
//! the one that added the finalizer, so a plugin that was restarted, or ran elsewhere before, is
//! learned about as well.

use std::collections::{BTreeMap, BTreeSet};

use operetta_api::manifest::MAX_FINALIZERS;
use serde::{Deserialize, de::IgnoredAny};
use tokio::sync::watch;

use crate::object::{field_managers::managed_fields, fields::seek, kind::GroupVersionKind};

/// The maximum number of kinds. A plugin that writes more of them with finalizers of its own has to
/// declare these.
const MAX_KINDS: usize = 64;

/// Finalizers by the kind of their objects. A kind is there in one version, the one that came first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finalizers(BTreeMap<GroupVersionKind, BTreeSet<String>>);

impl Finalizers {
    /// Iterates over the kinds and their finalizers.
    pub fn by_kind(&self) -> impl Iterator<Item = (&GroupVersionKind, &BTreeSet<String>)> {
        self.0.iter()
    }

    /// Reports whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports whether a kind has this finalizer, in any version.
    pub fn has(&self, kind: &GroupVersionKind, finalizer: &str) -> bool {
        self.of(kind)
            .is_some_and(|finalizers| finalizers.contains(finalizer))
    }

    /// Adds a finalizer of a kind. Reports whether it is new.
    pub fn insert(&mut self, kind: &GroupVersionKind, finalizer: String) -> bool {
        let mut all = self.0.iter_mut();
        if let Some((_, of_kind)) = all.find(|(of, _)| is_same_kind(of, kind)) {
            return of_kind.insert(finalizer);
        }

        self.0.insert(kind.clone(), BTreeSet::from([finalizer]));
        true
    }

    fn of(&self, kind: &GroupVersionKind) -> Option<&BTreeSet<String>> {
        let mut all = self.0.iter();
        all.find_map(|(of, finalizers)| is_same_kind(of, kind).then_some(finalizers))
    }

    /// Reports whether another finalizer of this kind is within the limits.
    fn has_room(&self, kind: &GroupVersionKind) -> bool {
        match self.of(kind) {
            Some(finalizers) => finalizers.len() < MAX_FINALIZERS,
            None => self.0.len() < MAX_KINDS,
        }
    }
}

/// Reports whether two kinds differ at most in their version: they then have the same objects.
pub fn is_same_kind(one: &GroupVersionKind, other: &GroupVersionKind) -> bool {
    one.kind == other.kind && one.group() == other.group()
}

/// The finalizers that a plugin was seen to put on objects, up to a limit.
#[derive(Debug, Default)]
pub struct OwnFinalizers(watch::Sender<Finalizers>);

impl OwnFinalizers {
    /// Returns those that are known.
    pub fn all(&self) -> Finalizers {
        self.0.borrow().clone()
    }

    /// Follows what is known.
    pub fn follow(&self) -> watch::Receiver<Finalizers> {
        self.0.subscribe()
    }

    /// Adds finalizers of a kind.
    pub fn add(&self, kind: &GroupVersionKind, finalizers: impl IntoIterator<Item = String>) {
        self.0.send_if_modified(|known| {
            let mut is_new = false;
            for finalizer in finalizers {
                is_new |= known.has_room(kind) && known.insert(kind, finalizer);
            }
            is_new
        });
    }

    /// Learns from the answer to a write of an object of this kind. `manager` is the write's field
    /// manager.
    pub(crate) fn learn(&self, kind: &GroupVersionKind, manager: &str, answer: &str) {
        // Most objects have none, and those of most others are known.
        let mut new = finalizers(answer);
        new.retain(|finalizer| {
            !is_of_kubernetes(finalizer) && !self.0.borrow().has(kind, finalizer)
        });
        if new.is_empty() {
            return;
        }

        let owned = owned_by(manager, answer);
        self.add(kind, new.into_iter().filter(|one| owned.contains(one)));
    }
}

/// Reports whether Kubernetes itself removes a finalizer. What admission adds to an object is owned
/// by whoever creates the object: a PersistentVolumeClaim's `kubernetes.io/pvc-protection`.
fn is_of_kubernetes(finalizer: &str) -> bool {
    match finalizer.split_once('/') {
        // Without a domain: `foregroundDeletion` and `orphan` of the garbage collector.
        None => matches!(finalizer, "foregroundDeletion" | "orphan"),
        Some((domain, _)) => ["kubernetes.io", "k8s.io"].into_iter().any(|reserved| {
            domain
                .strip_suffix(reserved)
                .is_some_and(|before| before.is_empty() || before.ends_with('.'))
        }),
    }
}

/// The finalizers of an object.
fn finalizers(object: &str) -> Vec<String> {
    seek(object, &["metadata", "finalizers"])
        .and_then(|mut scanner| scanner.value_text(0).ok())
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// An entry of managedFields, as far as it is about finalizers. They are a set, in which each value
/// is owned by itself: `{"f:metadata": {"f:finalizers": {"v:\"example.com/cleanup\"": {}}}}`.
#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    manager: String,
    #[serde(default, rename = "fieldsV1")]
    fields: Fields,
}

#[derive(Default, Deserialize)]
struct Fields {
    #[serde(default, rename = "f:metadata")]
    metadata: MetadataFields,
}

#[derive(Default, Deserialize)]
struct MetadataFields {
    #[serde(default, rename = "f:finalizers")]
    finalizers: BTreeMap<String, IgnoredAny>,
}

/// The finalizers that a field manager owns.
fn owned_by(manager: &str, object: &str) -> BTreeSet<String> {
    let entries: Vec<Entry> = managed_fields(object)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    entries
        .into_iter()
        .filter(|entry| entry.manager == manager)
        .flat_map(|entry| entry.fields.metadata.finalizers.into_keys())
        .filter_map(|field| serde_json::from_str(field.strip_prefix("v:")?).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn foo(version: &str) -> GroupVersionKind {
        GroupVersionKind::new(format!("example.com/{version}"), "Foo")
    }

    /// An object with two finalizers, of which each manager has set one.
    fn object() -> Value {
        let set = |field: &str| json!({"f:metadata": {"f:finalizers": {".": {}, field: {}}}});
        json!({
            "apiVersion": "example.com/v1", "kind": "Foo",
            "metadata": {
                "name": "a",
                "finalizers": ["example.com/ours", "example.com/theirs"],
                "managedFields": [
                    {"manager": "us", "operation": "Update", "fieldsType": "FieldsV1",
                     "fieldsV1": set(r#"v:"example.com/ours""#)},
                    {"manager": "them", "operation": "Apply", "fieldsType": "FieldsV1",
                     "fieldsV1": set(r#"v:"example.com/theirs""#)},
                    {"manager": "us", "subresource": "status", "fieldsV1": {"f:status": {}}},
                ],
            },
        })
    }

    fn learned(manager: &str, object: &Value) -> Vec<(GroupVersionKind, BTreeSet<String>)> {
        let own = OwnFinalizers::default();
        own.learn(&foo("v1"), manager, &object.to_string());
        let all = own.all();
        let pairs = all.by_kind();
        pairs
            .map(|(kind, finalizers)| (kind.clone(), finalizers.clone()))
            .collect()
    }

    #[test]
    fn finalizer_is_learned_from_the_manager_that_has_set_it() {
        let of = |name: &str| vec![(foo("v1"), BTreeSet::from([name.to_owned()]))];
        assert_eq!(learned("us", &object()), of("example.com/ours"));
        assert_eq!(learned("them", &object()), of("example.com/theirs"));
        assert!(learned("else", &object()).is_empty());
    }

    #[test]
    fn nothing_is_learned_without_a_finalizer_or_its_owner() {
        let mut removed = object();
        removed["metadata"]["finalizers"] = json!(["example.com/theirs"]);
        let mut bare = object();
        bare["metadata"]["managedFields"] = Value::Null;
        let mut strange = object();
        strange["metadata"]["managedFields"] = json!([{"manager": "us", "fieldsV1": []}]);
        let scale = json!({"kind": "Scale", "metadata": {"name": "a"}});
        for answer in [removed, bare, strange, scale, json!("text")] {
            assert!(learned("us", &answer).is_empty(), "{answer}");
        }
    }

    #[test]
    fn finalizers_of_kubernetes_are_nobody_elses() {
        for (finalizer, is_own) in [
            ("kubernetes.io/pvc-protection", true),
            ("service.kubernetes.io/load-balancer-cleanup", true),
            ("foregroundDeletion", true),
            ("kueue.x-k8s.io/resource-in-use", false),
            ("service.k8s.aws/resources", false),
            ("my-finalizer", false),
        ] {
            assert_eq!(is_of_kubernetes(finalizer), is_own, "{finalizer}");
            let mut claim = object();
            claim["metadata"]["finalizers"] = json!([finalizer]);
            let set = json!({"f:metadata": {"f:finalizers": {format!("v:\"{finalizer}\""): {}}}});
            claim["metadata"]["managedFields"] = json!([{"manager": "us", "fieldsV1": set}]);
            assert_eq!(learned("us", &claim).is_empty(), is_own, "{finalizer}");
        }
    }

    #[test]
    fn kind_is_known_in_the_version_in_which_it_was_seen_first() {
        let own = OwnFinalizers::default();
        let mut changes = own.follow();
        for version in ["v1", "v2"] {
            own.learn(&foo(version), "us", &object().to_string());
        }
        own.add(&foo("v3"), ["example.com/more".to_owned()]);
        let all = own.all();
        let kinds: Vec<_> = all.by_kind().map(|(kind, _)| kind.clone()).collect();
        assert_eq!(kinds, [foo("v1")]);
        assert!(all.has(&foo("v2"), "example.com/ours") && all.has(&foo("v2"), "example.com/more"));
        assert!(!all.has(&GroupVersionKind::new("v1", "Foo"), "example.com/ours"));

        assert!(changes.has_changed().expect("open"));
        changes.mark_unchanged();
        own.learn(&foo("v2"), "us", &object().to_string());
        assert!(!changes.has_changed().expect("open"), "nothing new");
    }

    #[test]
    fn finalizers_are_bounded() {
        let own = OwnFinalizers::default();
        let names = |count: usize| (0..count).map(|at| format!("example.com/{at}"));
        own.add(&foo("v1"), names(MAX_FINALIZERS + 1));
        for at in 0..MAX_KINDS {
            own.add(&GroupVersionKind::new("v1", format!("K{at}")), names(1));
        }
        let all = own.all();
        assert_eq!(all.by_kind().count(), MAX_KINDS);
        assert_eq!(all.of(&foo("v1")).map(BTreeSet::len), Some(MAX_FINALIZERS));
    }
}
