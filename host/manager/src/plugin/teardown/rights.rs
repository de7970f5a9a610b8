//! Keeps what the Plugins of a namespace act with, until their teardown has ended: ServiceAccounts,
//! and the Roles and RoleBindings for them and for the host.
//!
//! While the namespace lives, a deletion of one of these is a revocation, and takes effect at once.
//! The finalizer delays it only by the time the host needs to see the deletion.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use k8s_openapi::api::rbac::v1::{RoleRef, Subject};
use operetta_api::finalizers::TEARDOWN_ROLE;
use operetta_core::{
    authz::access_review::ServiceAccount,
    controller::request::{Action, Failure, ReconcileRequest},
    gate::operation::{List, ListOptions, Read},
    object::{Object, ObjectKey, kind::GroupVersionKind},
    ports::{ObjectApi, Reconciler},
    queue::WorkQueue,
    status::{ApiError, ErrorKind},
};
use operetta_kube::{authz::granted_roles::is_for, informer::Informer, store::Lookup};
use parking_lot::Mutex;
use serde::Deserialize;

use super::{is_held, is_terminating, set_finalizer, whole};
use crate::{
    authz::consent,
    context::Context,
    plugin::{
        host_informers::HostInformers,
        ownership::{CONFLICT_RETRY, ConditionalWrite, Ownership},
    },
};

/// How often the log repeats that the host may not keep what a namespace's Plugins act with.
const WARN_INTERVAL: Duration = Duration::from_secs(3600);

/// Reconciles namespaces: the keys of its queue are their names.
pub struct RightsController {
    context: Arc<Context>,
    informers: Arc<HostInformers>,
    ownership: Arc<Ownership>,
    queue: WorkQueue<ObjectKey>,
    /// When the log last said that the host lacks permissions.
    warned: Mutex<Option<Instant>>,
}

/// The part of a RoleBinding that says for whom it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleBinding {
    #[serde(default)]
    subjects: Vec<Subject>,
    role_ref: RoleRef,
}

/// An object, by kind and name.
type Named = (String, String);

impl RightsController {
    /// Creates the reconciler and its queue.
    pub fn new(
        context: Arc<Context>,
        informers: Arc<HostInformers>,
        ownership: Arc<Ownership>,
    ) -> Arc<Self> {
        Arc::new(Self {
            context,
            informers,
            ownership,
            queue: WorkQueue::new(),
            warned: Mutex::default(),
        })
    }

    /// Returns the queue of namespaces.
    pub fn queue(&self) -> WorkQueue<ObjectKey> {
        self.queue.clone()
    }

    /// Sets the finalizer of everything in a namespace that its Plugins need, and removes all
    /// others.
    async fn keep(&self, namespace: &str) -> Result<Action, ApiError> {
        // After a start of the host, a Plugin may be listed later than what it acts with. Without
        // it, the finalizers would be removed.
        for informer in self.namespaced().chain([&self.informers.plugins]) {
            informer.synced().await;
        }

        let held = self
            .informers
            .plugins_in(Some(namespace))
            .filter(|plugin| is_held(plugin));
        let held: Vec<Arc<Object>> = held.collect();
        let objects = self.objects(namespace);
        if held.is_empty() && !objects.iter().any(|(_, object)| is_held(object)) {
            return Ok(Action::Done);
        }

        // Asked only if it matters: whether a deletion is a revocation or the end of all.
        let is_ending = objects
            .iter()
            .any(|(_, object)| object.deleting() && is_held(object))
            && is_terminating(&self.context.cluster, namespace).await?;
        let is_revoked = |object: &Object| object.deleting() && !is_ending;

        // Without this right, the host can't remove a finalizer later.
        let has_right = !objects
            .iter()
            .any(|(_, object)| gives_right(object) && is_revoked(object));
        let needed = if has_right {
            self.needed(namespace, &held, &objects).await?
        } else {
            HashSet::new()
        };

        let mut has_changed = false;
        for (kind, object) in &objects {
            let name = (kind.kind.clone(), object.key().name.clone());
            let is_needed = needed.contains(&name) && !is_revoked(object);
            // The API server refuses a new finalizer of an object that is being deleted.
            if is_needed == is_held(object) || is_needed && object.deleting() {
                continue;
            }
            // Without it, the host could never release what a conflict has kept, or what only a late
            // watch shows.
            if !is_needed
                && gives_right(object)
                && (has_changed || self.holds_more(namespace).await?)
            {
                has_changed = true;
                continue;
            }

            let written = set_finalizer(&self.context.cluster, kind.clone(), object, is_needed);
            match written.await {
                Ok(ConditionalWrite::Done) => {}
                Ok(ConditionalWrite::Conflict) => has_changed = true,
                Err(error) if error.kind == ErrorKind::Forbidden && is_needed => {
                    self.warn(namespace, &error);
                }
                Err(error) => return Err(error),
            }
        }

        Ok(if has_changed {
            Action::RequeueAfter(CONFLICT_RETRY)
        } else {
            Action::Done
        })
    }

    /// Returns the informers of ServiceAccounts, Roles and RoleBindings.
    fn namespaced(&self) -> impl Iterator<Item = &Arc<Informer>> {
        let roles = self.informers.roles.iter();
        let namespaced = roles.filter(|informer| is_namespaced(informer));
        namespaced.chain([&self.informers.service_accounts])
    }

    /// Returns the ServiceAccounts, Roles and RoleBindings in a namespace, and last those that let
    /// the host set finalizers here.
    fn objects(&self, namespace: &str) -> Vec<(GroupVersionKind, Arc<Object>)> {
        let objects = self.namespaced().flat_map(|informer| {
            let kind = &informer.resource.kind;
            let listed = informer
                .cache
                .store
                .list(&Lookup::All, Some(namespace), None);
            listed.map(|object| (kind.clone(), object))
        });
        let mut objects: Vec<_> = objects.collect();
        objects.sort_by_key(|(_, object)| gives_right(object));
        objects
    }

    /// Reports whether anything in a namespace has the finalizer, besides what lets the host remove
    /// it. Asks the API server.
    async fn holds_more(&self, namespace: &str) -> Result<bool, ApiError> {
        for informer in self.namespaced() {
            let list = List {
                kind: informer.resource.kind.clone(),
                options: ListOptions::all(Some(namespace.to_owned()), Read::Live),
            };
            let page = self.context.cluster.api.list(list).await?;
            let mut objects = page.items.into_iter().filter_map(whole);
            if objects.any(|object| is_held(&object) && !gives_right(&object)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns what these Plugins act with: their ServiceAccounts, the RoleBindings for those and
    /// for the host, and the Roles of these.
    async fn needed(
        &self,
        namespace: &str,
        plugins: &[Arc<Object>],
        objects: &[(GroupVersionKind, Arc<Object>)],
    ) -> Result<HashSet<Named>, ApiError> {
        let accounts = plugins.iter().filter_map(|plugin| {
            let name = plugin.scalar_at(".spec.serviceAccountName");
            consent::named_account(plugin.key(), name.as_deref()).ok()
        });
        let mut accounts: Vec<ServiceAccount> = accounts.collect();
        if accounts.is_empty() {
            return Ok(HashSet::new());
        }
        let own = accounts.iter();
        let own = own.map(|account| ("ServiceAccount".to_owned(), account.name.clone()));
        let mut needed: HashSet<Named> = own.collect();

        accounts.extend(self.context.cluster.impersonation.own_account().await?);
        let bindings = objects
            .iter()
            .filter(|(kind, _)| kind.kind == "RoleBinding");
        for (_, object) in bindings {
            let Ok(RoleBinding { subjects, role_ref }) = serde_json::from_str(object.json()) else {
                continue;
            };
            let is_for = |account| is_for(Some(&subjects), account, Some(namespace));
            if !accounts.iter().any(is_for) {
                continue;
            }

            needed.insert(("RoleBinding".to_owned(), object.key().name.clone()));
            if role_ref.kind == "Role" {
                needed.insert((role_ref.kind, role_ref.name));
            }
        }

        Ok(needed)
    }

    /// Says in the log that a namespace's end may come before its plugins have cleaned up.
    fn warn(&self, namespace: &str, error: &ApiError) {
        let mut warned = self.warned.lock();
        if warned.is_some_and(|at| at.elapsed() < WARN_INTERVAL) {
            return;
        }
        *warned = Some(Instant::now());
        tracing::warn!(
            namespace, %error,
            "failed to keep the rights of plugins until they have cleaned up: if the namespace is deleted, objects with their \
             finalizers may stay; grant the host's permissions again with `operetta grant`"
        );
    }
}

/// Reports whether an object is a RoleBinding that lets the host set finalizers in its namespace.
fn gives_right(object: &Object) -> bool {
    object.scalar_at(".roleRef.kind").as_deref() == Some("ClusterRole")
        && object.scalar_at(".roleRef.name").as_deref() == Some(TEARDOWN_ROLE)
}

/// Reports whether an informer's objects have a namespace: Roles and RoleBindings have one.
pub(in crate::plugin) fn is_namespaced(informer: &Informer) -> bool {
    !informer.resource.kind.kind.starts_with("Cluster")
}

#[async_trait]
impl Reconciler for RightsController {
    async fn reconcile(&self, request: &ReconcileRequest) -> Result<Action, Failure> {
        let class = self.informers.cached_class(&request.key.name).await;
        if !self.ownership.is_assigned(&request.key)
            || !self.ownership.is_responsible_for(class.as_deref()).await
        {
            return Ok(Action::Done);
        }

        let retry = |error: ApiError| Failure::Retry(error.to_string());
        self.ownership.check().map_err(retry)?;
        self.keep(&request.key.name).await.map_err(retry)
    }
}
