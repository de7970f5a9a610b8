//! What an object costs in kube-rs's reflectors, one for each kind: `peer-kube-rs-store --peer P`,
//! objects as JSON lines on stdin, one line when all are in the stores. `kube-rs` takes Pods only.
//! Its allocator is the system's with a count of the bytes that are in use.

use std::{
    collections::HashMap,
    error::Error,
    fmt::Debug,
    fs,
    hash::Hash,
    io::{self, BufRead},
    process::ExitCode,
};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Resource, ResourceExt,
    core::{ApiResource, DynamicObject, GroupVersionKind, TypeMeta},
    runtime::{reflector::store::Writer, watcher},
};
use peak_alloc::PeakAlloc;
use serde::de::DeserializeOwned;
use serde_json::json;

type Outcome<T> = Result<T, Box<dyn Error>>;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["--peer", peer @ "kube-rs"] => fill::<Pod>(|_| Ok(()), peer),
        [
            "--peer",
            peer @ ("kube-rs-dynamic" | "kube-rs-dynamic-stripped"),
        ] => fill::<DynamicObject>(resource, peer),
        _ => Err(
            "usage: peer-kube-rs-store --peer kube-rs|kube-rs-dynamic|kube-rs-dynamic-stripped"
                .into(),
        ),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{}", json!({"error": error.to_string()}));
            ExitCode::FAILURE
        }
    }
}

/// What a dynamic store is of.
fn resource(kind: &TypeMeta) -> Outcome<ApiResource> {
    Ok(ApiResource::from_gvk(&GroupVersionKind::try_from(kind)?))
}

fn fill<K>(kind_of: impl Fn(&TypeMeta) -> Outcome<K::DynamicType>, peer: &str) -> Outcome<()>
where
    K: Resource + Clone + Debug + DeserializeOwned + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let mut writers = HashMap::<TypeMeta, Writer<K>>::new();
    let (heap_before, rss_before) = memory();
    let mut count = 0;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let wrong = |error| format!("object {count}: {error}");
        let kind: TypeMeta = serde_json::from_str(&line).map_err(wrong)?;
        let mut object: K = serde_json::from_str(&line).map_err(wrong)?;
        if peer.ends_with("-stripped") {
            object.managed_fields_mut().clear();
        }
        if !writers.contains_key(&kind) {
            let mut writer = Writer::new(kind_of(&kind)?);
            writer.apply_watcher_event(&watcher::Event::Init);
            writer.apply_watcher_event(&watcher::Event::InitDone);
            writers.insert(kind.clone(), writer);
        }
        if let Some(writer) = writers.get_mut(&kind) {
            writer.apply_watcher_event(&watcher::Event::Apply(object));
        }
        count += 1;
    }
    let (heap, rss) = memory();
    let stored: usize = writers
        .values()
        .map(|writer| writer.as_reader().len())
        .sum();
    if count == 0 || stored != count {
        return Err(format!("{count} objects came, {stored} are stored").into());
    }
    let each = |before: f64, after: f64| (after - before) / count as f64;
    let line = json!({
        "metric": "store.bytes", "peer": peer, "unit": "B", "samples": [each(heap_before, heap)],
        "rss": each(rss_before, rss), "objects": count,
    });
    println!("{line}");
    Ok(())
}

/// The bytes in use of the heap and of the process.
fn memory() -> (f64, f64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    let rss = kilobytes
        .and_then(|kilobytes| kilobytes.trim().parse().ok())
        .unwrap_or(0.0)
        * 1024.0;
    (ALLOCATOR.current_usage() as f64, rss)
}
