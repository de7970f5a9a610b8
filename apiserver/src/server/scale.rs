//! The subresource `scale`.

use serde_json::{Map, Value, json};

use super::{
    call::{Answer, Call},
    hooks::FieldWrite,
    negotiate::{PatchKind, patch_kind},
    patch::applied_configuration,
    query::WriteOptions,
    read_object::body_as_json,
    resource::{Flavor, Part, Scale},
    update::{Change, check_name, commit, name_mismatch},
};
use crate::{
    apimachinery::{field::FieldError, json, metadata, status::Status},
    apply::{
        fieldpath::FieldPath,
        manager::{ReplicasPaths, ScaleEntries},
    },
    store::StoredObject,
};

/// The API version of scales.
const SCALE: &str = "autoscaling/v1";

/// Answers a request for the scale of an object.
pub(super) fn scale(call: &Call<'_>, verb: &str) -> Result<Answer, Status> {
    let Some(paths) = call.view.resource.subresources.scale.clone() else {
        return Err(Status::no_such_path());
    };

    match verb {
        "get" => {
            let live = call.find(call.name()?)?;
            to_scale(&paths, &call.open(&live)?, &live, true).map(Answer::Scale)
        }
        "update" => update(call, &paths),
        "patch" => patch(call, &paths),
        _ => Err(Status::method_not_allowed()),
    }
}

fn to_scale(
    paths: &Scale,
    object: &Value,
    live: &StoredObject,
    strict: bool,
) -> Result<Value, Status> {
    let replicas = at(object, &paths.spec_replicas).and_then(Value::as_i64);
    if replicas.is_none() && strict {
        let path = &paths.spec_replicas;
        return Err(Status::internal(format!(
            "the spec replicas field \"{path}\" does not exist"
        )));
    }

    let mut fields = Map::new();
    for field in ["name", "namespace", "uid", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            fields.insert(field.into(), value.clone());
        }
    }

    fields.insert("resourceVersion".into(), live.revision().to_string().into());
    let mut spec = Map::new();
    if let Some(replicas) = replicas.filter(|replicas| *replicas != 0) {
        spec.insert("replicas".into(), replicas.into());
    }

    let observed = at(object, &paths.status_replicas)
        .and_then(Value::as_i64)
        .unwrap_or_default();
    let mut status = json!({"replicas": observed});
    let selector = paths
        .label_selector
        .as_ref()
        .and_then(|path| at(object, path))
        .map(selector_text);

    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status["selector"] = selector.into();
    }

    Ok(
        json!({"kind": "Scale", "apiVersion": SCALE, "metadata": fields, "spec": spec, "status": status}),
    )
}

/// Returns a selector as a text: a custom resource has the text itself, a ReplicationController
/// labels, and others a `LabelSelector`.
fn selector_text(selector: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let Some(members) = selector.as_object() else {
        return text(selector);
    };
    let is_label_selector = members
        .keys()
        .all(|key| matches!(key.as_str(), "matchLabels" | "matchExpressions"));
    let labels = if is_label_selector {
        members.get("matchLabels").and_then(Value::as_object)
    } else {
        Some(members)
    };

    let labels = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), format!("{key}={}", text(value))));
    let mut terms: Vec<(String, String)> = labels.collect();
    let expressions = members
        .get("matchExpressions")
        .filter(|_| is_label_selector)
        .and_then(Value::as_array);

    for expression in expressions.into_iter().flatten() {
        let key = text(&expression["key"]);
        let mut values: Vec<String> = expression["values"]
            .as_array()
            .into_iter()
            .flatten()
            .map(text)
            .collect();

        values.sort_unstable();
        let values = values.join(",");
        let term = match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.clone(),
        };

        terms.push((key, term));
    }

    terms.sort();
    terms
        .into_iter()
        .map(|(_, term)| term)
        .collect::<Vec<_>>()
        .join(",")
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .filter(|part| !part.is_empty())
        .try_fold(object, |value, part| value.get(part))
}

fn set(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[part];
    }

    *place = value;
}

fn update(call: &Call<'_>, paths: &Scale) -> Result<Answer, Status> {
    let options = WriteOptions::read(call.query, "UpdateOptions", false)?;
    let body = body_as_json(call, Status::bad_request)?;
    let wanted = json::read(&body.text).map_err(|error| Status::bad_request(error.to_string()))?;
    if wanted
        .get("kind")
        .and_then(Value::as_str)
        .is_some_and(|kind| kind != "Scale")
    {
        let message =
            "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"";
        return Err(Status::bad_request(message));
    }

    let name = call.name()?;
    match metadata::text(&wanted, "name") {
        found if found == name => {}
        found => return Err(name_mismatch(found, name)),
    }

    write(
        call,
        paths,
        &options,
        "UpdateOptions",
        &Wanted::Scale(wanted),
    )
}

/// The wish of a request for a scale.
enum Wanted {
    /// This scale.
    Scale(Value),
    /// A merge patch.
    Merge(Value),
    /// A JSON patch.
    Operations(Value),
    /// A configuration to apply.
    Applied(Value),
}

fn patch(call: &Call<'_>, paths: &Scale) -> Result<Answer, Status> {
    let kind = patch_kind(call.headers, call.view.resource.flavor)?;
    let options = WriteOptions::read(call.query, "PatchOptions", kind == PatchKind::Apply)?;
    let parse = || {
        let parsed = json::parse_value(call.body).map(|parsed| parsed.value);
        parsed.map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))
    };
    let wanted = match kind {
        PatchKind::Merge | PatchKind::Strategic => Wanted::Merge(parse()?),
        PatchKind::Json => Wanted::Operations(parse()?),
        PatchKind::Apply => Wanted::Applied(applied_configuration(call.body)?.object),
    };

    write(call, paths, &options, "PatchOptions", &wanted)
}

/// Changes the wanted number of replicas.
fn write(
    call: &Call<'_>,
    paths: &Scale,
    options: &WriteOptions,
    options_kind: &str,
    wanted: &Wanted,
) -> Result<Answer, Status> {
    let name = call.name()?;
    let part = Part::Main;
    let change = Change {
        options,
        options_kind,
        part,
        uid_is_precondition: true,
        is_tracked: true,
    };

    let answer = commit(call, name, &change, |old| {
        let live = call.find(name)?;
        let current = to_scale(paths, old, &live, false)?;
        let (scale, entries) = changed(call, options, old, current, wanted)?;
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
        check_replicas(call, paths, name, replicas)?;

        let mut object = old.clone();
        set(&mut object, &paths.spec_replicas, replicas.into());

        let entries = Some(entries).filter(|entries| !entries.is_empty());
        metadata::set(
            &mut object,
            "managedFields",
            entries.map_or(Value::Null, Value::from),
        );

        let revision = metadata::text(&scale, "resourceVersion");
        if !revision.is_empty() {
            metadata::set(&mut object, "resourceVersion", revision);
        }

        Ok(object)
    })?;

    let (object, live) = match answer {
        Answer::Stored(_, live) => (call.open(&live)?, live),
        Answer::Object(_, object) | Answer::Plain(_, object) | Answer::Scale(object) => {
            (object, call.find(name)?)
        }
    };

    to_scale(paths, &object, &live, false).map(Answer::Scale)
}

/// Returns the changed scale of an object, and the managers of the object's fields after that.
fn changed(
    call: &Call<'_>,
    options: &WriteOptions,
    old: &Value,
    mut current: Value,
    wanted: &Wanted,
) -> Result<(Value, Vec<Value>), Status> {
    let parent = old["metadata"]["managedFields"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let (api_version, paths) = (call.view.resource.api_version(), replicas_paths(call));
    let managers = ScaleEntries {
        parent,
        api_version: &api_version,
        paths: &paths,
    };

    let entries = managers.to_scale().map_err(Status::internal)?;
    if !entries.is_empty() {
        current["metadata"]["managedFields"] = entries.into();
    }

    let write = FieldWrite {
        is_scale: true,
        ..call.field_write(options)
    };
    let mut scale = current.clone();

    match wanted {
        Wanted::Scale(wanted) => scale.clone_from(wanted),
        Wanted::Merge(patch) => json_patch::merge(&mut scale, patch),
        Wanted::Operations(patch) => {
            let operations: json_patch::Patch =
                serde_json::from_value(patch.clone()).map_err(|_| Status::unprocessable())?;
            json_patch::patch(&mut scale, &operations).map_err(|_| Status::unprocessable())?;
        }
        Wanted::Applied(patch) => scale = call.state.fields.apply(&write, Some(&current), patch)?,
    }

    match wanted {
        Wanted::Applied(patch)
            if call.view.resource.flavor == Flavor::Custom && scale != current =>
        {
            // Only an apply that changes nothing works for custom resources.
            let name = format!(
                "{}/{}",
                metadata::text(patch, "namespace"),
                metadata::text(patch, "name")
            );

            return Err(Status::plain(format!(
                "failed to convert new object ({name}; {SCALE}, Kind=Scale) to proper version: request to convert CR to an \
                 invalid group/version: {SCALE}"
            )));
        }
        Wanted::Applied(_) => check_name(&scale, call.name()?)?,
        _ => call.state.fields.track(&write, Some(&current), &mut scale),
    }

    let entries = scale["metadata"]["managedFields"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let entries = managers.to_parent(entries).map_err(Status::internal)?;

    Ok((scale, entries))
}

/// Returns the paths of the replicas in all versions of the resource.
fn replicas_paths(call: &Call<'_>) -> ReplicasPaths {
    let resource = &call.view.resource;
    let versions = call.state.resources.versions(&resource.group);
    let others = versions.iter().filter_map(|version| {
        let other = call
            .state
            .resources
            .get(&resource.group, version, &resource.names.plural)?;
        let path = other.subresources.scale.as_ref().map(|scale| {
            FieldPath::fields(
                scale
                    .spec_replicas
                    .split('.')
                    .filter(|part| !part.is_empty()),
            )
        });

        Some((other.api_version(), path))
    });

    others.collect()
}

fn check_replicas(call: &Call<'_>, paths: &Scale, name: &str, replicas: i64) -> Result<(), Status> {
    if replicas >= 0 {
        return Ok(());
    }

    let (group, kind, error) = match call.view.resource.flavor {
        Flavor::Custom => (
            call.view.resource.group.as_str(),
            call.view.resource.names.kind.as_str(),
            FieldError::invalid(
                paths.spec_replicas.as_str(),
                replicas,
                "should be a non-negative integer",
            ),
        ),
        Flavor::BuiltIn => (
            "autoscaling",
            "Scale",
            FieldError::invalid(
                "spec.replicas",
                replicas,
                "must be greater than or equal to 0",
            ),
        ),
    };

    Err(Status::invalid(group, kind, name, &[error]))
}
