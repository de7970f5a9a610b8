//! Cached reads from the shared informers, limited to what RBAC lets the plugin's ServiceAccount
//! see.
//!
//! A cached read is answered by
//! - an informer of the whole kind, if the plugin watches the whole kind or has read it before;
//! - for a kind the plugin watches only by selectors, that informer for the objects it has and for
//!   lists with the same selector, and the API server for the rest. So a selector never makes an
//!   object look missing;
//! - for a kind the plugin watches with pruned fields, that informer for lists whose projection
//!   needs none of them, and the API server for complete objects. So no plugin writes an object
//!   back without the pruned fields;
//! - otherwise an informer of the whole kind. It is started on the first read and runs until the
//!   plugin ends. Once the plugin's quota of cached bytes is used up, the API server answers
//!   instead.
//!
//! If the host may not watch a kind in all namespaces (watch_scope.rs), an informer of the
//! requested namespace is used, or the API server if the host may not watch that namespace either.
//! A list of all namespaces is then answered by the API server if the plugin may list them all, and
//! otherwise from the namespaces that both may list.

mod parts;

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::{StreamExt, TryStreamExt, stream};
use operetta_core::{
    authz::access_review::{Access, ReadVerb, SubjectGrants},
    gate::operation::{ListOptions, Page, Read, Selection},
    manifest::{Index, IndexKey},
    object::{
        Object, ObjectKey,
        kind::GroupVersionKind,
        selector::{LabelSelector, MetadataFieldSelector, required_name},
    },
    status::{ApiError, ErrorKind},
};

use crate::{
    authz::access_review::reading,
    client::{
        answers::object,
        object_api::{PluginApi, bad_request},
        requests,
    },
    discovery::ApiResource,
    informer::{Informer, InformerState, Scope},
    store::{
        Lookup,
        cache::{Query, key_of_token},
    },
};

/// How long a read waits for an informer with a failing list before it returns the error.
const FAILING_SYNC: Duration = Duration::from_secs(3);

/// Where a cached read comes from.
enum Source {
    Whole(Arc<Informer>),
    Selected(Vec<Arc<Informer>>),
    /// None: the host may not watch the requested part of the kind.
    NotWatchable,
}

/// The requested part of a kind.
#[derive(Clone, Copy)]
struct Asked<'a> {
    /// None for all namespaces.
    namespace: Option<&'a str>,
    /// Whether only an informer of the whole kind can answer.
    whole: bool,
    /// Paths of the requested fields; empty for all fields.
    projection: &'a [String],
}

impl PluginApi {
    pub(crate) async fn read_object(
        &self,
        resource: &Arc<ApiResource>,
        key: ObjectKey,
        read: Read,
    ) -> Result<Arc<Object>, ApiError> {
        if read == Read::Cached {
            if let Some(grants) = &self.grants {
                let namespace = key.namespace.as_deref();
                self.check_access(
                    grants,
                    &reading(resource, ReadVerb::Get, namespace, Some(&key.name)),
                )
                .await?;
            }

            let asked = Asked {
                namespace: key.namespace.as_deref(),
                whole: false,
                projection: &[],
            };

            match self.source(resource, asked).await? {
                Source::Whole(informer) => {
                    wait_synced(&informer).await?;
                    self.show_own_writes(&informer, key.namespace.as_deref(), Some(&key.name))
                        .await?;
                    let found = informer
                        .cache
                        .get(&key)
                        .ok_or_else(|| not_found(resource, &key))?;
                    return Ok(found);
                }
                Source::Selected(informers) => {
                    for informer in &informers {
                        let namespace = key.namespace.as_deref();
                        self.show_own_writes(informer, namespace, Some(&key.name))
                            .await?;
                    }
                    if let Some(found) = informers
                        .iter()
                        .find_map(|informer| informer.cache.get(&key))
                    {
                        return Ok(found);
                    }
                    self.throttle().await;
                }
                Source::NotWatchable => self.throttle().await,
            }
        }

        let text = self.api_client.send(requests::get(resource, &key)?).await?;
        object(&text, resource)
    }

    pub(crate) async fn read_page(
        &self,
        resource: &Arc<ApiResource>,
        options: &ListOptions,
    ) -> Result<Page, ApiError> {
        // Raw requests skip the gate's check of list options.
        options.check()?;
        let plain = options.selection == Selection::All;

        if options.read == Read::Live {
            if !plain {
                return Err(bad_request(
                    "lists by index or owner are answered by the cache: set read to cached",
                ));
            }
            return self.list_live(resource, options).await;
        }

        let parts = self.may_list(resource, options).await?;
        match self.lister(resource, options).await? {
            Lister::Informer(informer, options) => {
                wait_synced(&informer).await?;
                self.list_cached(&informer, &options, parts).await
            }
            Lister::ApiServer => {
                self.throttle().await;
                self.list_live(resource, options).await
            }
            Lister::NotWatchable => match parts {
                Parts::Some(access, refusal) => {
                    self.list_parts(resource, options, &access, refusal).await
                }
                // The plugin may see more than the host.
                Parts::All if plain => {
                    self.throttle().await;
                    self.list_live(resource, options).await
                }
                Parts::All => Err(not_watchable(resource, options.namespace.as_deref())),
            },
        }
    }

    /// Where a cached list comes from.
    async fn lister(
        &self,
        resource: &Arc<ApiResource>,
        options: &ListOptions,
    ) -> Result<Lister, ApiError> {
        let whole = options.selection != Selection::All;
        let projection = self.asked(resource, options);
        let asked = Asked {
            namespace: options.namespace.as_deref(),
            whole,
            projection: &projection,
        };
        let informers = match self.source(resource, asked).await? {
            Source::Whole(informer) => return Ok(Lister::Informer(informer, options.clone())),
            Source::NotWatchable => return Ok(Lister::NotWatchable),
            Source::Selected(informers) => informers,
        };
        let same = |informer: &Arc<Informer>| {
            informer.scope.labels == options.labels.as_deref().unwrap_or_default()
                && informer.scope.fields == options.fields.as_deref().unwrap_or_default()
        };

        // The informer applies these selectors already, and the cache may not support the fields.
        let rest = ListOptions {
            labels: None,
            fields: None,
            ..options.clone()
        };
        let informer = informers.into_iter().find(same);

        Ok(informer.map_or(Lister::ApiServer, |informer| {
            Lister::Informer(informer, rest)
        }))
    }

    /// The fields a list needs; empty for all.
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

    /// Checks a permission. If that takes a review, it counts as a request of the plugin, because a
    /// plugin reading ever new names causes one for each.
    async fn check_access(&self, grants: &SubjectGrants, access: &Access) -> Result<(), ApiError> {
        if grants.is_known(access) {
            return grants.check(access).await;
        }
        self.throttle().await;
        let _in_flight = self.api_client.throttle().begin().await;
        grants.check(access).await
    }

    /// Makes sure a read from an informer shows the plugin's earlier writes.
    async fn show_own_writes(
        &self,
        informer: &Informer,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<(), ApiError> {
        self.registry
            .show_own_writes(informer, self.author, namespace, name)
            .await
    }

    pub(crate) async fn throttle(&self) {
        self.api_client.throttle().wait().await;
    }

    /// The visible part of a list. A plugin with permissions in two namespaces sees those two, like
    /// with controller-runtime's multi-namespace cache.
    ///
    /// # Errors
    /// `Forbidden` for a denied list of one namespace or of a cluster-scoped kind.
    async fn may_list(
        &self,
        resource: &ApiResource,
        options: &ListOptions,
    ) -> Result<Parts, ApiError> {
        let Some(grants) = &self.grants else {
            return Ok(Parts::All);
        };

        let name = options.fields.as_deref().and_then(required_name);

        let access = reading(
            resource,
            ReadVerb::List,
            options.namespace.as_deref(),
            name.as_deref(),
        );
        match self.check_access(grants, &access).await {
            Ok(()) => Ok(Parts::All),
            Err(error)
                if error.kind == ErrorKind::Forbidden
                    && resource.namespaced
                    && access.namespace.is_none() =>
            {
                Ok(Parts::Some(Box::new(access), error))
            }
            Err(error) => Err(error),
        }
    }

    async fn list_cached(
        &self,
        informer: &Informer,
        options: &ListOptions,
        parts: Parts,
    ) -> Result<Page, ApiError> {
        let visible = match (parts, &self.grants) {
            (Parts::Some(access, refusal), Some(grants)) => {
                let visible = listable(informer.cache.namespaces(), &access, grants).await?;
                Some(visible)
                    .filter(|visible| !visible.is_empty())
                    .ok_or(refusal)
                    .map(Some)?
            }
            _ => None,
        };

        self.show_own_writes(informer, options.namespace.as_deref(), None)
            .await?;

        // Kept until the list is done, because the plugin's code may be replaced meanwhile.
        let mut _used = None;
        let lookup = match &options.selection {
            Selection::All => Lookup::All,
            Selection::ByOwner(uid) => Lookup::Owner(uid.clone()),
            Selection::ByIndex { name, value } => {
                let key = self.index(name, &informer.resource.kind)?;
                _used = Some(self.use_index(&informer.cache.store, &key));
                Lookup::Index {
                    key,
                    value: value.clone(),
                }
            }
        };

        let labels = LabelSelector::parse(options.labels.as_deref().unwrap_or_default());
        let fields = MetadataFieldSelector::parse(options.fields.as_deref().unwrap_or_default());
        let page = informer.cache.list(&Query {
            lookup,
            namespace: options.namespace.as_deref(),
            labels: labels.map_err(|error| bad_request(error.to_string()))?,
            fields: fields.map_err(bad_request)?,
            limit: options.limit.map(|limit| limit.max(1) as usize),
            after: options
                .continue_token
                .as_deref()
                .map(key_of_token)
                .transpose()?,
            projection: &options.projection,
            visible,
        });

        Ok(page?)
    }

    async fn list_live(
        &self,
        resource: &ApiResource,
        options: &ListOptions,
    ) -> Result<Page, ApiError> {
        let text = self
            .api_client
            .send(requests::list(resource, options)?)
            .await?;
        requests::page(&text, resource, &options.projection)
    }

    fn index(&self, name: &str, kind: &GroupVersionKind) -> Result<IndexKey, ApiError> {
        let watched = self.watched.read();
        let declared = |index: &&Index| {
            index.name == name && index.api_version == kind.api_version && index.kind == kind.kind
        };
        let index = watched.indexes.iter().find(declared);
        index.and_then(IndexKey::new).ok_or_else(|| {
            bad_request(format!(
                "the manifest declares no index {name:?} for {kind}"
            ))
        })
    }

    /// Where cached reads of a kind come from.
    ///
    /// # Errors
    /// `TooManyRequests` if only an informer of the whole kind could answer, and the quota does not
    /// allow one.
    async fn source(
        &self,
        resource: &Arc<ApiResource>,
        asked: Asked<'_>,
    ) -> Result<Source, ApiError> {
        let Asked {
            namespace,
            whole,
            projection,
        } = asked;
        {
            let watched = self.watched.read();
            let of_kind = watched
                .informers
                .iter()
                // A kind deleted and installed again may have another resource.
                .filter(|informer| informer.resource == *resource);
            let of_kind = of_kind.filter(|informer| informer.scope.is_within_reach(namespace));
            let of_kind: Vec<_> = of_kind.cloned().collect();
            let useful = of_kind
                .iter()
                .filter(|informer| informer.scope.has(projection))
                .cloned();
            let (all, selected): (Vec<_>, Vec<_>) =
                useful.partition(|informer| informer.scope.covers(namespace));
            if let Some(informer) = all.into_iter().next() {
                return Ok(Source::Whole(informer));
            }
            if !whole && !of_kind.is_empty() {
                return Ok(Source::Selected(selected));
            }
        }

        let Some(started) = self.on_demand(resource, namespace) else {
            return without_cache(resource, whole);
        };
        if let Some(informer) = started {
            return Ok(Source::Whole(informer));
        }

        let watch_scope = &self.registry.watch_scope;
        // If the review fails, the informer reports the cause.
        let location = if !resource.namespaced
            || watch_scope
                .may_watch(resource, None, None)
                .await
                .unwrap_or(true)
        {
            None
        } else if namespace.is_some()
            && watch_scope
                .may_watch(resource, namespace, None)
                .await
                .unwrap_or(false)
        {
            namespace.map(str::to_owned)
        } else {
            return Ok(Source::NotWatchable);
        };

        let scope = Scope {
            namespace: location,
            ..Scope::everything()
        };
        match self.start_on_demand(resource, scope, usize::MAX) {
            Some(informer) => Ok(Source::Whole(informer)),
            None => without_cache(resource, whole),
        }
    }

    /// Starts an informer, unless there is one of the kind and the namespace already. None if none
    /// may be started, because of the quota of cached bytes or of the `limit` to their number.
    pub(crate) fn start_on_demand(
        &self,
        resource: &Arc<ApiResource>,
        scope: Scope,
        limit: usize,
    ) -> Option<Arc<Informer>> {
        let mut on_demand = self.on_demand.lock();
        let on_demand = on_demand.as_mut()?;
        let key = (resource.kind.clone(), scope.namespace.clone());
        if on_demand.len() >= limit && !on_demand.contains_key(&key) {
            self.too_many.store(true, Ordering::Relaxed);
            return None;
        }

        let start = || self.registry.informer(resource, scope.clone());
        let informer = on_demand.entry(key).or_insert_with(start);
        if informer.resource != *resource {
            *informer = start();
        }
        Some(informer.clone())
    }

    /// The informer started by cached reads for the whole kind or for the namespace. The inner None
    /// means there is none yet, the outer None that none may be started.
    #[allow(clippy::option_option, reason = "one may be started, and one exists")]
    pub(crate) fn on_demand(
        &self,
        resource: &Arc<ApiResource>,
        namespace: Option<&str>,
    ) -> Option<Option<Arc<Informer>>> {
        let on_demand = self.on_demand.lock();
        let on_demand = on_demand.as_ref()?;
        let started = |location: Option<&str>| {
            on_demand
                .get(&(resource.kind.clone(), location.map(str::to_owned)))
                .cloned()
        };
        let informer = started(None).or_else(|| started(namespace));
        Some(informer.filter(|informer| informer.resource == *resource))
    }
}

/// Where a cached list comes from.
enum Lister {
    /// An informer, and the options to query it with.
    Informer(Arc<Informer>, ListOptions),
    ApiServer,
    /// None: the host may not watch all of the list's scope.
    NotWatchable,
}

/// The source for a kind when the quota of cached bytes is used up.
fn without_cache(resource: &ApiResource, whole: bool) -> Result<Source, ApiError> {
    let message = format!(
        "lists of {} by index or owner need the host's cache, and this plugin's quota of it (cacheBytes) is used up",
        resource.kind
    );
    if whole {
        Err(ApiError::new(ErrorKind::TooManyRequests, message))
    } else {
        Ok(Source::Selected(vec![]))
    }
}

/// The error for a kind the host itself may not watch. No permission of the plugin helps.
fn not_watchable(resource: &ApiResource, namespace: Option<&str>) -> ApiError {
    let location = namespace.map_or_else(
        || "in all namespaces".to_owned(),
        |name| format!("in namespace {name:?}"),
    );
    let message = format!(
        "this list of {} needs the host's cache, and the host itself may not list and watch {} {location}",
        resource.kind, resource.plural
    );
    ApiError::new(ErrorKind::Forbidden, message)
}

/// The visible part of a list's scope.
enum Parts {
    All,
    /// Some namespaces: the denied request, and the error if none is visible.
    Some(Box<Access>, ApiError),
}

/// Narrows namespaces down to those the plugin may list.
async fn listable(
    namespaces: BTreeSet<String>,
    access: &Access,
    grants: &SubjectGrants,
) -> Result<BTreeSet<String>, ApiError> {
    // RBAC grants nothing more in other namespaces, so they need no review.
    let namespaces = match grants.namespaces() {
        Some(granted) => namespaces.intersection(&granted).cloned().collect(),
        None => namespaces,
    };

    let asked = stream::iter(namespaces).map(async |namespace| {
        let access = Access {
            namespace: Some(namespace.clone()),
            ..access.clone()
        };
        Ok::<_, ApiError>(grants.allows(&access).await?.then_some(namespace))
    });

    asked
        .buffer_unordered(8)
        .try_filter_map(async |namespace| Ok(namespace))
        .try_collect()
        .await
}

/// `NotFound` in the API server's wording.
fn not_found(resource: &ApiResource, key: &ObjectKey) -> ApiError {
    let group = resource.kind.group();
    let plural = &resource.plural;
    let dot = if group.is_empty() { "" } else { "." };
    ApiError::new(
        ErrorKind::NotFound,
        format!("{plural}{dot}{group} {:?} not found", key.name),
    )
}

/// Waits for the first full list, within the gate's timeout for the call. Returns the error of a
/// list that keeps failing.
async fn wait_synced(informer: &Informer) -> Result<(), ApiError> {
    let mut state = informer.state();
    let done = |state: &InformerState| state.synced;
    if done(&state.borrow()) {
        return Ok(());
    }

    while tokio::time::timeout(FAILING_SYNC, state.wait_for(done))
        .await
        .is_err()
    {
        if let Some(error) = &informer.state().borrow().error {
            let message = format!(
                "failed to fill the cache of {}: {error}",
                informer.resource.kind
            );
            return Err(ApiError::new(ErrorKind::Unavailable, message));
        }
    }

    Ok(())
}
