//! The OpenAPI v3 documents that the real server publishes, and the schemas in them.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::{Map, Value, json};

use super::data::{self, DOCUMENTS};

/// All schemas by name, without descriptions.
static SCHEMAS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let mut parsed = serde_json::from_slice(&data::schemas()).unwrap_or_default();
    strip(&mut parsed);
    match parsed {
        Value::Object(map) => map,
        _ => Map::new(),
    }
});

/// The names of schemas by `APIVERSION KIND`.
static BY_KIND: LazyLock<HashMap<String, &'static str>> = LazyLock::new(|| {
    let mut names = HashMap::new();
    for (name, schema) in SCHEMAS.iter() {
        for kind in schema["x-kubernetes-group-version-kind"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let text = |key: &str| kind[key].as_str().unwrap_or_default();
            let slash = if text("group").is_empty() { "" } else { "/" };
            let key = format!(
                "{}{slash}{} {}",
                text("group"),
                text("version"),
                text("kind")
            );
            names.insert(key, name.as_str());
        }
    }
    names
});

/// Removes descriptions. A property that is called so is an object, not a text.
fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if map.get("description").is_some_and(Value::is_string) {
                map.remove("description");
            }
            map.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Returns all schemas by name, without descriptions.
pub fn schemas() -> &'static Map<String, Value> {
    &SCHEMAS
}

/// Returns the schema of a kind, without descriptions. References are resolved by
/// [`schema_of_reference`].
pub fn schema_of_kind(api_version: &str, kind: &str) -> Option<&'static Value> {
    BY_KIND
        .get(&format!("{api_version} {kind}"))
        .and_then(|name| SCHEMAS.get(*name))
}

/// Returns the schema that a `$ref` as in `#/components/schemas/NAME` names, without descriptions.
pub fn schema_of_reference(reference: &str) -> Option<&'static Value> {
    SCHEMAS.get(
        reference
            .strip_prefix("#/components/schemas/")
            .unwrap_or(reference),
    )
}

/// Returns the document at `/openapi/v3`: the paths of the documents with the hashes of their
/// contents.
pub fn openapi_v3_index() -> Value {
    let entry = |url: &str| json!({ "serverRelativeURL": url });
    let paths: Map<String, Value> = DOCUMENTS
        .iter()
        .map(|document| (document.name.clone(), entry(&document.url)))
        .collect();
    json!({ "paths": paths })
}

/// Returns the JSON of a document by its name in the index, as in `apis/apps/v1`.
pub fn openapi_v3(name: &str) -> Option<Vec<u8>> {
    DOCUMENTS
        .iter()
        .find(|document| document.name == name)
        .map(|document| document.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_decompresses() {
        let index = openapi_v3_index();
        let paths = index["paths"].as_object().cloned().unwrap_or_default();
        assert!(paths.len() > 30);
        for name in paths.keys() {
            let text = openapi_v3(name).unwrap_or_default();
            assert!(
                serde_json::from_slice::<Value>(&text).is_ok_and(|value| value.is_object()),
                "{name}"
            );
        }
    }

    #[test]
    fn schema_of_kind_resolves_references() {
        let deployment = schema_of_kind("apps/v1", "Deployment")
            .cloned()
            .unwrap_or_default();
        let reference = deployment["properties"]["spec"]["allOf"][0]["$ref"]
            .as_str()
            .unwrap_or_default();
        let spec = schema_of_reference(reference).cloned().unwrap_or_default();
        assert_eq!(spec["properties"]["replicas"]["format"], "int32");
        assert_eq!(spec["description"], Value::Null);
    }

    #[test]
    fn document_keeps_descriptions() {
        let text = openapi_v3("apis/apps/v1").unwrap_or_default();
        assert!(String::from_utf8_lossy(&text).contains("Deployment enables declarative updates"));
        assert!(openapi_v3("apis/apps/v9").is_none());
    }
}
