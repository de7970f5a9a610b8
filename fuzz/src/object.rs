//! An object's bytes, as the API server or a guest sends them. An accepted object is JSON, and its
//! fields have the values that serde_json finds. Pruning removes the given fields and no others.
//! Stripping and restoring returns the same bytes.
//!
//! The input: paths to prune, separated by spaces, on the first line, and the object.

use operetta_core::object::{
    ManagedFields, Metadata, Object, OwnerReference, RawObject, kind::GroupVersionKind,
    projection::project, prune::Prune,
};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::cut;

/// Checks the module's invariants on one input.
pub fn object(data: &[u8]) {
    let (paths, bytes) = cut(data, b'\n');
    let paths: Vec<String> = String::from_utf8_lossy(paths)
        .split(' ')
        .map(str::to_owned)
        .collect();
    let kind = GroupVersionKind::new("v1", "Pod");
    // A tree accepts less: numbers beyond f64 and unpaired surrogates are JSON, but not a `Value`.
    let json = serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
    let tree = serde_json::from_slice::<Value>(bytes).ok();
    let kept = Object::from_slice(bytes, &kind, ManagedFields::Keep);
    let dropped = Object::from_slice(bytes, &kind, ManagedFields::Drop);
    assert_eq!(
        kept.as_ref().err(),
        dropped.as_ref().err(),
        "dropping managedFields changes what is accepted"
    );
    let (Ok(kept), Ok(dropped)) = (kept, dropped) else {
        return;
    };
    assert!(json, "a text that is not JSON is accepted");
    for (object, prune) in [
        (&kept, Prune::nothing()),
        (&dropped, Prune::managed_fields()),
    ] {
        check_text(object, &kind);
        check_stripped(object.raw());
        if let Some(tree) = &tree {
            check_fields(object, tree);
            let mut expected = tree.clone();
            for (field, value) in [("apiVersion", &kind.api_version), ("kind", &kind.kind)] {
                let fields = expected.as_object_mut().expect("an object");
                fields
                    .entry(field)
                    .or_insert_with(|| Value::from(value.as_str()));
            }
            if prune != Prune::nothing() {
                remove(&mut expected, "metadata.managedFields");
            }
            assert_eq!(parsed(object.json()), expected);
        }
    }
    check_pruned(&kept, &paths, tree.is_some());
    let projected = project(kept.json(), &paths);
    serde_json::from_str::<IgnoredAny>(&projected).expect("a projection is JSON");
    for path in &paths {
        if let Some(value) = kept.at(path) {
            serde_json::from_str::<IgnoredAny>(value).expect("the value at a path is JSON");
        }
        let _scalar = kept.scalar_at(path);
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("an object is JSON")
}

/// Checks that the object's text is JSON and parses as the same object.
fn check_text(object: &Object, kind: &GroupVersionKind) {
    serde_json::from_str::<IgnoredAny>(object.json()).expect("an object is JSON");
    let again = Object::from_json(object.json(), kind, ManagedFields::Keep)
        .expect("an object parses again");
    assert_eq!(&again, object);
}

fn check_fields(object: &Object, tree: &Value) {
    let meta = &tree["metadata"];
    let text = |field: &str| meta[field].as_str().unwrap_or_default();
    assert_eq!(object.key().name, text("name"));
    assert_eq!(
        object.key().namespace.as_deref().unwrap_or_default(),
        text("namespace")
    );
    assert_eq!(
        (object.uid(), object.resource_version()),
        (text("uid"), text("resourceVersion"))
    );
    assert_eq!(object.deleting(), meta["deletionTimestamp"].is_string());
    // A tree has -0 as a float.
    assert_eq!(
        object.generation(),
        meta["generation"].as_i64().unwrap_or_default()
    );
    let labels = meta["labels"].as_object().cloned().unwrap_or_default();
    for (name, value) in &labels {
        assert_eq!(object.label(name), value.as_str(), "label {name:?}");
    }
    assert!(object.labels().all(|(name, _)| labels.contains_key(name)));
    let owners = Some(&meta["ownerReferences"]).filter(|owners| !owners.is_null());
    let owners = owners.map(|owners| {
        serde_json::from_value::<Vec<OwnerReference>>(owners.clone()).expect("owners")
    });
    assert_eq!(object.owners(), owners.unwrap_or_default());
}

fn check_stripped(raw: &RawObject) {
    let (metadata, rest) = raw.strip();
    let whole = raw.metadata();
    let stripped = Metadata::of_stripped(&metadata);
    assert_eq!(
        (stripped.name(), stripped.namespace()),
        (whole.name(), whole.namespace())
    );
    assert_eq!(
        (stripped.uid(), stripped.resource_version()),
        (whole.uid(), whole.resource_version())
    );
    assert!(stripped.labels().eq(whole.labels()));
    assert!(stripped.is(whole.namespace(), whole.name()));
    let restored = RawObject::restore(&metadata, &rest, &mut String::new())
        .expect("a stripped object is restored");
    assert_eq!(restored.text(), raw.text());
    assert_eq!(
        (restored.generation(), restored.deleting()),
        (raw.generation(), raw.deleting())
    );
    assert_eq!(restored.owners(), raw.owners());
    // Restoring other texts does not panic.
    let _either = RawObject::restore(&rest, &metadata, &mut String::new());
    let _either = RawObject::restore(&metadata, &rest[1..], &mut String::new());
}

fn check_pruned(object: &Object, paths: &[String], comparable: bool) {
    let Ok(prune) = Prune::new(paths) else { return };
    let pruned =
        RawObject::read(object.json(), None, &prune).expect("a pruned object is an object");
    let before = object.raw().metadata();
    let after = pruned.metadata();
    assert_eq!(
        (after.name(), after.namespace()),
        (before.name(), before.namespace())
    );
    assert_eq!(
        (after.uid(), after.resource_version()),
        (before.uid(), before.resource_version())
    );
    assert!(after.labels().eq(before.labels()));
    check_stripped(&pruned);
    if comparable {
        let mut expected = parsed(object.json());
        for path in paths
            .iter()
            .map(|path| path.trim_start_matches('.'))
            .chain(["metadata.managedFields"])
        {
            remove(&mut expected, path);
        }
        assert_eq!(parsed(pruned.text()), expected);
    }
}

/// Removes the value at a path from a tree. The name of a field may have dots.
fn remove(tree: &mut Value, path: &str) {
    let Some(fields) = tree.as_object_mut() else {
        return;
    };
    fields.remove(path);
    for (name, value) in fields {
        if let Some(rest) = path
            .strip_prefix(name.as_str())
            .and_then(|rest| rest.strip_prefix('.'))
        {
            remove(value, rest);
        }
    }
}
