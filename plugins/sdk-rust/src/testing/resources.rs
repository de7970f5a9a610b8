//! The API paths of objects, and their kinds. The kit has no discovery: it supports the built-in kinds, the kinds of
//! its objects, and those that the test declares.

use super::{State, locked};
use crate::{ApiError, ErrorKind, GroupVersionKind};

/// The built-in kinds that have objects.
const BUILT_IN: [(&str, &[&str]); 13] = [
    (
        "v1",
        &[
            "ConfigMap",
            "Endpoints",
            "Event",
            "LimitRange",
            "Namespace",
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ReplicationController",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        ],
    ),
    ("apps/v1", &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("batch/v1", &["CronJob", "Job"]),
    ("autoscaling/v2", &["HorizontalPodAutoscaler"]),
    ("policy/v1", &["PodDisruptionBudget"]),
    ("networking.k8s.io/v1", &["Ingress", "IngressClass", "NetworkPolicy"]),
    ("rbac.authorization.k8s.io/v1", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("storage.k8s.io/v1", &["CSIDriver", "StorageClass", "VolumeAttachment"]),
    ("coordination.k8s.io/v1", &["Lease"]),
    ("discovery.k8s.io/v1", &["EndpointSlice"]),
    ("events.k8s.io/v1", &["Event"]),
    ("scheduling.k8s.io/v1", &["PriorityClass"]),
    ("apiextensions.k8s.io/v1", &["CustomResourceDefinition"]),
];

/// A path of objects, in its parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Path<'a> {
    pub(super) api_version: &'a str,
    pub(super) plural: &'a str,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) subresource: Option<&'a str>,
}

impl<'a> Path<'a> {
    /// Splits a path; returns `None` if it is not a path of objects.
    pub(super) fn parse(path: &'a str) -> Option<Self> {
        let (api_version, rest) = if let Some(rest) = path.strip_prefix("/api/") {
            rest.split_once('/')?
        } else {
            let rest = path.strip_prefix("/apis/")?;
            let version = rest.find('/')? + 1;
            let end = version + rest.get(version..)?.find('/')?;
            (&rest[..end], &rest[end + 1..])
        };
        let parts: Vec<&str> = rest.split('/').collect();
        if parts.contains(&"") {
            return None;
        }
        // `namespaces/NAME` is a Namespace itself, and so are its two subresources.
        let (namespace, parts) = match parts[..] {
            ["namespaces", _, "status" | "finalize"] => (None, &parts[..]),
            ["namespaces", namespace, _, ..] => (Some(namespace), &parts[2..]),
            _ => (None, &parts[..]),
        };
        let (plural, name, subresource) = match *parts {
            [plural] => (plural, None, None),
            [plural, name] => (plural, Some(name), None),
            [plural, name, subresource] => (plural, Some(name), Some(subresource)),
            _ => return None,
        };
        Some(Self { api_version, plural, namespace, name, subresource })
    }
}

/// Returns the regular plural of a kind, as CRDs have it by convention.
pub(super) fn plural_of(kind: &str) -> String {
    let word = kind.to_lowercase();
    let consonant_y = word.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match consonant_y {
        _ if word == "endpoints" => word,
        Some(stem) => format!("{stem}ies"),
        None if ["s", "x", "z", "ch", "sh"].iter().any(|end| word.ends_with(end)) => format!("{word}es"),
        None => format!("{word}s"),
    }
}

impl State {
    /// Returns the kind of the objects at a path.
    ///
    /// # Errors
    /// Returns not-found for a resource that the kit does not know.
    pub(super) fn kind_at(&self, path: &Path<'_>) -> Result<GroupVersionKind, ApiError> {
        let named = (path.api_version.to_owned(), path.plural.to_owned());
        if let Some(kind) = locked(&self.resources).get(&named) {
            return Ok(kind.clone());
        }
        let built_in = BUILT_IN.iter().filter(|(api_version, _)| *api_version == path.api_version);
        if let Some(kind) = built_in.flat_map(|(_, kinds)| *kinds).find(|kind| plural_of(kind) == path.plural) {
            return Ok(GroupVersionKind::new(path.api_version.to_owned(), *kind));
        }
        let store = locked(&self.store);
        let mut held = store.kinds().filter(|kind| kind.api_version == path.api_version);
        held.find(|kind| plural_of(&kind.kind) == path.plural).cloned().ok_or_else(|| {
            let Path { plural, api_version, .. } = path;
            let message = format!(
                "the test kit does not know the resource {plural} of {api_version}: name it by Cluster::with_resource"
            );
            ApiError::new(ErrorKind::NotFound, message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_paths() {
        let parts = |path| {
            let path = Path::parse(path)?;
            Some((path.api_version, path.plural, path.namespace, path.name, path.subresource))
        };
        for (path, expected) in [
            ("/api/v1/pods", Some(("v1", "pods", None, None, None))),
            ("/api/v1/namespaces", Some(("v1", "namespaces", None, None, None))),
            ("/api/v1/namespaces/a", Some(("v1", "namespaces", None, Some("a"), None))),
            ("/api/v1/namespaces/a/status", Some(("v1", "namespaces", None, Some("a"), Some("status")))),
            ("/api/v1/namespaces/a/pods", Some(("v1", "pods", Some("a"), None, None))),
            ("/apis/apps/v1/namespaces/a/deployments/d/scale", {
                Some(("apps/v1", "deployments", Some("a"), Some("d"), Some("scale")))
            }),
            ("/apis/apps/v1", None),
            ("/api/v1", None),
            ("/api/v1/namespaces/a/pods/b/c/d", None),
            ("/api/v1//pods", None),
            ("/version", None),
        ] {
            assert_eq!(parts(path), expected, "{path}");
        }
    }

    #[test]
    fn builds_plurals_of_the_api_server() {
        for (kind, plural) in [
            ("Endpoints", "endpoints"),
            ("Ingress", "ingresses"),
            ("NetworkPolicy", "networkpolicies"),
            ("StorageClass", "storageclasses"),
            ("Pod", "pods"),
            ("Gateway", "gateways"),
        ] {
            assert_eq!(plural_of(kind), plural);
        }
    }
}
