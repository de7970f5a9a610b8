//! The status of definitions: which names are accepted, and whether the resource is served.
//!
//! The real server has a controller for each condition. Here one function computes the status that
//! they settle on.

use serde_json::{Value, json};

use super::{
    approval,
    model::{Definition, Names},
    structural,
};
use crate::apimachinery::field::{self, FieldError, Path, Shown};

struct Condition {
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

/// Computes the status of a definition beside the other definitions of its group.
///
/// `now` is the RFC 3339 time of conditions that change. Returns none if nothing changes.
pub fn reconcile(
    definition: &Definition,
    raw: &Value,
    others: &[&Definition],
    now: &str,
) -> Option<Value> {
    let (names, accepted) = accept_names(definition, others);
    let established = establish(definition, &accepted);
    let mut status = raw.get("status").cloned().unwrap_or_else(|| json!({}));
    status["acceptedNames"] = names_value(&names);

    if status.get("storedVersions").is_none_or(Value::is_null) {
        status["storedVersions"] = json!(definition.status.stored());
    }

    let mut conditions = definition.status.conditions.clone().unwrap_or_default();
    set(&mut conditions, accepted, now);
    set(&mut conditions, established, now);

    match non_structural(definition) {
        Some(condition) => set(&mut conditions, condition, now),
        None => conditions.retain(|condition| condition["type"] != "NonStructuralSchema"),
    }

    if let Some((status, reason, message)) = approval::condition(definition) {
        set(
            &mut conditions,
            Condition {
                kind: "KubernetesAPIApprovalPolicyConformant",
                status,
                reason,
                message,
            },
            now,
        );
    }

    status["conditions"] = Value::Array(conditions);
    (raw.get("status") != Some(&status)).then_some(status)
}

fn names_value(names: &Names) -> Value {
    let mut value = json!({"plural": names.plural, "kind": names.kind});
    for (field, text) in [
        ("singular", &names.singular),
        ("listKind", &names.list_kind),
    ] {
        if !text.is_empty() {
            value[field] = json!(text);
        }
    }

    for (field, list) in [
        ("shortNames", &names.short_names),
        ("categories", &names.categories),
    ] {
        if !list.is_empty() {
            value[field] = json!(list);
        }
    }

    value
}

/// Sets a condition. Its time changes with its status only.
fn set(conditions: &mut Vec<Value>, condition: Condition, now: &str) {
    let found = conditions
        .iter_mut()
        .find(|existing| existing["type"] == condition.kind);
    let unchanged = found
        .as_ref()
        .is_some_and(|existing| existing["status"] == condition.status);
    let time = match &found {
        Some(existing) if unchanged => existing["lastTransitionTime"].clone(),
        _ => json!(now),
    };

    let value = json!({"type": condition.kind, "status": condition.status, "lastTransitionTime": time,
        "reason": condition.reason, "message": condition.message});
    match found {
        Some(existing) => *existing = value,
        None => conditions.push(value),
    }
}

/// Accepts the wanted names that no other definition of the group has.
fn accept_names(definition: &Definition, others: &[&Definition]) -> (Names, Condition) {
    let same_group: Vec<&Names> = others
        .iter()
        .filter(|other| other.spec.group == definition.spec.group)
        .filter(|other| other.metadata["name"] != definition.metadata["name"])
        .map(|other| &other.status.accepted_names)
        .collect();

    let wanted = &definition.spec.names;
    let before = &definition.status.accepted_names;

    // The real server counts this definition's own names as taken.
    let all = || same_group.iter().copied().chain([before]);
    let resource_taken = |name: &str| {
        all().any(|n| {
            n.plural == name
                || n.singular == name
                || n.short_names.iter().any(|short| short == name)
        })
    };

    let kind_taken = |name: &str| all().any(|n| n.kind == name || n.list_kind == name);
    let conflict = |wanted: &str, before: &str, taken: bool| {
        (wanted != before && taken).then(|| format!("\"{wanted}\" is already in use"))
    };
    let mut names = before.clone();
    let mut failed: Option<(&'static str, String)> = None;
    let mut accept =
        |reason: &'static str, wanted: &str, before: &str, taken: bool, target: &mut String| {
            match conflict(wanted, before, taken) {
                Some(message) => failed = Some((reason, message)),
                None => *target = wanted.to_owned(),
            }
        };

    accept(
        "PluralConflict",
        &wanted.plural,
        &before.plural,
        resource_taken(&wanted.plural),
        &mut names.plural,
    );

    let taken = resource_taken(&wanted.singular);
    accept(
        "SingularConflict",
        &wanted.singular,
        &before.singular,
        taken,
        &mut names.singular,
    );

    if wanted.short_names != before.short_names {
        let fresh = wanted
            .short_names
            .iter()
            .filter(|short| !before.short_names.contains(*short));
        let messages: Vec<_> = fresh
            .filter_map(|short| conflict(short, "", resource_taken(short)))
            .collect();

        match &messages[..] {
            [] => names.short_names.clone_from(&wanted.short_names),
            [message] => failed = Some(("ShortNamesConflict", message.clone())),
            messages => failed = Some(("ShortNamesConflict", format!("[{}]", messages.join(", ")))),
        }
    }

    let mut accept =
        |reason: &'static str, wanted: &str, before: &str, taken: bool, target: &mut String| {
            match conflict(wanted, before, taken) {
                Some(message) => failed = Some((reason, message)),
                None => *target = wanted.to_owned(),
            }
        };

    accept(
        "KindConflict",
        &wanted.kind,
        &before.kind,
        kind_taken(&wanted.kind),
        &mut names.kind,
    );

    let taken = kind_taken(&wanted.list_kind);
    accept(
        "ListKindConflict",
        &wanted.list_kind,
        &before.list_kind,
        taken,
        &mut names.list_kind,
    );

    names.categories.clone_from(&wanted.categories);
    let condition = match failed {
        Some((reason, message)) => Condition {
            kind: "NamesAccepted",
            status: "False",
            reason,
            message,
        },
        None => Condition {
            kind: "NamesAccepted",
            status: "True",
            reason: "NoConflicts",
            message: "no conflicts found".to_owned(),
        },
    };

    (names, condition)
}

/// Establishes a definition once its names are accepted. It stays established.
fn establish(definition: &Definition, accepted: &Condition) -> Condition {
    if definition.status.is_true("Established") || accepted.status == "True" {
        return Condition {
            kind: "Established",
            status: "True",
            reason: "InitialNamesAccepted",
            message: "the initial names have been accepted".to_owned(),
        };
    }

    Condition {
        kind: "Established",
        status: "False",
        reason: "NotAccepted",
        message: "not all names are accepted".to_owned(),
    }
}

fn non_structural(definition: &Definition) -> Option<Condition> {
    let kind = "NonStructuralSchema";
    let mut errors = Vec::new();
    if definition.spec.preserve_unknown_fields {
        let path = Path::new("spec").child("preserveUnknownFields");
        errors.push(FieldError::invalid(
            &path,
            Shown::raw("true"),
            "must be false",
        ));
    }

    for (at, version) in definition.spec.versions.iter().enumerate() {
        let Some(schema) = version.schema() else {
            continue;
        };

        if let Some(detail) = structural::unsupported(schema) {
            let message = format!(
                "failed to check validation schema for version {}: {detail}",
                version.name
            );

            return Some(Condition {
                kind,
                status: "Unknown",
                reason: "StructuralError",
                message,
            });
        }

        let path = Path::new("spec")
            .child("versions")
            .index(at)
            .child("schema")
            .child("openAPIV3Schema");

        errors.extend(structural::validate(&path, schema));
    }

    let message = field::aggregate(&errors);
    (!errors.is_empty()).then_some(Condition {
        kind,
        status: "True",
        reason: "Violations",
        message,
    })
}
