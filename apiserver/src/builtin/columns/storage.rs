//! The cells of volumes, claims and storage classes.

use serde_json::Value;

use super::super::object::{fields, has, is_true, items, text};
use super::Printer;

pub(super) fn cells(kind: &str, printer: &Printer<'_>) -> Option<Vec<Value>> {
    Some(match kind {
        "PersistentVolume" => volume(printer),
        "PersistentVolumeClaim" => claim(printer),
        "StorageClass" => class(printer),
        "CSIDriver" => csi_driver(printer),
        "CSINode" => vec![
            printer.name(),
            items(printer.object, "spec.drivers").len().into(),
            printer.age(),
        ],
        "VolumeAttachment" => vec![
            printer.name(),
            printer.text("spec.attacher").into(),
            printer.text("spec.source.persistentVolumeName").into(),
            printer.text("spec.nodeName").into(),
            is_true(printer.object, "status.attached").into(),
            printer.age(),
        ],
        "VolumeAttributesClass" => vec![
            printer.name(),
            printer.text("driverName").into(),
            printer.age(),
        ],
        _ => return None,
    })
}

/// Access modes in the order RWO, ROX, RWX, RWOP.
fn modes(object: &Value, path: &str) -> String {
    let list = items(object, path);
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];

    let shown: Vec<&str> = known
        .iter()
        .filter(|(mode, _)| list.iter().any(|item| item == mode))
        .map(|(_, short)| *short)
        .collect();

    shown.join(",")
}

/// The phase, or that the object is being deleted.
fn phase<'a>(printer: &'a Printer<'_>) -> &'a str {
    if has(printer.object, "metadata.deletionTimestamp") {
        "Terminating"
    } else {
        printer.text("status.phase")
    }
}

/// The class, which old objects name in an annotation.
fn class_name<'a>(printer: &'a Printer<'_>) -> &'a str {
    let annotation = fields(printer.object, "metadata.annotations")
        .get("volume.beta.kubernetes.io/storage-class");
    annotation
        .and_then(Value::as_str)
        .unwrap_or_else(|| printer.text("spec.storageClassName"))
}

fn volume(printer: &Printer<'_>) -> Vec<Value> {
    let claim = match printer.at("spec.claimRef") {
        Value::Null => String::new(),
        claim => format!("{}/{}", text(claim, "namespace"), text(claim, "name")),
    };

    vec![
        printer.name(),
        printer.text_or("spec.capacity.storage", "0"),
        modes(printer.object, "spec.accessModes").into(),
        printer.text("spec.persistentVolumeReclaimPolicy").into(),
        phase(printer).into(),
        claim.into(),
        class_name(printer).into(),
        printer.text_or("spec.volumeAttributesClassName", "<unset>"),
        printer.text("status.reason").into(),
        printer.age(),
        printer.text_or("spec.volumeMode", "<unset>"),
    ]
}

fn claim(printer: &Printer<'_>) -> Vec<Value> {
    let bound = !printer.text("spec.volumeName").is_empty();
    let capacity = if bound {
        printer.text_or("status.capacity.storage", "0")
    } else {
        "".into()
    };

    let access = if bound {
        modes(printer.object, "status.accessModes")
    } else {
        String::new()
    };

    vec![
        printer.name(),
        phase(printer).into(),
        printer.text("spec.volumeName").into(),
        capacity,
        access.into(),
        class_name(printer).into(),
        printer.text_or("spec.volumeAttributesClassName", "<unset>"),
        printer.age(),
        printer.text_or("spec.volumeMode", "<unset>"),
    ]
}

fn class(printer: &Printer<'_>) -> Vec<Value> {
    let annotations = fields(printer.object, "metadata.annotations");

    let names = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];

    let default = names
        .iter()
        .any(|name| annotations.get(*name).is_some_and(|value| value == "true"));
    let suffix = if default { " (default)" } else { "" };

    vec![
        format!("{}{suffix}", printer.text("metadata.name")).into(),
        printer.text("provisioner").into(),
        printer.text_or("reclaimPolicy", "Delete"),
        printer.text_or("volumeBindingMode", "Immediate"),
        is_true(printer.object, "allowVolumeExpansion").into(),
        printer.age(),
    ]
}

fn csi_driver(printer: &Printer<'_>) -> Vec<Value> {
    let object = printer.object;

    let join = |list: Vec<&str>, none: &str| {
        if list.is_empty() {
            none.to_owned()
        } else {
            list.join(",")
        }
    };

    let audiences = if has(object, "spec.tokenRequests") {
        items(object, "spec.tokenRequests")
            .iter()
            .map(|request| text(request, "audience"))
            .collect::<Vec<_>>()
            .join(",")
    } else {
        "<unset>".to_owned()
    };

    let modes = items(object, "spec.volumeLifecycleModes")
        .iter()
        .filter_map(Value::as_str)
        .collect();

    vec![
        printer.name(),
        (printer.at("spec.attachRequired") != &Value::Bool(false)).into(),
        is_true(object, "spec.podInfoOnMount").into(),
        is_true(object, "spec.storageCapacity").into(),
        audiences.into(),
        is_true(object, "spec.requiresRepublish").into(),
        join(modes, "<none>").into(),
        printer.age(),
    ]
}
