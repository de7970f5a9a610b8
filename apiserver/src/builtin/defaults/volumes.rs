//! Defaults of the volumes of a pod.

use serde_json::{Value, json};

use super::super::object::{at_mut, items_mut, set, set_default, text};
use super::{image::image_pull_policy, storage};

/// The mode of files from ConfigMaps, Secrets and the like: 0644.
const FILE_MODE: i64 = 420;

/// Sets the defaults of a volume; one without a source is an emptyDir.
pub(super) fn volume(volume: &mut Value) {
    let has_source = volume
        .as_object()
        .is_some_and(|map| map.keys().any(|key| key != "name"));
    if !has_source {
        set(volume, "emptyDir", json!({}));
    }

    for key in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = at_mut(volume, key) {
            set_default(source, "defaultMode", FILE_MODE);
        }
    }

    downward_fields(volume, "downwardAPI.items");
    for source in items_mut(volume, "projected.sources") {
        if let Some(token) = at_mut(source, "serviceAccountToken") {
            set_default(token, "expirationSeconds", 3600);
        }
        downward_fields(source, "downwardAPI.items");
    }

    if let Some(path) = at_mut(volume, "hostPath").filter(|path| path["type"].is_null()) {
        set(path, "type", "");
    }
    if let Some(image) = at_mut(volume, "image") {
        let policy = image_pull_policy(text(image, "reference"));
        set_default(image, "pullPolicy", policy);
    }
    if let Some(spec) = at_mut(volume, "ephemeral.volumeClaimTemplate.spec") {
        set_default(spec, "volumeMode", "Filesystem");
    }

    storage::plugins(volume);
}

/// Sets the apiVersion of field references in a downward API volume.
fn downward_fields(volume: &mut Value, path: &str) {
    for item in items_mut(volume, path) {
        if let Some(reference) = at_mut(item, "fieldRef") {
            set_default(reference, "apiVersion", "v1");
        }
    }
}
