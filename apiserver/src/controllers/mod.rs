//! The controllers of kube-controller-manager, kube-scheduler and a kubelet.
//!
//! They are functions of the store's content, polled by
//! [`EmbeddedServer::run`](super::EmbeddedServer::run), without threads or clocks of their own. Each
//! writes through the API as its own user, so that rights, admission, managed fields and watches are
//! those of a cluster. [`Controllers`] selects which ones run.
//!
//! A change of an object passes `world` (the objects and the references between them),
//! `control_loop` (the queue), a controller, and `client` (its requests).

mod accounts;
mod claims;
mod client;
mod control_loop;
mod daemon_sets;
mod deployment;
mod deployment_rollout;
mod deployment_sets;
mod deployment_status;
mod deployments;
mod disruption_budgets;
mod endpoint_slices;
mod finished_jobs;
mod garbage;
mod hash;
mod job_pods;
mod job_status;
mod job_tally;
mod jobs;
mod kubelet;
mod namespaces;
mod object;
mod pod_control;
mod quotas;
mod replica_sets;
mod revisions;
mod roles;
mod scheduler;
mod selection;
mod stateful_pods;
mod stateful_rollout;
mod stateful_sets;
mod stateful_status;
mod volumes;
mod world;

use std::sync::Arc;

pub use self::selection::{ControllerName, Controllers};
use self::{
    client::Client,
    control_loop::{Controller, Member},
    world::World,
};
use super::shared::Shared;
use crate::{
    authn::user::{AUTHENTICATED, MASTERS, NODES, SERVICE_ACCOUNTS, User},
    server::ApiServer,
};

/// Runs controllers, forever.
pub(super) async fn run(shared: &Shared, api: &ApiServer, controllers: &Controllers) {
    let members: Vec<Member> = controllers
        .enabled
        .iter()
        .filter_map(|name| member(*name, shared, api, controllers))
        .collect();

    if members.is_empty() {
        return std::future::pending().await;
    }

    let world = World::new(shared.store.clone(), shared.resources());
    control_loop::run(members, world, shared.environment.clone()).await;
}

/// A controller, with a client of its user.
fn member(
    name: ControllerName,
    shared: &Shared,
    api: &ApiServer,
    controllers: &Controllers,
) -> Option<Member> {
    use ControllerName as Name;
    let objects = || Arc::clone(&shared.objects);

    let controller: Box<dyn Controller> = match name {
        Name::GarbageCollector => Box::new(garbage::GarbageCollector::default()),
        Name::Namespaces => Box::new(namespaces::Namespaces),
        Name::ServiceAccounts => Box::new(accounts::ServiceAccounts),
        Name::RootCertificate => Box::new(accounts::RootCertificate(
            controllers.root_certificate.clone()?,
        )),
        Name::RoleAggregation => Box::new(roles::RoleAggregation(objects())),
        Name::ResourceQuotas => Box::new(quotas::ResourceQuotas(objects())),
        Name::Deployments => Box::new(deployments::Deployments),
        Name::ReplicaSets => Box::new(replica_sets::ReplicaSets),
        Name::StatefulSets => Box::new(stateful_sets::StatefulSets),
        Name::DaemonSets => Box::new(daemon_sets::DaemonSets),
        Name::Jobs => Box::new(jobs::Jobs),
        Name::FinishedJobs => Box::new(finished_jobs::FinishedJobs),
        Name::EndpointSlices => Box::new(endpoint_slices::EndpointSlices),
        Name::DisruptionBudgets => Box::new(disruption_budgets::DisruptionBudgets),
        Name::Scheduler => Box::new(scheduler::Scheduler::default()),
        Name::Kubelet => Box::new(kubelet::Kubelet::default()),
        Name::Volumes => Box::new(volumes::Volumes),
    };

    let identity = Identity::of(name);
    let client = Client::new(api, identity.user(), identity.agent, identity.component);

    Some(Member {
        name: identity.component,
        client,
        controller,
    })
}

struct Identity {
    /// Its ServiceAccount in `kube-system`, or its user name.
    account: &'static str,
    /// The field manager of its writes.
    agent: &'static str,
    /// Its name in Events.
    component: &'static str,
}

impl Identity {
    fn of(name: ControllerName) -> Self {
        use ControllerName as Name;
        let of = |account, component| Self {
            account,
            agent: "kube-controller-manager",
            component,
        };

        match name {
            Name::GarbageCollector => {
                of("generic-garbage-collector", "garbage-collector-controller")
            }
            Name::Namespaces => of("namespace-controller", "namespace-controller"),
            Name::ServiceAccounts => of("service-account-controller", "service-account-controller"),
            Name::RootCertificate => of("root-ca-cert-publisher", "root-ca-cert-publisher"),
            Name::RoleAggregation => of(
                "clusterrole-aggregation-controller",
                "clusterrole-aggregation-controller",
            ),
            Name::ResourceQuotas => of("resourcequota-controller", "resourcequota-controller"),
            Name::Deployments => of("deployment-controller", "deployment-controller"),
            Name::ReplicaSets => of("replicaset-controller", "replicaset-controller"),
            Name::StatefulSets => of("statefulset-controller", "statefulset-controller"),
            Name::DaemonSets => of("daemon-set-controller", "daemonset-controller"),
            Name::FinishedJobs => of(
                "ttl-after-finished-controller",
                "ttl-after-finished-controller",
            ),
            Name::Jobs => of("job-controller", "job-controller"),
            Name::EndpointSlices => of("endpointslice-controller", "endpoint-slice-controller"),
            Name::DisruptionBudgets => of("disruption-controller", "controllermanager"),
            Name::Volumes => of("persistent-volume-binder", "persistentvolume-controller"),
            Name::Scheduler => Self {
                account: "system:kube-scheduler",
                agent: "kube-scheduler",
                component: "default-scheduler",
            },
            Name::Kubelet => Self {
                account: "system:node:node",
                agent: "kubelet",
                component: "kubelet",
            },
        }
    }

    /// The user. Most controllers use a ServiceAccount, as with
    /// `--use-service-account-credentials`.
    fn user(&self) -> User {
        match self.account {
            // Kubelets are usually authorized by the Node authorizer, which this server lacks.
            "system:node:node" => User::new(self.account, &[NODES, MASTERS, AUTHENTICATED]),
            "system:kube-scheduler" => User::new(self.account, &[AUTHENTICATED]),
            account => {
                let of_namespace = format!("{SERVICE_ACCOUNTS}:kube-system");
                let name = format!("system:serviceaccount:kube-system:{account}");
                User::new(&name, &[SERVICE_ACCOUNTS, &of_namespace, AUTHENTICATED])
            }
        }
    }
}
