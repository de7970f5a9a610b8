//! The permissions that a plugin was seen to need: one [`Need`] for each verb, resource and namespace of its calls.
//!
//! Every call that came as far as the question whether it is allowed is kept, whatever the answer: a refused call is one
//! that the plugin needed, too. What is kept is bounded, because a guest chooses names; what found no place is counted,
//! and whoever reads [`Kept`] says that it is incomplete.
//!
//! Names of objects are kept up to a few for each need. They say whether a rule with `resourceNames` let the calls
//! through; from more of them nobody would make such a rule.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Needs of one plugin that are kept.
const NEEDS: usize = 2_048;
/// Names of one need that are kept.
const NAMES: usize = 4;
/// No name of an object is longer, so a call with a longer one reaches nothing.
const NAME_BYTES: usize = 253;

/// A right, as a rule of a Role gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Need {
    /// The API group; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// `pods`, or `pods/status`; empty for a path that is no resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// The path that is no resource, or all below one: `/apis/*`; empty for a resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The verb, in RBAC's spelling.
    pub verb: String,
    /// None for all namespaces, and for resources without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// A list or a watch of all namespaces that the host's caches answer: they show those where it is allowed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
}

impl Need {
    /// A right to a resource, or to `resource/subresource`.
    pub fn resource(verb: &str, group: &str, resource: &str, namespace: Option<&str>) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            verb: verb.to_owned(),
            namespace: namespace.map(str::to_owned),
            ..Self::default()
        }
    }

    /// To GET a path that is no resource: those below `/apis` and the like count as one, as in `system:discovery`.
    pub fn path(path: &str) -> Self {
        let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
        let rest = if path.trim_matches('/') == first { "" } else { "/*" };
        Self { path: format!("/{first}{rest}"), verb: "get".to_owned(), ..Self::default() }
    }

    /// The same in another namespace, or everywhere.
    pub fn within(&self, namespace: Option<&str>) -> Self {
        Self { namespace: namespace.map(str::to_owned), ..self.clone() }
    }
}

/// The names that a need's calls were about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// These.
    Only(BTreeSet<String>),
    /// More than are kept, or a call that has no name.
    Any,
}

/// The record of one plugin. It outlives the plugin's code.
pub struct RecordedPermissions {
    since: SystemTime,
    kept: Mutex<Kept>,
}

/// The content of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Each need, and whom its calls were about.
    pub needs: BTreeMap<Need, Names>,
    /// Calls whose need found no place.
    pub missed: u64,
}

impl Default for RecordedPermissions {
    fn default() -> Self {
        Self { since: SystemTime::now(), kept: Mutex::default() }
    }
}

impl RecordedPermissions {
    /// Keeps a need. `name` is the object's, where a rule with `resourceNames` can be about it.
    pub fn note(&self, need: &Need, name: Option<&str>) {
        let too_long = |text: Option<&str>| text.is_some_and(|text| text.len() > NAME_BYTES);
        if too_long(name) || too_long(need.namespace.as_deref()) {
            return;
        }
        let mut kept = self.kept.lock();
        let kept = &mut *kept;
        let full = kept.needs.len() >= NEEDS;
        match kept.needs.get_mut(need) {
            Some(names) => names.add(name),
            None if !full => {
                let names = name.map_or(Names::Any, |name| Names::Only(BTreeSet::from([name.to_owned()])));
                kept.needs.insert(need.clone(), names);
            }
            None => kept.missed += 1,
        }
    }

    /// Returns the record, and the time when it began.
    pub fn kept(&self) -> (Kept, SystemTime) {
        (self.kept.lock().clone(), self.since)
    }
}

impl Names {
    fn add(&mut self, name: Option<&str>) {
        let Self::Only(names) = self else { return };
        match name {
            Some(name) if names.contains(name) => {}
            Some(name) if names.len() < NAMES => drop(names.insert(name.to_owned())),
            _ => *self = Self::Any,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(observed: &RecordedPermissions) -> BTreeMap<Need, Names> {
        observed.kept().0.needs
    }

    fn only(names: &[&str]) -> Names {
        Names::Only(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn repeated_call_is_one_need_with_few_names() {
        let observed = RecordedPermissions::default();
        let get = Need::resource("get", "", "secrets", Some("n"));
        observed.note(&get, Some("a"));
        observed.note(&get, Some("a"));
        assert_eq!(needs(&observed), BTreeMap::from([(get.clone(), only(&["a"]))]));
        for name in ["b", "c", "d"] {
            observed.note(&get, Some(name));
        }
        assert_eq!(needs(&observed)[&get], only(&["a", "b", "c", "d"]));
        observed.note(&get, Some("e"));
        assert_eq!(needs(&observed), BTreeMap::from([(get, Names::Any)]));
    }

    #[test]
    fn a_call_without_a_name_is_about_any() {
        let observed = RecordedPermissions::default();
        let delete = Need::resource("delete", "", "pods", Some("n"));
        observed.note(&delete, Some("a"));
        observed.note(&delete, None);
        observed.note(&delete, Some("a"));
        assert_eq!(needs(&observed)[&delete], Names::Any);
    }

    #[test]
    fn invented_namespaces_fill_the_record_only() {
        let observed = RecordedPermissions::default();
        let early = Need::resource("update", "", "configmaps", Some("early"));
        observed.note(&early, None);
        for number in 0..NEEDS + 9 {
            observed.note(&Need::resource("get", "", "pods", Some(&format!("n{number}"))), Some("a"));
        }
        let (kept, _) = observed.kept();
        assert_eq!((kept.needs.len(), kept.missed), (NEEDS, 10));
        assert!(kept.needs.contains_key(&early));
        // What is known already is no loss.
        observed.note(&early, None);
        assert_eq!(observed.kept().0.missed, 10);
    }

    #[test]
    fn what_no_object_can_be_called_takes_no_place() {
        let observed = RecordedPermissions::default();
        let long = "a".repeat(254);
        observed.note(&Need::resource("get", "", "pods", Some(&long)), Some("a"));
        observed.note(&Need::resource("get", "", "pods", Some("n")), Some(&long));
        assert_eq!(observed.kept().0, Kept::default());
    }

    #[test]
    fn paths_of_discovery_are_few() {
        let path = |path: &str| Need::path(path).path;
        assert_eq!([path("/api"), path("/apis/"), path("/version")], ["/api", "/apis", "/version"]);
        assert_eq!([path("/api/v1"), path("/apis/apps/v1"), path("/openapi/v3")], ["/api/*", "/apis/*", "/openapi/*"]);
    }
}
