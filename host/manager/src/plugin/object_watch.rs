//! The watch of one object that a Plugin depends on.

use std::sync::Arc;

use operetta_core::{handler::event::Event, object::ObjectKey};
use operetta_kube::{
    discovery::ApiResource,
    informer::{Scope, Subscription},
};

use crate::context::Context;

/// Enqueues a Plugin whenever an object changes that it depends on. Watches only that object's metadata.
pub fn watch_object(
    context: &Context,
    plugin: &ObjectKey,
    resource: &Arc<ApiResource>,
    object: &ObjectKey,
) -> Subscription {
    let scope = Scope {
        namespace: object.namespace.clone(),
        fields: format!("metadata.name={}", object.name),
        metadata_only: true,
        ..Scope::everything()
    };
    let queue = context.queue.clone();
    let plugin = plugin.clone();
    let enqueue = Arc::new(move |_: &Event| queue.enqueue_changed(&plugin));
    context.cluster.registry.informer(resource, scope).subscribe(enqueue, None)
}
