//! How a Plugin ends whose code puts finalizers on objects.
//!
//! Without the plugin, nobody removes its finalizers and their objects can't be deleted. So the
//! host puts a finalizer on the Plugin: once deleted, it keeps running until no object that is
//! being deleted has one of its finalizers: those that it declares, and those that it was seen to
//! set. When a whole namespace is deleted, the plugin's
//! ServiceAccount, Roles and RoleBindings go in any order; [`rights`] keeps them until then.
//! docs/decisions/0043-teardown.md has the reasons and the limits.

pub mod rights;

use std::{sync::Arc, time::Duration};

use operetta_api::finalizers::TEARDOWN;
use operetta_core::{
    gate::{
        finalizers::{Finalizers, is_same_kind},
        operation::{List, ListOptions, PatchBody, Read, Write, WriteAction, WriteOptions},
        reply::Item,
    },
    manifest::Manifest,
    object::{Object, ObjectKey, kind::GroupVersionKind},
    ports::ObjectApi,
    status::{ApiError, ErrorKind},
};
use operetta_kube::store::Lookup;
use serde_json::json;
use tokio::time::timeout;

use crate::{
    cluster::Cluster,
    plugin::{
        crd::{KindFinalizers, PluginSpec},
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

/// How long a list of objects may take that no controller reconciles.
const LISTED: Duration = Duration::from_secs(5);

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

/// Returns the finalizers that a plugin declares.
fn declared(manifest: &Manifest, spec: &PluginSpec) -> Finalizers {
    let mut declared = Finalizers::default();
    for controller in &manifest.controllers {
        let kind = controller.for_.group_version_kind();
        add(&mut declared, &kind, &controller.finalizers);
    }
    let process = spec.process.iter();
    for of_kind in process.flat_map(|process| &process.finalizers) {
        let kind = of_kind.group_version_kind();
        add(&mut declared, &kind, &of_kind.finalizers);
    }
    declared
}

/// Returns the finalizers that a plugin is known to put on objects: declares, or was `seen` to set.
pub(super) fn known(manifest: &Manifest, spec: &PluginSpec, seen: &Finalizers) -> Finalizers {
    let mut known = declared(manifest, spec);
    for (kind, finalizers) in seen.by_kind() {
        add(&mut known, kind, finalizers);
    }
    known
}

/// Returns the finalizers that a plugin was `seen` to set, and doesn't declare.
pub(super) fn undeclared(
    manifest: &Manifest,
    spec: &PluginSpec,
    seen: &Finalizers,
) -> Vec<KindFinalizers> {
    let declared = declared(manifest, spec);
    let of_kinds = seen.by_kind().map(|(kind, finalizers)| {
        let is_declared = |finalizer: &&String| declared.has(kind, finalizer);
        let undeclared = finalizers.iter().filter(|one| !is_declared(one));
        KindFinalizers {
            api_version: kind.api_version.clone(),
            kind: kind.kind.clone(),
            finalizers: undeclared.cloned().collect(),
        }
    });
    of_kinds
        .filter(|of_kind| !of_kind.finalizers.is_empty())
        .collect()
}

fn add<'a>(
    to: &mut Finalizers,
    kind: &GroupVersionKind,
    finalizers: impl IntoIterator<Item = &'a String>,
) {
    for finalizer in finalizers {
        to.insert(kind, finalizer.clone());
    }
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
    /// Why some objects could not be counted.
    pub unread: Option<String>,
}

impl Remaining {
    /// What remains of a Plugin that doesn't run. `deleted` is how long ago the Plugin was deleted.
    pub(super) fn after(deleted: Duration) -> Self {
        Self {
            deleted,
            ..Self::default()
        }
    }

    /// Counts the objects that have one of a plugin's `known` finalizers. In `ending`, a namespace
    /// that is being deleted, all of them count as waiting.
    pub(super) async fn count(
        mut self,
        manifest: &Manifest,
        running: &RunningShards,
        known: &Finalizers,
        ending: Option<&str>,
    ) -> Self {
        let mut others = Vec::new();
        for (kind, finalizers) in known.by_kind() {
            let objects = match objects_of(manifest, running, kind).await {
                Ok(objects) => objects,
                Err(error) => {
                    self.unread = Some(format!("failed to list {kind}: {error}"));
                    continue;
                }
            };

            for object in objects {
                let of_object = object.finalizers();
                if !of_object.iter().any(|one| finalizers.contains(one)) {
                    continue;
                }

                let is_in_ending = ending.is_some() && object.key().namespace.as_deref() == ending;
                let named = if object.deleting() || is_in_ending {
                    self.waiting += 1;
                    &mut self.first
                } else {
                    self.others += 1;
                    &mut others
                };
                if named.len() < NAMED {
                    named.push(format!("{} {}", kind.kind, object.key()));
                }
            }
        }

        if self.waiting == 0 {
            self.first = others;
        }
        self
    }

    /// Reports whether the Plugin may go: nothing waits for it, or it can't clean up what does.
    /// `is_settled` is false while its code and its caches may be incomplete.
    pub(super) fn is_over(&self, is_running: bool, is_settled: bool) -> bool {
        match (is_running, is_settled) {
            (true, true) if self.unread.is_some() && self.deleted < SETTLE => false,
            (true, true) => self.waiting == 0 && (self.others == 0 || self.deleted >= LINGER),
            (_, false) => self.deleted >= SETTLE,
            (false, true) => true,
        }
    }

    /// Describes what a deleted Plugin waits for.
    pub fn message(&self) -> String {
        if let (0, Some(unread)) = (self.waiting, &self.unread) {
            return format!(
                "the Plugin is deleted, and runs until it is known what waits for its finalizers: {unread}"
            );
        }
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

/// The objects of a kind that a plugin sees.
///
/// # Errors
/// The API server's error, unless the plugin may not list them, or the kind is not served: it could
/// then clean nothing up.
async fn objects_of(
    manifest: &Manifest,
    running: &RunningShards,
    kind: &GroupVersionKind,
) -> Result<Vec<Arc<Object>>, ApiError> {
    let controllers = manifest.controllers.iter();
    let names: Vec<&str> = controllers
        .filter(|controller| is_same_kind(&controller.for_.group_version_kind(), kind))
        .map(|controller| controller.name.as_str())
        .collect();
    if !names.is_empty() {
        return Ok(reconciled(running, &names, kind));
    }

    // A process, or a plugin that puts finalizers on more than what it reconciles.
    let Some((api, _)) = running.required_permissions() else {
        return Ok(Vec::new());
    };
    let list = List {
        kind: kind.clone(),
        options: ListOptions::all(None, Read::Cached),
    };
    let listed = timeout(LISTED, api.list(list)).await.unwrap_or_else(|_| {
        let message = format!("it took longer than {} s", LISTED.as_secs());
        Err(ApiError::new(ErrorKind::TimedOut, message))
    });
    match listed {
        Ok(page) => Ok(page.items.into_iter().filter_map(whole).collect()),
        Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Forbidden) => {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

/// The object of a page; None for a projection, for which nobody asked.
fn whole(item: Item) -> Option<Arc<Object>> {
    match item {
        Item::Whole(object) => Some(object),
        Item::Projected(_) => None,
    }
}

/// The objects of a kind that these controllers reconcile, as cached.
fn reconciled(
    running: &RunningShards,
    controllers: &[&str],
    kind: &GroupVersionKind,
) -> Vec<Arc<Object>> {
    let mut objects = Vec::new();
    let mut seen = Vec::new();
    let views = controllers.iter().flat_map(|name| running.views(name));
    for Watching { view, .. } in views {
        let informer = view.informer();
        let is_new = !seen.iter().any(|one| Arc::ptr_eq(one, informer));
        if is_same_kind(&informer.resource.kind, kind) && is_new {
            seen.push(informer.clone());
            objects.extend(informer.cache.store.list(&Lookup::All, None, None));
        }
    }
    objects
}

#[cfg(test)]
mod tests {
    use operetta_api::manifest::{Controller, Source};
    use serde_json::json;

    use super::*;
    use crate::plugin::crd;

    fn foo(version: &str) -> GroupVersionKind {
        GroupVersionKind::new(format!("example.com/{version}"), "Foo")
    }

    fn spec(process: serde_json::Value) -> PluginSpec {
        PluginSpec {
            process: serde_json::from_value(process).expect("a process or none"),
            ..PluginSpec::new(crd::Source::default())
        }
    }

    #[test]
    fn finalizer_is_declared_by_a_controller_or_the_process() {
        let controller = Controller {
            finalizers: vec!["example.com/a".to_owned()],
            ..Controller::new("c", Source::new(foo("v1")))
        };
        let manifest = Manifest::new(vec![controller]);
        let mut seen = Finalizers::default();
        for name in ["example.com/a", "example.com/b"] {
            seen.insert(&foo("v2"), name.to_owned());
        }
        let undeclared_in = |manifest: &Manifest, spec: &PluginSpec| -> Vec<Vec<String>> {
            let undeclared = undeclared(manifest, spec, &seen).into_iter();
            undeclared.map(|of_kind| of_kind.finalizers).collect()
        };

        let plugin = spec(json!(null));
        assert_eq!(undeclared_in(&manifest, &plugin), [["example.com/b"]]);
        let known = known(&manifest, &plugin, &seen);
        assert!(known.has(&foo("v1"), "example.com/a") && known.has(&foo("v1"), "example.com/b"));

        let of_foos = json!({
            "apiVersion": "example.com/v1", "kind": "Foo",
            "finalizers": ["example.com/a", "example.com/b"],
        });
        let process = spec(json!({"finalizers": [of_foos]}));
        let bare = Manifest::new(Vec::new());
        assert!(undeclared_in(&bare, &process).is_empty());
        assert!(super::known(&bare, &plugin, &Finalizers::default()).is_empty());
    }

    #[test]
    fn plugin_waits_for_a_list_that_fails_only_for_a_while() {
        let after = |seconds| Remaining {
            unread: Some("failed to list Foo.example.com/v1: no answer".to_owned()),
            ..Remaining::after(Duration::from_secs(seconds))
        };
        assert!(!after(10).is_over(true, true));
        assert!(after(10).message().ends_with(": no answer"));
        assert!(after(300).is_over(true, true));
        let waiting = Remaining {
            waiting: 1,
            ..after(300)
        };
        assert!(!waiting.is_over(true, true));
    }
}
