//! What the host watches, as it says at /informers and `operetta informers` reads: each informer, how it does, and who uses
//! it.
//!
//! An informer hears of the API server's progress with each event and, when nothing happens, with a bookmark about once a
//! minute. So the view has both versions, the informer's and the API server's, and the time since it heard anything; whether
//! an informer that has not reached the API server's version misses something, only that time tells.
//!
//! Looking costs the API server one list of one object for each collection, at most every [`KEPT`].

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use operetta_core::object::ObjectKey;
use operetta_kube::{authz::probe, client::wire::Wire, informer::Informer};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::{manager::Host, plugin::slot::Slot};

/// How long the API server's versions are shown again.
const KEPT: Duration = Duration::from_secs(2);
/// Questions to the API server at the same time.
const AT_ONCE: usize = 4;
/// How long one answer may take.
const DEADLINE: Duration = Duration::from_secs(3);
/// How long all of them may.
const ALL: Duration = Duration::from_secs(10);
/// How long a plugin that is being looked at is waited for.
const BUSY: Duration = Duration::from_millis(500);
/// The user that is no plugin.
const HOST: &str = "host";

/// All informers of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Informers {
    /// By kind, namespace and selectors.
    pub informers: Vec<InformerView>,
    /// Plugins that are being set up right now: what they use is not in `users`.
    pub being_set_up: Vec<String>,
}

/// One informer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InformerView {
    /// As kubectl names it in full, e.g. `Deployment.apps/v1`.
    pub kind: String,
    /// None watches all.
    pub namespace: Option<String>,
    /// Empty selects all.
    pub label_selector: String,
    /// Empty selects all.
    pub field_selector: String,
    /// Whether it holds apiVersion, kind and metadata alone.
    pub metadata_only: bool,
    /// Whether it has had a full list.
    pub synced: bool,
    /// Objects it holds.
    pub objects: u64,
    /// Memory that these take.
    pub bytes: u64,
    /// Watch requests begun.
    pub watches: u64,
    /// Lists after the first one.
    pub relists: u64,
    /// Events that the watch has brought.
    pub events: u64,
    /// Since the last event or bookmark; None before the first.
    pub heard_seconds: Option<u64>,
    /// The highest resourceVersion that it has heard of.
    pub revision: u64,
    /// The API server's at this moment; None when it did not say.
    pub server_revision: Option<u64>,
    /// Whether `revision` has reached `serverRevision`; None when that is not known.
    pub current: Option<bool>,
    /// Plugins, as NAMESPACE/NAME, and `host` where the host itself uses it.
    pub users: Vec<String>,
    /// What the API server last said against it, while that is recent.
    pub error: Option<String>,
    /// Why there is no `serverRevision`.
    pub server_error: Option<String>,
}

/// A collection of the API server: its path, and the name that a field selector asks for.
type Collection = (String, String);
type Answers = HashMap<Collection, Result<u64, String>>;

/// What the API server said of its collections' versions.
#[derive(Default)]
pub struct ServerRevisions(
    /// Held while it is asked: who comes meanwhile gets the same answers.
    Mutex<Option<(Instant, Answers)>>,
);

/// What each informer is used for.
#[derive(Default)]
struct Users {
    plugins: Vec<String>,
    /// Subscriptions of these plugins.
    subscriptions: usize,
}

/// Looks at all informers, and asks the API server how far it is.
pub async fn of(host: &Host) -> Informers {
    let (users, being_set_up) = users(&host.slots()).await;
    let running = host.registry.running();
    let answers = host.server_revisions.ask(host, &running).await;
    let mut informers: Vec<_> = running
        .iter()
        .map(|informer| {
            let answer = answers.get(&collection(informer));
            let unknown = || Err("it was not asked in time".to_owned());
            view(informer, users.get(&address(informer)), answer.cloned().unwrap_or_else(unknown))
        })
        .collect();
    informers.sort_by(|one, other| order(one).cmp(&order(other)));
    Informers { informers, being_set_up }
}

fn order(view: &InformerView) -> impl Ord + '_ {
    (&view.kind, &view.namespace, &view.label_selector, &view.field_selector, view.metadata_only)
}

fn view(informer: &Informer, users: Option<&Users>, server: Result<u64, String>) -> InformerView {
    let (stats, state) = (informer.stats(), informer.state().borrow().clone());
    let (store, scope) = (&informer.cache.store, &informer.scope);
    let revision = store.revision();
    let plugins = users.map_or(&[][..], |users| &users.plugins);
    let hosts = plugins.is_empty() || stats.users > users.map_or(0, |users| users.subscriptions);
    let host = hosts.then(|| HOST.to_owned());
    let (server_revision, server_error) = match server {
        Ok(revision) => (Some(revision), None),
        Err(error) => (None, Some(error)),
    };
    InformerView {
        kind: informer.resource.kind.to_string(),
        namespace: scope.namespace.clone(),
        label_selector: scope.labels.clone(),
        field_selector: scope.fields.clone(),
        metadata_only: scope.metadata_only,
        synced: state.synced,
        objects: store.len() as u64,
        bytes: store.bytes() as u64,
        watches: stats.watches,
        relists: stats.relists,
        events: stats.events,
        heard_seconds: stats.heard.map(|heard| heard.elapsed().as_secs()),
        revision,
        server_revision,
        current: server_revision.map(|server| revision >= server),
        users: host.into_iter().chain(plugins.iter().cloned()).collect(),
        error: state.error,
        server_error,
    }
}

/// Who uses what, and the plugins that cannot be asked now.
async fn users(slots: &[(ObjectKey, Arc<Slot>)]) -> (HashMap<usize, Users>, Vec<String>) {
    let (mut users, mut busy) = (HashMap::<usize, Users>::new(), Vec::new());
    let mut slots: Vec<_> = slots.iter().collect();
    slots.sort_by(|(one, _), (other, _)| one.cmp(other));
    let end = tokio::time::Instant::now() + BUSY;
    for (key, slot) in slots {
        let Ok(state) = tokio::time::timeout_at(end, slot.state.lock()).await else {
            busy.push(key.to_string());
            continue;
        };
        let Some(running) = &state.running else { continue };
        let (watched, on_demand) = running.informers();
        let used: BTreeMap<usize, _> =
            watched.iter().chain(&on_demand).map(|informer| (address(informer), ())).collect();
        for informer in used.into_keys() {
            users.entry(informer).or_default().plugins.push(key.to_string());
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
    (informer.resource.collection_path(scope.namespace.as_deref()), scope.fields.clone())
}

impl ServerRevisions {
    async fn ask(&self, host: &Host, informers: &[Arc<Informer>]) -> Answers {
        let mut kept = self.0.lock().await;
        if let Some((_, answers)) = kept.as_ref().filter(|(at, _)| at.elapsed() < KEPT) {
            return answers.clone();
        }
        let collections = informers.iter().map(|informer| (collection(informer), informer.clone()));
        let collections: HashMap<Collection, Arc<Informer>> = collections.collect();
        let asked = collections.into_iter().map(|(collection, informer)| {
            let wire = host.api.wire().clone();
            async move { (collection, ask(&wire, &informer).await) }
        });
        let late = Box::pin(tokio::time::sleep(ALL));
        let answers: Answers = stream::iter(asked).buffer_unordered(AT_ONCE).take_until(late).collect().await;
        *kept = Some((Instant::now(), answers.clone()));
        answers
    }
}

async fn ask(wire: &Wire, informer: &Informer) -> Result<u64, String> {
    let revision = probe::revision(wire, &informer.resource, &informer.scope, DEADLINE).await;
    let revision = revision.map_err(|error| error.to_string())?;
    revision.parse().map_err(|_| format!("its resourceVersion {revision:?} is no number"))
}
