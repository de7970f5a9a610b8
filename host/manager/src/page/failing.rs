//! The objects of a kind whose reconciles fail. They are unhealthy, whatever their own status says:
//! many kinds have none.
//!
//! A replica knows the keys of the Plugins that it runs. The status of the others has only the number
//! of their failing keys; if there are any, the page asks the replicas that run them, with the user's
//! token.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{BuildHasher, Hash, RandomState},
    sync::Arc,
    time::Duration,
};

use axum::{
    Extension, Json,
    body::to_bytes,
    extract::{Path, State},
    http::Request,
};
use futures::future::join_all;
use operetta_core::object::{ObjectKey, kind::GroupVersionKind};
use operetta_kube::client::own_token::FORWARDED;
use parking_lot::Mutex as SyncMutex;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::{Instant, timeout},
};

use super::{failure::Failure, rights::Visible, session::Session, state::Page};
use crate::admin::object_path::{self, CORE};

/// The most objects of a kind.
const MOST: usize = 10_000;
/// How often the failing objects of a kind are looked up while somebody looks at its table.
pub(super) const EVERY: Duration = Duration::from_secs(2);
/// Timeout of another replica's answer.
const ANSWER: Duration = Duration::from_millis(500);
/// The longest answer of another replica, in bytes.
const MAX_ANSWER: usize = 4 << 20;

/// The failing objects of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failing {
    /// Each as `NAMESPACE/NAME`; `/NAME` if it is cluster-scoped.
    objects: BTreeSet<String>,
}

impl Failing {
    /// Reports whether an object fails. `namespace` is empty for a cluster-scoped one.
    pub(super) fn has(&self, namespace: &str, name: &str) -> bool {
        !self.objects.is_empty() && self.objects.contains(&format!("{namespace}/{name}"))
    }

    fn add(&mut self, objects: impl IntoIterator<Item = String>) {
        let room = MOST.saturating_sub(self.objects.len());
        self.objects.extend(objects.into_iter().take(room));
    }
}

impl FromIterator<ObjectKey> for Failing {
    fn from_iter<I: IntoIterator<Item = ObjectKey>>(keys: I) -> Self {
        let path = |key: ObjectKey| format!("{}/{}", key.namespace.unwrap_or_default(), key.name);
        let mut failing = Self::default();
        failing.add(keys.into_iter().map(path));
        failing
    }
}

/// What the other replicas have answered. All open tables of a kind share one question to them in
/// [`EVERY`], but only those of one user: each replica names the objects of Plugins that the user may
/// see.
#[derive(Default)]
pub(super) struct Answers {
    /// Hashes tokens, so that none stays in memory.
    hasher: [RandomState; 2],
    by_question: SyncMutex<HashMap<Question, Arc<Mutex<Option<Answer>>>>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Question {
    kind: GroupVersionKind,
    user: [u64; 2],
}

struct Answer {
    at: Instant,
    failing: Failing,
}

impl Answer {
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < EVERY
    }
}

impl Answers {
    fn question(&self, kind: &GroupVersionKind, token: &impl Hash) -> Question {
        let [one, other] = &self.hasher;
        Question {
            kind: kind.clone(),
            user: [one.hash_one(token), other.hash_one(token)],
        }
    }

    /// Returns the answer to a question, and asks with `ask` if there is no fresh one. Whoever comes
    /// meanwhile waits for it.
    async fn answer(&self, question: Question, ask: impl Future<Output = Failing>) -> Failing {
        let kept = self.kept(question);
        let mut kept = kept.lock().await;
        if let Some(fresh) = kept.as_ref().filter(|answer| answer.is_fresh()) {
            return fresh.failing.clone();
        }

        let failing = ask.await;
        *kept = Some(Answer {
            at: Instant::now(),
            failing: failing.clone(),
        });
        failing
    }

    /// Returns the place of an answer, and forgets the old answers to others.
    fn kept(&self, question: Question) -> Arc<Mutex<Option<Answer>>> {
        let mut all = self.by_question.lock();
        all.retain(|_, kept| {
            let is_awaited = Arc::strong_count(kept) > 1;
            let is_fresh =
                |kept: MutexGuard<'_, Option<Answer>>| kept.as_ref().is_some_and(Answer::is_fresh);
            is_awaited || kept.try_lock().is_ok_and(is_fresh)
        });
        all.entry(question).or_default().clone()
    }
}

/// Returns the failing objects of a kind, of all Plugins that the user may see. Those of a replica
/// that doesn't answer are missing.
pub(super) async fn of_kind(
    page: &Page,
    session: &Session,
    kind: &GroupVersionKind,
) -> Result<Failing, Failure> {
    let mut failing = here(page, session, kind).await?;
    let asker = session.asker(page);
    let question = page.failing.question(kind, &asker.credentials());
    let asked = elsewhere(page, session, kind);
    failing.add(page.failing.answer(question, asked).await.objects);

    Ok(failing)
}

/// Asks the other replicas.
async fn elsewhere(page: &Page, session: &Session, kind: &GroupVersionKind) -> Failing {
    let replicas = other_replicas(page, kind).await;
    let answers = replicas
        .into_iter()
        .map(|identity| async move { of_replica(page, session, &identity, kind).await });

    let mut failing = Failing::default();
    for answer in join_all(answers).await {
        failing.add(answer.objects);
    }
    failing
}

/// Returns those of the Plugins that this replica runs.
async fn here(page: &Page, session: &Session, kind: &GroupVersionKind) -> Result<Failing, Failure> {
    let hosted = page.manager.hosted_plugins.all().into_iter();
    let found: Vec<(ObjectKey, Vec<ObjectKey>)> = hosted
        .filter(|(_, hosted)| hosted.is_owner())
        .map(|(plugin, hosted)| (plugin, hosted.health.failing_objects(kind)))
        .filter(|(_, keys)| !keys.is_empty())
        .collect();
    if found.is_empty() {
        return Ok(Failing::default());
    }

    let namespaces = found
        .iter()
        .filter_map(|(plugin, _)| plugin.namespace.clone())
        .collect();
    let visible = Visible::of(page, session, namespaces).await?;
    let (found, _hidden) = visible.split(found, |(plugin, _)| {
        plugin.namespace.as_deref().unwrap_or_default()
    });

    Ok(found.into_iter().flat_map(|(_, keys)| keys).collect())
}

/// Returns the other replicas that run Plugins with failing keys of a kind.
async fn other_replicas(page: &Page, kind: &GroupVersionKind) -> BTreeSet<String> {
    let own = page.manager.replicas.identity();
    let all = page.summaries.latest(&page.manager).await;
    let failing = all
        .iter()
        .filter(|plugin| plugin.failing_kinds.iter().any(|of| is_kind(of, kind)));
    failing
        .flat_map(|plugin| &plugin.runs_on)
        .filter(|identity| *identity != own)
        .cloned()
        .collect()
}

/// Reports whether `Kind.group/version`, as in a status, is this kind in any version.
fn is_kind(text: &str, kind: &GroupVersionKind) -> bool {
    text.split_once('.').is_some_and(|(name, api_version)| {
        name == kind.kind && GroupVersionKind::new(api_version, name).group() == kind.group()
    })
}

/// Asks another replica, which checks the user's permissions itself.
async fn of_replica(
    page: &Page,
    session: &Session,
    identity: &str,
    kind: &GroupVersionKind,
) -> Failing {
    let asked = async {
        let forwarder = page.forwarder.as_deref()?;
        let group = Some(kind.group()).filter(|group| !group.is_empty());
        let mut request = Request::get(format!(
            "/page/api/failing/{}/{}/{}",
            group.unwrap_or(CORE),
            kind.version(),
            kind.kind
        ));
        let asker = session.asker(page);
        if let Some(token) = asker.credentials() {
            request = request.header(FORWARDED, token.clone());
        }

        let (head, ()) = request.body(()).ok()?.into_parts();
        let response = forwarder.send(identity, head).await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        let body = to_bytes(response.into_body(), MAX_ANSWER).await.ok()?;
        serde_json::from_slice(&body).ok()
    };
    timeout(ANSWER, asked)
        .await
        .ok()
        .flatten()
        .unwrap_or_default()
}

/// Serves `/page/api/failing/GROUP/VERSION/KIND` to other replicas: what this one knows.
pub(super) async fn api(
    State(page): State<Arc<Page>>,
    Extension(session): Extension<Session>,
    Path((group, version, kind)): Path<(String, String, String)>,
) -> Result<Json<Failing>, Failure> {
    let kind = GroupVersionKind::new(object_path::api_version(&group, &version), kind);
    Ok(Json(here(&page, &session, &kind).await?))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::sleep;

    use super::*;

    #[test]
    fn object_is_found_by_namespace_and_name() {
        let keys = [
            ObjectKey::namespaced("n", "a"),
            ObjectKey::cluster_scoped("c"),
        ];
        let failing: Failing = keys.into_iter().collect();
        assert!(failing.has("n", "a") && failing.has("", "c"));
        assert!(!failing.has("", "a") && !failing.has("n", "c"));

        let sent = serde_json::to_string(&failing).expect("JSON");
        assert_eq!(sent, r#"{"objects":["/c","n/a"]}"#);
        assert_eq!(
            serde_json::from_str::<Failing>(&sent).expect("an answer"),
            failing
        );
    }

    #[tokio::test(start_paused = true)]
    async fn tables_of_one_user_share_a_question() {
        let answers = Answers::default();
        let foo = GroupVersionKind::new("example.com/v1", "Foo");
        let asked = AtomicUsize::new(0);
        let ask = async || {
            // A second table is opened meanwhile.
            sleep(EVERY / 4).await;
            asked.fetch_add(1, Ordering::Relaxed);
            Failing::from_iter([ObjectKey::namespaced("n", "a")])
        };
        let of = async |user: &str| {
            let question = answers.question(&foo, &user);
            let failing = answers.answer(question, ask()).await;
            assert!(failing.has("n", "a"));
        };

        tokio::join!(of("one"), of("one"), of("another"));
        of("one").await;
        assert_eq!(asked.load(Ordering::Relaxed), 2, "one for each user");
        assert_eq!(answers.by_question.lock().len(), 2);

        sleep(EVERY).await;
        of("one").await;
        assert_eq!(asked.load(Ordering::Relaxed), 3, "asked again");
        assert_eq!(answers.by_question.lock().len(), 1, "the other has left");
    }

    #[test]
    fn objects_are_bounded() {
        let keys = (0..MOST + 1).map(|number| ObjectKey::cluster_scoped(number.to_string()));
        let mut failing: Failing = keys.collect();
        failing.add(["n/another".to_owned()]);
        assert_eq!(failing.objects.len(), MOST);
    }

    #[test]
    fn kind_of_a_status_is_the_same_in_any_version() {
        let foo = GroupVersionKind::new("example.com/v1", "Foo");
        assert!(is_kind("Foo.example.com/v1", &foo) && is_kind("Foo.example.com/v2", &foo));
        assert!(!is_kind("Foo.other.com/v1", &foo) && !is_kind("Bar.example.com/v1", &foo));

        let pod = GroupVersionKind::new("v1", "Pod");
        assert!(is_kind("Pod.v1", &pod) && !is_kind("Pod", &pod));
    }
}
