use super::*;
use operetta_core::object::{ManagedFields, kind::GroupVersionKind};

pub(crate) fn object(
    namespace: &str,
    name: &str,
    revision: u64,
    owner: &str,
    node: &str,
) -> Arc<Object> {
    let text = format!(
        r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","uid":"uid-{name}","resourceVersion":"{revision}","labels":{{"app":"{node}"}},
        "ownerReferences":[{{"apiVersion":"v1","kind":"X","name":"x","uid":"{owner}","controller":true}}]}},"spec":{{"nodeName":"{node}"}}}}"#
    );
    let kind = GroupVersionKind::new("v1", "Pod");
    Arc::new(Object::from_json(&text, &kind, ManagedFields::Drop).expect("object"))
}

fn names(objects: impl IntoIterator<Item = Arc<Object>>) -> Vec<String> {
    objects
        .into_iter()
        .map(|object| object.key().to_string())
        .collect()
}

#[test]
fn lists_are_ordered_and_resume_after_a_key() {
    let (store, mut writer) = Store::new();
    for (namespace, name, owner, node) in [
        ("b", "1", "o1", "n1"),
        ("a", "2", "o1", "n2"),
        ("a", "1", "o2", "n1"),
        ("c", "1", "o2", "n1"),
    ] {
        writer.apply(object(namespace, name, 1, owner, node));
    }
    let by_node = IndexKey::Path(".spec.nodeName".into());
    let _by_node = store.declare_index(&by_node);
    assert_eq!(
        names(store.list(&Lookup::All, None, None)),
        ["a/1", "a/2", "b/1", "c/1"]
    );
    assert_eq!(
        names(store.list(&Lookup::All, Some("a"), None)),
        ["a/1", "a/2"]
    );
    let after = ObjectKey::namespaced("a", "1");
    assert_eq!(
        names(store.list(&Lookup::All, Some("a"), Some(&after))),
        ["a/2"]
    );
    assert_eq!(
        names(store.list(&Lookup::Owner("o1".into()), None, None)),
        ["a/2", "b/1"]
    );
    assert_eq!(
        names(store.list(&Lookup::Owner("o1".into()), Some("b"), None)),
        ["b/1"]
    );
    let path = Lookup::Index {
        key: by_node,
        value: "n1".into(),
    };
    assert_eq!(names(store.list(&path, None, Some(&after))), ["b/1", "c/1"]);
    writer.apply(object("b", "1", 2, "o2", "n9"));
    assert_eq!(
        names(store.list(&path, None, None)),
        ["a/1", "c/1"],
        "a changed value leaves the index"
    );
    assert_eq!(
        names(store.list(&Lookup::Owner("o1".into()), None, None)),
        ["a/2"]
    );
}

#[test]
fn index_is_dropped_with_its_last_user() {
    let (store, mut writer) = Store::new();
    let app = IndexKey::Label("app".into());
    for at in 0..100 {
        writer.apply(object("a", &at.to_string(), 1, "o", &format!("value-{at}")));
    }
    let plain = store.bytes();
    let first = store.declare_index(&app);
    let second = store.declare_index(&app);
    let with = store.bytes();
    assert!(
        with > plain + 100 * 100,
        "{with} bytes with the index, {plain} without"
    );
    drop(first);
    assert_eq!(store.bytes(), with, "somebody uses it");
    drop(second);
    assert_eq!(
        (
            store.bytes(),
            store.snapshot(|stored| stored.has_index(&app))
        ),
        (plain, false)
    );
    // Code swaps that declare ever new indexes leave nothing behind.
    for at in 0..1_000 {
        let _used = store.declare_index(&IndexKey::Path(format!(".spec.swap{at}")));
    }
    assert_eq!(store.bytes(), plain);
    let again = store.declare_index(&app);
    let found = Lookup::Index {
        key: app,
        value: "value-7".into(),
    };
    assert_eq!(names(store.list(&found, None, None)), ["a/7"]);
    drop((store, writer));
    drop(again);
}

#[test]
fn relist_reports_added_changed_and_vanished() {
    let (store, mut writer) = Store::new();
    writer.apply(object("a", "kept", 1, "o", "n"));
    writer.apply(object("a", "gone", 2, "o", "n"));
    let mut relist = writer.begin_relist();
    relist.add(object("a", "kept", 3, "o", "n"));
    relist.add(object("a", "new", 4, "o", "n"));
    let relisted = writer.finish(relist);
    let found: Vec<_> = relisted
        .changed
        .iter()
        .map(|(old, new)| (old.is_some(), new.key().name.as_str()))
        .collect();
    assert_eq!(found, [(true, "kept"), (false, "new")]);
    assert_eq!(names(relisted.gone), ["a/gone"]);
    assert_eq!((store.len(), store.revision()), (2, 4));
    for object in store.list(&Lookup::All, None, None) {
        writer.remove(&object);
    }
    assert_eq!((store.len(), store.bytes()), (0, 0));
}
