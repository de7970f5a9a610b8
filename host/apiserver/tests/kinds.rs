//! Replays requests that scripts/kinds-record.py sent to a real API server, and compares the responses.

use std::collections::HashMap;

use operetta_apiserver::kinds::{
    DecodedObject, FieldValidation, Instant, KindError, Resource, ServiceAllocator, allocate, convert, decode_body,
    decode_value, deprecation_warning, object_warnings, prepare_create, prepare_update, resource_of_plural,
    strategic_merge_patch, table_columns, table_row, write,
};
use serde_json::{Value, json};

const RECORDED: &[u8] = include_bytes!("kinds_requests.zst");

/// A recorded request: method, path, content type, body, code, response, warnings.
type Entry = (String, String, String, Value, u16, Value, Vec<String>);

fn entries() -> Vec<Entry> {
    let text = zstd::bulk::decompress(RECORDED, 64 << 20).expect("the recorded requests decompress");
    serde_json::from_slice(&text).expect("the recorded requests are JSON")
}

/// The parts of a path.
struct Target {
    resource: Resource,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
    query: String,
}

fn target(path: &str) -> Target {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let group = if parts.remove(0) == "api" { String::new() } else { parts.remove(0).to_owned() };
    let version = parts.remove(0);
    let namespace = (parts[0] == "namespaces" && parts.len() > 2 && parts[2] != "status")
        .then(|| parts.drain(..2).nth(1))
        .flatten();
    let resource = resource_of_plural(&group, version, parts[0]).expect("the resource is known").clone();
    Target {
        resource,
        namespace: namespace.map(str::to_owned),
        name: parts.get(1).map(ToString::to_string),
        subresource: parts.get(2).map(ToString::to_string),
        query: query.to_owned(),
    }
}

/// Hands out what the real server allocated.
struct Recorded<'a>(&'a Value);

impl ServiceAllocator for Recorded<'_> {
    fn cluster_ip(&mut self) -> Option<String> {
        self.0["spec"]["clusterIP"].as_str().map(str::to_owned)
    }

    fn node_port(&mut self) -> Option<i64> {
        self.0["spec"]["ports"][0]["nodePort"].as_i64()
    }
}

fn now() -> Instant {
    Instant { seconds: 1_700_000_000, nanos: 0 }
}

#[derive(Default)]
struct Replay {
    objects: HashMap<String, Value>,
}

impl Replay {
    /// Returns the code, the body and the warnings of a request.
    fn answer(&mut self, entry: &Entry) -> Option<(u16, Value, Vec<String>)> {
        let (method, path, content, body, _, expected, _) = entry;
        let target = target(path);
        let result = match method.as_str() {
            "POST" => self.create(&target, body, expected),
            "PUT" => self.update(&target, body, expected),
            "PATCH" => self.patch(&target, content, body),
            _ => return None,
        };
        let (version, kind) = (target.resource.api_version(), target.resource.kind.as_str());
        let deprecation = deprecation_warning(&version, kind).map(str::to_owned);
        let result = result.map(|(object, mut warnings)| {
            if target.subresource.is_none() {
                warnings.extend(object_warnings(&version, kind, &object));
            }
            warnings.splice(0..0, deprecation.clone());
            (object, warnings)
        });
        Some(match result {
            Ok((object, warnings)) => (if method == "POST" { 201 } else { 200 }, object, warnings),
            Err(error) => (error.code(), error.status(), deprecation.into_iter().collect()),
        })
    }

    fn create(&mut self, target: &Target, body: &Value, expected: &Value) -> Result<(Value, Vec<String>), KindError> {
        let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        let validation = match target.query.rsplit('=').next() {
            Some("Strict") => FieldValidation::Strict,
            Some("Ignore") => FieldValidation::Ignore,
            _ => FieldValidation::Warn,
        };
        let DecodedObject { mut object, warnings } = decode_body(&target.resource, text.as_bytes(), validation)?;
        if let Some(namespace) = &target.namespace {
            let own = object["metadata"]["namespace"].as_str().unwrap_or_default();
            if !own.is_empty() && own != namespace {
                let message = "the namespace of the provided object does not match the namespace sent on the request";
                return Err(KindError::BadRequest(message.to_owned()));
            }
            object["metadata"]["namespace"] = namespace.as_str().into();
        }
        object["metadata"]["uid"] = uid_of(expected).unwrap_or_else(|| "uid".into());
        object["metadata"]["creationTimestamp"] = now().to_seconds().into();
        if object["metadata"].get("generateName").is_some() && object["metadata"].get("name").is_none() {
            object["metadata"]["name"] = expected["metadata"]["name"].clone();
        }
        let version = target.resource.api_version();
        if target.resource.kind == "Service" {
            allocate(&mut object, &mut Recorded(expected));
        }
        let object = prepare_create(&version, &target.resource.kind, object, now())?;
        Ok((object, warnings))
    }

    fn update(&mut self, target: &Target, body: &Value, expected: &Value) -> Result<(Value, Vec<String>), KindError> {
        let version = target.resource.api_version();
        let decoded = decode_value(&version, &target.resource.kind, body, FieldValidation::Warn)?;
        let old = self.objects.get(&key(target, target.name.as_deref())).cloned().unwrap_or_default();
        let kinds = (version.as_str(), target.resource.kind.as_str());
        let mut new = decoded.object;
        if target.resource.kind == "Service" && target.subresource.is_none() {
            let kept = prepare_update(kinds, None, &old, new.clone(), now())?;
            new = kept;
            allocate(&mut new, &mut Recorded(expected));
        }
        let object = prepare_update(kinds, target.subresource.as_deref(), &old, new, now())?;
        Ok((object, decoded.warnings))
    }

    fn patch(&mut self, target: &Target, content: &str, body: &Value) -> Result<(Value, Vec<String>), KindError> {
        let version = target.resource.api_version();
        let kind = target.resource.kind.as_str();
        let old = self.objects.get(&key(target, target.name.as_deref())).cloned().unwrap_or_default();
        let patched = if content.contains("strategic") {
            strategic_merge_patch(&version, kind, &old, body)?
        } else {
            merge_patch(old.clone(), body)
        };
        let decoded = decode_value(&version, kind, &patched, FieldValidation::Ignore)?;
        let object = prepare_update((version.as_str(), kind), None, &old, decoded.object, now())?;
        Ok((object, Vec::new()))
    }

    fn keep(&mut self, entry: &Entry) {
        if matches!(entry.0.as_str(), "POST" | "PUT" | "PATCH") && entry.4 < 300 {
            let target = target(&entry.1);
            let key = key(&target, entry.5["metadata"]["name"].as_str());
            self.objects.insert(key, entry.5.clone());
        }
    }
}

/// Applies a JSON merge patch (RFC 7386).
fn merge_patch(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut map = target.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        if value.is_null() {
            map.remove(key);
        } else {
            let merged = merge_patch(map.remove(key).unwrap_or_default(), value);
            map.insert(key.clone(), merged);
        }
    }
    Value::Object(map)
}

fn uid_of(expected: &Value) -> Option<Value> {
    let own = expected["metadata"].get("uid").cloned();
    // A message that rejects a Job contains the uid that it would have had.
    let in_message = || {
        let message = expected["message"].as_str()?;
        let (_, rest) = message.split_once("controller-uid\":\"")?;
        rest.get(..36).map(Value::from)
    };
    own.or_else(in_message)
}

fn key(target: &Target, name: Option<&str>) -> String {
    format!("{} {} {}", target.resource.plural, target.resource.group, name.unwrap_or_default())
}

/// Removes what differs between any two runs, and what admission adds to Pods.
fn normalized(mut object: Value, expected: &Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for key in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
            metadata.remove(key);
        }
    }
    if let Some(finalizers) = object.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
        // Admission adds them.
        finalizers.retain(|finalizer| {
            finalizer != "kubernetes.io/pv-protection" && finalizer != "kubernetes.io/pvc-protection"
        });
        if finalizers.is_empty() {
            object["metadata"].as_object_mut().map(|metadata| metadata.remove("finalizers"));
        }
    }
    if object["status"].get("lastPhaseTransitionTime").is_some() {
        object["status"]["lastPhaseTransitionTime"] = json!("time");
    }
    if object["kind"] == "Pod"
        && expected["kind"] == "Pod"
        && let Some(spec) = object["spec"].as_object_mut()
    {
        for key in ["tolerations", "priority", "preemptionPolicy"] {
            spec.remove(key);
        }
    }
    object
}

/// Returns a text with both values, if they differ.
fn difference(entry: &Entry, answer: (u16, Value, Vec<String>)) -> Option<String> {
    let (method, path, _, body, code, expected_value, warnings) = entry;
    let (own_code, own, own_warnings) = answer;
    let (expected, own) = (normalized(expected_value.clone(), expected_value), normalized(own, expected_value));
    let own_warnings: Vec<String> = own_warnings.iter().map(|text| format!("299 - {}", json!(text))).collect();
    let mut printed = (Vec::new(), Vec::new());
    write(&expected, &mut printed.0);
    write(&own, &mut printed.1);
    // The real server appends the difference of its internal types to some messages; this crate has none of them.
    let internal = |value: &Value| {
        value["message"]
            .as_str()
            .is_some_and(|text| text.contains("\n@@") || text.contains("spec.template: Invalid value"))
    };
    if code == &own_code && internal(expected_value) {
        let reason = |value: &Value| {
            let text = value["message"].as_str().unwrap_or_default();
            text.split("\n@@").next().and_then(|text| text.split(": {").next()).unwrap_or_default().to_owned()
        };
        return (reason(expected_value) != reason(&own))
            .then(|| format!("{method} {path}\n  body {body}\n  real {expected_value}\n  own  {own}"));
    }
    if own_code == *code && printed.0 == printed.1 && own_warnings == *warnings {
        return None;
    }
    let shown = |value: &Value| value["message"].as_str().map_or_else(|| value.to_string(), str::to_owned);
    Some(format!(
        "{method} {path}\n  body {body}\n  real {code} {} {warnings:?}\n  own  {own_code} {} {own_warnings:?}",
        shown(&expected),
        shown(&own)
    ))
}

#[test]
fn recorded_requests_get_the_real_responses() {
    let mut replay = Replay::default();
    let mut count = 0;
    let mut differences = Vec::new();
    for (index, entry) in entries().iter().enumerate() {
        if let Some(answer) = replay.answer(entry) {
            count += 1;
            differences.extend(difference(entry, answer).map(|text| format!("{index} {text}")));
        }
        replay.keep(entry);
    }
    println!("{count} requests, {} different", differences.len());
    assert!(count >= 800, "{count}");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Compares the tables of lists: the columns, and each row's cells but those of times.
#[test]
fn recorded_tables_have_the_real_columns_and_cells() {
    const TIMES: [&str; 5] = ["Age", "Last Seen", "First Seen", "Last Schedule", "Duration"];
    let mut rows = 0;
    let mut differences = Vec::new();
    for (method, path, _, _, code, expected, _) in entries() {
        if method != "GET" || code != 200 || expected["kind"] != "Table" {
            continue;
        }
        let target = target(&path);
        let columns = table_columns(&target.resource);
        assert_eq!(columns, expected["columnDefinitions"], "{path}");
        let names: Vec<&str> =
            columns.as_array().into_iter().flatten().filter_map(|column| column["name"].as_str()).collect();
        let version = target.resource.api_version();
        for row in expected["rows"].as_array().into_iter().flatten() {
            rows += 1;
            let object = &row["object"];
            let own = table_row(&version, &target.resource.kind, object, now());
            assert_eq!(own.cells.len(), names.len(), "{path}");
            let conditions = row.get("conditions").cloned().unwrap_or(json!([]));
            if json!(own.conditions) != conditions {
                differences.push(format!("{path}: {:?} instead of {conditions}", own.conditions));
            }
            for ((name, real), own) in names.iter().zip(row["cells"].as_array().into_iter().flatten()).zip(&own.cells) {
                if !TIMES.contains(name) && real != own {
                    differences.push(format!("{path} {}: {name} is {real}, own {own}", object["metadata"]["name"]));
                }
            }
        }
    }
    println!("{rows} rows");
    assert!(rows > 300, "{rows}");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn recorded_events_convert_between_their_versions() {
    let events: Vec<Value> = entries()
        .into_iter()
        .filter(|entry| entry.0 == "GET" && entry.5["kind"] == "Event")
        .map(|entry| entry.5)
        .collect();
    let (pairs, rest) = events.as_chunks::<2>();
    assert!(pairs.len() > 3 && rest.is_empty());
    for [old, new] in pairs {
        assert_eq!(convert(old, "events.k8s.io/v1").as_ref(), Ok(new));
        assert_eq!(convert(new, "v1").as_ref(), Ok(old));
        assert!(convert(old, "autoscaling/v1").is_err_and(|error| error.code() == 501));
    }
}

/// A small generator of pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).unwrap_or(0)
    }

    /// Replaces a random part of a value.
    fn mutate(&mut self, value: &mut Value) {
        let stop = self.below(4) == 0;
        match value {
            Value::Object(map) if !stop && !map.is_empty() => {
                let index = self.below(map.len());
                if let Some(item) = map.values_mut().nth(index) {
                    self.mutate(item);
                }
            }
            Value::Array(items) if !stop && !items.is_empty() => {
                let index = self.below(items.len());
                self.mutate(&mut items[index]);
            }
            _ => {
                let others = json!([
                    null, -1, 0, 1.5, i64::MAX, i64::MIN, u64::MAX, 1e300, true, "", "x", "-",
                    "é\u{0}", "9".repeat(80),
                    "9223372036854775807%", "1e99999", [], [null], [[]], {}, { "": null }, { "a": { "b": [] } },
                ]);
                let others = others.as_array().cloned().unwrap_or_default();
                let index = self.below(others.len());
                *value = others[index].clone();
            }
        }
    }
}

/// Sends changed bodies through all functions. The seed is part of the failure's output by the index of the entry.
#[test]
fn mutated_requests_do_not_panic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut accepted = 0;
    let mut rejected = 0;
    for (method, path, _, body, ..) in entries() {
        let target = target(&path);
        let (version, kind) = (target.resource.api_version(), target.resource.kind.as_str());
        if method != "POST" || !body.is_object() {
            continue;
        }
        for _ in 0..20 {
            let mut mutated = body.clone();
            random.mutate(&mut mutated);
            let Ok(decoded) = decode_value(&version, kind, &mutated, FieldValidation::Warn) else {
                rejected += 1;
                continue;
            };
            let mut object = decoded.object.clone();
            allocate(&mut object, &mut Recorded(&Value::Null));
            let updated = prepare_update((version.as_str(), kind), None, &decoded.object, object.clone(), now());
            let status = prepare_update((version.as_str(), kind), Some("status"), &object, object.clone(), now());
            let created = prepare_create(&version, kind, object, now());
            for object in [updated, status, created].into_iter().flatten() {
                accepted += 1;
                let mut text = Vec::new();
                write(&object, &mut text);
                assert_eq!(serde_json::from_slice::<Value>(&text).ok(), Some(object.clone()), "{mutated}");
                assert!(!table_row(&version, kind, &object, now()).cells.is_empty());
                let patched = strategic_merge_patch(&version, kind, &object, &mutated);
                assert!(patched.is_err() || patched.is_ok_and(|patched| patched.is_object()));
            }
        }
    }
    assert!(accepted > 1000 && rejected > 1000, "{accepted} accepted, {rejected} rejected");
}

#[test]
fn random_bytes_are_rejected_without_panic() {
    let mut random = Random(7);
    let resource = resource_of_plural("", "v1", "pods").expect("Pods are known");
    let body = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"\u00e9"}]}}"#;
    for _ in 0..5000 {
        let mut text = body.to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(text.len());
            if text.is_empty() {
                break;
            }
            match random.below(3) {
                0 => text[at] = u8::try_from(random.below(256)).unwrap_or(0),
                1 => drop(text.remove(at)),
                _ => text.truncate(at.max(1)),
            }
        }
        // Whatever the outcome is, it is the same for the same bytes.
        let first = decode_body(resource, &text, FieldValidation::Strict);
        assert_eq!(first, decode_body(resource, &text, FieldValidation::Strict));
    }
    assert!(decode_body(resource, &b"[".repeat(100_000), FieldValidation::Warn).is_err());
}
