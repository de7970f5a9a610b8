//! Informers behind a connection that cannot be relied on: whatever it does, in the end they have
//! what the API server has, and have delivered it to each handler in an order that can be true
//! (notes.rs lists the rules).
//!
//! Each seed is a namespace of its own, with a fault proxy, informers and a writer of its own; many
//! play at once on one API server. `FIRST` and `SEEDS` choose other seeds than the fixed ones:
//! `make soak SEEDS=300`, or `make soak FIRST=17 SEEDS=1` to replay one.

mod compare;
mod notes;
mod proxy;
mod scene;
mod truth;

use std::{collections::BTreeMap, ops::Range, time::Duration};

use futures::StreamExt;
use operetta_kube::client::connect::connect;
use operetta_testkit::{ControlPlane, Fault, FaultProxy};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::sync::OnceCell;

use scene::{Kinds, Scene};

/// How many seeds play at once.
const AT_ONCE: usize = 12;

/// For how long things go wrong.
const FAULTS: Duration = Duration::from_millis(3000);

async fn kinds() -> &'static Kinds {
    static KINDS: OnceCell<Kinds> = OnceCell::const_new();
    KINDS
        .get_or_init(async || Kinds::install(ControlPlane::shared().await).await)
        .await
}

/// The seeds: 1 to 60, or those that the environment asks for.
fn seeds() -> Range<u64> {
    let number = |name: &str, otherwise: u64| {
        let text = std::env::var(name).ok().filter(|text| !text.is_empty());
        text.map_or(otherwise, |text| {
            text.parse()
                .unwrap_or_else(|_| panic!("{name} is not a number: {text}"))
        })
    };
    let first = number("FIRST", 1);
    first..first + number("SEEDS", 60)
}

/// How a seed went.
struct Played {
    seed: u64,
    violations: Vec<String>,
    /// Every fault that was met, and when.
    schedule: String,
    /// How often each kind of fault was met.
    met: BTreeMap<String, usize>,
    /// How many events the handlers received.
    delivered: usize,
}

async fn play(seed: u64, swallow_every: Option<usize>) -> Played {
    let control_plane = ControlPlane::shared().await;
    let kinds = kinds().await;
    let namespace = control_plane.namespace("seed").await;
    let proxy = FaultProxy::seeded(control_plane, seed).await;
    let watching = connect(Some(proxy.kubeconfig()), None)
        .await
        .expect("a client");
    let direct = control_plane.client().await;
    let mut random = StdRng::seed_from_u64(seed);
    let streaming_lists = random.random();
    let mut scene = Scene::begin(
        direct,
        watching,
        kinds,
        namespace.name(),
        streaming_lists,
        swallow_every,
    )
    .await;
    let pause = Duration::from_millis(random.random_range(5..50));
    let early = FAULTS.mul_f64(random.random_range(0.1..0.8));
    scene.write(&mut random, early, pause, false).await;
    scene.add_late_handlers();
    scene.write(&mut random, FAULTS - early, pause, false).await;
    proxy.heal();
    let delivered = scene.delivered();
    let violations = scene.end(true, swallow_every.is_some()).await;
    let mut met = BTreeMap::new();
    for asked in proxy
        .asked()
        .into_iter()
        .filter(|asked| asked.fault != Fault::None)
    {
        *met.entry(asked.fault.label()).or_default() += 1;
    }
    Played {
        seed,
        violations,
        schedule: proxy.schedule(),
        met,
        delivered,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn informers_converge_under_connection_faults() {
    let seeds = seeds();
    let count = seeds.end - seeds.start;
    let played = futures::stream::iter(seeds).map(|seed| play(seed, None));
    let mut bad = Vec::new();
    let mut delivered = 0;
    let mut met = BTreeMap::<String, usize>::new();
    let mut played = std::pin::pin!(played.buffer_unordered(AT_ONCE));
    while let Some(Played {
        seed,
        violations,
        schedule,
        met: by_this,
        delivered: to_this,
    }) = played.next().await
    {
        delivered += to_this;
        for (label, times) in by_this {
            *met.entry(label).or_default() += times;
        }
        if !violations.is_empty() {
            println!("seed {seed}:\n  {}", violations.join("\n  "));
            println!("seed {seed}: what went wrong on the way:\n{schedule}");
            println!("seed {seed}: to replay it alone: make soak FIRST={seed} SEEDS=1\n");
            bad.push(seed);
        }
    }
    println!("events delivered: {delivered}; faults met: {met:?}");
    println!("soak: {count} seeds, {} violations", bad.len());
    assert!(bad.is_empty(), "seeds with violations: {bad:?}");
    // A run in which nothing happens shows nothing.
    assert!(delivered as u64 > 20 * count, "{delivered} events");
    let missing: Vec<String> = Fault::labels()
        .into_iter()
        .filter(|label| !met.contains_key(label))
        .collect();
    assert!(count < 60 || missing.is_empty(), "never met: {missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn detects_informer_that_loses_events() {
    let violations = play(1, Some(20)).await.violations;
    assert!(
        violations
            .iter()
            .any(|violation| violation.contains("the early handler")),
        "{violations:#?}"
    );
    assert!(
        !violations
            .iter()
            .any(|violation| violation.contains("the late handler")),
        "{violations:#?}"
    );
}
