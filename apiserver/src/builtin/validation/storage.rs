//! Validation of volumes, claims and storage classes.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    super::{
        codec::Quantity,
        object::{at, copy, fields, has, items, text},
    },
    ErrorList, format, selector,
};

const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
/// The fields of a PersistentVolume's spec that are no source.
const NO_SOURCE: [&str; 9] = [
    "capacity",
    "accessModes",
    "claimRef",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "mountOptions",
    "volumeMode",
    "nodeAffinity",
    "volumeAttributesClassName",
];

fn positive(amount: &Value) -> bool {
    amount
        .as_str()
        .and_then(|text| Quantity::parse(text).ok())
        .is_some_and(|amount| amount.sign() > 0)
}

fn access_modes(spec: &Value, detail: &str, errors: &mut ErrorList) {
    let modes = items(spec, "accessModes");
    if modes.is_empty() {
        errors.required("spec.accessModes", detail);
    }
    for mode in modes {
        errors.required_one_of("spec.accessModes", mode, &ACCESS_MODES);
    }

    let known = |mode: &&str| ACCESS_MODES.contains(mode);
    let kinds: HashSet<&str> = modes
        .iter()
        .filter_map(Value::as_str)
        .filter(known)
        .collect();
    if kinds.contains("ReadWriteOncePod") && kinds.len() > 1 {
        errors.forbidden(
            "spec.accessModes",
            "may not use ReadWriteOncePod with other access modes",
        );
    }
}

pub(super) fn persistent_volume(object: &Value, errors: &mut ErrorList) {
    let spec = at(object, "spec");
    access_modes(spec, "", errors);

    let capacity = fields(spec, "capacity");
    if capacity.is_empty() {
        errors.required("spec.capacity", "");
    }
    if !capacity.contains_key("storage") || capacity.len() > 1 {
        errors.not_supported("spec.capacity", spec["capacity"].clone(), &["storage"]);
    }

    for (name, amount) in capacity {
        if !positive(amount) {
            let detail = "must be greater than zero";
            errors.invalid(&format!("spec.capacity[{name}]"), amount.clone(), detail);
        }
    }

    let policies = ["Delete", "Recycle", "Retain"];
    errors.one_of(
        "spec.persistentVolumeReclaimPolicy",
        &spec["persistentVolumeReclaimPolicy"],
        &policies,
    );

    sources(spec, errors);
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        errors.invalid_each("spec.storageClassName", class, &format::subdomain(class));
    }

    errors.one_of(
        "spec.volumeMode",
        &spec["volumeMode"],
        &["Block", "Filesystem"],
    );
}

fn sources(spec: &Value, errors: &mut ErrorList) {
    const ORDER: [&str; 22] = [
        "hostPath",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "flocker",
        "nfs",
        "rbd",
        "quobyte",
        "cephfs",
        "iscsi",
        "cinder",
        "fc",
        "flexVolume",
        "azureFile",
        "vsphereVolume",
        "photonPersistentDisk",
        "portworxVolume",
        "azureDisk",
        "scaleIO",
        "local",
        "storageos",
        "csi",
    ];

    let mut count = 0;
    for key in ORDER.iter().filter(|key| has(spec, key)) {
        if count > 0 {
            errors.forbidden(
                &format!("spec.{key}"),
                "may not specify more than 1 volume type",
            );
        }
        count += 1;
    }

    if count == 0 {
        errors.required("spec", "must specify a volume type");
    }
    if has(spec, "hostPath") && text(spec, "hostPath.path").is_empty() {
        errors.required("spec.hostPath.path", "");
    }
}

/// Validates an update of a PersistentVolume: its source is fixed.
///
/// Where the real server appends the difference of the internal objects, this message ends after
/// the rule.
pub(super) fn persistent_volume_update(old: &Value, new: &Value, errors: &mut ErrorList) {
    persistent_volume(new, errors);
    let source = |object: &Value| {
        let mut spec = fields(object, "spec").clone();
        NO_SOURCE.iter().for_each(|key| drop(spec.remove(*key)));
        spec
    };
    if source(old) != source(new) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.forbidden("spec.persistentvolumesource", detail);
    }

    errors.immutable(
        "spec.volumeMode",
        at(old, "spec.volumeMode"),
        at(new, "spec.volumeMode"),
    );
}

pub(super) fn claim(object: &Value, errors: &mut ErrorList) {
    claim_spec(at(object, "spec"), errors);
}

fn claim_spec(spec: &Value, errors: &mut ErrorList) {
    access_modes(spec, "at least 1 access mode is required", errors);
    selector::validate(at(spec, "selector"), "spec.selector", errors);

    match fields(spec, "resources.requests").get("storage") {
        None => errors.required("spec.resources[storage]", ""),
        Some(amount) if !positive(amount) => {
            errors.invalid(
                "spec.resources[storage]",
                amount.clone(),
                "must be greater than zero",
            );
        }
        Some(_) => {}
    }

    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        errors.invalid_each("spec.storageClassName", class, &format::subdomain(class));
    }

    errors.one_of(
        "spec.volumeMode",
        &spec["volumeMode"],
        &["Block", "Filesystem"],
    );
}

/// Validates an update of a PersistentVolumeClaim: only what binding and growing change may change.
///
/// Where the real server appends the difference of the internal objects, this message ends after
/// the rule.
pub(super) fn claim_update(old: &Value, new: &Value, errors: &mut ErrorList) {
    claim(new, errors);
    let mut comparable = new.clone();
    if text(old, "spec.volumeName").is_empty() {
        copy(old, &mut comparable, "spec.volumeName");
    }

    let bound = text(old, "status.phase") == "Bound";
    if bound {
        copy(old, &mut comparable, "spec.resources.requests");
        copy(old, &mut comparable, "spec.volumeAttributesClassName");
    }

    if text(old, "spec.storageClassName").is_empty() && !has(old, "spec.storageClassName") {
        copy(old, &mut comparable, "spec.storageClassName");
    }

    if old["spec"] != comparable["spec"] {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.forbidden("spec", detail);
    }
}

pub(super) fn storage_class(object: &Value, errors: &mut ErrorList) {
    let provisioner = text(object, "provisioner");
    if provisioner.is_empty() {
        errors.required("provisioner", "");
    } else {
        errors.invalid_each(
            "provisioner",
            provisioner,
            &format::qualified_name(&provisioner.to_lowercase()),
        );
    }

    errors.one_of(
        "reclaimPolicy",
        &object["reclaimPolicy"],
        &["Delete", "Retain"],
    );

    let modes = ["Immediate", "WaitForFirstConsumer"];
    errors.one_of("volumeBindingMode", &object["volumeBindingMode"], &modes);
}

pub(super) fn storage_class_update(old: &Value, new: &Value, errors: &mut ErrorList) {
    storage_class(new, errors);
    if old["parameters"] != new["parameters"] {
        errors.forbidden("parameters", "updates to parameters are forbidden.");
    }
    for key in ["provisioner", "reclaimPolicy", "volumeBindingMode"] {
        errors.immutable(key, &old[key], &new[key]);
    }
}
