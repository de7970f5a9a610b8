//! A test's cluster behaves as the API server does, and records what a reconciler does.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::{
    Controller, DeleteOptions, DynamicObject, ErrorKind, ListOptions, ObjectMeta, OperationResult,
    Patch, Propagation, Resource, ResultExt, WriteOptions, finalizer, set_controller_reference,
};

#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(
    group = "e.dev",
    version = "v1",
    kind = "Foo",
    status = "String",
    derive = "Default, PartialEq"
)]
struct Spec {
    size: i32,
}

const KEY: (&str, &str) = ("ns", "a");

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("ns".to_owned()),
        ..ObjectMeta::default()
    }
}

fn foo() -> Foo {
    Foo {
        metadata: named("a"),
        ..Foo::default()
    }
}

/// Returns a Deployment that the API server accepts.
fn deployment() -> Deployment {
    let labels = json!({"app": "a"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
    Deployment {
        metadata: named("a"),
        spec: serde_json::from_value(spec).expect("a spec"),
        ..Deployment::default()
    }
}

fn map() -> ConfigMap {
    ConfigMap {
        metadata: named("a"),
        ..ConfigMap::default()
    }
}

#[test]
fn create_sets_metadata_and_drops_status() {
    let ctx = Cluster::new().context();

    let made = ctx
        .create(&Foo {
            status: Some("mine".to_owned()),
            ..foo()
        })
        .expect("creates");

    assert_eq!(
        (made.metadata.generation, made.status.as_ref()),
        (Some(1), None)
    );
    assert!(
        made.uid().is_some()
            && made.resource_version().is_some()
            && made.metadata.creation_timestamp.is_some()
    );

    assert!(ctx.create(&foo()).expect_err("exists").is_already_exists());
    assert_eq!(ctx.create(&made).expect_err("a version").status().code, 500);
}

#[test]
fn stale_update_conflicts_and_equal_update_keeps_version() {
    let ctx = Cluster::new().with(foo()).context();

    let mut first: Foo = ctx.get(KEY).expect("gets");
    let stale = first.clone();
    first.spec.size = 3;

    let second = ctx.update(&first).expect("updates");
    assert_eq!(second.metadata.generation, Some(2));
    assert_eq!(
        ctx.update(&second).expect("updates").resource_version(),
        second.resource_version()
    );

    assert!(ctx.update(&stale).expect_err("stale").is_conflict());

    let mut unversioned = second;
    unversioned.metadata.resource_version = None;
    let error = ctx
        .update(&unversioned)
        .expect_err("a custom resource needs its version");
    assert_eq!(error.status().causes[0].field, "metadata.resourceVersion");
}

#[test]
fn status_is_written_through_subresource_only() {
    let ctx = Cluster::new().with(foo()).context();
    let mut foo: Foo = ctx.get(KEY).expect("gets");

    foo.status = Some("ready".to_owned());
    foo = ctx.update(&foo).expect("updates");
    assert_eq!(foo.status, None);

    foo.status = Some("ready".to_owned());
    foo.spec.size = 9;
    foo = ctx.update_status(&foo).expect("updates");
    assert_eq!(
        (
            foo.status.as_deref(),
            foo.spec.size,
            foo.metadata.generation
        ),
        (Some("ready"), 0, Some(1))
    );

    let ctx = Cluster::new().with(map()).context();
    let error = ctx.update_status(&map()).expect_err("no subresource");
    let error = error.to_string();
    assert!(error.contains("has no status subresource"), "{error}");
}

#[test]
fn kind_without_status_subresource_updates_status_field() {
    let ctx = Cluster::new().without_status_subresource::<Foo>().context();
    let mut foo = ctx
        .create(&Foo {
            status: Some("a".to_owned()),
            ..foo()
        })
        .expect("creates");

    foo.status = Some("b".to_owned());
    assert_eq!(
        ctx.update(&foo).expect("updates").status.as_deref(),
        Some("b")
    );
}

#[test]
fn object_remains_until_finalizers_are_removed() {
    let ctx = Cluster::new().context();
    let mut foo = foo();

    crate::add_finalizer(&mut foo, "e.dev/f");
    let foo = ctx.create(&foo).expect("creates");

    ctx.delete(&foo).expect("deletes");
    let mut foo: Foo = ctx.get(KEY).expect("still there");
    assert!(foo.is_being_deleted());
    assert_eq!(foo.metadata.generation, Some(2));

    crate::add_finalizer(&mut foo, "e.dev/late");
    assert!(ctx.update(&foo).expect_err("too late").is_invalid());

    foo.metadata.finalizers = None;
    ctx.update(&foo).expect("updates");
    assert!(ctx.get_opt::<Foo>(KEY).expect("reads").is_none());
}

#[test]
fn delete_spares_successor_of_same_name() {
    let ctx = Cluster::new().context();

    let first = ctx.create(&foo()).expect("creates");
    ctx.delete_key::<Foo>(KEY, &DeleteOptions::new())
        .expect("deletes");

    ctx.create(&foo()).expect("creates");
    assert!(ctx.delete(&first).expect_err("another uid").is_conflict());
}

#[test]
fn patches_change_named_fields() {
    let ctx = Cluster::new().with(map()).context();
    let merge = Patch::merge(&json!({"data": {"a": "1", "b": "2"}}));
    ctx.patch::<ConfigMap>(KEY, merge).expect("merges");

    let json = Patch::json(&json!([{"op": "remove", "path": "/data/a"}]));
    let map: ConfigMap = ctx.patch(KEY, json).expect("patches");
    assert_eq!(
        map.data.expect("data").into_keys().collect::<Vec<_>>(),
        ["b"]
    );

    let stale = Patch::merge(&json!({"metadata": {"resourceVersion": "1"}}));
    assert!(
        ctx.patch::<ConfigMap>(KEY, stale)
            .expect_err("stale")
            .is_conflict()
    );

    let test = Patch::json(&json!([{"op": "test", "path": "/data/b", "value": "3"}]));
    assert!(
        ctx.patch::<ConfigMap>(KEY, test)
            .expect_err("differs")
            .is_invalid()
    );
}

#[test]
fn create_generates_name_and_strictness_names_unknown_field() {
    let cluster = Cluster::new();
    let ctx = cluster.context();

    let metadata = ObjectMeta {
        name: None,
        generate_name: Some("a-".to_owned()),
        ..named("")
    };

    let made = ctx
        .create(&ConfigMap {
            metadata,
            ..ConfigMap::default()
        })
        .expect("creates");

    assert!(
        made.name().starts_with("a-") && made.name().len() > 2,
        "{}",
        made.name()
    );
    assert_eq!(cluster.writes()[0].key, made.key());

    let misspelt =
        DynamicObject::new(&ConfigMap::gvk(), ("ns", "b")).with("dataa", json!({"a": "b"}));
    let error = ctx.create_with(&misspelt, &WriteOptions::new().strict());
    let error = error.expect_err("refused").to_string();
    assert!(error.contains("unknown field \"dataa\""), "{error}");
}

#[test]
fn apply_conflicts_with_other_manager_and_merges_lists_by_key() {
    let ctx = Cluster::new().with(deployment()).context();

    let container = |value: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "spec": {"template": {"spec": {"containers": [value]}}},
        })
    };
    let other = container(json!({"name": "sidecar", "image": "s"}));

    let merged: Deployment = ctx.patch(KEY, Patch::apply(&other)).expect("applies");
    let containers = merged
        .spec
        .expect("a spec")
        .template
        .spec
        .expect("a Pod")
        .containers;

    assert_eq!(
        containers
            .iter()
            .map(|container| &*container.name)
            .collect::<String>(),
        "asidecar"
    );

    let theirs = container(json!({"name": "a", "image": "b"}));
    let error = ctx
        .patch::<Deployment>(KEY, Patch::apply(&theirs))
        .expect_err("not ours");
    assert!(
        error.is_conflict() && error.to_string().contains(".spec.template.spec.containers"),
        "{error}"
    );

    ctx.patch::<Deployment>(KEY, Patch::apply(&theirs).force())
        .expect("takes it over");
}

#[test]
fn orphaning_deletion_waits_for_the_garbage_collector() {
    let ctx = Cluster::new().with(map()).context();
    let orphan = DeleteOptions::new().propagation(Propagation::Orphan);
    ctx.delete_key::<ConfigMap>(KEY, &orphan).expect("deletes");
    let map: ConfigMap = ctx.get(KEY).expect("still there");
    assert_eq!(map.metadata.finalizers, Some(vec!["orphan".to_owned()]));
}

#[test]
#[should_panic = "add Deployment.apps/v1 ns/a: Invalid (422): Deployment.apps \"a\" is invalid: [spec.selector: Required value"]
fn invalid_premise_fails_the_test() {
    drop(Cluster::new().with(Deployment {
        metadata: named("a"),
        ..Deployment::default()
    }));
}

#[test]
fn lists_select_by_namespace_label_owner_and_index_in_pages() {
    let owner = Foo {
        metadata: ObjectMeta {
            uid: Some("u".to_owned()),
            ..named("owner")
        },
        ..Foo::default()
    };

    let mut cluster = Cluster::new();
    for name in ["a", "b", "c", "d", "e"] {
        let mut map = ConfigMap {
            metadata: named(name),
            ..ConfigMap::default()
        };

        map.labels_mut()
            .insert("vowel".to_owned(), ["a", "e"].contains(&name).to_string());
        map.data.get_or_insert_default().insert(
            "next".to_owned(),
            if name < "c" { "x" } else { "y" }.to_owned(),
        );

        if name == "d" {
            set_controller_reference(&owner, &mut map).expect("sets");
        }
        cluster = cluster.with(map);
    }

    let plugin = Plugin::new().controller(Controller::new("c", look).for_::<ConfigMap>());
    let plugin = plugin.index::<ConfigMap>("next", ".data.next");
    let plugin = plugin.index_by_label::<ConfigMap>("vowel", "vowel");
    let plugin = plugin.index_by_controller::<ConfigMap>("owner", Foo::gvk());

    cluster.reconcile(&plugin, "c", KEY).expect("reconciles");

    let names = |options: ListOptions| -> String {
        cluster
            .context()
            .list::<ConfigMap>(options)
            .expect("lists")
            .iter()
            .map(Object::name)
            .collect()
    };

    let all = ListOptions::all_namespaces;
    assert_eq!(names(all()), "abcde");
    assert_eq!(names(all().page_size(2)), "abcde");
    assert_eq!(names(ListOptions::in_namespace("other")), "");
    assert_eq!(names(all().labels("vowel in (true)")), "ae");
    assert_eq!(names(all().fields("metadata.name=b")), "b");
    assert_eq!(names(all().owned_by(&owner)), "d");
    assert_eq!(names(all().index("next", "x")), "ab");
    assert_eq!(names(all().index("vowel", "true")), "ae");
    assert_eq!(names(all().index("owner", "owner")), "d");
    assert_eq!(names(all().index("owner", "other")), "");

    let page = cluster
        .context()
        .list_page::<ConfigMap>(&all().page_size(2).project([".data"]))
        .expect("lists");
    assert_eq!(page.items.len(), 2);

    assert!(
        page.continue_token.is_some()
            && page.items[0].metadata.labels.is_none()
            && page.items[0].data.is_some()
    );

    for wrong in [
        all().index("none", "x"),
        all().index("next", "x").live(),
        all().labels("a in b"),
        all().fields("spec.a=1"),
    ] {
        let error = cluster
            .context()
            .list::<ConfigMap>(wrong)
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::BadRequest, "{error}");
    }
}

fn look(ctx: &Context, request: &Request) -> Result<Action, Error> {
    let span = tracing::info_span!("looking", key = %request.key);
    let _entered = span.enter();
    tracing::warn!(retries = request.retries, "looked");
    ctx.event(&map(), EventType::Warning, "Looked", "at it");
    Ok(Action::requeue())
}

#[test]
fn keeps_events_and_log_lines_with_span_fields() {
    let cluster = Cluster::new();
    let plugin = Plugin::new().controller(Controller::new("c", look).for_::<ConfigMap>());

    assert_eq!(
        cluster.reconcile(&plugin, "c", KEY).expect("reconciles"),
        Action::requeue()
    );

    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let fields = vec![pair("key", "ns/a"), pair("retries", "0")];
    assert_eq!(
        cluster.logs(),
        [LogLine {
            level: Level::Warn,
            message: "looked".to_owned(),
            fields
        }]
    );

    assert_eq!(cluster.events()[0].reason, "Looked");
    assert_eq!((cluster.logs().len(), cluster.events().len()), (0, 0));
}

#[test]
fn secret_string_data_becomes_data() {
    let ctx = Cluster::new().context();
    let mut secret = Secret {
        metadata: named("a"),
        ..Secret::default()
    };

    secret
        .string_data
        .get_or_insert_default()
        .insert("password".to_owned(), "root".to_owned());
    let secret = ctx.create(&secret).expect("creates");

    assert_eq!(secret.data.expect("data")["password"].0, b"root");
    assert_eq!(secret.string_data, None);
}

#[test]
fn dry_run_stores_nothing() {
    let cluster = Cluster::new();
    cluster
        .context()
        .create_with(&foo(), &WriteOptions::new().dry_run())
        .expect("would create");

    assert!(cluster.get::<Foo>(KEY).is_none());
    assert!(cluster.writes().is_empty());
}

#[test]
fn create_or_update_writes_only_changes() {
    let cluster = Cluster::new();
    let ctx = cluster.context();

    let bring_to = |size| {
        let set = |foo: &mut Foo| {
            foo.spec.size = size;
            foo.metadata.labels.get_or_insert_default();
            Ok(())
        };
        ctx.create_or_update(foo(), set).expect("works").1
    };

    assert_eq!(bring_to(1), OperationResult::Created);
    assert_eq!(bring_to(1), OperationResult::Unchanged);
    assert_eq!(bring_to(2), OperationResult::Updated);

    let writes: Vec<_> = cluster.writes().iter().map(ToString::to_string).collect();
    assert_eq!(writes, ["Create Foo ns/a", "Update Foo ns/a"]);

    let renamed = ctx.create_or_update(foo(), |foo| {
        foo.metadata.name = Some("b".to_owned());
        Ok(())
    });
    assert!(renamed.expect_err("renamed").is_terminal());
}

#[test]
fn finalizer_applies_cleans_up_and_is_removed() {
    fn reconcile(ctx: &Context, foo: Foo) -> Result<Action, Error> {
        let apply = |foo: Foo| {
            tracing::info!("apply {}", foo.name());
            Ok(Action::done())
        };

        let cleanup = |foo: &Foo| match foo.spec.size {
            0 => Ok(Action::done()),
            _ => Ok(Action::requeue()),
        };

        finalizer(ctx, foo, "e.dev/f", apply, cleanup)
    }

    let plugin = Plugin::new().controller(Controller::new("foo", reconcile));
    let cluster = Cluster::new().with(Foo {
        spec: Spec { size: 1 },
        ..foo()
    });

    cluster.reconcile(&plugin, "foo", KEY).expect("applies");
    cluster.reconcile(&plugin, "foo", KEY).expect("applies");
    assert_eq!(cluster.writes().len(), 1, "the finalizer is added once");
    assert_eq!(cluster.logs().len(), 2);

    let ctx = cluster.context();
    ctx.delete(&cluster.get::<Foo>(KEY).expect("there"))
        .expect("deletes");

    assert_eq!(
        cluster
            .reconcile(&plugin, "foo", KEY)
            .expect("not finished"),
        Action::requeue()
    );

    ctx.patch::<Foo>(KEY, Patch::merge(&json!({"spec": {"size": 0}})))
        .expect("patches");
    assert_eq!(
        cluster.reconcile(&plugin, "foo", KEY).expect("cleans up"),
        Action::done()
    );

    assert!(cluster.get::<Foo>(KEY).is_none());
}

#[test]
fn deleted_key_reaches_each_reconciler_form() {
    fn by_object(_: &Context, _: Foo) -> Result<Action, Error> {
        Err(Error::msg("it was there"))
    }
    fn by_option(_: &Context, foo: Option<Foo>) -> Result<Action, Error> {
        Err(Error::msg(format!("it was {foo:?}")))
    }

    let plugin = Plugin::new()
        .controller(Controller::new("silent", by_object))
        .controller(Controller::new("told", by_object).when_gone(|_, _| Ok(Action::requeue())))
        .controller(Controller::new("asked", by_option));
    let cluster = Cluster::new();

    assert_eq!(
        cluster
            .reconcile(&plugin, "silent", KEY)
            .expect("nothing to do"),
        Action::done()
    );

    assert_eq!(
        cluster.reconcile(&plugin, "told", KEY).expect("told"),
        Action::requeue()
    );

    assert_eq!(
        cluster
            .reconcile(&plugin, "asked", KEY)
            .expect_err("asked")
            .to_string(),
        "it was None"
    );

    assert!(
        cluster
            .reconcile(&plugin, "none", KEY)
            .expect_err("no such controller")
            .is_terminal()
    );
}

#[test]
fn object_of_wrong_type_is_terminal() {
    fn reconcile(_: &Context, _: Foo) -> Result<Action, Error> {
        Ok(Action::done())
    }

    let wrong = DynamicObject::new(&Foo::gvk(), KEY).with("spec", json!({"size": "big"}));
    let plugin = Plugin::new().controller(Controller::new("foo", reconcile));

    let error = Cluster::new()
        .with(wrong)
        .reconcile(&plugin, "foo", KEY)
        .expect_err("does not fit");
    assert!(error.is_terminal());

    assert!(
        error.to_string().starts_with(
            "Foo.e.dev/v1 ns/a does not fit the type Foo at .spec.size: invalid type: string"
        ),
        "{error}"
    );
}

#[test]
fn list_reports_an_object_of_wrong_type_and_has_the_others() {
    let foo = |name: &str, size: Value| {
        DynamicObject::new(&Foo::gvk(), ("ns", name)).with("spec", json!({"size": size}))
    };
    let cluster = Cluster::new()
        .with(foo("a", json!(1)))
        .with(foo("b", json!("big")))
        .with(foo("c", json!(3)));
    let ctx = cluster.context();

    let error = ctx
        .list::<Foo>(ListOptions::default())
        .expect_err("one of them");
    let expected = "Foo.e.dev/v1 ns/b does not fit the type Foo at .spec.size: invalid type";
    assert!(error.to_string().contains(expected), "{error}");

    let each = ctx.list_each::<Foo>(ListOptions::default()).expect("lists");
    let names: Vec<_> = each
        .iter()
        .map(|item| match item {
            Ok(foo) => foo.name().to_owned(),
            Err(misfit) => format!("not {}", misfit.key),
        })
        .collect();
    assert_eq!(names, ["a", "not ns/b", "c"]);
}

#[test]
fn planned_error_fails_next_call_of_verb_once() {
    let cluster = Cluster::new().with(map());
    cluster.fail_next(Verb::Get, ApiError::new(ErrorKind::Unavailable, "down"));
    let ctx = cluster.context();

    assert_eq!(
        ctx.get::<ConfigMap>(KEY).expect_err("planned").kind(),
        ErrorKind::Unavailable
    );
    assert!(ctx.get::<ConfigMap>(KEY).is_ok());
}

#[test]
fn wrong_config_is_terminal() {
    #[derive(Debug, Deserialize)]
    struct Config {
        n: i32,
    }

    assert_eq!(
        Cluster::new()
            .with_config(json!({"n": 1}))
            .context()
            .config::<Config>()
            .expect("reads")
            .n,
        1
    );

    let error = Cluster::new()
        .context()
        .config::<Config>()
        .context("x")
        .expect_err("missing");

    assert!(
        error.is_terminal() && error.to_string().contains("missing field `n`"),
        "{error}"
    );
}

#[test]
fn only_metadata_reads_and_never_writes() {
    let cluster = Cluster::new().with(deployment());
    let ctx = cluster.context();
    let read: crate::OnlyMetadata<Deployment> = ctx.get(KEY).expect("reads");
    assert_eq!(read.name(), "a");

    let error = ctx.update(&read).expect_err("not whole");
    assert!(error.is_malformed(), "{error}");

    ctx.delete(&read).expect("deletes");
}

#[test]
fn warnings_are_taken_once_and_belong_to_a_reconcile() {
    fn reconcile(ctx: &Context, map: ConfigMap) -> Result<Action, Error> {
        assert_eq!(ctx.take_warnings(), Vec::<String>::new());
        let patch = Patch::merge(&json!({"wrong": {}}));
        ctx.patch::<ConfigMap>(map.key(), patch)?;
        assert_eq!(ctx.take_warnings(), [r#"unknown field "wrong""#]);
        Ok(Action::done())
    }

    let cluster = Cluster::new();
    let ctx = cluster.context();
    let misspelt =
        |name| DynamicObject::new(&ConfigMap::gvk(), ("ns", name)).with("wrong", json!({}));

    ctx.create(&misspelt("a")).expect("creates");
    ctx.create(&misspelt("b")).expect("creates");
    let twice = [r#"unknown field "wrong""#; 2];
    assert_eq!(ctx.take_warnings(), twice);
    assert_eq!(ctx.take_warnings(), Vec::<String>::new());

    ctx.create(&misspelt("c")).expect("creates");
    let plugin = Plugin::new().controller(Controller::new("c", reconcile));
    cluster.reconcile(&plugin, "c", KEY).expect("reconciles");
}
