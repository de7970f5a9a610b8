//! Compares definitions and objects of custom resources with the answers of a real API server.
//!
//! `crd/record.py` recorded the tables with kube-apiserver 1.36.

use operetta_apiserver::{
    apiextensions::{
        admission::{self, Crd},
        request::Target,
        version::CrdVersion,
    },
    apimachinery::{options::FieldValidation, status::Status},
};
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T00:00:00Z";

fn table(text: &str) -> Vec<Value> {
    serde_json::from_str(text).expect("table")
}

/// Moves fields that many cases share into their place.
fn fill(value: &mut Value, fields: &Value) {
    match value {
        Value::String(text) if text == "$rules" => *value = fields.clone(),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, fields)),
        Value::Object(entries) => entries.values_mut().for_each(|item| fill(item, fields)),
        _ => {}
    }
}

/// The parts of an answer that the table has.
fn outcome(answer: Result<(Value, Vec<String>), Status>) -> Value {
    match answer {
        Ok((object, warnings)) => {
            let mut rest = object;
            let fields = rest.as_object_mut().expect("object");
            fields.retain(|key, _| !matches!(key.as_str(), "apiVersion" | "kind"));

            let metadata = fields["metadata"].as_object_mut().expect("metadata");
            metadata.retain(|key, _| {
                matches!(
                    key.as_str(),
                    "labels" | "annotations" | "finalizers" | "generation"
                )
            });

            let mut out = json!({"code": 200, "object": rest});
            if !warnings.is_empty() {
                out["warnings"] = json!(warnings);
            }

            out
        }
        Err(refusal) => {
            let status = refusal.to_value();
            match status.pointer("/details/causes").and_then(Value::as_array) {
                Some(causes) => {
                    let list: Vec<_> = causes
                        .iter()
                        .map(|c| json!([c["reason"], c["field"], c["message"]]))
                        .collect();
                    json!({"code": refusal.code, "causes": list})
                }
                None => json!({"code": refusal.code, "message": status["message"]}),
            }
        }
    }
}

fn expected(case: &Value) -> Value {
    let keys = ["code", "causes", "message", "object", "warnings"];
    Value::Object(
        keys.iter()
            .filter_map(|key| Some(((*key).to_owned(), case.get(*key)?.clone())))
            .collect(),
    )
}

fn normal(mut outcome: Value, unordered: bool) -> Value {
    if let (true, Some(causes)) = (unordered, outcome["causes"].as_array_mut()) {
        causes.sort_by_key(ToString::to_string);
    }
    outcome
}

fn compare(
    name: &str,
    case: &Value,
    answer: Result<(Value, Vec<String>), Status>,
    failures: &mut Vec<String>,
) {
    let unordered = case["unordered"] == true;
    let (found, wanted) = (
        normal(outcome(answer), unordered),
        normal(expected(case), unordered),
    );
    if found != wanted {
        failures.push(format!("{name}\n  here: {found}\n  real: {wanted}"));
    }
}

fn report(total: usize, failures: &[String]) {
    assert!(
        failures.is_empty(),
        "{} of {total} differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn decode(object: &Value) -> Result<Value, Status> {
    let refuse = |error: String| cannot_be_handled("CustomResourceDefinition", "v1", &error);
    let decoded = admission::decode(object).map_err(refuse)?;

    if decoded.unknown_fields.is_empty() {
        return Ok(decoded.object);
    }

    let list: Vec<_> = decoded
        .unknown_fields
        .iter()
        .map(|path| format!("unknown field \"{path}\""))
        .collect();

    Err(refuse(format!(
        "strict decoding error: {}",
        list.join(", ")
    )))
}

/// Returns what the API server says around the message of its decoder.
fn cannot_be_handled(kind: &str, version: &str, error: &str) -> Status {
    Status::bad_request(format!(
        "{kind} in version \"{version}\" cannot be handled as a {kind}: {error}"
    ))
}

/// Creates a definition and settles its status.
fn established(object: &Value) -> Value {
    let admitted = admission::admit_create(decode(object).expect("decoded"))
        .expect("admitted")
        .object;
    admission::reconcile_status(&admitted, &[], NOW)
        .expect("status")
        .expect("changed")
}

fn define(case: &Value) -> Result<(Value, Vec<String>), Status> {
    let new = decode(&case["new"])?;

    let admitted = match case.get("old") {
        None => admission::admit_create(new)?,
        Some(old) => {
            let mut old = established(old);

            old["metadata"]["resourceVersion"] = json!("1");

            let mut new = new;
            new["metadata"]["resourceVersion"] = json!("1");
            admission::admit_update(new, &old)?
        }
    };

    let mut object = admitted.object;
    for condition in object
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        condition["lastTransitionTime"] = Value::Null;
    }

    Ok((object, admitted.warnings))
}

#[test]
fn definitions_get_the_answers_of_the_real_server() {
    let mut failures = Vec::new();
    let mut cases = table(include_str!("crd/definitions.json"));
    let fields = cases.remove(0)["fields"].take();

    for case in &cases {
        let mut case = case.clone();
        fill(&mut case, &fields);

        for condition in case
            .pointer_mut("/object/status/conditions")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            condition["lastTransitionTime"] = Value::Null;
        }

        compare(
            case["name"].as_str().expect("name"),
            &case,
            define(&case),
            &mut failures,
        );
    }

    assert!(cases.iter().filter(|case| case["code"] != 200).count() >= 60);
    report(cases.len(), &failures);
}

fn admit(version: &CrdVersion, case: &Value) -> Result<(Value, Vec<String>), Status> {
    let mode = match case["validation"].as_str() {
        Some("Warn") => FieldValidation::Warn,
        Some("Ignore") => FieldValidation::Ignore,
        _ => FieldValidation::Strict,
    };

    let mut object = case["new"].clone();
    if version.is_namespaced() && object["metadata"].get("namespace").is_none() {
        object["metadata"]["namespace"] = json!("default");
    }

    let decoded = version
        .decode(object)
        .map_err(|error| cannot_be_handled(version.kind(), version.name(), &error))?;

    let mut warnings = version.check_unknown_fields(&decoded.unknown_fields, mode)?;
    let admitted = match case.get("was") {
        None => version.admit_create(decoded.object)?,
        Some(was) => {
            let mut old = was.clone();
            old["apiVersion"] = case["old"]["apiVersion"].clone();
            old["kind"] = case["old"]["kind"].clone();
            old["metadata"] = json!({"name": case["id"], "generation": 1, "resourceVersion": "1"});

            let mut new = decoded.object;
            new["metadata"]["name"] = case["id"].clone();
            new["metadata"]["resourceVersion"] =
                case.get("resourceVersion").cloned().unwrap_or(json!("1"));
            new["metadata"]["generation"] = json!(1);

            if version.is_namespaced() {
                old["metadata"]["namespace"] = json!("default");
            }

            let target = if case["status"] == true {
                Target::Status
            } else {
                Target::Object
            };
            version.admit_update(new, &old, target)?
        }
    };

    warnings.extend(admitted.warnings);
    Ok((admitted.object, warnings))
}

#[test]
fn objects_get_the_answers_of_the_real_server() {
    let mut failures = Vec::new();
    let mut total = 0;

    for group in table(include_str!("crd/objects.json")) {
        let crd = Crd::from_value(&established(&group["crd"])).expect("definition");
        let version = &crd.versions()[0];

        for case in group["cases"].as_array().expect("cases") {
            total += 1;
            let name = format!("{} {}", case["id"], case["new"]);
            compare(&name, case, admit(version, case), &mut failures);
        }
    }

    assert!(total >= 150);
    report(total, &failures);
}

#[test]
fn openapi_document_equals_that_of_the_real_server() {
    let real: Value = serde_json::from_str(include_str!("crd/openapi.json")).expect("document");
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector"});

    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true});

    let fields = json!({"replicas": {"type": "integer", "default": 1}, "port": {"x-kubernetes-int-or-string": true},
        "tpl": embedded});

    let schema = json!({"type": "object", "description": "D",
        "properties": {"spec": {"type": "object", "properties": fields}, "status": free}});

    let object = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "probes.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "probes", "kind": "Probe"}, "versions": [{"name": "v1", "served": true, "storage": true,
        "subresources": {"status": {}, "scale": scale}, "schema": {"openAPIV3Schema": schema},
        "selectableFields": [{"jsonPath": ".spec.replicas"}]}]}});

    let crd = Crd::from_value(&established(&object)).expect("definition");
    let document = crd.version("v1").expect("version").openapi_v3();

    for part in ["openapi", "info"] {
        assert_eq!(document[part], real[part]);
    }

    for (part, place) in [("paths", "/paths"), ("schemas", "/components/schemas")] {
        let entries = real.pointer(place).and_then(Value::as_object).expect(part);
        let own = document
            .pointer(place)
            .and_then(Value::as_object)
            .expect(part);
        assert_eq!(
            own.keys().collect::<Vec<_>>(),
            entries.keys().collect::<Vec<_>>()
        );

        for (name, value) in entries {
            assert_eq!(&own[name], value, "{name}");
        }
    }
}

/// A definition with a rule that costs 1.6 times what a rule may cost.
fn costly() -> Value {
    let rule = json!({"rule": "self.all(x, self.all(y, x == y))"});
    let list = json!({"type": "array", "maxItems": 200, "items": {"type": "string", "maxLength": 1000},
        "x-kubernetes-validations": [rule]});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": list}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com", "resourceVersion": "1"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
}

#[test]
fn updates_keep_costly_rules_of_unchanged_schemas() {
    let old = decode(&costly()).expect("decoded");
    let message = |refusal: Status| refusal.to_string();
    let created = admission::admit_create(old.clone())
        .map(|_| ())
        .map_err(message)
        .expect_err("costly");
    assert!(
        created.contains("estimated rule cost exceeds budget by factor of 1.6x"),
        "{created}"
    );

    let mut relabelled = old.clone();
    relabelled["metadata"]["labels"] = json!({"a": "b"});
    admission::admit_update(relabelled, &old).expect("the same schema");

    let mut changed = old.clone();
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = json!("more");
    let changed = admission::admit_update(changed, &old)
        .map(|_| ())
        .map_err(message)
        .expect_err("another schema");
    assert!(
        changed.contains("estimated rule cost exceeds budget"),
        "{changed}"
    );
}
