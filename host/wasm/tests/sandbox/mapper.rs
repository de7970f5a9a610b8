//! Tests of plugins with a mapper, in each SDK, and of plugins without.

use std::{sync::Arc, time::Duration};

use operetta_core::{
    controller::request::{Failure, Fault, ReconcileRequest},
    handler::event::Event,
    object::{ManagedFields, Object, kind::GroupVersionKind},
    ports::Mapper,
};
use operetta_testkit::{guest, plugin, wat_guest::Guest};
use operetta_wasm::{CallLimits, LoadLimits, Plugin, PluginMapper};
use serde_json::{Value, json};

use crate::{
    engine,
    ports::{Ports, request},
};

/// The memory limit of a mapping.
const MEMORY: usize = 32 << 20;

async fn mapper(component: Vec<u8>) -> Option<PluginMapper> {
    mapper_with(component, MEMORY).await
}

async fn mapper_with(component: Vec<u8>, memory_bytes: usize) -> Option<PluginMapper> {
    let ports = Arc::new(Ports::default());
    let plugin = Plugin::load(engine(), component, &LoadLimits::default(), ports.clone())
        .await
        .expect("loads");
    let limits = CallLimits {
        memory_bytes,
        timeout: Duration::from_secs(2),
        ..CallLimits::default()
    };
    PluginMapper::new(Arc::new(plugin), ports.gate(), &limits)
}

/// Maps a change of a ConfigMap's data from `old` to `now` for the controller `count`, and returns
/// the keys.
async fn map(
    mapper: &PluginMapper,
    now: Value,
    old: Option<Value>,
) -> Result<Vec<String>, Failure> {
    map_for("count", mapper, now, old).await
}

async fn map_for(
    controller: &str,
    mapper: &PluginMapper,
    now: Value,
    old: Option<Value>,
) -> Result<Vec<String>, Failure> {
    let kind = GroupVersionKind::new("v1", "ConfigMap");
    let object = |data: Value| {
        let text =
            json!({"metadata": {"name": "index", "namespace": "n"}, "data": data}).to_string();
        Arc::new(Object::from_json(&text, &kind, ManagedFields::Drop).expect("object"))
    };
    let object_now = object(now);
    let event = Event::Modified {
        // A resync is a change from an object to itself.
        old: old.map_or_else(|| object_now.clone(), object),
        object: object_now,
    };
    let request = ReconcileRequest {
        controller: controller.into(),
        ..request("index")
    };
    let keys = mapper.map(&request, &kind, &event).await?;
    Ok(keys.iter().map(ToString::to_string).collect())
}

#[tokio::test]
async fn mapper_returns_keys_of_both_states() {
    for (name, component) in [
        ("count", guest("fixture-mapper")),
        ("count", plugin("mapper-typescript")),
        ("cases", plugin("conformance-go")),
        ("cases", plugin("conformance-python")),
        ("cases", plugin("conformance-c")),
    ] {
        let mapper = mapper(component).await.expect("it exports a mapper");
        let map = async |now, old| map_for(name, &mapper, now, old).await;
        assert_eq!(
            map(json!({"wakes": "a b"}), None).await,
            Ok(vec!["n/a".into(), "n/b".into()])
        );
        let both = map(json!({"wakes": "b c"}), Some(json!({"wakes": "a b"}))).await;
        assert_eq!(both, Ok(vec!["n/b".into(), "n/c".into(), "n/a".into()]));
        assert_eq!(map(json!({}), None).await, Ok(vec![]));
    }
}

#[tokio::test]
async fn map_func_of_controller_runtime_runs_unmodified() {
    let component = plugin("mapper-controllerruntime");
    let mapper = mapper_with(component, 256 << 20)
        .await
        .expect("it exports a mapper");
    let mut both = map(
        &mapper,
        json!({"wakes": "b c"}),
        Some(json!({"wakes": "a b"})),
    )
    .await
    .expect("keys");
    both.sort();
    assert_eq!(both, ["n/a", "n/b", "n/c"]);
    assert_eq!(map(&mapper, json!({}), None).await, Ok(vec![]));
    let listed = map(&mapper, json!({"do": "list"}), None).await;
    assert!(
        matches!(&listed, Err(Failure::Retry(message)) if message.contains("calls the API (list Secret)")),
        "{listed:?}"
    );
}

#[tokio::test]
async fn failed_mapping_ends_with_reason() {
    let rust = mapper(guest("fixture-mapper"))
        .await
        .expect("it exports a mapper");
    let trapped = map(&rust, json!({"do": "trap"}), None).await;
    assert!(
        matches!(&trapped, Err(Failure::Fault(Fault::Trap(message))) if message.contains("a mapping that traps")),
        "{trapped:?}"
    );
    let limit = Duration::from_secs(2);
    let looped = map(&rust, json!({"do": "loop"}), None).await;
    assert_eq!(
        looped,
        Err(Failure::Fault(Fault::DeadlineExceeded { limit }))
    );
    let grown = map(&rust, json!({"do": "allocate"}), None).await;
    assert_eq!(
        grown,
        Err(Failure::Fault(Fault::MemoryExceeded {
            limit_bytes: MEMORY
        }))
    );
    let typescript = mapper(plugin("mapper-typescript"))
        .await
        .expect("it exports a mapper");
    let thrown = map(&typescript, json!({"do": "trap"}), None).await;
    assert!(
        matches!(&thrown, Err(Failure::Retry(message))
            if message.contains("a mapping that throws") && message.contains("plugin.ts")),
        "{thrown:?}"
    );
}

#[tokio::test]
async fn plugin_without_mapper_loads_unless_required() {
    assert!(mapper(Guest::default().build()).await.is_none());
    let source = json!({"apiVersion": "v1", "kind": "Pod"});
    let watch = json!({"source": source, "map": {"type": "Custom"}});
    let controllers = json!([{"name": "c", "for": source, "watches": [watch]}]);
    let guest = Guest::default().controllers(&controllers).build();
    let error = Plugin::load(
        engine(),
        guest,
        &LoadLimits::default(),
        Arc::new(Ports::default()),
    )
    .await;
    let error = error.err().expect("refused");
    assert_eq!(error.reason(), "MissingMapper");
    assert!(
        error.to_string().contains("controller \"c\" has a watch"),
        "{error}"
    );
}
