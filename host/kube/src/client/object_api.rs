//! A plugin's reads and writes: cached reads from the shared informers, as far as RBAC lets the plugin's ServiceAccount see
//! them (cached_reads.rs), writes that change nothing by the cache as well (unchanged.rs), everything else at the API server
//! under that identity.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock},
};

use async_trait::async_trait;
use http::StatusCode;
use kube::Client;
use operetta_core::{
    authz::{access_review::SubjectGrants, recorded_permissions::RecordedPermissions},
    gate::{
        operation::{ListOptions, Operation, OperationAction, Reply},
        raw_request::{RawRequest, RawResponse, ResourcePath, Target},
        throttle::Throttle,
    },
    manifest::{Index, IndexKey},
    object::{ManagedFields, Object, ObjectKey, kind::GroupVersionKind},
    ports::ObjectApi,
    status::{ApiError, ErrorKind},
};

use crate::{
    authz::required_permissions::{self, Call},
    client::{
        requests::{self, DeleteAnswer},
        wire::{Identity, Wire, check_key, check_segment},
    },
    discovery::{ApiResource, Discovery},
    informer::{Informer, registry::InformerRegistry},
};

/// The API of one plugin.
pub struct PluginApi {
    /// Writes and live reads go out under the plugin's identity.
    pub(crate) wire: Wire,
    pub(crate) discovery: Arc<Discovery>,
    pub(crate) registry: Arc<InformerRegistry>,
    /// The access reviews for cached reads; None for the host itself, which owns the caches.
    pub(crate) grants: Option<SubjectGrants>,
    /// The field manager of writes that name none.
    field_manager: String,
    /// The informers and indexes of the plugin's controllers; replaced with its code.
    pub(crate) watched: RwLock<Watched>,
    /// Informers of whole kinds, or of a kind in one namespace, that cached reads have started; None when they may start
    /// none any more.
    pub(crate) on_demand: Mutex<Option<OnDemand>>,
    /// The rate limiters of cached reads that the API server answers.
    pub(crate) throttle: OnceLock<Throttle>,
    /// The record of the permissions that its calls need; None for the host, whose permissions are in deploy/base.
    pub(crate) recorded: Option<Arc<RecordedPermissions>>,
    /// The last refusal.
    pub(crate) refusal: Mutex<Option<Refusal>>,
}

/// By kind, and the one namespace that an informer watches.
type OnDemand = HashMap<(GroupVersionKind, Option<String>), Arc<Informer>>;

/// Something that RBAC forbade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The message that the plugin got.
    pub message: String,
    /// The commands that give the right.
    pub remedy: String,
}

/// The informers and indexes that a plugin's manifest asks for.
#[derive(Default)]
pub struct Watched {
    /// The informers its controllers subscribe to.
    pub informers: Vec<Arc<Informer>>,
    /// The indexes it declares.
    pub indexes: Vec<Index>,
}

impl PluginApi {
    /// An API for the host itself, which may read all that it has. `field_manager` is used by writes that name none.
    pub fn of_host(
        wire: Wire,
        discovery: Arc<Discovery>,
        registry: Arc<InformerRegistry>,
        field_manager: String,
    ) -> Arc<Self> {
        Arc::new(Self::with(wire, discovery, registry, None, field_manager))
    }

    /// An API for one plugin: `client` is what its requests go out over, `grants` says as whom, and what it may read from
    /// the host's caches; `recorded` gets what its calls need. `field_manager` is used by writes that name none.
    ///
    /// # Errors
    /// `BadRequest` when the ServiceAccount's name cannot stand in a header.
    pub fn of_plugin(
        client: Client,
        discovery: Arc<Discovery>,
        registry: Arc<InformerRegistry>,
        grants: SubjectGrants,
        recorded: Arc<RecordedPermissions>,
        field_manager: String,
    ) -> Result<Arc<Self>, ApiError> {
        let wire = Wire::new(client, &Identity::ServiceAccount(grants.subject().clone()))?;
        Ok(Arc::new(Self::with(wire, discovery, registry, Some((grants, recorded)), field_manager)))
    }

    fn with(
        wire: Wire,
        discovery: Arc<Discovery>,
        registry: Arc<InformerRegistry>,
        plugin: Option<(SubjectGrants, Arc<RecordedPermissions>)>,
        field_manager: String,
    ) -> Self {
        let (grants, recorded) = plugin.unzip();
        let (watched, refusal, throttle) = (RwLock::default(), Mutex::default(), OnceLock::new());
        let on_demand = Mutex::new(Some(HashMap::new()));
        Self { wire, discovery, registry, grants, field_manager, watched, on_demand, throttle, recorded, refusal }
    }

    /// Lets cached reads that the API server answers wait for these quotas. What is set once stays.
    pub fn throttle_by(&self, throttle: Throttle) {
        let _set_before = self.throttle.set(throttle);
    }

    /// The informers that its reads are answered by: those that it watches, and those that cached reads have started.
    pub fn informers(&self) -> (Vec<Arc<Informer>>, Vec<Arc<Informer>>) {
        let watched = self.watched.read().unwrap_or_else(PoisonError::into_inner).informers.clone();
        let on_demand = self.on_demand.lock().unwrap_or_else(PoisonError::into_inner);
        (watched, on_demand.iter().flat_map(HashMap::values).cloned().collect())
    }

    /// Gives up the informers that cached reads have started, and starts none any more: the API server answers.
    pub fn read_live(&self) {
        *self.on_demand.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Reports whether [`Self::read_live`] is in effect.
    pub fn reads_live(&self) -> bool {
        self.on_demand.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Returns the access reviews for cached reads; None for the host.
    pub fn grants(&self) -> Option<&SubjectGrants> {
        self.grants.as_ref()
    }

    /// Returns the last refusal.
    pub fn refusal(&self) -> Option<Refusal> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The plugin's way to the API server.
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Replaces what the plugin watches; cached reads follow.
    pub fn watch(&self, watched: Watched) {
        for index in &watched.indexes {
            let kind = GroupVersionKind::new(&index.api_version, &index.kind);
            let Some(key) = IndexKey::new(index) else { continue };
            for informer in watched.informers.iter().filter(|informer| informer.resource.kind == kind) {
                informer.cache.store.declare_index(&key);
            }
        }
        *self.watched.write().unwrap_or_else(PoisonError::into_inner) = watched;
    }

    /// Reads the answer to a write and lets cached reads see it.
    fn wrote(&self, text: &str, resource: &ApiResource, dry_run: bool) -> Result<Reply, ApiError> {
        let answer = object(text, resource)?;
        if !dry_run {
            self.note_write(text, resource);
        }
        Ok(Reply::Object(answer))
    }

    /// Lets cached reads see the object that a write was answered with. The answer to a patch of `scale`, say, is
    /// another kind of object.
    pub(crate) fn note_write(&self, text: &str, resource: &ApiResource) {
        if self.registry.of_kind(&resource.kind).is_empty() {
            return;
        }
        if let Ok(kept) = Object::from_json(text, &resource.kind, ManagedFields::Drop)
            && is_of(&kept, resource)
        {
            self.registry.wrote(&resource.kind, &Arc::new(kept));
        }
    }

    /// Lets cached reads see what a DELETE was answered with.
    pub(crate) fn note_delete(&self, text: &str, resource: &ApiResource, key: &ObjectKey) {
        match requests::delete_answer(text) {
            DeleteAnswer::Gone { uid } => {
                for informer in self.registry.of_kind(&resource.kind) {
                    informer.cache.overlay.deleted(key, &uid, &informer.cache.store);
                }
            }
            DeleteAnswer::Object => self.note_write(text, resource),
        }
    }

    /// The field manager of writes that name none.
    pub(crate) fn field_manager(&self) -> &str {
        &self.field_manager
    }

    async fn delete(
        &self,
        resource: &ApiResource,
        key: &ObjectKey,
        options: &operetta_core::gate::operation::DeleteOptions,
    ) -> Result<Reply, ApiError> {
        let text = self.wire.send(requests::delete(resource, key, options)?).await?;
        if !options.dry_run {
            self.note_delete(&text, resource, key);
        }
        Ok(Reply::Done)
    }
}

#[async_trait]
impl ObjectApi for PluginApi {
    async fn call(&self, operation: Operation) -> Result<Reply, ApiError> {
        let resource = self.discovery.resolve(&operation.kind).await?;
        let operation = checked(&resource, operation)?;
        let call = required_permissions::of_operation(&resource, &operation);
        self.note(&call);
        let result = self.carry_out(&resource, operation, &call).await;
        if let Err(error) = &result {
            self.note_refusal(&call, error);
        }
        result
    }

    fn known(&self, kind: &GroupVersionKind, key: &ObjectKey) -> Option<Arc<Object>> {
        let mut whole = self.registry.of_kind(kind).into_iter().filter(|informer| !informer.scope.metadata_only);
        whole.find_map(|informer| informer.cache.get(key))
    }

    fn kind_of(&self, path: &ResourcePath) -> Option<GroupVersionKind> {
        Some(self.discovery.known_plural(&path.api_version, &path.plural)?.kind.clone())
    }

    async fn stored(&self, kind: &GroupVersionKind, key: &ObjectKey) -> Option<Arc<Object>> {
        let resource = self.discovery.resolve(kind).await.ok()?;
        let text = self.wire.send(requests::get(&resource, key).ok()?).await.ok()?;
        object(&text, &resource).ok()
    }

    async fn raw(&self, request: RawRequest, target: Target) -> Result<RawResponse, ApiError> {
        self.send_raw(request, target).await
    }
}

impl PluginApi {
    async fn carry_out(
        &self,
        resource: &Arc<ApiResource>,
        operation: Operation,
        call: &Call,
    ) -> Result<Reply, ApiError> {
        if let Some(unchanged) = self.unchanged(resource, &operation.action).await {
            return Ok(Reply::Unchanged(unchanged));
        }
        let manager = &self.field_manager;
        let (request, dry_run) = match operation.action {
            OperationAction::Get { key, read } => return self.get(resource, key, read).await,
            OperationAction::List(options) => return self.list(resource, &options).await,
            OperationAction::Delete { key, options } => return self.delete(resource, &key, &options).await,
            OperationAction::Create { namespace, object, options } => {
                let request = requests::create(resource, namespace.as_deref(), object, &options, manager)?;
                (request, options.dry_run)
            }
            OperationAction::Update { key, status, object, options } => {
                (requests::update(resource, &key, status, object, &options, manager)?, options.dry_run)
            }
            OperationAction::Patch { key, subresource, body, force, options } => {
                let subresource = subresource.as_deref();
                let patch = requests::Patch { key: &key, subresource, body, force, options: &options };
                (requests::patch(resource, patch, manager)?, options.dry_run)
            }
        };
        let (status, text) = self.wire.send_for_status(request).await?;
        if status == StatusCode::CREATED {
            self.note_created(call);
        }
        self.wrote(&text, resource, dry_run)
    }
}

/// The operation, if it is about something that can stand in a path.
fn checked(resource: &ApiResource, mut operation: Operation) -> Result<Operation, ApiError> {
    match &mut operation.action {
        OperationAction::Get { key, .. }
        | OperationAction::Update { key, .. }
        | OperationAction::Patch { key, .. }
        | OperationAction::Delete { key, .. } => {
            key.namespace = key.namespace.take().filter(|namespace| !namespace.is_empty());
            check_key(key)?;
            resource.check_namespace(key.namespace.as_deref())?;
        }
        OperationAction::Create { namespace, .. } => {
            resource.check_namespace(namespace.as_deref())?;
            namespace.as_deref().map_or(Ok(()), |namespace| check_segment("namespace", namespace))?;
        }
        OperationAction::List(ListOptions { namespace: Some(namespace), .. }) => {
            resource.check_namespace(Some(namespace.as_str()))?;
            check_segment("namespace", namespace)?;
        }
        OperationAction::List(_) => {}
    }
    let subresource = operation.subresource().filter(|name| !name.is_empty());
    subresource.map_or(Ok(()), |name| check_segment("subresource", name))?;
    Ok(operation)
}

pub(crate) fn object(text: &str, resource: &ApiResource) -> Result<Arc<Object>, ApiError> {
    Object::from_json(text, &resource.kind, ManagedFields::Keep).map(Arc::new).map_err(unreadable)
}

fn is_of(object: &Object, resource: &ApiResource) -> bool {
    object.scalar_at("kind").as_deref() == Some(&resource.kind.kind)
}

fn unreadable(error: operetta_core::object::ObjectError) -> ApiError {
    ApiError::new(ErrorKind::Other, format!("the API server's answer is {error}"))
}

pub(crate) fn bad_request(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorKind::BadRequest, message)
}
