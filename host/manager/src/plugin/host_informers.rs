//! The informers of the manager's own controllers: Plugins and the objects they depend on.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use operetta_api::reasons;
use operetta_core::{
    authz::access_review::ServiceAccount,
    handler::event::Event,
    object::{Object, ObjectKey, kind::GroupVersionKind, selector::of_name},
    status::{ApiError, ErrorKind},
};
use operetta_kube::{
    discovery::{ApiResource, Discovery},
    informer::{Informer, Scope, Subscription},
    store::Lookup,
};

use crate::{
    authz::consent::{self, NAMESPACE_LABEL, OptIn},
    cluster::Cluster,
    context::Context,
    plugin::{
        crd,
        source::{artifact::PLUGIN_LABEL, parts::PART_OF},
        teardown::{is_held, rights::is_namespaced},
    },
    problem::Problem,
};

/// Timeout for discovering a built-in kind.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// The manager's own informers. Only Plugins, and the bindings in `roles`, are cached with more
/// than their metadata.
pub struct HostInformers {
    context: Arc<Context>,
    /// All Plugins, or those in `onlyNamespace`.
    pub plugins: Arc<Informer>,
    /// ConfigMaps with the drop-in label.
    pub config_maps: Arc<Informer>,
    /// The further parts of ConfigMaps with a large component.
    pub parts: Arc<Informer>,
    /// The namespaces opted in.
    pub namespaces: Arc<Informer>,
    /// All ServiceAccounts except those named `default`.
    pub service_accounts: Arc<Informer>,
    /// Roles and bindings. The cached access reviews watch them too.
    pub roles: Vec<Arc<Informer>>,
}

impl HostInformers {
    /// Waits until the CRD of Plugins is installed, and starts the informers.
    ///
    /// # Errors
    /// When the API server doesn't serve a built-in kind within a minute.
    pub async fn start(context: Arc<Context>) -> Result<Arc<Self>> {
        let Cluster {
            discovery,
            registry,
            ..
        } = &context.cluster;
        let kind = GroupVersionKind::new(crd::API_VERSION, crd::KIND);
        if discovery.resolve(&kind).await.is_err() {
            tracing::warn!("waiting for the CRD plugins.operetta.dev: kubectl apply -k deploy/crd");
        }

        let own = |scope: Scope| Scope {
            namespace: context.config.only_namespace.clone(),
            ..scope
        };
        let plugins = registry.informer(&discovery.wait_for(&kind).await, own(Scope::everything()));
        let config_map = resolve(discovery, "v1", "ConfigMap").await?;
        let config_maps =
            registry.informer(&config_map, own(labelled(&format!("{PLUGIN_LABEL}=true"))));
        let parts = registry.informer(&config_map, own(labelled(PART_OF)));

        // These are listed by namespace, and a start does that once per Plugin. Without an order,
        // each such list would sort the objects of all namespaces.
        [&plugins, &config_maps, &parts]
            .iter()
            .for_each(|informer| informer.cache.store.keep_order());
        let namespace = resolve(discovery, "v1", "Namespace").await?;
        let namespaces = registry.informer(
            &namespace,
            labelled(&format!(
                "{NAMESPACE_LABEL} in ({})",
                OptIn::VALUES.join(",")
            )),
        );
        registry.watch_scope.choose_from(namespaces.clone());

        let service_account = resolve(discovery, "v1", "ServiceAccount").await?;
        let not_default = Scope {
            fields: "metadata.name!=default".to_owned(),
            ..labelled("")
        };
        let service_accounts = registry.informer(&service_account, not_default);
        let mut roles = Vec::new();

        for kind in ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"] {
            // The same scope as in the watch of permissions, so that they share one watch.
            let scope = Scope {
                metadata_only: !kind.ends_with("Binding"),
                ..Scope::everything()
            };
            roles.push(registry.informer(
                &resolve(discovery, "rbac.authorization.k8s.io/v1", kind).await?,
                scope,
            ));
        }

        // A teardown lists these by namespace as well.
        let namespaced = roles.iter().filter(|informer| is_namespaced(informer));
        namespaced
            .chain([&service_accounts])
            .for_each(|informer| informer.cache.store.keep_order());

        Ok(Arc::new(Self {
            plugins,
            config_maps,
            parts,
            namespaces,
            service_accounts,
            roles,
            context,
        }))
    }

    /// Returns the informers that consent depends on.
    pub fn consent(&self) -> [Arc<Informer>; 3] {
        [
            self.plugins.clone(),
            self.namespaces.clone(),
            self.service_accounts.clone(),
        ]
    }

    /// Returns all of these informers, except for the roles.
    pub fn all(&self) -> [&Arc<Informer>; 5] {
        [
            &self.plugins,
            &self.config_maps,
            &self.parts,
            &self.namespaces,
            &self.service_accounts,
        ]
    }

    /// Returns the cached Plugins in one namespace, or in all.
    pub fn plugins_in(&self, namespace: Option<&str>) -> impl Iterator<Item = Arc<Object>> {
        self.plugins.cache.store.list(&Lookup::All, namespace, None)
    }

    /// Reports whether the informers of Plugins and labelled ConfigMaps are synced.
    pub fn are_synced(&self) -> bool {
        [&self.plugins, &self.config_maps]
            .iter()
            .all(|informer| informer.state().borrow().synced)
    }

    /// Returns the trust class of a namespace as the cache has it; see [`consent::class_of`].
    pub async fn cached_class(&self, name: &str) -> Option<String> {
        self.namespaces.synced().await;
        let key = ObjectKey::cluster_scoped(name);
        let found = self.namespaces.cache.get(&key);
        consent::class_of(name, found.as_deref()).map(str::to_owned)
    }

    /// Returns the trust class of a namespace, which may be newer than the cache.
    ///
    /// # Errors
    /// The API server's error when it doesn't respond.
    pub async fn class(&self, name: &str) -> Result<Option<String>, ApiError> {
        let found = self
            .find(&self.namespaces, &ObjectKey::cluster_scoped(name))
            .await?;
        Ok(consent::class_of(name, found.as_deref()).map(str::to_owned))
    }

    /// Checks that plugins may run in a namespace: that it isn't reserved, is opted in, and is of
    /// this host's trust class.
    ///
    /// # Errors
    /// The API server's error when it doesn't respond.
    pub async fn check_namespace(&self, name: &str) -> Result<Result<OptIn, Problem>, ApiError> {
        let own = self
            .context
            .cluster
            .impersonation
            .own_account()
            .await?
            .map(|account| account.namespace);
        let allowed = &self.context.config.allow_reserved_namespaces;
        if let Err(problem) = consent::check_not_reserved(name, own.as_deref(), allowed) {
            return Ok(Err(problem));
        }

        let found = self
            .find(&self.namespaces, &ObjectKey::cluster_scoped(name))
            .await?;
        let found = found.as_deref();
        let own = self.context.config.class.as_ref();
        Ok(consent::check_namespace(name, found).and_then(|opt_in| {
            consent::check_class(name, consent::class_of(name, found), own).map(|()| opt_in)
        }))
    }

    /// Returns a ServiceAccount, or None if it doesn't exist or is [`Self::is_revoked`]. It can't be
    /// one named `default`.
    ///
    /// # Errors
    /// The API server's error when it doesn't respond.
    pub async fn service_account(
        &self,
        account: &ServiceAccount,
    ) -> Result<Option<Arc<Object>>, ApiError> {
        let key = ObjectKey::namespaced(&account.namespace, &account.name);
        let found = self.find(&self.service_accounts, &key).await?;
        Ok(found.filter(|found| !self.is_revoked(found)))
    }

    /// Reports whether a ServiceAccount's consent has ended with its deletion. It hasn't if the
    /// whole namespace is being deleted and a teardown still needs the ServiceAccount.
    pub fn is_revoked(&self, account: &Object) -> bool {
        let namespace = account.key().namespace.as_deref().unwrap_or_default();
        let is_ending = || {
            let key = ObjectKey::cluster_scoped(namespace);
            let found = self.namespaces.cache.get(&key);
            found.is_some_and(|namespace| namespace.deleting())
        };
        account.deleting() && !(is_held(account) && is_ending())
    }

    /// Returns a text that changes when any further part of this ConfigMap does.
    pub async fn part_versions(&self, first: &ObjectKey) -> String {
        self.parts.synced().await;
        let parts = self
            .parts
            .cache
            .store
            .list(&Lookup::All, first.namespace.as_deref(), None);
        let own = parts.filter(|part| part.label(PART_OF) == Some(&first.name));
        own.map(|part| format!(" {}/{}", part.uid(), part.resource_version()))
            .collect()
    }

    /// Returns an object from an informer or, if it isn't there, from the API server: an object
    /// applied together with its Plugin shouldn't be reported as missing.
    async fn find(
        &self,
        informer: &Informer,
        key: &ObjectKey,
    ) -> Result<Option<Arc<Object>>, ApiError> {
        informer.synced().await;
        if let Some(cached) = informer.cache.get(key) {
            return Ok(Some(cached));
        }
        match self.context.cluster.get(&informer.resource.kind, key).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }
}

/// Selects the metadata of objects with these labels; an empty selector selects all.
fn labelled(selector: &str) -> Scope {
    Scope {
        labels: selector.to_owned(),
        metadata_only: true,
        ..Scope::everything()
    }
}

/// Waits until the API server serves a built-in kind.
///
/// # Errors
/// When it doesn't within a minute.
pub async fn resolve(
    discovery: &Discovery,
    api_version: &str,
    kind: &str,
) -> Result<Arc<ApiResource>> {
    let kind = GroupVersionKind::new(api_version, kind);
    let resolved = tokio::time::timeout(DISCOVERY_TIMEOUT, discovery.wait_for(&kind)).await;
    resolved.with_context(|| {
        reasons::KIND_NOT_SERVED.error(format!("the API server does not serve {kind}"))
    })
}

/// Enqueues a Plugin whenever this object changes. Watches only the object's metadata.
pub fn watch_object(
    context: &Context,
    plugin: &ObjectKey,
    resource: &Arc<ApiResource>,
    object: &ObjectKey,
) -> Subscription {
    let scope = Scope {
        namespace: object.namespace.clone(),
        fields: of_name(&object.name),
        metadata_only: true,
        ..Scope::everything()
    };
    let queue = context.queue.clone();
    let plugin = plugin.clone();
    let enqueue = Arc::new(move |_: &Event| queue.enqueue_changed(&plugin));

    context
        .cluster
        .registry
        .informer(resource, scope)
        .subscribe(enqueue, None)
}
