//! Joining the group and renewing the Lease of this replica.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use operetta_core::replicas::Group;
use operetta_kube::client::diagnosis::diagnose;
use tokio::time::timeout;

use crate::replicas::{
    Membership, Replicas, Standing,
    leases::{self, is_code},
};

/// When a request without a response is reported; the replica still waits for it.
const SLOW: Duration = Duration::from_secs(1);

/// The timeout of a renewal.
const GIVE_UP: Duration = Duration::from_secs(8);

/// The pause after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// The problem of a request without a response.
const NO_ANSWER: &str = "the API server does not respond (is the network up?)";

/// The end of an attempt to renew the Lease.
enum Renewal {
    /// The Lease is this replica's.
    Held,
    /// Another write came first; the next attempt follows at once.
    Conflict,
    /// Another replica has taken the Lease.
    Taken,
}

impl Replicas {
    /// Joins the group and renews the Lease until the epoch is over.
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

    /// Makes one attempt. Reports when the response takes long.
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

        // A replica acts only while its Lease has its epoch. By this others know that it may act,
        // whatever the group says.
        self.renew(held).await
    }

    /// Renews the Lease in the version that this replica wrote last.
    async fn renew(&self, held: &mut Option<Lease>) -> kube::Result<Renewal> {
        if held.is_none() {
            // Of a process with the same identity, which has ended.
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
                    // Renewals of others were not seen either, because this process or the API
                    // server was stopped.
                    self.others.silence.lock().clear();
                }
                self.fence.extend(sent + self.config.duration());
                Ok(Renewal::Held)
            }
            Err(error) if is_code(&error, 409) || is_code(&error, 404) => {
                self.find_held(held).await
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the Lease after another write of it.
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
