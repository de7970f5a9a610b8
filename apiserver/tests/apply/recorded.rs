//! Scenarios that were run on kube-apiserver 1.36.2, with its answers step by step.
//!
//! Each step starts from the object that the real server had before it. Defaulting and validation
//! are not part of field management, so defaulted fields are taken from the recorded object.

use std::collections::BTreeMap;

use jiff::Timestamp;
use operetta_apiserver::apply::{
    fieldpath::{FieldFilter, FieldPath, FieldSet},
    manager::{
        CustomTypes, FieldManager, OpenApiTypes, ReplicasPaths, ScaleEntries, TypeConverter,
        keep_timestamps_of_unchanged,
    },
    value::equal,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cases::expect;

const WIDGET_VERSIONS: [&str; 2] = ["test.example.com/v1", "test.example.com/v2"];

#[derive(Deserialize)]
struct Recording {
    schema: Value,
    scenarios: Vec<Scenario>,
}

#[derive(Deserialize)]
struct Scenario {
    name: String,
    kind: String,
    steps: Vec<Step>,
}

/// A request and its answer.
#[derive(Deserialize)]
struct Step {
    op: String,
    manager: String,
    #[serde(default)]
    force: bool,
    #[serde(default)]
    subresource: String,
    version: Option<String>,
    /// The configuration to apply.
    body: Option<Value>,
    /// The managers in the request.
    #[serde(rename = "managedFields")]
    managed_fields: Option<Value>,
    code: u16,
    out: Value,
    /// The scale's parent after the request.
    parent: Option<Value>,
    now: String,
}

impl Step {
    fn now(&self) -> Timestamp {
        self.now.parse().expect("a time")
    }
}

struct Types {
    built_in: OpenApiTypes,
    widgets: CustomTypes,
}

impl Types {
    fn of(&self, kind: &str) -> &dyn TypeConverter {
        if kind == "Widget" {
            &self.widgets
        } else {
            &self.built_in
        }
    }
}

#[test]
fn requests_are_answered_as_recorded() {
    let recording: Recording =
        serde_json::from_str(include_str!("data/recorded.json")).expect("a recording");
    let definitions = serde_json::from_str(include_str!("data/openapi.json")).expect("definitions");

    let mut built_in = OpenApiTypes::default();
    built_in.add(&definitions).expect("a schema");

    let versions = WIDGET_VERSIONS.map(|version| (version.to_owned(), Some(&recording.schema)));
    let types = Types {
        built_in,
        widgets: CustomTypes::new("Widget", versions, false).expect("a schema"),
    };

    let mut failures = Vec::new();
    let mut checked = 0;
    for scenario in &recording.scenarios {
        let mut live = None;
        for (at, step) in scenario.steps.iter().enumerate() {
            match run(&types, &scenario.kind, step, &mut live) {
                Ok(compared) => checked += usize::from(compared),
                Err(error) => {
                    failures.push(format!(
                        "{} step {at} ({} by {}): {error}",
                        scenario.name, step.op, step.manager
                    ));
                }
            }
        }
    }

    println!(
        "{} scenarios, {checked} steps compared",
        recording.scenarios.len()
    );
    assert!(
        failures.is_empty(),
        "{} steps differ:\n{}",
        failures.len(),
        failures.join("\n")
    );

    assert!(checked > 200, "{checked} steps were compared");
}

/// Runs a step, and leaves the recorded object in `live`. Returns whether there was something to
/// compare.
fn run(types: &Types, kind: &str, step: &Step, live: &mut Option<Value>) -> Result<bool, String> {
    if step.subresource == "scale" {
        return scale(types, kind, step, live);
    }

    let api_version = step
        .version
        .clone()
        .unwrap_or_else(|| api_version(kind).to_owned());

    let filters = filters(kind, &api_version, &step.subresource);
    let manager = FieldManager {
        types: types.of(kind),
        api_version: &api_version,
        kind,
        subresource: &step.subresource,
        filters: &filters,
    };

    let before = live.clone().map(|mut object| {
        object["apiVersion"] = json!(api_version);
        object
    });

    if step.op == "apply" {
        return apply(&manager, step, before, live);
    }

    if step.code >= 400 {
        return Ok(false);
    }

    let new = manager.update(
        before.as_ref(),
        written(kind, step, before.as_ref()),
        &step.manager,
        step.now(),
    );

    *live = Some(step.out.clone());
    compare_entries(&new, step, before.as_ref())?;
    Ok(true)
}

fn apply(
    manager: &FieldManager<'_>,
    step: &Step,
    before: Option<Value>,
    live: &mut Option<Value>,
) -> Result<bool, String> {
    let body = step.body.as_ref().expect("a configuration");

    let result = manager.apply(
        before.as_ref(),
        body,
        (&step.manager, step.force),
        step.now(),
    );

    match result {
        Err(error) => {
            let status = error.to_value();
            expect("code", error.code, step.code)?;
            expect(
                "message",
                lines(&status["message"]),
                lines(&step.out["message"]),
            )?;

            expect("reason", status.get("reason"), step.out.get("reason"))?;
            expect("causes", causes(&status), causes(&step.out))?;
            Ok(true)
        }
        // The server validates the merged object only afterwards.
        Ok(_) if step.code == 422 => Ok(false),
        Ok(_) if step.code >= 400 => Err(format!("expected {} {}", step.code, step.out)),
        Ok(object) => {
            *live = Some(step.out.clone());
            compare_entries(&object, step, before.as_ref())?;
            compare_fields(without_reset(&object, &step.subresource), &step.out)?;
            Ok(true)
        }
    }
}

/// Runs a write of a scale. Its managers are among those of its parent.
fn scale(types: &Types, kind: &str, step: &Step, live: &mut Option<Value>) -> Result<bool, String> {
    let parent = live.clone().expect("a parent");
    let path = Some(FieldPath::fields(["spec", "replicas"]));

    let paths: ReplicasPaths = match kind {
        "Widget" => WIDGET_VERSIONS
            .iter()
            .map(|version| ((*version).to_owned(), path.clone()))
            .collect(),
        _ => [("apps/v1".to_owned(), path)].into(),
    };

    let entries = parent["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();

    let conversion = ScaleEntries {
        parent: &entries,
        api_version: api_version(kind),
        paths: &paths,
    };

    let mut before = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": parent["metadata"], "spec": {"replicas": parent["spec"]["replicas"]}, "status": {"replicas": 0},
    });

    let scale_entries = conversion.to_scale().map_err(|error| error.to_string())?;
    before["metadata"]["managedFields"] = json!(scale_entries);

    let manager = FieldManager {
        types: &types.built_in,
        api_version: "autoscaling/v1",
        kind: "Scale",
        subresource: "scale",
        filters: &BTreeMap::new(),
    };

    let after = match &step.body {
        Some(body) => manager.apply(Some(&before), body, (&step.manager, step.force), step.now()),
        None => {
            let mut new = before.clone();
            new["spec"] = step.out["spec"].clone();
            Ok(manager.update(Some(&before), new, &step.manager, step.now()))
        }
    };

    match after {
        Err(error) => {
            expect(
                "message",
                error.to_string(),
                step.out["message"].as_str().unwrap_or_default().to_owned(),
            )?;
        }
        Ok(after) => {
            expect(
                "replicas",
                &after["spec"]["replicas"],
                &step.out["spec"]["replicas"],
            )?;

            let entries = after["metadata"]["managedFields"]
                .as_array()
                .cloned()
                .unwrap_or_default();

            let entries = conversion
                .to_parent(&entries)
                .map_err(|error| error.to_string())?;

            let parent = step.parent.as_ref().expect("a parent");
            expect(
                "entries",
                &json!(entries),
                &parent["metadata"]["managedFields"],
            )?;
        }
    }

    live.clone_from(&step.parent);
    Ok(true)
}

fn api_version(kind: &str) -> &'static str {
    match kind {
        "Widget" => WIDGET_VERSIONS[0],
        "Deployment" => "apps/v1",
        _ => "v1",
    }
}

/// The filters of an endpoint, from what its strategy resets.
fn filters(kind: &str, api_version: &str, subresource: &str) -> BTreeMap<String, FieldFilter> {
    let reset: &[&[&str]] = match (kind, subresource) {
        ("ConfigMap", _) => return BTreeMap::new(),
        (_, "") => &[&["status"]],
        ("Deployment", _) => &[&["spec"], &["metadata", "labels"]],
        ("Widget", _) => &[&["spec"], &["metadata"]],
        _ => &[&["spec"]],
    };

    let set: FieldSet = reset
        .iter()
        .map(|path| FieldPath::fields(path.iter().copied()))
        .collect();

    let filter = FieldFilter::Exclude(set);
    let versions = match (kind, subresource) {
        ("Widget", "status") => WIDGET_VERSIONS.to_vec(),
        _ => vec![api_version],
    };

    versions
        .into_iter()
        .map(|version| (version.to_owned(), filter.clone()))
        .collect()
}

/// The object that a request wrote: the answer without what the server allocated, and with the
/// request's managers.
fn written(kind: &str, step: &Step, before: Option<&Value>) -> Value {
    let mut new = step.out.clone();

    let entries = match (&step.managed_fields, before) {
        (Some(entries), _) => entries.clone(),
        (None, Some(before)) => before["metadata"]["managedFields"].clone(),
        (None, None) => Value::Null,
    };

    let metadata = new["metadata"].as_object_mut().expect("metadata");
    metadata.remove("managedFields");

    if !entries.is_null() {
        metadata.insert("managedFields".into(), entries);
    }

    if kind == "Service" {
        let spec = new["spec"].as_object_mut().expect("a spec");
        let allocated = ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"];
        spec.retain(|name, _| !allocated.contains(&name.as_str()) || before.is_some());

        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }

    new
}

/// Compares an object's managers, after keeping the times of an unchanged object like the server.
fn compare_entries(object: &Value, step: &Step, before: Option<&Value>) -> Result<(), String> {
    let mut stored = step.out.clone();
    stored["metadata"]["managedFields"] = object["metadata"]["managedFields"].clone();

    if let Some(before) = before {
        stored["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        keep_timestamps_of_unchanged(&mut stored, before);
    }

    let entries = |object: &Value| {
        object["metadata"]["managedFields"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };

    let texts = |entries: Vec<Value>| entries.iter().map(Value::to_string).collect::<Vec<_>>();
    expect(
        "entries",
        texts(entries(&stored)),
        texts(entries(&step.out)),
    )
}

/// Removes the status from an object if the endpoint resets it.
fn without_reset(object: &Value, subresource: &str) -> Value {
    let mut object = object.clone();
    if subresource.is_empty() {
        object.as_object_mut().expect("an object").remove("status");
    }
    object
}

/// Checks that the server has all fields of the merged object, and otherwise only those that it sets
/// itself.
fn compare_fields(merged: Value, stored: &Value) -> Result<(), String> {
    let mut missing = Vec::new();
    let mut extra = Vec::new();
    differences(&merged, stored, "", &mut missing, &mut extra);
    extra.retain(|path| !is_set_by_server(path));
    expect("fields that the server does not have", missing, Vec::new())?;
    expect("fields that were to be removed", extra, Vec::new())
}

fn differences(
    merged: &Value,
    stored: &Value,
    path: &str,
    missing: &mut Vec<String>,
    extra: &mut Vec<String>,
) {
    match (merged, stored) {
        (Value::Object(merged), Value::Object(stored)) => {
            for (name, value) in merged
                .iter()
                .filter(|(name, _)| !CHANGED_BY_SERVER.contains(&name.as_str()))
            {
                match stored.get(name) {
                    Some(other) => {
                        differences(value, other, &format!("{path}.{name}"), missing, extra);
                    }
                    // Go omits empty values.
                    None if is_empty(value) => {}
                    None => missing.push(format!("{path}.{name}: {value}")),
                }
            }

            extra.extend(
                stored
                    .keys()
                    .filter(|name| !merged.contains_key(*name))
                    .map(|name| format!("{path}.{name}")),
            );
        }
        (Value::Array(merged), Value::Array(stored)) if merged.len() == stored.len() => {
            for (merged, stored) in merged.iter().zip(stored) {
                differences(merged, stored, &format!("{path}[]"), missing, extra);
            }
        }
        _ if equal(merged, stored) || (is_empty(merged) && is_empty(stored)) => {}
        _ if path.contains(".limits") => {}
        _ => missing.push(format!("{path}: {merged} instead of {stored}")),
    }
}

/// Fields that the server changes with every write.
const CHANGED_BY_SERVER: [&str; 3] = ["generation", "managedFields", "resourceVersion"];

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Reports whether a field is a default or allocated by the server.
fn is_set_by_server(path: &str) -> bool {
    const PREFIXES: [&str; 2] = [".metadata.", ".status"];
    const NAMES: [&str; 29] = [
        "progressDeadlineSeconds",
        "replicas",
        "revisionHistoryLimit",
        "strategy",
        "rollingUpdate",
        "maxSurge",
        "maxUnavailable",
        "type",
        "dnsPolicy",
        "restartPolicy",
        "schedulerName",
        "securityContext",
        "terminationGracePeriodSeconds",
        "imagePullPolicy",
        "resources",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "protocol",
        "clusterIP",
        "clusterIPs",
        "internalTrafficPolicy",
        "ipFamilies",
        "ipFamilyPolicy",
        "sessionAffinity",
        "targetPort",
        "nodePort",
        "allocateLoadBalancerNodePorts",
        "externalTrafficPolicy",
        "defaultMode",
    ];
    const METADATA: [&str; 4] = ["uid", "resourceVersion", "generation", "creationTimestamp"];

    let name = path.rsplit('.').next().unwrap_or_default();
    match path {
        ".metadata.managedFields" | ".metadata.annotations" => true,
        _ if path.starts_with(PREFIXES[0]) => METADATA.contains(&name),
        _ => path.starts_with(PREFIXES[1]) || NAMES.contains(&name),
    }
}

fn lines(message: &Value) -> Vec<String> {
    let mut lines: Vec<_> = message
        .as_str()
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort_unstable();
    lines
}

fn causes(status: &Value) -> Vec<String> {
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let mut causes: Vec<_> = causes.map(Value::to_string).collect();
    causes.sort_unstable();
    causes
}
