//! Tables, conversions and odd bodies of built-in kinds, from requests that scripts/kinds-record.py
//! sent to a real API server. The program `differential` replays the requests themselves.

use operetta_apiserver::{
    apimachinery::options::FieldValidation,
    builtin::{
        Instant, Resource, ServiceAllocator, allocate, convert, decode_body, decode_value,
        prepare_create, prepare_update, resource_of_plural, strategic_merge_patch, table_columns,
        table_row, write,
    },
};
use serde_json::{Value, json};

const RECORDED: &[u8] = include_bytes!("kinds_requests.zst");

/// A recorded request: method, path, content type, body, code, response, warnings.
type Entry = (String, String, String, Value, u16, Value, Vec<String>);

fn entries() -> Vec<Entry> {
    let text =
        zstd::bulk::decompress(RECORDED, 64 << 20).expect("the recorded requests decompress");
    serde_json::from_slice(&text).expect("the recorded requests are JSON")
}

/// The resource in a path.
fn resource(path: &str) -> &'static Resource {
    let path = path.split('?').next().unwrap_or_default();
    let mut parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let group = if parts.remove(0) == "api" {
        ""
    } else {
        parts.remove(0)
    };

    let version = parts.remove(0);
    if parts[0] == "namespaces" && parts.len() > 2 && parts[2] != "status" {
        parts.drain(..2);
    }

    resource_of_plural(group, version, parts[0]).expect("the resource is known")
}

/// Has neither addresses nor ports.
struct Exhausted;

impl ServiceAllocator for Exhausted {
    fn cluster_ip(&mut self) -> Option<String> {
        None
    }

    fn node_port(&mut self) -> Option<i64> {
        None
    }
}

fn now() -> Instant {
    Instant {
        seconds: 1_700_000_000,
        nanos: 0,
    }
}

/// Compares the tables of lists: the columns, and the cells of each row except times.
#[test]
fn recorded_tables_have_the_real_columns_and_cells() {
    const TIMES: [&str; 5] = [
        "Age",
        "Last Seen",
        "First Seen",
        "Last Schedule",
        "Duration",
    ];
    let mut rows = 0;
    let mut differences = Vec::new();

    for (method, path, _, _, code, expected, _) in entries() {
        if method != "GET" || code != 200 || expected["kind"] != "Table" {
            continue;
        }

        let resource = resource(&path);
        let columns = table_columns(resource);
        assert_eq!(columns, expected["columnDefinitions"], "{path}");

        let names: Vec<&str> = columns
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|column| column["name"].as_str())
            .collect();

        let version = resource.api_version();
        for row in expected["rows"].as_array().into_iter().flatten() {
            rows += 1;

            let object = &row["object"];
            let own = table_row(&version, &resource.kind, object, now());
            assert_eq!(own.cells.len(), names.len(), "{path}");

            let conditions = row.get("conditions").cloned().unwrap_or(json!([]));
            if json!(own.conditions) != conditions {
                differences.push(format!(
                    "{path}: {:?} instead of {conditions}",
                    own.conditions
                ));
            }

            for ((name, real), own) in names
                .iter()
                .zip(row["cells"].as_array().into_iter().flatten())
                .zip(&own.cells)
            {
                if !TIMES.contains(name) && real != own {
                    differences.push(format!(
                        "{path} {}: {name} is {real}, own {own}",
                        object["metadata"]["name"]
                    ));
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
        assert!(convert(old, "autoscaling/v1").is_err_and(|error| error.code == 501));
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

/// Sends mutated bodies through all functions. A failure's output has the mutated body.
#[test]
fn mutated_requests_do_not_panic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut accepted = 0;
    let mut rejected = 0;

    for (method, path, _, body, ..) in entries() {
        let resource = resource(&path);
        let (version, kind) = (resource.api_version(), resource.kind.as_str());

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

            // The server sets these before it prepares an object.
            let mut old = decoded.object;
            old["metadata"]["resourceVersion"] = "1".into();
            if resource.namespaced {
                old["metadata"]["namespace"] = "default".into();
            }

            let mut object = old.clone();
            allocate(&mut object, &mut Exhausted);
            let updated =
                prepare_update((version.as_str(), kind), None, &old, object.clone(), now());
            let status = prepare_update(
                (version.as_str(), kind),
                Some("status"),
                &object,
                object.clone(),
                now(),
            );
            let created = prepare_create(&version, kind, object, now());

            for object in [updated, status, created].into_iter().flatten() {
                accepted += 1;

                let mut text = Vec::new();
                write(&object, &mut text);
                assert_eq!(
                    serde_json::from_slice::<Value>(&text).ok(),
                    Some(object.clone()),
                    "{mutated}"
                );

                assert!(!table_row(&version, kind, &object, now()).cells.is_empty());
                let patched = strategic_merge_patch(&version, kind, &object, &mutated);
                assert!(patched.is_err() || patched.is_ok_and(|patched| patched.is_object()));
            }
        }
    }
    assert!(
        accepted > 1000 && rejected > 1000,
        "{accepted} accepted, {rejected} rejected"
    );
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

        // Whatever the outcome, the same bytes have the same one.
        let first = decode_body(resource, &text, FieldValidation::Strict);
        assert_eq!(first, decode_body(resource, &text, FieldValidation::Strict));
    }
    assert!(decode_body(resource, &b"[".repeat(100_000), FieldValidation::Warn).is_err());
}
