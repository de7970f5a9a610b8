//! What the host's own writes do to the objects of an informer, and asking the API server when
//! neither the watch nor an answer shows it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{StreamExt, TryStreamExt, future::join, stream};
use http::Request;
use operetta_core::{
    object::{Object, ObjectKey, selector::of_name},
    status::{ApiError, ErrorKind},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use super::{Cache, Informer, frames::read_item, list::ListMeta};
use crate::{
    client::api_client::{ApiClient, query},
    store::{
        cache::Unknown,
        overlay::{Author, Until},
    },
};

/// How long a read waits for the watch before it asks the API server. Usually the watch has the
/// change within a few milliseconds.
const WATCH_FIRST: Duration = Duration::from_millis(20);

/// Same as [`WATCH_FIRST`], if there are many objects to ask for, as after deleting a collection.
const WATCH_FIRST_OF_MANY: Duration = Duration::from_secs(2);

/// From how many objects on we call it many.
const MANY: usize = 16;

/// How many objects are asked for at once.
const AT_ONCE: usize = 8;

/// Timeout of asking for one object, or for one page of a list.
const DEADLINE: Duration = Duration::from_secs(5);

/// Objects per page of a list of metadata.
const PAGE: usize = 500;

/// What the answer to a write tells about one object, or about a collection.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// It is now as in the answer.
    Stored(Arc<Object>),
    /// It is deleted for good.
    Deleted {
        key: ObjectKey,
        /// Empty if the answer has none.
        uid: String,
        /// A resourceVersion of this incarnation, if the answer has one.
        existed: Option<u64>,
        /// When the request was sent.
        sent: Instant,
    },
    /// It has changed, or may have, but the answer does not show how.
    Changed { key: ObjectKey, until: Until },
    /// Objects of a namespace, or of all, have changed, or may have, and nobody knows which.
    Collection {
        namespace: Option<String>,
        /// False if the write may not have reached the API server.
        certain: bool,
    },
}

impl Effect {
    /// Where the objects are; None for all namespaces, and for cluster-scoped objects.
    pub(super) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Stored(object) => object.key().namespace.as_deref(),
            Self::Deleted { key, .. } | Self::Changed { key, .. } => key.namespace.as_deref(),
            Self::Collection { namespace, .. } => namespace.as_deref(),
        }
    }
}

impl Informer {
    /// Makes sure a read shows all writes of the author answered so far: to the object called
    /// `name`, or to all objects in a namespace (or in all). Nearly always the cache shows them,
    /// and this returns right away. Otherwise it waits a moment for the watch, if that is going to
    /// show the objects concerned, and then asks the API server. If nobody knows which objects a
    /// write concerned, a list of their metadata comes first. Nobody else waits.
    ///
    /// # Errors
    /// The API server's error, if it has to be asked and cannot be.
    pub(crate) async fn show_own_writes(
        &self,
        api_client: &ApiClient,
        author: Author,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<(), ApiError> {
        let unknown = || self.cache.unknown(author, namespace, name);
        let first = unknown();
        if first.is_empty() {
            return Ok(());
        }

        for namespace in &first.by_list {
            self.find_written(api_client, author, namespace.as_deref())
                .await?;
        }
        let Unknown {
            by_watch,
            by_question,
            ..
        } = unknown();

        let patience = if by_watch.len() < MANY {
            WATCH_FIRST
        } else {
            WATCH_FIRST_OF_MANY
        };
        let watched = async {
            loop {
                let caught_up = self.cache.overlay.caught_up();
                if unknown().by_watch.is_empty() {
                    return;
                }
                caught_up.await;
            }
        };
        let (asked, _shown_or_late) = join(
            self.ask_for_all(api_client, by_question),
            timeout(patience, watched),
        )
        .await;
        asked?;

        // Those of which the watch is late, or of which another write has made a question.
        let Unknown {
            by_watch,
            by_question,
            ..
        } = unknown();
        let rest = [by_watch, by_question].concat();
        self.ask_for_all(api_client, rest).await
    }

    /// Asks the API server which objects of a namespace, or of all, the author's writes without
    /// names may have changed. The list is of the whole namespace, whatever the write selected: an
    /// object may have got its labels after the watch's last event, and lost them since.
    async fn find_written(
        &self,
        api_client: &ApiClient,
        author: Author,
        namespace: Option<&str>,
    ) -> Result<(), ApiError> {
        let Cache { overlay, store, .. } = &self.cache;
        let Some(turn) = overlay.turn(author, namespace) else {
            return Ok(());
        };
        let _turn = turn.lock().await;
        if overlay.turn(author, namespace).is_none() {
            // Another read of the author has listed it meanwhile.
            return Ok(());
        }

        let began = Instant::now();
        match self.list_versions(api_client, namespace).await {
            Ok((at, objects)) => {
                overlay.listed(author, namespace, began, at, &objects, store);
                Ok(())
            }
            // If nothing is known to have changed, the old states will do.
            Err(_) if overlay.gave_up_listing(author, namespace) => Ok(()),
            Err(mut error) => {
                let location = namespace
                    .map(|namespace| format!(" in namespace {namespace:?}"))
                    .unwrap_or_default();
                error.status.message = format!(
                    "the cache does not have this plugin's last write of {}{location} yet, and asking the API server failed: {}",
                    self.resource.plural, error.status.message
                );
                Err(error)
            }
        }
    }

    /// Lists the metadata of a namespace, or of all, in this informer's view. Returns the list's
    /// resourceVersion and those of its objects.
    async fn list_versions(
        &self,
        api_client: &ApiClient,
        namespace: Option<&str>,
    ) -> Result<(u64, BTreeMap<ObjectKey, u64>), ApiError> {
        #[derive(Deserialize)]
        struct List {
            metadata: ListMeta,
            items: Option<Vec<Item>>,
        }

        #[derive(Deserialize)]
        struct Item {
            metadata: ItemMeta,
        }

        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ItemMeta {
            namespace: Option<String>,
            name: String,
            resource_version: String,
        }

        let mut objects = BTreeMap::new();
        let mut token = String::new();
        loop {
            let text = timeout(
                DEADLINE,
                api_client.send(self.metadata_page(namespace, &token)?),
            )
            .await
            .unwrap_or_else(|_| Err(unanswered()))?;
            let page: List =
                serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;

            for Item { metadata } in page.items.into_iter().flatten() {
                let revision = revision(&metadata.resource_version)?;
                let key = ObjectKey {
                    namespace: metadata.namespace,
                    name: metadata.name,
                };
                objects.insert(key, revision);
            }
            token = page.metadata.r#continue;
            if token.is_empty() {
                return Ok((revision(&page.metadata.resource_version)?, objects));
            }
        }
    }

    /// Requests a page of a list of metadata; an empty token requests the first.
    fn metadata_page(
        &self,
        namespace: Option<&str>,
        token: &str,
    ) -> Result<Request<Vec<u8>>, ApiError> {
        let page = PAGE.to_string();
        let mut parameters = vec![("limit", page.as_str())];
        let scope = [
            ("fieldSelector", self.scope.fields.as_str()),
            ("labelSelector", self.scope.labels.as_str()),
            ("continue", token),
        ];
        parameters.extend(scope.into_iter().filter(|(_, value)| !value.is_empty()));

        // An API server that has no such form of the kind sends whole objects.
        let accept =
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
        let namespace = namespace.or(self.scope.namespace.as_deref());
        get(
            self.resource.collection_path(namespace) + &query(&parameters),
            accept,
        )
    }

    /// Asks the API server for the states of objects in this informer's view.
    async fn ask_for_all(
        &self,
        api_client: &ApiClient,
        keys: Vec<ObjectKey>,
    ) -> Result<(), ApiError> {
        stream::iter(keys)
            .map(|key| self.ask_for(api_client, key))
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Asks the API server for one object's state in this informer's view.
    async fn ask_for(&self, api_client: &ApiClient, key: ObjectKey) -> Result<(), ApiError> {
        let began = Instant::now();
        let answer = async {
            let text = api_client.send(self.question(&key)?).await?;
            self.answer(&text, &key)
        };
        let answer = timeout(DEADLINE, answer)
            .await
            .unwrap_or_else(|_| Err(unanswered()));

        let Cache { overlay, store, .. } = &self.cache;
        match answer {
            Ok((at, object)) => {
                overlay.asked(&key, began, at, object, store);
                Ok(())
            }
            // If the object isn't known to have changed, its old state will do.
            Err(_) if overlay.gave_up(&key) => Ok(()),
            Err(mut error) => {
                error.status.message = format!(
                    "the cache does not have this plugin's last write of {} {key} yet, and asking the API server failed: {}",
                    self.resource.kind.kind, error.status.message
                );
                Err(error)
            }
        }
    }

    /// A list of one object: it needs no permission beyond the informer's own list and watch.
    fn question(&self, key: &ObjectKey) -> Result<Request<Vec<u8>>, ApiError> {
        let mut fields = of_name(&key.name);
        if !self.scope.fields.is_empty() {
            fields = format!("{fields},{}", self.scope.fields);
        }
        let mut parameters = vec![("fieldSelector", fields.as_str())];
        if !self.scope.labels.is_empty() {
            parameters.push(("labelSelector", &self.scope.labels));
        }

        let path = self.resource.collection_path(key.namespace.as_deref());
        let accept = if self.scope.metadata_only {
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        } else {
            "application/json"
        };
        get(path + &query(&parameters), accept)
    }

    /// Reads the answer to [`Self::question`]: its resourceVersion, and the object.
    fn answer(&self, text: &str, key: &ObjectKey) -> Result<(u64, Option<Arc<Object>>), ApiError> {
        #[derive(Deserialize)]
        struct List<'a> {
            metadata: ListMeta,
            #[serde(borrow, default)]
            items: Vec<&'a RawValue>,
        }

        let list: List<'_> =
            serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))?;
        let at = revision(&list.metadata.resource_version)?;
        let objects: Result<Vec<Object>, _> = list
            .items
            .iter()
            .map(|item| {
                read_item(
                    item.get().as_bytes(),
                    &self.resource.kind,
                    &self.cache.prune,
                )
            })
            .collect();
        let objects = objects.map_err(|object| self.decode_error(&object))?;
        let found = objects.into_iter().find(|object| object.key() == key);
        Ok((at, found.map(Arc::new)))
    }
}

fn get(uri: String, accept: &str) -> Result<Request<Vec<u8>>, ApiError> {
    Request::get(uri)
        .header(http::header::ACCEPT, accept)
        .body(Vec::new())
        .map_err(|error| ApiError::new(ErrorKind::BadRequest, error.to_string()))
}

/// Reads a resourceVersion. Since Kubernetes 1.35 they are numbers in all APIs.
fn revision(text: &str) -> Result<u64, ApiError> {
    text.parse()
        .map_err(|_| unreadable(format!("resourceVersion {text:?} is not a number")))
}

fn unreadable(why: String) -> ApiError {
    ApiError::new(ErrorKind::Other, why)
}

fn unanswered() -> ApiError {
    let message = format!("no response within {DEADLINE:?}");
    ApiError::new(ErrorKind::TimedOut, message)
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use http::Response;
    use kube::client::{Body, Client};
    use operetta_core::{
        handler::event::Event,
        object::{ManagedFields, kind::GroupVersionKind},
    };
    use parking_lot::Mutex;
    use tower::service_fn;

    use super::*;
    use crate::{
        client::api_client::Identity,
        discovery::ApiResource,
        informer::{Handler, Scope, Settings, Subscription, Timing},
        store::Packing,
    };

    /// An informer whose watch brings only what the test applies, and an API server that has no
    /// object.
    struct Stage {
        informer: Arc<Informer>,
        api_client: ApiClient,
        author: Author,
        /// The paths and queries of what the API server was asked.
        questions: Arc<Mutex<Vec<String>>>,
        /// How often the API server was asked.
        asked: Arc<AtomicUsize>,
    }

    impl Stage {
        fn new() -> Self {
            Self::with(
                200,
                r#"{"metadata": {"resourceVersion": "12"}, "items": []}"#,
            )
        }

        /// With an API server that answers every question like this.
        fn with(status: u16, answer: &'static str) -> Self {
            let asked = Arc::<AtomicUsize>::default();
            let counted = asked.clone();
            let questions = Arc::<Mutex<Vec<String>>>::default();
            let noted = questions.clone();
            let server = service_fn(move |request: Request<Body>| {
                counted.fetch_add(1, Ordering::Relaxed);
                noted.lock().push(request.uri().to_string());
                let mut response = Response::new(Body::from(answer.as_bytes().to_vec()));
                *response.status_mut() = status.try_into().expect("a status");
                std::future::ready(Ok::<_, Infallible>(response))
            });

            let resource = ApiResource {
                kind: GroupVersionKind::new("v1", "Pod"),
                plural: "pods".to_owned(),
                namespaced: true,
                subresources: vec![],
                watchable: true,
                former_plural: None,
            };
            let settings = Settings {
                timing: Timing::default(),
                packing: Packing::default(),
                recorder: None,
            };
            Self {
                informer: Informer::new(Arc::new(resource), Scope::everything(), settings),
                api_client: ApiClient::new(Client::new(server, "default"), &Identity::Host)
                    .expect("a client"),
                author: Author::unique(),
                questions,
                asked,
            }
        }

        fn wrote(&self, name: &str, until: Until) {
            let Cache { overlay, store, .. } = &self.informer.cache;
            let key = ObjectKey::namespaced("n", name);
            overlay.changed(&key, until, self.author, store);
        }

        fn note(&self, effect: &Effect) {
            let kind = &self.informer.resource.kind;
            self.informer.note(kind, effect, self.author);
        }

        /// Reads the namespace. Returns how long that waited, and how often it asked.
        async fn read(&self) -> (Duration, usize) {
            let (began, before) = (Instant::now(), self.asked.load(Ordering::Relaxed));
            self.informer
                .show_own_writes(&self.api_client, self.author, Some("n"), None)
                .await
                .expect("an answer");
            let asked = self.asked.load(Ordering::Relaxed) - before;
            (began.elapsed(), asked)
        }
    }

    /// A write without names, in a namespace or in any.
    fn without_names(namespace: Option<&str>, certain: bool) -> Effect {
        Effect::Collection {
            namespace: namespace.map(str::to_owned),
            certain,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_list_of_metadata_finds_what_writes_without_names_have_changed() {
        let stage = Stage::new();
        for _ in 0..3 {
            stage.note(&without_names(Some("n"), true));
        }

        let other = Author::unique();
        for (author, namespace) in [(other, "n"), (stage.author, "m")] {
            let read =
                stage
                    .informer
                    .show_own_writes(&stage.api_client, author, Some(namespace), None);
            read.await.expect("nothing to wait for");
        }
        assert_eq!(stage.asked.load(Ordering::Relaxed), 0, "nobody else waits");

        let (one, other) = tokio::join!(stage.read(), stage.read());
        assert_eq!((one.0, other.0), (Duration::ZERO, Duration::ZERO));
        assert_eq!(
            *stage.questions.lock(),
            ["/api/v1/namespaces/n/pods?limit=500"]
        );
        assert_eq!(stage.read().await, (Duration::ZERO, 0), "it is known now");

        stage.note(&without_names(None, true));
        assert_eq!(stage.read().await, (Duration::ZERO, 1));
        let last = stage.questions.lock().pop();
        assert_eq!(last.as_deref(), Some("/api/v1/pods?limit=500"));
    }

    #[tokio::test(start_paused = true)]
    async fn read_fails_if_the_list_does_unless_the_write_may_not_have_been_stored() {
        let status =
            r#"{"kind": "Status", "status": "Failure", "message": "etcd is down", "code": 500}"#;
        let stage = Stage::with(500, status);
        stage.note(&without_names(Some("n"), false));
        assert_eq!(stage.read().await, (Duration::ZERO, 1));
        assert_eq!(stage.read().await, (Duration::ZERO, 0), "it gave up");

        stage.note(&without_names(Some("n"), true));
        stage.note(&without_names(Some("n"), false));
        let read =
            stage
                .informer
                .show_own_writes(&stage.api_client, stage.author, Some("n"), Some("a"));
        let error = read.await.expect_err("an old state would be shown");
        let message = &error.status.message;
        assert!(
            message.contains("last write of pods in namespace \"n\""),
            "{message}"
        );
        assert!(message.contains("etcd is down"), "{message}");
    }

    fn pod(revision: u64, image: &str) -> Object {
        let text = format!(
            r#"{{"metadata":{{"namespace":"n","name":"a","uid":"u","resourceVersion":"{revision}"}},"spec":{{"image":"{image}"}}}}"#
        );
        let kind = GroupVersionKind::new("v1", "Pod");
        Object::from_json(&text, &kind, ManagedFields::Drop).expect("an object")
    }

    /// What a handler was delivered: the resourceVersions, with a minus for a deletion.
    #[derive(Clone, Default)]
    struct Delivered(Arc<Mutex<Vec<String>>>);

    impl Delivered {
        fn subscribe(&self, informer: &Arc<Informer>) -> Subscription {
            let delivered = self.0.clone();
            let handler: Handler = Arc::new(move |event: &Event| {
                let sign = if matches!(event, Event::Deleted { .. }) {
                    "-"
                } else {
                    ""
                };
                let version = event.object().resource_version();
                delivered.lock().push(format!("{sign}{version}"));
            });
            informer.subscribe(handler, None)
        }

        fn all(&self) -> Vec<String> {
            self.0.lock().clone()
        }
    }

    fn revision_read(stage: &Stage) -> Option<u64> {
        let key = ObjectKey::namespaced("n", "a");
        let object = stage.informer.cache.get(&key)?;
        object.revision()
    }

    /// JOSDK hid all events up to its own write: somebody changes the spec at 6, our update of the
    /// status is stored at 7 and answered first, and no reconcile followed the change at 6
    /// ([java-operator-sdk#3398]). It cannot happen here, because the overlay is for reads only: the
    /// watch delivers every change, whoever made it.
    ///
    /// [java-operator-sdk#3398]: https://github.com/operator-framework/java-operator-sdk/issues/3398
    #[tokio::test]
    async fn josdk_3398_change_of_another_before_an_own_write_is_delivered() {
        let stage = Stage::new();
        let informer = &stage.informer;
        informer.applied(pod(5, "old"), None);
        let delivered = Delivered::default();
        let _subscription = delivered.subscribe(informer);

        stage.note(&Effect::Stored(Arc::new(pod(7, "theirs"))));
        assert_eq!(revision_read(&stage), Some(7));

        informer.applied(pod(6, "theirs"), None);
        assert_eq!(delivered.all(), ["5", "6"]);
        assert_eq!(revision_read(&stage), Some(7), "reads don't go back");
        informer.applied(pod(7, "theirs"), None);
        assert_eq!(delivered.all(), ["5", "6", "7"], "the own write as well");
    }

    /// The first repair of #3398 recorded events while a write was under way, and lost those that a
    /// relist had merged ([java-operator-sdk#3399]): the list shows one state for the changes of
    /// others and our own. Here a relist is compared with the store, which has no own writes, so
    /// what differs is delivered; and an object that only the overlay knew is reported as deleted.
    ///
    /// [java-operator-sdk#3399]: https://github.com/operator-framework/java-operator-sdk/pull/3399
    #[tokio::test]
    async fn josdk_3399_changes_merged_by_a_relist_are_delivered() {
        let stage = Stage::new();
        let informer = &stage.informer;
        informer.applied(pod(5, "old"), None);
        let delivered = Delivered::default();
        let _subscription = delivered.subscribe(informer);

        // Theirs at 6, ours at 7, and a list instead of the events.
        stage.note(&Effect::Stored(Arc::new(pod(7, "theirs"))));
        let mut relist = informer.begin_relist();
        relist.add(Arc::new(pod(7, "theirs")));
        informer.relisted(Instant::now(), relist, "9");
        assert_eq!(delivered.all(), ["5", "7"]);
        assert_eq!(revision_read(&stage), Some(7));

        // Ours at 10, theirs at 11, which deletes it, and another list.
        stage.note(&Effect::Stored(Arc::new(pod(10, "ours"))));
        assert_eq!(revision_read(&stage), Some(10));
        let relist = informer.begin_relist();
        informer.relisted(Instant::now(), relist, "12");
        assert_eq!(delivered.all(), ["5", "7", "-7"]);
        assert_eq!(revision_read(&stage), None);

        // Ours is created at 13 and deleted by somebody at 14: no list has ever shown it.
        stage.note(&Effect::Stored(Arc::new(pod(13, "ours"))));
        let relist = informer.begin_relist();
        informer.relisted(Instant::now(), relist, "15");
        assert_eq!(delivered.all(), ["5", "7", "-7", "-13"]);
        assert_eq!(revision_read(&stage), None);
    }

    /// A write that changes nothing is answered with the object as it is, in the resourceVersion of
    /// somebody else's last change. JOSDK took the event of that change for its own and dropped it
    /// ([java-operator-sdk#3484]). Here it is delivered, and meanwhile shown to reads. (The hot-loop
    /// detector may take it for an echo, which counts, but drops nothing.)
    ///
    /// [java-operator-sdk#3484]: https://github.com/operator-framework/java-operator-sdk/pull/3484
    #[tokio::test]
    async fn josdk_3484_change_of_another_is_delivered_after_a_write_that_changed_nothing() {
        let stage = Stage::new();
        let informer = &stage.informer;
        informer.applied(pod(5, "old"), None);
        let delivered = Delivered::default();
        let _subscription = delivered.subscribe(informer);

        stage.note(&Effect::Stored(Arc::new(pod(6, "theirs"))));
        assert_eq!(revision_read(&stage), Some(6));
        informer.applied(pod(6, "theirs"), None);
        assert_eq!(delivered.all(), ["5", "6"]);
        assert!(informer.cache.overlay.is_empty());

        // The event may come before the answer.
        informer.applied(pod(7, "theirs again"), None);
        stage.note(&Effect::Stored(Arc::new(pod(7, "theirs again"))));
        assert_eq!(delivered.all(), ["5", "6", "7"]);
        assert!(informer.cache.overlay.is_empty());
    }

    const CERTAIN: Until = Until::Asked { certain: true };

    #[tokio::test(start_paused = true)]
    async fn read_after_an_eviction_does_not_wait_for_the_watch() {
        let stage = Stage::new();
        stage.wrote("a", CERTAIN);
        stage.wrote("b", Until::Asked { certain: false });
        assert_eq!(stage.read().await, (Duration::ZERO, 2));
        assert_eq!(stage.read().await, (Duration::ZERO, 0), "it is known now");

        for number in 0..2 * MANY {
            stage.wrote(&format!("evicted-{number}"), CERTAIN);
        }
        assert_eq!(stage.read().await, (Duration::ZERO, 2 * MANY));
    }

    #[tokio::test(start_paused = true)]
    async fn read_waits_for_a_watch_that_will_show_the_change() {
        let stage = Stage::new();
        stage.wrote("a", Until::Reached(7));
        stage.wrote("b", CERTAIN);
        assert_eq!(stage.read().await, (WATCH_FIRST, 2), "a silent watch");

        stage.wrote("a", Until::Reached(17));
        let reaches = async {
            tokio::time::sleep(WATCH_FIRST / 4).await;
            stage.informer.cache.overlay.passed(17);
        };
        let (read, ()) = tokio::join!(stage.read(), reaches);
        assert_eq!(read, (WATCH_FIRST / 4, 0));

        // What the watch would have shown becomes a question during the wait.
        stage.wrote("a", Until::Reached(27));
        let writes = async {
            tokio::time::sleep(WATCH_FIRST / 4).await;
            stage.wrote("a", CERTAIN);
        };
        let (read, ()) = tokio::join!(stage.read(), writes);
        assert_eq!(read, (WATCH_FIRST, 1));
    }
}
