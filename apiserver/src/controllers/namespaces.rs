//! Deletion of namespaces: deletes everything in them, and then removes the finalizer `kubernetes`.
//! Upstream is
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controller/namespace/deletion/namespaced_resources_deleter.go>.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    client::{Refused, if_found},
    control_loop::{Context, Controller},
    object::{condition, is_terminating, name},
    world::{Change, Key, World},
};
use crate::{
    server::{Resource, format_time},
    store::GroupResource,
};

const FINALIZER: &str = "kubernetes";

/// Empties deleted namespaces.
pub(super) struct Namespaces;

/// What is left in a namespace.
#[derive(Default)]
struct Remaining {
    /// The number of objects per resource, by its name in messages.
    resources: BTreeMap<String, usize>,
    /// The number of objects per finalizer.
    finalizers: BTreeMap<String, usize>,
    /// The messages of refused deletions.
    failures: Vec<String>,
}

impl Controller for Namespaces {
    fn affected(&mut self, change: &Change, world: &World, keys: &mut Vec<Key>) {
        if change.key.is_of("", "namespaces") {
            keys.push(change.key.clone());
        } else if let Some(namespace) = change.key.object.namespace() {
            let key = Key::new("", "namespaces", None, namespace);
            if world
                .get(&key)
                .is_some_and(|namespace| is_terminating(namespace))
            {
                keys.push(key);
            }
        }
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        let Some(namespace) = context
            .world
            .get(key)
            .filter(|namespace| is_terminating(namespace))
        else {
            return Ok(None);
        };

        let finalizers = namespace["spec"]["finalizers"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(None);
        }

        let remaining = empty(name(namespace), context);
        let Some(resource) = context.world.resource(&key.resource) else {
            return Ok(None);
        };

        let updated = update_status(&resource, namespace, &remaining, context)?;
        if remaining.resources.is_empty() && remaining.failures.is_empty() {
            let mut finalized = updated.unwrap_or_else(|| (**namespace).clone());
            let kept: Vec<&Value> = finalizers
                .iter()
                .filter(|finalizer| *finalizer != FINALIZER)
                .collect();

            finalized["spec"]["finalizers"] = json!(kept);
            return if_found(context.client.update(&resource, &finalized, "finalize"))
                .map(|()| None);
        }

        match remaining.failures.first() {
            None => Ok(None),
            Some(message) => Err(Refused {
                code: 500,
                message: message.clone(),
            }),
        }
    }
}

/// Deletes the objects in a namespace: Pods first, as kube-controller-manager does, then the rest.
fn empty(namespace: &str, context: &Context<'_>) -> Remaining {
    let mut remaining = Remaining::default();
    let resources = context.world.namespaced_resources();
    let (pods, others): (Vec<_>, Vec<_>) = resources
        .into_iter()
        .partition(|resource| resource.group.is_empty() && resource.names.plural == "pods");

    for resource in &pods {
        delete_all(namespace, resource, context, &mut remaining);
    }

    if remaining.resources.is_empty() {
        for resource in &others {
            delete_all(namespace, resource, context, &mut remaining);
        }
    }

    remaining
}

fn delete_all(
    namespace: &str,
    resource: &Arc<Resource>,
    context: &Context<'_>,
    remaining: &mut Remaining,
) {
    let stored = resource.storage();
    if stored != resource.group_resource() {
        // Another resource serves the same objects.
        return;
    }

    let objects = context.world.remaining(&stored, namespace);
    for object in &objects {
        let metadata = object
            .to_value()
            .map(|mut value| value["metadata"].take())
            .unwrap_or_default();

        let object = json!({"metadata": metadata});
        if is_terminating(&object) {
            continue;
        }
        if let Err(error) = context.client.delete(resource, &object, "Background") {
            remaining.failures.push(error.message);
        }
    }

    if objects.is_empty() {
        return;
    }
    count_remaining(namespace, &stored, context, remaining);
}

fn count_remaining(
    namespace: &str,
    resource: &GroupResource,
    context: &Context<'_>,
    remaining: &mut Remaining,
) {
    let objects = context.world.remaining(resource, namespace);
    if objects.is_empty() {
        return;
    }

    // Messages name a core resource with a trailing dot.
    let title = format!("{}.{}", resource.resource(), resource.group());
    remaining.resources.insert(title, objects.len());

    for object in objects.iter().filter_map(|object| object.to_value().ok()) {
        for finalizer in object["metadata"]["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            *remaining
                .finalizers
                .entry(finalizer.to_owned())
                .or_default() += 1;
        }
    }
}

/// Writes the conditions. Returns the namespace if they changed.
fn update_status(
    resource: &Resource,
    namespace: &Value,
    remaining: &Remaining,
    context: &Context<'_>,
) -> Result<Option<Value>, Refused> {
    let mut changed = namespace.clone();
    changed["status"]["phase"] = "Terminating".into();
    let now = format_time(context.now);

    let is_done = remaining.resources.is_empty() && remaining.failures.is_empty();
    if !is_done || namespace["status"]["conditions"].is_array() {
        let conditions = conditions(remaining).map(|(kind, status, reason, message)| {
            let old = condition(&namespace["status"], kind);
            if let Some(old) =
                old.filter(|old| old["status"] == status && old["message"] == *message)
            {
                return old.clone();
            }

            let since = old
                .filter(|old| old["status"] == status)
                .map(|old| old["lastTransitionTime"].clone());
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": since.unwrap_or_else(|| now.as_str().into()),
            })
        });
        changed["status"]["conditions"] = json!(conditions);
    }

    if changed == *namespace {
        return Ok(None);
    }

    context
        .client
        .update(resource, &changed, "status")
        .map(Some)
}

/// The conditions as type, status, reason and message.
fn conditions(remaining: &Remaining) -> [(&'static str, &'static str, &'static str, String); 5] {
    let choose = |is_true: bool, reasons: [&'static str; 2]| {
        if is_true {
            ("True", reasons[1])
        } else {
            ("False", reasons[0])
        }
    };

    let (failed, failed_reason) = choose(
        !remaining.failures.is_empty(),
        ["ContentDeleted", "ContentDeletionFailed"],
    );
    let failures = match remaining.failures.as_slice() {
        [] => "All content successfully deleted, may be waiting on finalization".to_owned(),
        failures => {
            format!(
                "Failed to delete all resource types, {} remaining: {}",
                failures.len(),
                failures.join(", ")
            )
        }
    };

    let (left, left_reason) = choose(
        !remaining.resources.is_empty(),
        ["ContentRemoved", "SomeResourcesRemain"],
    );

    let resources = remaining
        .resources
        .iter()
        .map(|(title, count)| format!("{title} has {count} resource instances"));
    let resources = match resources.collect::<Vec<_>>().join(", ") {
        list if list.is_empty() => "All content successfully removed".to_owned(),
        list => format!("Some resources are remaining: {list}"),
    };

    let (held, held_reason) = choose(
        !remaining.finalizers.is_empty(),
        ["ContentHasNoFinalizers", "SomeFinalizersRemain"],
    );

    let finalizers = remaining
        .finalizers
        .iter()
        .map(|(name, count)| format!("{name} in {count} resource instances"));
    let finalizers = match finalizers.collect::<Vec<_>>().join(", ") {
        list if list.is_empty() => "All content-preserving finalizers finished".to_owned(),
        list => format!("Some content in the namespace has finalizers remaining: {list}"),
    };

    [
        (
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        (
            "NamespaceDeletionContentFailure",
            failed,
            failed_reason,
            failures,
        ),
        ("NamespaceContentRemaining", left, left_reason, resources),
        (
            "NamespaceFinalizersRemaining",
            held,
            held_reason,
            finalizers,
        ),
    ]
}
