//! The host's replicas, as Leases of `coordination.k8s.io` in the host's namespace.
//!
//! The hosts of a trust class are a group of their own, with other names and labels
//! ([`LeaseNames`]); what follows holds for each group.
//!
//! Each replica holds a Lease of its own, `operetta-IDENTITY`, and renews it. The Lease `operetta`
//! is the group: its annotations list the members and their epochs, and `leaseTransitions` is the
//! largest epoch. All writes are conditional on the resourceVersion. A replica creates its own
//! Lease first, and then joins the group.
//!
//! If a member stops renewing its Lease, another replica takes the Lease, which makes any later
//! renewal fail, and then removes the member from the group. A replica that has lost its Lease or
//! its membership stops. Plugins' requests leave only while the [`Fence`] is open, until one Lease
//! duration after the last renewal was sent. A Lease is taken no earlier than its duration after a
//! renewal was seen.
//!
//! Somebody may delete or edit a Lease by hand, so what we find doesn't prove that a replica has
//! stopped:
//!
//! - A member whose Lease is gone or has no holder stays in the group for another Lease duration.
//! - A replica's Lease has its epoch in `leaseTransitions`. If no member has that epoch, the Lease
//!   is taken, and deleted after its duration. Nobody claims an epoch's Plugins while its Lease
//!   exists.
//! - A deleted group Lease is recreated with larger epochs. A replica claims Plugins of earlier
//!   epochs only after it has been a member for the Lease's duration.

pub mod clock;
pub mod config;
pub mod endpoint;
pub mod heartbeat;
pub mod leases;
mod watch;

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    time::Duration,
};

use kube::Client;
use operetta_api::Class;
use operetta_core::{
    object::ObjectKey,
    replicas::{Epoch, Fence, Group, Silence},
    status::{ApiError, ErrorKind},
};
use operetta_kube::client::{api_client::from_kube, connect::Connector};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch as channel};

use crate::replicas::{
    config::ReplicaConfig,
    endpoint::Endpoint,
    leases::{LeaseNames, Leases},
};

/// Timeout of each step of leaving.
const LEAVE: Duration = Duration::from_secs(2);

/// How this process relates to the group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It hasn't joined yet.
    #[default]
    Joining,
    /// It is a member.
    Member,
    /// It was a member, but its epoch has ended.
    Lost {
        /// Why it ended.
        reason: String,
    },
}

/// The state of a replica's membership.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaState {
    /// As last known.
    pub standing: Standing,
    /// Why the last renewal failed; None if it succeeded.
    pub problem: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Membership {
    epoch: Epoch,
    /// When it joined, on the fence's clock.
    since: Duration,
}

/// What we know of the other replicas' Leases.
#[derive(Default)]
struct Others {
    /// When they were last renewed.
    silence: Mutex<Silence>,
    /// The epochs with a Lease, as last read; None before the first read.
    leased: Mutex<Option<BTreeSet<Epoch>>>,
}

/// This replica as a member of the group, as long as its heartbeat goes on
/// ([`Replicas::start_heartbeat`]).
pub struct Replicas {
    identity: String,
    leases: Leases,
    config: ReplicaConfig,
    fence: Arc<Fence>,
    state: channel::Sender<ReplicaState>,
    /// Set when it joins.
    membership: OnceLock<Membership>,
    /// The members as last read.
    group: channel::Sender<Group>,
    others: Others,
    /// Cuts the pause before the next renewal short.
    soon: Notify,
    /// Where the others reach this replica; unset if they can't.
    endpoint: OnceLock<Endpoint>,
    /// Connects the thread that renews the Lease; without it, this is a task like others.
    connector: OnceLock<Connector>,
}

impl Replicas {
    /// Creates a replica that hasn't joined yet. `namespace` is the host's, `class` its trust
    /// class, and `identity` is unique among all running hosts.
    pub fn new(
        client: Client,
        namespace: &str,
        class: Option<Class>,
        identity: &str,
        config: ReplicaConfig,
        fence: Arc<Fence>,
    ) -> Arc<Self> {
        Arc::new(Self {
            identity: identity.to_owned(),
            leases: Leases::new(client, namespace, LeaseNames::new(class)),
            config,
            fence,
            state: channel::Sender::default(),
            membership: OnceLock::new(),
            group: channel::Sender::default(),
            others: Others::default(),
            soon: Notify::new(),
            endpoint: OnceLock::new(),
            connector: OnceLock::new(),
        })
    }

    /// Sets this replica's endpoint, to be published in its Lease. Call it before
    /// [`Replicas::start_heartbeat`].
    pub fn set_endpoint(&self, endpoint: Endpoint) {
        let _first = self.endpoint.set(endpoint);
    }

    /// Gives the heartbeat a thread and a connection of its own. Call it before
    /// [`Replicas::start_heartbeat`].
    pub fn set_connector(&self, connector: Connector) {
        let _first = self.connector.set(connector);
    }

    /// Reads another replica's endpoint from its Lease. None if it doesn't hold the Lease or can't
    /// be reached.
    ///
    /// # Errors
    /// The API server's error.
    pub async fn endpoint_of(&self, identity: &str) -> Result<Option<Endpoint>, ApiError> {
        let lease = self.leases.get(identity).await.map_err(from_kube)?;
        let lease = lease.filter(|lease| leases::holder(lease) == Some(identity));
        Ok(lease.as_ref().and_then(Endpoint::read))
    }

    /// Checks whether another group, with its Lease in another namespace, has members.
    ///
    /// # Errors
    /// The API server's error; usually, because the host may not read Leases there.
    pub async fn has_members(&self, group: &ObjectKey) -> Result<bool, ApiError> {
        self.leases.has_members(group).await.map_err(from_kube)
    }

    /// Returns the key of the Lease of the hosts of this class in the same namespace.
    pub fn group_of(&self, class: Class) -> ObjectKey {
        let name = LeaseNames::new(Some(class)).group();
        ObjectKey {
            namespace: self.group_key().namespace,
            name,
        }
    }

    /// Returns the key of the group's Lease.
    pub fn group_key(&self) -> ObjectKey {
        self.leases.group_key()
    }

    /// Returns the state, and its changes.
    pub fn state(&self) -> channel::Receiver<ReplicaState> {
        self.state.subscribe()
    }

    /// Returns the group, and its changes.
    pub fn group(&self) -> channel::Receiver<Group> {
        self.group.subscribe()
    }

    /// Returns this replica's epoch, or None before it has joined.
    pub fn epoch(&self) -> Option<Epoch> {
        self.membership.get().map(|membership| membership.epoch)
    }

    /// Reports whether the replica of a former member's epoch has certainly stopped, so that its
    /// Plugins may be claimed.
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

    /// Returns this replica's identity.
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
    /// `Unavailable` if it wasn't.
    pub fn check(&self) -> Result<(), ApiError> {
        self.fence.check().map(|_remaining| ())
    }

    /// Renews the Lease now, because another component couldn't reach the API server.
    pub fn probe(&self) {
        self.soon.notify_one();
    }

    /// Waits until this replica has joined the group. Cancel by dropping.
    pub async fn joined(&self) {
        // This can't fail: the sender lives in `self`.
        let mut state = self.state.subscribe();
        let _joined = state
            .wait_for(|state| state.standing == Standing::Member)
            .await;
    }

    /// Waits until this replica's epoch ends, and returns why. Cancel by dropping.
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

    /// Announces that this replica is leaving, so that the others take its Plugins. Reports whether
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

    /// Leaves the group, so that the next replica needn't wait. Failures are ignored, since the
    /// Lease expires anyway.
    pub async fn leave(&self) {
        self.fence.close();
        let Some(epoch) = self.epoch() else { return };
        let leave = async {
            // In this order, so that nobody finds a Lease whose epoch isn't a member.
            self.leases
                .delete(&self.leases.names.of_replica(&self.identity), None)
                .await?;
            self.leases
                .change(|group| group.remove(epoch).then_some(()))
                .await
        };
        let _ignored = tokio::time::timeout(LEAVE, leave).await;
    }

    fn publish(&self, group: Group) {
        self.group.send_if_modified(|before| {
            let is_changed = *before != group;
            *before = group;
            is_changed
        });
    }

    /// Records that this replica's epoch has ended.
    fn lose(&self, reason: String) {
        self.fence.close();
        self.report(Some(Standing::Lost { reason }), None);
    }

    /// Publishes what has changed. A lost replica stays lost.
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
