//! A plugin's reads and writes: cached reads from the shared informers, as far as RBAC lets the plugin's ServiceAccount see
//! them, everything else at the API server under that identity.
//!
//! Which informer answers a cached read:
//! - one that sees the whole kind, if the plugin watches the kind so, or has read it before;
//! - else, for a kind that the plugin watches by selectors only: that informer for what it holds and for lists by the
//!   very same selector, and the API server for the rest, so that a selector never makes an object look missing;
//! - else an informer of the whole kind, started now and kept as long as the plugin runs.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use operetta_core::{
    grants::{Access, ReadVerb, SubjectGrants},
    kind::GroupVersionKind,
    manifest::{Index, IndexKey},
    object::{ManagedFields, Object, ObjectKey},
    operation::{ListOptions, Operation, OperationAction, Page, Read, Reply, Selection, Verb},
    ports::ObjectApi,
    raw::{RawRequest, RawResponse, Target},
    selector::{LabelSelector, MetadataFieldSelector},
    status::{ApiError, ErrorKind},
};

use crate::{
    access::reading,
    cache::{Cache, Query, key_of_token},
    discovery::{ApiResource, Discovery},
    informer::{Informer, InformerState, Scope},
    registry::InformerRegistry,
    requests::{self, DeleteAnswer},
    store::Lookup,
    wire::{Identity, Wire, check_key, check_segment},
};

/// How long a read waits for an informer whose list fails, before it reports the failure.
const FAILING_SYNC: Duration = Duration::from_secs(3);

/// The API of one plugin.
pub struct PluginApi {
    /// Writes and live reads go out under the plugin's identity.
    pub(crate) wire: Wire,
    pub(crate) discovery: Arc<Discovery>,
    registry: Arc<InformerRegistry>,
    /// What may be read from caches; None for the host itself, whose caches they are.
    grants: Option<SubjectGrants>,
    /// The field manager of writes that name none.
    field_manager: String,
    /// What the plugin's controllers watch, and its indexes; replaced when its code is.
    watched: RwLock<Watched>,
    /// Informers of whole kinds that cached reads have started.
    on_demand: Mutex<HashMap<GroupVersionKind, Arc<Informer>>>,
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

/// Who answers a cached read.
enum Source {
    Whole(Arc<Informer>),
    Selected(Vec<Arc<Informer>>),
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
        let (watched, on_demand, refusal) = (RwLock::default(), Mutex::default(), Mutex::default());
        Self { wire, discovery, registry, grants, field_manager, watched, on_demand, refusal }
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

    pub(crate) async fn get(&self, resource: &Arc<ApiResource>, key: ObjectKey, read: Read) -> Result<Reply, ApiError> {
        if read == Read::Cached {
            if let Some(grants) = &self.grants {
                let namespace = key.namespace.as_deref();
                grants.check(&reading(resource, ReadVerb::Get, namespace, Some(&key.name))).await?;
            }
            match self.source(resource, false) {
                Source::Whole(informer) => {
                    wait_synced(&informer).await?;
                    let found = informer.cache.get(&key).ok_or_else(|| not_found(resource, &key))?;
                    return Ok(Reply::Object(found));
                }
                Source::Selected(informers) => {
                    if let Some(found) = informers.iter().find_map(|informer| informer.cache.get(&key)) {
                        return Ok(Reply::Object(found));
                    }
                }
            }
        }
        let text = self.wire.send(requests::get(resource, &key)?).await?;
        Ok(Reply::Object(object(&text, resource)?))
    }

    pub(crate) async fn list(&self, resource: &Arc<ApiResource>, options: &ListOptions) -> Result<Reply, ApiError> {
        if let Some(namespace) = &options.namespace {
            resource.check_namespace(Some(namespace))?;
            check_segment("namespace", namespace)?;
        }
        let plain = options.selection == Selection::All;
        if options.read == Read::Live {
            if !plain {
                return Err(bad_request("lists by index or owner are answered by the cache: set read to cached"));
            }
            return self.list_live(resource, options).await;
        }
        let parts = self.may_list(resource, options).await?;
        match self.source(resource, !plain) {
            Source::Whole(informer) => {
                wait_synced(&informer).await?;
                self.list_cached(&informer, options, parts).await.map(Reply::Page)
            }
            Source::Selected(informers) => {
                let same = |informer: &&Arc<Informer>| {
                    informer.scope.labels == options.labels.as_deref().unwrap_or_default()
                        && informer.scope.fields == options.fields.as_deref().unwrap_or_default()
                };
                match informers.iter().find(same) {
                    Some(informer) => {
                        wait_synced(informer).await?;
                        // The informer selects by them already, and the cache may not know the fields.
                        let options = ListOptions { labels: None, fields: None, ..options.clone() };
                        self.list_cached(informer, &options, parts).await.map(Reply::Page)
                    }
                    None => self.list_live(resource, options).await,
                }
            }
        }
    }

    /// Whether a list shows only some of the namespaces that it is about: a plugin with rights in two of them sees those,
    /// as controller-runtime's cache of several namespaces does.
    ///
    /// # Errors
    /// `Forbidden` for a list of one namespace, or of a kind without.
    async fn may_list(&self, resource: &ApiResource, options: &ListOptions) -> Result<Parts, ApiError> {
        let Some(grants) = &self.grants else { return Ok(Parts::All) };
        let name = options.fields.as_deref().and_then(|fields| fields.strip_prefix("metadata.name="));
        let access = reading(resource, ReadVerb::List, options.namespace.as_deref(), name);
        match grants.check(&access).await {
            Ok(()) => Ok(Parts::All),
            Err(error) if error.kind == ErrorKind::Forbidden && resource.namespaced && access.namespace.is_none() => {
                Ok(Parts::Some(access, error))
            }
            Err(error) => Err(error),
        }
    }

    async fn list_cached(&self, informer: &Informer, options: &ListOptions, parts: Parts) -> Result<Page, ApiError> {
        let visible = match (parts, &self.grants) {
            (Parts::Some(access, refusal), Some(grants)) => {
                let visible = visible(&informer.cache, &access, grants).await?;
                Some(visible).filter(|visible| !visible.is_empty()).ok_or(refusal).map(Some)?
            }
            _ => None,
        };
        let lookup = match &options.selection {
            Selection::All => Lookup::All,
            Selection::ByOwner(uid) => Lookup::Owner(uid.clone()),
            Selection::ByIndex { name, value } => {
                let key = self.index(name, &informer.resource.kind)?;
                informer.cache.store.declare_index(&key);
                Lookup::Index { key, value: value.clone() }
            }
        };
        let labels = LabelSelector::parse(options.labels.as_deref().unwrap_or_default());
        let fields = MetadataFieldSelector::parse(options.fields.as_deref().unwrap_or_default());
        Ok(informer.cache.list(&Query {
            lookup,
            namespace: options.namespace.as_deref(),
            labels: labels.map_err(|error| bad_request(error.to_string()))?,
            fields: fields.map_err(bad_request)?,
            limit: options.limit.map(|limit| limit.max(1) as usize),
            after: options.continue_token.as_deref().map(key_of_token).transpose()?,
            projection: &options.projection,
            visible,
        }))
    }

    async fn list_live(&self, resource: &ApiResource, options: &ListOptions) -> Result<Reply, ApiError> {
        let text = self.wire.send(requests::list(resource, options)?).await?;
        requests::page(&text, resource, &options.projection).map(Reply::Page)
    }

    fn index(&self, name: &str, kind: &GroupVersionKind) -> Result<IndexKey, ApiError> {
        let watched = self.watched.read().unwrap_or_else(PoisonError::into_inner);
        let declared =
            |index: &&Index| index.name == name && index.api_version == kind.api_version && index.kind == kind.kind;
        let index = watched.indexes.iter().find(declared);
        index
            .and_then(Index::key)
            .ok_or_else(|| bad_request(format!("the manifest declares no index {name:?} for {kind}")))
    }

    /// Who answers cached reads of a kind; `whole` when only an informer of the whole kind can.
    fn source(&self, resource: &Arc<ApiResource>, whole: bool) -> Source {
        {
            let watched = self.watched.read().unwrap_or_else(PoisonError::into_inner);
            let of_kind = watched.informers.iter().filter(|informer| informer.resource.kind == resource.kind);
            let (all, selected): (Vec<_>, Vec<_>) =
                of_kind.cloned().partition(|informer| informer.scope.is_everything());
            if let Some(informer) = all.into_iter().next() {
                return Source::Whole(informer);
            }
            if !whole && !selected.is_empty() {
                return Source::Selected(selected);
            }
        }
        let mut on_demand = self.on_demand.lock().unwrap_or_else(PoisonError::into_inner);
        let start = || self.registry.informer(resource, Scope::everything());
        Source::Whole(on_demand.entry(resource.kind.clone()).or_insert_with(start).clone())
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

/// How much of what a list is about may be seen.
enum Parts {
    All,
    /// What was asked, and what is answered when nothing of it may be seen.
    Some(Access, ApiError),
}

/// The namespaces in a cache that may be listed.
async fn visible(cache: &Cache, access: &Access, grants: &SubjectGrants) -> Result<BTreeSet<String>, ApiError> {
    let asked = stream::iter(cache.namespaces()).map(async |namespace| {
        let access = Access { namespace: Some(namespace.clone()), ..access.clone() };
        Ok::<_, ApiError>(grants.allows(&access).await?.then_some(namespace))
    });
    asked.buffer_unordered(8).try_filter_map(async |namespace| Ok(namespace)).try_collect().await
}

fn object(text: &str, resource: &ApiResource) -> Result<Arc<Object>, ApiError> {
    Object::from_json(text, &resource.kind, ManagedFields::Keep).map(Arc::new).map_err(unreadable)
}

fn is_of(object: &Object, resource: &ApiResource) -> bool {
    object.scalar_at("kind").as_deref() == Some(&resource.kind.kind)
}

fn unreadable(error: operetta_core::object::ObjectError) -> ApiError {
    ApiError::new(ErrorKind::Other, format!("the API server's answer is {error}"))
}

fn bad_request(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorKind::BadRequest, message)
}

/// As the API server words it.
fn not_found(resource: &ApiResource, key: &ObjectKey) -> ApiError {
    let group = resource.kind.group();
    let (plural, dot) = (&resource.plural, if group.is_empty() { "" } else { "." });
    ApiError::new(ErrorKind::NotFound, format!("{plural}{dot}{group} {:?} not found", key.name))
}

/// Waits for the first full list; the gate's deadline on the call bounds it. A list that keeps failing is reported.
async fn wait_synced(informer: &Informer) -> Result<(), ApiError> {
    let mut state = informer.state();
    let done = |state: &InformerState| state.synced;
    if done(&state.borrow()) {
        return Ok(());
    }
    while tokio::time::timeout(FAILING_SYNC, state.wait_for(done)).await.is_err() {
        if let Some(error) = &informer.state().borrow().error {
            let message = format!("the cache of {} cannot be filled: {error}", informer.resource.kind);
            return Err(ApiError::new(ErrorKind::Unavailable, message));
        }
    }
    Ok(())
}
