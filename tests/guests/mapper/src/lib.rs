//! Counts the reconciles of each ConfigMap labelled `operetta-fixture=true` in its `data.woken`.
//! They are triggered by creations and deletions, and by ConfigMaps labelled
//! `operetta-fixture=wakes`: their `data.wakes` has the names to enqueue, separated by spaces, as
//! `NAMESPACE/NAME` for other namespaces. With `data.do` the mapping misbehaves instead: `trap`,
//! `loop`, `allocate` or `many` (10,000 keys).

use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
use operetta_sdk::{Action, Context, Controller, Error, ObjectKey, Plugin, Predicate, Source};

operetta_sdk::mapping_plugin!(plugin);

/// Returns one controller, `count`.
pub fn plugin() -> Plugin {
    // A ConfigMap has no generation: its changes do not trigger a reconcile.
    let counted = Source::of::<ConfigMap>()
        .labels("operetta-fixture=true")
        .predicate(Predicate::GenerationChanged);

    let wakes = Source::of::<ConfigMap>().labels("operetta-fixture=wakes");
    let controller = Controller::new("count", count)
        .for_source(counted)
        .watches_mapped(wakes, map)
        .own_namespace();
    Plugin::new().controller(controller)
}

fn count(ctx: &Context, mut map: ConfigMap) -> Result<Action, Error> {
    let woken = field(&map, "woken")
        .and_then(|woken| woken.parse::<u32>().ok())
        .unwrap_or_default();
    map.data
        .get_or_insert_default()
        .insert("woken".to_owned(), (woken + 1).to_string());
    ctx.update(&map)?;
    Ok(Action::done())
}

fn map(map: ConfigMap) -> Vec<ObjectKey> {
    let namespace = map.metadata.namespace.clone().unwrap_or_default();
    let beside = |name: &str| ObjectKey::namespaced(namespace.as_str(), name);
    match field(&map, "do") {
        Some("trap") => panic!("a mapping that traps"),
        Some("loop") => loop {
            std::hint::black_box(&map);
        },
        Some("allocate") => loop {
            std::mem::forget(std::hint::black_box(vec![1_u8; 1 << 20]));
        },
        Some("many") => {
            return (0..10_000)
                .map(|at| beside(&format!("none-{at}")))
                .collect();
        }
        _ => {}
    }

    let key = |name: &str| match name.split_once('/') {
        Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
        None => beside(name),
    };

    field(&map, "wakes")
        .unwrap_or_default()
        .split_whitespace()
        .map(key)
        .collect()
}

fn field<'a>(map: &'a ConfigMap, name: &str) -> Option<&'a str> {
    map.data.as_ref()?.get(name).map(String::as_str)
}
