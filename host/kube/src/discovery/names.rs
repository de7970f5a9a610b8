//! Finds kinds by the names kubectl accepts: kind, plural, singular or short name, each optionally
//! with its group, or its version and group (`deployments.v1.apps`), in upper or lower case.
//!
//! Follows kubectl's order (cli-runtime's [`mappingFor`], client-go's [shortcut expander]): names
//! before short names, groups in the API server's order with the core group first; a group may be
//! shortened (`autoscal`). Needs the aggregated discovery of Kubernetes 1.30 or newer, and sends
//! two requests.
//!
//! [`mappingFor`]: https://github.com/kubernetes/cli-runtime/blob/v0.36.2/pkg/resource/builder.go#L772
//! [shortcut expander]: https://github.com/kubernetes/client-go/blob/v0.36.2/restmapper/shortcut.go#L129

use std::sync::Arc;

use http::{Request, header::ACCEPT};
use operetta_core::{
    object::kind::GroupVersionKind,
    status::{ApiError, ErrorKind},
};
use serde::Deserialize;

use super::{ApiResource, Discovery};

/// The media type of aggregated discovery.
pub(super) const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

impl Discovery {
    /// Finds the resource a name refers to; None if the API server has none. Caches nothing.
    ///
    /// # Errors
    /// The API server's error, or `Other` if it has no aggregated discovery.
    pub async fn resolve_name(&self, name: &str) -> Result<Option<Arc<ApiResource>>, ApiError> {
        let mut groups = Vec::new();
        for path in ["/api", "/apis"] {
            let request = Request::get(path)
                .header(ACCEPT, AGGREGATED)
                .body(Vec::new());
            let request =
                request.map_err(|error| ApiError::new(ErrorKind::BadRequest, error.to_string()))?;
            groups.extend(read(&self.api_client.send(request).await?)?);
        }

        Ok(Name::readings(name)
            .iter()
            .find_map(|name| name.find(&groups))
            .map(Arc::new))
    }
}

/// Parses a discovery document.
///
/// # Errors
/// `Other` if it is not aggregated discovery.
pub(super) fn read(text: &str) -> Result<Vec<Group>, ApiError> {
    let list: Groups = serde_json::from_str(text).map_err(|error| {
        ApiError::new(
            ErrorKind::Other,
            format!("the API server's discovery: {error}"),
        )
    })?;
    if list.kind != "APIGroupDiscoveryList" {
        let message =
            "the API server has no aggregated discovery: Kubernetes 1.30 or later is required";
        return Err(ApiError::new(ErrorKind::Other, message));
    }

    Ok(list.items)
}

#[derive(Deserialize)]
struct Groups {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    items: Vec<Group>,
}

/// A group in aggregated discovery.
#[derive(Deserialize)]
pub(super) struct Group {
    #[serde(default)]
    pub(super) metadata: Metadata,
    /// Preferred version first.
    #[serde(default)]
    pub(super) versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
pub(super) struct Metadata {
    /// Empty for the core group.
    #[serde(default)]
    pub(super) name: String,
}

#[derive(Deserialize)]
pub(super) struct Version {
    pub(super) version: String,
    #[serde(default)]
    pub(super) resources: Vec<Served>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Served {
    pub(super) resource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Vec<String>,
    #[serde(default)]
    subresources: Vec<Subresource>,
}

#[derive(Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
struct Subresource {
    subresource: String,
}

/// A possible reading of a name, in lower case.
#[derive(Debug, PartialEq, Eq)]
struct Name {
    resource: String,
    /// If there is a version, the group must match in full.
    version: Option<String>,
    /// None for any group.
    group: Option<String>,
}

/// Whether a name stands for a served resource.
type Match = fn(&Name, &Served) -> bool;

impl Name {
    /// The possible readings of a name: `deployments.v1.apps` may also be a resource of the group
    /// `v1.apps`.
    fn readings(text: &str) -> Vec<Self> {
        let text = text.to_lowercase();
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let mut readings = Vec::new();

        if let [resource, version, group] = parts[..] {
            let [resource, version, group] = [resource, version, group].map(str::to_owned);
            readings.push(Self {
                resource,
                version: Some(version),
                group: Some(group),
            });
        }

        let (resource, group) = text
            .split_once('.')
            .map_or((text.as_str(), None), |(name, group)| (name, Some(group)));
        readings.push(Self {
            resource: resource.to_owned(),
            version: None,
            group: group.map(str::to_owned),
        });

        readings
    }

    fn find(&self, groups: &[Group]) -> Option<ApiResource> {
        let wanted = |group: &Group, is_exact: bool| match &self.group {
            None => true,
            Some(of) if is_exact || self.version.is_some() => group.metadata.name == *of,
            Some(of) => group.metadata.name.starts_with(of.as_str()),
        };

        let find = |is_exact: bool, is_it: Match| {
            let groups = groups.iter().filter(|group| wanted(group, is_exact));
            let versions =
                groups.flat_map(|group| group.versions.iter().map(move |version| (group, version)));
            let mut versions = versions.filter(|(_, version)| {
                self.version
                    .as_ref()
                    .is_none_or(|of| version.version == *of)
            });
            versions.find_map(|(group, version)| {
                let served = version
                    .resources
                    .iter()
                    .find(|served| is_it(self, served))?;
                served.in_version(&group.metadata.name, &version.version)
            })
        };

        let by_name: Match = Self::is_name_of;
        let by_short_name: Match = Self::is_short_name_of;
        find(true, by_name)
            .or_else(|| find(true, by_short_name))
            .or_else(|| find(false, by_name))
            .or_else(|| find(false, by_short_name))
    }

    fn is_name_of(&self, served: &Served) -> bool {
        let kind = served
            .response_kind
            .as_ref()
            .map(|kind| kind.kind.to_lowercase());
        [&served.resource, &served.singular_resource].contains(&&self.resource)
            || kind.is_some_and(|kind| kind == self.resource)
    }

    fn is_short_name_of(&self, served: &Served) -> bool {
        served.short_names.contains(&self.resource)
    }
}

impl Served {
    /// The resource in a group and version; None if it only has subresources.
    pub(super) fn in_version(&self, group: &str, version: &str) -> Option<ApiResource> {
        let api_version = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        let kind = &self.response_kind.as_ref()?.kind;

        Some(ApiResource {
            kind: GroupVersionKind::new(api_version, kind),
            plural: self.resource.clone(),
            namespaced: self.scope == "Namespaced",
            subresources: self
                .subresources
                .iter()
                .map(|one| one.subresource.clone())
                .collect(),
            watchable: ["list", "watch"]
                .iter()
                .all(|verb| self.verbs.iter().any(|one| one == verb)),
            former_plural: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups() -> Vec<Group> {
        let served = |plural: &str, kind: &str, short: &str| {
            format!(
                r#"{{"resource":"{plural}","responseKind":{{"group":"","version":"","kind":"{kind}"}},"scope":"Namespaced",
                "singularResource":"{}","verbs":["get","list","watch"],"shortNames":["{short}"]}}"#,
                kind.to_lowercase()
            )
        };
        let group = |name: &str, versions: &[(&str, String)]| {
            let versions = versions.iter().map(|(version, resources)| {
                format!(
                    r#"{{"version":"{version}","resources":[{resources}],"freshness":"Current"}}"#
                )
            });
            let versions = versions.collect::<Vec<_>>().join(",");
            format!(
                r#"{{"metadata":{{"name":"{name}","creationTimestamp":null}},"versions":[{versions}]}}"#
            )
        };
        let deployments = served("deployments", "Deployment", "deploy");
        let list = [
            group(
                "",
                &[(
                    "v1",
                    [served("pods", "Pod", "po"), served("events", "Event", "ev")].join(","),
                )],
            ),
            group(
                "apps",
                &[
                    ("v1", deployments.clone()),
                    ("v1beta1", deployments.clone()),
                ],
            ),
            group("events.k8s.io", &[("v1", served("events", "Event", "ev"))]),
            group(
                "apps.example.com",
                &[(
                    "v2",
                    [deployments, served("po", "Po", "deployments")].join(","),
                )],
            ),
        ];
        read(&format!(
            r#"{{"kind":"APIGroupDiscoveryList","items":[{}]}}"#,
            list.join(",")
        ))
        .expect("groups")
    }

    #[test]
    fn finds_kind_by_any_name_and_case() {
        let groups = groups();
        let found = |name: &str| {
            let found = Name::readings(name)
                .iter()
                .find_map(|name| name.find(&groups));
            found.map(|found| format!("{} {}", found.plural, found.kind.api_version))
        };
        for (name, wanted) in [
            ("pods", "pods v1"),
            ("Pod", "pods v1"),
            ("POD", "pods v1"),
            ("pods.v1.", "pods v1"),
            ("events", "events v1"),
            ("ev.events.k8s.io", "events events.k8s.io/v1"),
            ("deploy", "deployments apps/v1"),
            ("Deployment.apps", "deployments apps/v1"),
            ("deployments.v1beta1.apps", "deployments apps/v1beta1"),
            (
                "deployments.apps.example.com",
                "deployments apps.example.com/v2",
            ),
            (
                "deployments.v2.apps.example.com",
                "deployments apps.example.com/v2",
            ),
            ("deployments.apps.ex", "deployments apps.example.com/v2"),
            ("deployments.ap", "deployments apps/v1"),
            // A name takes precedence over another kind's short name.
            ("po", "po apps.example.com/v2"),
        ] {
            assert_eq!(found(name).as_deref(), Some(wanted), "{name}");
        }
        for name in [
            "",
            "pod.apps",
            "deployments.v3.apps",
            "nothing",
            ".",
            "pods.v1.apps",
            "pods/x",
        ] {
            assert_eq!(found(name), None, "{name}");
        }
    }

    #[test]
    fn names_missing_aggregated_discovery() {
        let error = read(r#"{"kind":"APIVersions","versions":["v1"]}"#)
            .map(|_| ())
            .expect_err("refused");
        assert!(error.status.message.contains("1.30"), "{error}");
    }
}
