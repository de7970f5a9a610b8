//! What triggers the manager's own controllers: a change of a Plugin, or of an object it depends
//! on, enqueues the Plugin.

use std::sync::Arc;

use operetta_api::{labels::CLASS, reasons};
use operetta_core::{
    authz::{
        access_review::{Grants, ServiceAccount},
        host_permissions::HostPermissions,
    },
    handler::event::Event,
    manifest::Predicate,
    object::{Object, ObjectKey},
    predicate,
    queue::WorkQueue,
    replicas::Group,
};
use operetta_kube::{
    informer::{Handler, Subscription},
    store::Lookup,
};
use tokio::sync::watch;

use crate::{
    authz::consent,
    context::Context,
    plugin::{
        host_informers::HostInformers, hosted_plugins::HostedPlugins, ownership::Ownership,
        queue::PluginQueue, setup::assembly::DRAIN, source::parts::PART_OF, teardown,
    },
};

/// Event handlers for the manager's own informers.
#[derive(Clone)]
pub struct Triggers {
    context: Arc<Context>,
    informers: Arc<HostInformers>,
    hosted_plugins: Arc<HostedPlugins>,
    ownership: Arc<Ownership>,
    drop_ins: PluginQueue,
    /// The namespaces of [`teardown::rights`].
    rights: WorkQueue<ObjectKey>,
}

impl Triggers {
    /// Creates the handlers.
    pub fn new(
        context: &Arc<Context>,
        informers: &Arc<HostInformers>,
        hosted_plugins: &Arc<HostedPlugins>,
        ownership: &Arc<Ownership>,
        drop_ins: PluginQueue,
        rights: WorkQueue<ObjectKey>,
    ) -> Self {
        Self {
            context: context.clone(),
            informers: informers.clone(),
            hosted_plugins: hosted_plugins.clone(),
            ownership: ownership.clone(),
            drop_ins,
            rights,
        }
    }

    /// Subscribes the handlers, until the subscriptions are dropped.
    pub fn subscribe(&self) -> Vec<Subscription> {
        let informers = &self.informers;
        let roles = informers.roles.iter().map(|informer| {
            let on_event = if informer.resource.kind.kind == "ClusterRole" {
                Self::on_cluster_role
            } else {
                Self::on_role
            };
            informer.subscribe(self.handler(on_event), None)
        });
        let mut subscriptions: Vec<Subscription> = roles.collect();
        subscriptions.extend([
            informers
                .plugins
                .subscribe(self.handler(Self::on_plugin), None),
            informers
                .config_maps
                .subscribe(self.handler(Self::on_config_map), None),
            informers.parts.subscribe(self.handler(Self::on_part), None),
            informers
                .namespaces
                .subscribe(self.handler(Self::on_namespace), None),
            informers
                .service_accounts
                .subscribe(self.handler(Self::on_service_account), None),
        ]);

        subscriptions
    }

    /// Enqueues everything when replicas join or leave.
    pub async fn follow_group(self, mut group: watch::Receiver<Group>) {
        while group.changed().await.is_ok() {
            self.enqueue_all(None);
        }
    }

    fn handler(&self, on_event: fn(&Self, &Event)) -> Handler {
        let triggers = self.clone();
        Arc::new(move |event: &Event| on_event(&triggers, event))
    }

    /// Enqueues a changed Plugin, and its drop-in ConfigMap, so that a deleted Plugin is recreated.
    /// The reconcile corrects a status written by somebody else, and does nothing after the host's
    /// own write. A changed annotation may request another load.
    fn on_plugin(&self, event: &Event) {
        let key = event.object().key();
        self.keep_rights_of(event);
        // Before the Plugin is enqueued: a reconcile skips Plugins that aren't counted.
        self.count(event);
        self.revoke_changed(event);

        if predicate::passes(&[Predicate::GenerationChanged], event) || event.object().deleting() {
            self.context.queue.enqueue_changed(key);
            self.drop_ins.enqueue_changed(key);
            return;
        }

        let is_changed = |path: &&str| {
            event
                .old()
                .is_some_and(|old| old.at(path) != event.object().at(path))
        };
        if [".status", ".metadata.annotations"].iter().any(is_changed) {
            self.context.queue.enqueue(key);
        }
    }

    /// Counts a Plugin towards its namespace's quotas, until it is deleted.
    fn count(&self, event: &Event) {
        let plugin = event.object();
        let admission = &self.context.tenants.admission;
        if matches!(event, Event::Deleted { .. }) || teardown::is_gone(plugin) {
            return admission.remove(plugin.key());
        }

        let created = plugin
            .scalar_at(".metadata.creationTimestamp")
            .unwrap_or_default();
        let was_over = || {
            plugin.scalar_at(".status.reason").as_deref() == Some(reasons::QUOTA_EXCEEDED.as_str())
        };
        admission.add(plugin.key(), &created, was_over);
    }

    /// Revokes a Plugin's permit: immediately if the Plugin was deleted or names another
    /// ServiceAccount, and after [`DRAIN`], for in-flight reconciles to end, if it was suspended.
    /// Revokes the permits of shards this replica no longer owns.
    fn revoke_changed(&self, event: &Event) {
        let object = event.object();
        if matches!(event, Event::Deleted { .. }) || teardown::is_gone(object) {
            return self
                .hosted_plugins
                .revoke(object.key(), "the Plugin was deleted");
        }

        let Some(old) = event.old() else { return };
        let lost = self.ownership.lost(old, object);
        if !lost.is_empty() {
            self.hosted_plugins.revoke_shards(object.key(), &lost);
        }

        let is_changed = |path: &str| old.scalar_at(path) != object.scalar_at(path);
        if is_changed(".spec.serviceAccountName") {
            self.hosted_plugins
                .revoke(object.key(), "the Plugin names another ServiceAccount now");
        } else if is_changed(".spec.suspend") && is_suspended(object) {
            let hosted_plugins = self.hosted_plugins.clone();
            let informers = self.informers.clone();
            let key = object.key().clone();
            tokio::spawn(async move {
                tokio::time::sleep(DRAIN).await;
                // It may have been resumed, or deleted and created again.
                let now = informers.plugins.cache.get(&key);
                if now.is_some_and(|plugin| is_suspended(&plugin)) {
                    hosted_plugins.revoke(&key, "the Plugin is suspended");
                }
            });
        }
    }

    fn on_config_map(&self, event: &Event) {
        let key = event.object().key();
        self.drop_ins.enqueue_changed(key);
        self.enqueue_users(key);
    }

    fn on_part(&self, event: &Event) {
        let object = event.object();
        if let Some(first) = object.label(PART_OF) {
            self.enqueue_users(&ObjectKey {
                namespace: object.key().namespace.clone(),
                name: first.to_owned(),
            });
        }
    }

    /// Enqueues everything in a namespace that was opted in or out, whose consent must name digests
    /// from now on, or that moved to another trust class. One that moves away keeps its permits
    /// until in-flight reconciles had time to end.
    fn on_namespace(&self, event: &Event) {
        let namespace = event.object().key().name.as_str();
        let opt_in = |object: &Arc<Object>| consent::check_namespace(namespace, Some(object));
        let is_other_class = |object: &Arc<Object>| {
            let class = consent::class_of(namespace, Some(object));
            !self.context.config.is_own_class(class)
        };
        let name = Some(namespace);
        if let Event::Modified { old, object } = event {
            let class = |object: &Arc<Object>| object.label(CLASS).map(str::to_owned);
            if opt_in(old) == opt_in(object)
                && class(old) == class(object)
                // What a teardown needs was revoked if its deletion was seen before the namespace's.
                && old.deleting() == object.deleting()
            {
                return;
            }
            if is_other_class(object) && !is_other_class(old) {
                let moved: Vec<ObjectKey> = self
                    .informers
                    .plugins_in(name)
                    .map(|plugin| plugin.key().clone())
                    .collect();
                let hosted_plugins = self.hosted_plugins.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(DRAIN).await;
                    for plugin in moved {
                        hosted_plugins
                            .revoke(&plugin, "the namespace is of another trust class now");
                    }
                });
            }
        }

        if matches!(event, Event::Deleted { .. })
            && let Err(problem) = consent::check_namespace(namespace, None)
        {
            for plugin in self.informers.plugins_in(name) {
                self.hosted_plugins.revoke(plugin.key(), &problem.message);
            }
        }

        self.enqueue_all(name);
    }

    /// Revokes the permits of Plugins to which a ServiceAccount no longer consents. Enqueues all
    /// Plugins that name it, and their drop-in ConfigMaps: without consent the configuration isn't
    /// parsed.
    fn on_service_account(&self, event: &Event) {
        self.keep_rights(event);
        let key = event.object().key();
        let is_revoked =
            matches!(event, Event::Deleted { .. }) || self.informers.is_revoked(event.object());
        let found = (!is_revoked).then_some(event.object().as_ref());
        let account = ServiceAccount {
            namespace: key.namespace.clone().unwrap_or_default(),
            name: key.name.clone(),
        };

        for plugin in self.informers.plugins_in(key.namespace.as_deref()) {
            if plugin.scalar_at(".spec.serviceAccountName").as_ref() != Some(&key.name) {
                continue;
            }
            match consent::check_account(&account, found, &plugin.key().name) {
                Err(problem) => self.hosted_plugins.revoke(plugin.key(), &problem.message),
                Ok(allowed)
                    if !self
                        .hosted_plugins
                        .permit_running_code(plugin.key(), &allowed) =>
                {
                    let message = "the ServiceAccount does not consent to this code any more";
                    self.hosted_plugins.revoke(plugin.key(), message);
                }
                Ok(_) => {}
            }

            self.context.queue.enqueue(plugin.key());
            self.drop_ins.enqueue(plugin.key());
        }
    }

    /// Enqueues the Plugins in a namespace with changed roles or bindings, or all Plugins if those
    /// are cluster-wide: the host's permission to impersonate a ServiceAccount may have changed.
    fn on_role(&self, event: &Event) {
        self.keep_rights(event);
        if matches!(event, Event::Added { initial: true, .. }) {
            return;
        }
        let key = event.object().key();

        for plugin in self.informers.plugins_in(key.namespace.as_deref()) {
            self.context.queue.enqueue(plugin.key());
            // The authorizer sees the change a moment later.
            self.context
                .queue
                .enqueue_after(plugin.key(), Grants::SETTLE + HostPermissions::KEEP);
        }
    }

    /// Enqueues all Plugins if one of the host's own ClusterRoles changed. Others don't matter, and
    /// aggregated ones change with each CRD.
    fn on_cluster_role(&self, event: &Event) {
        if event.object().key().name.starts_with("operetta") {
            self.on_role(event);
        }
    }

    /// Lets the teardown look at a namespace in which something that Plugins act with has changed.
    fn keep_rights(&self, event: &Event) {
        let object = event.object();
        let Some(namespace) = object.key().namespace.as_deref() else {
            return;
        };
        // At the start, the Plugins of the namespace have events of their own.
        let is_initial = matches!(event, Event::Added { initial: true, .. });
        let mut plugins = self.informers.plugins_in(Some(namespace));
        if teardown::is_held(object)
            || !is_initial && plugins.any(|plugin| teardown::is_held(&plugin))
        {
            self.rights.add(ObjectKey::cluster_scoped(namespace));
        }
    }

    /// Lets the teardown look at the namespace of a Plugin that needs what it acts with, or did so.
    fn keep_rights_of(&self, event: &Event) {
        let plugin = event.object();
        let is_same = |old: &Arc<Object>| {
            old.generation() == plugin.generation() && old.finalizers() == plugin.finalizers()
        };
        if event.old().is_some_and(is_same) {
            return;
        }
        let was_held = event.old().is_some_and(|old| teardown::is_held(old));
        if was_held || teardown::is_held(plugin) || matches!(event, Event::Deleted { .. }) {
            let namespace = plugin.key().namespace.clone().unwrap_or_default();
            self.rights.add(ObjectKey::cluster_scoped(namespace));
        }
    }

    /// Enqueues the Plugins with this ConfigMap as their source.
    fn enqueue_users(&self, config_map: &ObjectKey) {
        let namespace = config_map.namespace.as_deref();
        for plugin in self.informers.plugins_in(namespace) {
            if plugin.scalar_at(".spec.source.configMap.name").as_ref() == Some(&config_map.name) {
                self.context.queue.enqueue_changed(plugin.key());
            }
        }
    }

    /// Enqueues all Plugins and drop-in ConfigMaps, in one namespace or everywhere.
    fn enqueue_all(&self, namespace: Option<&str>) {
        for plugin in self.informers.plugins_in(namespace) {
            self.context.queue.enqueue(plugin.key());
        }

        let config_maps = &self.informers.config_maps.cache.store;
        for config_map in config_maps.list(&Lookup::All, namespace, None) {
            self.drop_ins.enqueue(config_map.key());
        }
    }
}

fn is_suspended(plugin: &Object) -> bool {
    plugin.scalar_at(".spec.suspend").as_deref() == Some("true")
}
