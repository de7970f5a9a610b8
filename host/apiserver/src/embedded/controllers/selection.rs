//! The controllers that a server runs.

use std::collections::BTreeSet;

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
    /// Stands in for kubelets: has the Node `node`, makes the Pods of all Nodes ready and ends deleted ones.
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
}

/// The set of controllers that a server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// The controllers.
    pub enabled: BTreeSet<ControllerName>,
    /// The certificate of the authority that signed the server's, in PEM; without one there is no `kube-root-ca.crt`.
    pub root_certificate: Option<String>,
}

impl Controllers {
    /// Returns all controllers.
    #[must_use]
    pub fn all() -> Self {
        Self::only(ControllerName::ALL)
    }

    /// Returns no controllers: only what an API server itself does happens.
    #[must_use]
    pub fn none() -> Self {
        Self::only([])
    }

    /// Returns the controllers that are named.
    #[must_use]
    pub fn only(names: impl IntoIterator<Item = ControllerName>) -> Self {
        Self { enabled: names.into_iter().collect(), root_certificate: None }
    }

    /// Returns these controllers without one.
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
