//! A plugin's reads and writes. Cached reads use the shared informers, limited to what RBAC allows
//! the plugin's ServiceAccount (cached_reads.rs). Writes without effect are answered from the cache
//! (unchanged.rs). All other requests go to the API server under the plugin's identity.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use http::StatusCode;
use kube::Client;
use operetta_core::{
    authz::{
        access_review::SubjectGrants, recorded_permissions::RecordedPermissions,
        refused_calls::RefusedCalls,
    },
    gate::{
        call::Call,
        operation::{Delete, Get, List, Operation, Page, Write, WriteAction, Written},
        path::{check_key, check_segment},
        raw_request::{RawRequest, RawResponse, Target},
    },
    manifest::{Index, IndexKey},
    object::{Object, ObjectKey, kind::GroupVersionKind},
    ports::{ObjectApi, ObjectLookup},
    remedy::Remedy,
    status::{ApiError, ErrorKind},
};
use parking_lot::{Mutex, RwLock};

pub use crate::client::plugin_identity::PluginIdentity;
use crate::{
    authz::required_permissions::{RequiredPermission, of_call},
    client::{
        answers::{object, unreadable},
        api_client::{ApiClient, Identity},
        no_ops::NoOps,
        own_writes::Sent,
        requests,
    },
    discovery::{ApiResource, Discovery},
    informer::{Informer, registry::InformerRegistry},
    store::{IndexUse, Store, overlay::Author},
};

/// The API of one plugin.
pub struct PluginApi {
    /// The connection for writes and live reads, under the plugin's identity.
    pub(crate) api_client: ApiClient,
    pub(crate) discovery: Arc<Discovery>,
    pub(crate) registry: Arc<InformerRegistry>,
    /// Access reviews for cached reads; None for the host itself, which owns the caches.
    pub(crate) grants: Option<SubjectGrants>,
    /// The author of its writes in the caches.
    pub(crate) author: Author,
    /// The default field manager, for writes without one.
    field_manager: String,
    /// The informers and indexes of the plugin's controllers; replaced together with its code.
    pub(crate) watched: RwLock<Watched>,
    /// Informers started by cached reads, of a whole kind or of a kind in one namespace; None if
    /// cached reads may not start any.
    pub(crate) on_demand: Mutex<Option<OnDemand>>,
    /// True once a process has asked for more informers than it may have.
    pub(crate) too_many: AtomicBool,
    /// Records the permissions needed by calls; None for the host, whose permissions are in
    /// deploy/rbac.
    pub(crate) recorded: Option<Arc<RecordedPermissions>>,
    /// The writes that changed nothing.
    pub(crate) no_ops: NoOps,
    /// Calls denied by RBAC; none for the host.
    pub(crate) refused: Arc<RefusedCalls>,
    /// The last call denied by RBAC.
    pub(crate) refusal: Mutex<Option<Refusal>>,
}

/// Informers by kind and namespace; None for an informer of all namespaces.
type OnDemand = HashMap<(GroupVersionKind, Option<String>), Arc<Informer>>;

/// A call denied by RBAC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The message the plugin got.
    pub message: String,
    /// The commands to grant the permission; None if they can't be written safely.
    pub remedy: Option<Remedy>,
}

/// The informers and indexes declared in a plugin's manifest.
#[derive(Default)]
pub struct Watched {
    /// The informers its controllers subscribe to.
    pub informers: Vec<Arc<Informer>>,
    /// The declared indexes.
    pub indexes: Vec<Index>,
    /// The indexes kept by stores on its behalf.
    used: Mutex<Vec<Arc<IndexUse>>>,
}

impl Watched {
    /// Combines the informers controllers subscribe to with the declared indexes.
    pub fn new(informers: Vec<Arc<Informer>>, indexes: Vec<Index>) -> Self {
        Self {
            informers,
            indexes,
            used: Mutex::default(),
        }
    }
}

impl PluginApi {
    /// Creates the API of the host itself, which may read everything. `field_manager` is the
    /// default for writes without one.
    pub fn of_host(
        api_client: ApiClient,
        discovery: Arc<Discovery>,
        registry: Arc<InformerRegistry>,
        field_manager: String,
    ) -> Arc<Self> {
        Arc::new(Self::with(
            api_client,
            discovery,
            registry,
            None,
            field_manager,
        ))
    }

    /// Creates the API of a plugin. Its requests are sent over `client` under its identity.
    ///
    /// # Errors
    /// `BadRequest` if the ServiceAccount's name cannot be part of a header.
    pub fn of_plugin(
        client: Client,
        discovery: Arc<Discovery>,
        registry: Arc<InformerRegistry>,
        plugin: PluginIdentity,
    ) -> Result<Arc<Self>, ApiError> {
        let PluginIdentity {
            grants,
            recorded,
            refused,
            permit,
            epoch,
            throttle,
            field_manager,
            author,
            warnings,
        } = plugin;

        let api_client =
            ApiClient::new(client, &Identity::ServiceAccount(grants.subject().clone()))?;
        let api_client = api_client
            .permitted_by(permit)
            .in_epoch(epoch.as_deref())?
            .throttled_by(throttle)
            .warning(warnings);

        let api = Self::with(
            api_client,
            discovery,
            registry,
            Some((grants, recorded)),
            field_manager,
        );

        Ok(Arc::new(Self {
            refused,
            author,
            ..api
        }))
    }

    fn with(
        api_client: ApiClient,
        discovery: Arc<Discovery>,
        registry: Arc<InformerRegistry>,
        plugin: Option<(SubjectGrants, Arc<RecordedPermissions>)>,
        field_manager: String,
    ) -> Self {
        let (grants, recorded) = plugin.unzip();
        let watched = RwLock::default();
        let refused = Arc::default();
        let refusal = Mutex::default();
        let on_demand = Mutex::new(Some(HashMap::new()));

        Self {
            api_client: api_client.telling_guest(),
            discovery,
            registry,
            grants,
            author: Author::unique(),
            field_manager,
            watched,
            on_demand,
            too_many: AtomicBool::new(false),
            recorded,
            no_ops: NoOps::default(),
            refused,
            refusal,
        }
    }

    /// The informers answering the reads: those watched by the plugin, and those started by cached
    /// reads.
    pub fn informers(&self) -> (Vec<Arc<Informer>>, Vec<Arc<Informer>>) {
        let watched = self.watched.read().informers.clone();
        let on_demand = self.on_demand.lock();
        (
            watched,
            on_demand
                .iter()
                .flat_map(HashMap::values)
                .cloned()
                .collect(),
        )
    }

    /// Drops the informers started by cached reads and starts no more: the API server answers these
    /// reads instead.
    pub fn read_live(&self) {
        *self.on_demand.lock() = None;
    }

    /// Whether [`Self::read_live`] is in effect.
    pub fn reads_live(&self) -> bool {
        self.on_demand.lock().is_none()
    }

    /// Whether a process has asked for lists or watches of more kinds, or namespaces of a kind, than
    /// the host has informers for one. The API server answers those.
    pub fn watches_too_many(&self) -> bool {
        self.too_many.load(Ordering::Relaxed)
    }

    /// Access reviews for cached reads; None for the host.
    pub fn grants(&self) -> Option<&SubjectGrants> {
        self.grants.as_ref()
    }

    /// The last denied call.
    pub fn refusal(&self) -> Option<Refusal> {
        self.refusal.lock().clone()
    }

    /// The connection to the API server.
    pub fn api_client(&self) -> &ApiClient {
        &self.api_client
    }

    /// Replaces the plugin's informers and indexes, including those for cached reads. Stores drop
    /// indexes without other users.
    pub fn watch(&self, watched: Watched) {
        for index in &watched.indexes {
            let kind = GroupVersionKind::new(&index.api_version, &index.kind);
            let Some(key) = IndexKey::new(index) else {
                continue;
            };

            for informer in watched
                .informers
                .iter()
                .filter(|informer| informer.resource.kind == kind)
            {
                watched
                    .used
                    .lock()
                    .push(Arc::new(informer.cache.store.declare_index(&key)));
            }
        }

        let before = std::mem::replace(&mut *self.watched.write(), watched);
        drop(before);
    }

    /// Declares an index in a store. The store keeps it until the plugin's watches change, and as
    /// long as the caller uses it.
    pub(crate) fn use_index(&self, store: &Arc<Store>, key: &IndexKey) -> Arc<IndexUse> {
        let known = |watched: &Watched| {
            watched
                .used
                .lock()
                .iter()
                .find(|used| used.is(store, key))
                .cloned()
        };

        if let Some(used) = known(&self.watched.read()) {
            return used;
        }

        let used = Arc::new(store.declare_index(key));
        self.watched.read().used.lock().push(used.clone());
        used
    }

    /// Decodes the response to a write, and notes it for the caches.
    fn wrote(text: &str, resource: &ApiResource, sent: Sent<'_>) -> Result<Written, ApiError> {
        if !sent.is_of_interest() {
            sent.answered(text);
            return object(text, resource).map(Written::Stored);
        }

        let read = Object::with_and_without_managed_fields(text, &resource.kind);
        let (answer, cached) = read.map_err(|error| unreadable(&error))?;
        sent.answered_with(cached);
        Ok(Written::Stored(Arc::new(answer)))
    }

    pub(crate) fn field_manager(&self) -> &str {
        &self.field_manager
    }

    /// Resolves a kind. Asking the API server counts as a request of the plugin.
    async fn resolve(&self, kind: &GroupVersionKind) -> Result<Arc<ApiResource>, ApiError> {
        if self.discovery.is_known(kind) {
            return self.discovery.resolve(kind).await;
        }
        self.throttle().await;
        let _in_flight = self.api_client.throttle().begin().await;
        self.discovery.resolve(kind).await
    }

    /// Makes a call that needs this permission, recording a denial.
    pub(crate) async fn with_permission<T>(
        &self,
        permission: &RequiredPermission,
        call: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        self.note(permission);
        call.await
            .inspect_err(|error| self.note_refusal(permission, error))
    }

    /// Sends a write, unless it would change nothing.
    async fn send_write(
        &self,
        resource: &ApiResource,
        write: Write,
        call: &Call,
        permission: &RequiredPermission,
    ) -> Result<Written, ApiError> {
        let subresource = write.subresource().unwrap_or_default().to_owned();
        let is_served = resource.has_subresource(&subresource);
        if is_served && let Some(unchanged) = self.unchanged(resource, &write).await {
            return Ok(Written::Unchanged(unchanged));
        }
        let suppressible = self.suppressible(resource, &write);
        let before = suppressible
            .as_ref()
            .and_then(|_| self.version_before(resource, &write))
            .map(|before| (before, self.no_ops.hash(&write)));

        let Write {
            action, options, ..
        } = write;
        let manager = &self.field_manager;
        let request = match action {
            WriteAction::Create { namespace, object } => {
                requests::create(resource, namespace.as_deref(), object, &options, manager)?
            }
            WriteAction::Update {
                key,
                status,
                object,
            } => requests::update(resource, &key, status, object, &options, manager)?,
            WriteAction::Patch {
                key,
                subresource,
                body,
                force,
            } => {
                let subresource = subresource.as_deref();
                let patch = requests::Patch {
                    key: &key,
                    subresource,
                    body,
                    force,
                    options: &options,
                };
                requests::patch(resource, patch, manager)?
            }
        };
        let sent = Sent::new(&self.registry, resource, call, request.body(), self.author);
        let (status, text) = match self.api_client.send_for_status(request).await {
            Ok(answer) => answer,
            Err(error) => {
                sent.failed(&error);
                return Err(match error.kind {
                    ErrorKind::NotFound if !is_served => resource.no_subresource(&subresource),
                    _ => error,
                });
            }
        };
        if let Some((access, grants)) = suppressible.zip(self.grants.as_ref()) {
            grants.learn(access);
        }
        if status == StatusCode::CREATED {
            self.note_created(permission);
        }
        let written = Self::wrote(&text, resource, sent)?;
        if let (Some((before, hash)), Written::Stored(after)) = (before, &written)
            && before.uid() == after.uid()
            && before.resource_version() == after.resource_version()
        {
            self.no_ops.note(&resource.kind, after, hash);
        }
        Ok(written)
    }

    async fn send_delete(
        &self,
        resource: &ApiResource,
        delete: Delete,
        call: &Call,
    ) -> Result<(), ApiError> {
        let Delete { key, options, .. } = delete;
        let request = requests::delete(resource, &key, &options)?;
        let sent = Sent::new(&self.registry, resource, call, request.body(), self.author);
        match self.api_client.send(request).await {
            Ok(text) => {
                sent.answered(&text);
                Ok(())
            }
            Err(error) => {
                sent.failed(&error);
                Err(error)
            }
        }
    }
}

#[async_trait]
impl ObjectApi for PluginApi {
    async fn get(&self, mut get: Get) -> Result<Arc<Object>, ApiError> {
        let resource = self.resolve(&get.kind).await?;
        check_object(&resource, &mut get.key)?;
        let call = Call::of(&get);
        let permission = of_call(&resource, &call, call.is_cached);
        let read = self.read_object(&resource, get.key, get.read);
        self.with_permission(&permission, read).await
    }

    async fn list(&self, list: List) -> Result<Page, ApiError> {
        let resource = self.resolve(&list.kind).await?;
        if let Some(namespace) = &list.options.namespace {
            resource.check_namespace(Some(namespace))?;
            check_segment("namespace", namespace)?;
        }
        let call = Call::of(&list);
        let permission = of_call(&resource, &call, call.is_cached);
        let read = self.read_page(&resource, &list.options);
        self.with_permission(&permission, read).await
    }

    async fn write(&self, mut write: Write) -> Result<Written, ApiError> {
        let resource = self.resolve(&write.kind).await?;
        match &mut write.action {
            WriteAction::Create { namespace, .. } => {
                resource.check_namespace(namespace.as_deref())?;
                namespace
                    .as_deref()
                    .map_or(Ok(()), |namespace| check_segment("namespace", namespace))?;
            }
            WriteAction::Update { key, .. } | WriteAction::Patch { key, .. } => {
                check_object(&resource, key)?;
            }
        }

        let subresource = write.subresource().filter(|name| !name.is_empty());
        subresource.map_or(Ok(()), |name| check_segment("subresource", name))?;
        let call = Call::of(&write);
        let permission = of_call(&resource, &call, false);
        let sent = self.send_write(&resource, write, &call, &permission);

        self.with_permission(&permission, sent).await
    }

    async fn delete(&self, mut delete: Delete) -> Result<(), ApiError> {
        let resource = self.resolve(&delete.kind).await?;
        check_object(&resource, &mut delete.key)?;
        let call = Call::of(&delete);
        let permission = of_call(&resource, &call, false);
        let sent = self.send_delete(&resource, delete, &call);
        self.with_permission(&permission, sent).await
    }

    async fn raw(&self, request: RawRequest, target: Target) -> Result<RawResponse, ApiError> {
        self.send_raw(request, target).await
    }
}

#[async_trait]
impl ObjectLookup for PluginApi {
    fn cached(&self, kind: &GroupVersionKind, key: &ObjectKey) -> Option<Arc<Object>> {
        let mut informers = self
            .registry
            .of_kind(kind)
            .into_iter()
            .filter(|informer| !informer.scope.metadata_only);
        informers.find_map(|informer| informer.cache.get(key))
    }

    fn kind_of(&self, api_version: &str, plural: &str) -> Option<GroupVersionKind> {
        let resource = self.discovery.known_plural(api_version, plural)?;
        Some(resource.kind.clone())
    }

    async fn live(&self, kind: &GroupVersionKind, key: &ObjectKey) -> Option<Arc<Object>> {
        let resource = self.discovery.resolve(kind).await.ok()?;
        let text = self
            .api_client
            .send(requests::get(&resource, key).ok()?)
            .await
            .ok()?;
        object(&text, &resource).ok()
    }
}

/// Checks that an object's key fits its kind and can be part of a path. An empty namespace counts
/// as none.
fn check_object(resource: &ApiResource, key: &mut ObjectKey) -> Result<(), ApiError> {
    key.namespace = key
        .namespace
        .take()
        .filter(|namespace| !namespace.is_empty());
    check_key(key)?;
    resource.check_namespace(key.namespace.as_deref())
}

pub(crate) fn bad_request(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorKind::BadRequest, message)
}
