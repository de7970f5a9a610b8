//! Memory of a set of objects, in our stores and in the peers': each a process of its own that
//! reads the same file.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufRead},
    path::Path,
    process,
    sync::Arc,
};

use anyhow::Context;
use operetta_core::object::{ManagedFields, Object, kind::GroupVersionKind};
use operetta_kube::store::{Lookup, Store, Writer};
use operetta_testkit::{
    bench::{Report, Row, Samples},
    peers::{Peers, Process},
    usage,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The argument that makes this program one that fills stores.
pub const FILL: &str = "fill";

/// Objects to be kept, and by whom.
pub struct Set<'a> {
    /// What one of them is called in the names of metrics.
    pub name: &'a str,
    /// One a line of JSON, as the API server sends them but with apiVersion and kind.
    pub file: &'a Path,
    pub peers: &'a [&'static str],
    /// Of `store.bytes_per_`.
    pub target: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TypeMeta {
    api_version: String,
    kind: String,
}

/// One store for each kind, as the host has one for each informer.
#[derive(Default)]
pub struct Stores(HashMap<GroupVersionKind, Writer>);

impl Stores {
    /// Puts an object into the store of its kind.
    pub fn apply(&mut self, text: &str) -> anyhow::Result<()> {
        let of: TypeMeta = serde_json::from_str(text).context("apiVersion and kind")?;
        let kind = GroupVersionKind::new(of.api_version, of.kind);
        let object = Object::from_json(text, &kind, ManagedFields::Drop)?;
        self.0
            .entry(kind)
            .or_insert_with(|| Store::new().1)
            .apply(Arc::new(object));
        Ok(())
    }

    /// Those of all kinds.
    pub fn each(&self) -> impl Iterator<Item = &Arc<Store>> {
        self.0.values().map(Writer::store)
    }

    /// What they count in all.
    pub fn bytes(&self) -> usize {
        self.each().map(|store| store.bytes()).sum()
    }
}

/// Objects as lines of JSON on standard input, one line of what each takes on standard output, as
/// the peers do it.
pub fn fill() -> anyhow::Result<()> {
    let before = usage::memory_bytes(process::id());
    let mut stores = Stores::default();
    let mut count = 0;
    for line in io::stdin().lock().lines() {
        stores
            .apply(&line?)
            .with_context(|| format!("object {count}"))?;
        count += 1;
    }
    let grown = usage::memory_bytes(process::id()) - before;
    let stored: usize = stores.each().map(|store| store.len()).sum();
    anyhow::ensure!(
        stored == count && count > 0,
        "{count} objects came, {stored} are stored"
    );
    let objects = stores
        .each()
        .flat_map(|store| store.list(&Lookup::All, None, None));
    let json: usize = objects.map(|object| object.json().len()).sum();
    let each = |bytes: usize| bytes as f64 / count as f64;
    let line = json!({
        "samples": [each(stores.bytes())], "json": each(json), "rss": grown as f64 / count as f64, "objects": count,
    });
    println!("{line}");
    Ok(())
}

/// The rows of a set.
pub fn rows(report: &mut Report, peers: &Peers, set: &Set<'_>) -> anyhow::Result<()> {
    let file = File::open(set.file).with_context(|| set.file.display().to_string())?;
    let answer = Process::start("operetta", &std::env::current_exe()?, &[FILL], file.into()).line();
    let figure = |value: &Value| {
        value
            .as_f64()
            .with_context(|| format!("operetta answers {answer}"))
    };
    let json = figure(&answer["json"])?;
    let bytes = figure(&answer["samples"][0])?;
    let rss = figure(&answer["rss"])?;
    println!("{} objects for store.*_{}", answer["objects"], set.name);
    let row = |metric: &str, unit: &str, value: f64| {
        Row::new(
            format!("store.{metric}_{}", set.name),
            unit,
            Samples::new(vec![value]),
        )
    };
    let mut of_bytes = row("bytes_per", "B", bytes);
    let mut of_json = row("bytes_of_json", "x", bytes / json);
    let mut of_rss = row("rss_per", "B", rss);
    if let Some(target) = set.target {
        of_bytes = of_bytes.target(target);
    }
    for name in set.peers {
        let Some(cost) = peers.store(name, set.file) else {
            continue;
        };
        let one = |value| Samples::new(vec![value]);
        of_bytes = of_bytes.peer(*name, &one(cost.heap_bytes));
        of_json = of_json.peer(*name, &one(cost.heap_bytes / json));
        of_rss = of_rss.peer(*name, &one(cost.rss_bytes));
    }
    report.row(row("json_per", "B", json));
    [of_bytes, of_json, of_rss]
        .into_iter()
        .for_each(|row| report.row(row));
    Ok(())
}
