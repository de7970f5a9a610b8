//! Follows the Leases of all replicas: who is a member, and who has stopped renewing.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use operetta_core::replicas::{Epoch, Group, Member};
use operetta_kube::{
    informer::{Informer, Scope},
    store::Lookup,
};
use tokio::sync::Notify;

use crate::{
    cluster::Cluster,
    plugin::host_informers::resolve,
    replicas::{
        Replicas,
        leases::{self, is_code},
    },
};

/// The pause after a failure.
const RETRY: Duration = Duration::from_millis(200);
/// The longest time between two checks.
const LONGEST: Duration = Duration::from_secs(10);

impl Replicas {
    /// Watches the Leases, publishes changes of the group, and ends the epochs of members that
    /// don't renew their Leases. Call it after [`Replicas::joined`]. Returns when this replica's
    /// epoch has ended.
    ///
    /// # Errors
    /// When the API server doesn't serve Leases.
    pub async fn follow(self: Arc<Self>, cluster: &Cluster) -> Result<()> {
        let resource = resolve(&cluster.discovery, "coordination.k8s.io/v1", "Lease").await?;
        let namespace = self.group_key().namespace;
        let scope = Scope {
            namespace,
            labels: self.leases.names.selector(),
            ..Scope::everything()
        };
        let informer = cluster.registry.informer(&resource, scope);
        let changed = Arc::new(Notify::new());
        let notify = changed.clone();
        let _subscription = informer.subscribe(Arc::new(move |_| notify.notify_one()), None);
        informer.synced().await;

        loop {
            let pause = match self.compare(&informer).await {
                Ok(Some(pause)) => pause,
                Ok(None) => return Ok(()),
                Err(error) => {
                    tracing::warn!(%error, "failed to follow the Leases of replicas, retrying");
                    RETRY
                }
            };
            let _passed_or_changed = tokio::time::timeout(pause, changed.notified()).await;
        }
    }

    /// Compares the Leases with the group. Returns when to check next, or None if this replica's
    /// epoch has ended.
    async fn compare(&self, informer: &Informer) -> kube::Result<Option<Duration>> {
        let stored: HashMap<String, Lease> = stored_leases(informer);
        let Some(epoch) = self.epoch() else {
            return Ok(Some(RETRY));
        };

        let mut group = stored
            .get(&self.group_key().name)
            .and_then(|lease| leases::parse_group(lease).ok());
        // Compare the identity as well: an edited group may hand out an epoch twice.
        let is_member = |group: &Group| {
            group
                .get(epoch)
                .is_some_and(|member| member.identity == self.identity)
        };
        if !group.as_ref().is_some_and(is_member) {
            // The watch may not have delivered yet that this replica joined.
            let read = self.leases.group().await?;
            if !is_member(&read) {
                self.lose("another replica has ended its epoch".to_owned());
                return Ok(None);
            }
            group = Some(read);
        }

        let group = group.unwrap_or_default();
        let now = self.fence.now();
        self.observe(&stored, &group, now);
        self.publish(group.clone());

        if self.fence.check().is_ok() {
            let is_other = |member: &Member| member.identity != self.identity;
            for (epoch, member) in group.members().filter(|(_, member)| is_other(member)) {
                let lease = self.leases.names.of_replica(&member.identity);
                let is_silent = self.others.silence.lock().silent(&lease, now).is_some();
                if is_silent {
                    self.end_epoch(epoch, member).await?;
                }
            }
            self.clean_up(&stored, &group, now).await?;
        }

        let next = self
            .others
            .silence
            .lock()
            .next(now)
            .map_or(LONGEST, |at| at.saturating_sub(now));
        Ok(Some(next.min(LONGEST)))
    }

    /// Records the versions of the replicas' Leases, and their epochs. A member's missing Lease
    /// counts as a version too: the member may act until the Lease's duration has passed.
    fn observe(&self, stored: &HashMap<String, Lease>, group: &Group, now: Duration) {
        let of_members: HashSet<String> = group
            .members()
            .map(|(_, member)| self.leases.names.of_replica(&member.identity))
            .collect();
        let own = self.config.duration();
        let mut silence = self.others.silence.lock();
        silence.retain(|name| stored.contains_key(name) || of_members.contains(name));

        for (name, lease) in stored
            .iter()
            .filter(|(_, lease)| leases::is_of_replica(lease))
        {
            let version = lease
                .metadata
                .resource_version
                .as_deref()
                .unwrap_or_default();
            // Somebody may have shortened it by hand.
            silence.observe(name, version, leases::duration(lease).max(own), now);
        }

        for name in of_members.iter().filter(|name| !stored.contains_key(*name)) {
            silence.observe(name, "", own, now);
        }
        drop(silence);
        let leased: BTreeSet<Epoch> = stored.values().filter_map(leases::epoch).collect();

        // Before that, the watch hasn't delivered yet that this replica joined.
        if self.epoch().is_some_and(|own| leased.contains(&own)) {
            let before = self.others.leased.lock().replace(leased.clone());
            if before.is_none_or(|before| !before.is_subset(&leased)) {
                // Wake up Plugins that were waiting for a Lease to go away.
                self.group.send_modify(|_| {});
            }
        }
    }

    /// Takes a member's Lease, unless it was renewed meanwhile, and removes the member from the
    /// group.
    async fn end_epoch(&self, epoch: Epoch, member: &Member) -> kube::Result<()> {
        let name = self.leases.names.of_replica(&member.identity);
        let mut found = self.leases.get(&member.identity).await?;
        if let Some(lease) = found.take_if(|lease| leases::holder(lease) == Some(&member.identity))
        {
            let version = lease.metadata.resource_version.clone().unwrap_or_default();
            let now = self.fence.now();
            let is_same = self.others.silence.lock().silent(&name, now) == Some(version.as_str());
            if !is_same {
                let duration = leases::duration(&lease).max(self.config.duration());
                self.others
                    .silence
                    .lock()
                    .observe(&name, &version, duration, now);
                return Ok(());
            }

            match self.leases.take(lease).await {
                Err(error) if is_code(&error, 409) => return Ok(()),
                taken => found = Some(taken?),
            }
        }

        if let Some((group, ())) = self
            .leases
            .change(|group| group.remove(epoch).then_some(()))
            .await?
        {
            tracing::warn!(identity = member.identity, %epoch, "ended the epoch of a replica that stopped renewing its Lease");
            self.publish(group);
        }

        // The replica may have started again under its old name: the Lease it renews stays.
        match found.map(|lease| lease.metadata.resource_version) {
            Some(version) => self.leases.delete(&name, version).await,
            None => Ok(()),
        }
    }

    /// Takes Leases whose epoch isn't a member, and deletes those of non-members that have expired.
    async fn clean_up(
        &self,
        stored: &HashMap<String, Lease>,
        group: &Group,
        now: Duration,
    ) -> kube::Result<()> {
        let of_members: HashSet<String> = group
            .members()
            .map(|(_, member)| self.leases.names.of_replica(&member.identity))
            .collect();
        let of_others = |name: &str| {
            !of_members.contains(name) && name != self.leases.names.of_replica(&self.identity)
        };

        for (name, lease) in stored
            .iter()
            .filter(|(name, lease)| leases::is_of_replica(lease) && of_others(name))
        {
            let silent = self
                .others
                .silence
                .lock()
                .silent(name, now)
                .map(str::to_owned);
            let is_over = leases::epoch(lease).is_some_and(|epoch| epoch <= group.last_epoch());

            if let Some(version) = silent {
                self.leases.delete(name, Some(version)).await?;
            } else if is_over && leases::holder(lease).is_some() {
                tracing::warn!(
                    lease = name,
                    "took the Lease of a replica that is no member of the group"
                );
                match self.leases.take(lease.clone()).await {
                    Err(error) if !is_code(&error, 409) && !is_code(&error, 404) => {
                        return Err(error);
                    }
                    _ => {}
                }
            }
        }

        Ok(())
    }
}

fn stored_leases(informer: &Informer) -> HashMap<String, Lease> {
    let objects = informer.cache.store.list(&Lookup::All, None, None);
    let parsed = objects.filter_map(|object| serde_json::from_str::<Lease>(object.json()).ok());
    parsed
        .filter_map(|lease| Some((lease.metadata.name.clone()?, lease)))
        .collect()
}
