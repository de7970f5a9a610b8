//! Validation of the volumes of a Pod.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::super::super::object::{at, has, int, items, text};
use super::super::{ErrorList, format};
use super::{env, path::descending_path};

/// The valid volumes by name.
pub(super) type Volumes<'a> = HashMap<&'a str, &'a Value>;

/// The sources, in the order in which the API server checks them.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];
const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Validates volumes, and returns the valid ones.
pub(super) fn all<'a>(volumes: &'a [Value], path: &str, errors: &mut ErrorList) -> Volumes<'a> {
    let mut valid = Volumes::new();

    for (index, volume) in volumes.iter().enumerate() {
        let before = errors.len();
        let path = format!("{path}[{index}]");
        sources(volume, &path, errors);
        let name = text(volume, "name");
        if name.is_empty() {
            errors.required(&format!("{path}.name"), "");
        } else {
            errors.invalid_each(&format!("{path}.name"), name, &format::label(name));
        }

        if valid.contains_key(name) {
            errors.duplicate(&format!("{path}.name"), name);
        }
        if errors.len() == before {
            valid.insert(name, volume);
        }
    }

    valid
}

fn sources(volume: &Value, path: &str, errors: &mut ErrorList) {
    let mut count = 0;

    for key in SOURCES.iter().filter(|key| has(volume, key)) {
        if count > 0 {
            // The API server's messages spell these fields like this.
            let shown = match *key {
                "downwardAPI" => "downwarAPI",
                "cephfs" => "cephFS",
                other => other,
            };

            errors.forbidden(
                &format!("{path}.{shown}"),
                "may not specify more than 1 volume type",
            );
            continue;
        }
        count += 1;
        source(key, at(volume, key), &format!("{path}.{key}"), errors);
    }

    if count == 0 {
        errors.required(path, "must specify a volume type");
    }
}

fn source(key: &str, source: &Value, path: &str, errors: &mut ErrorList) {
    let mut need = |fields: &[&str]| {
        for field in fields.iter().filter(|field| text(source, field).is_empty()) {
            errors.required(&format!("{path}.{field}"), "");
        }
    };

    match key {
        "hostPath" => {
            need(&["path"]);
            host_path(source, path, errors);
        }
        "secret" => {
            need(&["secretName"]);
            files(source, path, errors);
        }
        "configMap" => {
            need(&["name"]);
            files(source, path, errors);
        }
        "persistentVolumeClaim" => need(&["claimName"]),
        "nfs" => {
            need(&["server", "path"]);
            if !text(source, "path").starts_with('/') {
                errors.invalid(
                    &format!("{path}.path"),
                    text(source, "path"),
                    "must be an absolute path",
                );
            }
        }
        "csi" => need(&["driver"]),
        "image" => need(&["reference"]),
        "downwardAPI" => {
            mode(source, "defaultMode", path, errors);
            env::downward_files(items(source, "items"), path, errors);
        }
        "projected" => projected(source, path, errors),
        _ => {}
    }
}

fn host_path(source: &Value, path: &str, errors: &mut ErrorList) {
    if text(source, "path").split('/').any(|part| part == "..") {
        errors.invalid(
            &format!("{path}.path"),
            text(source, "path"),
            "must not contain '..'",
        );
    }

    let kinds = [
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    errors.one_of(&format!("{path}.type"), &source["type"], &kinds);
}

fn mode(source: &Value, key: &str, path: &str, errors: &mut ErrorList) {
    if let Some(mode) = int(source, key).filter(|mode| !(0..=0o777).contains(mode)) {
        errors.invalid(&format!("{path}.{key}"), mode, MODE);
    }
}

/// Validates the mode and the items of a volume with files.
fn files(source: &Value, path: &str, errors: &mut ErrorList) {
    mode(source, "defaultMode", path, errors);
    key_paths(source, path, errors);
}

fn key_paths(source: &Value, path: &str, errors: &mut ErrorList) {
    for (index, item) in items(source, "items").iter().enumerate() {
        let path = format!("{path}.items[{index}]");
        for key in ["key", "path"] {
            if text(item, key).is_empty() {
                errors.required(&format!("{path}.{key}"), "");
            }
        }

        let target = text(item, "path");
        descending_path(target, &format!("{path}.path"), errors);
        if target.starts_with("..") && !target.starts_with("../") && target != ".." {
            errors.invalid(&format!("{path}.path"), target, "must not start with '..'");
        }

        mode(item, "mode", &path, errors);
    }
}

fn projected(source: &Value, path: &str, errors: &mut ErrorList) {
    mode(source, "defaultMode", path, errors);

    let mut paths = HashSet::new();
    for (index, part) in items(source, "sources").iter().enumerate() {
        let own = format!("{path}.sources[{index}]");
        let mut count = 0;

        for key in [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ] {
            let inner = at(part, key);
            if inner.is_null() {
                continue;
            }
            count += 1;
            let path = format!("{own}.{key}");
            if count > 1 {
                errors.forbidden(&path, "may not specify more than 1 volume type per source");
                continue;
            }

            match key {
                "secret" | "configMap" => {
                    if text(inner, "name").is_empty() {
                        errors.required(&format!("{path}.name"), "");
                    }
                    key_paths(inner, &path, errors);
                }
                "downwardAPI" => env::downward_files(items(inner, "items"), &path, errors),
                "serviceAccountToken" => token(inner, &path, errors),
                _ => {}
            }

            if !text(inner, "path").is_empty() && !paths.insert(text(inner, "path")) {
                errors.invalid(&path, text(inner, "path"), "conflicting duplicate paths");
            }
        }

        if count == 0 {
            errors.required(&own, "must specify a source type");
        }
    }
}

fn token(source: &Value, path: &str, errors: &mut ErrorList) {
    let seconds = int(source, "expirationSeconds").unwrap_or(3600);
    let field = format!("{path}.expirationSeconds");

    if seconds < 600 {
        errors.invalid(
            &field,
            seconds,
            "may not specify a duration less than 10 minutes",
        );
    }

    if seconds > 1 << 32 {
        errors.invalid(
            &field,
            seconds,
            "may not specify a duration larger than 2^32 seconds",
        );
    }

    if text(source, "path").is_empty() {
        errors.required(&format!("{path}.path"), "");
    } else {
        descending_path(text(source, "path"), &format!("{path}.path"), errors);
    }
}
