//! The cluster of one connection: an embedded API server, and the host's own way to it.
//!
//! Calls pass the gate and the client that a plugin's calls pass in the host, without sockets in between. Cached reads
//! come from the host's informers. Before each call they catch up with the API server, so a read never misses a write
//! that was made before. The identity is an administrator's: RBAC is not checked.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kube::Client;
use operetta_apiserver::{
    embedded::EmbeddedServer,
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
        object_api::{PluginApi, Watched},
        wire::{Identity, Wire},
    },
    discovery::{ApiResource, Discovery},
    informer::{Informer, registry::InformerRegistry},
};
use tokio::{task::AbortHandle, time::Instant};

/// The field manager of writes that name none. A host has the plugin's name here.
const MANAGER: &str = "operetta-test";
/// The API path of definitions.
pub const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The time within which an informer catches up with an API server in the same process.
pub const CATCHES_UP: Duration = Duration::from_secs(10);

/// A cluster. It ends with this.
pub struct Cluster {
    pub(super) server: EmbeddedServer,
    client: HostClient,
    /// The indexes that the plugin declares.
    indexes: Vec<Index>,
    /// The revision of the definitions that the discovery knows.
    defined: u64,
    /// The groups whose kinds a test does not define.
    pub(super) complete_groups: Arc<Vec<String>>,
    /// The revision of the objects that every cluster has.
    pub(super) first_revision: u64,
    /// The namespaces that were created for objects in them, with the revision of the creation.
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
        let wire = Wire::new(Client::new(server.administrator(), "default"), &Identity::Host)?;
        let discovery = Discovery::new(wire.clone());
        let registry = InformerRegistry::new(wire.clone());
        let api = PluginApi::of_host(wire, discovery.clone(), registry, MANAGER.to_owned());
        // SDKs keep Events and log lines themselves.
        let nowhere = Arc::new(Nowhere);
        let limits = GateLimits::default();
        let gate = Gate::new(api.clone(), nowhere.clone(), nowhere, "{}".into(), limits, Shared::default());
        Ok(Self { api, gate, discovery })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Cluster {
    /// Joins a server and a client. The kinds of `complete_groups` are those that the server serves; in other groups a
    /// test may define some.
    ///
    /// # Errors
    /// Returns the error of a client that cannot be built.
    pub fn new(server: EmbeddedServer, complete_groups: Arc<Vec<String>>) -> Result<Self, ApiError> {
        let client = HostClient::of(&server)?;
        let background = server.clone();
        let running = tokio::spawn(async move { background.run().await }).abort_handle();
        let first_revision = server.store().revision();
        let defined = server.store().changed(&definitions());
        let namespaces = HashMap::new();
        let indexes = Vec::new();
        Ok(Self { server, client, indexes, defined, complete_groups, first_revision, namespaces, running })
    }

    /// Connects anew, without what is known and cached of kinds that have changed.
    ///
    /// # Errors
    /// Returns the error of a client that cannot be built.
    pub fn reconnect(&mut self) -> Result<(), ApiError> {
        self.client = HostClient::of(&self.server)?;
        self.client.api.watch(Watched::new(Vec::new(), self.indexes.clone()));
        Ok(())
    }

    /// Declares the indexes of a plugin's manifest.
    ///
    /// # Errors
    /// Returns a message about a manifest that the host refuses.
    pub fn declare(&mut self, text: &str) -> Result<(), String> {
        let manifest = manifest::parse(text).map_err(|error| format!("the manifest is refused: {error}"))?;
        self.indexes = manifest.indexes;
        self.client.api.watch(Watched::new(Vec::new(), self.indexes.clone()));
        Ok(())
    }

    /// Returns the way to the objects, as a plugin in a reconcile has it. It sees all earlier writes.
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
    pub async fn send(&mut self, method: &str, path: &str, body: Option<String>) -> Result<RawResponse, String> {
        let request = RawRequest { method: method.to_owned(), path: path.to_owned(), body, ..RawRequest::default() };
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

    /// Creates a namespace if it is missing: a test need not create those of its objects.
    ///
    /// # Errors
    /// Returns a message if the API server refuses the name.
    pub async fn ensure_namespace(&mut self, name: &str) -> Result<(), String> {
        let key = StoredKey::cluster(name);
        if self.server.store().get(&namespaces(), &key).is_some() {
            return Ok(());
        }
        let namespace = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let response = self.send("POST", "/api/v1/namespaces", Some(namespace.to_string())).await?;
        if response.status != 201 {
            return Err(format!("creating Namespace {name:?}: {}", message_of(&response.body)));
        }
        self.namespaces.insert(key, self.server.store().changed(&namespaces()));
        Ok(())
    }

    /// Deletes a namespace that no test has asked for, so that a test can add it with labels, for example.
    ///
    /// # Errors
    /// Returns a message if the store cannot delete it.
    pub fn give_up_namespace(&mut self, name: &str) -> Result<(), String> {
        let key = StoredKey::cluster(name);
        let store = self.server.store();
        let Some(stored) = store.get(&namespaces(), &key) else { return Ok(()) };
        if stored.revision() > self.first_revision && !self.has_made(&namespaces(), &stored) {
            return Ok(());
        }
        self.namespaces.remove(&key);
        store.delete(&namespaces(), &key, stored.revision()).map(drop).map_err(|error| error.to_string())
    }

    /// Reports whether an object is a namespace as this has created it.
    pub fn has_made(&self, resource: &GroupResource, object: &StoredObject) -> bool {
        *resource == namespaces() && self.namespaces.get(object.key()) == Some(&object.revision())
    }

    /// Serves changed definitions, and forgets what was known of others.
    fn follow_definitions(&mut self) {
        if self.server.store().changed(&definitions()) != self.defined {
            self.server.serve_definitions();
            self.defined = self.server.store().changed(&definitions());
            self.client.discovery.invalidate();
        }
    }

    /// Waits until an informer has received the last change of its resource.
    async fn catch_up(&self, informer: &Informer) -> Result<(), String> {
        let ApiResource { kind, plural, .. } = informer.resource.as_ref();
        let Some(resource) = self.server.resources().get(kind.group(), kind.version(), plural) else { return Ok(()) };
        let changed = self.server.store().changed(&resource.storage());
        let deadline = Instant::now() + CATCHES_UP;
        let mut turns = 0;
        while informer.cache.store.revision() < changed {
            if Instant::now() > deadline {
                let error = informer.state().borrow().error.clone().unwrap_or_default();
                return Err(format!("the cache of {kind} does not follow the API server: {error}"));
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

/// Returns the resource of definitions.
pub fn definitions() -> GroupResource {
    GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions")
}

fn namespaces() -> GroupResource {
    GroupResource::new("", "namespaces")
}

/// Returns the message of a Status.
pub fn message_of(body: &str) -> String {
    let status: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    status["message"].as_str().unwrap_or(body).to_owned()
}
