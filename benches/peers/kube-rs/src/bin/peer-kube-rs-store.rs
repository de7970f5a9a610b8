//! What a Pod costs in kube-rs's reflector: `peer-kube-rs-store --peer P`, Pods as JSON lines on stdin, one line when all
//! are in the store. Its allocator is the system's with a count of the bytes that are in use.

use std::{
    error::Error,
    fmt::Debug,
    fs,
    hash::Hash,
    io::{self, BufRead},
    process::ExitCode,
};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Resource,
    core::{ApiResource, DynamicObject},
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
        ["--peer", peer @ "kube-rs"] => fill::<Pod>((), peer),
        ["--peer", peer @ "kube-rs-dynamic"] => fill::<DynamicObject>(ApiResource::erase::<Pod>(&()), peer),
        _ => Err("usage: peer-kube-rs-store --peer kube-rs|kube-rs-dynamic".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{}", json!({"error": error.to_string()}));
            ExitCode::FAILURE
        }
    }
}

fn fill<K>(kind: K::DynamicType, peer: &str) -> Outcome<()>
where
    K: Resource + Clone + Debug + DeserializeOwned + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let mut writer = Writer::<K>::new(kind);
    let store = writer.as_reader();
    writer.apply_watcher_event(&watcher::Event::Init);
    writer.apply_watcher_event(&watcher::Event::InitDone);
    let (heap_before, rss_before) = memory();
    let mut count = 0;
    for line in io::stdin().lock().lines() {
        let pod: K = serde_json::from_str(&line?).map_err(|error| format!("Pod {count}: {error}"))?;
        writer.apply_watcher_event(&watcher::Event::Apply(pod));
        count += 1;
    }
    let (heap, rss) = memory();
    if count == 0 || store.len() != count {
        return Err(format!("{count} Pods came, {} are stored", store.len()).into());
    }
    let each = |before: f64, after: f64| (after - before) / count as f64;
    let line = json!({
        "metric": "store.bytes_per_pod", "peer": peer, "unit": "B", "samples": [each(heap_before, heap)],
        "rss": each(rss_before, rss), "objects": count,
    });
    println!("{line}");
    Ok(())
}

/// The bytes in use of the heap and of the process.
fn memory() -> (f64, f64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    let rss = kilobytes.and_then(|kilobytes| kilobytes.trim().parse().ok()).unwrap_or(0.0) * 1024.0;
    (ALLOCATOR.current_usage() as f64, rss)
}
