//! The host's informers, as served at /informers for `operetta informers`: each one's state and
//! users.
//!
//! An informer learns of the API server's progress from each event and, when nothing happens, from
//! a bookmark about once a minute. Being behind the API server's resourceVersion therefore doesn't
//! mean that events are missing. Only the time since the informer last received anything tells, so
//! the list has this time beside both resourceVersions.
//!
//! A list costs the API server one list of one object per collection, at most every two seconds.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use operetta_core::object::ObjectKey;
use operetta_kube::{authz::probe, client::api_client::ApiClient, informer::Informer};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::{
    cluster::Cluster,
    plugin::{hosted_plugin::HostedPlugin, hosted_plugins::HostedPlugins},
};

/// How long the API server's resourceVersions are cached.
const KEPT: Duration = Duration::from_secs(2);
/// The maximum number of concurrent requests to the API server.
const AT_ONCE: usize = 4;
const DEADLINE: Duration = Duration::from_secs(3);
/// The timeout of all requests together.
const TOTAL_DEADLINE: Duration = Duration::from_secs(10);
/// How long to wait for plugins being set up.
const BUSY: Duration = Duration::from_millis(500);
/// The host's name among the users of an informer.
const HOST: &str = "host";

/// All informers of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Informers {
    /// Sorted by kind, namespace and selectors.
    pub informers: Vec<InformerView>,
    /// Plugins being set up right now, and therefore missing in `users`.
    pub being_set_up: Vec<String>,
}

/// One informer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InformerView {
    /// The objects it watches.
    #[serde(flatten)]
    pub scope: InformerScope,
    /// True once its first list is complete.
    pub synced: bool,
    /// The objects in its cache, and its events.
    #[serde(flatten)]
    pub counts: InformerCounts,
    /// Its resourceVersion beside the API server's.
    #[serde(flatten)]
    pub lag: InformerLag,
    /// Its users: plugins as NAMESPACE/NAME, and `host` for the host itself.
    pub users: Vec<String>,
    /// The API server's last error, if recent.
    pub error: Option<String>,
}

/// The objects an informer watches.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InformerScope {
    /// The kind, such as `Deployment.apps/v1`.
    pub kind: String,
    /// The namespace; None for all.
    pub namespace: Option<String>,
    /// The label selector; empty selects all.
    pub label_selector: String,
    /// The field selector; empty selects all.
    pub field_selector: String,
    /// True if it keeps only apiVersion, kind and metadata.
    pub metadata_only: bool,
    /// True if it answers lists and watches of processes, which have an informer of their own beside
    /// that of plugins: with managedFields, and with the last events.
    pub for_processes: bool,
}

/// The objects in an informer's cache, and its events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InformerCounts {
    /// The number of cached objects.
    pub objects: u64,
    /// Their memory, in bytes.
    pub bytes: u64,
    /// The number of watch requests so far.
    pub watches: u64,
    /// The number of lists after the first one.
    pub relists: u64,
    /// The number of events received.
    pub events: u64,
    /// Seconds since the last event or bookmark; None before the first.
    pub heard_seconds: Option<u64>,
}

/// An informer's resourceVersion beside the API server's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InformerLag {
    /// The highest resourceVersion received.
    pub revision: u64,
    /// The API server's current resourceVersion; None if the request failed.
    pub server_revision: Option<u64>,
    /// True if `revision` has reached `serverRevision`; None if that is unknown.
    pub current: Option<bool>,
    /// Why there is no `serverRevision`.
    pub server_error: Option<String>,
}

/// The path of a collection, and its field selector.
type Collection = (String, String);
type Answers = HashMap<Collection, Result<u64, String>>;

/// The API server's current resourceVersions per collection, cached briefly.
#[derive(Default)]
pub struct ServerRevisions(
    /// Locked during the requests, so that concurrent callers share the responses.
    Mutex<Option<(Instant, Answers)>>,
);

/// The plugins that use an informer.
#[derive(Default)]
struct Users {
    plugins: Vec<String>,
    /// The number of their subscriptions.
    subscriptions: usize,
}

/// Lists all informers, with the API server's current resourceVersions.
pub async fn list(
    cluster: &Cluster,
    hosted_plugins: &HostedPlugins,
    revisions: &ServerRevisions,
) -> Informers {
    let (users, being_set_up) = users(&hosted_plugins.all()).await;
    let running = cluster.registry.running();
    let answers = revisions.request(cluster, &running).await;
    let mut informers: Vec<_> = running
        .iter()
        .map(|informer| {
            let answer = answers.get(&collection(informer));
            let unknown = || Err("the API server was not asked in time".to_owned());
            view(
                informer,
                users.get(&address(informer)),
                answer.cloned().unwrap_or_else(unknown),
            )
        })
        .collect();
    informers.sort_by(|one, other| one.scope.cmp(&other.scope));

    Informers {
        informers,
        being_set_up,
    }
}

fn view(informer: &Informer, users: Option<&Users>, server: Result<u64, String>) -> InformerView {
    let stats = informer.stats();
    let state = informer.state().borrow().clone();
    let store = &informer.cache.store;
    let scope = &informer.scope;
    let revision = store.revision();
    let plugins = users.map_or(&[][..], |users| &users.plugins);
    // The watches of processes count as users, too, and the host itself has none there.
    let hosts = !scope.for_processes
        && (plugins.is_empty() || stats.users > users.map_or(0, |users| users.subscriptions));
    let host = hosts.then(|| HOST.to_owned());

    let (server_revision, server_error) = match server {
        Ok(revision) => (Some(revision), None),
        Err(error) => (None, Some(error)),
    };
    InformerView {
        scope: InformerScope {
            kind: informer.resource.kind.to_string(),
            namespace: scope.namespace.clone(),
            label_selector: scope.labels.clone(),
            field_selector: scope.fields.clone(),
            metadata_only: scope.metadata_only,
            for_processes: scope.for_processes,
        },
        synced: state.synced,
        counts: InformerCounts {
            objects: store.len() as u64,
            bytes: store.bytes() as u64,
            watches: stats.watches,
            relists: stats.relists,
            events: stats.events,
            heard_seconds: stats.last_event.map(|at| at.elapsed().as_secs()),
        },
        lag: InformerLag {
            revision,
            server_revision,
            current: server_revision.map(|server| revision >= server),
            server_error,
        },
        users: host.into_iter().chain(plugins.iter().cloned()).collect(),
        error: state.error.or_else(|| informer.unreadable()),
    }
}

/// Returns the plugins that use each informer, and the plugins being set up.
async fn users(
    hosted_plugins: &[(ObjectKey, Arc<HostedPlugin>)],
) -> (HashMap<usize, Users>, Vec<String>) {
    let mut users = HashMap::<usize, Users>::new();
    let mut busy = Vec::new();
    let mut hosted_plugins: Vec<_> = hosted_plugins.iter().collect();
    hosted_plugins.sort_by(|(one, _), (other, _)| one.cmp(other));

    let end = tokio::time::Instant::now() + BUSY;
    for (key, hosted) in hosted_plugins {
        let Ok(state) = tokio::time::timeout_at(end, hosted.state.lock()).await else {
            busy.push(key.to_string());
            continue;
        };
        let Some(running) = &state.running else {
            continue;
        };

        let (watched, on_demand) = running.informers();
        let used: BTreeMap<usize, _> = watched
            .iter()
            .chain(&on_demand)
            .map(|informer| (address(informer), ()))
            .collect();
        for informer in used.into_keys() {
            users
                .entry(informer)
                .or_default()
                .plugins
                .push(key.to_string());
        }

        for informer in running.subscribed() {
            users.entry(address(informer)).or_default().subscriptions += 1;
        }
    }

    (users, busy)
}

fn address(informer: &Arc<Informer>) -> usize {
    Arc::as_ptr(informer) as usize
}

fn collection(informer: &Informer) -> Collection {
    let scope = &informer.scope;
    (
        informer
            .resource
            .collection_path(scope.namespace.as_deref()),
        scope.fields.clone(),
    )
}

impl ServerRevisions {
    async fn request(&self, cluster: &Cluster, informers: &[Arc<Informer>]) -> Answers {
        let mut kept = self.0.lock().await;
        if let Some((_, answers)) = kept.as_ref().filter(|(at, _)| at.elapsed() < KEPT) {
            return answers.clone();
        }

        let collections = informers
            .iter()
            .map(|informer| (collection(informer), informer.clone()));
        let collections: HashMap<Collection, Arc<Informer>> = collections.collect();
        let requests = collections.into_iter().map(|(collection, informer)| {
            let api_client = cluster.api.api_client().clone();
            async move { (collection, request(&api_client, &informer).await) }
        });
        let late = Box::pin(tokio::time::sleep(TOTAL_DEADLINE));

        let answers: Answers = stream::iter(requests)
            .buffer_unordered(AT_ONCE)
            .take_until(late)
            .collect()
            .await;
        *kept = Some((Instant::now(), answers.clone()));

        answers
    }
}

async fn request(api_client: &ApiClient, informer: &Informer) -> Result<u64, String> {
    let revision = probe::revision(api_client, &informer.resource, &informer.scope, DEADLINE).await;
    let revision = revision.map_err(|error| error.to_string())?;
    revision
        .parse()
        .map_err(|_| format!("its resourceVersion {revision:?} is not a number"))
}
