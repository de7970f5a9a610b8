//! Costs of the cache: `make bench-store`.
//!
//! Memory, of three sets of objects, managedFields dropped; of each one `store.json_per_SET`, the
//! JSON that is kept, for scale; `store.bytes_per_SET`, what the store counts, keys and the index
//! by owner included, without the allocator's rounding; `store.bytes_of_json_SET`, the one over the
//! other; and `store.rss_per_SET`, what a process that only fills the stores grows by. The sets are
//! - `pod`: [`PODS`] generated Pods of 5.7 KB (testkit's `pods`);
//! - `object_mixed`: what a control plane has of its own, and the CRDs of known projects
//!   (`mixed.rs`);
//! - `crd`: these CRDs alone.
//!
//! `_compressed` is the same when the store has compressed them, which the host does where a kind
//! has more than 1,000 objects and 8 MiB: with Pods here, not with the CRDs.
//!
//! Time, of the Pods, medians over passes: `store.get` is one cached read of a key by chance until
//! its text is at hand, `_hot` of one of the same [`HOT`]; `store.get_no_wait` is the same read with
//! the look at the overlay, by a plugin that need not wait for an own write, `_others` of one of the
//! same [`HOT`] while another plugin waits for its writes of all of them, and of a collection;
//! `store.list_per_object` is one object of
//! a list by index that finds a fifth of them. `store.read` is the reading of one Pod as the API
//! server sends it.
//!
//! The peers fill client-go's indexers and kube-rs's reflector stores with the same objects, and
//! read a field of each that they get or list. They have objects to work with, ours has text that a
//! guest is still to read. `-stripped` are without managedFields, as ours; the others keep them,
//! which is their default. Go's bytes include its size classes.
//!
//! `PODS`, `COPIES` and `ROUNDS` take other numbers, to see whether it works; 0 copies leave the
//! mixed set out.

mod memory;
mod mixed;

use std::{hint::black_box, path::Path, sync::Arc, time::Instant};

use memory::Set;
use operetta_core::{
    manifest::IndexKey,
    object::{
        ManagedFields, Object, ObjectKey, kind::GroupVersionKind, prune::Prune,
        selector::LabelSelector,
    },
};
use operetta_kube::store::{
    IndexUse, Lookup, Store, Writer,
    cache::Cache,
    overlay::{Author, Overlay, Until},
};
use operetta_testkit::{
    bench::{Report, Row, Samples, number, only_starts},
    peers::Peers,
    pods::{self, pod},
};
use serde_json::{Value, json};

/// The host's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const PODS: usize = 50_000;
const GETS: usize = 20_000;
/// Objects that fit into the processor's caches.
const HOT: usize = 200;
const PASS: usize = 100;
const PASSES: usize = 9;
const ROUNDS: usize = 9;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if only_starts() {
        return Ok(());
    }
    if arguments
        .first()
        .is_some_and(|argument| argument == memory::FILL)
    {
        return memory::fill();
    }
    let count = number("PODS", PODS);
    let copies = number("COPIES", mixed::COPIES);
    let peers = Peers::build();
    let mut report = Report::new("store");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));

    if copies > 0 {
        mixed::rows(&mut report, &peers, folder, copies)?;
    }
    let file = folder.join("pods.jsonl");
    pods::write(&file, count)?;
    let typed = [
        "client-go",
        "client-go-stripped",
        "client-go-unstructured",
        "kube-rs",
        "kube-rs-dynamic",
    ];
    memory::rows(
        &mut report,
        &peers,
        &Set {
            name: "pod",
            file: &file,
            peers: &typed,
            target: Some(4_400.0),
        },
    )?;
    times(&mut report, &peers, &file, count, number("ROUNDS", ROUNDS));
    std::fs::remove_file(&file)?;
    println!("{}", report.finish()?.display());
    Ok(())
}

fn times(report: &mut Report, peers: &Peers, file: &Path, count: usize, rounds: usize) {
    let (store, mut writer) = Store::new();
    for at in 0..count {
        writer.apply(Arc::new(read(&pod(at))));
    }
    let keys = keys(&store);
    let hot: Vec<ObjectKey> = keys
        .iter()
        .take(HOT)
        .cycle()
        .take(keys.len())
        .cloned()
        .collect();
    let found = keys.len().min(count / 5);
    let beside =
        |metric: &str, peer_names: &[&'static str], question: Value, ours: &dyn Fn() -> f64| {
            let mut question = question;
            question["metric"] = metric.into();
            question["file"] = file.to_string_lossy().into();
            question["found"] = found.into();
            let (ours, theirs) = peers.beside(rounds, peer_names, &question, ours);
            let row = Row::new(metric, "us", ours);
            theirs
                .iter()
                .fold(row, |row, (name, samples)| row.peer(*name, samples))
        };
    let gets = |among: usize| json!({"size": PASS, "passes": keys.len() / PASS, "among": among});
    let both = ["client-go", "kube-rs"];
    report.row(beside("store.get", &both, gets(keys.len()), &|| get(&store, &keys)).target(1.0));
    report.row(beside("store.get_hot", &both, gets(HOT), &|| {
        get(&store, &hot)
    }));
    let cache = Cache {
        store: store.clone(),
        overlay: Overlay::default(),
        namespace: None,
        selects: LabelSelector::default(),
        metadata_only: false,
        prune: Prune::managed_fields(),
    };
    let no_wait = Samples::of(rounds, || get_no_wait(&cache, &keys));
    report.row(Row::new("store.get_no_wait", "us", no_wait).target(1.0));
    let other = Author::unique();
    for key in hot.iter().take(HOT) {
        let until = Until::Reached(u64::MAX);
        cache.overlay.changed(key, until, other, &store);
    }
    cache.overlay.changed_some(None, true, other);
    let others = Samples::of(rounds, || get_no_wait(&cache, &hot));
    report.row(Row::new("store.get_no_wait_others", "us", others).target(1.0));

    let (_used, lookup) = label(&store, &mut writer, &keys[..found]);
    let lists = json!({"passes": PASSES});
    let listed = || list(&store, &lookup, found);
    report.row(beside("store.list_per_object", &both[..1], lists, &listed).target(1.0));

    let texts: Vec<String> = (0..1_000).map(pod).collect();
    let reading = Samples::of(rounds, || {
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
    println!(
        "compressed {count} Pods in {:.1} s",
        start.elapsed().as_secs_f64()
    );
    let per_pod = Samples::new(vec![store.bytes() as f64 / count as f64]);
    report.row(Row::new("store.bytes_per_pod_compressed", "B", per_pod).target(800.0));
    let of = |keys: &[ObjectKey]| Samples::of(rounds, || get(&store, keys));
    report.row(Row::new("store.get_compressed", "us", of(&keys)).target(3.0));
    report.row(Row::new("store.get_compressed_hot", "us", of(&hot)));
    report.row(Row::new(
        "store.list_per_object_compressed",
        "us",
        Samples::of(rounds, listed),
    ));
}

fn read(text: &str) -> Object {
    Object::from_json(
        text,
        &GroupVersionKind::new("v1", "Pod"),
        ManagedFields::Drop,
    )
    .expect("a Pod")
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

/// Gives these a label of their own, and an index to find them by.
fn label(store: &Arc<Store>, writer: &mut Writer, keys: &[ObjectKey]) -> (IndexUse, Lookup) {
    let label = IndexKey::Label("bench".to_owned());
    let used = store.declare_index(&label);
    for key in keys {
        let object = store.get(key).expect("it is there");
        let text = object
            .json()
            .replacen("\"labels\":{", "\"labels\":{\"bench\":\"yes\",", 1);
        writer.apply(Arc::new(read(&text)));
    }
    (
        used,
        Lookup::Index {
            key: label,
            value: "yes".to_owned(),
        },
    )
}

fn get(store: &Store, keys: &[ObjectKey]) -> f64 {
    per_key(keys, |key| store.get(key))
}

/// Reads as a plugin without outstanding writes does.
fn get_no_wait(cache: &Cache, keys: &[ObjectKey]) -> f64 {
    let author = Author::unique();
    per_key(keys, |key| {
        let unknown = cache.unknown(author, key.namespace.as_deref(), Some(&key.name));
        assert!(unknown.is_empty(), "{key} has no write of this author");
        cache.get(key)
    })
}

/// The median of short passes: being preempted now and then does not count.
fn per_key(keys: &[ObjectKey], read: impl Fn(&ObjectKey) -> Option<Arc<Object>>) -> f64 {
    let pass = |keys: &[ObjectKey]| {
        let start = Instant::now();
        for key in keys {
            black_box(read(key).expect("it is there").json().len());
        }
        start.elapsed().as_secs_f64() * 1e6 / keys.len() as f64
    };
    Samples::new(keys.chunks(PASS).map(pass).collect()).median()
}

fn list(store: &Store, lookup: &Lookup, expected: usize) -> f64 {
    let pass = || {
        let start = Instant::now();
        let found = store.list(lookup, None, None);
        let found = found
            .map(|object| black_box(object.json().len()))
            .fold(0, |found, _| found + 1);
        assert_eq!(found, expected);
        start.elapsed().as_secs_f64() * 1e6 / found as f64
    };
    Samples::of(PASSES, pass).median()
}
