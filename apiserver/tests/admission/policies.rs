//! Policies deny requests, warn about them or let them pass.

use operetta_apiserver::{
    admission::{
        params::{Kinds, ParamResource},
        policies::{Cluster, Policies},
        request::{AdmissionRequest, Endpoint, Operation},
        validation,
    },
    authz::rbac::Rbac,
};
use serde_json::{Value, json};

use crate::{
    status,
    store::{self, Store},
    table,
};

/// The kinds of the recorded cluster, as far as policies name them.
pub struct RecordedKinds;

impl Kinds for RecordedKinds {
    fn resource_of(&self, api_version: &str, kind: &str) -> Option<ParamResource> {
        let (group, resource) = match (api_version, kind) {
            ("v1", "ConfigMap") => ("", "configmaps"),
            ("coordination.k8s.io/v1", "Lease") => ("coordination.k8s.io", "leases"),
            _ => return None,
        };

        Some(ParamResource {
            group: group.to_owned(),
            resource: resource.to_owned(),
            is_namespaced: true,
        })
    }
}

/// The recorded objects, with defaulted policies.
pub fn world() -> Store {
    let mut objects = table(include_str!("policy_world.json"));
    objects.push(
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}),
    );

    for object in &mut objects {
        match object["kind"].as_str() {
            Some("ValidatingAdmissionPolicy") => {
                validation::default_policy(object);
                validation::validate_policy(object).expect("a valid policy");
            }
            Some("ValidatingAdmissionPolicyBinding") => {
                validation::default_binding(object);
                validation::validate_binding(object).expect("a valid binding");
            }
            // The server labels a Namespace with its name, and says that it is active.
            Some("Namespace") => {
                let name = object["metadata"]["name"].clone();
                object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
                object["status"]["phase"] = "Active".into();
            }
            _ => {}
        }
    }

    Store::with_roles(&objects)
}

#[test]
fn requests_are_denied_and_warned_about_as_by_kubernetes() {
    let store = world();
    let rbac = Rbac::new(&store);
    let policies = Policies::load(&store);
    let cluster = Cluster {
        objects: &store,
        authorizer: &rbac,
        kinds: &RecordedKinds,
    };

    let lines = table(include_str!("policies.json"));
    assert!(lines.len() >= 180);
    let mut failed = Vec::new();
    for line in lines {
        let object = stored(&line);
        let user = user(&line);
        let api_version = object["apiVersion"].as_str().expect("an apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = object["kind"].as_str().expect("a kind");
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();

        let endpoint = Endpoint {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: format!("{}s", kind.to_lowercase()),
            kind: kind.to_owned(),
        };

        let (operation, options) = match line["method"].as_str() {
            Some("POST") => (Operation::Create, "CreateOptions"),
            Some("PUT") => (Operation::Update, "UpdateOptions"),
            _ => (Operation::Delete, "DeleteOptions"),
        };

        let request = AdmissionRequest {
            operation,
            endpoint: &endpoint,
            equivalents: &[],
            subresource: line["subresource"].as_str().unwrap_or_default(),
            namespace: if kind == "Namespace" {
                text("name")
            } else {
                text("namespace")
            },
            name: text("name"),
            user: &user,
            object: (operation != Operation::Delete).then_some(&object),
            old: Some(&line["old"]).filter(|old| !old.is_null()),
            options: &json!({"kind": options, "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]}),
        };

        let outcome = policies.admit(&request, cluster).expect("a namespace");
        let denied = outcome.denial.map(|denial| denial.to_value());
        let expected = Some(&line["denied"])
            .filter(|denied| is_by_policy(denied))
            .map(status);

        let warnings: Vec<&str> = line["warnings"]
            .as_array()
            .expect("warnings")
            .iter()
            .filter_map(Value::as_str)
            .collect();

        if denied != expected || outcome.warnings != warnings {
            failed.push(format!(
                "{line}\n  denied   {denied:?}\n  warnings {:#?}\n",
                outcome.warnings
            ));
        }
    }
    assert!(
        failed.is_empty(),
        "{} differ:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

fn is_by_policy(denied: &Value) -> bool {
    denied["message"]
        .as_str()
        .is_some_and(|message| message.contains("ValidatingAdmissionPolicy"))
}

/// The object of a line, as the server completes it before validating admission.
fn stored(line: &Value) -> Value {
    // For a deletion, the stored object stands in.
    let mut object = if line["object"].is_null() {
        line["old"].clone()
    } else {
        line["object"].clone()
    };

    match object["kind"].as_str() {
        Some("Namespace") => {
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] =
                object["metadata"]["name"].clone();
        }
        // The rules of a role are encoded even if there are none.
        Some("ClusterRole" | "Role") if object["rules"].is_null() => object["rules"] = Value::Null,
        _ => {}
    }

    if object["metadata"]["generateName"].is_string() {
        object["metadata"]["name"] = line["denied"]["details"]["name"].clone();
    }

    object
}

fn user(line: &Value) -> operetta_apiserver::authn::user::User {
    if line["user"].is_null() {
        return store::user(&json!({"user": "admin", "groups": ["system:masters"]}));
    }

    let mut user = store::user(line);
    for pair in line["extra"].as_array().into_iter().flatten() {
        let key = pair[0].as_str().expect("a key").replace("%2F", "/");
        user.extra
            .entry(key)
            .or_default()
            .push(pair[1].as_str().expect("a value").to_owned());
    }

    user
}
