//! Histories of replicas that are killed, stopped and replaced at random moments: whatever happens, no key is reconciled by
//! two at once, no write comes after its epoch, and no key is lost. One of the plugins is split, into another number of shards from
//! time to time.
//!
//! `make test-ha SEEDS=200` runs many; `make test-ha FIRST=17 SEEDS=1` runs one again. A seed determines what is done, and not
//! how the processes interleave. In a file of its own, for its test has a control plane of its own.

use std::{env, path::Path, time::Duration};

use k8s_openapi::jiff::Timestamp;
use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, TestNamespace, eventually, guest,
    history::{LOG, Process, breaches},
    kinds,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;

/// The seeds that `make test` runs.
const SEEDS: u64 = 3;
/// The plugins of a history, each in a namespace of its own.
const PLUGINS: usize = 3;
/// The replicas that run at once.
const REPLICAS: usize = 3;
/// The events of a history.
const STEPS: usize = 4;
/// The objects that are created before each event, in each namespace.
const OBJECTS: usize = 4;
/// A shorter time than that of deploy/base, so that histories are short.
const CONFIG: &str = "replicas: {leaseSeconds: 2}\nshutdownSeconds: 5";

/// What happens to a replica.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// kill -9, and another one starts.
    Kill,
    /// SIGTERM, and another one starts.
    Terminate,
    /// SIGSTOP for longer than its Lease lasts, and another one starts.
    Stop,
    /// SIGSTOP for less than that.
    Pause,
    /// Another one starts, and this one is terminated as in a rolling update.
    Roll,
}

const FATES: [Fate; 5] = [Fate::Kill, Fate::Terminate, Fate::Stop, Fate::Pause, Fate::Roll];

/// A history in the making.
struct History<'a> {
    control_plane: &'a ControlPlane,
    running: Vec<Host>,
    /// What the processes did that have ended.
    ended: Vec<Process>,
}

impl History<'_> {
    /// Starts a replica.
    async fn start(&mut self) {
        let options = HostOptions {
            config: CONFIG.to_owned(),
            log: LOG.to_owned(),
            beside_another: true,
            ..HostOptions::default()
        };
        let host = Host::spawn(Path::new(env!("CARGO_BIN_EXE_operetta")), self.control_plane, &options);
        self.running.push(host.when_ready().await);
    }

    /// Keeps what a process did until `end`.
    fn keep(&mut self, host: &Host, end: Timestamp) {
        self.ended.extend(Process::read(&host.log(), end));
    }

    /// Lets one replica meet its fate.
    async fn meet(&mut self, replica: usize, fate: Fate) {
        match fate {
            Fate::Pause => {
                let host = &self.running[replica];
                host.signal("STOP");
                tokio::time::sleep(Duration::from_millis(700)).await;
                host.signal("CONT");
                return;
            }
            Fate::Kill => {
                let host = self.running.remove(replica);
                host.kill();
                self.keep(&host, Timestamp::now());
            }
            Fate::Terminate => {
                let host = self.running.remove(replica);
                host.signal("TERM");
                let status = host.ended().await;
                assert!(status.success(), "{status}: {}", host.log());
                self.keep(&host, Timestamp::now());
            }
            Fate::Stop => {
                let host = self.running.remove(replica);
                host.signal("STOP");
                let stopped = Timestamp::now();
                tokio::time::sleep(Duration::from_secs(4)).await;
                host.signal("CONT");
                host.ended().await;
                self.keep(&host, stopped);
            }
            Fate::Roll => {
                self.start().await;
                let host = self.running.remove(replica);
                host.signal("TERM");
                let status = host.ended().await;
                assert!(status.success(), "{status}: {}", host.log());
                self.keep(&host, Timestamp::now());
                return;
            }
        }
        self.start().await;
    }
}

/// Creates objects in each namespace.
async fn create(namespaces: &[TestNamespace<'_>], step: usize) {
    for namespace in namespaces {
        for number in 0..OBJECTS {
            namespace.create_touchable(&format!("object-{step}-{number}")).await;
        }
    }
}

/// Returns the name of a plugin.
fn plugin(seed: u64, number: usize) -> String {
    format!("touch-{seed}-{number}")
}

async fn run(control_plane: &ControlPlane, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut history = History { control_plane, running: Vec::new(), ended: Vec::new() };
    for _ in 0..REPLICAS {
        history.start().await;
    }
    let mut namespaces = Vec::new();
    for number in 0..PLUGINS {
        let namespace = control_plane.namespace(&format!("seed-{seed}-{number}")).await;
        namespace.allow_all("plugin").await;
        namespace.drop_in(&DropIn::new(&plugin(seed, number), guest("fixture-touch-v1"))).await;
        namespaces.push(namespace);
    }
    namespaces[0].until(kinds::PLUGIN, &plugin(seed, 0), |_| Ok(())).await;
    for step in 0..STEPS {
        create(&namespaces, step).await;
        if step % 2 == 0 {
            let shards = random.random_range(1..=6);
            println!("seed {seed}, step {step}: {shards} shards");
            namespaces[0].patch(kinds::PLUGIN, &plugin(seed, 0), json!({"spec": {"shards": shards}})).await;
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(0..1_500))).await;
        let fate = FATES[random.random_range(0..FATES.len())];
        let replica = random.random_range(0..history.running.len());
        println!("seed {seed}, step {step}: {fate:?} of replica {replica}");
        history.meet(replica, fate).await;
    }
    create(&namespaces, STEPS).await;
    for namespace in &namespaces {
        eventually(&format!("seed {seed}: no key of {} is lost", namespace.name()), async || {
            let maps = namespace.list(kinds::CONFIG_MAP).await;
            let objects = maps.iter().filter(|map| map["metadata"]["labels"]["operetta-fixture"].is_string());
            let lost: Vec<_> = objects.filter(|map| !map["data"]["touched"].is_string()).collect();
            if lost.is_empty() { Ok(()) } else { Err(format!("{:?}", lost[0]["metadata"]["name"])) }
        })
        .await;
    }
    for host in std::mem::take(&mut history.running) {
        host.assert_sound();
        host.signal("TERM");
        host.ended().await;
        history.keep(&host, Timestamp::now());
    }
    let reconciles: usize = history.ended.iter().map(|process| process.reconciles.len()).sum();
    assert!(reconciles >= PLUGINS * OBJECTS * (STEPS + 1), "the logs have {reconciles} reconciles");
    let found = breaches(&history.ended, &control_plane.audit());
    assert!(found.is_empty(), "seed {seed}: {found:#?}");
    println!("seed {seed}: {} processes, {reconciles} reconciles, no breach", history.ended.len());
    for namespace in &namespaces {
        namespace.delete_all(kinds::PLUGIN).await;
        namespace.delete_all(kinds::CONFIG_MAP).await;
    }
}

#[tokio::test]
async fn no_history_breaks_a_promise() {
    let number = |name: &str, default: u64| env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let first = number("FIRST", 0);
    for seed in first..first + number("SEEDS", SEEDS) {
        run(&control_plane, seed).await;
    }
}
