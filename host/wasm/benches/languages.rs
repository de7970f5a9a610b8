//! Cost of a plugin in each language: its size, its compile time, and the time of one reconcile.
//!
//! The guests are tests/guests/bench-LANG, each written as an author of that language would.
//! `go-k8s` is Go with the types of k8s.io/api instead of its own. Metrics of each:
//!
//! - `lang.LANG.size`, `.size_zst`: the size of the component, plain and compressed as `operetta
//!   bundle` stores it;
//! - `lang.LANG.compile`: the time to compile the component on all cores, measured once;
//! - `lang.LANG.fresh_noop`: a reconcile that returns at once, in a fresh instance: the language
//!   runtime's start;
//! - `lang.LANG.fresh_full`: read a Deployment of 3.3 KB, parse it, change its status, write it,
//!   parse the response; the peer does the same natively, in alternating rounds;
//! - `lang.LANG.warm_full`: the same in a warm instance (`spec.runtime.warm`).
//!
//! `make bench-languages` builds the guests first. With `-- go` it measures one language.

mod common;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use common::{AnyError, Ports, deployment, guest, native, reconcile, reconciler, runtime};
use operetta_core::ports::ObjectApi;
use operetta_testkit::bench::{Report, Row, Samples, number};
use operetta_wasm::{Engine, EngineConfig, LoadLimits, Plugin, PluginReconciler, WarmLimits};
use tokio::runtime::Runtime;

const LANGUAGES: [&str; 6] = ["rust", "c", "go", "go-k8s", "typescript", "python"];
const ROUNDS: usize = 9;
/// The target duration of a round; the number of calls in a round follows from it.
const ROUND: Duration = Duration::from_millis(200);
/// The compression level of `operetta bundle`.
const ZSTD_LEVEL: i32 = 19;

struct Bench {
    engine: Engine,
    runtime: Runtime,
    ports: Arc<Ports>,
    report: Report,
}

fn main() -> Result<(), AnyError> {
    let engine = Engine::new(&EngineConfig::default())?;
    println!("instances come from the pool: {}", engine.is_pooled());
    let ports = Arc::new(Ports(Arc::new(deployment()?)));
    let mut bench = Bench {
        engine,
        runtime: runtime()?,
        ports,
        report: Report::new("languages"),
    };
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    for language in LANGUAGES {
        if !chosen.is_empty() && !chosen.iter().any(|name| name == language) {
            continue;
        }
        match component(language)? {
            Some(wasm) => bench.language(language, wasm)?,
            None => {
                println!(
                    "{language}: target/plugins/bench-{language}.wasm is missing: make bench-languages builds it"
                );
            }
        }
    }
    bench.report.finish()?;
    Ok(())
}

/// Returns the guest in a language, or None if it is not built.
fn component(language: &str) -> Result<Option<Vec<u8>>, AnyError> {
    if language == "rust" {
        return Ok(Some(std::fs::read(guest()?)?));
    }
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    Ok(std::fs::read(root.join(format!("target/plugins/bench-{language}.wasm"))).ok())
}

impl Bench {
    fn language(&mut self, language: &str, wasm: Vec<u8>) -> Result<(), AnyError> {
        let metric = |name: &str| format!("lang.{language}.{name}");
        let once = |value: f64| Samples::new(vec![value]);
        let packed = zstd::encode_all(wasm.as_slice(), ZSTD_LEVEL)?;
        self.report.row(Row::new(
            metric("size"),
            "MB",
            once(wasm.len() as f64 / 1e6),
        ));
        self.report.row(Row::new(
            metric("size_zst"),
            "MB",
            once(packed.len() as f64 / 1e6),
        ));

        let started = Instant::now();
        let limits = LoadLimits::default();
        let plugin = self.runtime.block_on(Plugin::load(
            &self.engine,
            wasm,
            &limits,
            self.ports.clone(),
        ))?;
        println!(
            "{language}: loaded in {:.2} s",
            started.elapsed().as_secs_f64()
        );
        let compiled = plugin.provenance().took.as_secs_f64();
        self.report
            .row(Row::new(metric("compile"), "s", once(compiled)));

        let plugin = Arc::new(plugin);
        let fresh = reconciler(&plugin, &self.ports);
        let warm = reconciler(&plugin, &self.ports).keep_warm(WarmLimits::default());
        let api: Arc<dyn ObjectApi> = self.ports.clone();
        let calls = self.calls(&fresh);
        let time = |reconciler: &PluginReconciler, controller: &str| {
            common::per_call(&self.runtime, calls, || reconcile(reconciler, controller))
        };
        let mut samples = Samples::interleaved(
            number("ROUNDS", ROUNDS),
            &mut [
                &mut || time(&fresh, "noop"),
                &mut || time(&fresh, "full"),
                &mut || time(&warm, "full"),
                &mut || common::per_call(&self.runtime, 2000, || native(&api)),
            ],
        );
        let peer = samples.remove(3);
        for (name, samples) in ["fresh_noop", "fresh_full", "warm_full"]
            .into_iter()
            .zip(samples)
        {
            let row = Row::new(metric(name), "us", samples);
            self.report.row(if name == "fresh_noop" {
                row
            } else {
                row.peer("native", &peer)
            });
        }
        Ok(())
    }

    /// Returns the number of calls in a round.
    fn calls(&self, reconciler: &PluginReconciler) -> u32 {
        let one = common::per_call(&self.runtime, 10, || reconcile(reconciler, "full"));
        (ROUND.as_micros() as f64 / one).clamp(10.0, 2000.0) as u32
    }
}
