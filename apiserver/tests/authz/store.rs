//! Objects in memory.

use std::{collections::BTreeMap, sync::Arc};

use operetta_apiserver::{
    authn::user::User,
    authz::{bootstrap, objects::Objects},
};
use serde_json::Value;

/// Objects by group and resource, namespace and name.
#[derive(Default)]
pub struct Store(BTreeMap<(String, String, String), Arc<Value>>);

impl Store {
    /// Creates a store with the bootstrap roles and these objects.
    #[allow(dead_code, reason = "not every test needs the roles")]
    pub fn with_roles(objects: &[Value]) -> Self {
        let mut store = Self::default();

        for object in bootstrap::objects()
            .expect("embedded data")
            .iter()
            .chain(objects)
        {
            store.put(object.clone());
        }

        store
    }

    /// Adds or replaces an object.
    pub fn put(&mut self, object: Value) {
        let api_version = object["apiVersion"].as_str().expect("an apiVersion");
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let resource = plural(object["kind"].as_str().expect("a kind"));

        let field = |name: &str| {
            object["metadata"][name]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };

        self.0.insert(
            (
                format!("{group}/{resource}"),
                field("namespace"),
                field("name"),
            ),
            Arc::new(object),
        );
    }
}

fn plural(kind: &str) -> String {
    match kind {
        "ValidatingAdmissionPolicy" => "validatingadmissionpolicies".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    }
}

impl Objects for Store {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.0
            .get(&(
                format!("{group}/{resource}"),
                namespace.to_owned(),
                name.to_owned(),
            ))
            .cloned()
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Value>> {
        let kind = format!("{group}/{resource}");
        let matching = self.0.iter().filter(|((of_kind, of_namespace, _), _)| {
            *of_kind == kind && (namespace.is_empty() || of_namespace == namespace)
        });
        matching.map(|(_, object)| object.clone()).collect()
    }
}

/// The user of a table's line, as an administrator's unconstrained or `user-info` impersonation
/// makes it.
#[allow(dead_code, reason = "not every test has users in its lines")]
pub fn user(line: &Value) -> User {
    let Some(name) = line["user"].as_str() else {
        return User::anonymous();
    };

    let groups: Vec<&str> = line["groups"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut user = User::new(name, &groups);

    if name == "system:anonymous" {
        user.ensure_group("system:unauthenticated");
    } else if name.starts_with("system:serviceaccount:") && groups.is_empty() {
        let namespace = name.split(':').nth(2).unwrap_or_default();
        user.groups = vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ];
        user.ensure_group("system:authenticated");
    } else if !user.is_in("system:unauthenticated") {
        user.ensure_group("system:authenticated");
    }

    user
}
