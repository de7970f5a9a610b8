//! Reviews of access.

use operetta_apiserver::{
    apimachinery::status::Status,
    authn::user::User,
    authz::{
        rbac::Rbac,
        reviews::{self, ReviewKind},
    },
};
use serde_json::Value;

use crate::{
    status,
    store::{self, Store},
    table,
};

#[test]
fn reviews_are_answered_as_by_kubernetes() {
    let store = Store::with_roles(&table(include_str!("world.json")));
    let rbac = Rbac::new(&store);
    let lines = table(include_str!("reviews.json"));
    assert!(lines.len() >= 250);
    for line in lines {
        let user = if line["user"].is_null() {
            User::new("admin", &["system:masters"])
        } else {
            store::user(&line)
        };

        let answer = match answer(&rbac, &line, &user) {
            Ok(answer) => ordered(answer),
            Err(error) => error.to_value(),
        };

        let expected = if line["code"] == 201 {
            ordered(line["answer"].clone())
        } else {
            status(&line["answer"])
        };
        assert_eq!(answer, expected, "{line}");
    }
}

fn answer(rbac: &Rbac<'_>, line: &Value, user: &User) -> Result<Value, Status> {
    let kind = match line["kind"].as_str() {
        Some("SubjectAccessReview") => ReviewKind::Subject,
        Some("LocalSubjectAccessReview") => ReviewKind::Local,
        Some("SelfSubjectAccessReview") => ReviewKind::SelfSubject,
        _ => return reviews::review_rules(rbac, &line["body"], user),
    };
    let namespace = line["namespace"].as_str().unwrap_or_default();
    reviews::review_access(rbac, kind, &line["body"], namespace, user)
}

/// Sorts the rules of a rules review: kube-apiserver gives them in the random order of its cache.
fn ordered(mut answer: Value) -> Value {
    for field in ["resourceRules", "nonResourceRules"] {
        if let Some(rules) = answer["status"][field].as_array_mut() {
            rules.sort_by_key(Value::to_string);
        }
    }
    answer
}
