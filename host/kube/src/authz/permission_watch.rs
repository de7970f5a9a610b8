//! A watch of roles and bindings that invalidates cached access reviews when permissions change.

use std::sync::Arc;

use operetta_core::{
    authz::access_review::Grants, handler::event::Event, object::kind::GroupVersionKind, status::ApiError,
};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    discovery::Discovery,
    informer::{InformerState, Scope, Subscription, registry::InformerRegistry},
};

/// The API version of roles and bindings.
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Invalidates cached access reviews at every change of a role or a binding, until it is dropped. While one of its
/// watches fails, the cache uses shorter lifetimes.
pub struct PermissionWatch {
    _subscriptions: Vec<Subscription>,
    _health: JoinSet<()>,
}

impl PermissionWatch {
    /// Starts the watches.
    ///
    /// # Errors
    /// The API server's error when it does not serve these kinds.
    pub async fn start(
        grants: &Arc<Grants>,
        discovery: &Discovery,
        registry: &InformerRegistry,
    ) -> Result<Self, ApiError> {
        let mut subscriptions = Vec::new();
        for kind in ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"] {
            let resource = discovery.resolve(&GroupVersionKind::new(RBAC, kind)).await?;
            // The subjects of RoleBindings are needed as well.
            let metadata_only = kind != "RoleBinding";
            let informer = registry.informer(&resource, Scope { metadata_only, ..Scope::everything() });
            let cached = grants.clone();
            let expire = move |event: &Event| {
                if !metadata_only {
                    note_binding(&cached, event);
                }
                if !matches!(event, Event::Added { initial: true, .. }) {
                    cached.changed(event.object().key().namespace.as_deref());
                }
            };
            subscriptions.push(informer.subscribe(Arc::new(expire), None));
        }
        let mut health = JoinSet::new();
        let states = subscriptions.iter().map(|subscription| subscription.informer().state()).collect();
        health.spawn(follow(states, grants.clone()));
        Ok(Self { _subscriptions: subscriptions, _health: health })
    }
}

fn note_binding(grants: &Grants, event: &Event) {
    let binding = event.object();
    let is_gone = matches!(event, Event::Deleted { .. });
    grants.set_binding(binding.key(), (!is_gone).then(|| binding.at(".subjects").unwrap_or("[]")));
}

async fn follow(mut states: Vec<watch::Receiver<InformerState>>, grants: Arc<Grants>) {
    loop {
        let is_healthy =
            |state: &watch::Receiver<InformerState>| state.borrow().synced && state.borrow().error.is_none();
        grants.set_watched(states.iter().all(is_healthy));
        let changes = states.iter_mut().map(|state| Box::pin(state.changed()));
        if futures::future::select_all(changes).await.0.is_err() {
            return;
        }
    }
}
