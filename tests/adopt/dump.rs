//! All objects of a cluster, without what differs between any two runs.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, Client, Discovery,
    api::{ApiResource, DynamicObject, ListParams},
    discovery::verbs,
};
use serde_json::{Map, Value};

/// Kinds that say nothing of what an operator does to a cluster: messages, locks, and what
/// controllers and the API server derive from Services; an `IPAddress` is even named after what was
/// allocated. Plugins exist in one of the two runs only.
const LEFT_OUT: [&str; 8] = [
    "Event",
    "Event.events.k8s.io",
    "Lease.coordination.k8s.io",
    "Endpoints",
    "EndpointSlice.discovery.k8s.io",
    "IPAddress.networking.k8s.io",
    "PartialObjectMetadata",
    "Plugin.operetta.dev",
];

/// Fields that the API server writes for each object anew.
const METADATA: [&str; 4] = ["uid", "resourceVersion", "creationTimestamp", "selfLink"];

/// Fields whose values are allocated.
const ALLOCATED: [&str; 9] = [
    "clusterIP",
    "clusterIPs",
    "nodePort",
    "healthCheckNodePort",
    "podIP",
    "podIPs",
    "hostIP",
    "hostIPs",
    "volumeName",
];

/// The objects of a cluster, as `KIND.GROUP/NAMESPACE/NAME`; of generated names, the end is a `*`
/// with a number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dump(pub BTreeMap<String, Value>);

/// The kinds of a cluster, and the objects that exist before an operator starts, by uid.
pub struct Baseline {
    client: Client,
    kinds: Vec<ApiResource>,
    uids: HashSet<String>,
}

/// One difference between two dumps.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The object's name in the dump.
    pub object: String,
    /// The path within it; empty if one side lacks the object.
    pub path: String,
    /// None if it is missing.
    pub native: Option<Value>,
    /// None if it is missing.
    pub process: Option<Value>,
}

impl Baseline {
    /// Notes what exists.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn take(client: Client) -> Result<Self, kube::Error> {
        let discovery = Discovery::new(client.clone()).run().await?;
        let kinds = discovery
            .groups()
            .flat_map(|group| group.recommended_resources())
            .filter(|(resource, capabilities)| {
                let kind = match resource.group.as_str() {
                    "" => resource.kind.clone(),
                    group => format!("{}.{group}", resource.kind),
                };
                capabilities.supports_operation(verbs::LIST)
                    && capabilities.supports_operation(verbs::GET)
                    && !LEFT_OUT.contains(&kind.as_str())
            })
            .map(|(resource, _)| resource)
            .collect();

        let mut baseline = Self {
            client,
            kinds,
            uids: HashSet::new(),
        };
        let objects = baseline.all().await?;
        baseline.uids = objects.iter().filter_map(uid).map(str::to_owned).collect();
        Ok(baseline)
    }

    /// Lists the objects of all kinds.
    async fn all(&self) -> Result<Vec<Value>, kube::Error> {
        let mut objects = Vec::new();
        for resource in &self.kinds {
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), resource);
            for object in api.list(&ListParams::default()).await? {
                let mut object = serde_json::to_value(object).unwrap_or_default();
                object["apiVersion"] = resource.api_version.clone().into();
                object["kind"] = resource.kind.clone().into();
                objects.push(object);
            }
        }
        Ok(objects)
    }
}

impl Dump {
    /// Reads what has been created since the baseline.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn take(baseline: &Baseline) -> Result<Self, kube::Error> {
        let mut objects = baseline.all().await?;
        objects.retain(|object| uid(object).is_none_or(|uid| !baseline.uids.contains(uid)));
        Ok(Self::of(objects))
    }

    /// Removes what differs between any two runs.
    fn of(mut objects: Vec<Value>) -> Self {
        // kube-controller-manager puts its CA into every namespace.
        objects.retain(|object| {
            object["kind"] != "ConfigMap" || object["metadata"]["name"] != "kube-root-ca.crt"
        });
        let generated: HashMap<String, String> = objects
            .iter()
            .filter_map(|object| {
                let metadata = &object["metadata"];
                let prefix = metadata["generateName"].as_str()?;
                let name = metadata["name"].as_str()?;
                Some((name.to_owned(), format!("{prefix}*")))
            })
            .collect();

        let mut named: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for mut object in objects {
            normalise_metadata(&mut object);
            normalise(&mut object, "", &generated);
            named.entry(name_of(&object)).or_default().push(object);
        }

        // Objects of one generated name are compared in the order of their contents.
        let mut dump = BTreeMap::new();
        for (name, mut objects) in named {
            if objects.len() == 1 && !name.ends_with('*') {
                dump.extend(objects.pop().map(|object| (name, object)));
                continue;
            }
            objects.sort_by_cached_key(Value::to_string);
            for (index, object) in objects.into_iter().enumerate() {
                dump.insert(format!("{name}{index}"), object);
            }
        }
        Self(dump)
    }

    /// The differences, where `self` is that of the native run.
    pub fn differences(&self, process: &Self) -> Vec<Difference> {
        let names: BTreeSet<&String> = self.0.keys().chain(process.0.keys()).collect();
        let mut differences = Vec::new();
        for name in names {
            match (self.0.get(name), process.0.get(name)) {
                (Some(native), Some(process)) => {
                    compare(name, "", native, process, &mut differences);
                }
                // The whole object would be a page long.
                (native, process) => {
                    let there = |_: &Value| Value::from("exists");
                    differences.push(Difference {
                        object: name.clone(),
                        path: String::new(),
                        native: native.map(there),
                        process: process.map(there),
                    });
                }
            }
        }
        differences
    }
}

fn compare(
    object: &str,
    path: &str,
    native: &Value,
    process: &Value,
    differences: &mut Vec<Difference>,
) {
    if native == process {
        return;
    }
    let inner = |field: &str| match path {
        "" => field.to_owned(),
        _ => format!("{path}.{field}"),
    };

    match (native, process) {
        (Value::Object(one), Value::Object(other)) => {
            let fields: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for field in fields {
                let path = inner(field);
                match (one.get(field), other.get(field)) {
                    (Some(one), Some(other)) => compare(object, &path, one, other, differences),
                    (one, other) => differences.push(Difference {
                        object: object.to_owned(),
                        path,
                        native: one.cloned(),
                        process: other.cloned(),
                    }),
                }
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                compare(object, &inner(&index.to_string()), one, other, differences);
            }
        }
        _ => differences.push(Difference {
            object: object.to_owned(),
            path: path.to_owned(),
            native: Some(native.clone()),
            process: Some(process.clone()),
        }),
    }
}

fn uid(object: &Value) -> Option<&str> {
    object["metadata"]["uid"].as_str()
}

fn name_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]);
    let kind = match text(&object["apiVersion"]).split_once('/') {
        Some((group, _)) => format!("{kind}.{group}"),
        None => kind,
    };
    let name = text(&object["metadata"]["name"]);
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{kind}/{namespace}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

fn normalise_metadata(object: &mut Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
    for field in METADATA {
        metadata.remove(field);
    }

    if let Some(Value::Array(managers)) = metadata.get_mut("managedFields") {
        for manager in managers.iter_mut().filter_map(Value::as_object_mut) {
            manager.remove("time");
        }
        managers.sort_by_cached_key(Value::to_string);
    }
    for owner in metadata
        .get_mut("ownerReferences")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(owner) = owner.as_object_mut() {
            owner.remove("uid");
        }
    }
}

fn normalise(value: &mut Value, field: &str, generated: &HashMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                normalise(value, name, generated);
            }
            rename(fields, generated);
        }
        Value::Array(_) | Value::String(_) | Value::Number(_) if ALLOCATED.contains(&field) => {
            // What says that there is none stays.
            if *value != "None" && *value != "" {
                *value = "<allocated>".into();
            }
        }
        Value::Array(items) => {
            for item in items {
                normalise(item, field, generated);
            }
        }
        Value::String(text) => normalise_text(text, generated),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Fields are named after objects in maps, and in `managedFields`.
fn rename(fields: &mut Map<String, Value>, generated: &HashMap<String, String>) {
    let renamed: Vec<(String, String)> = fields
        .keys()
        .filter_map(|name| {
            let mut new = name.clone();
            normalise_text(&mut new, generated);
            (new != *name).then(|| (name.clone(), new))
        })
        .collect();
    for (old, new) in renamed {
        if let Some(value) = fields.remove(&old) {
            fields.insert(new, value);
        }
    }
}

fn normalise_text(text: &mut String, generated: &HashMap<String, String>) {
    if let Some(name) = generated.get(text.as_str()) {
        text.clone_from(name);
        return;
    }
    // The volume that admission adds to a Pod for its ServiceAccount.
    if text.starts_with("kube-api-access-") {
        "kube-api-access-*".clone_into(text);
        return;
    }
    // A bare date or number is none.
    if text.contains('T') && text.parse::<Timestamp>().is_ok() {
        "<time>".clone_into(text);
        return;
    }
    for (name, by) in generated {
        if text.contains(name.as_str()) {
            *text = text.replace(name.as_str(), by);
        }
    }
    while let Some(at) = find_uuid(text) {
        text.replace_range(at..at + 36, "<uid>");
    }
}

/// Where a text has a UUID.
fn find_uuid(text: &str) -> Option<usize> {
    let is_uuid = |bytes: &[u8]| {
        bytes.iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    text.as_bytes().windows(36).position(is_uuid)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, image: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": "a",
                "name": name,
                "generateName": "web-",
                "uid": format!("{name}-uid"),
                "resourceVersion": name,
                "creationTimestamp": "2026-11-30T11:00:00Z",
                "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": name}],
                "managedFields": [{"manager": "m", "time": name, "fieldsV1": {"f:spec": {}}}],
            },
            "spec": {
                "image": image,
                "volumes": [{"name": format!("kube-api-access-{name}")}],
            },
            "status": {
                "podIP": name,
                "startTime": "2026-11-30T11:00:00.123456Z",
                "message": format!("{name} of 0123abcd-0123-0123-0123-0123456789ab runs"),
            },
        })
    }

    #[test]
    fn generated_values_are_no_differences() {
        let one = Dump::of(vec![pod("web-x1", "one"), pod("web-x2", "two")]);
        let other = Dump::of(vec![pod("web-y1", "two"), pod("web-y2", "one")]);
        assert!(one.differences(&other).is_empty());
        assert_eq!(
            one.0.keys().collect::<Vec<_>>(),
            ["Pod/a/web-*0", "Pod/a/web-*1"]
        );
        let message = &one.0["Pod/a/web-*0"]["status"]["message"];
        assert_eq!(message, "web-* of <uid> runs");
    }

    #[test]
    fn other_values_are_differences_with_their_paths() {
        let one = Dump::of(vec![pod("web-x1", "one")]);
        let other = Dump::of(vec![pod("web-x1", "two")]);
        let difference = Difference {
            object: "Pod/a/web-*0".to_owned(),
            path: "spec.image".to_owned(),
            native: Some("one".into()),
            process: Some("two".into()),
        };
        assert_eq!(one.differences(&other), [difference]);

        let mut manager = pod("web-x1", "one");
        manager["metadata"]["managedFields"][0]["manager"] = "other".into();
        let differences = one.differences(&Dump::of(vec![manager]));
        assert_eq!(differences[0].path, "metadata.managedFields.0.manager");

        let differences = one.differences(&Dump::default());
        assert_eq!(
            (differences[0].path.as_str(), &differences[0].process),
            ("", &None)
        );
    }

    #[test]
    fn certificate_of_a_control_plane_is_left_out() {
        let config_map = |name: &str| {
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"namespace": "a", "name": name},
            })
        };
        let dump = Dump::of(vec![config_map("kube-root-ca.crt"), config_map("other")]);
        assert_eq!(dump.0.keys().collect::<Vec<_>>(), ["ConfigMap/a/other"]);
    }

    #[test]
    fn headless_services_stay_headless() {
        let service = |ip: &str| {
            Dump::of(vec![json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "a"},
                "spec": {"clusterIP": ip},
            })])
        };
        assert_eq!(
            service("10.0.0.1").differences(&service("10.0.0.2")).len(),
            0
        );
        assert_eq!(service("10.0.0.1").differences(&service("None")).len(), 1);
    }
}
