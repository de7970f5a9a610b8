//! The reconciler against the SDK's test kit: an API server in memory.

use operetta_sdk::is_controlled_by;
use operetta_sdk::testing::Cluster;

use super::*;

const KEY: (&str, &str) = ("default", "example");

fn example(message: &str) -> types::{{kind}} {
    types::{{kind}} {
        metadata: ObjectMeta {
            name: Some("example".to_owned()),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        spec: types::{{kind}}Spec { message: message.to_owned() },
        status: types::{{kind}}Status::default(),
    }
}

#[test]
fn the_message_gets_into_a_config_map_and_is_put_back() {
    let cluster = Cluster::new().with(example("Hello"));
    assert_eq!(cluster.reconcile(&plugin(), "{{singular}}", KEY).expect("reconciles"), Action::done());

    let object: types::{{kind}} = cluster.get(KEY).expect("the {{kind}}");
    let mut map: ConfigMap = cluster.get(KEY).expect("a ConfigMap");
    assert_eq!(map.data.as_ref().expect("data")["message"], "Hello");
    assert!(is_controlled_by(&map, &object));
    assert_eq!(object.status.config_map, "example");

    map.data = None;
    cluster.context().update(&map).expect("somebody empties it");
    cluster.reconcile(&plugin(), "{{singular}}", KEY).expect("reconciles");
    let map: ConfigMap = cluster.get(KEY).expect("a ConfigMap");
    assert_eq!(map.data.expect("data")["message"], "Hello");
}

#[test]
fn a_second_reconcile_writes_nothing() {
    let cluster = Cluster::new().with(example("Hello"));
    cluster.reconcile(&plugin(), "{{singular}}", KEY).expect("reconciles");
    cluster.writes();
    cluster.reconcile(&plugin(), "{{singular}}", KEY).expect("reconciles");
    assert!(cluster.writes().is_empty());
}
