//! What is related to an object: its owners, the objects it owns, its Events and the plugins whose
//! controllers get it. Everything is read with the user's token. What the user may not read is left
//! out, and the page says so.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt, stream};
use operetta_core::{
    authz::access_review::ServiceAccount,
    object::{Object, ObjectKey, kind::GroupVersionKind},
    status::ApiError,
};
use operetta_kube::{authz::filtered_view::may_see, client::user_api::Read};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::timeout;

use super::{
    collection::Collection,
    failing,
    health::{Health, health},
    rights::Visible,
    session::Session,
    state::Page,
    summaries::{self, ShownPlugin},
};

/// The kinds searched for children, besides those the host watches.
const KINDS: [(&str, &str, &str); 13] = [
    ("apps/v1", "Deployment", "deployments"),
    ("apps/v1", "StatefulSet", "statefulsets"),
    ("apps/v1", "DaemonSet", "daemonsets"),
    ("apps/v1", "ReplicaSet", "replicasets"),
    ("batch/v1", "Job", "jobs"),
    ("batch/v1", "CronJob", "cronjobs"),
    ("v1", "Pod", "pods"),
    ("v1", "Service", "services"),
    ("v1", "ConfigMap", "configmaps"),
    ("v1", "Secret", "secrets"),
    ("v1", "ServiceAccount", "serviceaccounts"),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("networking.k8s.io/v1", "Ingress", "ingresses"),
];

/// Requests lists with only apiVersion, kind and metadata.
const METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
/// How many objects of one kind are read.
const LIMIT: &str = "500";
/// How many kinds are searched.
const MAX_KINDS: usize = 50;
/// The largest list, in bytes.
const MAX_LIST: usize = 8 << 20;
const MAX_CHILDREN: usize = 100;
/// How many children's health is read.
const MAX_HEALTH: usize = 50;
/// How many controllers' rights are reviewed.
const MAX_REVIEWED: usize = 100;
/// How many owners are shown.
const MAX_OWNERS: usize = 10;
/// The maximum number of concurrent requests.
const AT_ONCE: usize = 4;
/// The timeout of all these requests together.
const DEADLINE: Duration = Duration::from_secs(10);

/// An object's owner or child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Link {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// Empty if the API server doesn't serve the kind.
    pub plural: String,
    pub health: Health,
    /// The path of its page, if it has one.
    pub href: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ObjectEvent {
    #[serde(rename = "type")]
    pub type_: String,
    pub reason: String,
    pub message: String,
    pub count: u64,
    pub last: String,
    pub from: String,
}

/// A plugin's controller that gets the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Reconciler {
    pub namespace: String,
    pub name: String,
    pub controller: String,
}

/// A controller for the object's kind, with what decides whether it gets the object.
struct Candidate {
    reconciler: Reconciler,
    /// The only namespace whose objects it reconciles.
    only: Option<String>,
    account: ServiceAccount,
}

impl Candidate {
    fn covers(&self, object: &ObjectKey) -> bool {
        match (&self.only, &object.namespace) {
            (Some(only), Some(namespace)) => only == namespace,
            // A cluster-scoped object is in no namespace.
            (None, _) | (_, None) => true,
        }
    }
}

/// Everything related to an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Related {
    pub owners: Vec<Link>,
    pub children: Vec<Link>,
    pub events: Vec<ObjectEvent>,
    pub plugins: Vec<Reconciler>,
    /// True if its last reconcile failed.
    #[serde(skip)]
    pub is_failing: bool,
    /// What the API server refused.
    pub forbidden: Vec<String>,
}

/// Reads what is related to an object. Whatever doesn't arrive in time is missing.
pub(super) async fn read(page: &Page, session: &Session, object: &Value) -> Related {
    let mut related = Related {
        owners: owners(page, object).await,
        ..Related::default()
    };
    let uid = text(&object["metadata"]["uid"]);
    if !uid.is_empty() {
        let namespace = object["metadata"]["namespace"].as_str();
        let (events, children) = tokio::join!(
            events(session, namespace, &uid),
            timeout(DEADLINE, children(page, session, namespace, &uid))
        );
        match events {
            Ok(events) => related.events = events,
            Err(error) => related.forbidden.push(error.status.message),
        }

        let (children, refused) = children.unwrap_or_default();
        related.children = children;
        related.forbidden.extend(refused);
    }
    related.plugins = reconcilers(page, session, object).await;
    related.is_failing = is_failing(page, session, object).await;

    related
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

async fn owners(page: &Page, object: &Value) -> Vec<Link> {
    let mut owners = Vec::new();
    let references = object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten();
    for reference in references.take(MAX_OWNERS) {
        let api_version = text(&reference["apiVersion"]);
        let kind = text(&reference["kind"]);
        let name = text(&reference["name"]);
        let discovery = &page.manager.context.cluster.discovery;

        let resource = discovery
            .resolve(&GroupVersionKind::new(&api_version, &kind))
            .await
            .ok();
        let plural = resource
            .as_ref()
            .map(|resource| resource.plural.clone())
            .unwrap_or_default();
        let is_namespaced = resource.is_some_and(|resource| resource.namespaced);
        let namespace = if is_namespaced {
            text(&object["metadata"]["namespace"])
        } else {
            String::new()
        };

        let collection = Collection::of(&api_version, &plural).ok();
        let href = collection
            .map(|collection| collection.object_page(Some(&namespace), &name))
            .unwrap_or_default();
        owners.push(Link {
            api_version,
            kind,
            namespace,
            name,
            plural,
            health: Health::Unknown,
            href,
        });
    }

    owners
}

/// Returns the collections to search for children, with their kinds.
fn searched(page: &Page, namespace: Option<&str>) -> BTreeMap<(String, String), String> {
    let fixed = KINDS.iter().map(|(version, kind, plural)| {
        (
            (*version).to_owned(),
            (*plural).to_owned(),
            (*kind).to_owned(),
        )
    });

    let watched = page
        .manager
        .context
        .cluster
        .registry
        .running()
        .into_iter()
        .filter_map(|informer| {
            let resource = &informer.resource;
            // A namespaced object can own only objects in its namespace.
            let may_be_owned = namespace.is_none() || resource.namespaced;
            may_be_owned.then(|| {
                (
                    resource.kind.api_version.clone(),
                    resource.plural.clone(),
                    resource.kind.kind.clone(),
                )
            })
        });
    let all = fixed
        .chain(watched)
        .map(|(version, plural, kind)| ((version, plural), kind));
    all.take(MAX_KINDS).collect()
}

async fn children(
    page: &Page,
    session: &Session,
    namespace: Option<&str>,
    uid: &str,
) -> (Vec<Link>, Vec<String>) {
    let mut found = Vec::new();
    let mut refused = Vec::new();
    // One list after another, because each may be of megabytes.
    let seat = page.lists.begin(&session.user).await;
    for ((api_version, plural), kind) in searched(page, namespace) {
        let Ok(collection) = Collection::of(&api_version, &plural) else {
            continue;
        };
        let Ok(url) = collection.url(namespace) else {
            continue;
        };
        let read = Read {
            path: &url,
            parameters: &[("limit", LIMIT)],
            accept: METADATA,
        };
        match session.api.read(read, MAX_LIST).await {
            Ok(list) => found.extend(
                owned(list, uid.to_owned())
                    .await
                    .into_iter()
                    .map(|name| (collection.clone(), kind.clone(), name)),
            ),
            Err(error) if error.status.code == 403 => refused.push(error.status.message),
            // For example, the kind is no longer served.
            Err(_) => {}
        }
        if found.len() >= MAX_CHILDREN {
            break;
        }
    }
    drop(seat);
    found.truncate(MAX_CHILDREN);

    let links = found.into_iter().enumerate().map(
        |(at, (collection, kind, (namespace, name)))| async move {
            let health = match at < MAX_HEALTH {
                true => read_health(session, &collection, &namespace, &name)
                    .await
                    .unwrap_or(Health::Unknown),
                false => Health::Unknown,
            };
            let href = collection.object_page(Some(&namespace), &name);
            Link {
                api_version: collection.api_version(),
                kind,
                namespace,
                name,
                plural: collection.plural,
                health,
                href,
            }
        },
    );
    (
        stream::iter(links).buffered(AT_ONCE).collect().await,
        refused,
    )
}

/// What is read of a list, however much there is.
#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    namespace: String,
    name: String,
    #[serde(default)]
    owner_references: Vec<OwnerUid>,
}

#[derive(Deserialize)]
struct OwnerUid {
    uid: String,
}

/// Returns the namespaces and names of the items of a list that an object owns. Parses beside the
/// tasks that renew the Lease.
async fn owned(list: String, uid: String) -> Vec<(String, String)> {
    let parsed = tokio::task::spawn_blocking(move || {
        let List { items } = serde_json::from_str(&list).ok()?;
        let is_owned = |item: &Item| {
            let mut owners = item.metadata.owner_references.iter();
            owners.any(|owner| owner.uid == uid)
        };
        let owned = items.into_iter().filter(is_owned);
        let names = owned.map(|item| (item.metadata.namespace, item.metadata.name));
        Some(names.collect())
    });
    parsed.await.ok().flatten().unwrap_or_default()
}

async fn read_health(
    session: &Session,
    collection: &Collection,
    namespace: &str,
    name: &str,
) -> Option<Health> {
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    let url = collection.object_url(namespace, name).ok()?;
    let read = Read {
        path: &url,
        parameters: &[],
        accept: "application/json",
    };
    let text = session.api.read(read, MAX_LIST).await.ok()?;
    Some(health(&serde_json::from_str(&text).ok()?))
}

/// Returns an object's Events, newest first.
async fn events(
    session: &Session,
    namespace: Option<&str>,
    uid: &str,
) -> Result<Vec<ObjectEvent>, ApiError> {
    let path = format!(
        "/api/v1/namespaces/{}/events",
        namespace.unwrap_or("default")
    );
    let fields = format!("involvedObject.uid={uid}");
    let read = Read {
        path: &path,
        parameters: &[("fieldSelector", &fields), ("limit", "100")],
        accept: "application/json",
    };
    let list: Value =
        serde_json::from_str(&session.api.read(read, MAX_LIST).await?).unwrap_or_default();

    let mut events: Vec<_> = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(event)
        .collect();
    events.sort_by(|one, other| other.last.cmp(&one.last));

    Ok(events)
}

fn event(event: &Value) -> ObjectEvent {
    let first_of = |values: &[&Value]| {
        values
            .iter()
            .find_map(|value| value.as_str())
            .unwrap_or_default()
            .to_owned()
    };

    let series = &event["series"];
    ObjectEvent {
        type_: text(&event["type"]),
        reason: text(&event["reason"]),
        message: text(&event["message"]),
        count: series["count"]
            .as_u64()
            .or(event["count"].as_u64())
            .unwrap_or(1),
        last: first_of(&[
            &series["lastObservedTime"],
            &event["lastTimestamp"],
            &event["eventTime"],
            &event["metadata"]["creationTimestamp"],
        ]),
        from: first_of(&[&event["reportingComponent"], &event["source"]["component"]]),
    }
}

async fn is_failing(page: &Page, session: &Session, object: &Value) -> bool {
    let kind = GroupVersionKind::new(text(&object["apiVersion"]), text(&object["kind"]));
    let failing = failing::of_kind(page, session, &kind)
        .await
        .unwrap_or_default();
    let metadata = &object["metadata"];
    failing.has(
        metadata["namespace"].as_str().unwrap_or_default(),
        metadata["name"].as_str().unwrap_or_default(),
    )
}

/// Returns the controllers that get the object, of those Plugins the user may see.
async fn reconcilers(page: &Page, session: &Session, object: &Value) -> Vec<Reconciler> {
    let kind = GroupVersionKind::new(text(&object["apiVersion"]), text(&object["kind"]));
    let metadata = &object["metadata"];
    let key = &ObjectKey {
        namespace: metadata["namespace"].as_str().map(str::to_owned),
        name: text(&metadata["name"]),
    };
    let cluster = &page.manager.context.cluster;
    let Ok(resource) = cluster.discovery.resolve(&kind).await else {
        return Vec::new();
    };
    let resource = &*resource;

    let kind = kind.to_string();
    let found: Vec<_> = summaries::objects(&page.manager)
        .iter()
        .flat_map(|plugin| candidates(plugin, &kind))
        .filter(|candidate| candidate.covers(key))
        .collect();
    let namespaces = found
        .iter()
        .map(|candidate| candidate.reconciler.namespace.clone())
        .collect();
    let Ok(visible) = Visible::of(page, session, namespaces).await else {
        return Vec::new();
    };
    let (mut found, _hidden) = visible.split(found, |candidate| &candidate.reconciler.namespace);

    // Where a tenant has its own Plugin, it is among those that are reviewed.
    found.sort_by_key(|candidate| {
        key.namespace.as_deref() != Some(&*candidate.reconciler.namespace)
    });
    let reviews = stream::iter(found.into_iter().take(MAX_REVIEWED)).map(|candidate| async move {
        let grants = cluster.grants.of(candidate.account);
        // Without an answer, nothing is known to reach the object.
        let is_seen = may_see(resource, key, &grants).await.unwrap_or(false);
        is_seen.then_some(candidate.reconciler)
    });
    let reviewed = timeout(DEADLINE, reviews.buffered(AT_ONCE).collect::<Vec<_>>()).await;

    reviewed.unwrap_or_default().into_iter().flatten().collect()
}

/// Returns a Plugin's controllers for a kind; none without a ServiceAccount, because it doesn't run
/// then.
fn candidates(plugin: &Object, kind: &str) -> Vec<Candidate> {
    let shown = ShownPlugin::read(plugin);
    let Some(account) = shown.service_account() else {
        return Vec::new();
    };
    let key = plugin.key();
    let namespace = key.namespace.clone().unwrap_or_default();
    let account = ServiceAccount {
        namespace: namespace.clone(),
        name: account.to_owned(),
    };

    let controllers = shown.status.controllers.into_iter();
    let of_kind = controllers.filter(|controller| controller.for_ == kind);
    of_kind
        .map(|controller| Candidate {
            reconciler: Reconciler {
                namespace: namespace.clone(),
                name: key.name.clone(),
                controller: controller.name,
            },
            only: controller.namespace,
            account: account.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use operetta_core::object::ManagedFields;
    use serde_json::json;

    use super::*;

    #[test]
    fn controller_covers_objects_of_its_kind_and_namespaces() {
        let plugin = json!({
            "metadata": {"namespace": "team", "name": "p"}, "spec": {"serviceAccountName": "plugin"},
            "status": {"controllers": [
                {"name": "own", "for": "Foo.example.com/v1", "namespace": "team"},
                {"name": "all", "for": "Foo.example.com/v1"},
                {"name": "others", "for": "Bar.example.com/v1"},
            ]},
        });
        let read = |plugin: &Value| {
            let kind = GroupVersionKind::new("operetta.dev/v1alpha1", "Plugin");
            Object::from_json(&plugin.to_string(), &kind, ManagedFields::Drop).expect("an object")
        };
        let found = candidates(&read(&plugin), "Foo.example.com/v1");
        let of = |object: &ObjectKey| -> Vec<String> {
            let covering = found.iter().filter(|candidate| candidate.covers(object));
            covering
                .map(|candidate| candidate.reconciler.controller.clone())
                .collect()
        };

        assert_eq!(of(&ObjectKey::namespaced("team", "a")), ["own", "all"]);
        assert_eq!(of(&ObjectKey::namespaced("other", "a")), ["all"]);
        assert_eq!(of(&ObjectKey::cluster_scoped("a")), ["own", "all"]);
        assert!(
            found
                .iter()
                .all(|candidate| candidate.account.user() == "system:serviceaccount:team:plugin")
        );

        let mut without = plugin;
        without["spec"] = json!({});
        assert!(candidates(&read(&without), "Foo.example.com/v1").is_empty());
    }

    #[tokio::test]
    async fn children_are_those_with_the_owners_uid() {
        let list = json!({"items": [
            {"metadata": {"name": "a", "namespace": "n", "ownerReferences": [{"uid": "other"}, {"uid": "u"}]}},
            {"metadata": {"name": "b", "namespace": "n", "ownerReferences": [{"uid": "other"}]}},
            {"metadata": {"name": "c", "namespace": "n"}},
        ]});
        assert_eq!(
            owned(list.to_string(), "u".to_owned()).await,
            [("n".to_owned(), "a".to_owned())]
        );
        let none = owned("no list".to_owned(), "u".to_owned()).await;
        assert!(none.is_empty());
    }

    #[test]
    fn event_has_the_time_and_the_count_of_its_series() {
        let new = event(
            &json!({"reason": "R", "eventTime": "1", "series": {"count": 3, "lastObservedTime": "2"}, "reportingComponent": "c"}),
        );
        assert_eq!(
            (new.count, new.last.as_str(), new.from.as_str()),
            (3, "2", "c")
        );

        let old = event(
            &json!({"count": 2, "lastTimestamp": "4", "eventTime": null, "source": {"component": "s"}, "reportingComponent": null}),
        );
        assert_eq!(
            (old.count, old.last.as_str(), old.from.as_str()),
            (2, "4", "s")
        );
    }
}
