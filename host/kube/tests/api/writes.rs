//! Writes, and how the API server's refusals come back: typed, with their causes.

use operetta_core::{
    gate::{
        operation::{
            Delete, DeleteOptions, Get, List, PatchBody, Read, Write, WriteAction, WriteOptions,
        },
        raw_request::RawRequest,
    },
    object::{ObjectKey, kind::GroupVersionKind, selector::of_name},
    ports::ObjectApi,
    status::{ApiError, ErrorKind},
};
use operetta_kube::informer::Scope;
use operetta_testkit::{any_schema, crd, eventually};
use serde_json::{Value, json};

use crate::{Stage, config_map, config_maps, stored, value};

async fn refused<T: std::fmt::Debug>(
    reply: impl Future<Output = Result<T, ApiError>>,
) -> ErrorKind {
    reply.await.expect_err("refused").kind
}

#[tokio::test]
async fn a_create_returns_what_is_stored_and_works_once() {
    let stage = Stage::new("create").await;
    let mut first = config_map("a");
    first["data"] = json!({"n": "1"});
    let made = stage.create(first).await.expect("created");
    assert!(!made.uid().is_empty() && made.revision().is_some());
    let managers = &value(&made)["metadata"]["managedFields"];
    assert_eq!(
        managers[0]["manager"], "test",
        "the plugin's own field manager"
    );
    assert_eq!(
        refused(stage.create(config_map("a"))).await,
        ErrorKind::AlreadyExists
    );
    let mut nameless = config_map("");
    nameless["metadata"] = json!({"generateName": "made-"});
    let made = stage.create(nameless).await.expect("created");
    assert!(made.key().name.starts_with("made-"), "{}", made.key());
}

#[tokio::test]
async fn an_update_with_a_stale_resource_version_is_a_conflict() {
    let stage = Stage::new("update").await;
    let mut first = value(&stage.create(config_map("a")).await.expect("created"));
    first["data"] = json!({"n": "1"});
    let second = stage.update("a", &first).await.expect("updated");
    assert_eq!(second.scalar_at(".data.n").as_deref(), Some("1"));
    first["data"] = json!({"n": "2"});
    let error = stage.update("a", &first).await.expect_err("stale");
    assert_eq!(
        (error.kind, error.status.code, error.status.reason.as_str()),
        (ErrorKind::Conflict, 409, "Conflict")
    );
    assert_eq!(
        refused(stage.update("b", &config_map("b"))).await,
        ErrorKind::NotFound
    );
    assert_eq!(
        refused(stage.update("b", &config_map("a"))).await,
        ErrorKind::BadRequest,
        "another name in the body"
    );
}

#[tokio::test]
async fn merge_and_json_patches_change_what_they_name() {
    let stage = Stage::new("patch").await;
    let mut made = config_map("a");
    made["data"] = json!({"x": "1", "y": "2"});
    stage.create(made).await.expect("created");
    let merged = stage
        .patch(
            "a",
            PatchBody::Merge(json!({"data": {"x": null, "z": "3"}}).to_string()),
        )
        .await;
    assert_eq!(
        value(&merged.expect("merged"))["data"],
        json!({"y": "2", "z": "3"})
    );
    let operations = json!([{"op": "test", "path": "/data/y", "value": "2"}, {"op": "remove", "path": "/data/y"}]);
    let patched = stage
        .patch("a", PatchBody::Json(operations.to_string()))
        .await;
    assert_eq!(value(&patched.expect("patched"))["data"], json!({"z": "3"}));
    assert_eq!(
        refused(stage.patch("a", PatchBody::Json(operations.to_string()))).await,
        ErrorKind::Invalid
    );
    assert_eq!(
        refused(stage.patch("a", PatchBody::Merge("hello".into()))).await,
        ErrorKind::BadRequest
    );
    assert_eq!(
        refused(stage.patch("b", PatchBody::Merge("{}".into()))).await,
        ErrorKind::NotFound
    );
}

#[tokio::test]
async fn apply_over_foreign_field_conflicts_unless_forced() {
    let stage = Stage::new("apply").await;
    let apply = async |manager: &str, colour: &str, force: bool| {
        let mut applied = config_map("a");
        applied["data"] = json!({"colour": colour});
        let action = WriteAction::Patch {
            key: stage.key("a"),
            subresource: None,
            body: PatchBody::Apply(applied.to_string()),
            force,
        };
        let options = WriteOptions {
            field_manager: Some(manager.to_owned()),
            ..WriteOptions::default()
        };
        stage.write(action, options).await
    };
    apply("one", "red", false)
        .await
        .expect("applied, which creates it");
    let error = apply("two", "blue", false).await.expect_err("one's field");
    assert_eq!(error.kind, ErrorKind::Conflict);
    let cause = &error.status.causes[0];
    assert_eq!(
        (cause.reason.as_str(), cause.field.as_str()),
        ("FieldManagerConflict", ".data.colour")
    );
    let forced = apply("two", "blue", true).await.expect("forced");
    assert_eq!(forced.scalar_at(".data.colour").as_deref(), Some("blue"));
}

#[tokio::test]
async fn a_delete_holds_to_its_preconditions() {
    let stage = Stage::new("delete").await;
    let made = stage.create(config_map("a")).await.expect("created");
    let with_uid = |uid: &str| DeleteOptions {
        uid: Some(uid.to_owned()),
        ..DeleteOptions::default()
    };
    assert_eq!(
        refused(stage.delete("a", with_uid("another"))).await,
        ErrorKind::Conflict
    );
    let stale = DeleteOptions {
        resource_version: Some("1".to_owned()),
        ..DeleteOptions::default()
    };
    assert_eq!(refused(stage.delete("a", stale)).await, ErrorKind::Conflict);
    stage
        .delete(
            "a",
            DeleteOptions {
                dry_run: true,
                ..with_uid(made.uid())
            },
        )
        .await
        .expect("a dry run");
    stage.get("a", Read::Live).await.expect("still there");
    stage
        .delete("a", with_uid(made.uid()))
        .await
        .expect("deleted");
    assert_eq!(
        refused(stage.delete("a", DeleteOptions::default())).await,
        ErrorKind::NotFound
    );
}

#[tokio::test]
async fn dry_run_stores_nothing() {
    let stage = Stage::new("dry-run").await;
    let namespace = Some(stage.namespace.name().to_owned());
    let object = config_map("a").to_string();
    let options = WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    };
    stage
        .write(WriteAction::Create { namespace, object }, options)
        .await
        .expect("a dry run");
    for read in [Read::Cached, Read::Live] {
        assert_eq!(refused(stage.get("a", read)).await, ErrorKind::NotFound);
    }
}

async fn create_deployment(stage: &Stage, spec: Value, strict: bool) -> Result<(), ApiError> {
    let deployment =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}).to_string();
    let action = WriteAction::Create {
        namespace: Some(stage.namespace.name().to_owned()),
        object: deployment,
    };
    let options = WriteOptions {
        strict,
        ..WriteOptions::default()
    };
    let kind = GroupVersionKind::new("apps/v1", "Deployment");
    stage
        .api
        .write(Write {
            kind,
            action,
            options,
        })
        .await
        .map(drop)
}

fn deployment_spec() -> Value {
    let labels = json!({"app": "d"});
    let containers = json!([{"name": "c", "image": "i"}]);
    json!({"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}})
}

#[tokio::test]
async fn rejected_object_is_invalid_with_causes() {
    let stage = Stage::new("invalid").await;
    let mut spec = deployment_spec();
    spec["replicas"] = json!(-1);
    spec["template"]["spec"]["containers"][0]["image"] = json!("");
    let error = create_deployment(&stage, spec, false)
        .await
        .expect_err("invalid");
    assert_eq!((error.kind, error.status.code), (ErrorKind::Invalid, 422));
    let fields: Vec<_> = error
        .status
        .causes
        .iter()
        .map(|cause| cause.field.as_str())
        .collect();
    assert_eq!(
        fields,
        ["spec.replicas", "spec.template.spec.containers[0].image"]
    );
    assert_eq!(error.status.causes[0].reason, "FieldValueInvalid");
}

#[tokio::test]
async fn strict_writes_refuse_unknown_fields_and_others_drop_them() {
    let stage = Stage::new("strict").await;
    let mut spec = deployment_spec();
    spec["replicaz"] = json!(1);
    let error = create_deployment(&stage, spec.clone(), true)
        .await
        .expect_err("strict");
    assert_eq!(error.kind, ErrorKind::BadRequest);
    assert!(
        error
            .status
            .message
            .contains("unknown field \"spec.replicaz\""),
        "{}",
        error.status.message
    );
    create_deployment(&stage, spec, false)
        .await
        .expect("lenient");
}

#[tokio::test]
async fn the_status_is_written_only_through_its_subresource() {
    let stage = Stage::new("status").await;
    create_deployment(&stage, deployment_spec(), false)
        .await
        .expect("created");
    let kind = GroupVersionKind::new("apps/v1", "Deployment");
    let write = async |status: bool| {
        let live = Get {
            kind: kind.clone(),
            key: stage.key("d"),
            read: Read::Live,
        };
        let now = stage.api.get(live).await.expect("there");
        let mut now = value(&now);
        now["status"] = json!({"replicas": 7});
        let action = WriteAction::Update {
            key: stage.key("d"),
            status,
            object: now.to_string(),
        };
        let write = Write {
            kind: kind.clone(),
            action,
            options: WriteOptions::default(),
        };
        let stored = stored(stage.api.write(write).await).expect("written");
        value(&stored)["status"]["replicas"].clone()
    };
    assert_eq!(write(false).await, Value::Null);
    assert_eq!(write(true).await, json!(7));
    let action = WriteAction::Update {
        key: stage.key("x"),
        status: true,
        object: config_map("x").to_string(),
    };
    let error = stage.write(action, WriteOptions::default()).await;
    let error = error.expect_err("ConfigMaps have no status");
    assert_eq!(
        (error.kind, error.status.message.as_str()),
        (
            ErrorKind::BadRequest,
            "ConfigMap.v1 has no status subresource: write the object itself with update"
        )
    );
}

/// A kind without subresources: the API server's own 404 would say that the object is missing.
#[tokio::test]
async fn a_missing_subresource_is_not_a_missing_object() {
    let stage = Stage::new("no-status").await;
    stage
        .namespace
        .control_plane()
        .apply(&crd("kube.test", "Plain", "plains", "Namespaced", &any_schema()).to_string());
    let kind = GroupVersionKind::new("kube.test/v1", "Plain");
    stage.discovery.wait_for(&kind).await;

    let plain = json!({"apiVersion": "kube.test/v1", "kind": "Plain", "metadata": {"name": "a"}});
    let write = async |action: WriteAction| {
        let kind = kind.clone();
        let options = WriteOptions::default();
        let write = Write {
            kind,
            action,
            options,
        };
        stage.api.write(write).await
    };
    let create = WriteAction::Create {
        namespace: Some(stage.namespace.name().to_owned()),
        object: plain.to_string(),
    };
    eventually("the kind is served", async || {
        write(create.clone())
            .await
            .map_err(|error| error.to_string())
    })
    .await;

    let key = stage.key("a");
    let patch = |subresource: &str, body: PatchBody| WriteAction::Patch {
        key: key.clone(),
        subresource: Some(subresource.to_owned()),
        body,
        force: true,
    };
    let update = WriteAction::Update {
        key: key.clone(),
        status: true,
        object: plain.to_string(),
    };
    for (name, action) in [
        ("status", update),
        (
            "status",
            patch("status", PatchBody::Merge(plain.to_string())),
        ),
        (
            "status",
            patch("status", PatchBody::Apply(plain.to_string())),
        ),
        ("scale", patch("scale", PatchBody::Merge("{}".to_owned()))),
    ] {
        let error = write(action).await.expect_err("it has no subresources");
        let message = &error.status.message;
        assert_eq!(error.kind, ErrorKind::BadRequest, "{message}");
        for words in [
            format!("Plain.kube.test/v1 has no {name} subresource"),
            format!("plains.kube.test has no subresources.{name} for version v1: add it, or"),
        ] {
            assert!(message.contains(&words), "{message}");
        }
    }

    let path = format!(
        "/apis/kube.test/v1/namespaces/{}/plains/a/status",
        stage.namespace.name()
    );
    let raw = RawRequest {
        method: "PUT".to_owned(),
        path,
        body: Some(plain.to_string()),
        ..RawRequest::default()
    };
    let target = raw.target().expect("a path");
    let answer = stage.api.raw(raw, target).await.expect("an answer");
    assert_eq!(answer.status, 404, "as clients expect of a path");
    assert!(
        answer.body.contains("has no status subresource"),
        "{}",
        answer.body
    );

    let missing = WriteAction::Update {
        key: stage.key("b"),
        status: false,
        object: plain.to_string().replace("\"a\"", "\"b\""),
    };
    let error = write(missing).await.expect_err("there is no b");
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
}

/// RBAC's kinds and others accept every name that a path can say.
#[tokio::test]
async fn objects_whose_names_need_escapes_are_reachable() {
    let stage = Stage::new("odd-names").await;
    let kind = GroupVersionKind::new("rbac.authorization.k8s.io/v1", "Role");
    let roles = stage.resource(&kind.api_version, &kind.kind).await;
    let scope = Scope {
        namespace: Some(stage.namespace.name().to_owned()),
        ..Scope::everything()
    };
    let informer = stage.registry.informer(&roles, scope);
    informer.synced().await;

    for name in [
        "hello world",
        "a b",
        "a?dryRun=All",
        "a#b",
        "\u{e9}\u{20ac}",
        "a=b,c",
    ] {
        let role = json!({
            "apiVersion": kind.api_version, "kind": "Role", "metadata": {"name": name},
        });
        let write = async |action: WriteAction| {
            let kind = kind.clone();
            let options = WriteOptions::default();
            stored(
                stage
                    .api
                    .write(Write {
                        kind,
                        action,
                        options,
                    })
                    .await,
            )
        };
        let key = stage.key(name);
        write(WriteAction::Create {
            namespace: Some(stage.namespace.name().to_owned()),
            object: role.to_string(),
        })
        .await
        .expect(name);

        for read in [Read::Live, Read::Cached] {
            let get = Get {
                kind: kind.clone(),
                key: key.clone(),
                read,
            };
            assert_eq!(stage.api.get(get).await.expect(name).key(), &key);
        }

        let patch = PatchBody::Merge(json!({"metadata": {"labels": {"a": "b"}}}).to_string());
        let patched = write(WriteAction::Patch {
            key: key.clone(),
            subresource: None,
            body: patch,
            force: false,
        })
        .await
        .expect(name);
        assert_eq!(patched.key(), &key);

        let mut options = stage.all(Read::Live);
        options.fields = Some(of_name(name));
        let list = List {
            kind: kind.clone(),
            options,
        };
        let page = stage.api.list(list).await.expect(name);
        assert_eq!(crate::names(&page), [name]);

        let raw = RawRequest {
            method: "GET".to_owned(),
            path: roles.object_path(&key),
            ..RawRequest::default()
        };
        let target = raw.target().expect(name);
        assert_eq!(stage.api.raw(raw, target).await.expect(name).status, 200);

        let delete = Delete {
            kind: kind.clone(),
            key: key.clone(),
            options: DeleteOptions::default(),
        };
        stage.api.delete(delete).await.expect(name);
    }
}

#[tokio::test]
async fn refuses_path_escaping_name_before_sending() {
    let stage = Stage::new("escape").await;
    let namespace = stage.namespace.name();
    let secrets = |verb: &str| {
        stage
            .namespace
            .control_plane()
            .audit()
            .done(verb, "secrets")
            .count()
    };
    let before = secrets("get") + secrets("delete");
    for name in ["../secrets/x", "..", "a/b", "a%2f..%2fsecrets%2fx", ""] {
        for key in [
            ObjectKey::namespaced(namespace, name),
            ObjectKey::namespaced(name, "a"),
            ObjectKey::cluster_scoped(name),
        ] {
            // An empty namespace means none, which ConfigMaps do not have.
            let get = Get {
                kind: config_maps(),
                key: key.clone(),
                read: Read::Live,
            };
            assert_eq!(
                refused(stage.api.get(get)).await,
                ErrorKind::BadRequest,
                "{name:?}"
            );
            let delete = Delete {
                kind: config_maps(),
                key,
                options: DeleteOptions::default(),
            };
            assert_eq!(
                refused(stage.api.delete(delete)).await,
                ErrorKind::BadRequest,
                "{name:?}"
            );
        }
        let body = PatchBody::Merge("{}".into());
        // An empty subresource is none.
        let subresource = Some(name)
            .filter(|name| !name.is_empty())
            .unwrap_or("..")
            .to_owned();
        let action = WriteAction::Patch {
            key: stage.key("a"),
            subresource: Some(subresource),
            body,
            force: false,
        };
        assert_eq!(
            refused(stage.write(action, WriteOptions::default())).await,
            ErrorKind::BadRequest,
            "{name:?}"
        );
    }
    assert_eq!(secrets("get") + secrets("delete"), before);
}
