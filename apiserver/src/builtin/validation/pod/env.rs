//! Validation of environment variables.

use serde_json::Value;

use super::super::super::object::{at, has, text};
use super::super::{ErrorList, format};
use super::path::descending_path;

/// The Pod fields that a variable can take.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// The container resources that a variable can take.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const MORE_THAN_ONE: &str = "may not have more than one field specified at a time";

pub(super) fn variables(variables: &[Value], path: &str, errors: &mut ErrorList) {
    for (index, variable) in variables.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let name = text(variable, "name");

        if name.is_empty() {
            errors.required(&format!("{path}.name"), "");
        } else {
            errors.invalid_each(
                &format!("{path}.name"),
                name,
                &format::environment_name(name),
            );
        }

        if has(variable, "valueFrom") {
            value_from(variable, &format!("{path}.valueFrom"), errors);
        }
    }
}

fn value_from(variable: &Value, path: &str, errors: &mut ErrorList) {
    let source = at(variable, "valueFrom");
    let mut count = 0;

    if has(source, "fieldRef") {
        count += 1;
        field(
            at(source, "fieldRef"),
            &FIELDS,
            &format!("{path}.fieldRef"),
            errors,
        );
    }
    if has(source, "resourceFieldRef") {
        count += 1;
        resource(
            at(source, "resourceFieldRef"),
            false,
            &format!("{path}.resourceFieldRef"),
            errors,
        );
    }
    for key in ["configMapKeyRef", "secretKeyRef"] {
        if has(source, key) {
            count += 1;
            key_selector(at(source, key), &format!("{path}.{key}"), errors);
        }
    }
    if has(source, "fileKeyRef") {
        count += 1;
    }

    if count == 0 {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.invalid(path, "", detail);
    } else if !text(variable, "value").is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if count > 1 {
        errors.invalid(path, "", MORE_THAN_ONE);
    }
}

/// Validates a reference to a Pod's field.
pub(super) fn field(reference: &Value, allowed: &[&str], path: &str, errors: &mut ErrorList) {
    let name = text(reference, "fieldPath");
    if name.is_empty() {
        errors.required(&format!("{path}.fieldPath"), "");
        return;
    }

    if let Some((parent, key)) = name
        .strip_suffix("']")
        .and_then(|rest| rest.split_once("['"))
    {
        let messages = match parent {
            "metadata.labels" => format::qualified_name(key),
            "metadata.annotations" => format::qualified_name(&key.to_lowercase()),
            _ => vec!["does not support subscript".to_owned()],
        };
        let value = if parent == "metadata.annotations" {
            key.to_lowercase()
        } else {
            key.to_owned()
        };

        errors.invalid_each(path, &value, &messages);
        return;
    }

    let known = FIELDS.contains(&name)
        || matches!(
            name,
            "metadata.labels" | "metadata.annotations" | "spec.host"
        );

    if !known {
        let detail = format!("error converting fieldPath: field label not supported: {name}");
        errors.invalid(&format!("{path}.fieldPath"), name, &detail);
    } else if !allowed.contains(&name) {
        errors.not_supported(&format!("{path}.fieldPath"), name, allowed);
    }
}

/// Validates a reference to a container's resource.
pub(super) fn resource(reference: &Value, in_volume: bool, path: &str, errors: &mut ErrorList) {
    let name = text(reference, "resource");

    if in_volume && text(reference, "containerName").is_empty() {
        errors.required(&format!("{path}.containerName"), "");
    } else if name.is_empty() {
        errors.required(&format!("{path}.resource"), "");
    } else if !RESOURCES.contains(&name) && !name.contains("hugepages-") {
        errors.not_supported(&format!("{path}.resource"), name, &RESOURCES);
    }
}

fn key_selector(reference: &Value, path: &str, errors: &mut ErrorList) {
    let name = text(reference, "name");
    errors.invalid_each(&format!("{path}.name"), name, &format::subdomain(name));

    let key = text(reference, "key");
    if key.is_empty() {
        errors.required(&format!("{path}.key"), "");
    } else {
        errors.invalid_each(&format!("{path}.key"), key, &format::config_key(key));
    }
}

/// Validates the ConfigMaps and Secrets whose entries all become variables.
pub(super) fn sources(sources: &[Value], path: &str, errors: &mut ErrorList) {
    for (index, source) in sources.iter().enumerate() {
        let own = format!("{path}[{index}]");
        let prefix = text(source, "prefix");

        if !prefix.is_empty() {
            errors.invalid_each(
                &format!("{own}.prefix"),
                prefix,
                &format::environment_name(prefix),
            );
        }

        let mut count = 0;
        for key in ["configMapRef", "secretRef"] {
            if has(source, key) {
                count += 1;
                let name = text(at(source, key), "name");
                if name.is_empty() {
                    errors.required(&format!("{own}.{key}.name"), "");
                } else {
                    errors.invalid_each(
                        &format!("{own}.{key}.name"),
                        name,
                        &format::subdomain(name),
                    );
                }
            }
        }

        match count {
            0 => errors.invalid(
                path,
                "",
                "must specify one of: `configMapRef` or `secretRef`",
            ),
            1 => {}
            _ => errors.invalid(path, "", MORE_THAN_ONE),
        }
    }
}

pub(super) fn downward_files(files: &[Value], path: &str, errors: &mut ErrorList) {
    let allowed = [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
    ];

    for (index, file) in files.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if text(file, "path").is_empty() {
            errors.required(&format!("{path}.path"), "");
        }

        descending_path(text(file, "path"), &format!("{path}.path"), errors);
        if has(file, "fieldRef") {
            field(
                at(file, "fieldRef"),
                &allowed,
                &format!("{path}.fieldRef"),
                errors,
            );

            if has(file, "resourceFieldRef") {
                errors.invalid(
                    &path,
                    "resource",
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                );
            }
        } else if has(file, "resourceFieldRef") {
            resource(
                at(file, "resourceFieldRef"),
                true,
                &format!("{path}.resourceFieldRef"),
                errors,
            );
        } else {
            errors.required(&path, "one of fieldRef and resourceFieldRef is required");
        }
    }
}
