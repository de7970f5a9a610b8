//! How a Plugin ends whose code puts finalizers on objects.
//!
//! Without the plugin, nobody removes its finalizers and their objects can't be deleted. So the
//! host puts a finalizer on the Plugin: once deleted, it keeps running until no object that is
//! being deleted has a finalizer from its manifest. When a whole namespace is deleted, the plugin's
//! ServiceAccount, Roles and RoleBindings go in any order; [`rights`] keeps them until then.
//! docs/decisions/0043-teardown.md has the reasons and the limits.

pub mod rights;

use std::{sync::Arc, time::Duration};

use operetta_api::finalizers::TEARDOWN;
use operetta_core::{
    gate::operation::{PatchBody, Write, WriteAction, WriteOptions},
    manifest::Manifest,
    object::{Object, ObjectKey, kind::GroupVersionKind},
    ports::ObjectApi,
    status::{ApiError, ErrorKind},
};
use operetta_kube::store::Lookup;
use serde_json::json;

use crate::{
    cluster::Cluster,
    plugin::{
        hosted_plugin::State,
        ownership::ConditionalWrite,
        setup::{running_shard::Watching, running_shards::RunningShards},
    },
};

/// How often a deleted Plugin is checked for objects that wait for it.
pub(super) const POLL: Duration = Duration::from_millis(500);

/// How long a deleted Plugin waits for the deletion of objects that have one of its finalizers:
/// `kubectl delete -f` deletes one object after the other.
const LINGER: Duration = Duration::from_secs(5);

/// How long a deleted Plugin may take until it runs, or until it is known why it can't.
const SETTLE: Duration = Duration::from_secs(300);

/// The number of objects that a message names.
const NAMED: usize = 3;

/// Reports whether an object has the finalizer of a teardown.
pub fn is_held(object: &Object) -> bool {
    object.finalizers().iter().any(|one| one == TEARDOWN)
}

/// Reports whether a Plugin has been deleted, and doesn't have to remove finalizers first.
pub fn is_gone(plugin: &Object) -> bool {
    plugin.deleting() && !is_held(plugin)
}

/// Reports whether one of the controllers declares a finalizer.
pub(super) fn declares_finalizers(manifest: &Manifest) -> bool {
    manifest
        .controllers
        .iter()
        .any(|controller| !controller.finalizers.is_empty())
}

/// Reports whether a namespace is being deleted. Asks the API server: its watch may be behind that
/// of what was deleted with it.
///
/// # Errors
/// The API server's error. A namespace that isn't found counts as deleted.
pub(super) async fn is_terminating(cluster: &Cluster, namespace: &str) -> Result<bool, ApiError> {
    let kind = GroupVersionKind::new("v1", "Namespace");
    match cluster
        .get(&kind, &ObjectKey::cluster_scoped(namespace))
        .await
    {
        Ok(namespace) => Ok(namespace.deleting()),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Adds or removes the finalizer of a teardown, in this version of the object only.
///
/// # Errors
/// The API server's error. An object that is gone or has changed is a
/// [`ConditionalWrite::Conflict`].
pub(super) async fn set_finalizer(
    cluster: &Cluster,
    kind: GroupVersionKind,
    object: &Object,
    wanted: bool,
) -> Result<ConditionalWrite, ApiError> {
    let mut finalizers = object.finalizers();
    finalizers.retain(|one| one != TEARDOWN);
    if wanted {
        finalizers.push(TEARDOWN.to_owned());
    }

    let metadata = json!({
        "finalizers": finalizers, "uid": object.uid(), "resourceVersion": object.resource_version(),
    });
    let action = WriteAction::Patch {
        key: object.key().clone(),
        subresource: None,
        body: PatchBody::Merge(json!({ "metadata": metadata }).to_string()),
        force: false,
    };
    let write = Write {
        kind,
        action,
        options: WriteOptions::default(),
    };

    match cluster.api.write(write).await {
        Ok(_) => Ok(ConditionalWrite::Done),
        Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::NotFound) => {
            Ok(ConditionalWrite::Conflict)
        }
        Err(error) => Err(error),
    }
}

/// What a deleted Plugin still has to do: the objects with one of its finalizers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    /// For how long the Plugin has been deleted.
    deleted: Duration,
    /// How many are being deleted, or will be with their namespace.
    pub waiting: usize,
    /// The first of them, or if there is none, of the others: `Foo team/a`.
    pub first: Vec<String>,
    /// How many others there are.
    pub others: usize,
}

impl Remaining {
    /// Counts the objects of a plugin's controllers with one of the finalizers they declare.
    /// `deleted` is how long ago the Plugin was deleted. In `ending`, a namespace that is being
    /// deleted, all of them count as waiting.
    pub(super) fn count(state: &State, ending: Option<&str>, deleted: Duration) -> Self {
        let mut remaining = Self {
            deleted,
            ..Self::default()
        };
        let Some((component, running)) = state.component.as_ref().zip(state.running.as_ref())
        else {
            return remaining;
        };

        let mut others = Vec::new();
        for controller in &component.manifest().controllers {
            if controller.finalizers.is_empty() {
                continue;
            }
            let kind = controller.for_.group_version_kind();
            for object in reconciled(running, &controller.name, &kind) {
                let of_object = object.finalizers();
                if !controller
                    .finalizers
                    .iter()
                    .any(|one| of_object.contains(one))
                {
                    continue;
                }

                let is_in_ending = ending.is_some() && object.key().namespace.as_deref() == ending;
                let named = if object.deleting() || is_in_ending {
                    remaining.waiting += 1;
                    &mut remaining.first
                } else {
                    remaining.others += 1;
                    &mut others
                };
                if named.len() < NAMED {
                    named.push(format!("{} {}", kind.kind, object.key()));
                }
            }
        }

        if remaining.waiting == 0 {
            remaining.first = others;
        }
        remaining
    }

    /// Reports whether the Plugin may go: nothing waits for it, or it can't clean up what does.
    /// `is_settled` is false while its code and its caches may be incomplete.
    pub(super) fn is_over(&self, is_running: bool, is_settled: bool) -> bool {
        match (is_running, is_settled) {
            (true, true) => self.waiting == 0 && (self.others == 0 || self.deleted >= LINGER),
            (_, false) => self.deleted >= SETTLE,
            (false, true) => true,
        }
    }

    /// Describes what a deleted Plugin waits for.
    pub fn message(&self) -> String {
        if self.waiting == 0 {
            return "the Plugin is deleted, and ends as soon as nothing waits for its finalizers"
                .to_owned();
        }
        format!(
            "the Plugin is deleted, and runs until it has removed its finalizers from {}",
            self.objects(self.waiting)
        )
    }

    /// Describes the objects that keep finalizers when the Plugin goes; None if there are none.
    pub(super) fn left(&self) -> Option<String> {
        let count = self.waiting + self.others;
        (count > 0).then(|| {
            format!(
                "{} keep finalizers of this plugin, and can't be deleted until they are removed",
                self.objects(count)
            )
        })
    }

    /// Formats `2 objects: Foo team/a, Foo team/b`.
    fn objects(&self, count: usize) -> String {
        let noun = if count == 1 { "object" } else { "objects" };
        let more = if count > self.first.len() {
            ", …"
        } else {
            ""
        };
        format!("{count} {noun}: {}{more}", self.first.join(", "))
    }
}

/// The objects that a controller reconciles, as cached.
fn reconciled(
    running: &RunningShards,
    controller: &str,
    kind: &GroupVersionKind,
) -> Vec<Arc<Object>> {
    let mut objects = Vec::new();
    let mut seen = Vec::new();
    for Watching { view, .. } in running.views(controller) {
        let informer = view.informer();
        let is_new = !seen.iter().any(|one| Arc::ptr_eq(one, informer));
        if informer.resource.kind == *kind && is_new {
            seen.push(informer.clone());
            objects.extend(informer.cache.store.list(&Lookup::All, None, None));
        }
    }
    objects
}
