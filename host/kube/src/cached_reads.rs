//! Cached reads: from the shared informers, as far as RBAC lets the plugin's ServiceAccount see them.
//!
//! Which informer answers a cached read:
//! - one that sees the whole kind, if the plugin watches the kind so, or has read it before;
//! - else, for a kind that the plugin watches by selectors only: that informer for what it holds and for lists by the
//!   very same selector, and the API server for the rest, so that a selector never makes an object look missing;
//! - for a kind that the plugin watches with fields pruned: that informer for lists whose projection asks for none of
//!   these, and the API server for whole objects, so that nobody writes one back without them;
//! - else an informer of the whole kind, started now and kept as long as the plugin runs, or until its quota of cached
//!   bytes is used up: then the API server.

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError},
    time::Duration,
};

use futures::{StreamExt, TryStreamExt, stream};
use operetta_core::{
    grants::{Access, ReadVerb, SubjectGrants},
    kind::GroupVersionKind,
    manifest::{Index, IndexKey},
    object::ObjectKey,
    operation::{ListOptions, Page, Read, Reply, Selection},
    selector::{LabelSelector, MetadataFieldSelector},
    status::{ApiError, ErrorKind},
};

use crate::{
    access::reading,
    cache::{Cache, Query, key_of_token},
    discovery::ApiResource,
    informer::{Informer, InformerState, Scope},
    needs,
    object_api::{PluginApi, bad_request, object},
    requests,
    store::Lookup,
};

/// How long a read waits for an informer whose list fails, before it reports the failure.
const FAILING_SYNC: Duration = Duration::from_secs(3);

/// Who answers a cached read.
enum Source {
    Whole(Arc<Informer>),
    Selected(Vec<Arc<Informer>>),
}

impl PluginApi {
    pub(crate) async fn get(&self, resource: &Arc<ApiResource>, key: ObjectKey, read: Read) -> Result<Reply, ApiError> {
        if read == Read::Cached {
            if let Some(grants) = &self.grants {
                let namespace = key.namespace.as_deref();
                grants.check(&reading(resource, ReadVerb::Get, namespace, Some(&key.name))).await?;
            }
            match self.source(resource, false, &[])? {
                Source::Whole(informer) => {
                    wait_synced(&informer).await?;
                    let found = informer.cache.get(&key).ok_or_else(|| not_found(resource, &key))?;
                    return Ok(Reply::Object(found));
                }
                Source::Selected(informers) => {
                    if let Some(found) = informers.iter().find_map(|informer| informer.cache.get(&key)) {
                        return Ok(Reply::Object(found));
                    }
                    self.throttle().await;
                }
            }
        }
        let text = self.wire.send(requests::get(resource, &key)?).await?;
        Ok(Reply::Object(object(&text, resource)?))
    }

    pub(crate) async fn list(&self, resource: &Arc<ApiResource>, options: &ListOptions) -> Result<Reply, ApiError> {
        let plain = options.selection == Selection::All;
        if options.read == Read::Live {
            if !plain {
                return Err(bad_request("lists by index or owner are answered by the cache: set read to cached"));
            }
            return self.list_live(resource, options).await;
        }
        let parts = self.may_list(resource, options).await?;
        match self.source(resource, !plain, &self.asked(resource, options))? {
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
                    None => {
                        self.throttle().await;
                        self.list_live(resource, options).await
                    }
                }
            }
        }
    }

    /// The fields that a list needs: none named are all.
    fn asked(&self, resource: &ApiResource, options: &ListOptions) -> Vec<String> {
        let mut asked = options.projection.clone();
        if let Selection::ByIndex { name, .. } = &options.selection
            && let Ok(IndexKey::Path(path)) = self.index(name, &resource.kind)
            && !asked.is_empty()
        {
            asked.push(path);
        }
        asked
    }

    pub(crate) async fn throttle(&self) {
        if let Some(throttle) = self.throttle.get() {
            throttle.wait().await;
        }
    }

    /// Whether a list shows only some of the namespaces that it is about: a plugin with rights in two of them sees those,
    /// as controller-runtime's cache of several namespaces does.
    ///
    /// # Errors
    /// `Forbidden` for a list of one namespace, or of a kind without.
    async fn may_list(&self, resource: &ApiResource, options: &ListOptions) -> Result<Parts, ApiError> {
        let Some(grants) = &self.grants else { return Ok(Parts::All) };
        let name = options.fields.as_deref().and_then(needs::named);
        let access = reading(resource, ReadVerb::List, options.namespace.as_deref(), name.as_deref());
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

    /// Who answers cached reads of a kind; `whole` when only an informer of the whole kind can. What is asked for are the
    /// fields at the paths of `projection`, or all of them.
    ///
    /// # Errors
    /// `TooManyRequests` when there may be none.
    fn source(&self, resource: &Arc<ApiResource>, whole: bool, projection: &[String]) -> Result<Source, ApiError> {
        {
            let watched = self.watched.read().unwrap_or_else(PoisonError::into_inner);
            let of_kind = watched.informers.iter().filter(|informer| informer.resource.kind == resource.kind);
            let of_kind: Vec<_> = of_kind.cloned().collect();
            let useful = of_kind.iter().filter(|informer| informer.scope.has(projection)).cloned();
            let (all, selected): (Vec<_>, Vec<_>) = useful.partition(|informer| informer.scope.is_everywhere());
            if let Some(informer) = all.into_iter().next() {
                return Ok(Source::Whole(informer));
            }
            if !whole && !of_kind.is_empty() {
                return Ok(Source::Selected(selected));
            }
        }
        let mut on_demand = self.on_demand.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(on_demand) = on_demand.as_mut() else {
            let message = format!(
                "lists of {} by index or owner need the host's cache, and this plugin's quota of it (cacheBytes) is used up",
                resource.kind
            );
            return if whole {
                Err(ApiError::new(ErrorKind::TooManyRequests, message))
            } else {
                Ok(Source::Selected(vec![]))
            };
        };
        let start = || self.registry.informer(resource, Scope::everything());
        Ok(Source::Whole(on_demand.entry(resource.kind.clone()).or_insert_with(start).clone()))
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
