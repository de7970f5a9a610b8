//! Claims and volumes: each claim gets its own volume at once, which is deleted with it.
//!
//! This replaces a provisioner. A claim that names a volume, or whose class is empty, is treated
//! like any other, because the server has no StorageClasses of its own.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    client::{Refused, if_found},
    control_loop::{Context, Controller},
    object::{has_finalizer, is_terminating, name, namespace, text, uid},
    world::{Change, Key, World},
};
use crate::server::{Resource, format_time};

const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
const PROVISIONER: &str = "embedded";

/// Binds claims to volumes.
pub(super) struct Volumes;

fn claim_key(namespace: &str, name: &str) -> Key {
    Key::new("", "persistentvolumeclaims", Some(namespace), name)
}

fn volume_key(name: &str) -> Key {
    Key::new("", "persistentvolumes", None, name)
}

fn claims_of(pod: &Value) -> impl Iterator<Item = &str> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes
        .map(|volume| text(volume, &["persistentVolumeClaim", "claimName"]))
        .filter(|name| !name.is_empty())
}

impl Controller for Volumes {
    fn affected(&mut self, change: &Change, _world: &World, keys: &mut Vec<Key>) {
        let object = change.object();
        if change.key.is_of("", "persistentvolumeclaims") {
            keys.push(change.key.clone());
            let volume = text(object, &["spec", "volumeName"]);
            keys.extend((!volume.is_empty()).then(|| volume_key(volume)));
        } else if change.key.is_of("", "persistentvolumes") {
            keys.push(change.key.clone());
            let claim = &object["spec"]["claimRef"];
            keys.extend(
                claim
                    .is_object()
                    .then(|| claim_key(text(claim, &["namespace"]), text(claim, &["name"]))),
            );
        } else if change.key.is_of("", "pods") && (change.new.is_none() || change.old.is_none()) {
            keys.extend(claims_of(object).map(|claim| claim_key(namespace(object), claim)));
        }
    }

    fn reconcile(&mut self, key: &Key, context: &Context<'_>) -> Result<Option<Duration>, Refused> {
        let (Some(object), Some(resource)) = (
            context.world.get(key),
            context.world.resource(&key.resource),
        ) else {
            return Ok(None);
        };
        if key.is_of("", "persistentvolumes") {
            return reconcile_volume(object, &resource, context).map(|()| None);
        }

        if is_terminating(object) {
            let mut pods = context
                .world
                .list("", "pods", namespace(object))
                .into_iter();

            if has_finalizer(object, CLAIM_PROTECTION)
                && !pods.any(|pod| claims_of(pod).any(|it| it == name(object)))
            {
                return release(object, &resource, CLAIM_PROTECTION, context).map(|()| None);
            }
            return Ok(None);
        }

        bind(object, &resource, context).map(|()| None)
    }
}

fn release(
    object: &Value,
    resource: &Resource,
    finalizer: &str,
    context: &Context<'_>,
) -> Result<(), Refused> {
    let mut changed = object.clone();
    if let Some(finalizers) = changed["metadata"]["finalizers"].as_array_mut() {
        finalizers.retain(|one| one != finalizer);
    }
    if_found(context.client.update(resource, &changed, ""))
}

fn reconcile_volume(
    volume: &Value,
    resource: &Resource,
    context: &Context<'_>,
) -> Result<(), Refused> {
    let reference = &volume["spec"]["claimRef"];
    let claim = context.world.get(&claim_key(
        text(reference, &["namespace"]),
        text(reference, &["name"]),
    ));

    let has_claim = claim.is_some_and(|claim| uid(claim) == text(reference, &["uid"]));
    if is_terminating(volume) {
        let is_free = !has_claim && has_finalizer(volume, VOLUME_PROTECTION);
        return if is_free {
            release(volume, resource, VOLUME_PROTECTION, context)
        } else {
            Ok(())
        };
    }

    let phase = match () {
        () if !reference.is_object() => "Available",
        () if has_claim => "Bound",
        () if text(volume, &["spec", "persistentVolumeReclaimPolicy"]) == "Delete" => {
            return context.client.delete(resource, volume, "");
        }
        () => "Released",
    };

    if text(volume, &["status", "phase"]) == phase {
        return Ok(());
    }

    let mut changed = volume.clone();
    changed["status"] =
        json!({"phase": phase, "lastPhaseTransitionTime": format_time(context.now)});
    if_found(context.client.update(resource, &changed, "status"))
}

/// Gives a claim a volume, and then the status.
fn bind(claim: &Value, resource: &Resource, context: &Context<'_>) -> Result<(), Refused> {
    if text(claim, &["status", "phase"]) == "Bound" {
        return Ok(());
    }
    let wanted = text(claim, &["spec", "volumeName"]);
    let volume = if wanted.is_empty() {
        format!("pvc-{}", uid(claim))
    } else {
        wanted.to_owned()
    };

    let Some(found) = context.world.get(&volume_key(&volume)) else {
        return provision(claim, &volume, context);
    };
    if text(found, &["spec", "claimRef", "uid"]) != uid(claim) {
        return claim_volume(claim, found, context);
    }

    if wanted.is_empty() {
        let mut changed = claim.clone();
        changed["spec"]["volumeName"] = volume.into();
        for (annotation, value) in [
            ("pv.kubernetes.io/bind-completed", "yes"),
            ("pv.kubernetes.io/bound-by-controller", "yes"),
            ("volume.kubernetes.io/storage-provisioner", PROVISIONER),
        ] {
            changed["metadata"]["annotations"][annotation] = value.into();
        }
        return if_found(context.client.update(resource, &changed, ""));
    }

    let mut changed = claim.clone();
    changed["status"] = json!({
        "phase": "Bound", "accessModes": found["spec"]["accessModes"], "capacity": found["spec"]["capacity"],
    });
    if_found(context.client.update(resource, &changed, "status"))
}

fn reference_to(claim: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": name(claim), "namespace": namespace(claim),
        "uid": uid(claim), "resourceVersion": claim["metadata"]["resourceVersion"],
    })
}

/// Reserves a volume for the claim that names it.
fn claim_volume(claim: &Value, volume: &Value, context: &Context<'_>) -> Result<(), Refused> {
    let reference = &volume["spec"]["claimRef"];
    let is_for = (text(reference, &["namespace"]), text(reference, &["name"]))
        == (namespace(claim), name(claim));
    let Some(resource) = context.world.resource(&volume_key("").resource) else {
        return Ok(());
    };
    if reference.is_object() && !(is_for && text(reference, &["uid"]).is_empty()) {
        // Another claim has it, so this one waits.
        return Ok(());
    }

    let mut changed = volume.clone();
    changed["spec"]["claimRef"] = reference_to(claim);
    if_found(context.client.update(&resource, &changed, ""))
}

fn provision(claim: &Value, volume: &str, context: &Context<'_>) -> Result<(), Refused> {
    if !text(claim, &["spec", "volumeName"]).is_empty() {
        // The volume it names does not exist yet.
        return Ok(());
    }
    let Some(resource) = context.world.resource(&volume_key("").resource) else {
        return Ok(());
    };

    let mut spec = json!({
        "accessModes": claim["spec"]["accessModes"], "capacity": claim["spec"]["resources"]["requests"],
        "claimRef": reference_to(claim), "persistentVolumeReclaimPolicy": "Delete",
        "hostPath": {"path": format!("/embedded/{volume}")},
    });

    for member in ["storageClassName", "volumeMode"] {
        if let Some(value) = claim["spec"].get(member) {
            spec[member] = value.clone();
        }
    }

    let annotations = json!({"pv.kubernetes.io/provisioned-by": PROVISIONER});
    let object = json!({"metadata": {"name": volume, "annotations": annotations}, "spec": spec});
    match context.client.create(&resource, None, &object) {
        Err(error) if !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}
