//! Handles several groups of hosts on a cluster: those of each trust class, and hosts installed
//! twice, in different namespaces. They don't know each other's replicas. A Plugin's status
//! therefore names the Lease of the group that runs it, and a host leaves another group's Plugins
//! alone until that group has taken its name out of the status, or its Lease is deleted or has no
//! members. Usually a host may not read Leases in other namespaces; then an administrator has to
//! delete the Lease.

use std::{collections::HashMap, sync::Arc, time::Duration};

use operetta_api::{
    Class,
    names::{is_dns_label, is_dns_subdomain},
    reasons,
};
use operetta_core::{
    object::{Object, ObjectKey},
    remedy::{Advice, Remedy},
};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    problem::Problem,
    replicas::{Replicas, leases::LeaseNames},
};

/// How long another group's Lease isn't read again, and how often that group's Plugins are checked.
pub const RECHECK: Duration = Duration::from_secs(10);

/// The groups of other installations, as named by Plugins.
pub struct Installations {
    replicas: Arc<Replicas>,
    /// When a group's Lease was last read, and why its Plugins are left alone; None if the group is
    /// gone.
    read: Mutex<HashMap<ObjectKey, (Instant, Option<String>)>>,
    /// The Plugins left alone, and whether that was reported.
    left_alone: Mutex<HashMap<ObjectKey, bool>>,
}

impl Installations {
    /// Creates this for one replica.
    pub fn new(replicas: Arc<Replicas>) -> Self {
        Self {
            replicas,
            read: Mutex::default(),
            left_alone: Mutex::default(),
        }
    }

    /// Returns the group in a Plugin's status, if it belongs to another installation.
    pub fn other(&self, plugin: &Object) -> Option<ObjectKey> {
        other_group(
            &plugin.scalar_at(".status.group")?,
            &self.replicas.group_key(),
        )
    }

    /// Returns the problem with a Plugin of another installation, or None if this one may run it.
    pub async fn check(&self, plugin: &Object) -> Option<Problem> {
        let group = self.other(plugin)?;
        let why = self.is_left_alone(&group).await?;
        let namespace = group.namespace.as_deref().unwrap_or_default();
        let name = &group.name;

        let class = LeaseNames::of_group(name).and_then(|names| names.class);
        let whose = class.map_or_else(String::new, |class| {
            format!(" of class {:?}", class.as_str())
        });
        let message = format!(
            "Plugin {} is run by the host{whose} in namespace {namespace:?}, and not by this one: {why}",
            plugin.key()
        );
        // The Lease's name comes from the Plugin's status, which tenants may be able to write.
        let is_lease = is_dns_label(namespace) && is_dns_subdomain(name);
        let delete = is_lease
            .then(|| Remedy::new(["kubectl", "delete", "lease", name, "-n", namespace]))
            .flatten();
        let advice = Advice::from(message).with("; if that host is gone: ", delete);
        Some(Problem::new(reasons::OTHER_INSTALLATION, advice))
    }

    async fn is_left_alone(&self, group: &ObjectKey) -> Option<String> {
        if let Some((at, why)) = self.read.lock().get(group)
            && at.elapsed() < RECHECK
        {
            return why.clone();
        }

        let why = match self.replicas.has_members(group).await {
            Ok(false) => None,
            Ok(true) => Some(format!("its Lease {group} has members")),
            Err(error) => Some(format!("failed to read its Lease {group}: {error}")),
        };
        let mut read = self.read.lock();

        // Keep only recent entries: whoever may write a status can name any group.
        read.retain(|_, (at, _)| at.elapsed() < RECHECK);
        read.insert(group.clone(), (Instant::now(), why.clone()));

        why
    }

    /// Reports whether a class has hosts in this host's namespace, as far as that can be told.
    pub async fn has_hosts(&self, class: &Class) -> bool {
        let group = self.replicas.group_of(class.clone());
        self.is_left_alone(&group).await.is_some()
    }

    /// Records that a Plugin is left alone, and returns whether to report that: once, and for
    /// another class in the same namespace only if it still has the Plugin at the next check. While
    /// a namespace moves to this class, the other one first has to stop.
    pub fn record(&self, plugin: &Object) -> bool {
        let is_same_namespace = self
            .other(plugin)
            .is_some_and(|group| group.namespace == self.replicas.group_key().namespace);

        let mut left_alone = self.left_alone.lock();
        match left_alone.get_mut(plugin.key()) {
            Some(is_reported) => !std::mem::replace(is_reported, true),
            None => {
                left_alone.insert(plugin.key().clone(), !is_same_namespace);
                !is_same_namespace
            }
        }
    }

    /// Forgets a Plugin that was deleted or runs here.
    pub fn forget(&self, plugin: &ObjectKey) {
        self.left_alone.lock().remove(plugin);
    }
}

/// Returns the group in a status, unless it is `own`. None for any text a host wouldn't write: the
/// group becomes part of a request and of a command.
fn other_group(named: &str, own: &ObjectKey) -> Option<ObjectKey> {
    let (namespace, name) = named.split_once('/')?;
    let is_group = is_dns_label(namespace) && LeaseNames::of_group(name).is_some();
    Some(ObjectKey::namespaced(namespace, name)).filter(|group| is_group && group != own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_that_a_host_may_have_written_are_others() {
        let own = ObjectKey::namespaced("operetta-system", "operetta");
        let other = ObjectKey::namespaced("second-system", "operetta");
        assert_eq!(other_group("second-system/operetta", &own), Some(other));
        let class = ObjectKey::namespaced("operetta-system", "operetta.a");
        assert_eq!(
            other_group("operetta-system/operetta.a", &own),
            Some(class.clone())
        );
        assert_eq!(
            other_group("operetta-system/operetta", &class),
            Some(own.clone())
        );
        assert_eq!(other_group("operetta-system/operetta.a", &class), None);

        for named in [
            "operetta-system/operetta",
            "operetta",
            "",
            "/operetta",
            "second-system/other",
            "second-system/operetta-a",
            "second-system/operetta.a.b",
            "second-system/operetta; reboot",
            "$(reboot)/operetta",
            "../../secrets/operetta",
            "second-system/operetta/../other",
        ] {
            assert_eq!(other_group(named, &own), None, "{named:?}");
        }
    }
}
