//! The registry of shared informers: one per kind and scope, which ends with its last user.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use operetta_core::{
    authz::{access_review::Grants, host_permissions::HostPermissions},
    object::{Object, kind::GroupVersionKind},
};
use parking_lot::Mutex;

use crate::{
    authz::{access_review::SubjectAccessReviews, watch_scope::WatchScope},
    client::wire::Wire,
    discovery::ApiResource,
    informer::{Informer, Scope, Settings, Timing},
    store::Packing,
};

/// The shared informers of a host.
pub struct InformerRegistry {
    wire: Wire,
    /// The namespaces in which informers may watch.
    pub watch_scope: WatchScope,
    settings: Settings,
    /// The informers, looked up and added under one lock, so that concurrent users share one informer.
    informers: Mutex<HashMap<(GroupVersionKind, Scope), Weak<Informer>>>,
}

impl InformerRegistry {
    /// Creates a registry whose informers watch with this identity.
    pub fn new(wire: Wire) -> Arc<Self> {
        Self::with_timing(wire, Timing::default())
    }

    /// Creates a registry with this timing.
    pub fn with_timing(wire: Wire, timing: Timing) -> Arc<Self> {
        let reviews = Arc::new(SubjectAccessReviews::new(wire.clone()));
        let settings = Settings { timing, packing: Packing::default(), recorder: None };
        Self::with(wire, settings, HostPermissions::new(Grants::new(reviews)))
    }

    /// Creates a registry with these settings. `permissions` are those of the identity.
    pub fn with(wire: Wire, settings: Settings, permissions: HostPermissions) -> Arc<Self> {
        let watch_scope = WatchScope::new(permissions);
        Arc::new(Self { wire, watch_scope, settings, informers: Mutex::default() })
    }

    /// Returns the informer of a resource and scope, and starts it if needed. It runs until its last user drops it.
    pub fn informer(&self, resource: &Arc<ApiResource>, scope: Scope) -> Arc<Informer> {
        let mut informers = self.informers.lock();
        let entry = informers.entry((resource.kind.clone(), scope.clone())).or_default();
        // A kind that was deleted and installed again may have another resource.
        if let Some(running) = entry.upgrade().filter(|informer| informer.resource == *resource) {
            return running;
        }
        let informer = Informer::start(&self.wire, resource.clone(), scope, self.settings.clone());
        *entry = Arc::downgrade(&informer);
        informers.retain(|_, informer| informer.strong_count() > 0);
        informer
    }

    /// Returns the running informers.
    pub fn running(&self) -> Vec<Arc<Informer>> {
        let informers = self.informers.lock();
        informers.values().filter_map(Weak::upgrade).collect()
    }

    /// Adds the response to a write to the overlays of a kind's informers.
    pub fn wrote(&self, kind: &GroupVersionKind, object: &Arc<Object>) {
        for informer in self.of_kind(kind) {
            informer.wrote(object);
        }
    }

    /// Returns the running informers of a kind.
    pub fn of_kind(&self, kind: &GroupVersionKind) -> Vec<Arc<Informer>> {
        let informers = self.informers.lock();
        let of_kind = informers.iter().filter(|((of, _), _)| of == kind);
        of_kind.filter_map(|(_, informer)| informer.upgrade()).collect()
    }
}
