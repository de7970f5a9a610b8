//! What the host's own writes do to the objects of an informer, and asking the API server when
//! neither the watch nor an answer shows it.

use std::{sync::Arc, time::Duration};

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

/// Timeout of asking for one object.
const DEADLINE: Duration = Duration::from_secs(5);

/// What the answer to a write tells about one object.
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
}

impl Effect {
    pub(super) fn key(&self) -> &ObjectKey {
        match self {
            Self::Stored(object) => object.key(),
            Self::Deleted { key, .. } | Self::Changed { key, .. } => key,
        }
    }
}

impl Informer {
    /// Makes sure a read shows all writes of the author answered so far: to the object called
    /// `name`, or to all objects in a namespace (or in all). Nearly always the cache shows them,
    /// and this returns right away. Otherwise it waits a moment for the watch, if that is going to
    /// show the objects concerned, and then asks the API server. Nobody else waits.
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
        let Unknown {
            by_watch,
            by_question,
        } = unknown();
        if by_watch.is_empty() && by_question.is_empty() {
            return Ok(());
        }

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
        } = unknown();
        let rest = [by_watch, by_question].concat();
        self.ask_for_all(api_client, rest).await
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
        let unanswered = |_| {
            let message = format!("no response within {DEADLINE:?}");
            Err(ApiError::new(ErrorKind::TimedOut, message))
        };
        let answer = timeout(DEADLINE, answer).await.unwrap_or_else(unanswered);

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
        Request::get(path + &query(&parameters))
            .header(http::header::ACCEPT, accept)
            .body(Vec::new())
            .map_err(|error| ApiError::new(ErrorKind::BadRequest, error.to_string()))
    }

    /// Reads the answer to [`Self::question`]: its resourceVersion, and the object.
    fn answer(&self, text: &str, key: &ObjectKey) -> Result<(u64, Option<Arc<Object>>), ApiError> {
        #[derive(Deserialize)]
        struct List<'a> {
            metadata: ListMeta,
            #[serde(borrow, default)]
            items: Vec<&'a RawValue>,
        }

        let unreadable = |why: String| ApiError::new(ErrorKind::Other, why);
        let list: List<'_> =
            serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))?;
        let revision = &list.metadata.resource_version;
        let at = revision
            .parse()
            .map_err(|_| unreadable(format!("resourceVersion {revision:?} is not a number")))?;
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

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use http::Response;
    use kube::client::{Body, Client};
    use operetta_core::object::kind::GroupVersionKind;
    use tower::service_fn;

    use super::*;
    use crate::{
        client::api_client::Identity,
        discovery::ApiResource,
        informer::{Scope, Settings, Timing},
        store::Packing,
    };

    /// An informer whose watch brings nothing, and an API server that has no object.
    struct Stage {
        informer: Arc<Informer>,
        api_client: ApiClient,
        author: Author,
        /// How often the API server was asked.
        asked: Arc<AtomicUsize>,
    }

    impl Stage {
        fn new() -> Self {
            let asked = Arc::<AtomicUsize>::default();
            let counted = asked.clone();
            let server = service_fn(move |_: Request<Body>| {
                counted.fetch_add(1, Ordering::Relaxed);
                let none = r#"{"metadata": {"resourceVersion": "12"}, "items": []}"#;
                let answer = Response::new(Body::from(none.as_bytes().to_vec()));
                std::future::ready(Ok::<_, Infallible>(answer))
            });

            let resource = ApiResource {
                kind: GroupVersionKind::new("v1", "Pod"),
                plural: "pods".to_owned(),
                namespaced: true,
                subresources: vec![],
                watchable: true,
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
                asked,
            }
        }

        fn wrote(&self, name: &str, until: Until) {
            let Cache { overlay, store, .. } = &self.informer.cache;
            let key = ObjectKey::namespaced("n", name);
            overlay.changed(&key, until, self.author, store);
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
