//! The host's own watch scope: the namespaces where RBAC allows it to list and watch a resource.
//!
//! [`HostPermissions`] caches the decisions. The scope limits only the host's watches. What a
//! plugin may see of them depends on its ServiceAccount's permissions.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use futures::{StreamExt, stream};
use operetta_core::{
    authz::{access_review::ReadVerb, host_permissions::HostPermissions},
    status::ApiError,
};

use crate::{
    authz::access_review::reading, discovery::ApiResource, informer::Informer, store::Lookup,
};

/// How many namespaces are reviewed at once.
const AT_ONCE: usize = 8;

/// The namespaces where the host may list and watch.
pub struct WatchScope {
    permissions: HostPermissions,
    /// The informer of Namespaces with an opt-in; set once.
    opted_in: OnceLock<Arc<Informer>>,
}

impl WatchScope {
    pub(crate) fn new(permissions: HostPermissions) -> Self {
        Self {
            permissions,
            opted_in: OnceLock::new(),
        }
    }

    /// Sets the informer of Namespaces to choose from. Only the first call has an effect.
    pub fn choose_from(&self, namespaces: Arc<Informer>) {
        let _set_before = self.opted_in.set(namespaces);
    }

    /// The namespaces to choose from: `home` and the opted-in ones.
    pub(crate) fn candidates(&self, home: Option<&str>) -> BTreeSet<String> {
        let opted_in = self
            .opted_in
            .get()
            .map(|namespaces| namespaces.cache.store.list(&Lookup::All, None, None));
        let opted_in = opted_in
            .into_iter()
            .flatten()
            .map(|namespace| namespace.key().name.clone());
        opted_in.chain(home.map(str::to_owned)).collect()
    }

    /// Whether the host may list and watch a resource in one namespace, or in all of them (None):
    /// all objects, or those of one name.
    ///
    /// # Errors
    /// The API server's error, if it cannot be asked.
    pub async fn may_watch(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<bool, ApiError> {
        for verb in [ReadVerb::List, ReadVerb::Watch] {
            if !self
                .permissions
                .allows(&reading(resource, verb, namespace, name))
                .await?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The namespaces where the host watches a resource for a plugin. None stands for all of them,
    /// if the host may watch them all. Otherwise it is the namespace `only`, or the opted-in
    /// namespaces the host may watch. If it may watch none, it is `home`, so that the watch there
    /// reports the missing permission.
    ///
    /// # Errors
    /// The API server's error, if it cannot be asked.
    pub async fn namespaces(
        &self,
        resource: &ApiResource,
        name: Option<&str>,
        only: Option<&str>,
        home: Option<&str>,
    ) -> Result<Option<Vec<String>>, ApiError> {
        if !resource.namespaced || self.may_watch(resource, None, name).await? {
            return Ok(None);
        }
        if let Some(only) = only {
            return Ok(Some(vec![only.to_owned()]));
        }

        let asked = stream::iter(self.candidates(home)).map(async |namespace| {
            let may = self.may_watch(resource, Some(&namespace), name).await?;
            Ok::<_, ApiError>(may.then_some(namespace))
        });
        let answers: Vec<_> = asked.buffered(AT_ONCE).collect().await;
        let namespaces: Vec<String> = answers
            .into_iter()
            .filter_map(Result::transpose)
            .collect::<Result<_, _>>()?;

        Ok(Some(namespaces)
            .filter(|namespaces| !namespaces.is_empty())
            .or_else(|| home.map(|home| vec![home.to_owned()])))
    }
}
