use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    CutShort, Draft, EventKind, GroupResource, ListQuery, LogError, ObjectKey, Store, StoreError,
    StoredObject, Window,
};

fn configmaps() -> GroupResource {
    GroupResource::new("", "configmaps")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

fn draft(data: u64) -> Draft {
    let object = json!({"metadata": {"name": "x", "uid": "u", "labels": {"data": data.to_string()}}, "data": data});
    Draft::from_object(&object)
}

fn data(object: &StoredObject) -> u64 {
    object.to_value().expect("JSON")["data"]
        .as_u64()
        .expect("a number")
}

fn names(store: &Store, revision: Option<u64>) -> Result<Vec<(String, u64)>, StoreError> {
    let listing = store.list(
        &configmaps(),
        &ListQuery {
            revision,
            ..ListQuery::default()
        },
    )?;

    Ok(listing
        .items
        .iter()
        .map(|object| (object.key().name().to_owned(), data(object)))
        .collect())
}

#[test]
fn object_is_written_with_its_type_and_revision() {
    let store = Store::new(Window::default());
    let created = store
        .create(&configmaps(), &key("a"), draft(1))
        .expect("created");

    let mut text = Vec::new();
    created.write_json(&mut text, r#""kind":"ConfigMap","apiVersion":"v1","#);
    let value: Value = serde_json::from_slice(&text).expect("JSON");

    assert_eq!(value["kind"], "ConfigMap");
    assert_eq!(
        value["metadata"]["resourceVersion"],
        created.revision().to_string()
    );
    assert_eq!(value["metadata"]["name"], "x");
    assert_eq!(value["data"], 1);
    assert_eq!((created.uid(), created.label("data")), ("u", Some("1")));
}

#[test]
fn writes_name_the_revision_that_they_replace() {
    let store = Store::new(Window::default());
    let missing = store.update(&configmaps(), &key("a"), draft(1), 1);
    assert!(matches!(missing, Err(StoreError::NotFound)));

    let created = store
        .create(&configmaps(), &key("a"), draft(1))
        .expect("created");
    assert!(matches!(
        store.create(&configmaps(), &key("a"), draft(2)),
        Err(StoreError::AlreadyExists)
    ));

    let updated = store
        .update(&configmaps(), &key("a"), draft(2), created.revision())
        .expect("updated");
    assert!(updated.revision() > created.revision());

    let stale = store.update(&configmaps(), &key("a"), draft(3), created.revision());
    assert!(
        matches!(stale, Err(StoreError::Conflict { current }) if current == updated.revision())
    );
    let stale = store.delete(&configmaps(), &key("a"), created.revision());
    assert!(matches!(stale, Err(StoreError::Conflict { .. })));

    assert_eq!(
        store.revision(),
        updated.revision(),
        "refused writes take no revision"
    );

    let deleted = store
        .delete(&configmaps(), &key("a"), updated.revision())
        .expect("deleted");

    assert_eq!((deleted.revision(), data(&deleted)), (store.revision(), 2));
    assert!(store.get(&configmaps(), &key("a")).is_none());
}

#[test]
fn keys_are_ordered_as_in_etcd() {
    let store = Store::new(Window::default());
    for (namespace, name) in [
        ("a", "x"),
        ("a-b", "x"),
        ("b", "x"),
        ("a", "b"),
        ("a.c", "y"),
    ] {
        store
            .create(
                &configmaps(),
                &ObjectKey::namespaced(namespace, name),
                draft(0),
            )
            .expect("created");
    }

    let listing = store
        .list(&configmaps(), &ListQuery::default())
        .expect("a list");
    let keys: Vec<&str> = listing
        .items
        .iter()
        .map(|object| object.key().as_str())
        .collect();
    assert_eq!(keys, ["a-b/x", "a.c/y", "a/b", "a/x", "b/x"]);

    let query = ListQuery {
        namespace: Some("a"),
        ..ListQuery::default()
    };

    assert_eq!(
        store
            .list(&configmaps(), &query)
            .expect("a list")
            .items
            .len(),
        2
    );
}

#[test]
fn pages_pinned_to_a_revision_ignore_later_changes() {
    let store = Store::new(Window::default());
    for name in ["a", "b", "c", "d"] {
        store
            .create(&configmaps(), &key(name), draft(1))
            .expect("created");
    }

    let first = store
        .list(
            &configmaps(),
            &ListQuery {
                limit: 2,
                ..ListQuery::default()
            },
        )
        .expect("a page");
    assert_eq!(
        (first.items.len(), first.more, first.remaining),
        (2, true, 2)
    );

    let live = store.get(&configmaps(), &key("c")).expect("c");
    store
        .update(&configmaps(), &key("c"), draft(2), live.revision())
        .expect("updated");
    let live = store.get(&configmaps(), &key("d")).expect("d");
    store
        .delete(&configmaps(), &key("d"), live.revision())
        .expect("deleted");
    store
        .create(&configmaps(), &key("bb"), draft(3))
        .expect("created");

    let query = ListQuery {
        revision: Some(first.revision),
        start: Some("default/b\0"),
        limit: 2,
        ..ListQuery::default()
    };
    let second = store.list(&configmaps(), &query).expect("a page");

    let found: Vec<(&str, u64)> = second
        .items
        .iter()
        .map(|object| (object.key().name(), data(object)))
        .collect();

    assert_eq!(found, [("c", 1), ("d", 1)]);
    assert!(!second.more);
}

#[test]
fn lists_before_the_window_are_refused() {
    let store = Store::new(Window {
        events: 3,
        ..Window::default()
    });
    let first = store
        .create(&configmaps(), &key("a"), draft(0))
        .expect("created");

    let mut live = Arc::clone(&first);
    for value in 1..6 {
        live = store
            .update(&configmaps(), &key("a"), draft(value), live.revision())
            .expect("updated");
    }

    let refused = names(&store, Some(first.revision()));
    assert!(
        matches!(refused, Err(StoreError::Compacted { oldest, .. }) if oldest == live.revision() - 3)
    );
    assert_eq!(
        names(&store, Some(live.revision() - 3)).expect("a list"),
        [("a".to_owned(), 2)]
    );

    let refused = names(&store, Some(live.revision() + 1));
    assert!(matches!(refused, Err(StoreError::FutureRevision { .. })));

    store.compact();
    assert!(matches!(
        names(&store, Some(live.revision() - 1)),
        Err(StoreError::Compacted { .. })
    ));
    assert_eq!(
        names(&store, Some(live.revision())).expect("a list").len(),
        1
    );
}

#[test]
fn window_is_bounded_by_bytes() {
    let store = Store::new(Window {
        events: 1_000_000,
        bytes: 64 << 10,
    });

    let large = || Draft::from_object(&json!({"metadata": {}, "data": "x".repeat(10_000)}));

    let mut live = store
        .create(&configmaps(), &key("a"), large())
        .expect("created");
    for _ in 0..20 {
        live = store
            .update(&configmaps(), &key("a"), large(), live.revision())
            .expect("updated");
    }

    assert!(store.oldest(&configmaps()) >= live.revision() - 7);
}

#[test]
fn window_counts_labels_and_deleted_objects() {
    const LABELS: usize = 40;
    const BYTES: usize = 64 << 10;
    let labels: BTreeMap<String, String> = (0..LABELS)
        .map(|index| (format!("label-{index:030}"), "x".repeat(30)))
        .collect();
    let text: usize = labels
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();

    let store = Store::new(Window {
        events: 1_000_000,
        bytes: BYTES,
    });
    for index in 0..200 {
        let name = key(&index.to_string());
        let draft = Draft::from_object(&json!({"metadata": {"labels": labels}}));
        let created = store.create(&configmaps(), &name, draft).expect("created");
        store
            .delete(&configmaps(), &name, created.revision())
            .expect("deleted");
    }

    // Each deletion keeps the labels three times: in the text, and as the labels of the object
    // before and after.
    let kept = usize::try_from(store.revision() - store.oldest(&configmaps())).expect("few");
    assert!(kept >= 4, "{kept}");
    assert!(kept / 2 * 3 * text <= BYTES, "{kept}");
}

#[test]
fn stored_text_takes_no_more_room_than_it_needs() {
    for length in [0, 300, 5_000, 70_000] {
        let object = json!({"metadata": {"name": "a"}, "data": "x".repeat(length)});
        let tail = Draft::from_object(&object).tail().clone();

        let tail = tail.try_into_mut().expect("nothing else holds it");
        assert_eq!(tail.capacity(), tail.len());
    }
}

#[test]
fn compaction_keeps_what_is_after_its_revision() {
    let store = Store::new(Window::default());
    let secrets = GroupResource::new("", "secrets");
    let untouched = store.revision();
    let first = store
        .create(&configmaps(), &key("a"), draft(1))
        .expect("created");
    let second = store
        .update(&configmaps(), &key("a"), draft(2), first.revision())
        .expect("updated");
    let last = store
        .update(&configmaps(), &key("a"), draft(3), second.revision())
        .expect("updated");
    let mut behind = store
        .watch(&configmaps(), first.revision())
        .expect("a watch");
    let (_, mut follower) = store.follow();

    store.compact_to(second.revision());

    assert_eq!(
        names(&store, Some(second.revision())).expect("a list"),
        [("a".to_owned(), 2)]
    );
    assert!(matches!(
        names(&store, Some(first.revision())),
        Err(StoreError::Compacted { .. })
    ));
    assert!(matches!(behind.poll(), Err(StoreError::Compacted { .. })));
    let mut level = store
        .watch(&configmaps(), second.revision())
        .expect("a watch");
    let seen = level.poll().expect("events").events;
    assert_eq!(
        seen.iter()
            .map(|event| event.revision())
            .collect::<Vec<_>>(),
        [last.revision()]
    );

    // Other resources are as they were then, and everything goes on.
    let mut other = store.watch(&secrets, untouched).expect("a watch");
    store.compact_to(u64::MAX);
    store
        .create(&secrets, &key("b"), draft(4))
        .expect("created");
    assert_eq!(other.poll().expect("events").events.len(), 1);
    assert_eq!(follower.poll().expect("events").len(), 1);
}

#[tokio::test]
async fn watch_after_others_have_ended_wakes_up() {
    let store = Store::new(Window::default());
    drop(store.watch(&configmaps(), store.revision()));
    store.compact_to(store.revision());

    let mut watcher = store
        .watch(&configmaps(), store.revision())
        .expect("a watch");
    store.compact_to(store.revision());
    let (batch, _) = tokio::join!(watcher.next(), async {
        tokio::task::yield_now().await;
        store.create(&configmaps(), &key("a"), draft(0))
    });
    assert_eq!(batch.expect("events").events.len(), 1);
}

#[tokio::test]
async fn watcher_sees_each_change_once_in_order() {
    let store = Store::new(Window::default());
    let before = store
        .create(&configmaps(), &key("a"), draft(0))
        .expect("created");

    let mut watcher = store
        .watch(&configmaps(), before.revision())
        .expect("a watch");

    store
        .create(&GroupResource::new("", "secrets"), &key("s"), draft(9))
        .expect("created");
    let updated = store
        .update(&configmaps(), &key("a"), draft(1), before.revision())
        .expect("updated");
    let deleted = store
        .delete(&configmaps(), &key("a"), updated.revision())
        .expect("deleted");

    let batch = watcher.next().await.expect("events");
    let seen: Vec<(EventKind, u64)> = batch
        .events
        .iter()
        .map(|event| (event.kind, event.revision()))
        .collect();

    assert_eq!(
        seen,
        [
            (EventKind::Updated, updated.revision()),
            (EventKind::Deleted, deleted.revision())
        ]
    );

    assert_eq!(
        batch.events[1]
            .previous
            .as_ref()
            .map(|previous| data(previous)),
        Some(1)
    );
    assert!(watcher.poll().expect("nothing").events.is_empty());

    let waiting = tokio::spawn(async move { watcher.next().await.expect("an event").events.len() });
    tokio::task::yield_now().await;
    store
        .create(&configmaps(), &key("b"), draft(0))
        .expect("created");

    assert_eq!(waiting.await.expect("a result"), 1);
}

#[test]
fn idle_watcher_survives_changes_of_other_resources() {
    let store = Store::new(Window {
        events: 4,
        ..Window::default()
    });

    let mut watcher = store
        .watch(&configmaps(), store.revision())
        .expect("a watch");

    for index in 0..20 {
        let name = key(&index.to_string());
        store
            .create(&GroupResource::new("", "secrets"), &name, draft(0))
            .expect("created");
    }

    store
        .create(&configmaps(), &key("a"), draft(0))
        .expect("created");

    assert_eq!(watcher.poll().expect("an event").events.len(), 1);
}

#[test]
fn slow_watcher_is_told_that_it_missed_changes() {
    let store = Store::new(Window {
        events: 4,
        ..Window::default()
    });
    let mut watcher = store
        .watch(&configmaps(), store.revision())
        .expect("a watch");

    for index in 0..5 {
        store
            .create(&configmaps(), &key(&index.to_string()), draft(0))
            .expect("created");
    }

    assert!(matches!(watcher.poll(), Err(StoreError::Compacted { .. })));
    assert!(matches!(
        store.watch(&configmaps(), 1),
        Err(StoreError::Compacted { .. })
    ));
}

/// A reproducible sequence of random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Makes a random write, and repeats it in a model.
fn write(store: &Store, model: &mut BTreeMap<String, u64>, random: &mut Random) {
    let name = format!("n{}", random.below(12));
    let value = random.below(1_000);

    match store.get(&configmaps(), &key(&name)) {
        None => {
            store
                .create(&configmaps(), &key(&name), draft(value))
                .expect("created");
            model.insert(name, value);
        }
        Some(live) if random.below(3) == 0 => {
            store
                .delete(&configmaps(), &key(&name), live.revision())
                .expect("deleted");
            model.remove(&name);
        }
        Some(live) => {
            store
                .update(&configmaps(), &key(&name), draft(value), live.revision())
                .expect("updated");
            model.insert(name, value);
        }
    }
}

#[test]
fn past_lists_equal_the_model_at_each_revision() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let store = Store::new(Window {
            events: 64,
            ..Window::default()
        });

        let mut model = BTreeMap::new();
        let mut history: HashMap<u64, Vec<(String, u64)>> = HashMap::new();

        for _ in 0..200 {
            write(&store, &mut model, &mut random);
            let state = model
                .iter()
                .map(|(name, value)| (name.clone(), *value))
                .collect();
            history.insert(store.revision(), state);

            let revision = 2 + random.below(store.revision() - 1);
            match names(&store, Some(revision)) {
                Ok(found) => assert_eq!(
                    found, history[&revision],
                    "seed {seed}, revision {revision}"
                ),
                Err(StoreError::Compacted { oldest, .. }) => {
                    assert!(revision < oldest, "seed {seed}");
                }
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
    }
}

#[test]
fn replayed_watch_equals_the_store() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let store = Store::new(Window::default());

        let mut model = BTreeMap::new();
        let mut watcher = store
            .watch(&configmaps(), store.revision())
            .expect("a watch");
        let mut seen = BTreeMap::new();

        for _ in 0..100 {
            for _ in 0..random.below(8) {
                write(&store, &mut model, &mut random);
            }

            for event in watcher.poll().expect("events").events {
                let name = event.object.key().name().to_owned();
                match event.kind {
                    EventKind::Deleted => drop(seen.remove(&name)),
                    EventKind::Created => assert!(
                        seen.insert(name, data(&event.object)).is_none(),
                        "seed {seed}"
                    ),
                    EventKind::Updated => assert!(
                        seen.insert(name, data(&event.object)).is_some(),
                        "seed {seed}"
                    ),
                }
            }

            assert_eq!(seen, model, "seed {seed}");
        }
    }
}

fn file() -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("data");
    (folder, path)
}

fn filled(path: &Path) -> Vec<(String, u64)> {
    let (store, opened) = Store::open(path, Window::default()).expect("opened");
    assert_eq!(opened.objects, 0);

    let mut model = BTreeMap::new();
    let mut random = Random(5);
    for _ in 0..100 {
        write(&store, &mut model, &mut random);
    }

    assert_eq!(store.revision(), 101);
    model.into_iter().collect()
}

#[test]
fn file_keeps_objects_and_revision() {
    let (_folder, path) = file();
    let expected = filled(&path);

    let (store, opened) = Store::open(&path, Window::default()).expect("opened");
    assert_eq!(
        (opened.objects, opened.revision, opened.cut_short),
        (expected.len(), 101, None)
    );
    assert_eq!(names(&store, None).expect("a list"), expected);
    assert!(matches!(
        store.watch(&configmaps(), 50),
        Err(StoreError::Compacted { .. })
    ));

    let fields = BTreeMap::from([("type".to_owned(), "Opaque".to_owned())]);
    store
        .create(&configmaps(), &key("fields"), draft(1).with_fields(fields))
        .expect("created");

    store.compact_file().expect("compacted");
    let size = fs::metadata(&path).expect("a file").len();
    store
        .create(&configmaps(), &key("last"), draft(7))
        .expect("created");
    assert!(fs::metadata(&path).expect("a file").len() > size);

    drop(store);
    let (store, opened) = Store::open(&path, Window::default()).expect("opened");
    assert_eq!((opened.objects, opened.revision), (expected.len() + 2, 103));

    let kept = store.get(&configmaps(), &key("fields")).expect("an object");
    assert_eq!(
        (kept.field("type"), kept.label("data"), kept.uid()),
        (Some("Opaque"), Some("1"), "u")
    );
}

#[test]
fn file_in_use_is_refused() {
    let (_folder, path) = file();
    let _open = Store::open(&path, Window::default()).expect("opened");
    assert!(matches!(
        Store::open(&path, Window::default()),
        Err(LogError::Io { action: "lock", .. })
    ));
}

#[test]
fn record_cut_short_is_moved_aside_and_reported() {
    let (_folder, path) = file();
    filled(&path);

    let whole = fs::read(&path).expect("a file");
    let cut = whole.len() - 3;
    fs::write(&path, &whole[..cut]).expect("written");

    let (store, opened) = Store::open(&path, Window::default()).expect("opened");
    let CutShort { offset, moved_to } = opened.cut_short.expect("a cut record");

    assert_eq!(opened.revision, 100);
    assert_eq!(
        fs::read(&moved_to).expect("the bytes"),
        &whole[offset as usize..cut]
    );

    store
        .create(&configmaps(), &key("next"), draft(1))
        .expect("created");
    drop(store);

    assert_eq!(
        Store::open(&path, Window::default())
            .expect("opened")
            .1
            .revision,
        101
    );

    let longer = fs::read(&path).expect("a file");
    fs::write(&path, &longer[..longer.len() - 1]).expect("written");
    assert!(matches!(
        Store::open(&path, Window::default()),
        Err(LogError::CutShort { .. })
    ));

    assert_eq!(
        fs::read(&path).expect("a file").len(),
        longer.len() - 1,
        "the file stays as it is"
    );
}

#[test]
fn other_files_are_refused_and_stay() {
    let (_folder, path) = file();
    filled(&path);
    let whole = fs::read(&path).expect("a file");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;

    let newer = [b"operetta-apiserver-data 2\n".as_slice(), &whole[26..]].concat();
    let cases = [
        ("damaged", damaged),
        ("version", newer),
        ("foreign", b"{\"kind\":\"List\"}\n".to_vec()),
    ];
    for (name, bytes) in cases {
        fs::write(&path, &bytes).expect("written");

        let error = Store::open(&path, Window::default()).err().expect(name);
        match name {
            "damaged" => assert!(matches!(error, LogError::Damaged { .. }), "{error}"),
            "version" => assert!(
                matches!(&error, LogError::Version { found, .. } if found == "2"),
                "{error}"
            ),
            _ => assert!(matches!(error, LogError::Foreign { .. }), "{error}"),
        }

        assert_eq!(fs::read(&path).expect("a file"), bytes, "{name}");
    }
}

#[test]
fn file_cut_at_any_byte_opens_or_is_refused() {
    let (folder, path) = file();

    let (store, _) = Store::open(&path, Window::default()).expect("opened");
    for name in ["a", "b", "c"] {
        store
            .create(&configmaps(), &key(name), draft(1))
            .expect("created");
    }

    drop(store);
    let whole = fs::read(&path).expect("a file");

    for length in 1..whole.len() {
        let copy = folder.path().join(format!("cut{length}"));
        fs::write(&copy, &whole[..length]).expect("written");

        match Store::open(&copy, Window::default()) {
            Ok((_, opened)) => assert!(opened.objects <= 3),
            Err(LogError::Foreign { .. }) => assert!(length < 26),
            Err(error) => panic!("{length}: {error}"),
        }
    }
}

#[test]
fn bloated_file_is_rewritten() {
    let (_folder, path) = file();
    let (store, _) = Store::open(
        &path,
        Window {
            events: 8,
            ..Window::default()
        },
    )
    .expect("opened");

    let large = |value: u64| {
        Draft::from_object(&json!({"metadata": {}, "data": value, "x": "x".repeat(100_000)}))
    };

    let mut live = store
        .create(&configmaps(), &key("a"), large(0))
        .expect("created");
    for value in 1..120 {
        let draft = large(value);
        live = store
            .update(&configmaps(), &key("a"), draft, live.revision())
            .expect("updated");
    }

    assert!(fs::metadata(&path).expect("a file").len() < 5 << 20);
    drop(store);

    let (store, opened) = Store::open(&path, Window::default()).expect("opened");
    assert_eq!((opened.objects, store.revision()), (1, live.revision()));
    assert_eq!(
        names(&store, None).expect("a list"),
        [("a".to_owned(), 119)]
    );
}

#[tokio::test]
async fn follower_sees_changes_of_all_resources_in_order() {
    let store = Store::new(Window {
        events: 3,
        bytes: usize::MAX,
    });

    let secrets = GroupResource::new("", "secrets");
    store
        .create(&secrets, &key("old"), draft(0))
        .expect("create");

    let (objects, mut follower) = store.follow();
    assert_eq!(objects.len(), 1);

    let first = store
        .create(&configmaps(), &key("a"), draft(1))
        .expect("create");
    store.create(&secrets, &key("b"), draft(2)).expect("create");
    store
        .delete(&configmaps(), &key("a"), first.revision())
        .expect("delete");

    follower.wait().await;
    let seen = follower.poll().expect("the window has them");
    let seen: Vec<_> = seen
        .iter()
        .map(|(resource, event)| (resource.resource(), event.kind))
        .collect();

    let expected = [
        ("configmaps", EventKind::Created),
        ("secrets", EventKind::Created),
        ("configmaps", EventKind::Deleted),
    ];
    assert_eq!(seen, expected);
    assert!(follower.poll().expect("nothing new").is_empty());

    for number in 0..4 {
        store
            .create(&secrets, &key(&format!("new-{number}")), draft(number))
            .expect("create");
    }

    assert!(matches!(follower.poll(), Err(StoreError::Compacted { .. })));
}
