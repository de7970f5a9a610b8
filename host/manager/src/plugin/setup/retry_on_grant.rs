//! Retries a plugin's failed keys when one of its refused calls is allowed.
//!
//! A key that has failed many times waits up to a quarter of an hour. When somebody grants the
//! missing permission, we retry it immediately, together with all other failed keys of the plugin:
//! only the plugin knows why a reconcile failed. If a key fails again, it starts with the shortest
//! delay.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    authz::{
        access_review::{Grants, ServiceAccount, SubjectGrants},
        host_permissions::HostPermissions,
        refused_calls::{Occasion, RefusedCall, RefusedCalls},
    },
    object::ObjectKey,
    ports::LogLevel,
    queue::WorkQueue,
};
use operetta_kube::{
    authz::access_review::SubjectAccessReviews,
    client::api_client::{ApiClient, Identity},
};

use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::{context::Context, logs::store::PluginLog, plugin::setup::Setup};

/// How often refused calls are reviewed without any observed change of permissions.
const UNWATCHED: Duration = Duration::from_secs(60);

type Queues = Vec<WorkQueue<ObjectKey>>;

/// Follows the permissions of a plugin or one of its shards. It survives code swaps, so that no
/// change is missed. Ends on drop.
#[derive(Default)]
pub(super) struct RetryOnGrant {
    /// Queues of keys that may have failed because of a refused call.
    queues: Arc<Mutex<Queues>>,
    /// Whose permissions are followed.
    account: Option<ServiceAccount>,
    task: JoinSet<()>,
}

impl RetryOnGrant {
    /// From now on, retries the failed keys in these queues when a call in `refused` is allowed.
    pub(super) fn follow(
        &mut self,
        setup: &Setup<'_>,
        refused: &Arc<RefusedCalls>,
        queues: Queues,
    ) {
        *self.queues.lock() = queues;
        let account = Some(setup.grants.subject().clone());
        if self.account == account {
            return;
        }

        self.account = account;
        let following = Following {
            context: setup.context.clone(),
            grants: setup.grants.clone(),
            refused: refused.clone(),
            queues: self.queues.clone(),
            log: setup.log.clone(),
        };
        self.task = JoinSet::new();
        self.task.spawn(following.follow());
    }
}

/// What is followed: refused calls, and the queues of keys that may have failed because of them.
struct Following {
    context: Arc<Context>,
    grants: SubjectGrants,
    refused: Arc<RefusedCalls>,
    queues: Arc<Mutex<Queues>>,
    log: Arc<PluginLog>,
}

impl Following {
    /// Follows the permissions of the plugin's ServiceAccount, and the host's permission to act as
    /// it.
    async fn follow(self) {
        let mut own = self.grants.changes();
        let mut of_host = HostPermissions::new(self.context.cluster.grants.clone()).changes();

        loop {
            let changed = async {
                tokio::select! {
                    changed = own.changed() => changed,
                    changed = of_host.changed() => changed,
                }
            };
            match tokio::time::timeout(UNWATCHED, changed).await {
                Err(_elapsed) => self.review(Occasion::Time).await,
                Ok(Ok(())) => {
                    // An authorizer may see the change later than we do.
                    for pause in [Grants::UNSETTLED, Grants::SETTLE, Grants::SETTLE] {
                        tokio::time::sleep(pause).await;
                        self.review(Occasion::Change).await;
                    }
                }
                Ok(Err(_ended)) => return,
            }
        }
    }

    /// Retries the failed keys if a refused call is now allowed.
    async fn review(&self, occasion: Occasion) {
        if self.refused.is_empty() {
            return;
        }
        let api_client = ApiClient::new(self.context.cluster.client.clone(), &Identity::Host);
        let Ok(reviews) = api_client.map(SubjectAccessReviews::new) else {
            return;
        };

        let subject = self.grants.subject().into();
        let mut reviewed = Vec::new();

        for (need, name) in self.refused.all() {
            match reviews.has(&subject, &need, name.as_deref()).await {
                Ok(is_allowed) => reviewed.push(((need, name), is_allowed)),
                Err(error) => {
                    return tracing::debug!(%error, "failed to review the refused calls of a plugin");
                }
            }
        }

        let allowed = self.refused.take_allowed(occasion, reviewed);
        if !allowed.is_empty() {
            self.retry(&allowed);
        }
    }

    fn retry(&self, allowed: &[RefusedCall]) {
        let count: usize = self.queues.lock().iter().map(WorkQueue::retry_failed).sum();
        if let Some((need, _)) = allowed.first().filter(|_| count > 0) {
            let message = retry_line(self.grants.subject(), &need.to_string(), count);
            self.log.write_host_line(LogLevel::Info, message);
        }
    }
}

fn retry_line(account: &ServiceAccount, permission: &str, count: usize) -> String {
    let keys = if count == 1 { "key" } else { "keys" };
    format!(
        "ServiceAccount {}/{} may now {permission}: retrying {count} failed {keys}",
        account.namespace, account.name
    )
}
