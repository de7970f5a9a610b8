//! What wakes the host's own controllers: each change of an object that a Plugin depends on, and of a Plugin itself, puts
//! the Plugins concerned into the queue of those to look at.

use std::sync::Arc;

use operetta_core::{
    controller::Controller,
    handler::event::Event,
    manifest::Predicate,
    object::{Object, ObjectKey},
    predicate,
    queue::Priority,
};
use operetta_kube::{
    discovery::ApiResource,
    informer::{Handler, Scope, Subscription},
    store::Lookup,
};

use crate::{manager::Host, plugin::source::parts::PART_OF};

impl Host {
    /// Looks at a Plugin whenever one object changes that it depends on. Only that object's metadata is watched.
    pub fn watch_for(
        self: &Arc<Self>,
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
        let (host, plugin) = (Arc::downgrade(self), plugin.clone());
        let tell = Arc::new(move |_: &Event| {
            if let Some(host) = host.upgrade() {
                host.look_at(&plugin);
            }
        });
        self.registry.informer(resource, scope).subscribe(tell, None)
    }

    /// That a Plugin is gone, its drop-in ConfigMap may want to know. A status that somebody else wrote is put right; to
    /// look at one's own costs nothing.
    pub(super) fn on_plugin(&self, plugins: &Arc<Controller>, drop_ins: &Arc<Controller>) -> Handler {
        let (plugins, drop_ins) = (plugins.clone(), drop_ins.clone());
        Arc::new(move |event| {
            let key = event.object().key();
            if predicate::passes(&[Predicate::GenerationChanged], event) || event.object().deleting() {
                plugins.enqueue(key.clone(), Priority::Normal);
                drop_ins.enqueue(key.clone(), Priority::Normal);
            } else if event.old().is_some_and(|old| old.at(".status") != event.object().at(".status")) {
                plugins.enqueue(key.clone(), Priority::Normal);
            }
        })
    }

    pub(super) fn on_config_map(self: &Arc<Self>, drop_ins: &Arc<Controller>) -> Handler {
        let (host, drop_ins) = (Arc::downgrade(self), drop_ins.clone());
        Arc::new(move |event: &Event| {
            let key = event.object().key();
            drop_ins.enqueue(key.clone(), Priority::Normal);
            if let Some(host) = host.upgrade() {
                host.look_at_users(key);
            }
        })
    }

    pub(super) fn on_part(self: &Arc<Self>) -> Handler {
        let host = Arc::downgrade(self);
        Arc::new(move |event: &Event| {
            let object = event.object();
            if let (Some(host), Some(first)) = (host.upgrade(), object.label(PART_OF)) {
                host.look_at_users(&ObjectKey { namespace: object.key().namespace.clone(), name: first.to_owned() });
            }
        })
    }

    /// A namespace takes part, or does not any more.
    pub(super) fn on_namespace(self: &Arc<Self>, drop_ins: &Arc<Controller>) -> Handler {
        let (host, drop_ins) = (Arc::downgrade(self), drop_ins.clone());
        Arc::new(move |event: &Event| {
            if matches!(event, Event::Modified { .. }) {
                return;
            }
            let Some(host) = host.upgrade() else { return };
            let name = Some(event.object().key().name.as_str());
            host.look_at_all(name, |_| true);
            for config_map in host.labelled_config_maps().cache.store.list(&Lookup::All, name, None) {
                drop_ins.enqueue(config_map.key().clone(), Priority::Normal);
            }
        })
    }

    /// A ServiceAccount may have consented, or not any more.
    pub(super) fn on_service_account(self: &Arc<Self>) -> Handler {
        let host = Arc::downgrade(self);
        Arc::new(move |event: &Event| {
            let key = event.object().key();
            if let Some(host) = host.upgrade() {
                host.look_at_all(key.namespace.as_deref(), |plugin| {
                    plugin.scalar_at(".spec.serviceAccountName").as_ref() == Some(&key.name)
                });
            }
        })
    }

    /// Looks at every Plugin whose source is this ConfigMap: not only the one of its name may be.
    fn look_at_users(&self, config_map: &ObjectKey) {
        self.look_at_all(config_map.namespace.as_deref(), |plugin| {
            plugin.scalar_at(".spec.source.configMap.name").as_ref() == Some(&config_map.name)
        });
    }

    fn look_at_all(&self, namespace: Option<&str>, concerns: impl Fn(&Object) -> bool) {
        for plugin in self.plugins().cache.store.list(&Lookup::All, namespace, None) {
            if concerns(&plugin) {
                self.look_at(plugin.key());
            }
        }
    }
}
