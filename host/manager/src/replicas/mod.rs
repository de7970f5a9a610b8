//! The replicas of the host, as Leases of `coordination.k8s.io` in the host's namespace.
//!
//! Each replica holds a Lease of its own, `operetta-IDENTITY`, and renews it. The Lease `operetta`
//! is the group: its annotations list the members with their epochs, and `leaseTransitions` is the
//! largest epoch. All writes are conditional on the resourceVersion. A replica first creates its
//! Lease, and then adds itself to the group.
//!
//! If a member does not renew its Lease, another takes the Lease, which makes every later renewal
//! fail, and then removes the member from the group. A replica that lost its Lease or its
//! membership stops. Requests of plugins leave only while the [`Fence`] stands: until the Lease's
//! duration after the last renewal was sent. A Lease is taken no earlier than its duration after a
//! renewal was seen.
//!
//! Somebody may delete or edit a Lease by hand. So what is found is no proof that a replica has
//! stopped:
//!
//! - a member whose Lease is gone, or held by nobody, is removed from the group only after the
//!   Lease's duration;
//! - the Lease of a replica has its epoch in `leaseTransitions`. If that epoch is no member, the
//!   Lease is taken, and deleted after its duration. Nobody claims the Plugins of an epoch as long
//!   as its Lease exists;
//! - a deleted Lease of the group is created again, with larger epochs. A replica claims Plugins
//!   of earlier epochs only when it has been a member for the Lease's duration.

pub mod clock;
pub mod config;
pub mod endpoint;
mod heartbeat;
mod leases;
mod watch;

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    time::Duration,
};

use kube::Client;
use operetta_core::{
    object::ObjectKey,
    replicas::{Epoch, Fence, Group, Silence},
    status::{ApiError, ErrorKind},
};
use operetta_kube::client::api_client::from_kube;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch as channel};

use crate::replicas::{config::ReplicaConfig, endpoint::Endpoint, leases::Leases};

/// The timeout of each step of leaving.
const LEAVE: Duration = Duration::from_secs(2);

/// The relation of this process to the group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It has not joined yet.
    #[default]
    Joining,
    /// It is a member.
    Member,
    /// It was a member, and its epoch is over.
    Lost {
        /// The reason.
        reason: String,
    },
}

/// The state of a replica's membership.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaState {
    /// The last known standing.
    pub standing: Standing,
    /// Why the last renewal failed; None if it was answered.
    pub problem: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Membership {
    epoch: Epoch,
    /// The time when it joined, on the fence's clock.
    since: Duration,
}

/// The Leases of the other replicas.
#[derive(Default)]
struct Others {
    /// Their renewals.
    silence: Mutex<Silence>,
    /// The epochs whose Leases exist, as they were last read; None before that.
    leased: Mutex<Option<BTreeSet<Epoch>>>,
}

/// This replica, as a member of the group. [`Replicas::run`] must run for as long as it is one.
pub struct Replicas {
    identity: String,
    leases: Leases,
    config: ReplicaConfig,
    fence: Arc<Fence>,
    state: channel::Sender<ReplicaState>,
    /// Set once it has joined.
    membership: OnceLock<Membership>,
    /// The members as they were last read.
    group: channel::Sender<Group>,
    others: Others,
    /// Ends the pause between two renewals.
    soon: Notify,
    /// The way to this replica; unset if the others cannot reach it.
    endpoint: OnceLock<Endpoint>,
}

impl Replicas {
    /// Creates a replica that has not joined. `namespace` is the host's, and `identity` is unique
    /// among all living hosts.
    pub fn new(
        client: Client,
        namespace: &str,
        identity: &str,
        config: ReplicaConfig,
        fence: Arc<Fence>,
    ) -> Arc<Self> {
        Arc::new(Self {
            identity: identity.to_owned(),
            leases: Leases::new(client, namespace),
            config,
            fence,
            state: channel::Sender::default(),
            membership: OnceLock::new(),
            group: channel::Sender::default(),
            others: Others::default(),
            soon: Notify::new(),
            endpoint: OnceLock::new(),
        })
    }

    /// Sets the endpoint of this replica, for its Lease. Call it before [`Replicas::run`].
    pub fn set_endpoint(&self, endpoint: Endpoint) {
        let _first = self.endpoint.set(endpoint);
    }

    /// Reads the way to another replica from its Lease; None if it holds none, or cannot be
    /// reached.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn endpoint_of(&self, identity: &str) -> Result<Option<Endpoint>, ApiError> {
        let lease = self.leases.get(identity).await.map_err(from_kube)?;
        let held = lease.filter(|lease| leases::holder(lease) == Some(identity));
        Ok(held.as_ref().and_then(Endpoint::read))
    }

    /// Reads whether another group has members, whose Lease is in another namespace.
    ///
    /// # Errors
    /// The API server's error; usually the host may not read Leases there.
    pub async fn has_members(&self, group: &ObjectKey) -> Result<bool, ApiError> {
        self.leases.has_members(group).await.map_err(from_kube)
    }

    /// Returns the key of the group's Lease.
    pub fn group_key(&self) -> ObjectKey {
        self.leases.group_key()
    }

    /// Returns the state, now and later.
    pub fn state(&self) -> channel::Receiver<ReplicaState> {
        self.state.subscribe()
    }

    /// Returns the members, now and later.
    pub fn group(&self) -> channel::Receiver<Group> {
        self.group.subscribe()
    }

    /// Returns the epoch of this replica; None before it has joined.
    pub fn epoch(&self) -> Option<Epoch> {
        self.membership.get().map(|membership| membership.epoch)
    }

    /// Reports whether the replica of an epoch that is no member has stopped for certain, so that
    /// its Plugins may be claimed.
    pub fn has_stopped(&self, epoch: Epoch) -> bool {
        let Some(membership) = self.membership.get() else {
            return false;
        };
        if self
            .others
            .leased
            .lock()
            .as_ref()
            .is_none_or(|leased| leased.contains(&epoch))
        {
            return false;
        }

        let group = self.group.borrow();
        let is_of_this_group = !group.is_earlier(epoch) && epoch <= group.last_epoch();
        is_of_this_group || self.fence.now() >= membership.since + self.config.duration()
    }

    /// Returns the identity of this replica.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Reports whether the Lease was renewed in time.
    pub fn is_current(&self) -> bool {
        self.fence.check().is_ok()
    }

    /// Checks that the Lease was renewed in time.
    ///
    /// # Errors
    /// `Unavailable` if it was not.
    pub fn check(&self) -> Result<(), ApiError> {
        self.fence.check().map(|_remaining| ())
    }

    /// Makes the next renewal now, because another component could not reach the API server.
    pub fn probe(&self) {
        self.soon.notify_one();
    }

    /// Waits until this process is a member. Cancel by dropping.
    pub async fn joined(&self) {
        // The sender lives in `self`.
        let mut state = self.state.subscribe();
        let _joined = state
            .wait_for(|state| state.standing == Standing::Member)
            .await;
    }

    /// Waits until the epoch of this replica is over; returns what has happened. Cancel by
    /// dropping.
    pub async fn lost(&self) -> String {
        let mut state = self.state.subscribe();
        let lost = state
            .wait_for(|state| matches!(state.standing, Standing::Lost { .. }))
            .await;
        match lost.map(|state| state.standing.clone()) {
            Ok(Standing::Lost { reason }) => reason,
            _ => std::future::pending().await,
        }
    }

    /// Reads the members from the API server.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn refresh(&self) -> Result<Group, ApiError> {
        let group = self.leases.group().await.map_err(from_kube)?;
        self.publish(group.clone());
        Ok(group)
    }

    /// Announces that this replica leaves, so that the others take its Plugins. Reports whether
    /// there are others.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn begin_leaving(&self) -> Result<bool, ApiError> {
        let Some(epoch) = self.epoch() else {
            return Ok(false);
        };
        if !self.group.borrow().has_others(epoch) {
            return Ok(false);
        }

        let changed = self
            .leases
            .change(|group| group.begin_leaving(epoch).then_some(()));
        let changed = tokio::time::timeout(LEAVE, changed).await;
        let no_answer = |_| ApiError::new(ErrorKind::TimedOut, "the API server does not respond");
        if let Some((group, ())) = changed.map_err(no_answer)?.map_err(from_kube)? {
            self.publish(group);
        }

        Ok(self.group.borrow().has_others(epoch))
    }

    /// Leaves the group, so that the next replica does not wait. Failures are ignored: the Lease
    /// expires.
    pub async fn leave(&self) {
        self.fence.close();
        let Some(epoch) = self.epoch() else { return };
        let leave = async {
            // In this order, so that nobody finds the Lease of an epoch that is no member.
            self.leases
                .delete(&leases::lease_name(&self.identity), None)
                .await?;
            self.leases
                .change(|group| group.remove(epoch).then_some(()))
                .await
        };
        let _ignored = tokio::time::timeout(LEAVE, leave).await;
    }

    /// Publishes the members, if they have changed.
    fn publish(&self, group: Group) {
        self.group.send_if_modified(|before| {
            let is_changed = *before != group;
            *before = group;
            is_changed
        });
    }

    /// Records that the epoch of this replica is over.
    fn lose(&self, reason: String) {
        self.fence.close();
        self.report(Some(Standing::Lost { reason }), None);
    }

    /// Publishes the changes. What was lost stays lost.
    fn report(&self, standing: Option<Standing>, problem: Option<String>) {
        self.state.send_if_modified(|state| {
            let before = state.clone();
            if !matches!(before.standing, Standing::Lost { .. }) {
                state.standing = standing.unwrap_or(before.standing.clone());
            }
            state.problem = problem;
            *state != before
        });
    }
}
