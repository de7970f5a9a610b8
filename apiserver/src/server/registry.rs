//! The resources that a server serves.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use parking_lot::RwLock;
use tokio::sync::watch;

use super::resource::Resource;
use crate::admission::request::Endpoint;

/// A group and one of its versions.
type GroupVersion = (String, String);
/// The resources of each group version, by their plural.
type ByGroupVersion = BTreeMap<GroupVersion, BTreeMap<String, Arc<Resource>>>;

/// The registry of resources. Clones share it; resources come and go while the server runs.
#[derive(Clone, Default)]
pub struct Resources {
    inner: Arc<RwLock<Inner>>,
}

/// The registry, as its own resources may hold it: it ends with the last [`Resources`] of it.
#[derive(Clone)]
pub struct WeakResources(Weak<RwLock<Inner>>);

impl WeakResources {
    /// Returns the registry, or an empty one after its server has stopped.
    #[must_use]
    pub fn get(&self) -> Resources {
        self.0
            .upgrade()
            .map(|inner| Resources { inner })
            .unwrap_or_default()
    }
}

#[derive(Default)]
struct Inner {
    resources: ByGroupVersion,
    /// The groups in the order in which discovery lists them, each with its versions, the preferred
    /// one first.
    groups: Vec<(String, Vec<String>)>,
    /// Changes when a resource may have gone.
    removals: watch::Sender<()>,
}

impl Resources {
    /// Returns the registry for handlers of its own resources, which would keep it in memory
    /// otherwise.
    #[must_use]
    pub fn downgrade(&self) -> WeakResources {
        WeakResources(Arc::downgrade(&self.inner))
    }

    /// Adds a resource, or replaces the one of this group, version and plural.
    ///
    /// The first version of a group that is added is its preferred one.
    pub fn register(&self, resource: Resource) {
        self.inner.write().register(resource);
    }

    /// Removes a resource in all its versions.
    pub fn remove(&self, group: &str, plural: &str) {
        self.replace(group, plural, Vec::new());
    }

    /// Replaces a resource in all its versions. Requests in the meantime find the old ones or the
    /// new ones.
    pub fn replace(&self, group: &str, plural: &str, versions: Vec<Resource>) {
        let mut inner = self.inner.write();
        inner.remove(group, plural);
        for version in versions {
            inner.register(version);
        }

        inner.removals.send_replace(());
    }

    /// Returns a receiver that changes when a resource may have gone.
    pub(super) fn removals(&self) -> watch::Receiver<()> {
        self.inner.read().removals.subscribe()
    }

    /// Sets the order of a group's versions, the preferred one first.
    pub fn set_version_order(&self, group: &str, order: &[&str]) {
        let mut inner = self.inner.write();
        let rank = |version: &String| {
            order
                .iter()
                .position(|name| name == version)
                .unwrap_or(order.len())
        };

        if let Some((_, versions)) = inner.groups.iter_mut().find(|(name, _)| name == group) {
            versions.sort_by_key(rank);
        }
    }

    /// Returns a resource.
    #[must_use]
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        let inner = self.inner.read();
        inner
            .resources
            .get(&(group.to_owned(), version.to_owned()))?
            .get(plural)
            .cloned()
    }

    /// Returns a resource in the preferred one of its versions.
    #[must_use]
    pub fn preferred(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        let versions = self.versions(group);
        versions
            .iter()
            .find_map(|version| self.get(group, version, plural))
    }

    /// Returns the resources of a group version, in the order of their plurals; none when it is not
    /// served.
    #[must_use]
    pub fn in_version(&self, group: &str, version: &str) -> Option<Vec<Arc<Resource>>> {
        let inner = self.inner.read();
        let resources = inner
            .resources
            .get(&(group.to_owned(), version.to_owned()))?;
        Some(resources.values().cloned().collect())
    }

    /// Returns a resource for admission, and what serves the same objects in other versions.
    pub(super) fn endpoints(&self, resource: &Resource) -> (Endpoint, Vec<Endpoint>) {
        let endpoint = |resource: &Resource| Endpoint {
            group: resource.group.clone(),
            version: resource.version.clone(),
            resource: resource.names.plural.clone(),
            kind: resource.names.kind.clone(),
        };
        let (group, plural) = (&resource.group, &resource.names.plural);

        let mut equivalents: Vec<Endpoint> = self
            .versions(group)
            .iter()
            .filter(|version| **version != resource.version)
            .filter_map(|version| self.get(group, version, plural))
            .map(|other| endpoint(&other))
            .collect();

        // Events are the same objects in two groups.
        if plural == "events" {
            let other = if group.is_empty() {
                "events.k8s.io"
            } else {
                ""
            };
            let other = self.get(other, "v1", "events");
            equivalents.extend(other.map(|other| endpoint(&other)));
        }

        (endpoint(resource), equivalents)
    }

    /// Returns the groups in the order in which they were added.
    #[must_use]
    pub fn groups(&self) -> Vec<String> {
        self.inner
            .read()
            .groups
            .iter()
            .map(|(group, _)| group.clone())
            .collect()
    }

    /// Returns the versions of a group, the preferred one first.
    #[must_use]
    pub fn versions(&self, group: &str) -> Vec<String> {
        let inner = self.inner.read();
        let found = inner.groups.iter().find(|(name, _)| name == group);
        found
            .map(|(_, versions)| versions.clone())
            .unwrap_or_default()
    }
}

impl Inner {
    fn register(&mut self, resource: Resource) {
        match self
            .groups
            .iter()
            .position(|(group, _)| *group == resource.group)
        {
            None => self
                .groups
                .push((resource.group.clone(), vec![resource.version.clone()])),
            Some(index) => {
                let versions = &mut self.groups[index].1;
                if !versions.contains(&resource.version) {
                    versions.push(resource.version.clone());
                }
            }
        }

        let key = (resource.group.clone(), resource.version.clone());
        self.resources
            .entry(key)
            .or_default()
            .insert(resource.names.plural.clone(), Arc::new(resource));
    }

    fn remove(&mut self, group: &str, plural: &str) {
        for ((name, _), resources) in &mut self.resources {
            if name == group {
                resources.remove(plural);
            }
        }

        self.resources.retain(|_, resources| !resources.is_empty());
        let served: Vec<GroupVersion> = self.resources.keys().cloned().collect();
        for (name, versions) in &mut self.groups {
            versions.retain(|version| served.contains(&(name.clone(), version.clone())));
        }

        self.groups.retain(|(_, versions)| !versions.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::{apiextensions::strategy::Definitions, server::Strategy};

    #[test]
    fn replaced_resource_is_always_found() {
        const REPLACEMENTS: usize = 20_000;
        let resources = Resources::default();
        let strategy: Arc<dyn Strategy> = Arc::new(Definitions);
        let widget = || {
            vec![Resource::custom(
                "e.dev",
                "v1",
                "Widget",
                "widgets",
                Arc::clone(&strategy),
            )]
        };
        resources.replace("e.dev", "widgets", widget());
        thread::scope(|scope| {
            let replacing = scope.spawn(|| {
                for _ in 0..REPLACEMENTS {
                    resources.replace("e.dev", "widgets", widget());
                }
            });
            while !replacing.is_finished() {
                assert!(resources.get("e.dev", "v1", "widgets").is_some());
            }
        });
        resources.replace("e.dev", "widgets", Vec::new());
        assert!(resources.groups().is_empty());
    }
}
