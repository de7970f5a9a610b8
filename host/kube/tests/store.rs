//! The store against a plain map, on random histories, and against concurrent readers.
//!
//! After each step every key, list, index and page is as in the map, in order; the bytes are the
//! sum of the stored ones; and a relist reports exactly its changes. The seed is printed;
//! `OPERETTA_SEED` repeats a run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use operetta_core::{
    manifest::IndexKey,
    object::{
        ManagedFields, Object, ObjectKey,
        kind::GroupVersionKind,
        prune::Prune,
        selector::{LabelSelector, MetadataFieldSelector},
    },
};
use operetta_kube::store::{
    Lookup, Packing, Store, Writer,
    cache::{Cache, Query, key_of_token},
    overlay::Overlay,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// An object of the map.
#[derive(Clone, PartialEq)]
struct Thing {
    uid: u32,
    revision: u64,
    owner: u32,
    app: Option<u32>,
    node: Option<u32>,
}

type Map = BTreeMap<ObjectKey, Thing>;

fn object(key: &ObjectKey, thing: &Thing) -> Arc<Object> {
    let Thing {
        uid,
        revision,
        owner,
        app,
        node,
    } = thing;
    let namespace = key
        .namespace
        .as_ref()
        .map(|namespace| format!(r#""namespace":"{namespace}","#))
        .unwrap_or_default();
    let app = app
        .map(|app| format!(r#","app":"{app}""#))
        .unwrap_or_default();
    let node = node
        .map(|node| format!(r#""nodeName":"{node}","#))
        .unwrap_or_default();
    let owners = (*owner > 0).then(|| {
        let controls = !owner.is_multiple_of(5);
        format!(r#","ownerReferences":[{{"apiVersion":"v1","kind":"X","name":"x-{owner}","uid":"o-{owner}","controller":{controls}}}]"#)
    });
    let owners = owners.unwrap_or_default();
    let words = "what all of them have in common, and what makes them long ".repeat(12);
    let text = format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{}",{namespace}"uid":"u-{uid}","resourceVersion":"{revision}","labels":{{"a":"b"{app}}}{owners}}},"spec":{{{node}"words":"{words}"}}}}"#,
        key.name
    );
    Arc::new(
        Object::from_json(
            &text,
            &GroupVersionKind::new("v1", "Pod"),
            ManagedFields::Drop,
        )
        .expect("an object"),
    )
}

struct History {
    chance: StdRng,
    map: Map,
    cache: Cache,
    writer: Writer,
    clock: u64,
    /// True if the test also reads pages.
    paged: bool,
}

fn indexes() -> [IndexKey; 3] {
    [
        IndexKey::Path(".spec.nodeName".into()),
        IndexKey::Label("app".into()),
        IndexKey::Controller(GroupVersionKind::new("v1", "X")),
    ]
}

impl History {
    fn key(&mut self) -> ObjectKey {
        let name = format!("n{}", self.chance.random_range(0..60));
        match self.chance.random_range(0..5) {
            0 => ObjectKey::cluster_scoped(name),
            namespace => ObjectKey::namespaced(format!("s{namespace}"), name),
        }
    }

    fn thing(&mut self, old: Option<&Thing>) -> Thing {
        self.clock += 1;
        let recreated = old.is_none() || self.chance.random_bool(0.2);
        let uid = if recreated {
            self.chance.random()
        } else {
            old.map_or(0, |old| old.uid)
        };
        let mut some = |of| {
            self.chance
                .random_bool(0.8)
                .then(|| self.chance.random_range(0..of))
        };
        Thing {
            uid,
            revision: self.clock,
            app: some(4),
            node: some(9),
            owner: self.chance.random_range(0..9),
        }
    }

    fn step(&mut self) {
        match self.chance.random_range(0..20) {
            0 => self.relist(),
            1..14 => {
                let key = self.key();
                let before = self.map.get(&key).cloned();
                let thing = self.thing(before.as_ref());
                let old = self.writer.apply(object(&key, &thing));
                assert!(
                    old == before.map(|before| object(&key, &before)),
                    "apply returns what was there"
                );
                self.map.insert(key, thing);
            }
            _ => {
                let key = self.key();
                let before = self.map.remove(&key);
                let seen = Thing {
                    revision: self.clock + 1,
                    ..self.thing(before.as_ref())
                };
                self.clock += 1;
                let old = self.writer.remove(&object(&key, &seen));
                assert!(
                    old == before.map(|before| object(&key, &before)),
                    "remove returns what was there"
                );
            }
        }
    }

    fn relist(&mut self) {
        let mut listed = Map::new();
        for (key, thing) in self.map.clone() {
            match self.chance.random_range(0..10) {
                0 => {}
                1 => drop(listed.insert(key, self.thing(Some(&thing)))),
                _ => drop(listed.insert(key, thing)),
            }
        }
        for _ in 0..self.chance.random_range(0..6) {
            let key = self.key();
            let thing = self.thing(self.map.get(&key).cloned().as_ref());
            listed.insert(key, thing);
        }
        let before = std::mem::replace(&mut self.map, listed);
        let mut relist = self.writer.begin_relist();
        for (key, thing) in &self.map {
            relist.add(object(key, thing));
        }
        let changed: Vec<_> = self
            .map
            .iter()
            .filter(|(key, thing)| before.get(key) != Some(thing))
            .collect();
        assert_eq!(relist.changed(), changed.len(), "only what changed is held");
        assert_eq!(
            self.cache.store.len(),
            before.len(),
            "nothing changes before the end"
        );
        let delivered = self.writer.finish(relist);
        let expected: Vec<_> = changed
            .into_iter()
            .map(|(key, thing)| {
                (
                    before.get(key).map(|old| object(key, old)),
                    object(key, thing),
                )
            })
            .collect();
        assert!(
            delivered.changed == expected,
            "a relist tells what has changed"
        );
        let gone: Vec<_> = before
            .iter()
            .filter(|(key, _)| !self.map.contains_key(key))
            .collect();
        let gone: Vec<_> = gone
            .into_iter()
            .map(|(key, thing)| object(key, thing))
            .collect();
        assert!(delivered.gone == gone, "a relist tells what is gone");
        // The store's revision is that of the list.
        let greatest = self
            .map
            .values()
            .map(|thing| thing.revision)
            .max()
            .unwrap_or_default();
        assert_eq!(self.cache.store.revision(), greatest);
    }

    /// Compares everything that can be read with the map.
    fn check(&mut self) {
        let store = &self.cache.store;
        assert_eq!(store.len(), self.map.len());
        assert_eq!(store.keys(), self.map.keys().cloned().collect::<Vec<_>>());
        let namespaces: BTreeSet<String> = self
            .map
            .keys()
            .filter_map(|key| key.namespace.clone())
            .collect();
        assert_eq!(store.namespaces(), namespaces);
        for (key, thing) in &self.map {
            assert_eq!(store.get(key).as_deref(), Some(&*object(key, thing)));
        }
        assert_eq!(store.get(&ObjectKey::namespaced("s1", "none")), None);
        assert_eq!(
            store.bytes(),
            store.count_bytes(),
            "bytes are the sum of what is there"
        );
        let value = self.chance.random_range(0..9).to_string();
        let after = self.key();
        for namespace in [None, Some("s1"), Some("s4"), Some("none")] {
            for after in [None, Some(&after)] {
                self.hold(&Lookup::All, namespace, after, |_| true);
                let owner = |thing: &Thing| {
                    !thing.owner.is_multiple_of(5) && thing.owner.to_string() == value
                };
                self.hold(
                    &Lookup::Owner(format!("o-{value}")),
                    namespace,
                    after,
                    owner,
                );
                let [path, label, controller] = indexes();
                let at = |key, value: &str| Lookup::Index {
                    key,
                    value: value.to_owned(),
                };
                self.hold(&at(path, &value), namespace, after, |thing| {
                    thing.node.map(|at| at.to_string()).as_ref() == Some(&value)
                });
                self.hold(&at(label, &value), namespace, after, |thing| {
                    thing.app.map(|at| at.to_string()).as_ref() == Some(&value)
                });
                self.hold(
                    &at(controller, &format!("x-{value}")),
                    namespace,
                    after,
                    owner,
                );
            }
        }
    }

    fn hold(
        &self,
        lookup: &Lookup,
        namespace: Option<&str>,
        after: Option<&ObjectKey>,
        fits: impl Fn(&Thing) -> bool,
    ) {
        let here = |key: &ObjectKey| {
            after.is_none_or(|after| key > after)
                && (namespace.is_none() || key.namespace.as_deref() == namespace)
        };
        let of = |fits: &dyn Fn(&Thing) -> bool| {
            let found = self
                .map
                .iter()
                .filter(|(key, thing)| here(key) && fits(thing));
            found.map(|(key, _)| key.clone()).collect::<Vec<_>>()
        };
        let keys = |found: &mut dyn Iterator<Item = Arc<Object>>| {
            found.map(|object| object.key().clone()).collect::<Vec<_>>()
        };
        let listed = keys(&mut self.cache.store.list(lookup, namespace, after));
        assert_eq!(listed, of(&fits), "{lookup:?} {namespace:?} {after:?}");
        // A page needs the order of all keys, which some stores never keep.
        if !self.paged {
            return;
        }
        // By a label, which may be answered from the index.
        let selected = of(&|thing: &Thing| fits(thing) && thing.app == Some(1));
        let mut next = after.cloned();
        let mut paged = Vec::new();
        loop {
            let page = self
                .cache
                .list(&Query {
                    lookup: lookup.clone(),
                    namespace,
                    labels: LabelSelector::parse("app=1,a").expect("a selector"),
                    fields: MetadataFieldSelector::default(),
                    limit: Some(3),
                    after: next.take(),
                    projection: &[],
                    visible: None,
                })
                .expect("room");
            assert_eq!(
                page.resource_version,
                self.cache.store.revision().to_string()
            );
            assert!(page.items.len() <= 3);
            paged.extend(page.items.iter().map(|item| {
                let object = Object::untyped(item.json(), ManagedFields::Keep).expect("an object");
                object.key().clone()
            }));
            let Some(token) = page.continue_token else {
                break;
            };
            next = Some(key_of_token(&token).expect("a token"));
        }
        assert_eq!(paged, selected, "{lookup:?} {namespace:?} {after:?}");
    }
}

fn run(mut chance: StdRng, packed: bool) {
    let paged = chance.random_bool(0.5);
    let (store, writer) = Store::new();
    let cache = Cache {
        store,
        overlay: Overlay::default(),
        namespace: None,
        selects: LabelSelector::default(),
        metadata_only: false,
        prune: Prune::managed_fields(),
    };
    let mut history = History {
        chance,
        map: Map::new(),
        cache,
        writer,
        clock: 0,
        paged,
    };
    let [path, label, controller] = indexes();
    let mut used = vec![history.cache.store.declare_index(&path)];
    for at in 0..400 {
        history.step();
        if at == 100 {
            // Over what is there.
            used.push(history.cache.store.declare_index(&controller));
            if packed {
                assert!(
                    history.cache.store.pack_now(),
                    "worth it: {} objects",
                    history.map.len()
                );
            }
            used.push(history.cache.store.declare_index(&label));
        }
        if (at > 100 && at % 20 == 0) || at > 390 {
            history.check();
            assert_eq!(history.cache.store.packed_objects() > 0, packed);
        }
    }
}

fn seeded() -> StdRng {
    let seed = std::env::var("OPERETTA_SEED")
        .map_or_else(|_| rand::random(), |seed| seed.parse().expect("a seed"));
    println!("OPERETTA_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

#[test]
fn plain_store_equals_a_plain_map() {
    let mut chance = seeded();
    for _ in 0..6 {
        run(StdRng::from_rng(&mut chance), false);
    }
}

#[test]
fn compressed_store_equals_a_plain_map() {
    let mut chance = seeded();
    for _ in 0..6 {
        run(StdRng::from_rng(&mut chance), true);
    }
}

#[test]
fn readers_never_see_half_a_relist() {
    const OBJECTS: usize = 300;
    let (store, mut writer) = Store::new();
    let _used = store.declare_index(&IndexKey::Label("app".into()));
    let cache = Cache {
        store: store.clone(),
        overlay: Overlay::default(),
        namespace: None,
        selects: LabelSelector::default(),
        metadata_only: false,
        prune: Prune::managed_fields(),
    };
    // In each round every object has the round's number as its label, and the last one also as its
    // resourceVersion.
    let mut relist = |round: u32| {
        let mut relist = writer.begin_relist();
        for at in 0..OBJECTS {
            let revision = u64::from(round) * 1_000 + at as u64;
            let thing = Thing {
                uid: 1,
                revision,
                owner: 1,
                app: Some(round),
                node: None,
            };
            relist.add(object(
                &ObjectKey::namespaced("s", format!("n{at}")),
                &thing,
            ));
        }
        writer.finish(relist)
    };
    relist(1);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut looks = 0;
                    let mut last = 0;
                    while !done.load(Ordering::Relaxed) {
                        let query = |labels: &str| Query {
                            lookup: Lookup::All,
                            namespace: None,
                            labels: LabelSelector::parse(labels).expect("a selector"),
                            fields: MetadataFieldSelector::default(),
                            limit: None,
                            after: None,
                            projection: &[],
                            visible: None,
                        };
                        let page = cache.list(&query("")).expect("room");
                        let revision: u64 = page.resource_version.parse().expect("a number");
                        let round = (revision / 1_000).to_string();
                        assert_eq!(page.items.len(), OBJECTS);
                        for item in &page.items {
                            let object = Object::untyped(item.json(), ManagedFields::Keep)
                                .expect("an object");
                            assert_eq!(object.label("app"), Some(round.as_str()), "at {revision}");
                        }
                        assert!(revision >= last, "time goes one way");
                        last = revision;
                        let by_index = cache
                            .list(&query(&format!("app={round}")))
                            .expect("room")
                            .items
                            .len();
                        assert!(
                            by_index == 0 || by_index == OBJECTS,
                            "{by_index} of the round {round}"
                        );
                        looks += 1;
                    }
                    looks
                })
            })
            .collect();
        for round in 2..40 {
            relist(round);
            if round == 10 {
                assert!(store.pack_now());
            }
        }
        done.store(true, Ordering::Relaxed);
        let looks: usize = readers
            .into_iter()
            .map(|reader| reader.join().expect("a reader"))
            .sum();
        assert!(looks > 0);
        assert_eq!(store.packed_objects(), OBJECTS);
    });
}

#[tokio::test]
async fn large_store_compresses_itself() {
    let kind = GroupVersionKind::new("v1", "Pod");
    let prune = Prune::new(&[".status".to_owned()]).expect("may be pruned");
    let (store, mut writer) = Store::with(Packing::Auto);
    let (off, mut off_writer) = Store::with(Packing::Off);
    for at in 0..3_500 {
        let pod = operetta_testkit::pods::pod(at);
        let pod = Arc::new(Object::from_json(&pod, &kind, ManagedFields::Drop).expect("a Pod"));
        writer.apply(pod.clone().pruned(&prune));
        off_writer.apply(pod);
    }
    while store.packed_objects() < 3_500 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(store.packing_ratio().is_some_and(|ratio| ratio < 0.5));
    let expected: Vec<_> = off.list(&Lookup::All, None, None).collect();
    for (packed, plain) in store.list(&Lookup::All, None, None).zip(&expected) {
        assert_eq!(packed.key(), plain.key());
        assert_eq!(
            (packed.at(".status"), packed.at(".spec")),
            (None, plain.at(".spec"))
        );
        assert!(plain.at(".status").is_some());
    }
    assert_eq!((off.packed_objects(), store.len()), (0, expected.len()));
}
