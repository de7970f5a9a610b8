//! Writes of roles and bindings must not grant more than their user has.

use operetta_apiserver::authz::{
    escalation::{self, RoleWrite},
    rbac::Rbac,
    request_info,
};
use serde_json::Value;

use crate::{
    status,
    store::{self, Store},
    table,
};

#[test]
fn role_writes_are_refused_as_by_kubernetes() {
    let store = Store::with_roles(&table(include_str!("world.json")));
    let rbac = Rbac::new(&store);

    let mut refused = 0;
    for line in table(include_str!("escalations.json")) {
        let text = |field: &str| line[field].as_str().unwrap_or_default();
        let user = store::user(&line);
        let namespace = line["object"]["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default();

        let (resource, name) = (text("resource"), text("name"));
        let scope = if namespace.is_empty() {
            String::new()
        } else {
            format!("/namespaces/{namespace}")
        };
        let path = format!("/apis/rbac.authorization.k8s.io/v1{scope}/{resource}/{name}");
        let path = path.trim_end_matches('/');

        let attributes =
            request_info::attributes(user.clone(), text("method"), path, &[]).expect("a resource");

        let write = RoleWrite {
            user: &user,
            resource,
            namespace,
            request_name: name,
            object: &line["object"],
            old: Some(&line["old"]).filter(|old| !old.is_null()),
        };

        let answer = rbac
            .require(&attributes)
            .and_then(|()| escalation::check(&rbac, &write));

        // A 422 is about the object's validity, which is checked later.
        let is_refused = line["code"] == 403 || line["code"] == 404;
        let expected = is_refused.then(|| status(&line["answer"]));
        refused += usize::from(expected.is_some());
        assert_eq!(
            answer.err().map(|error| error.to_value()),
            expected,
            "{line}"
        );
    }
    assert!(refused >= 60, "{refused} refused writes");
}

#[test]
fn other_resources_are_not_checked() {
    let store = Store::default();
    let user = operetta_apiserver::authn::user::User::new("x", &[]);
    let object =
        serde_json::json!({"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]});

    let write = RoleWrite {
        user: &user,
        resource: "pods",
        namespace: "",
        request_name: "",
        object: &object,
        old: None,
    };
    assert_eq!(escalation::check(&Rbac::new(&store), &write), Ok(()));

    let write = RoleWrite {
        resource: "roles",
        object: &Value::Null,
        ..write
    };
    assert_eq!(
        escalation::check(&Rbac::new(&store), &write),
        Ok(()),
        "a role without rules gives nothing"
    );
}
