use serde_json::{Value, json};

use super::{PatchError, merge_with_schema, strategic_merge_patch};

/// Merges a patch into an object whose `list` has a strategy and a merge key.
fn merged(list: Value, original: Value, patch: Value) -> Result<Value, PatchError> {
    let schema: &'static Value =
        Box::leak(Box::new(json!({ "properties": { "list": list, "map": {
        "x-kubernetes-patch-strategy": "retainKeys", "properties": {}
    } } })));
    merge_with_schema(Some(schema), &original, &patch)
}

fn by_name() -> Value {
    json!({
        "type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
        "items": { "properties": { "inner": { "type": "array", "x-kubernetes-patch-strategy": "merge" } } }
    })
}

fn set() -> Value {
    json!({ "type": "array", "x-kubernetes-patch-strategy": "merge" })
}

#[test]
fn lists_are_merged_by_key() {
    let table = [
        (
            json!([{"name": "a"}]),
            json!({"list": [{"name": "b"}]}),
            json!([{"name": "b"}, {"name": "a"}]),
        ),
        (
            json!([{"name": "a", "x": 1}]),
            json!({"list": [{"name": "a", "y": 2}]}),
            json!([{"name": "a", "x": 1, "y": 2}]),
        ),
        (
            json!([{"name": "a"}, {"name": "b"}]),
            json!({"list": [{"name": "a", "$patch": "delete"}]}),
            json!([{"name": "b"}]),
        ),
        (
            json!([{"name": "a"}]),
            json!({"list": [{"$patch": "replace"}, {"name": "z"}]}),
            json!([{"name": "z"}]),
        ),
        (
            json!([{"name": "a"}]),
            json!({"list": [{"$patch": "replace"}]}),
            json!([]),
        ),
        (
            json!([{"name": "a", "x": 1}]),
            json!({"list": [{"name": "a", "x": null}]}),
            json!([{"name": "a"}]),
        ),
        (
            json!([{"name": "a", "inner": [1, 2]}]),
            json!({"list": [{"name": "a", "inner": [3]}]}),
            json!([{"name": "a", "inner": [3, 1, 2]}]),
        ),
        (
            json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]),
            json!({"$setElementOrder/list": [{"name": "c"}, {"name": "a"}], "list": [{"name": "a", "x": 1}]}),
            json!([{"name": "b"}, {"name": "c"}, {"name": "a", "x": 1}]),
        ),
    ];

    for (original, patch, expected) in table {
        let result = merged(by_name(), json!({ "list": original }), patch.clone());
        assert_eq!(result, Ok(json!({ "list": expected })), "{patch}");
    }
}

#[test]
fn scalars_are_merged_as_sets() {
    let table = [
        (json!([1, 2]), json!({"list": [2, 3]}), json!([1, 2, 3])),
        (
            json!([1, 2, 3]),
            json!({"$deleteFromPrimitiveList/list": [2]}),
            json!([1, 3]),
        ),
        (
            json!([1, 2, 3]),
            json!({"$setElementOrder/list": [3, 4, 1], "list": [4], "$deleteFromPrimitiveList/list": [2]}),
            json!([3, 4, 1]),
        ),
    ];

    for (original, patch, expected) in table {
        let result = merged(set(), json!({ "list": original }), patch.clone());
        assert_eq!(result, Ok(json!({ "list": expected })), "{patch}");
    }
}

#[test]
fn maps_follow_directives() {
    let table = [
        (
            json!({"map": {"a": 1}}),
            json!({"map": {"$patch": "replace", "b": 2}}),
            json!({"map": {"b": 2}}),
        ),
        (
            json!({"map": {"a": 1}}),
            json!({"map": {"$patch": "delete"}}),
            json!({"map": {}}),
        ),
        (
            json!({"map": {"a": 1, "b": 1}}),
            json!({"map": {"$retainKeys": ["b"]}}),
            json!({"map": {"b": 1}}),
        ),
        (
            json!({"map": {"a": 1}}),
            json!({"map": {"a": null, "c": {"d": null, "e": 1}}}),
            json!({"map": {"c": {"e": 1}}}),
        ),
        (json!({}), json!({"map": {"$patch": "delete"}}), json!({})),
        (
            json!({"a": 1}),
            json!({"$patch": "replace", "b": 2}),
            json!({"b": 2}),
        ),
    ];

    for (original, patch, expected) in table {
        assert_eq!(
            merged(set(), original, patch.clone()),
            Ok(expected),
            "{patch}"
        );
    }
}

#[test]
fn malformed_patches_are_rejected() {
    let bad = |list: Value, original: Value, patch: Value| {
        merged(list, original, patch)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };

    let original = json!({"list": [{"name": "a"}], "map": {}});
    let message = bad(by_name(), original.clone(), json!({"list": [{"x": 1}]}));
    assert_eq!(
        message,
        "map: map[x:1] does not contain declared merge key: name"
    );

    let message = bad(
        by_name(),
        original.clone(),
        json!({"list": [{"name": "a", "$patch": "x"}]}),
    );
    assert_eq!(
        message,
        "unknown patch type: x in map: map[$patch:x name:a]"
    );

    let message = bad(
        by_name(),
        original.clone(),
        json!({"map": {"$retainKeys": ["a"], "b": 1}}),
    );
    assert_eq!(message, "invalid patch format of retainKeys");

    let message = bad(set(), json!({"list": [1]}), json!({"list": ["a"]}));
    assert_eq!(message, "list element types are not identical: [[1] [a]]");

    assert_eq!(
        bad(set(), json!({"list": [[1]]}), json!({"list": [[2]]})),
        "lists of lists are not supported"
    );

    let patch = json!({"$setElementOrder/list": [{"name": "a"}, {"name": "b"}], "list": [{"name": "b"}, {"name": "a"}]});
    assert!(
        bad(by_name(), original, patch)
            .starts_with("The order in patch list:\n[map[name:b] map[name:a]]\n")
    );
}

#[test]
fn containers_are_merged_by_name_and_ports_by_number() {
    let original = json!({"spec": {"containers": [{"name": "c", "image": "x", "ports": [{"containerPort": 1, "name": "a"}]}]}});
    let patch = json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 2}]}]}});
    let result = strategic_merge_patch("v1", "Pod", &original, &patch).unwrap_or_default();

    let ports = json!([{"containerPort": 2}, {"containerPort": 1, "name": "a"}]);
    assert_eq!(
        result["spec"]["containers"],
        json!([{"name": "c", "image": "x", "ports": ports}])
    );
}
