//! A plugin whose keys are split over replicas: each key is reconciled by the owner of its shard
//! alone, whatever happens to the replicas and to the number of shards.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use operetta_core::{object::ObjectKey, replicas::Shard};
use operetta_testkit::{
    ControlPlane, TestNamespace, eventually,
    history::{Life, Process, breaches},
    kinds, within,
};
use serde_json::{Value, json};

use crate::{
    TAKEN_OVER,
    stage::{Replica, control_plane, drop_in},
};

/// The name of the plugin.
const PLUGIN: &str = "touch";
/// The objects that the plugin reconciles at first.
const OBJECTS: usize = 120;
/// How often the owners are checked until no shard moves meanwhile.
const ROUNDS: usize = 5;

/// The replica and the epoch of each shard.
type Owners = Vec<(String, i64)>;

/// A plugin on three replicas.
struct Stage<'a> {
    control_plane: &'a ControlPlane,
    namespace: &'a TestNamespace<'a>,
    replicas: Vec<Replica>,
    /// What the replicas that have ended did.
    ended: Vec<(String, Process)>,
}

impl Stage<'_> {
    async fn set_shards(&self, shards: Option<u32>) {
        self.namespace
            .patch(kinds::PLUGIN, PLUGIN, json!({"spec": {"shards": shards}}))
            .await;
    }

    /// Waits until the plugin has `count` shards, all of which run on these replicas, in equal
    /// parts.
    async fn until_balanced(&self, count: usize) -> Owners {
        let what = format!("{count} shards run on {} replicas", self.replicas.len());
        let check = async || {
            let plugin = self
                .namespace
                .get(kinds::PLUGIN, PLUGIN)
                .await
                .ok_or("no Plugin")?;
            let owners = owners(&plugin);
            let shares = self
                .replicas
                .iter()
                .map(|replica| share(&owners, &replica.identity));

            let shares: Vec<usize> = shares.filter(|share| *share > 0).collect();
            let is_balanced =
                shares.iter().max() <= shares.iter().min().map(|least| least + 1).as_ref();
            let is_complete = owners.len() == count && shares.iter().sum::<usize>() == count;
            let is_spread = shares.len() == count.min(self.replicas.len());

            match is_balanced && is_complete && is_spread {
                true => Ok(owners),
                false => Err(plugin["status"].to_string()),
            }
        };
        let owners = within(TAKEN_OVER, &what, check).await;
        self.namespace
            .until_condition(PLUGIN, "Ready", "True", "Running")
            .await;
        owners
    }

    async fn create(&self, prefix: &str, count: usize) {
        for number in 0..count {
            self.namespace
                .create_touchable(&format!("{prefix}-{number}"))
                .await;
        }
    }

    /// Waits until the plugin has reconciled all objects.
    async fn until_all_touched(&self) {
        eventually("every object is reconciled", async || {
            let untouched = self
                .objects()
                .await
                .into_iter()
                .filter(|map| map["data"]["touched"] != "v1");
            let names: Vec<_> = untouched
                .map(|map| map["metadata"]["name"].to_string())
                .collect();
            if names.is_empty() {
                Ok(())
            } else {
                Err(format!("{} are not: {names:?}", names.len()))
            }
        })
        .await;
    }

    /// Changes all objects, so that each must be reconciled again.
    async fn change_all(&self) {
        for map in self.objects().await {
            let name = map["metadata"]["name"].as_str().expect("a name");
            self.namespace
                .patch(
                    kinds::CONFIG_MAP,
                    name,
                    json!({"data": {"touched": "changed"}}),
                )
                .await;
        }
    }

    async fn objects(&self) -> Vec<Value> {
        let mut maps = self.namespace.list(kinds::CONFIG_MAP).await;
        maps.retain(|map| map["metadata"]["labels"]["operetta-fixture"].is_string());
        maps
    }

    /// Changes all objects while the shards stay where they are, checks that each is reconciled by
    /// the owner of its shard, and returns the owners. The first one of a new shard may hand it
    /// over to the one it is assigned to, so some rounds may be disturbed.
    async fn check_owners(&self, count: usize) -> Owners {
        for _ in 0..ROUNDS {
            let owners = self.until_balanced(count).await;
            self.until_all_touched().await;

            let since = Timestamp::now();
            self.change_all().await;
            self.until_all_touched().await;
            if self.until_balanced(count).await == owners {
                self.check_reconciles(&owners, since);
                return owners;
            }
        }
        panic!("the shards moved in each of {ROUNDS} rounds");
    }

    /// Kills a replica.
    fn kill(&mut self, identity: &str) {
        let at = self
            .replicas
            .iter()
            .position(|replica| replica.identity == identity)
            .expect("a replica");

        let killed = self.replicas.remove(at);
        killed.host.kill();
        self.ended.extend(
            Process::read(&killed.host.log(), &until_now())
                .map(|process| (killed.identity, process)),
        );
    }

    /// Checks that each reconcile of these shards, since this time, was of a key of the shard and
    /// on the owner's replica.
    fn check_reconciles(&self, owners: &Owners, since: Timestamp) {
        let mut keys = BTreeSet::new();
        let mut shares: BTreeMap<&str, usize> = BTreeMap::new();

        for replica in &self.replicas {
            let process = Process::read(&replica.host.log(), &until_now()).expect("it has joined");
            for reconcile in process
                .reconciles
                .iter()
                .filter(|reconcile| reconcile.began > since)
            {
                let (namespace, name) = reconcile.key.split_once('/').expect("a namespaced key");
                let key = ObjectKey::namespaced(namespace, name);
                let count = u32::try_from(owners.len()).expect("few");
                let shard = Shard::all(count)
                    .find(|shard| shard.contains(&key))
                    .expect("a shard");
                assert_eq!(
                    reconcile.shard,
                    shard.to_string(),
                    "{key} on {}",
                    replica.identity
                );
                assert_eq!(
                    owners[shard.index() as usize].0,
                    replica.identity,
                    "{key} of shard {shard}"
                );

                if keys.insert(reconcile.key.clone()) {
                    *shares.entry(&replica.identity).or_default() += 1;
                }
            }
        }

        println!("{} keys of {} shards: {shares:?}", keys.len(), owners.len());
        assert!(keys.len() >= OBJECTS, "{} keys", keys.len());
    }
}

/// Returns the life of a process that ends now, and was never stopped.
fn until_now() -> Life {
    let now = Timestamp::now();
    Life {
        started: now,
        ended: now,
        stops: Vec::new(),
    }
}

fn owners(plugin: &Value) -> Owners {
    let shards = plugin["status"]["shards"]
        .as_array()
        .cloned()
        .unwrap_or_default();

    let owner = |shard: Value| {
        Some((
            shard["replica"].as_str()?.to_owned(),
            shard["epoch"].as_i64()?,
        ))
    };

    shards.into_iter().filter_map(owner).collect()
}

fn share(owners: &Owners, identity: &str) -> usize {
    owners
        .iter()
        .filter(|(replica, _)| replica == identity)
        .count()
}

#[tokio::test]
async fn keys_of_a_split_plugin_are_reconciled_by_the_owners_of_their_shards() {
    let control_plane = control_plane();
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(Replica::start_traced(&control_plane).await);
    }

    let namespace = control_plane.namespace("shards").await;
    namespace.allow_all("plugin").await;
    drop_in(&namespace, PLUGIN).await;

    namespace
        .until_condition(PLUGIN, "Ready", "True", "Running")
        .await;

    let mut stage = Stage {
        control_plane: &control_plane,
        namespace: &namespace,
        replicas,
        ended: Vec::new(),
    };

    // From one shard to four, with objects that are created meanwhile.
    stage.create("before", OBJECTS / 2).await;
    stage.set_shards(Some(4)).await;
    stage.create("meanwhile", OBJECTS / 2).await;
    let four = stage.check_owners(4).await;
    check_reports(&stage, &four).await;

    // The death of a replica moves only its own shards.
    let killed = four[0].0.clone();
    stage.kill(&killed);
    stage.change_all().await;
    let after = stage.until_balanced(4).await;
    stage.until_all_touched().await;
    for (shard, (before, after)) in four.iter().zip(&after).enumerate() {
        assert_eq!(
            before == after,
            before.0 != killed,
            "shard {shard}: {before:?}, {after:?}"
        );
    }

    // A replica that starts takes its share of them.
    stage
        .replicas
        .push(Replica::start_traced(&control_plane).await);
    let with_new = stage.until_balanced(4).await;
    let new = &stage.replicas.last().expect("a replica").identity;

    assert!(
        after
            .iter()
            .zip(&with_new)
            .all(|(before, after)| before == after || after.0 == *new),
        "{with_new:?}"
    );

    // From four shards to two, and to none.
    stage.change_all().await;
    stage.set_shards(Some(2)).await;
    stage.create("later", 20).await;
    stage.check_owners(2).await;
    stage.change_all().await;
    stage.set_shards(None).await;

    let is_whole = |plugin: &Value| {
        let status = &plugin["status"];
        let is_whole =
            status["epoch"].is_i64() && status["shards"].is_null() && status["replicas"].is_null();
        if is_whole {
            Ok(())
        } else {
            Err("it is split".to_owned())
        }
    };

    namespace.until(kinds::PLUGIN, PLUGIN, is_whole).await;
    stage.until_all_touched().await;
    check_history(stage).await;
}

/// Checks what users see of the shards.
async fn check_reports(stage: &Stage<'_>, owners: &Owners) {
    let wide = stage
        .control_plane
        .kubectl(&["get", "plugins", "-A", "-o", "wide"]);

    let mut metrics = String::new();
    for replica in &stage.replicas {
        assert!(wide.contains(&format!("{} (", replica.identity)), "{wide}");
        metrics += &replica.host.get("/metrics").expect("metrics");
    }

    for shard in 0..owners.len() {
        let labels = format!(
            "plugin=\"{PLUGIN}\",namespace=\"{}\",shard=\"{shard}\"",
            stage.namespace.name()
        );
        let owned = format!("operetta_plugin_shard{{{labels}}} 1");
        assert_eq!(metrics.matches(&owned).count(), 1, "{owned} in {metrics}");
        assert!(metrics.contains(&format!(
            "workqueue_depth{{name=\"touch\",controller=\"touch\",priority=\"0\",{labels}}}"
        )));
    }

    // The conditions and counts are those of all replicas. Counts alone are written once a minute.
    let plugin = stage
        .namespace
        .get(kinds::PLUGIN, PLUGIN)
        .await
        .expect("a Plugin");

    let views = plugin["status"]["replicas"].as_array().expect("views");
    let identities: BTreeSet<&str> = views
        .iter()
        .filter_map(|view| view["replica"].as_str())
        .collect();

    assert_eq!(
        identities,
        owners.iter().map(|(replica, _)| replica.as_str()).collect(),
        "{plugin}"
    );
    assert!(
        views
            .iter()
            .all(|view| view["ready"] == true && view["degraded"] == false),
        "{plugin}"
    );
}

/// Ends all replicas, and checks that none of them broke a promise.
async fn check_history(stage: Stage<'_>) {
    let mut processes: Vec<Process> = stage
        .ended
        .into_iter()
        .map(|(_, process)| process)
        .collect();
    for replica in stage.replicas {
        replica.host.assert_sound();
        replica.host.signal("TERM");
        replica.host.ended().await;
        processes.extend(Process::read(&replica.host.log(), &until_now()));
    }

    let reconciles: usize = processes
        .iter()
        .map(|process| process.reconciles.len())
        .sum();

    let found = breaches(&processes, &stage.control_plane.audit());
    assert!(found.is_empty(), "{found:#?}");

    println!(
        "{} processes, {reconciles} reconciles, no breach",
        processes.len()
    );
}
