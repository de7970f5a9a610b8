//! The cluster of one connection: an embedded API server, and the host's own way to it.
//!
//! Calls pass the same gate and client as a plugin's calls in the host, without sockets in between.
//! Cached reads come from the host's informers, which catch up with the API server before each
//! call, so a read never misses an earlier write. The identity is an administrator's: RBAC is not
//! checked.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kube::Client;
use operetta_apiserver::{
    EmbeddedServer,
    store::{GroupResource, ObjectKey as StoredKey, StoredObject},
};
use operetta_core::{
    gate::{
        Gate, GateLimits, Session, Shared,
        raw_request::{RawRequest, RawResponse},
    },
    manifest::{self, Index},
    object::kind::GroupVersionKind,
    ports::Nowhere,
    status::ApiError,
};
use operetta_kube::{
    client::{
        api_client::{ApiClient, Identity},
        object_api::{PluginApi, Watched},
    },
    discovery::{ApiResource, Discovery},
    informer::{Informer, registry::InformerRegistry},
};
use tokio::{task::AbortHandle, time::Instant};

/// The field manager of writes that name none. In a host it is the plugin's name.
const MANAGER: &str = "operetta-test";
/// The API path of CustomResourceDefinitions.
pub const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// How long an informer may take to catch up with an API server in the same process.
pub const CATCHES_UP: Duration = Duration::from_secs(10);

/// A cluster; dropping this ends it.
pub struct Cluster {
    pub(super) server: EmbeddedServer,
    client: HostClient,
    /// The indexes that the plugin declares.
    indexes: Vec<Index>,
    /// The revision of the definitions known to discovery.
    defined: u64,
    /// The groups in which a test cannot define kinds.
    pub(super) complete_groups: Arc<Vec<String>>,
    /// The revision of the objects that every cluster has.
    pub(super) first_revision: u64,
    /// The namespaces created for objects in them, with the revision of their creation.
    namespaces: HashMap<StoredKey, u64>,
    running: AbortHandle,
}

/// The host's way to an API server.
struct HostClient {
    api: Arc<PluginApi>,
    gate: Arc<Gate>,
    discovery: Arc<Discovery>,
}

impl HostClient {
    fn of(server: &EmbeddedServer) -> Result<Self, ApiError> {
        let api_client = ApiClient::new(
            Client::new(server.administrator(), "default"),
            &Identity::Host,
        )?;

        let discovery = Discovery::new(api_client.clone());
        let registry = InformerRegistry::new(api_client.clone());
        let api = PluginApi::of_host(api_client, discovery.clone(), registry, MANAGER.to_owned());

        // SDKs keep Events and log lines themselves.
        let nowhere = Arc::new(Nowhere);
        let limits = GateLimits::default();

        let gate = Gate::new(
            api.clone(),
            nowhere.clone(),
            nowhere,
            "{}".into(),
            limits,
            Shared::default(),
        );

        Ok(Self {
            api,
            gate,
            discovery,
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Cluster {
    /// Joins a server and a client. A test cannot define kinds in `complete_groups`, which the
    /// server serves whole.
    ///
    /// # Errors
    /// Returns the error of a client that cannot be built.
    pub fn new(
        server: EmbeddedServer,
        complete_groups: Arc<Vec<String>>,
    ) -> Result<Self, ApiError> {
        let client = HostClient::of(&server)?;

        let background = server.clone();
        let running = tokio::spawn(async move { background.run().await }).abort_handle();

        let first_revision = server.store().revision();
        let defined = server.store().changed(&definitions());
        let namespaces = HashMap::new();
        let indexes = Vec::new();

        Ok(Self {
            server,
            client,
            indexes,
            defined,
            complete_groups,
            first_revision,
            namespaces,
            running,
        })
    }

    /// Connects again, forgetting what was known and cached of kinds that have changed.
    ///
    /// # Errors
    /// Returns the error of a client that cannot be built.
    pub fn reconnect(&mut self) -> Result<(), ApiError> {
        self.client = HostClient::of(&self.server)?;
        self.client
            .api
            .watch(Watched::new(Vec::new(), self.indexes.clone()));
        Ok(())
    }

    /// Declares the indexes of a plugin's manifest.
    ///
    /// # Errors
    /// Returns a message about a manifest that the host refuses.
    pub fn declare(&mut self, text: &str) -> Result<(), String> {
        let manifest =
            manifest::parse(text).map_err(|error| format!("the manifest is refused: {error}"))?;

        self.indexes = manifest.indexes;
        self.client
            .api
            .watch(Watched::new(Vec::new(), self.indexes.clone()));

        Ok(())
    }

    /// The API as a plugin in a reconcile has it. It sees all earlier writes.
    ///
    /// # Errors
    /// Returns a message if a cache does not follow the API server.
    pub async fn session(&mut self) -> Result<Session, String> {
        self.follow_definitions();

        let (_, informers) = self.client.api.informers();
        for informer in informers {
            self.catch_up(&informer).await?;
        }

        Ok(self.client.gate.session(None))
    }

    /// Sends a request as the administrator.
    ///
    /// # Errors
    /// Fails as [`Cluster::session`] does.
    pub async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: Option<String>,
    ) -> Result<RawResponse, String> {
        let request = RawRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            body,
            ..RawRequest::default()
        };

        Ok(self.session().await?.raw(request).await)
    }

    /// Returns the resource that serves a kind.
    ///
    /// # Errors
    /// `NotFound` when the kind is not served.
    pub async fn resolve(&mut self, kind: &GroupVersionKind) -> Result<Arc<ApiResource>, ApiError> {
        self.follow_definitions();
        self.client.discovery.resolve(kind).await
    }

    /// Creates a namespace if it is missing: tests need not create the namespaces of their objects.
    ///
    /// # Errors
    /// Returns a message if the API server refuses the name.
    pub async fn ensure_namespace(&mut self, name: &str) -> Result<(), String> {
        let key = StoredKey::cluster(name);
        if self.server.store().get(&namespaces(), &key).is_some() {
            return Ok(());
        }

        let namespace = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let response = self
            .send("POST", "/api/v1/namespaces", Some(namespace.to_string()))
            .await?;

        if response.status != 201 {
            return Err(format!(
                "creating Namespace {name:?}: {}",
                message_of(&response.body)
            ));
        }

        self.namespaces
            .insert(key, self.server.store().changed(&namespaces()));
        Ok(())
    }

    /// Deletes a namespace that was created implicitly, so that a test can add it itself, for
    /// example with labels.
    ///
    /// # Errors
    /// Returns a message if the store cannot delete it.
    pub fn give_up_namespace(&mut self, name: &str) -> Result<(), String> {
        let key = StoredKey::cluster(name);
        let store = self.server.store();

        let Some(stored) = store.get(&namespaces(), &key) else {
            return Ok(());
        };

        if stored.revision() > self.first_revision && !self.has_made(&namespaces(), &stored) {
            return Ok(());
        }

        self.namespaces.remove(&key);
        store
            .delete(&namespaces(), &key, stored.revision())
            .map(drop)
            .map_err(|error| error.to_string())
    }

    /// Reports whether an object is an implicitly created namespace, unchanged.
    pub fn has_made(&self, resource: &GroupResource, object: &StoredObject) -> bool {
        *resource == namespaces() && self.namespaces.get(object.key()) == Some(&object.revision())
    }

    /// Serves changed definitions, and forgets what was known of the previous ones.
    fn follow_definitions(&mut self) {
        if self.server.store().changed(&definitions()) != self.defined {
            self.server.serve_definitions();
            self.defined = self.server.store().changed(&definitions());
            self.client.discovery.invalidate(None);
        }
    }

    /// Waits until an informer has received the last change of its resource.
    async fn catch_up(&self, informer: &Informer) -> Result<(), String> {
        let ApiResource { kind, plural, .. } = informer.resource.as_ref();
        let Some(resource) = self
            .server
            .resources()
            .get(kind.group(), kind.version(), plural)
        else {
            return Ok(());
        };

        let changed = self.server.store().changed(&resource.storage());
        let deadline = Instant::now() + CATCHES_UP;
        let mut turns = 0;
        while informer.cache.store.revision() < changed {
            if Instant::now() > deadline {
                let error = informer.state().borrow().error.clone().unwrap_or_default();
                return Err(format!(
                    "the cache of {kind} does not follow the API server: {error}"
                ));
            }

            turns += 1;
            if turns < 100 {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }

        Ok(())
    }
}

pub fn definitions() -> GroupResource {
    GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions")
}

fn namespaces() -> GroupResource {
    GroupResource::new("", "namespaces")
}

/// The message of a Status.
pub fn message_of(body: &str) -> String {
    let status: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    status["message"].as_str().unwrap_or(body).to_owned()
}
