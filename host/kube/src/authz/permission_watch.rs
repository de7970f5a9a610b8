//! Watches roles and bindings to invalidate cached access reviews when permissions change.

use std::sync::Arc;

use operetta_core::{
    authz::access_review::{BindingText, Grants},
    handler::event::Event,
    object::kind::GroupVersionKind,
    status::ApiError,
};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    discovery::Discovery,
    informer::{InformerState, Scope, Subscription, registry::InformerRegistry},
};

/// The API version of roles and bindings.
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Until dropped, invalidates cached access reviews when a role or binding changes. While one of
/// its watches fails, the cache uses shorter lifetimes.
pub struct PermissionWatch {
    _subscriptions: Vec<Subscription>,
    _health: JoinSet<()>,
}

impl PermissionWatch {
    /// Starts the watches.
    ///
    /// # Errors
    /// The API server's error, if it does not serve these kinds.
    pub async fn start(
        grants: &Arc<Grants>,
        discovery: &Discovery,
        registry: &InformerRegistry,
    ) -> Result<Self, ApiError> {
        let mut subscriptions = Vec::new();
        for kind in ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"] {
            let resource = discovery
                .resolve(&GroupVersionKind::new(RBAC, kind))
                .await?;
            // Bindings are needed with their subjects and role.
            let metadata_only = !kind.ends_with("Binding");

            let informer = registry.informer(
                &resource,
                Scope {
                    metadata_only,
                    ..Scope::everything()
                },
            );

            let cached = grants.clone();
            let expire = move |event: &Event| {
                let is_initial = matches!(event, Event::Added { initial: true, .. });
                match metadata_only {
                    true if is_initial => {}
                    true => cached.role_changed(event.object().key()),
                    false => note_binding(&cached, event, is_initial),
                }
            };

            subscriptions.push(informer.subscribe(Arc::new(expire), None));
        }

        let mut health = JoinSet::new();
        let states = subscriptions
            .iter()
            .map(|subscription| subscription.informer().state())
            .collect();
        health.spawn(follow(states, grants.clone()));

        Ok(Self {
            _subscriptions: subscriptions,
            _health: health,
        })
    }
}

fn note_binding(grants: &Grants, event: &Event, is_initial: bool) {
    let binding = event.object();
    let text = || BindingText {
        subjects: binding.at(".subjects").unwrap_or("[]"),
        role: binding.at(".roleRef").unwrap_or("{}"),
    };
    let text = (!matches!(event, Event::Deleted { .. })).then(text);

    if is_initial {
        grants.set_binding(binding.key(), text);
    } else {
        grants.binding_changed(binding.key(), text);
    }
}

async fn follow(mut states: Vec<watch::Receiver<InformerState>>, grants: Arc<Grants>) {
    loop {
        let is_healthy = |state: &watch::Receiver<InformerState>| {
            state.borrow().synced && state.borrow().error.is_none()
        };
        grants.set_watched(states.iter().all(is_healthy));
        let changes = states.iter_mut().map(|state| Box::pin(state.changed()));
        if futures::future::select_all(changes).await.0.is_err() {
            return;
        }
    }
}
