//! Custom resources, from their definition to its deletion.

use serde_json::{Value, json};

use crate::client::Client;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

pub(super) fn definition(versions: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]}, "versions": versions,
        },
    })
}

pub(super) fn version(name: &str, storage: bool, properties: &Value) -> Value {
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": properties,
            "x-kubernetes-validations": [{"rule": "self.size < 10", "message": "too big"}]},
        "status": status,
    }});

    json!({
        "name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        "selectableFields": [{"jsonPath": ".spec.size"}],
    })
}

pub(super) fn size() -> Value {
    json!({"size": {"type": "integer", "default": 1}})
}

fn widget(api_version: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

pub(super) async fn define(client: &Client, versions: &Value) {
    client.create(DEFINITIONS, &definition(versions)).await;
    client
        .wait(
            &format!("{DEFINITIONS}/widgets.example.com"),
            "/status/conditions/1/type",
            &json!("Established"),
        )
        .await;

    client
        .wait("/apis/example.com/v1", "/kind", &json!("APIResourceList"))
        .await;
}

#[tokio::test]
async fn watch_ends_with_its_definition() {
    let client = Client::new();
    define(&client, &json!([version("v1", true, &size())])).await;

    client
        .create(WIDGETS, &widget("example.com/v1", "a", &json!({})))
        .await;

    let path = format!("{WIDGETS}?watch=true&resourceVersion=0");
    let watch = client.get(&path);
    let definition = format!("{DEFINITIONS}/widgets.example.com");
    let delete = client.delete(&definition, "");
    let watched = async { tokio::time::timeout(std::time::Duration::from_secs(10), watch).await };
    let (watched, ()) = tokio::join!(watched, delete);

    let (code, events) = watched.expect("the watch ends");
    let events = events.as_str().expect("lines");
    let types: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("an event")["type"].clone())
        .collect();
    assert_eq!((code, types), (200, vec![json!("ADDED"), json!("DELETED")]));
}

#[tokio::test]
async fn definition_serves_defaulted_validated_and_pruned_objects() {
    let client = Client::new();
    define(&client, &json!([version("v1", true, &size())])).await;

    let created = client
        .create(
            WIDGETS,
            &widget("example.com/v1", "a", &json!({"unknown": 1})),
        )
        .await;

    assert_eq!(created["spec"], json!({"size": 1}));
    assert_eq!(created["metadata"]["generation"], 1);

    let (code, refused) = client
        .send(
            "POST",
            WIDGETS,
            &[],
            &widget("example.com/v1", "b", &json!({"size": 12})),
        )
        .await;

    assert_eq!(
        (code, &refused["details"]["causes"][0]["message"]),
        (422, &json!("Invalid value: too big"))
    );

    let (code, scaled) = client
        .send(
            "PATCH",
            &format!("{WIDGETS}/a/scale"),
            &["content-type: application/merge-patch+json"],
            &json!({"spec": {"replicas": 3}}),
        )
        .await;
    assert_eq!((code, &scaled["spec"]["replicas"]), (200, &json!(3)));

    let (_, selected) = client
        .get(&format!("{WIDGETS}?fieldSelector=spec.size%3D3"))
        .await;
    assert_eq!(selected["items"].as_array().map(Vec::len), Some(1));

    let (_, table) = client
        .send(
            "GET",
            WIDGETS,
            &["accept: application/json;as=Table;v=v1;g=meta.k8s.io"],
            &Value::Null,
        )
        .await;
    assert_eq!(table["rows"][0]["cells"], json!(["a", 3]));

    let (_, document) = client.get("/openapi/v3/apis/example.com/v1").await;
    let schemas = document["components"]["schemas"]
        .as_object()
        .expect("schemas");
    assert!(
        schemas.contains_key("com.example.v1.Widget"),
        "{:?}",
        schemas.keys()
    );
}

#[tokio::test]
async fn object_of_before_a_new_default_is_read_with_it() {
    let client = Client::new();
    define(&client, &json!([version("v1", true, &size())])).await;

    client
        .create(WIDGETS, &widget("example.com/v1", "a", &json!({})))
        .await;

    let path = format!("{DEFINITIONS}/widgets.example.com");
    let (_, mut changed) = client.get(&path).await;
    let color = json!({"type": "string", "default": "red"});
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["color"] = color;

    let (code, answer) = client.send("PUT", &path, &[], &changed).await;
    assert_eq!(code, 200, "{answer}");

    client
        .wait(&format!("{WIDGETS}/a"), "/spec/color", &json!("red"))
        .await;

    let (_, list) = client.get(WIDGETS).await;
    assert_eq!(list["items"][0]["spec"]["color"], "red");
}

#[tokio::test]
async fn object_is_served_in_each_version() {
    let client = Client::new();
    let other = json!({"size": {"type": "integer", "default": 1}, "extra": {"type": "string", "default": "x"}});
    let mut versions = json!([version("v1", true, &size()), version("v2", false, &other)]);

    for version in versions.as_array_mut().expect("versions") {
        // The API server refuses versions with different schemas and the same selectable fields.
        version
            .as_object_mut()
            .expect("a version")
            .remove("selectableFields");
    }
    define(&client, &versions).await;

    let path = "/apis/example.com/v2/namespaces/default/widgets";
    let created = client
        .create(path, &widget("example.com/v2", "a", &json!({"extra": "y"})))
        .await;

    // The stored version lacks the field, so it comes back with its default.
    assert_eq!(created["spec"], json!({"extra": "x", "size": 1}));

    let (_, group) = client.get("/apis/example.com").await;
    assert_eq!(group["preferredVersion"]["version"], "v2");

    let (_, found) = client.get(&format!("{WIDGETS}/a")).await;
    assert_eq!(found["spec"], json!({"size": 1}));
}

#[tokio::test]
async fn deleted_definition_takes_its_objects_along() {
    let client = Client::new();
    define(&client, &json!([version("v1", true, &size())])).await;

    let mut held = widget("example.com/v1", "held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    client.create(WIDGETS, &held).await;
    client
        .create(WIDGETS, &widget("example.com/v1", "free", &json!({})))
        .await;

    let path = format!("{DEFINITIONS}/widgets.example.com");
    let (code, _) = client.send("DELETE", &path, &[], &Value::Null).await;
    assert_eq!(code, 200);

    client
        .wait(&format!("{WIDGETS}/free"), "/code", &json!(404))
        .await;

    let (code, _) = client
        .send(
            "POST",
            WIDGETS,
            &[],
            &widget("example.com/v1", "late", &json!({})),
        )
        .await;
    assert_eq!(code, 405, "a terminating definition takes no new objects");

    let (_, found) = client.get(&path).await;
    assert!(
        found["metadata"]["deletionTimestamp"].is_string(),
        "an object is left: {found}"
    );

    let (code, _) = client
        .send(
            "PATCH",
            &format!("{WIDGETS}/held"),
            &["content-type: application/merge-patch+json"],
            &json!({"metadata": {"finalizers": null}}),
        )
        .await;
    assert_eq!(code, 200);

    client.wait(&path, "/code", &json!(404)).await;
    let (code, _) = client.get(WIDGETS).await;
    assert_eq!(code, 404);
}

/// Returns the definition of another kind.
fn gadgets() -> Value {
    let mut gadgets = definition(&json!([version("v1", true, &size())]));
    gadgets["metadata"]["name"] = "gadgets.example.com".into();
    gadgets["spec"]["names"] = json!({"plural": "gadgets", "kind": "Gadget"});
    gadgets
}

/// Deletes the definition of widgets, of which a finalizer holds one.
async fn begin_end_of_widgets(client: &Client) {
    define(client, &json!([version("v1", true, &size())])).await;
    let mut held = widget("example.com/v1", "held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    client.create(WIDGETS, &held).await;

    client
        .delete(&format!("{DEFINITIONS}/widgets.example.com"), "")
        .await;
    // Its end is under way once the object is being deleted.
    client
        .wait(
            &format!("{WIDGETS}/held"),
            "/metadata/deletionGracePeriodSeconds",
            &json!(0),
        )
        .await;
}

async fn release_held_widget(client: &Client) {
    let released = json!({"metadata": {"finalizers": null}});
    client.patch(&format!("{WIDGETS}/held"), &released).await;
}

#[tokio::test]
async fn end_of_one_definition_holds_up_no_other() {
    let client = Client::new();
    begin_end_of_widgets(&client).await;

    // Another definition is served, and ends, while the first one waits for a finalizer.
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    let objects = "/apis/example.com/v1/namespaces/default/gadgets";
    for _ in 0..2 {
        client.create(DEFINITIONS, &gadgets()).await;
        let established = json!("Established");
        client
            .wait(&path, "/status/conditions/1/type", &established)
            .await;
        client.wait(objects, "/kind", &json!("GadgetList")).await;

        let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}, "spec": {}});
        client.create(objects, &gadget).await;
        client.delete(&path, "").await;
        client.wait(&path, "/code", &json!(404)).await;
        assert_eq!(client.get(objects).await.0, 404);
    }

    let widgets = format!("{DEFINITIONS}/widgets.example.com");
    assert_eq!(client.get(&widgets).await.0, 200, "it still waits");
    release_held_widget(&client).await;
    client.wait(&widgets, "/code", &json!(404)).await;
}

#[tokio::test]
async fn definition_that_comes_back_during_its_end_is_served_and_ends() {
    let client = Client::new();
    begin_end_of_widgets(&client).await;

    // Somebody removes the finalizer by hand, and the definition is made again. Its object is left.
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let removed = json!({"metadata": {"finalizers": null}});
    client.patch(&path, &removed).await;
    client.wait(&path, "/code", &json!(404)).await;
    define(&client, &json!([version("v1", true, &size())])).await;
    client.wait(WIDGETS, "/kind", &json!("WidgetList")).await;
    assert_eq!(client.names(WIDGETS).await, ["held"]);

    release_held_widget(&client).await;
    client.delete(&path, "").await;
    client.wait(&path, "/code", &json!(404)).await;
}

#[tokio::test]
async fn rules_may_compare_the_type_of_the_old_value() {
    let client = Client::new();
    let rule = "type(oldSelf) == optional_type && self >= oldSelf.orValue(0)";
    let size = json!({"size": {"type": "integer", "x-kubernetes-validations": [
        {"rule": rule, "optionalOldSelf": true, "message": "must not shrink"},
    ]}});
    define(&client, &json!([version("v1", true, &size)])).await;

    client
        .create(WIDGETS, &widget("example.com/v1", "a", &json!({"size": 2})))
        .await;
    client
        .patch(&format!("{WIDGETS}/a"), &json!({"spec": {"size": 3}}))
        .await;

    let media = "content-type: application/merge-patch+json";
    let smaller = json!({"spec": {"size": 1}});
    let (code, refused) = client
        .send("PATCH", &format!("{WIDGETS}/a"), &[media], &smaller)
        .await;
    assert_eq!(code, 422, "{refused}");
    assert!(refused.to_string().contains("must not shrink"), "{refused}");
}
