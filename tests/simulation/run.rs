//! One run: a fresh API server, a host that is started again when it ends, and a user.

use std::{
    convert::Infallible,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use operetta_core::nondeterminism;
use operetta_manager::{
    config::{Compiler, HostConfig},
    manager::Manager,
    metrics::Metrics,
};
use operetta_wasm::{Code, Engine, EngineConfig};
use rand::Rng;
use tokio::{
    runtime::{Builder, Runtime},
    time::sleep,
};

use crate::{
    cluster::Cluster,
    faults::Profile,
    history::History,
    invariants::{breaches, differences, is_of_plugin},
    network::Network,
    source::{Seeded, Stream},
    user::User,
};

/// The time after which a host that has ended is started again.
const RESTART: Duration = Duration::from_secs(1);

/// The time without a write of the plugin after which a run is quiet.
const QUIET: Duration = Duration::from_secs(10);

/// The longest time until a run is quiet, from the last fault. A key that has failed many times
/// waits for minutes.
const SETTLED: Duration = Duration::from_secs(900);

/// What all runs share: the compiled plugin, and a prepared API server.
pub struct Shared {
    engine: Engine,
    cluster: Cluster,
    plugins: PathBuf,
}

impl Shared {
    /// Prepares runs of the sample-controller.
    pub fn new() -> Self {
        let config = EngineConfig {
            ticks: false,
            optimize: false,
            concurrent_calls: 64,
            ..HostConfig::default().engine()
        };

        let engine = Engine::with_code(&config, Code::in_memory()).expect("an engine");
        let component = operetta_testkit::plugin_path("sample-controller");
        let plugins = component.parent().expect("a folder").to_path_buf();

        let shared = Self {
            engine,
            cluster: runtime().block_on(Cluster::prepare()),
            plugins,
        };

        // Compiles the plugin. A run that waited for another thread to compile it would lose
        // minutes: the paused clock goes on while nothing happens on its own thread.
        run_with(&shared, 0, Some(Profile::NONE));
        shared
    }

    fn config(&self) -> HostConfig {
        HostConfig {
            compiler: Compiler::InProcess,
            plugin_directory: Some(self.plugins.clone()),
            ..HostConfig::default()
        }
    }
}

/// The result of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Each breach of an invariant.
    pub breaches: Vec<String>,
    /// The requests, events and decisions, in order.
    pub history: Vec<String>,
    /// The number of times that a host started.
    pub starts: u32,
    /// The writes of the plugin.
    pub writes: usize,
}

/// Runs a seed, with the faults that it draws.
pub fn run(shared: &Shared, seed: u64) -> Outcome {
    run_with(shared, seed, None)
}

/// Runs a seed, with these faults or the ones that it draws.
///
/// # Panics
/// Panics if the API server refuses an action of the user.
pub fn run_with(shared: &Shared, seed: u64, profile: Option<Profile>) -> Outcome {
    runtime().block_on(async {
        let _replaced = nondeterminism::replace(Seeded::new(Stream::Host.random(seed)));
        history(shared, seed, profile).await
    })
}

/// Returns a runtime of this thread with a paused clock.
fn runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
}

async fn history(shared: &Shared, seed: u64, profile: Option<Profile>) -> Outcome {
    let history = History::new();
    let mut random = Stream::Network.random(seed);
    let drawn = Profile::draw(&mut random);
    let profile = profile.unwrap_or(drawn);
    history.record(format!("seed {seed}: {profile:?}"));

    let cluster = shared.cluster.start(seed);
    let network = Network::new(cluster.clone(), history.clone(), random, profile);
    let starts = AtomicU32::new(0);
    let host = keep_host(&network, shared, &history, &starts);

    let mut user = User {
        cluster: cluster.clone(),
        history: history.clone(),
        random: Stream::User.random(seed),
    };

    let actions = user.random.random_range(5..15);
    let work = async {
        user.act(actions).await;
        history.record("the faults end");
        network.heal();
        settle(&cluster, &history).await
    };

    let mut found = tokio::select! {
        biased;
        never = host => match never {},
        found = work => found,
    };

    let starts = starts.load(Ordering::Relaxed);
    let writes = history.writes();
    found.extend(breaches(&writes, actions as usize, starts as usize));
    let writes = writes.iter().filter(|write| is_of_plugin(write)).count();
    Outcome {
        breaches: found,
        history: history.lines(),
        starts,
        writes,
    }
}

/// Starts a host, and another one whenever it has crashed or ended.
async fn keep_host(
    network: &Arc<Network>,
    shared: &Shared,
    history: &History,
    starts: &AtomicU32,
) -> Infallible {
    loop {
        let process = starts.fetch_add(1, Ordering::Relaxed) + 1;
        history.record(format!("  host {process} starts"));
        let connection = network.connect(process);
        let manager = Manager::with_engine(
            connection.client(),
            shared.config(),
            Metrics::new(),
            shared.engine.clone(),
        );

        let manager = manager.expect("a manager");
        let lives = async {
            match manager.start("127.0.0.1:0".to_owned()).await {
                Ok(()) => manager.replicas.lost().await,
                Err(error) => format!("{error:#}"),
            }
        };

        tokio::select! {
            biased;
            () = connection.until_cut() => history.record(format!("  host {process} crashes")),
            reason = lives => history.record(format!("  host {process} ends: {reason}")),
        }

        // Its tasks still exist, but nobody sees what they do.
        connection.cut();
        sleep(RESTART).await;
    }
}

/// Waits until the objects are right and the plugin writes nothing. Returns what is wrong if that
/// takes too long.
async fn settle(cluster: &Cluster, history: &History) -> Vec<String> {
    let mut waited = Duration::ZERO;
    let mut before = history.writes().len();

    while waited < SETTLED {
        sleep(QUIET).await;
        waited += QUIET;
        let writes = history.writes();
        let is_quiet = !writes[before..].iter().any(is_of_plugin);
        before = writes.len();
        if is_quiet && differences(cluster).await.is_empty() {
            history.record("quiet");
            return Vec::new();
        }
    }

    let mut found = differences(cluster).await;
    if found.is_empty() {
        found.push(format!(
            "the plugin still writes after {} s",
            SETTLED.as_secs()
        ));
    }
    found
}
