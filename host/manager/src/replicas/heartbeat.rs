//! Joins the group and renews this replica's Lease.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use operetta_core::replicas::Group;
use operetta_kube::client::diagnosis::diagnose;
use tokio::time::timeout;

use crate::replicas::{
    Membership, Replicas, Standing,
    leases::{self, is_code},
};

/// When a pending request is reported as a problem. The replica goes on waiting for the response.
const SLOW: Duration = Duration::from_secs(1);

/// Timeout of a renewal.
const GIVE_UP: Duration = Duration::from_secs(8);

/// The pause after a failure.
const RETRY: Duration = Duration::from_secs(1);

const NO_ANSWER: &str = "the API server does not respond (is the network up?)";

/// How an attempt to renew the Lease ended.
enum Renewal {
    /// The Lease is ours.
    Held,
    /// Another write came first: try again at once.
    Conflict,
    /// Another replica took the Lease.
    Taken,
}

impl Replicas {
    /// Joins the group and renews the Lease until this replica's epoch ends.
    pub async fn run(self: Arc<Self>) {
        let mut held = None;
        loop {
            let period = match self.attempt_in_time(&mut held).await {
                Ok(Renewal::Held) => {
                    self.report(Some(Standing::Member), None);
                    self.config.period()
                }
                Ok(Renewal::Conflict) => continue,
                Ok(Renewal::Taken) => {
                    return self.lose(
                        "another replica has taken its Lease, which was not renewed in time"
                            .to_owned(),
                    );
                }
                Err(problem) => {
                    self.report(None, Some(problem));
                    RETRY.min(self.config.period())
                }
            };
            let _passed_or_asked = timeout(period, self.soon.notified()).await;
        }
    }

    /// Makes one attempt, and reports a slow response.
    async fn attempt_in_time(&self, held: &mut Option<Lease>) -> Result<Renewal, String> {
        let mut attempt = std::pin::pin!(self.attempt(held));
        let answer = match timeout(SLOW, &mut attempt).await {
            Ok(answer) => answer,
            Err(_) => {
                self.report(None, Some(NO_ANSWER.to_owned()));
                timeout(GIVE_UP, attempt)
                    .await
                    .map_err(|_| NO_ANSWER.to_owned())?
            }
        };
        answer.map_err(|error| diagnose(&error))
    }

    async fn attempt(&self, held: &mut Option<Lease>) -> kube::Result<Renewal> {
        let renewal = self.renew(held).await?;
        if !matches!(renewal, Renewal::Held) || self.epoch().is_some() {
            return Ok(renewal);
        }

        let join = |group: &mut Group| Some(group.join(&self.identity));
        if let Some((group, epoch)) = self.leases.change(join).await? {
            let _first = self.membership.set(Membership {
                epoch,
                since: self.fence.now(),
            });
            tracing::info!(identity = self.identity, %epoch, members = group.members_text(), "joined the group");
            self.publish(group);
        }

        // Renew again, now with the epoch. A replica acts only while its Lease has its epoch, so
        // the others know that it may be acting, whatever the group says.
        self.renew(held).await
    }

    /// Renews the version of the Lease that this replica wrote last.
    async fn renew(&self, held: &mut Option<Lease>) -> kube::Result<Renewal> {
        if held.is_none() {
            // Perhaps left by an earlier process with this identity.
            *held = self.leases.get(&self.identity).await?;
        }
        let sent = self.fence.now();
        let (duration, epoch, endpoint) =
            (self.config.duration(), self.epoch(), self.endpoint.get());
        let renewed = self
            .leases
            .renew(&self.identity, held.clone(), duration, epoch, endpoint)
            .await;

        match renewed {
            Ok(lease) => {
                *held = Some(lease);
                if self.fence.remaining().is_zero() {
                    // While this process or the API server was stopped, we missed the others'
                    // renewals too.
                    self.others.silence.lock().clear();
                }
                self.fence.extend(sent + self.config.duration());
                Ok(Renewal::Held)
            }
            // Somebody else wrote or deleted it. When creating it, 404 is about the namespace.
            Err(error) if is_code(&error, 409) || (held.is_some() && is_code(&error, 404)) => {
                self.find_held(held).await
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the Lease after somebody else wrote it.
    async fn find_held(&self, held: &mut Option<Lease>) -> kube::Result<Renewal> {
        let found = self.leases.get(&self.identity).await?;
        let is_own = found
            .as_ref()
            .is_some_and(|lease| leases::holder(lease) == Some(&self.identity));
        *held = found;
        Ok(if is_own || self.epoch().is_none() {
            Renewal::Conflict
        } else {
            Renewal::Taken
        })
    }
}
