//! Maps kinds to the resources serving them (apimachinery's [RESTMapper]), including kinds
//! installed later.
//!
//! Resources are cached until a CustomResourceDefinition changes. A kind not yet served is looked
//! up again when a CustomResourceDefinition changes, and also every few seconds, because aggregated
//! API servers have no CustomResourceDefinition.
//!
//! [RESTMapper]: https://github.com/kubernetes/apimachinery/blob/v0.36.2/pkg/api/meta/interfaces.go#L113

mod names;
mod similar;

use std::{collections::HashMap, sync::Arc, time::Duration};

use operetta_core::{
    gate::path::encoded,
    object::{
        ObjectKey,
        kind::{GroupVersionKind, check_api_version},
    },
    status::{ApiError, ErrorKind},
};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::{sync::watch, time::Instant};

pub use similar::{SimilarKinds, Suggestion};

use crate::client::api_client::ApiClient;

/// How often a missing kind is looked up while no CRD changes.
const POLL: Duration = Duration::from_secs(3);

/// Pauses before looking again at what a changed CustomResourceDefinition serves.
const SETTLE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];

/// Timeout of a single request.
const DEADLINE: Duration = Duration::from_secs(15);

/// How long a missing kind is considered missing, unless a CRD changes.
const KEEP_MISSING: Duration = Duration::from_secs(1);
/// How many missing kinds are remembered.
const MAX_MISSING: usize = 4_096;
/// The largest resource list we read, in bytes; the core group's has 20 kB.
const MAX_RESOURCE_LIST: usize = 4 << 20;

/// The resource serving a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResource {
    /// The kind.
    pub kind: GroupVersionKind,
    /// The resource's name in paths, e.g. `deployments`.
    pub plural: String,
    /// Whether its objects have namespaces.
    pub namespaced: bool,
    /// The subresources, e.g. `status` and `scale`.
    pub subresources: Vec<String>,
    /// Whether the resource can be listed and watched.
    pub watchable: bool,
    /// The name that the resource had before, if the kind was served under another one: rules of
    /// RBAC may still have that.
    pub former_plural: Option<String>,
}

impl ApiResource {
    /// Says which name rules of RBAC may still have instead of the resource's; None if it has had no
    /// other, as far as this host knows.
    pub fn renamed(&self) -> Option<String> {
        let former = self.former_plural.as_ref()?;
        let Self { kind, plural, .. } = self;
        Some(format!(
            "{kind} is served as {plural} now, and was served as {former} before, which rules may still name"
        ))
    }

    /// The collection's path, within a namespace if one is given.
    pub fn collection_path(&self, namespace: Option<&str>) -> String {
        let root = if self.kind.group().is_empty() {
            "api"
        } else {
            "apis"
        };
        let api_version = &self.kind.api_version;

        match namespace {
            Some(namespace) if self.namespaced => {
                format!(
                    "/{root}/{api_version}/namespaces/{namespace}/{}",
                    self.plural
                )
            }
            _ => format!("/{root}/{api_version}/{}", self.plural),
        }
    }

    /// An object's path, with its name escaped where necessary. The key must have been checked.
    pub fn object_path(&self, key: &ObjectKey) -> String {
        format!(
            "{}/{}",
            self.collection_path(key.namespace.as_deref()),
            encoded(&key.name)
        )
    }

    /// Whether the kind has a subresource, given with anything following it in a path. The empty
    /// name is the object itself.
    pub(crate) fn has_subresource(&self, subresource: &str) -> bool {
        let name = subresource.split('/').next().unwrap_or_default();
        name.is_empty() || self.subresources.iter().any(|one| one == name)
    }

    /// The error for a subresource the kind does not have. The API server would answer with the
    /// [404 of a missing object], which reconcilers ignore: the object would seem deleted.
    ///
    /// [404 of a missing object]: https://github.com/kubernetes/apiextensions-apiserver/blob/v0.36.2/pkg/apiserver/customresource_handler.go#L355
    pub(crate) fn no_subresource(&self, subresource: &str) -> ApiError {
        let Self { kind, plural, .. } = self;
        let name = subresource.split('/').next().unwrap_or_default();
        let group = kind.group();

        // Kubernetes' own groups have no CustomResourceDefinition to change.
        let is_custom = group.contains('.') && !group.ends_with(".k8s.io");
        let instead = match name {
            "scale" => "write the field that holds the replicas",
            _ => "write the object itself with update",
        };
        let cure = if is_custom && matches!(name, "status" | "scale") {
            format!(
                "CustomResourceDefinition {plural}.{group} has no subresources.{name} for version {}: add it, or {instead}",
                kind.version()
            )
        } else if name == "status" {
            instead.to_owned()
        } else if self.subresources.is_empty() {
            "it has none".to_owned()
        } else {
            format!("it has {}", self.subresources.join(", "))
        };

        ApiError::new(
            ErrorKind::BadRequest,
            format!("{kind} has no {name} subresource: {cure}"),
        )
    }

    /// Checks that a namespace is given if and only if the kind is namespaced.
    ///
    /// # Errors
    /// `BadRequest`, naming the kind.
    pub fn check_namespace(&self, namespace: Option<&str>) -> Result<(), ApiError> {
        let kind = &self.kind;
        let message = match (self.namespaced, namespace) {
            (true, None) => format!("{kind} is namespaced: the key needs a namespace"),
            (false, Some(namespace)) => {
                format!("{kind} is cluster-scoped: the key has namespace {namespace:?}")
            }
            _ => return Ok(()),
        };
        Err(ApiError::new(ErrorKind::BadRequest, message))
    }
}

/// The resources of an API server, as far as they were looked up.
pub struct Discovery {
    api_client: ApiClient,
    known: Mutex<HashMap<GroupVersionKind, Arc<ApiResource>>>,
    /// When kinds and plurals of an `apiVersion` were found to be missing.
    missing: Mutex<HashMap<String, HashMap<String, Instant>>>,
    /// The plural of each kind that was found, and the one before.
    plurals: Mutex<HashMap<GroupVersionKind, Plural>>,
    /// Counts CustomResourceDefinition changes.
    changes: watch::Sender<u64>,
}

struct Plural {
    now: String,
    former: Option<String>,
}

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

impl Discovery {
    /// Creates a discovery client with this identity.
    pub fn new(api_client: ApiClient) -> Arc<Self> {
        let api_client = api_client.reading_at_most(MAX_RESOURCE_LIST);
        Arc::new(Self {
            api_client,
            known: Mutex::default(),
            missing: Mutex::default(),
            plurals: Mutex::default(),
            changes: watch::Sender::new(0),
        })
    }

    /// Resolves a kind to the resource now serving it.
    ///
    /// # Errors
    /// `NotFound` if the kind is not served; otherwise the API server's error.
    pub async fn resolve(&self, kind: &GroupVersionKind) -> Result<Arc<ApiResource>, ApiError> {
        if let Some(known) = self.known.lock().get(kind) {
            return Ok(known.clone());
        }
        kind.check()
            .map_err(|(_, message)| ApiError::new(ErrorKind::BadRequest, message))?;
        let found = self
            .ask(&kind.api_version, &kind.kind, |list| find(list, kind))
            .await?;
        found.ok_or_else(|| not_served(kind))
    }

    /// The resource of this name in `group/version` (or the version of the core group); None if it
    /// is not served.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn resolve_plural(
        &self,
        api_version: &str,
        plural: &str,
    ) -> Result<Option<Arc<ApiResource>>, ApiError> {
        if let Some(known) = self.known_plural(api_version, plural) {
            return Ok(Some(known));
        }
        let find_plural = |list: &ResourceList| {
            let main = list.resources.iter().find(|one| one.name == plural)?;
            find(list, &GroupVersionKind::new(api_version, &main.kind))
                .filter(|found| found.plural == plural)
        };
        self.ask(api_version, plural, find_plural).await
    }

    /// The resource of this name, if it was looked up before.
    pub fn known_plural(&self, api_version: &str, plural: &str) -> Option<Arc<ApiResource>> {
        let is_it = |resource: &&Arc<ApiResource>| {
            resource.kind.api_version == api_version && resource.plural == plural
        };
        self.known.lock().values().find(is_it).cloned()
    }

    /// Whether a kind's result is cached, so that resolving it sends no request.
    pub fn is_known(&self, kind: &GroupVersionKind) -> bool {
        self.known.lock().contains_key(kind) || self.is_known_missing(&kind.api_version, &kind.kind)
    }

    /// Whether this kind or plural was recently found to be missing.
    fn is_known_missing(&self, api_version: &str, name: &str) -> bool {
        let missing = self.missing.lock();
        let names = missing.get(api_version);
        names
            .and_then(|names| names.get(name))
            .is_some_and(|asked| asked.elapsed() < KEEP_MISSING)
    }

    fn note_missing(&self, api_version: &str, name: &str) {
        let mut missing = self.missing.lock();
        if missing.values().map(HashMap::len).sum::<usize>() >= MAX_MISSING {
            missing.clear();
        }
        missing
            .entry(api_version.to_owned())
            .or_default()
            .insert(name.to_owned(), Instant::now());
    }

    /// Looks up the resources of `group/version` and caches the one called `name`, selected by
    /// `find`; None if there is none.
    async fn ask(
        &self,
        api_version: &str,
        name: &str,
        find: impl Fn(&ResourceList) -> Option<ApiResource>,
    ) -> Result<Option<Arc<ApiResource>>, ApiError> {
        check_api_version(api_version)
            .map_err(|message| ApiError::new(ErrorKind::BadRequest, message))?;
        if self.is_known_missing(api_version, name) {
            return Ok(None);
        }

        let generation = *self.changes.borrow();
        let root = if api_version.contains('/') {
            "apis"
        } else {
            "api"
        };
        let request = http::Request::get(format!("/{root}/{api_version}")).body(Vec::new());
        let request =
            request.map_err(|error| ApiError::new(ErrorKind::BadRequest, error.to_string()))?;
        let unanswered = |_| {
            let message =
                format!("no response to the discovery of {api_version} within {DEADLINE:?}");
            Err(ApiError::new(ErrorKind::Unavailable, message))
        };

        let text = match tokio::time::timeout(DEADLINE, self.api_client.send(request))
            .await
            .unwrap_or_else(unanswered)
        {
            Ok(text) => text,
            Err(error) if error.kind == ErrorKind::NotFound => {
                self.note_missing(api_version, name);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };

        let list: ResourceList = serde_json::from_str(&text).map_err(|error| {
            ApiError::new(
                ErrorKind::Other,
                format!("discovery of {api_version}: {error}"),
            )
        })?;

        let Some(mut resource) = find(&list) else {
            self.note_missing(api_version, name);
            return Ok(None);
        };
        resource.former_plural = self.former_plural(&resource);
        let resource = Arc::new(resource);

        // A response from before a change must not be cached.
        if generation == *self.changes.borrow() {
            let mut known = self.known.lock();
            known.insert(resource.kind.clone(), resource.clone());
        }

        Ok(Some(resource))
    }

    /// Notes the plural of a kind, and returns the one that it had before.
    fn former_plural(&self, resource: &ApiResource) -> Option<String> {
        let mut plurals = self.plurals.lock();
        let plural = &resource.plural;
        let known = plurals
            .entry(resource.kind.clone())
            .or_insert_with(|| Plural {
                now: plural.clone(),
                former: None,
            });
        if known.now != *plural {
            known.former = Some(std::mem::replace(&mut known.now, plural.clone()));
        }
        known.former.clone()
    }

    /// What the APIService of a group and version says about the aggregated API server behind it;
    /// None if that is available, or there is none, or it cannot be read.
    pub async fn unavailable_api(&self, api_version: &str) -> Option<String> {
        let (group, version) = api_version.split_once('/')?;
        let name = format!("{version}.{group}");
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}");
        let request = http::Request::get(path).body(Vec::new()).ok()?;
        let text = tokio::time::timeout(DEADLINE, self.api_client.send(request))
            .await
            .ok()?
            .ok()?;

        unavailable_condition(&name, &text)
    }

    /// Waits until a kind is served. To cancel, drop the future.
    pub async fn wait_for(&self, kind: &GroupVersionKind) -> Arc<ApiResource> {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            match self.resolve(kind).await {
                Ok(resource) => return resource,
                Err(error) => tracing::debug!(%kind, %error, "kind is not served yet"),
            }
            // The sender lives in `self`, so only the timeout ends a wait without changes.
            let _changed_or_timed_out = tokio::time::timeout(POLL, changes.changed()).await;
        }
    }

    /// Drops the cached resources of a group, or of all groups, because the API server may now
    /// serve others.
    pub fn invalidate(&self, group: Option<&str>) {
        let is_kept = |kind: &GroupVersionKind| group.is_some_and(|group| kind.group() != group);
        self.known.lock().retain(|kind, _| is_kept(kind));
        self.missing
            .lock()
            .retain(|api_version, _| is_kept(&GroupVersionKind::new(api_version, "")));
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Drops the cached resources of a CustomResourceDefinition's group, now and again a bit later:
    /// the API server lags a moment behind the definition.
    pub fn follow_definition(self: &Arc<Self>, definition: &ObjectKey) {
        // The name is `plural.group`.
        let (_, group) = definition.name.split_once('.').unwrap_or_default();
        let group = group.to_owned();
        self.invalidate(Some(&group));

        let discovery = Arc::downgrade(self);
        tokio::spawn(async move {
            for pause in SETTLE {
                tokio::time::sleep(pause).await;
                let Some(discovery) = discovery.upgrade() else {
                    return;
                };
                discovery.invalidate(Some(&group));
            }
        });
    }

    /// Follows the kinds that are served: it changes whenever they may have changed with a
    /// CustomResourceDefinition, and a bit later once more. What an aggregated API server serves can
    /// change without.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Waits until one of these kinds is served by another resource, or no longer served. To
    /// cancel, drop the future.
    pub async fn until_served_otherwise(&self, resources: &[Arc<ApiResource>]) {
        let mut changes = self.changes.subscribe();
        loop {
            // The sender lives in `self`.
            let _changed = changes.changed().await;
            for resource in resources {
                if self.serves_otherwise(resource).await {
                    return;
                }
            }
        }
    }

    /// Whether a kind is served by a resource other than this one, or no longer served. False if
    /// the API server does not respond.
    pub async fn serves_otherwise(&self, resource: &ApiResource) -> bool {
        match self.resolve(&resource.kind).await {
            Ok(now) => *now != *resource,
            Err(error) => error.kind == ErrorKind::NotFound,
        }
    }
}

/// An APIService's condition for being unavailable.
fn unavailable_condition(name: &str, api_service: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct ApiService {
        #[serde(default)]
        status: Status,
    }

    #[derive(Default, Deserialize)]
    struct Status {
        #[serde(default)]
        conditions: Vec<Condition>,
    }

    #[derive(Deserialize)]
    struct Condition {
        #[serde(rename = "type")]
        type_: String,
        status: String,
        #[serde(default)]
        reason: String,
        #[serde(default)]
        message: String,
    }

    let ApiService { status } = serde_json::from_str(api_service).ok()?;
    let Condition {
        reason, message, ..
    } = status
        .conditions
        .into_iter()
        .find(|one| one.type_ == "Available" && one.status != "True")?;
    Some(format!(
        "APIService {name} is not available ({reason}): {message}"
    ))
}

fn not_served(kind: &GroupVersionKind) -> ApiError {
    let message = format!(
        "the API server does not serve {kind} (is its CustomResourceDefinition installed?)"
    );
    ApiError::new(ErrorKind::NotFound, message)
}

fn find(list: &ResourceList, kind: &GroupVersionKind) -> Option<ApiResource> {
    let main = list
        .resources
        .iter()
        .find(|one| one.kind == kind.kind && !one.name.contains('/'))?;
    let subresources = list
        .resources
        .iter()
        .filter_map(|one| one.name.split_once('/'));

    Some(ApiResource {
        kind: kind.clone(),
        plural: main.name.clone(),
        namespaced: main.namespaced,
        subresources: subresources
            .filter(|(of, _)| *of == main.name)
            .map(|(_, name)| name.to_owned())
            .collect(),
        watchable: ["list", "watch"]
            .iter()
            .all(|verb| main.verbs.iter().any(|one| one == verb)),
        former_plural: None,
    })
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;
    use crate::client::api_client::Identity;

    #[tokio::test(start_paused = true)]
    async fn discovery_without_a_response_is_asked_again() {
        let asked = Arc::new(AtomicUsize::new(0));
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let asked = asked.clone();
            async move {
                if asked.fetch_add(1, Ordering::Relaxed) == 0 {
                    std::future::pending::<()>().await;
                }
                let list = r#"{"resources":[{"name":"pods","kind":"Pod","namespaced":true,"verbs":["list","watch"]}]}"#;
                Ok::<_, Infallible>(http::Response::new(kube::client::Body::from(
                    list.as_bytes().to_vec(),
                )))
            }
        });
        let api_client = ApiClient::new(kube::Client::new(service, "default"), &Identity::Host)
            .expect("a client");
        let discovery = Discovery::new(api_client);
        let pods = GroupVersionKind::new("v1", "Pod");
        let found = tokio::time::timeout(Duration::from_secs(60), discovery.wait_for(&pods)).await;
        assert_eq!(found.expect("in time").plural, "pods");
    }

    #[tokio::test]
    async fn kind_served_under_another_name_has_its_former_one() {
        let plurals = ["gadgets", "gadgets", "gizmos", "gizmos"];
        let asked = Arc::new(AtomicUsize::new(0));
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let plural = plurals[asked.fetch_add(1, Ordering::Relaxed)];
            let list = format!(
                r#"{{"resources":[{{"name":"{plural}","kind":"Gadget","namespaced":true,"verbs":["list","watch"]}}]}}"#
            );
            let body = kube::client::Body::from(list.into_bytes());
            async move { Ok::<_, Infallible>(http::Response::new(body)) }
        });
        let api_client = ApiClient::new(kube::Client::new(service, "default"), &Identity::Host)
            .expect("a client");
        let discovery = Discovery::new(api_client);
        let gadget = GroupVersionKind::new("example.com/v1", "Gadget");

        let mut found = Vec::new();
        for _ in plurals {
            found.push(discovery.resolve(&gadget).await.expect("served"));
            discovery.invalidate(Some("example.com"));
        }
        assert_eq!((found[0].renamed(), found[1].renamed()), (None, None));
        assert_eq!(found[2].former_plural.as_deref(), Some("gadgets"));
        assert_eq!(found[2], found[3], "it is the same resource as before");
        let renamed = found[3].renamed().expect("renamed");
        assert!(
            renamed.contains("served as gizmos now, and was served as gadgets before"),
            "{renamed}"
        );
    }

    #[test]
    fn dead_api_service_is_described_in_its_own_words() {
        let of = |status: &str| {
            let text = format!(
                r#"{{"status":{{"conditions":[{{"type":"Available","status":"{status}","reason":"MissingEndpoints",
                    "message":"endpoints for service/metrics in \"a\" have no addresses"}}]}}}}"#
            );
            unavailable_condition("v1.m.k8s.io", &text.replace('\n', " "))
        };
        assert_eq!(
            of("False").as_deref(),
            Some(
                "APIService v1.m.k8s.io is not available (MissingEndpoints): endpoints for service/metrics in \"a\" have no addresses"
            )
        );
        assert_eq!(of("True"), None);
        assert_eq!(unavailable_condition("v1.m.k8s.io", "{}"), None);
    }

    #[test]
    fn missing_subresource_is_named_with_its_cure() {
        let of = |api_version: &str, kind: &str, plural: &str, subresources: &[&str]| ApiResource {
            kind: GroupVersionKind::new(api_version, kind),
            plural: plural.to_owned(),
            namespaced: true,
            subresources: subresources.iter().map(|&name| name.to_owned()).collect(),
            watchable: true,
            former_plural: None,
        };
        let custom = of("example.com/v1", "CronTab", "crontabs", &["scale"]);
        let pod = of("v1", "Pod", "pods", &["eviction", "status"]);
        let config_map = of("v1", "ConfigMap", "configmaps", &[]);

        for (resource, subresource, is_served) in [
            (&custom, "", true),
            (&custom, "scale", true),
            (&custom, "status", false),
            (&pod, "proxy/metrics", false),
            (&pod, "status", true),
        ] {
            assert_eq!(
                resource.has_subresource(subresource),
                is_served,
                "{subresource}"
            );
        }

        for (resource, subresource, message) in [
            (
                &custom,
                "status",
                "CronTab.example.com/v1 has no status subresource: CustomResourceDefinition crontabs.example.com has no subresources.status for version v1: add it, or write the object itself with update",
            ),
            (
                &config_map,
                "status",
                "ConfigMap.v1 has no status subresource: write the object itself with update",
            ),
            (
                &config_map,
                "scale",
                "ConfigMap.v1 has no scale subresource: it has none",
            ),
            (
                &pod,
                "scale",
                "Pod.v1 has no scale subresource: it has eviction, status",
            ),
        ] {
            let error = resource.no_subresource(subresource);
            assert_eq!(error.kind, ErrorKind::BadRequest);
            assert_eq!(error.status.message, message);
        }
    }

    #[test]
    fn resource_list_gives_plural_scope_and_subresources() {
        let list: ResourceList = serde_json::from_str(
            r#"{"resources":[
                {"name":"deployments","kind":"Deployment","namespaced":true,"verbs":["get","list","watch"]},
                {"name":"deployments/scale","kind":"Scale","namespaced":true,"verbs":["get"]},
                {"name":"deployments/status","kind":"Deployment","namespaced":true,"verbs":["get"]},
                {"name":"deploymentsx/status","kind":"X","namespaced":true}]}"#,
        )
        .expect("json");
        let found = find(&list, &GroupVersionKind::new("apps/v1", "Deployment")).expect("found");
        assert_eq!(
            (found.plural.as_str(), found.namespaced, found.watchable),
            ("deployments", true, true)
        );
        assert_eq!(found.subresources, ["scale", "status"]);
        assert!(
            find(&list, &GroupVersionKind::new("apps/v1", "Scale")).is_none(),
            "a subresource is no kind"
        );
        assert_eq!(
            found.object_path(&ObjectKey::namespaced("n", "d")),
            "/apis/apps/v1/namespaces/n/deployments/d"
        );
    }
}
