//! The registry of shared informers: one per kind and scope, for as long as anybody uses it.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use operetta_core::{
    authz::{access_review::Grants, host_permissions::HostPermissions},
    object::kind::GroupVersionKind,
    status::ApiError,
};
use parking_lot::Mutex;

use crate::{
    authz::{access_review::SubjectAccessReviews, watch_scope::WatchScope},
    client::api_client::ApiClient,
    discovery::ApiResource,
    informer::{
        Informer,
        own_writes::Effect,
        reflector,
        scope::{Scope, Settings, Timing},
    },
    store::{Packing, overlay::Author},
};

/// A host's shared informers.
pub struct InformerRegistry {
    api_client: ApiClient,
    /// The namespaces informers may watch.
    pub watch_scope: WatchScope,
    settings: Settings,
    /// Looked up and added under one lock, so that concurrent users share one informer.
    informers: Mutex<HashMap<(GroupVersionKind, Scope), Weak<Informer>>>,
}

impl InformerRegistry {
    /// Creates a registry of informers watching under this identity.
    pub fn new(api_client: ApiClient) -> Arc<Self> {
        Self::with_timing(api_client, Timing::default())
    }

    /// Creates a registry with this timing.
    pub fn with_timing(api_client: ApiClient, timing: Timing) -> Arc<Self> {
        let reviews = Arc::new(SubjectAccessReviews::new(api_client.clone()));
        let settings = Settings {
            timing,
            packing: Packing::default(),
            recorder: None,
        };

        Self::with(
            api_client,
            settings,
            HostPermissions::new(Grants::new(reviews)),
        )
    }

    /// Creates a registry with these settings. `permissions` must be those of the client's
    /// identity.
    pub fn with(
        api_client: ApiClient,
        settings: Settings,
        permissions: HostPermissions,
    ) -> Arc<Self> {
        let watch_scope = WatchScope::new(permissions);
        Arc::new(Self {
            api_client,
            watch_scope,
            settings,
            informers: Mutex::default(),
        })
    }

    /// Returns the informer of a resource and scope, starting it if necessary. It runs until its
    /// last user drops it.
    pub fn informer(&self, resource: &Arc<ApiResource>, scope: Scope) -> Arc<Informer> {
        let mut informers = self.informers.lock();
        let entry = informers
            .entry((resource.kind.clone(), scope.clone()))
            .or_default();

        // A kind deleted and installed again may have another resource.
        if let Some(running) = entry
            .upgrade()
            .filter(|informer| informer.resource == *resource)
        {
            return running;
        }

        let informer = reflector::start(
            &self.api_client,
            resource.clone(),
            scope,
            self.settings.clone(),
        );

        *entry = Arc::downgrade(&informer);
        informers.retain(|_, informer| informer.strong_count() > 0);
        informer
    }

    /// The informer of a resource and scope, if it runs.
    pub(crate) fn running_of(
        &self,
        resource: &Arc<ApiResource>,
        scope: &Scope,
    ) -> Option<Arc<Informer>> {
        let informers = self.informers.lock();
        let found = informers.get(&(resource.kind.clone(), scope.clone()))?;
        let running = found.upgrade()?;
        (running.resource == *resource).then_some(running)
    }

    /// The running informers.
    pub fn running(&self) -> Vec<Arc<Informer>> {
        let informers = self.informers.lock();
        informers.values().filter_map(Weak::upgrade).collect()
    }

    /// Adds an own write of an object of `resource` to the overlays of all informers of these
    /// objects, whatever version of the API they watch and whatever they select.
    pub(crate) fn note(&self, resource: &ApiResource, effect: &Effect, author: Author) {
        for informer in self.of_resource(resource) {
            informer.note(&resource.kind, effect, author);
        }
    }

    /// Makes sure a read from an informer shows the author's earlier writes: see
    /// [`Informer::show_own_writes`].
    pub(crate) async fn show_own_writes(
        &self,
        informer: &Informer,
        author: Author,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<(), ApiError> {
        informer
            .show_own_writes(&self.api_client, author, namespace, name)
            .await
    }

    /// The running informers of a resource, in all versions of its API.
    pub(crate) fn of_resource(&self, resource: &ApiResource) -> Vec<Arc<Informer>> {
        let informers = self.informers.lock();
        let running = informers.values().filter_map(Weak::upgrade);
        running
            .filter(|informer| {
                informer.resource.plural == resource.plural
                    && informer.resource.kind.group() == resource.kind.group()
            })
            .collect()
    }

    /// The running informers of a kind.
    pub fn of_kind(&self, kind: &GroupVersionKind) -> Vec<Arc<Informer>> {
        let informers = self.informers.lock();
        let of_kind = informers.iter().filter(|((of, _), _)| of == kind);
        of_kind
            .filter_map(|(_, informer)| informer.upgrade())
            .collect()
    }
}
