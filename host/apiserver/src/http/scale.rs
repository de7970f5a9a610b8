//! The subresource `scale`.

use serde_json::{Map, Value, json};

use super::{
    call::{Answer, Call},
    field_error::FieldError,
    json, metadata,
    negotiate::{PatchKind, patch_kind},
    query::WriteOptions,
    read_object::body_as_json,
    resource::{Flavor, Part, Scale},
    status::ApiError,
    update::{Change, commit, name_mismatch},
};
use crate::store::StoredObject;

/// Answers a request for the scale of an object.
///
/// # Errors
///
/// What the client gets.
pub(super) fn scale(call: &Call<'_>, verb: &str) -> Result<Answer, ApiError> {
    let Some(paths) = call.view.resource.subresources.scale.clone() else { return Err(ApiError::no_such_path()) };
    match verb {
        "get" => {
            let live = call.find(call.name()?)?;
            to_scale(&paths, &call.open(&live)?, &live, true).map(Answer::Scale)
        }
        "update" => update(call, &paths),
        "patch" => patch(call, &paths),
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn to_scale(paths: &Scale, object: &Value, live: &StoredObject, strict: bool) -> Result<Value, ApiError> {
    let replicas = at(object, &paths.spec_replicas).and_then(Value::as_i64);
    if replicas.is_none() && strict {
        let path = &paths.spec_replicas;
        return Err(ApiError::internal(format!("the spec replicas field \"{path}\" does not exist")));
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
    let observed = at(object, &paths.status_replicas).and_then(Value::as_i64).unwrap_or_default();
    let mut status = json!({"replicas": observed});
    let selector = paths.label_selector.as_ref().and_then(|path| at(object, path)).map(selector_text);
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status["selector"] = selector.into();
    }
    Ok(json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": fields, "spec": spec, "status": status}))
}

/// Returns a selector as a text: a custom resource has the text itself, a ReplicationController labels, and others a
/// `LabelSelector`.
fn selector_text(selector: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let Some(members) = selector.as_object() else { return text(selector) };
    let is_label_selector = members.keys().all(|key| matches!(key.as_str(), "matchLabels" | "matchExpressions"));
    let labels = if is_label_selector { members.get("matchLabels").and_then(Value::as_object) } else { Some(members) };
    let labels = labels.into_iter().flatten().map(|(key, value)| (key.clone(), format!("{key}={}", text(value))));
    let mut terms: Vec<(String, String)> = labels.collect();
    let expressions = members.get("matchExpressions").filter(|_| is_label_selector).and_then(Value::as_array);
    for expression in expressions.into_iter().flatten() {
        let key = text(&expression["key"]);
        let mut values: Vec<String> = expression["values"].as_array().into_iter().flatten().map(text).collect();
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
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').filter(|part| !part.is_empty()).try_fold(object, |value, part| value.get(part))
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

fn update(call: &Call<'_>, paths: &Scale) -> Result<Answer, ApiError> {
    let options = WriteOptions::read(call.query, "UpdateOptions", false)?;
    let text = body_as_json(call, ApiError::bad_request)?;
    let wanted = json::parse(&text).map_err(ApiError::bad_request)?.value;
    if wanted.get("kind").and_then(Value::as_str).is_some_and(|kind| kind != "Scale") {
        let message = "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"";
        return Err(ApiError::bad_request(message));
    }
    let name = call.name()?;
    match metadata::text(&wanted, "name") {
        found if found == name => {}
        found => return Err(name_mismatch(found, name)),
    }
    write(call, paths, &options, "UpdateOptions", |_| Ok(wanted.clone()))
}

fn patch(call: &Call<'_>, paths: &Scale) -> Result<Answer, ApiError> {
    let kind = patch_kind(call.headers, call.view.resource.flavor)?;
    let options = WriteOptions::read(call.query, "PatchOptions", kind == PatchKind::Apply)?;
    let patch =
        json::parse(call.body).map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?.value;
    write(call, paths, &options, "PatchOptions", |scale| {
        let mut changed = scale.clone();
        match kind {
            PatchKind::Merge | PatchKind::Strategic => json_patch::merge(&mut changed, &patch),
            PatchKind::Json => {
                let operations: json_patch::Patch =
                    serde_json::from_value(patch.clone()).map_err(|_| ApiError::unprocessable())?;
                json_patch::patch(&mut changed, &operations).map_err(|_| ApiError::unprocessable())?;
            }
            PatchKind::Apply => return Err(ApiError::not_implemented("server-side apply of a scale")),
        }
        Ok(changed)
    })
}

/// Changes the wanted number of replicas. `wanted` makes the new scale from the current one.
fn write(
    call: &Call<'_>,
    paths: &Scale,
    options: &WriteOptions,
    options_kind: &str,
    mut wanted: impl FnMut(&Value) -> Result<Value, ApiError>,
) -> Result<Answer, ApiError> {
    let name = call.name()?;
    let part = Part::Main;
    let change = Change { options, options_kind, part, uid_is_precondition: true, is_tracked: false };
    let answer = commit(call, name, &change, |old| {
        let live = call.find(name)?;
        let current = to_scale(paths, old, &live, false)?;
        let scale = wanted(&current)?;
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
        check_replicas(call, paths, name, replicas)?;
        let mut object = old.clone();
        set(&mut object, &paths.spec_replicas, replicas.into());
        let revision = metadata::text(&scale, "resourceVersion");
        if !revision.is_empty() {
            metadata::set(&mut object, "resourceVersion", revision);
        }
        Ok(object)
    })?;
    let (object, live) = match answer {
        Answer::Stored(_, live) => (call.open(&live)?, live),
        Answer::Object(_, object) | Answer::Plain(_, object) | Answer::Scale(object) => (object, call.find(name)?),
    };
    to_scale(paths, &object, &live, false).map(Answer::Scale)
}

fn check_replicas(call: &Call<'_>, paths: &Scale, name: &str, replicas: i64) -> Result<(), ApiError> {
    if replicas >= 0 {
        return Ok(());
    }
    let (group, kind, error) = match call.view.resource.flavor {
        Flavor::Custom => (
            call.view.resource.group.as_str(),
            call.view.resource.names.kind.as_str(),
            FieldError::invalid(paths.spec_replicas.as_str(), replicas, "should be a non-negative integer"),
        ),
        Flavor::BuiltIn => (
            "autoscaling",
            "Scale",
            FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0"),
        ),
    };
    Err(ApiError::invalid(group, kind, name, &[error]))
}
