//! The permissions a plugin has used: one [`Need`] per verb, resource and namespace of its calls.
//!
//! Every call that reached the permission check is recorded, whatever the decision: a denied call
//! needed the permission as well. The record is bounded, because a guest chooses the names. Calls
//! beyond the bounds are counted in [`Kept::missed`], so that readers can report the record as
//! incomplete.
//!
//! A few object names are kept per need. They show whether a rule with `resourceNames` would allow
//! the calls; nobody writes such a rule for many names.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::SystemTime,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Recorded needs per plugin.
const NEEDS: usize = 2_048;
/// Recorded names per need.
const NAMES: usize = 4;
/// The longest valid object name. Calls with longer names are not recorded, because they cannot
/// succeed.
const NAME_BYTES: usize = 253;

/// A permission, in the form a Role's rule grants it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Need {
    /// The API group; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource, such as `pods` or `pods/status`; empty for a non-resource path.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// The non-resource path, or all paths below one, as in `/apis/*`; empty for a resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The verb, in RBAC's spelling.
    pub verb: String,
    /// The namespace; None for all namespaces and for cluster-scoped resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// True for a list or a watch of all namespaces answered from the cache, which returns the
    /// objects of the allowed namespaces.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
}

impl Need {
    /// A permission on a resource or on `resource/subresource`.
    pub fn resource(verb: &str, group: &str, resource: &str, namespace: Option<&str>) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            verb: verb.to_owned(),
            namespace: namespace.map(str::to_owned),
            ..Self::default()
        }
    }

    /// Permission to GET a non-resource path. All paths below `/apis` and the like count as one, as
    /// in `system:discovery`.
    pub fn path(path: &str) -> Self {
        let first = path
            .trim_start_matches('/')
            .split('/')
            .next()
            .unwrap_or_default();
        let rest = if path.trim_matches('/') == first {
            ""
        } else {
            "/*"
        };

        Self {
            path: format!("/{first}{rest}"),
            verb: "get".to_owned(),
            ..Self::default()
        }
    }

    /// The same permission in another namespace, or in all.
    pub fn within(&self, namespace: Option<&str>) -> Self {
        Self {
            namespace: namespace.map(str::to_owned),
            ..self.clone()
        }
    }
}

/// Formats the permission as `get pods in namespace "n"`.
impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            resource,
            path,
            verb,
            namespace,
            ..
        } = self;

        let dot = if group.is_empty() { "" } else { "." };
        write!(f, "{verb} {resource}{dot}{group}{path}")?;
        match namespace {
            Some(namespace) => write!(f, " in namespace {namespace:?}"),
            None => f.write_str(" in all namespaces"),
        }
    }
}

/// The object names in a need's calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// The names.
    Only(BTreeSet<String>),
    /// More names than we record, or a call without a name.
    Any,
}

/// The recorded permissions of one plugin. They outlive individual versions of its code.
pub struct RecordedPermissions {
    since: SystemTime,
    kept: Mutex<Kept>,
}

/// The record's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The needs, with the object names in their calls.
    pub needs: BTreeMap<Need, Names>,
    /// How many calls had a need that did not fit into the record.
    pub missed: u64,
}

impl Default for RecordedPermissions {
    fn default() -> Self {
        Self {
            since: SystemTime::now(),
            kept: Mutex::default(),
        }
    }
}

impl RecordedPermissions {
    /// Records a need. Pass the object's name if a rule with `resourceNames` can apply.
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
                let names = name.map_or(Names::Any, |name| {
                    Names::Only(BTreeSet::from([name.to_owned()]))
                });
                kept.needs.insert(need.clone(), names);
            }
            None => kept.missed += 1,
        }
    }

    /// The record, and when it began.
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
        assert_eq!(
            needs(&observed),
            BTreeMap::from([(get.clone(), only(&["a"]))])
        );
        for name in ["b", "c", "d"] {
            observed.note(&get, Some(name));
        }
        assert_eq!(needs(&observed)[&get], only(&["a", "b", "c", "d"]));
        observed.note(&get, Some("e"));
        assert_eq!(needs(&observed), BTreeMap::from([(get, Names::Any)]));
    }

    #[test]
    fn call_without_a_name_counts_for_any_name() {
        let observed = RecordedPermissions::default();
        let delete = Need::resource("delete", "", "pods", Some("n"));
        observed.note(&delete, Some("a"));
        observed.note(&delete, None);
        observed.note(&delete, Some("a"));
        assert_eq!(needs(&observed)[&delete], Names::Any);
    }

    #[test]
    fn invented_namespaces_do_not_exceed_the_record_limit() {
        let observed = RecordedPermissions::default();
        let early = Need::resource("update", "", "configmaps", Some("early"));
        observed.note(&early, None);
        for number in 0..NEEDS + 9 {
            observed.note(
                &Need::resource("get", "", "pods", Some(&format!("n{number}"))),
                Some("a"),
            );
        }
        let (kept, _) = observed.kept();
        assert_eq!((kept.needs.len(), kept.missed), (NEEDS, 10));
        assert!(kept.needs.contains_key(&early));
        // A need that is already recorded is not missed.
        observed.note(&early, None);
        assert_eq!(observed.kept().0.missed, 10);
    }

    #[test]
    fn overlong_names_are_not_recorded() {
        let observed = RecordedPermissions::default();
        let long = "a".repeat(254);
        observed.note(&Need::resource("get", "", "pods", Some(&long)), Some("a"));
        observed.note(&Need::resource("get", "", "pods", Some("n")), Some(&long));
        assert_eq!(observed.kept().0, Kept::default());
    }

    #[test]
    fn discovery_paths_are_grouped() {
        let path = |path: &str| Need::path(path).path;
        assert_eq!(
            [path("/api"), path("/apis/"), path("/version")],
            ["/api", "/apis", "/version"]
        );
        assert_eq!(
            [path("/api/v1"), path("/apis/apps/v1"), path("/openapi/v3")],
            ["/api/*", "/apis/*", "/openapi/*"]
        );
    }
}
