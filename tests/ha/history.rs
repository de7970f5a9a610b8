//! One history: a group of replicas, their plugins, and what happens to them.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::ListParams};
use operetta_testkit::{
    ControlPlane, DropIn, TestNamespace, eventually, guest,
    history::{Process, breaches, pauses},
    kinds,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;

use crate::{
    fate::{FATES, Fate, Met, Scene, Times, meet},
    replica::{Leases, Replica},
};

/// The plugins of a history, each in a namespace of its own.
const PLUGINS: usize = 3;
/// The replicas that run at once.
const REPLICAS: usize = 3;
/// The steps of a history, each with one fate or two.
pub const STEPS: usize = 3;
/// The objects that are created before each step, in each namespace.
const OBJECTS: usize = 3;
/// The plugin that is split.
const SPLIT: usize = 1;
/// The greatest number of its shards.
const MAX_SHARDS: u32 = 6;
/// The time between two objects that are created during a step.
const BETWEEN: Duration = Duration::from_millis(150);

/// The results of a history.
pub struct Summary {
    pub processes: usize,
    pub reconciles: usize,
    /// The milliseconds for which each key waited, with the fates of the step in which it was
    /// created.
    pub pauses: Vec<(Vec<Fate>, f64)>,
}

/// The fates of a step: of one replica, and of another one at the same time.
#[derive(Clone, Debug)]
pub struct Step(pub Vec<Fate>);

/// Returns the steps of a seed. Seven seeds in a row have all fates.
pub fn plan(seed: u64, random: &mut StdRng) -> Vec<Step> {
    let step = |at: usize| {
        let first = FATES[(seed as usize * STEPS + at) % FATES.len()];
        let second = FATES[random.random_range(0..FATES.len())];
        // A replica that starts must not lose the group.
        let starts = |fate: Fate| matches!(fate, Fate::Roll | Fate::RollAll);
        let is_alone = starts(first) || starts(second) || random.random_bool(0.4);

        Step(if is_alone {
            vec![first]
        } else {
            vec![first, second]
        })
    };

    (0..STEPS).map(step).collect()
}

/// A history in the making.
struct History<'a> {
    control_plane: &'a ControlPlane,
    leases: Leases,
    running: Vec<Replica>,
    /// What the processes that have ended did.
    ended: Vec<Process>,
}

impl History<'_> {
    /// Starts as many replicas as are missing.
    async fn fill(&mut self) {
        for replica in std::mem::take(&mut self.running) {
            match replica.host.status() {
                Some(_) => self.ended.extend(replica.record().await),
                None => self.running.push(replica),
            }
        }

        let missing = REPLICAS.saturating_sub(self.running.len());
        let started = join_all((0..missing).map(|_| Replica::start(self.control_plane))).await;
        self.running.extend(started);
    }

    /// Lets replicas meet the fates of a step.
    async fn take(&mut self, step: &Step, random: &mut StdRng) {
        self.fill().await;
        let scene = Scene {
            control_plane: self.control_plane,
            leases: &self.leases,
            proxies: self
                .running
                .iter()
                .map(|replica| replica.proxy.clone())
                .collect(),
        };

        if step.0 == [Fate::RollAll] {
            for _ in 0..self.running.len() {
                let met = meet(
                    &scene,
                    self.running.remove(0),
                    Fate::RollAll,
                    Times::draw(random),
                )
                .await;
                keep(met, &mut self.running, &mut self.ended);
            }

            return;
        }

        let mut meetings = Vec::new();
        for fate in &step.0 {
            let replica = self
                .running
                .remove(random.random_range(0..self.running.len()));
            meetings.push(meet(&scene, replica, *fate, Times::draw(random)));
        }

        for met in join_all(meetings).await {
            keep(met, &mut self.running, &mut self.ended);
        }
    }
}

fn keep(met: Met, running: &mut Vec<Replica>, ended: &mut Vec<Process>) {
    match met {
        Met::Lives(replica) => running.push(replica),
        Met::Ended(process) => ended.extend(process),
        Met::Replaced(replica, process) => {
            running.push(replica);
            ended.extend(process);
        }
    }
}

/// Returns the names of the objects of a step: `object-STEP-NUMBER`.
fn name(step: usize, number: usize) -> String {
    format!("object-{step}-{number}")
}

/// Creates objects in the namespaces in turn, as long as `during` runs.
async fn create_during(
    namespaces: &[TestNamespace<'_>],
    step: usize,
    during: impl Future<Output = ()>,
) {
    let mut during = std::pin::pin!(during);

    for number in OBJECTS.. {
        tokio::select! {
            () = &mut during => return,
            () = tokio::time::sleep(BETWEEN) => {}
        }
        namespaces[number % namespaces.len()]
            .create_touchable(&name(step, number))
            .await;
    }
}

/// Returns the name of a plugin.
fn plugin_name(seed: u64, number: usize) -> String {
    format!("plugin-{seed}-{number}")
}

/// Gives the plugin [`SPLIT`] another number of shards.
async fn split(namespaces: &[TestNamespace<'_>], seed: u64, random: &mut StdRng) {
    let shards = random.random_range(1..=MAX_SHARDS);
    println!("seed {seed}: {shards} shards");
    let patch = json!({"spec": {"shards": shards}});
    namespaces[SPLIT]
        .patch(kinds::PLUGIN, &plugin_name(seed, SPLIT), patch)
        .await;
}

/// Runs a plugin in a namespace of its own. Two reconcile at once, the third one takes its time.
async fn plugin(control_plane: &ControlPlane, seed: u64, number: usize) -> TestNamespace<'_> {
    let namespace = control_plane
        .namespace(&format!("seed-{seed}-{number}"))
        .await;

    namespace.allow_all("plugin").await;
    let name = plugin_name(seed, number);

    let drop_in = match number {
        0 => DropIn::new(&name, guest("fixture-misbehave")).config(json!({"do": "slow"})),
        _ => DropIn::new(&name, guest("fixture-touch-v1")),
    };
    namespace.drop_in(&drop_in).await;

    namespace
        .until_condition(&name, "Ready", "True", "Running")
        .await;

    namespace
}

/// Waits until all objects of a namespace have been reconciled.
async fn until_all_touched(seed: u64, namespace: &TestNamespace<'_>) {
    let maps: Api<ConfigMap> =
        Api::namespaced(namespace.control_plane().client().await, namespace.name());

    let objects = ListParams::default().labels("operetta-fixture=true");

    eventually(
        &format!("seed {seed}: no key of {} is lost", namespace.name()),
        async || {
            let found = maps
                .list(&objects)
                .await
                .map_err(|error| error.to_string())?;
            let is_touched = |map: &&ConfigMap| {
                map.data
                    .as_ref()
                    .is_some_and(|data| data.contains_key("touched"))
            };
            let lost: Vec<_> = found
                .items
                .iter()
                .filter(|map| !is_touched(map))
                .map(|map| &map.metadata.name)
                .collect();
            if lost.is_empty() {
                Ok(())
            } else {
                Err(format!("{lost:?}"))
            }
        },
    )
    .await;
}

/// Runs the history of a seed.
///
/// # Panics
/// Panics if a promise is broken, with each breach.
pub async fn run(control_plane: &ControlPlane, seed: u64) -> Summary {
    let mut random = StdRng::seed_from_u64(seed);
    let audited = control_plane.audit_length();
    let leases = Leases::new(control_plane).await;
    let mut history = History {
        control_plane,
        leases,
        running: Vec::new(),
        ended: Vec::new(),
    };
    history.fill().await;

    let namespaces = join_all((0..PLUGINS).map(|number| plugin(control_plane, seed, number))).await;
    let steps = plan(seed, &mut random);
    for (at, step) in steps.iter().enumerate() {
        for namespace in &namespaces {
            for number in 0..OBJECTS {
                namespace.create_touchable(&name(at, number)).await;
            }
        }

        if at % 2 == 0 {
            split(&namespaces, seed, &mut random).await;
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(0..500))).await;
        println!("seed {seed}, step {at}: {:?}", step.0);
        create_during(&namespaces, at, history.take(step, &mut random)).await;
    }

    for namespace in &namespaces {
        namespace.create_touchable(&name(STEPS, 0)).await;
    }

    history.fill().await;
    join_all(
        namespaces
            .iter()
            .map(|namespace| until_all_touched(seed, namespace)),
    )
    .await;
    let stopped = join_all(
        std::mem::take(&mut history.running)
            .into_iter()
            .map(Replica::terminate),
    )
    .await;
    history.ended.extend(stopped.into_iter().flatten());

    let audit = control_plane.audit_from(audited);
    let reconciles = history
        .ended
        .iter()
        .map(|process| process.reconciles.len())
        .sum();
    assert!(
        reconciles >= PLUGINS * OBJECTS * STEPS,
        "the logs have {reconciles} reconciles"
    );

    let found = breaches(&history.ended, &audit);
    assert!(found.is_empty(), "seed {seed}: {found:#?}");

    let names: Vec<&str> = namespaces.iter().map(TestNamespace::name).collect();
    let pauses = pauses(&audit, &names, "object-")
        .into_iter()
        .filter_map(|(object, pause)| {
            let step: usize = object.split('-').nth(1)?.parse().ok()?;
            Some((steps.get(step)?.0.clone(), pause.as_secs_f64() * 1e3))
        });
    let pauses = pauses.collect();

    for namespace in &namespaces {
        namespace.delete_all(kinds::PLUGIN).await;
        namespace.delete_all(kinds::CONFIG_MAP).await;
    }

    Summary {
        processes: history.ended.len(),
        reconciles,
        pauses,
    }
}

/// Returns the pauses by fate.
pub fn by_fate(summaries: &[Summary]) -> BTreeMap<Fate, Vec<f64>> {
    let mut by_fate: BTreeMap<Fate, Vec<f64>> = BTreeMap::new();
    for (fates, pause) in summaries.iter().flat_map(|summary| &summary.pauses) {
        for fate in fates {
            by_fate.entry(*fate).or_default().push(*pause);
        }
    }
    by_fate
}
