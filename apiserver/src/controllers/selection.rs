//! The controllers that a server runs.

use std::{collections::BTreeSet, str::FromStr};

/// A controller of the embedded server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ControllerName {
    /// Deletes objects whose owners are gone, and ends foreground and orphaning deletions.
    GarbageCollector,
    /// Empties namespaces that are deleted.
    Namespaces,
    /// Creates the ServiceAccount `default` in each namespace.
    ServiceAccounts,
    /// Creates the ConfigMap `kube-root-ca.crt` in each namespace, if the server has a certificate.
    RootCertificate,
    /// Keeps the rules of aggregated ClusterRoles.
    RoleAggregation,
    /// Keeps the status of ResourceQuotas.
    ResourceQuotas,
    /// Rolls out Deployments.
    Deployments,
    /// Keeps the Pods of ReplicaSets.
    ReplicaSets,
    /// Keeps the Pods and claims of StatefulSets.
    StatefulSets,
    /// Keeps the Pods of DaemonSets.
    DaemonSets,
    /// Runs Jobs to their end.
    Jobs,
    /// Deletes finished Jobs after their time to live.
    FinishedJobs,
    /// Keeps the EndpointSlices of Services.
    EndpointSlices,
    /// Keeps the status of PodDisruptionBudgets.
    DisruptionBudgets,
    /// Gives each PersistentVolumeClaim a volume.
    Volumes,
    /// Binds Pods to Nodes.
    Scheduler,
    /// Stands in for kubelets: has the Node `node`, makes the Pods of all Nodes ready and ends
    /// deleted ones.
    Kubelet,
}

impl ControllerName {
    /// All controllers.
    pub const ALL: [Self; 17] = [
        Self::GarbageCollector,
        Self::Namespaces,
        Self::ServiceAccounts,
        Self::RootCertificate,
        Self::RoleAggregation,
        Self::ResourceQuotas,
        Self::Deployments,
        Self::ReplicaSets,
        Self::StatefulSets,
        Self::DaemonSets,
        Self::Jobs,
        Self::FinishedJobs,
        Self::EndpointSlices,
        Self::DisruptionBudgets,
        Self::Volumes,
        Self::Scheduler,
        Self::Kubelet,
    ];

    /// Returns the name by which the program knows the controller.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::GarbageCollector => "garbage-collector",
            Self::Namespaces => "namespaces",
            Self::ServiceAccounts => "service-accounts",
            Self::RootCertificate => "root-certificate",
            Self::RoleAggregation => "role-aggregation",
            Self::ResourceQuotas => "resource-quotas",
            Self::Deployments => "deployments",
            Self::ReplicaSets => "replica-sets",
            Self::StatefulSets => "stateful-sets",
            Self::DaemonSets => "daemon-sets",
            Self::Jobs => "jobs",
            Self::FinishedJobs => "finished-jobs",
            Self::EndpointSlices => "endpoint-slices",
            Self::DisruptionBudgets => "disruption-budgets",
            Self::Volumes => "volumes",
            Self::Scheduler => "scheduler",
            Self::Kubelet => "kubelet",
        }
    }
}

impl FromStr for ControllerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|name| name.name() == text);
        found.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.into_iter().map(Self::name).collect();
            format!("no controller {text:?}: the names are {}", names.join(", "))
        })
    }
}

/// Which controllers a server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// The controllers to run.
    pub enabled: BTreeSet<ControllerName>,
    /// The certificate of the authority that signed the server's, in PEM. Without it there is no
    /// `kube-root-ca.crt`.
    pub root_certificate: Option<String>,
}

impl Controllers {
    /// Runs all controllers.
    #[must_use]
    pub fn all() -> Self {
        Self::only(ControllerName::ALL)
    }

    /// Runs no controllers: only what an API server itself does happens.
    #[must_use]
    pub fn none() -> Self {
        Self::only([])
    }

    /// Runs only these controllers.
    #[must_use]
    pub fn only(names: impl IntoIterator<Item = ControllerName>) -> Self {
        Self {
            enabled: names.into_iter().collect(),
            root_certificate: None,
        }
    }

    /// Leaves out a controller.
    #[must_use]
    pub fn without(mut self, name: ControllerName) -> Self {
        self.enabled.remove(&name);
        self
    }
}

impl Default for Controllers {
    fn default() -> Self {
        Self::all()
    }
}
