//! Suggestions for kinds the API server does not serve.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use http::{Request, header::ACCEPT};
use kube::Client;
use operetta_core::{
    authz::access_review::ServiceAccount,
    object::kind::GroupVersionKind,
    status::{ApiError, ErrorKind},
};
use tokio::{sync::Mutex, time::Instant};

use super::names::{AGGREGATED, Group, Served, read};
use crate::client::api_client::{ApiClient, Identity};

/// The largest discovery document we read, in bytes: ten times that of a cluster with a thousand
/// CRDs.
const MAX_DOCUMENT: usize = 16 << 20;

/// How many kinds are compared.
const MAX_KINDS: usize = 10_000;

/// The longest name we compare, in bytes. A CRD's kind is a DNS label, its group a DNS subdomain.
const MAX_NAME: usize = 317;

/// How long an account's discovery documents are kept: a suggestion need not know the newest kinds.
const KEEP: Duration = Duration::from_secs(10);

/// How many accounts have their documents kept.
const MAX_ACCOUNTS: usize = 4;

/// What is served instead of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suggestion {
    /// The kind itself, in these versions of its group, the preferred one first.
    Versions(Vec<String>),
    /// A kind with a similar name.
    Similar(GroupVersionKind),
}

/// Suggests kinds for those not served. Each account's discovery documents are read at most once in
/// ten seconds, however many plugins ask.
pub struct SimilarKinds {
    client: Client,
    /// The documents read last, newest at the end. Locked while reading: whoever waits for the lock
    /// finds the result.
    documents: Mutex<VecDeque<Documents>>,
}

/// The discovery documents an account may read.
struct Documents {
    account: ServiceAccount,
    read_at: Instant,
    groups: Arc<Vec<Group>>,
}

impl SimilarKinds {
    /// Creates suggestions over a client.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            documents: Mutex::default(),
        }
    }

    /// Finds what is served instead of a kind: other versions of it, or a kind with a similar name,
    /// such as one of another group, its plural, or a typo. Discovery is read as `account`, so that no
    /// hidden kinds are revealed.
    ///
    /// # Errors
    /// The API server's error, or `Other` if it has no aggregated discovery.
    pub async fn find(
        &self,
        account: &ServiceAccount,
        kind: &GroupVersionKind,
    ) -> Result<Option<Suggestion>, ApiError> {
        Ok(suggestion(&self.groups(account).await?, kind))
    }

    async fn groups(&self, account: &ServiceAccount) -> Result<Arc<Vec<Group>>, ApiError> {
        let mut documents = self.documents.lock().await;
        documents.retain(|kept| kept.read_at.elapsed() < KEEP);
        if let Some(kept) = documents.iter().find(|kept| kept.account == *account) {
            return Ok(kept.groups.clone());
        }

        let api_client = ApiClient::new(
            self.client.clone(),
            &Identity::ServiceAccount(account.clone()),
        )?;
        let api_client = api_client.reading_at_most(MAX_DOCUMENT);
        let mut groups = Vec::new();

        for path in ["/api", "/apis"] {
            let request = Request::get(path)
                .header(ACCEPT, AGGREGATED)
                .body(Vec::new());
            let request =
                request.map_err(|error| ApiError::new(ErrorKind::BadRequest, error.to_string()))?;
            groups.extend(read(&api_client.send(request).await?)?);
        }

        let groups = Arc::new(groups);
        if documents.len() == MAX_ACCOUNTS {
            documents.pop_front();
        }

        documents.push_back(Documents {
            account: account.clone(),
            read_at: Instant::now(),
            groups: groups.clone(),
        });

        Ok(groups)
    }
}

fn suggestion(groups: &[Group], kind: &GroupVersionKind) -> Option<Suggestion> {
    let versions = other_versions(groups, kind);
    match versions.is_empty() {
        true => most_similar(groups, kind).map(Suggestion::Similar),
        false => Some(Suggestion::Versions(versions)),
    }
}

/// The other versions of a kind's group in which the kind is served, and can be watched.
fn other_versions(groups: &[Group], kind: &GroupVersionKind) -> Vec<String> {
    let mut versions = Vec::new();
    let is_group = |group: &&Group| group.metadata.name == kind.group();
    for group in groups.iter().filter(is_group) {
        for version in &group.versions {
            let resources = version.resources.iter();
            let is_served = resources
                .filter_map(|served| served.in_version(&group.metadata.name, &version.version))
                .any(|found| found.watchable && found.kind.kind == kind.kind);
            if is_served && version.version != kind.version() {
                versions.push(version.version.clone());
            }
        }
    }
    versions
}

/// The most similar watchable kind; among equally similar ones, the first in the API server's
/// order.
fn most_similar(groups: &[Group], kind: &GroupVersionKind) -> Option<GroupVersionKind> {
    if kind.kind.len() > MAX_NAME || kind.api_version.len() > MAX_NAME {
        return None;
    }

    let served = groups.iter().flat_map(|group| {
        let versions = group.versions.iter();
        versions.flat_map(move |version| {
            version
                .resources
                .iter()
                .map(move |served| (group, version, served))
        })
    });

    let candidates = served
        .take(MAX_KINDS)
        .filter_map(|(group, version, served)| {
            let found = served
                .in_version(&group.metadata.name, &version.version)
                .filter(|found| found.watchable)?
                .kind;
            Some((distance(served, &found, kind)?, found))
        });

    candidates
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, found)| found)
}

/// Number of edits in the kind, then in the apiVersion.
type Distance = (usize, usize);

fn distance(
    served: &Served,
    found: &GroupVersionKind,
    wanted: &GroupVersionKind,
) -> Option<Distance> {
    if found == wanted || found.kind.len() > MAX_NAME || found.api_version.len() > MAX_NAME {
        return None;
    }

    let name = wanted.kind.to_lowercase();
    let api_version = strsim::osa_distance(&found.api_version, &wanted.api_version);
    if found.kind.to_lowercase() == name || served.resource == name {
        return Some((0, api_version));
    }

    // If both names differ, each difference must be small.
    let kind = strsim::osa_distance(&found.kind.to_lowercase(), &name);
    let near = kind <= tolerance(&name) && api_version <= tolerance(&wanted.api_version);
    near.then_some((kind, api_version))
}

/// How many edits a similar name may have: one per four letters.
fn tolerance(name: &str) -> usize {
    name.chars().count() / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups() -> Vec<Group> {
        let served = |plural: &str, kind: &str, verbs: &str| {
            format!(
                r#"{{"resource":"{plural}","responseKind":{{"kind":"{kind}"}},"scope":"Namespaced","verbs":[{verbs}]}}"#
            )
        };
        let group = |name: &str, version: &str, resources: &[String]| {
            let resources = resources.join(",");
            format!(
                r#"{{"metadata":{{"name":"{name}"}},"versions":[{{"version":"{version}","resources":[{resources}]}}]}}"#
            )
        };
        let watchable = r#""get","list","watch""#;
        let list = [
            group(
                "",
                "v1",
                &[
                    served("pods", "Pod", watchable),
                    served("bindings", "Binding", r#""create""#),
                ],
            ),
            group(
                "apps",
                "v1",
                &[
                    served("deployments", "Deployment", watchable),
                    served("daemonsets", "DaemonSet", watchable),
                ],
            ),
            group(
                "networking.k8s.io",
                "v1",
                &[served("ingresses", "Ingress", watchable)],
            ),
            group(
                "example.com",
                "v1",
                &[served("gadgets", "Gadget", watchable)],
            ),
        ];
        read(&format!(
            r#"{{"kind":"APIGroupDiscoveryList","items":[{}]}}"#,
            list.join(",")
        ))
        .expect("groups")
    }

    #[test]
    fn finds_similar_kind_by_typo_case_plural_group_or_version() {
        let groups = groups();
        for (api_version, kind, wanted) in [
            ("apps/v1", "Deploymnt", Some("Deployment.apps/v1")),
            ("apps/v1", "Deploymetn", Some("Deployment.apps/v1")),
            ("apps/v1", "deployment", Some("Deployment.apps/v1")),
            ("apps/v1", "Deployments", Some("Deployment.apps/v1")),
            ("apps/v1beta1", "Deployment", Some("Deployment.apps/v1")),
            ("v1", "Deployment", Some("Deployment.apps/v1")),
            (
                "extensions/v1beta1",
                "Ingress",
                Some("Ingress.networking.k8s.io/v1"),
            ),
            (
                "extensions/v1beta1",
                "ingresses",
                Some("Ingress.networking.k8s.io/v1"),
            ),
            ("exampel.com/v1", "Gadgte", Some("Gadget.example.com/v1")),
            ("apps/v1", "StatefulSet", None),
            ("other.dev/v1", "Gadgte", None),
            ("v1", "Bindin", None),
            ("v1", "Binding", None),
            ("v1", "", None),
        ] {
            let found = most_similar(&groups, &GroupVersionKind::new(api_version, kind));
            assert_eq!(
                found.map(|found| found.to_string()).as_deref(),
                wanted,
                "{kind} in {api_version}"
            );
        }
    }

    #[test]
    fn kind_of_another_version_is_suggested_with_all_of_its_versions() {
        let served = |version: &str, verbs: &str| {
            format!(
                r#"{{"version":"{version}","resources":[{{"resource":"gadgets","responseKind":{{"kind":"Gadget"}},
                    "scope":"Namespaced","verbs":[{verbs}]}}]}}"#
            )
        };
        let watchable = r#""get","list","watch""#;
        let versions = [
            served("v2", watchable),
            served("v1", watchable),
            served("v0", r#""create""#),
        ];
        let groups = read(&format!(
            r#"{{"kind":"APIGroupDiscoveryList","items":[{{"metadata":{{"name":"example.com"}},"versions":[{}]}}]}}"#,
            versions.join(",")
        ))
        .expect("groups");

        let of = |api_version: &str, kind: &str| {
            suggestion(&groups, &GroupVersionKind::new(api_version, kind))
        };
        let versions = |all: &[&str]| {
            let all = all.iter().map(|&version| version.to_owned());
            Some(Suggestion::Versions(all.collect()))
        };
        assert_eq!(of("example.com/v1beta1", "Gadget"), versions(&["v2", "v1"]));
        assert_eq!(
            of("example.com/v1", "Gadget"),
            versions(&["v2"]),
            "discovery may be older than the change"
        );
        let similar = GroupVersionKind::new("example.com/v2", "Gadget");
        assert_eq!(
            of("example.com/v2", "Gadgets"),
            Some(Suggestion::Similar(similar))
        );
    }

    #[test]
    fn overlong_names_are_not_compared() {
        let long = "D".repeat(MAX_NAME + 1);
        assert_eq!(
            most_similar(&groups(), &GroupVersionKind::new("apps/v1", &long)),
            None
        );
        assert_eq!(
            most_similar(&groups(), &GroupVersionKind::new(&long, "Deployment")),
            None
        );
    }
}
