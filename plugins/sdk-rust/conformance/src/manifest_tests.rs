//! Tests that the host reads the SDK's manifests, and that the SDK's copy of the contract is
//! current.

use std::time::Duration;

use operetta_core::manifest::{
    self, Manifest, Mapping as CoreMapping, Namespaces, Predicate as CorePredicate,
};
use operetta_sdk::k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use operetta_sdk::{
    Action, Context, Controller, Error, GroupVersionKind, Mapping, Plugin, Predicate, RateLimiter,
    Request, Source,
};

fn by_key(_: &Context, _: &Request) -> Result<Action, Error> {
    Ok(Action::done())
}

fn by_object(_: &Context, _: ConfigMap) -> Result<Action, Error> {
    Ok(Action::done())
}

fn read(plugin: &Plugin) -> Manifest {
    manifest::parse(&plugin.manifest()).expect("the host reads it")
}

#[test]
fn functions_argument_sets_kind() {
    let manifest = read(&Plugin::new().controller(Controller::new("map", by_object)));
    assert_eq!(
        (
            &*manifest.controllers[0].for_.api_version,
            &*manifest.controllers[0].for_.kind
        ),
        ("v1", "ConfigMap")
    );
    assert_eq!(
        (
            manifest.controllers[0].workers,
            manifest.controllers[0].resync_seconds
        ),
        (1, 0)
    );
    assert_eq!(manifest.controllers[0].rate_limiter, None);
}

#[test]
fn host_reads_every_setting() {
    let controller = Controller::new("full", by_key)
        .for_source(
            Source::of::<ConfigMap>()
                .labels("a=b")
                .fields("metadata.name=c")
                .prune([".data"]),
        )
        .owns::<Secret>()
        .owns_source(Source::of::<Pod>().predicate(Predicate::LabelsChanged))
        .watches(Source::of::<Pod>(), Mapping::field_path(".spec.nodeName"))
        .watches(Source::of::<Secret>(), Mapping::field_paths(".a.b", ".a.c"))
        .watches(Source::of::<Secret>(), Mapping::same_name())
        .watches(Source::of::<Secret>(), Mapping::all_owners())
        .finalizer("example.com/cleanup")
        .workers(3)
        .resync(Duration::from_millis(1_500))
        .rate_limiter(
            RateLimiter::default()
                .backoff(Duration::from_secs(1), Duration::from_secs(60))
                .bucket(1, 2),
        )
        .own_namespace()
        .event_filter(Predicate::ResourceVersionChanged);
    let plugin = Plugin::new()
        .controller(controller)
        .index::<Pod>("node", ".spec.nodeName");
    let plugin = plugin.index_by_label::<Pod>("app", "app");
    let plugin =
        plugin.index_by_controller::<Pod>("owner", GroupVersionKind::new("apps/v1", "ReplicaSet"));
    let manifest = read(&plugin);
    let controller = &manifest.controllers[0];
    assert_eq!(controller.for_.label_selector.as_deref(), Some("a=b"));
    assert_eq!(
        controller.for_.field_selector.as_deref(),
        Some("metadata.name=c")
    );
    assert_eq!(controller.for_.namespaces, Namespaces::Own);
    assert_eq!(controller.for_.prune, [".data"]);
    assert_eq!(
        controller
            .owns
            .iter()
            .map(|source| &*source.kind)
            .collect::<Vec<_>>(),
        ["Secret", "Pod"]
    );
    assert_eq!(
        controller.owns[1].predicates,
        [
            CorePredicate::LabelsChanged,
            CorePredicate::ResourceVersionChanged
        ]
    );
    let path = |path: &str, namespace: Option<&str>| CoreMapping::FieldPath {
        path: path.to_owned(),
        namespace_path: namespace.map(str::to_owned),
    };
    assert_eq!(
        controller
            .watches
            .iter()
            .map(|watch| watch.map.clone())
            .collect::<Vec<_>>(),
        [
            path(".spec.nodeName", None),
            path(".a.b", Some(".a.c")),
            CoreMapping::SameName {},
            CoreMapping::Owner { all_owners: true }
        ]
    );
    assert!(
        controller
            .watches
            .iter()
            .all(|watch| watch.source.namespaces == Namespaces::Own)
    );
    assert_eq!(controller.finalizers, ["example.com/cleanup"]);
    assert_eq!((controller.workers, controller.resync_seconds), (3, 2));
    let limiter = controller.rate_limiter.expect("is set");
    assert_eq!(
        (
            limiter.base_delay_ms,
            limiter.max_delay_ms,
            limiter.qps,
            limiter.burst
        ),
        (1_000, 60_000, 1, 2)
    );
    assert_eq!(
        (
            &*manifest.indexes[0].name,
            manifest.indexes[0].path.as_deref()
        ),
        ("node", Some(".spec.nodeName"))
    );
    assert_eq!(manifest.indexes[1].label.as_deref(), Some("app"));
    let owner = manifest.indexes[2].controller.as_ref().expect("is set");
    assert_eq!(
        (&*owner.api_version, &*owner.kind),
        ("apps/v1", "ReplicaSet")
    );
}

#[test]
#[should_panic(expected = "has no kind to reconcile")]
fn refuses_controller_without_kind() {
    let _ = Plugin::new()
        .controller(Controller::new("c", by_key))
        .manifest();
}

#[test]
#[should_panic(expected = "is for Pod.v1, but its function takes ConfigMap.v1")]
fn refuses_controller_of_two_kinds() {
    let _ = Plugin::new()
        .controller(Controller::new("c", by_object).for_::<Pod>())
        .manifest();
}

#[test]
fn host_reads_conformance_manifest() {
    let manifest = read(&crate::plugin());
    assert_eq!(
        (
            &*manifest.controllers[0].name,
            manifest.controllers[0].workers
        ),
        ("cases", 4)
    );
    assert_eq!(
        manifest
            .indexes
            .iter()
            .map(|index| &*index.name)
            .collect::<Vec<_>>(),
        ["colour", "app", "owner"]
    );
    let watch = &manifest.controllers[0].watches[0];
    assert_eq!(
        (&watch.map, &*watch.source.prune),
        (&CoreMapping::Custom {}, &[".data.pruned".to_owned()][..])
    );
}

#[test]
fn sdk_contract_equals_repository_contract() {
    let copy = include_str!("../../wit/controller.wit");
    let contract = include_str!("../../../../wit/controller.wit");
    assert_eq!(
        copy, contract,
        "copy wit/controller.wit to plugins/sdk-rust/wit/"
    );
}
