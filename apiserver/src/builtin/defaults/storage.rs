//! Defaults of volumes, claims, storage classes and CSI drivers.

use serde_json::{Value, json};

use super::super::object::{at_mut, set, set_default};

/// Sets the defaults of volume sources that Pods and PersistentVolumes share.
pub(super) fn plugins(volume: &mut Value) {
    let tables: [(&str, &[(&str, &str)]); 4] = [
        ("iscsi", &[("iscsiInterface", "default")]),
        (
            "rbd",
            &[
                ("pool", "rbd"),
                ("user", "admin"),
                ("keyring", "/etc/ceph/keyring"),
            ],
        ),
        (
            "azureDisk",
            &[
                ("cachingMode", "ReadWrite"),
                ("kind", "Shared"),
                ("fsType", "ext4"),
            ],
        ),
        (
            "scaleIO",
            &[("storageMode", "ThinProvisioned"), ("fsType", "xfs")],
        ),
    ];

    for (source, defaults) in tables {
        if let Some(source) = at_mut(volume, source) {
            defaults
                .iter()
                .for_each(|(key, value)| set_default(source, key, *value));
        }
    }

    if let Some(disk) = at_mut(volume, "azureDisk") {
        set_default(disk, "readOnly", false);
    }
}

pub(super) fn persistent_volume(object: &mut Value) {
    if let Some(status) = at_mut(object, "status") {
        set_default(status, "phase", "Pending");
    }
    let Some(spec) = at_mut(object, "spec") else {
        return;
    };

    set_default(spec, "persistentVolumeReclaimPolicy", "Retain");
    set_default(spec, "volumeMode", "Filesystem");

    if let Some(path) = at_mut(spec, "hostPath").filter(|path| path["type"].is_null()) {
        set(path, "type", "");
    }
    plugins(spec);
}

pub(super) fn persistent_volume_claim(object: &mut Value) {
    if let Some(status) = at_mut(object, "status") {
        set_default(status, "phase", "Pending");
    }
    if let Some(spec) = at_mut(object, "spec") {
        set_default(spec, "volumeMode", "Filesystem");
    }
}

pub(super) fn storage_class(object: &mut Value) {
    set_default(object, "reclaimPolicy", "Delete");
    set_default(object, "volumeBindingMode", "Immediate");
}

pub(super) fn csi_driver(object: &mut Value) {
    let Some(spec) = at_mut(object, "spec") else {
        return;
    };

    set_default(spec, "attachRequired", true);
    set_default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");

    for key in [
        "podInfoOnMount",
        "requiresRepublish",
        "seLinuxMount",
        "storageCapacity",
    ] {
        set_default(spec, key, false);
    }

    set_default(spec, "volumeLifecycleModes", json!(["Persistent"]));
}
