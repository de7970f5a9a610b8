//! The fields that the endpoints of built-in kinds write.
//!
//! Each strategy upstream has a `GetResetFields`: a write of the object resets the status, and a
//! write of the status resets the rest. Reset fields do not change managers.

use std::collections::BTreeMap;

use crate::apply::fieldpath::{
    ElementMatcher, FieldFilter, FieldPath, FieldSet, PathElement, SetMatcher,
};

/// Kinds whose status subresource resets the spec only.
const STATUS_KEEPS_METADATA: [&str; 17] = [
    "DaemonSet.apps",
    "ReplicaSet.apps",
    "StatefulSet.apps",
    "HorizontalPodAutoscaler.autoscaling",
    "CronJob.batch",
    "Job.batch",
    "CustomResourceDefinition.apiextensions.k8s.io",
    "PodCertificateRequest.certificates.k8s.io",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ReplicationController",
    "ResourceQuota",
    "Service",
    "Ingress.networking.k8s.io",
    "PodDisruptionBudget.policy",
];

/// Kinds whose status subresource resets the metadata as well.
const STATUS_RESETS_METADATA: [&str; 12] = [
    "ValidatingAdmissionPolicy.admissionregistration.k8s.io",
    "StorageVersion.internal.apiserver.k8s.io",
    "APIService.apiregistration.k8s.io",
    "FlowSchema.flowcontrol.apiserver.k8s.io",
    "PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io",
    "ServiceCIDR.networking.k8s.io",
    "DeviceTaintRule.resource.k8s.io",
    "ResourceClaim.resource.k8s.io",
    "ResourcePoolStatusRequest.resource.k8s.io",
    "PodGroup.scheduling.k8s.io",
    "VolumeAttachment.storage.k8s.io",
    "StorageVersionMigration.storagemigration.k8s.io",
];

type Paths = &'static [&'static [&'static str]];

/// Returns the filters of an endpoint of a built-in kind, for the versions of its group. `group` is
/// empty for the core group, and `subresource` for the object itself.
pub fn built_in_filters(
    (group, kind): (&str, &str),
    subresource: &str,
    api_versions: &[&str],
) -> BTreeMap<String, FieldFilter> {
    let name = if group.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind}.{group}")
    };

    let filter = match (name.as_str(), subresource) {
        ("Pod", "resize") => Some(resize_filter()),
        ("Pod", "ephemeralcontainers") => {
            Some(FieldFilter::Include(below(["spec", "ephemeralContainers"])))
        }
        _ => reset_paths(&name, subresource).map(exclude),
    };

    for_versions(filter, api_versions)
}

/// Returns the filters of an endpoint of a custom resource with a status subresource. Without one,
/// nothing is reset.
///
/// As in the API server, a write of the object resets the status in its own version only.
pub fn custom_resource_filters(
    subresource: &str,
    api_version: &str,
    all_api_versions: &[&str],
) -> BTreeMap<String, FieldFilter> {
    match subresource {
        "" => for_versions(Some(exclude(&[&["status"]])), &[api_version]),
        "status" => for_versions(Some(exclude(&[&["metadata"], &["spec"]])), all_api_versions),
        _ => BTreeMap::new(),
    }
}

fn reset_paths(name: &str, subresource: &str) -> Option<Paths> {
    let keeps_metadata = STATUS_KEEPS_METADATA.contains(&name);
    let resets_metadata = STATUS_RESETS_METADATA.contains(&name);

    let paths: Paths = match (name, subresource) {
        // Its strategy for the object itself has no reset fields.
        ("PodCertificateRequest.certificates.k8s.io", "") => return None,
        ("Deployment.apps", "status") => &[&["spec"], &["metadata", "labels"]],
        ("Pod", "status") => &[
            &["spec"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "ownerReferences"],
        ],
        ("CertificateSigningRequest.certificates.k8s.io", "") => &[&["spec"], &["status"]],
        ("CertificateSigningRequest.certificates.k8s.io", "status") => {
            &[&["spec"], &["status", "conditions"]]
        }
        ("CertificateSigningRequest.certificates.k8s.io", "approval") => {
            &[&["spec"], &["status", "certificate"]]
        }
        ("Deployment.apps" | "Pod", "") | ("Namespace", "finalize") => &[&["status"]],
        (_, "") if keeps_metadata || resets_metadata => &[&["status"]],
        (_, "status") if keeps_metadata => &[&["spec"]],
        (_, "status") if resets_metadata => &[&["metadata"], &["spec"]],
        _ => return None,
    };

    Some(paths)
}

fn exclude(paths: Paths) -> FieldFilter {
    let paths = paths
        .iter()
        .map(|path| FieldPath::fields(path.iter().copied()));
    FieldFilter::Exclude(paths.collect::<FieldSet>())
}

fn below<const N: usize>(path: [&str; N]) -> SetMatcher {
    SetMatcher::prefix(path.map(|name| ElementMatcher::Is(PathElement::field(name))))
}

/// The filter of a Pod's `resize` subresource.
///
/// Meant to keep the resources and the resize policies of containers, it keeps the resources only,
/// as upstream: patterns of any list item are not combined.
fn resize_filter() -> FieldFilter {
    let field = |name: &str| ElementMatcher::Is(PathElement::field(name));

    let matchers = [
        ("containers", "resources"),
        ("containers", "resizePolicy"),
        ("initContainers", "resources"),
        ("initContainers", "resizePolicy"),
    ];

    let matchers = matchers.map(|(containers, name)| {
        SetMatcher::prefix([
            field("spec"),
            field(containers),
            ElementMatcher::Any,
            field(name),
        ])
    });

    let matcher = matchers.into_iter().reduce(SetMatcher::merge);
    FieldFilter::Include(matcher.unwrap_or(SetMatcher::Members(Vec::new())))
}

fn for_versions(
    filter: Option<FieldFilter>,
    api_versions: &[&str],
) -> BTreeMap<String, FieldFilter> {
    let filters = filter.into_iter().flat_map(|filter| {
        api_versions
            .iter()
            .map(move |api_version| ((*api_version).to_owned(), filter.clone()))
    });
    filters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(filter: &FieldFilter, paths: &[&[&str]]) -> Vec<String> {
        let set: FieldSet = paths
            .iter()
            .map(|path| FieldPath::fields(path.iter().copied()))
            .collect();

        filter
            .filter(&set)
            .paths()
            .iter()
            .map(FieldPath::to_string)
            .collect()
    }

    #[test]
    fn endpoints_keep_what_they_write() {
        let paths: [&[&str]; 4] = [
            &["spec", "a"],
            &["status", "b"],
            &["metadata", "labels", "c"],
            &["metadata", "annotations", "d"],
        ];

        for (kind, subresource, expected) in [
            (
                ("apps", "Deployment"),
                "",
                vec![".metadata.annotations.d", ".metadata.labels.c", ".spec.a"],
            ),
            (
                ("apps", "Deployment"),
                "status",
                vec![".metadata.annotations.d", ".status.b"],
            ),
            (
                ("", "Service"),
                "status",
                vec![".metadata.annotations.d", ".metadata.labels.c", ".status.b"],
            ),
            (
                ("storage.k8s.io", "VolumeAttachment"),
                "status",
                vec![".status.b"],
            ),
            (("", "Pod"), "resize", vec![]),
        ] {
            let filters = built_in_filters(kind, subresource, &["v"]);
            assert_eq!(
                kept(&filters["v"], &paths),
                expected,
                "{kind:?} {subresource}"
            );
        }

        assert!(built_in_filters(("", "ConfigMap"), "", &["v1"]).is_empty());
        assert!(built_in_filters(("apps", "Deployment"), "scale", &["apps/v1"]).is_empty());
    }

    #[test]
    fn resize_keeps_resources_of_containers_only() {
        let path = |containers: &str, field: &str| {
            let item = PathElement::key([("name".to_owned(), serde_json::json!("c"))]);
            FieldPath(vec![
                PathElement::field("spec"),
                PathElement::field(containers),
                item,
                PathElement::field(field),
            ])
        };

        let kept = [
            path("containers", "resources"),
            path("initContainers", "resources"),
        ];
        let others = [
            path("containers", "resizePolicy"),
            path("initContainers", "resizePolicy"),
            path("containers", "image"),
        ];

        let set: FieldSet = kept.iter().cloned().chain(others).collect();
        let filters = built_in_filters(("", "Pod"), "resize", &["v1"]);
        assert_eq!(filters["v1"].filter(&set), kept.into_iter().collect());
    }

    #[test]
    fn custom_resources_reset_the_status_in_their_version_only() {
        let filters = custom_resource_filters("", "g/v1", &["g/v1", "g/v2"]);
        assert_eq!(filters.keys().collect::<Vec<_>>(), ["g/v1"]);

        let filters = custom_resource_filters("status", "g/v1", &["g/v1", "g/v2"]);
        assert_eq!(filters.len(), 2);

        assert_eq!(
            kept(&filters["g/v2"], &[&["spec", "a"], &["status", "b"]]),
            [".status.b"]
        );
    }
}
