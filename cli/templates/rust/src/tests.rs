//! The reconciler on an API server of its own for each test: run them with `operetta test`.

use operetta_sdk::is_controlled_by;
use operetta_sdk::testing::Cluster;

use super::*;
use types::{{kind}}Spec;

const KEY: (&str, &str) = ("default", "{{name}}");

fn sample(message: &str) -> {{kind}} {
    {{kind}}::new(KEY, {{kind}}Spec { message: message.to_owned() })
}

#[test]
fn writes_message_to_config_map_and_restores_it() {
    let cluster = Cluster::new().with(sample("Hello"));
    assert_eq!(cluster.reconcile(&plugin(), "{{singular}}", KEY).expect("reconciles"), Action::done());

    let object: {{kind}} = cluster.get(KEY).expect("the {{kind}}");
    let mut map: ConfigMap = cluster.get(KEY).expect("a ConfigMap");
    assert_eq!(map.data.as_ref().expect("data")["message"], "Hello");
    assert!(is_controlled_by(&map, &object));
    assert_eq!(object.status.expect("a status").config_map, "{{name}}");

    map.data = None;
    cluster.context().update(&map).expect("empties the ConfigMap");
    cluster.reconcile(&plugin(), "{{singular}}", KEY).expect("reconciles");
    let map: ConfigMap = cluster.get(KEY).expect("a ConfigMap");
    assert_eq!(map.data.expect("data")["message"], "Hello");
}

#[test]
fn second_reconcile_writes_nothing() {
    let cluster = Cluster::new().with(sample("Hello"));
    cluster.reconcile(&plugin(), "{{singular}}", KEY).expect("reconciles");
    cluster.writes();
    cluster.reconcile(&plugin(), "{{singular}}", KEY).expect("reconciles");
    assert!(cluster.writes().is_empty());
}
