//! The authorizer allows or denies requests.

use operetta_apiserver::authz::{rbac::Rbac, request_info};
use serde_json::Value;

use crate::{
    status,
    store::{self, Store},
    table,
};

#[test]
fn requests_are_allowed_and_denied_as_by_kubernetes() {
    let store = Store::with_roles(&table(include_str!("world.json")));
    let rbac = Rbac::new(&store);
    let lines = table(include_str!("decisions.json"));
    assert!(lines.len() >= 500);

    for line in lines {
        let (path, query) = split(line["path"].as_str().expect("a path"));
        let method = line["method"].as_str().expect("a method");
        let attributes = request_info::attributes(store::user(&line), method, &path, &query)
            .expect("a resource");
        let answer = rbac
            .require(&attributes)
            .err()
            .map(|error| error.to_value());
        let expected = (!line["denied"].is_null()).then(|| status(&line["denied"]));
        assert_eq!(answer, expected, "{line}");
    }
}

/// Splits a URL into its path and its decoded query.
pub fn split(url: &str) -> (String, Vec<(String, String)>) {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let decode = |text: &str| text.replace("%3D", "=").replace("%3d", "=");

    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    (
        path.to_owned(),
        pairs
            .map(|(key, value)| (key.to_owned(), decode(value)))
            .collect(),
    )
}

#[test]
fn aggregated_roles_have_their_rules() {
    use operetta_apiserver::authz::{aggregation, bootstrap};

    let mut store = Store::default();
    let roles = bootstrap::objects().expect("embedded data");
    for role in &roles {
        store.put(role.clone());
    }

    let mut aggregated = 0;
    for role in &roles {
        assert_eq!(
            aggregation::aggregated_rules(role, &store),
            None,
            "{}",
            role["metadata"]["name"]
        );

        if !role["aggregationRule"].is_null() {
            let mut empty = role.clone();
            empty["rules"] = Value::Null;
            assert_eq!(
                aggregation::aggregated_rules(&empty, &store).as_ref(),
                Some(&role["rules"])
            );
            aggregated += 1;
        }
    }
    assert_eq!(aggregated, 3);
}
