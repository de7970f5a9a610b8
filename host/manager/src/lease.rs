//! A Lease of `coordination.k8s.io`: at most one of several processes holds it (client-go's `leaderelection`).
//!
//! The algorithm is client-go's. A holder renews the Lease; another process takes it over when it has not seen it renewed
//! for the Lease's duration, by its own clock. Writes are conditional on the resourceVersion, so that one of two wins. As
//! with client-go this is no fence: a former holder may act until it notices. A second host waits ([`Standing`]). The
//! requests also show whether the API server is reachable.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use operetta_kube::client::diagnosis::diagnose;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

/// The time between two requests, and so the longest time until a failure is noticed.
const PERIOD: Duration = Duration::from_secs(1);

/// The time after which a request without a response is reported; the host still waits for it.
const SLOW: Duration = Duration::from_secs(1);

/// The timeout of a request.
const GIVE_UP: Duration = Duration::from_secs(8);

/// The problem of a request without a response.
const NO_ANSWER: &str = "the API server does not respond (is the network up?)";

/// The time without a renewal after which another process may take the Lease.
const DURATION: Duration = Duration::from_secs(15);

/// The identity of a Lease and of one process that wants it.
#[derive(Clone, Debug)]
pub struct LeaseName {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name.
    pub name: String,
    /// The process: unique among all that want the Lease.
    pub identity: String,
}

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The relation of this process to the Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// The API server has not responded yet.
    #[default]
    Unknown,
    /// Another process holds it.
    Waiting {
        /// The other's identity.
        holder: String,
    },
    /// This process holds it.
    Held,
    /// Another process has taken it over.
    Lost {
        /// The other's identity.
        holder: String,
    },
}

/// The state of the election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseState {
    /// The last known standing.
    pub standing: Standing,
    /// The reason why the last request failed; None if it was answered.
    pub problem: Option<String>,
}

/// The election of one process. [`Elector::run`] must run for as long as the process wants the Lease.
pub struct Elector {
    name: LeaseName,
    leases: Api<Lease>,
    state: watch::Sender<LeaseState>,
    /// Ends the pause between two requests.
    soon: Notify,
}

impl Elector {
    /// Creates an election that has not begun.
    pub fn new(client: Client, name: LeaseName) -> Arc<Self> {
        let leases = Api::namespaced(client, &name.namespace);
        Arc::new(Self { name, leases, state: watch::Sender::default(), soon: Notify::new() })
    }

    /// Returns the Lease and this process's identity.
    pub fn name(&self) -> &LeaseName {
        &self.name
    }

    /// Returns the state, now and later.
    pub fn state(&self) -> watch::Receiver<LeaseState> {
        self.state.subscribe()
    }

    /// Makes the next request now, because another component could not reach the API server.
    pub fn probe(&self) {
        self.soon.notify_one();
    }

    /// Waits until this process holds the Lease. Cancel by dropping.
    pub async fn held(&self) {
        // The sender lives in `self`.
        let mut state = self.state.subscribe();
        let _held = state.wait_for(|state| state.standing == Standing::Held).await;
    }

    /// Waits until another process has taken the Lease over from this one; returns its identity. Cancel by dropping.
    pub async fn lost(&self) -> String {
        let mut state = self.state.subscribe();
        let lost = state.wait_for(|state| matches!(state.standing, Standing::Lost { .. })).await;
        match lost.map(|state| state.standing.clone()) {
            Ok(Standing::Lost { holder }) => holder,
            _ => std::future::pending().await,
        }
    }

    /// Acquires the Lease and renews it until it is lost.
    pub async fn run(self: Arc<Self>) {
        let mut election = Election { identity: self.name.identity.clone(), observed: None };
        loop {
            let standing = match self.attempt_in_time(&mut election).await {
                Ok(standing) => standing,
                Err(problem) => {
                    self.report(None, Some(problem));
                    self.pause().await;
                    continue;
                }
            };
            let was_held = self.state.borrow().standing == Standing::Held;
            match standing {
                Standing::Waiting { holder } if was_held => {
                    return self.report(Some(Standing::Lost { holder }), None);
                }
                standing => self.report(Some(standing), None),
            }
            self.pause().await;
        }
    }

    async fn pause(&self) {
        let _passed_or_asked = timeout(PERIOD, self.soon.notified()).await;
    }

    /// Releases the Lease, so that the next process does not wait. Failures are ignored: the Lease expires.
    pub async fn release(&self) {
        if self.state.borrow().standing != Standing::Held {
            return;
        }
        let release = async {
            let mut lease = self.leases.get(&self.name.name).await?;
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(&self.name.identity) {
                spec.holder_identity = Some(String::new());
                spec.lease_duration_seconds = Some(1);
                self.leases.replace(&self.name.name, &PostParams::default(), &lease).await?;
            }
            kube::Result::<()>::Ok(())
        };
        let _ignored = timeout(PERIOD, release).await;
    }

    /// Makes one attempt. Reports when the response takes long.
    async fn attempt_in_time(&self, election: &mut Election) -> Result<Standing, String> {
        let mut attempt = std::pin::pin!(self.attempt(election));
        let answer = match timeout(SLOW, &mut attempt).await {
            Ok(answer) => answer,
            Err(_) => {
                self.report(None, Some(NO_ANSWER.to_owned()));
                timeout(GIVE_UP, attempt).await.map_err(|_| NO_ANSWER.to_owned())?
            }
        };
        answer.map_err(|error| diagnose(&error))
    }

    /// Reads the Lease and, if it is free or this process's own, writes it. Conflicts are left to the next attempt.
    async fn attempt(&self, election: &mut Election) -> kube::Result<Standing> {
        let found = self.leases.get_opt(&self.name.name).await?;
        let exists = found.is_some();
        let mut lease = found.unwrap_or_else(|| {
            let metadata = ObjectMeta { name: Some(self.name.name.clone()), ..ObjectMeta::default() };
            Lease { metadata, spec: None }
        });
        let next = match election.decide(lease.spec.as_ref(), Instant::now(), Timestamp::now()) {
            Decision::Wait { holder } => return Ok(Standing::Waiting { holder }),
            Decision::Write(spec) => spec,
        };
        lease.spec = Some(*next);
        let post = PostParams::default();
        let written = match exists {
            true => self.leases.replace(&self.name.name, &post, &lease).await,
            false => self.leases.create(&post, &lease).await,
        };
        match written {
            Ok(_) => Ok(Standing::Held),
            // Another process was faster: the next attempt reads its write.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(self.state.borrow().standing.clone()),
            Err(error) => Err(error),
        }
    }

    /// Publishes the changes.
    fn report(&self, standing: Option<Standing>, problem: Option<String>) {
        self.state.send_if_modified(|state| {
            let before = state.clone();
            state.standing = standing.unwrap_or(before.standing.clone());
            state.problem = problem;
            *state != before
        });
    }
}

/// The Lease as one process saw it last, and the time of its last change.
struct Election {
    identity: String,
    observed: Option<(LeaseSpec, Instant)>,
}

/// The next step of an election.
#[derive(Debug, PartialEq)]
enum Decision {
    /// The Lease is free or this process's own: write this.
    Write(Box<LeaseSpec>),
    /// Another process holds it.
    Wait {
        /// The other's identity.
        holder: String,
    },
}

impl Election {
    /// Decides on the next step for a Lease that was read; None if there is none.
    fn decide(&mut self, found: Option<&LeaseSpec>, now: Instant, timestamp: Timestamp) -> Decision {
        let found = found.cloned().unwrap_or_default();
        let changed = self.observed.as_ref().is_none_or(|(observed, _)| *observed != found);
        if changed {
            self.observed = Some((found.clone(), now));
        }
        let since = self.observed.as_ref().map_or(now, |(_, since)| *since);
        let holder = found.holder_identity.clone().unwrap_or_default();
        let is_own = holder == self.identity;
        let seconds = found.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default();
        if !holder.is_empty() && !is_own && now < since + Duration::from_secs(seconds) {
            return Decision::Wait { holder };
        }
        let transitions = found.lease_transitions.unwrap_or_default();
        let acquired = found.acquire_time.filter(|_| is_own);
        Decision::Write(Box::new(LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: Some(acquired.unwrap_or(MicroTime(timestamp))),
            renew_time: Some(MicroTime(timestamp)),
            lease_transitions: Some(if is_own || holder.is_empty() {
                transitions
            } else {
                transitions.saturating_add(1)
            }),
            ..LeaseSpec::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn election(identity: &str) -> Election {
        Election { identity: identity.to_owned(), observed: None }
    }

    fn written(decision: Decision) -> LeaseSpec {
        match decision {
            Decision::Write(spec) => *spec,
            Decision::Wait { holder } => panic!("held by {holder}"),
        }
    }

    #[test]
    fn free_lease_is_taken_and_renewed() {
        let start = Instant::now();
        let early = Timestamp::UNIX_EPOCH;
        let mut one = election("one");
        let first = written(one.decide(None, start, early));
        assert_eq!((first.holder_identity.as_deref(), first.lease_duration_seconds), (Some("one"), Some(15)));
        let later = Timestamp::now();
        let renewed = written(one.decide(Some(&first), start + PERIOD, later));
        assert_eq!((&renewed.acquire_time, &renewed.renew_time), (&first.acquire_time, &Some(MicroTime(later))));
        assert_eq!(renewed.lease_transitions, Some(0));
        let given_up = LeaseSpec { holder_identity: Some(String::new()), ..renewed };
        assert_eq!(written(election("two").decide(Some(&given_up), start, later)).lease_transitions, Some(0));
    }

    #[test]
    fn second_process_waits_until_lease_was_not_renewed() {
        let start = Instant::now();
        let mut lease = written(election("one").decide(None, start, Timestamp::UNIX_EPOCH));
        let mut two = election("two");
        let waits = Decision::Wait { holder: "one".to_owned() };
        assert_eq!(two.decide(Some(&lease), start, Timestamp::now()), waits);
        let almost = start + DURATION - PERIOD;
        assert_eq!(two.decide(Some(&lease), almost, Timestamp::now()), waits);
        // A renewal restarts the time, whatever its writer's clock says.
        lease.renew_time = Some(MicroTime(Timestamp::UNIX_EPOCH));
        lease.lease_transitions = Some(4);
        assert_eq!(two.decide(Some(&lease), almost, Timestamp::now()), waits);
        assert_eq!(two.decide(Some(&lease), start + DURATION, Timestamp::now()), waits);
        let taken = written(two.decide(Some(&lease), almost + DURATION, Timestamp::now()));
        assert_eq!((taken.holder_identity.as_deref(), taken.lease_transitions), (Some("two"), Some(5)));
    }

    #[test]
    fn former_holder_sees_that_it_lost() {
        let start = Instant::now();
        let mut one = election("one");
        let lease = written(one.decide(None, start, Timestamp::now()));
        let taken = LeaseSpec { holder_identity: Some("two".to_owned()), ..lease };
        assert_eq!(one.decide(Some(&taken), start, Timestamp::now()), Decision::Wait { holder: "two".to_owned() });
    }
}
