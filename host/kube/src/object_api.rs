//! A plugin's reads and writes: cached reads from the shared informers, as far as RBAC lets the plugin's ServiceAccount see
//! them (cached_reads.rs), everything else at the API server under that identity.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock},
};

use async_trait::async_trait;
use kube::Client;
use operetta_core::{
    gate::Throttle,
    grants::SubjectGrants,
    kind::GroupVersionKind,
    manifest::Index,
    object::{ManagedFields, Object, ObjectKey},
    operation::{Operation, OperationAction, Reply, Verb},
    ports::ObjectApi,
    raw::{RawRequest, RawResponse, Target},
    status::{ApiError, ErrorKind},
};

use crate::{
    discovery::{ApiResource, Discovery},
    informer::Informer,
    registry::InformerRegistry,
    requests::{self, DeleteAnswer},
    wire::{Identity, Wire, check_key, check_segment},
};

/// The API of one plugin.
pub struct PluginApi {
    /// Writes and live reads go out under the plugin's identity.
    pub(crate) wire: Wire,
    pub(crate) discovery: Arc<Discovery>,
    pub(crate) registry: Arc<InformerRegistry>,
    /// What may be read from caches; None for the host itself, whose caches they are.
    pub(crate) grants: Option<SubjectGrants>,
    /// The field manager of writes that name none.
    field_manager: String,
    /// What the plugin's controllers watch, and its indexes; replaced when its code is.
    pub(crate) watched: RwLock<Watched>,
    /// Informers of whole kinds that cached reads have started; None when they may start none any more.
    pub(crate) on_demand: Mutex<Option<HashMap<GroupVersionKind, Arc<Informer>>>>,
    /// What holds cached reads back that the API server answers.
    pub(crate) throttle: OnceLock<Throttle>,
    /// What was forbidden last.
    refusal: Mutex<Option<Refusal>>,
}

/// Something that RBAC forbade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What the plugin was told.
    pub message: String,
    /// The commands that give the right.
    pub remedy: String,
}

/// What a plugin's manifest makes the host cache.
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
    /// the host's caches. `field_manager` is used by writes that name none.
    ///
    /// # Errors
    /// `BadRequest` when the ServiceAccount's name cannot stand in a header.
    pub fn of_plugin(
        client: Client,
        discovery: Arc<Discovery>,
        registry: Arc<InformerRegistry>,
        grants: SubjectGrants,
        field_manager: String,
    ) -> Result<Arc<Self>, ApiError> {
        let wire = Wire::new(client, &Identity::ServiceAccount(grants.subject().clone()))?;
        Ok(Arc::new(Self::with(wire, discovery, registry, Some(grants), field_manager)))
    }

    fn with(
        wire: Wire,
        discovery: Arc<Discovery>,
        registry: Arc<InformerRegistry>,
        grants: Option<SubjectGrants>,
        field_manager: String,
    ) -> Self {
        let (watched, refusal, throttle) = (RwLock::default(), Mutex::default(), OnceLock::new());
        let on_demand = Mutex::new(Some(HashMap::new()));
        Self { wire, discovery, registry, grants, field_manager, watched, on_demand, throttle, refusal }
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

    /// Whether [`Self::read_live`] is in effect.
    pub fn reads_live(&self) -> bool {
        self.on_demand.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// What the plugin may read from caches; None for the host.
    pub fn grants(&self) -> Option<&SubjectGrants> {
        self.grants.as_ref()
    }

    /// What was forbidden last.
    pub fn refusal(&self) -> Option<Refusal> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_refusal(
        &self,
        error: &ApiError,
        verb: Verb,
        (resource, part): (&ApiResource, &str),
        namespace: Option<&str>,
    ) {
        let Some(grants) = self.grants.as_ref().filter(|_| error.kind == ErrorKind::Forbidden) else { return };
        let name = if part.is_empty() { resource.plural.clone() } else { format!("{}/{part}", resource.plural) };
        let what = (resource.kind.group(), name.as_str());
        let namespace = namespace.filter(|_| resource.namespaced);
        let remedy = operetta_core::grants::remedy(grants.subject(), verb.as_str(), what, namespace);
        let refusal = Refusal { message: error.status.message.clone(), remedy };
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal);
    }

    /// The plugin's way to the API server.
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Replaces what the plugin watches; cached reads follow.
    pub fn watch(&self, watched: Watched) {
        for index in &watched.indexes {
            let kind = GroupVersionKind::new(&index.api_version, &index.kind);
            let Some(key) = index.key() else { continue };
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
        options: &operetta_core::operation::DeleteOptions,
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
        let (verb, part) = (operation.verb(), operation.subresource().unwrap_or_default().to_owned());
        let namespace = operation.namespace().map(str::to_owned);
        let result = self.carry_out(&resource, operation).await;
        if let Err(error) = &result {
            self.note_refusal(error, verb, (&resource, &part), namespace.as_deref());
        }
        result
    }

    fn known(&self, kind: &GroupVersionKind, key: &ObjectKey) -> Option<Arc<Object>> {
        self.registry.of_kind(kind).into_iter().find_map(|informer| informer.cache.get(key))
    }

    async fn raw(&self, request: RawRequest, target: Target) -> Result<RawResponse, ApiError> {
        self.send_raw(request, target).await
    }
}

impl PluginApi {
    async fn carry_out(&self, resource: &Arc<ApiResource>, operation: Operation) -> Result<Reply, ApiError> {
        let checked = |mut key: ObjectKey| {
            key.namespace = key.namespace.filter(|namespace| !namespace.is_empty());
            check_key(&key)?;
            resource.check_namespace(key.namespace.as_deref())?;
            Ok::<_, ApiError>(key)
        };
        match operation.action {
            OperationAction::Get { key, read } => self.get(resource, checked(key)?, read).await,
            OperationAction::List(options) => self.list(resource, &options).await,
            OperationAction::Create { namespace, object, options } => {
                resource.check_namespace(namespace.as_deref())?;
                namespace.as_deref().map_or(Ok(()), |namespace| check_segment("namespace", namespace))?;
                let request = requests::create(resource, namespace.as_deref(), object, &options, &self.field_manager)?;
                let text = self.wire.send(request).await?;
                self.wrote(&text, resource, options.dry_run)
            }
            OperationAction::Update { key, status, object, options } => {
                let key = checked(key)?;
                let request = requests::update(resource, &key, status, object, &options, &self.field_manager)?;
                let text = self.wire.send(request).await?;
                self.wrote(&text, resource, options.dry_run)
            }
            OperationAction::Patch { key, subresource, body, force, options } => {
                let key = checked(key)?;
                let subresource = subresource.as_deref();
                let request = requests::patch(resource, &key, subresource, body, force, &options, &self.field_manager)?;
                let text = self.wire.send(request).await?;
                self.wrote(&text, resource, options.dry_run)
            }
            OperationAction::Delete { key, options } => self.delete(resource, &checked(key)?, &options).await,
        }
    }
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
