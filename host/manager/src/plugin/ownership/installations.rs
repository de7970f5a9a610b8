//! Hosts that are installed twice on a cluster, in different namespaces. They know nothing of each
//! other's replicas, so both would run all Plugins. The status of a Plugin therefore names the
//! Lease of the group that runs it. A host leaves the Plugins of another group alone, until it
//! reads that the group's Lease is gone or has no members. It usually may not read Leases in other
//! namespaces; then an administrator must say so, by deleting the Lease.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use operetta_api::{
    names::{is_dns_label, is_dns_subdomain},
    reasons,
};
use operetta_core::{
    object::{Object, ObjectKey},
    remedy::{Advice, Remedy},
};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{problem::Problem, replicas::Replicas};

/// How long the result of reading another group's Lease is used, and how often a Plugin of that
/// group is checked again.
pub const RECHECK: Duration = Duration::from_secs(10);

/// The groups of other installations that Plugins name.
pub struct Installations {
    replicas: Arc<Replicas>,
    /// When a group's Lease was read, and why its Plugins are left alone; None if the group is
    /// gone.
    read: Mutex<HashMap<ObjectKey, (Instant, Option<String>)>>,
    /// The Plugins that are left alone, and were reported.
    reported: Mutex<HashSet<ObjectKey>>,
}

impl Installations {
    /// Creates it for this replica.
    pub fn new(replicas: Arc<Replicas>) -> Self {
        Self {
            replicas,
            read: Mutex::default(),
            reported: Mutex::default(),
        }
    }

    /// Returns the group in a Plugin's status, if it is another installation's.
    pub fn other(&self, plugin: &Object) -> Option<ObjectKey> {
        other_group(
            &plugin.scalar_at(".status.group")?,
            &self.replicas.group_key(),
        )
    }

    /// Returns the problem of a Plugin of another installation; None if this one may run it.
    pub async fn check(&self, plugin: &Object) -> Option<Problem> {
        let group = self.other(plugin)?;
        let why = self.is_left_alone(&group).await?;
        let namespace = group.namespace.as_deref().unwrap_or_default();
        let name = &group.name;

        let message = format!(
            "Plugin {} is run by the host in namespace {namespace:?}, and not by this one: {why}",
            plugin.key()
        );
        // The name of the Lease is in the Plugin's status, which tenants may write.
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

        // Anybody who may write a status can name any group.
        read.retain(|_, (at, _)| at.elapsed() < RECHECK);
        read.insert(group.clone(), (Instant::now(), why.clone()));

        why
    }

    /// Records that a Plugin is left alone. Reports whether it was not before.
    pub fn record(&self, plugin: &ObjectKey) -> bool {
        self.reported.lock().insert(plugin.clone())
    }

    /// Forgets a Plugin that is gone, or runs here.
    pub fn forget(&self, plugin: &ObjectKey) {
        self.reported.lock().remove(plugin);
    }
}

/// Returns the group in a status, if it is not `own`. None for a text that no host has written:
/// it becomes a part of a request and of a command.
fn other_group(named: &str, own: &ObjectKey) -> Option<ObjectKey> {
    let (namespace, name) = named.split_once('/')?;
    // All groups have the same name.
    let is_group = is_dns_label(namespace) && name == own.name;
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

        for named in [
            "operetta-system/operetta",
            "operetta",
            "",
            "/operetta",
            "second-system/other",
            "second-system/operetta; reboot",
            "$(reboot)/operetta",
            "../../secrets/operetta",
            "second-system/operetta/../other",
        ] {
            assert_eq!(other_group(named, &own), None, "{named:?}");
        }
    }
}
