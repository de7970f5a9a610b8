//! The kinds of the tests: small ConfigMaps, Secrets and Namespaces, and two custom resources.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use operetta_apiserver::{
    http::{
        ApiServer, Column, Decoded, Environment, FieldError, Names, Part, Resource, Resources, Scale, Strategy,
        Subresources, columns, decode_object, names,
    },
    store::{Draft, GroupResource, ObjectKey, Store, Window},
};
use serde_json::{Value, json};

/// Creates a server with the kinds of the tests.
pub fn server() -> ApiServer {
    server_at("2026-01-01T00:00:00Z".parse().expect("a time"))
}

/// Creates a server at a time, which stands still.
pub fn server_at(now: Timestamp) -> ApiServer {
    let environment = Environment::fixed(now, 42);
    let server = ApiServer::builder(Store::new(Window::default()), environment).build();
    register(server.resources());
    advance(server.store());
    server
}

/// Advances the revision to one of three digits, as that of a real server is.
fn advance(store: &Store) {
    let resource = GroupResource::new("", "others");
    let key = ObjectKey::cluster("x");
    for _ in 0..60 {
        let draft = Draft::from_object(&json!({"metadata": {"name": "x"}})).expect("a draft");
        let created = store.create(&resource, &key, draft).expect("created");
        store.delete(&resource, &key, created.revision()).expect("deleted");
    }
}

/// Registers the kinds of the tests.
pub fn register(resources: &Resources) {
    let with_short_name = |resource: Resource, name: &str| Resource {
        names: Names { short_names: vec![name.to_owned()], ..resource.names.clone() },
        ..resource
    };
    resources.register(Resource {
        strategy: Arc::new(ConfigMaps),
        ..with_short_name(Resource::built_in("", "v1", "ConfigMap", "configmaps"), "cm")
    });
    resources.register(Resource { strategy: Arc::new(Secrets), ..Resource::built_in("", "v1", "Secret", "secrets") });
    let namespaces = with_short_name(Resource::built_in("", "v1", "Namespace", "namespaces"), "ns");
    let verbs = namespaces.verbs.iter().copied().filter(|verb| *verb != "deletecollection").collect();
    resources.register(Resource {
        namespaced: false,
        verbs,
        subresources: Subresources { status: true, ..Subresources::default() },
        strategy: Arc::new(Namespaces),
        ..namespaces
    });
    resources.register(Resource { namespaced: false, ..Resource::built_in("", "v1", "Node", "nodes") });
    let scale = Scale {
        spec_replicas: ".spec.replicas".into(),
        status_replicas: ".status.replicas".into(),
        label_selector: Some(".status.selector".into()),
    };
    let widgets = with_short_name(custom("Widget", "widgets"), "wd");
    resources.register(Resource {
        names: Names { categories: vec!["all".into()], ..widgets.names.clone() },
        subresources: Subresources { status: true, scale: Some(scale), ..Subresources::default() },
        ..widgets
    });
    resources.register(Resource { namespaced: false, ..custom("Gadget", "gadgets") });
}

fn custom(kind: &str, plural: &str) -> Resource {
    Resource { strategy: Arc::new(Custom), ..Resource::custom("example.com", "v1", kind, plural) }
}

/// Reads an object and removes unknown members.
fn decode_known(kind: &str, text: &[u8], known: &[&str]) -> Result<Decoded, String> {
    let mut decoded = decode_object(kind, text)?;
    if let Some(members) = decoded.object.as_object_mut() {
        let names: Vec<String> = members.keys().cloned().collect();
        for name in names.iter().filter(|name| !known.contains(&name.as_str())) {
            decoded.problems.push(format!("unknown field \"{name}\""));
            members.remove(name);
        }
    }
    Ok(decoded)
}

/// Custom resources with `spec` and `status`. Duplicate fields come before unknown ones.
struct Custom;

impl Strategy for Custom {
    fn decode(&self, resource: &Resource, text: &[u8]) -> Result<Decoded, String> {
        let mut decoded =
            decode_known(&resource.names.kind, text, &["apiVersion", "kind", "metadata", "spec", "status"])?;
        decoded.problems.sort_by_key(|problem| problem.starts_with("unknown"));
        Ok(decoded)
    }
}

struct ConfigMaps;

impl Strategy for ConfigMaps {
    fn decode(&self, resource: &Resource, text: &[u8]) -> Result<Decoded, String> {
        let known = ["apiVersion", "kind", "metadata", "data", "binaryData", "immutable"];
        let decoded = decode_known(&resource.names.kind, text, &known)?;
        let data = decoded.object["data"].as_object();
        if data.is_some_and(|data| data.values().any(Value::is_number)) {
            return Err("json: cannot unmarshal number into Go struct field ConfigMap.data of type string".into());
        }
        Ok(without_empty(decoded, "data"))
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let keys = object["data"].as_object().into_iter().flat_map(|data| data.keys());
        let is_valid = |key: &&String| key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        keys.filter(|key| !is_valid(key))
            .map(|key| {
                let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
                    'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
                FieldError::invalid(format!("data[{key}]"), key.as_str(), detail)
            })
            .collect()
    }

    fn columns(&self) -> Vec<Column> {
        vec![columns::name_column(), text_column("Data"), columns::age_column("string")]
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let count = object["data"].as_object().map_or(0, serde_json::Map::len);
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        vec![json!(name), json!(count), json!(columns::age(object, now))]
    }
}

fn without_empty(mut decoded: Decoded, member: &str) -> Decoded {
    if decoded.object[member].as_object().is_none_or(serde_json::Map::is_empty)
        && let Some(members) = decoded.object.as_object_mut()
    {
        members.remove(member);
    }
    decoded
}

fn text_column(name: &str) -> Column {
    Column { name: name.into(), kind: "string".into(), ..Column::default() }
}

struct Secrets;

impl Strategy for Secrets {
    fn default(&self, object: &mut Value) {
        if object["type"].is_null() {
            object["type"] = "Opaque".into();
        }
        let plain = object["stringData"].take();
        if let Some(members) = object.as_object_mut() {
            members.remove("stringData");
        }
        for (key, value) in plain.as_object().into_iter().flatten() {
            object["data"][key] = STANDARD.encode(value.as_str().unwrap_or_default()).into();
        }
    }

    fn validate_update(&self, old: &Value, object: &Value, _part: Part) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if old["type"] != object["type"] {
            errors.push(FieldError::immutable("type", object["type"].clone()));
        }
        if old["immutable"] == true && old["data"] != object["data"] {
            errors.push(FieldError::forbidden("data", "field is immutable when `immutable` is set"));
        }
        errors
    }

    fn fields(&self, object: &Value) -> BTreeMap<String, String> {
        BTreeMap::from([("type".into(), object["type"].as_str().unwrap_or_default().into())])
    }

    fn field_names(&self) -> Vec<&str> {
        vec!["type"]
    }

    fn columns(&self) -> Vec<Column> {
        let columns = ["Type", "Data"].map(text_column);
        let [kind, data] = columns;
        vec![columns::name_column(), kind, data, columns::age_column("string")]
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let count = object["data"].as_object().map_or(0, serde_json::Map::len);
        let name = object["metadata"]["name"].clone();
        vec![name, object["type"].clone(), json!(count), json!(columns::age(object, now))]
    }
}

struct Namespaces;

impl Strategy for Namespaces {
    fn prepare_for_create(&self, object: &mut Value) {
        let mut finalizers = object["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
        if !finalizers.contains(&json!("kubernetes")) {
            finalizers.push(json!("kubernetes"));
        }
        object["spec"] = json!({"finalizers": finalizers});
        object["status"] = json!({"phase": "Active"});
        self.default(object);
    }

    fn default(&self, object: &mut Value) {
        let name = object["metadata"]["name"].clone();
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
        if object["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
            object["spec"] = json!({});
        }
    }

    fn validate_name(&self, name: &str, is_prefix: bool) -> Vec<String> {
        names::label_errors(name, is_prefix)
    }

    fn fields(&self, object: &Value) -> BTreeMap<String, String> {
        BTreeMap::from([("status.phase".into(), object["status"]["phase"].as_str().unwrap_or_default().into())])
    }

    fn field_names(&self) -> Vec<&str> {
        vec!["status.phase"]
    }

    fn columns(&self) -> Vec<Column> {
        vec![columns::name_column(), text_column("Status"), columns::age_column("string")]
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = object["metadata"]["name"].clone();
        vec![name, object["status"]["phase"].clone(), json!(columns::age(object, now))]
    }
}
