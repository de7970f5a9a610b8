//! Admission: the plugins of the API server, in its order.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    admission::{
        limit_ranger,
        params::{Kinds, ParamResource},
        pod_security,
        policies::{self, Cluster, Policies},
        request::{AdmissionRequest, Operation},
        resource_quota, service_account,
    },
    apimachinery::status::Status,
    authz::{
        escalation::{self, RoleWrite},
        rbac::{self, Rbac},
    },
    server::{Admission, Resources},
    shared::Shared,
    store::GroupResource,
};

/// The random characters at the end of the name of a Pod's token volume.
const SUFFIX: usize = 5;

/// The policies as they were compiled, and the revisions of policies and bindings at that time.
type Compiled = Option<((u64, u64), Arc<Policies>)>;

/// Runs the admission plugins.
pub(crate) struct Plugins {
    pub shared: Arc<Shared>,
    /// Reports whether Pods get the token of their ServiceAccount, which a controller has to create
    /// first.
    pub service_accounts: bool,
    pub policies: Mutex<Compiled>,
}

impl Plugins {
    fn compiled(&self) -> Arc<Policies> {
        let changed = |resource| {
            self.shared
                .store
                .changed(&GroupResource::new(policies::GROUP, resource))
        };

        let now = (
            changed("validatingadmissionpolicies"),
            changed("validatingadmissionpolicybindings"),
        );
        let mut policies = self.policies.lock();
        match &*policies {
            Some((then, compiled)) if *then == now => Arc::clone(compiled),
            _ => {
                let compiled = Arc::new(Policies::load(&*self.shared.objects));
                *policies = Some((now, Arc::clone(&compiled)));
                compiled
            }
        }
    }

    fn complete(&self, request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Status> {
        let objects = &*self.shared.objects;
        if request.is_for("", "pods") && request.operation == Operation::Create {
            limit_ranger::complete(request, object, objects);
            complete_pod(object);

            if self.service_accounts {
                let name = self.shared.environment.generate_name("");
                service_account::complete(
                    request,
                    object,
                    &name[..SUFFIX.min(name.len())],
                    objects,
                )?;
            }
        }

        if request.operation == Operation::Create && request.is_for("", "persistentvolumeclaims") {
            protect(object, "kubernetes.io/pvc-protection");
        }
        if request.operation == Operation::Create && request.is_for("", "persistentvolumes") {
            protect(object, "kubernetes.io/pv-protection");
        }

        Ok(())
    }

    /// Refuses roles and bindings that give more rights than the user has. `name` is the one in the
    /// URL.
    fn check_escalation(
        &self,
        request: &AdmissionRequest<'_>,
        name: &str,
        object: &Value,
    ) -> Result<(), Status> {
        if request.endpoint.group != rbac::GROUP || request.operation == Operation::Delete {
            return Ok(());
        }

        let write = RoleWrite {
            user: request.user,
            resource: &request.endpoint.resource,
            namespace: request.namespace,
            request_name: name,
            object,
            old: request.old,
        };

        escalation::check(&Rbac::new(&*self.shared.objects), &write)
    }
}

impl Admission for Plugins {
    fn mutate(&self, request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Status> {
        if !may_complete(request) && request.endpoint.group != rbac::GROUP {
            return Ok(());
        }

        let before = object.clone();
        let name_in_url = request.name;
        let request = request.with_object(&before);

        self.complete(&request, object)?;
        self.check_escalation(&request, name_in_url, object)
    }

    fn validate(
        &self,
        request: &AdmissionRequest<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let objects = &*self.shared.objects;

        limit_ranger::admit(request, objects)?;
        warnings.extend(pod_security::admit(request, objects)?);

        let rbac = Rbac::new(objects);
        let kinds = RegisteredKinds(&self.shared.resources());
        let cluster = Cluster {
            objects,
            authorizer: &rbac,
            kinds: &kinds,
        };
        let outcome = self.compiled().admit(request, cluster)?;
        warnings.extend(outcome.warnings);
        if let Some(denial) = outcome.denial {
            return Err(denial);
        }

        resource_quota::admit(request, objects)
    }
}

/// Reports whether [`Plugins::complete`] may change the object of a request.
fn may_complete(request: &AdmissionRequest<'_>) -> bool {
    let completed = ["pods", "persistentvolumeclaims", "persistentvolumes"];
    request.operation == Operation::Create
        && request.endpoint.group.is_empty()
        && completed.contains(&request.endpoint.resource.as_str())
}

/// Completes a Pod as the plugins Priority and DefaultTolerationSeconds do, without priority
/// classes of the cluster.
fn complete_pod(pod: &mut Value) {
    let spec = &mut pod["spec"];
    if spec["priority"].is_null() {
        spec["priority"] = match spec["priorityClassName"].as_str() {
            Some("system-node-critical") => json!(2_000_001_000),
            Some("system-cluster-critical") => json!(2_000_000_000),
            _ => json!(0),
        };
    }

    if spec["preemptionPolicy"].is_null() {
        spec["preemptionPolicy"] = json!("PreemptLowerPriority");
    }
    if !spec["tolerations"].is_array() {
        spec["tolerations"] = json!([]);
    }

    let Some(tolerations) = spec["tolerations"].as_array_mut() else {
        return;
    };

    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let tolerates = |toleration: &Value| {
            let own = toleration["key"].as_str().unwrap_or_default();
            let effect = toleration["effect"].as_str().unwrap_or_default();
            (own == key || own.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        };
        if !tolerations.iter().any(tolerates) {
            let seconds = 300;
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}));
        }
    }
}

/// Adds a finalizer that protects a volume or a claim while it is used.
fn protect(object: &mut Value, finalizer: &str) {
    if !object["metadata"]["finalizers"].is_array() {
        object["metadata"]["finalizers"] = json!([]);
    }

    if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut()
        && !finalizers.contains(&json!(finalizer))
    {
        finalizers.push(json!(finalizer));
    }
}

/// Finds the kinds of parameters among the resources.
struct RegisteredKinds<'a>(&'a Resources);

impl Kinds for RegisteredKinds<'_> {
    fn resource_of(&self, api_version: &str, kind: &str) -> Option<ParamResource> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let found = self
            .0
            .in_version(group, version)?
            .into_iter()
            .find(|resource| resource.names.kind == kind)?;

        Some(ParamResource {
            group: found.group.clone(),
            resource: found.names.plural.clone(),
            is_namespaced: found.namespaced,
        })
    }
}
