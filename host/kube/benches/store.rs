//! What the cache costs: `make bench-store`.
//!
//! [`PODS`] generated Pods of 5.7 KB (testkit's `pods`), managedFields dropped. `store.bytes_per_pod` is what the store
//! counts for each, keys and the index by owner included, plain and compressed; `store.json_per_pod` is the JSON of it, for
//! scale. `store.rss_per_pod` is what the process grew by while it was filled, the allocator's rounding included.
//! `store.get` is one cached read of a key by chance until its text is at hand, `_hot` of one of the same [`HOT`];
//! `store.list_per_object` is one object of a list by index that finds [`FOUND`]. `store.read` is the reading of one Pod as
//! the API server sends it. Times are medians over passes.

#[path = "../../testkit/src/bench.rs"]
mod bench;

use std::{hint::black_box, sync::Arc, time::Instant};

use bench::{Report, Row, Samples};
use operetta_core::{
    kind::GroupVersionKind,
    manifest::IndexKey,
    object::{ManagedFields, Object, ObjectKey},
};
use operetta_kube::store::{Lookup, Store};
use operetta_testkit::pods::pod;

/// The host's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const PODS: usize = 50_000;
/// Objects with the value that is listed.
const FOUND: u32 = 10_000;
const GETS: usize = 20_000;
/// Objects that fit into the processor's caches.
const HOT: usize = 200;
const PASS: usize = 100;
const PASSES: usize = 9;
const ROUNDS: usize = 9;

fn main() -> std::io::Result<()> {
    let kind = GroupVersionKind::new("v1", "Pod");
    let read = |text: &str| Object::from_json(text, &kind, ManagedFields::Drop).expect("a Pod");
    let mut report = Report::new("store");

    let before = resident()?;
    let (store, mut writer) = Store::new();
    for at in 0..PODS {
        writer.apply(Arc::new(read(&pod(at))));
    }
    let grown = resident()? - before;
    let json: usize = store.list(&Lookup::All, None, None).map(|object| object.json().len()).sum();
    let per_pod = |bytes: usize| Samples::new(vec![bytes as f64 / PODS as f64]);
    report.row(Row::new("store.json_per_pod", "B", per_pod(json)));
    report.row(Row::new("store.bytes_per_pod", "B", per_pod(store.bytes())).target(4_400.0));
    report.row(Row::new("store.rss_per_pod", "B", per_pod(grown)));

    let keys = keys(&store);
    let hot: Vec<ObjectKey> = keys.iter().take(HOT).cycle().take(GETS).cloned().collect();
    report.row(Row::new("store.get", "us", get(&store, &keys)).target(1.0));
    report.row(Row::new("store.get_hot", "us", get(&store, &hot)));
    // Ten thousand of them, by a label of their own.
    let label = IndexKey::Label("bench".to_owned());
    store.declare_index(&label);
    for key in keys.iter().take(FOUND as usize) {
        let object = store.get(key).expect("it is there");
        let text = object.json().replacen("\"labels\":{", "\"labels\":{\"bench\":\"yes\",", 1);
        writer.apply(Arc::new(read(&text)));
    }
    let lookup = Lookup::Index { key: label, value: "yes".to_owned() };
    report.row(Row::new("store.list_per_object", "us", list(&store, &lookup)).target(1.0));

    let texts: Vec<String> = (0..1_000).map(pod).collect();
    let reading = Samples::of(ROUNDS, || {
        let pass = |texts: &[String]| {
            let start = Instant::now();
            texts.iter().for_each(|text| drop(black_box(read(text))));
            start.elapsed().as_secs_f64() * 1e6 / texts.len() as f64
        };
        Samples::new(texts.chunks(20).map(pass).collect()).median()
    });
    report.row(Row::new("store.read", "us", reading));

    let start = Instant::now();
    assert!(store.pack_now(), "Pods are worth it");
    println!("compressed {PODS} Pods in {:.1} s", start.elapsed().as_secs_f64());
    report.row(Row::new("store.bytes_per_pod_compressed", "B", per_pod(store.bytes())).target(800.0));
    report.row(Row::new("store.get_compressed", "us", get(&store, &keys)).target(3.0));
    report.row(Row::new("store.get_compressed_hot", "us", get(&store, &hot)));
    report.row(Row::new("store.list_per_object_compressed", "us", list(&store, &lookup)));
    report.finish()?;
    Ok(())
}

/// Keys in no order.
fn keys(store: &Store) -> Vec<ObjectKey> {
    let mut keys = store.keys();
    for at in 0..keys.len() {
        let with = (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) % keys.len() as u64;
        keys.swap(at, usize::try_from(with).unwrap_or_default());
    }
    keys.truncate(GETS);
    keys
}

/// Of each round the median of short passes: being preempted now and then does not count.
fn get(store: &Store, keys: &[ObjectKey]) -> Samples {
    Samples::of(ROUNDS, || {
        let pass = |keys: &[ObjectKey]| {
            let start = Instant::now();
            for key in keys {
                black_box(store.get(key).expect("it is there").json().len());
            }
            start.elapsed().as_secs_f64() * 1e6 / keys.len() as f64
        };
        Samples::new(keys.chunks(PASS).map(pass).collect()).median()
    })
}

fn list(store: &Store, lookup: &Lookup) -> Samples {
    Samples::of(ROUNDS, || {
        let pass = || {
            let start = Instant::now();
            let found = store.list(lookup, None, None);
            let found = found.map(|object| black_box(object.json().len())).fold(0, |found, _| found + 1);
            assert_eq!(found, FOUND);
            start.elapsed().as_secs_f64() * 1e6 / f64::from(found)
        };
        Samples::of(PASSES, pass).median()
    })
}

/// Bytes of this process in memory.
fn resident() -> std::io::Result<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    Ok(pages * 4096)
}
