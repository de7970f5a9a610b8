//! Good plugins beside hostile tenants on one host and a real API server: they go on, the host's memory does not grow, and
//! nothing of theirs is read, written or learnt. `make soak-hostile SECONDS=1800` does it for half an hour.
//!
//! The good plugins are in two namespaces. How long it takes from the creation of a ConfigMap to the plugin's write is measured
//! alone first, then beside each attack of attacks.rs in its turn, which tenants make with kubectl and with plugins, and
//! then beside the whole hostile corpus: every guest of it is a plugin of one namespace where Pods change all the time, so
//! that each that loads is reconciled again and again. Asserted are that every object is touched, that the host is up and
//! has logged nothing unsound, that no canary of the good namespaces is in anything that a hostile one received
//! (canaries.rs), and, in three minutes and more, that the host's memory at the end is about what it was after a third of
//! the corpus's time. The latencies are printed, not asserted.
//!
//! The hostile requests keep the API server busy too. So a native controller does in a third namespace what the good
//! plugins do, with a client and a connection of its own: the part of a latency that it has too is the API server's, the rest
//! is the host's.
//!
//! As in a cluster, the host has processors of its own: half of them, and the control plane and this program have the others.
//!
//! In a program of its own, because it has a host and a control plane of its own.

mod attacks;
mod canaries;
mod latency;

use std::time::{Duration, Instant};

use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, Kind, TestNamespace,
    hostile::{self, Fixture},
    kinds,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};

use attacks::{Attack, Ground};
use canaries::Canaries;
use latency::{Honest, Times};

const POD: Kind = Kind("v1", "Pod");
/// The growth of the host's memory that is allowed between the first third and the end: a factor, and so many bytes more.
const GROWTH: f64 = 1.25;
const SLACK: u64 = 32 << 20;
/// Before, free slots of the pool are still being filled.
const SETTLED: u64 = 180;
/// The most that the host may have in any case, in bytes.
const MOST: u64 = 1 << 30;

#[tokio::test]
async fn good_plugins_go_on_beside_the_whole_hostile_corpus() {
    let seconds = std::env::var("SOAK_SECONDS").map_or(10, |text| text.parse().expect("a number of seconds"));
    let [ours, the_host_s] = halves();
    let on = |processors: &CpuSet| sched_setaffinity(None, processors).expect("processors that this process has");
    // What is started has the processors of the thread that starts it.
    on(&ours);
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    on(&the_host_s);
    let host = Host::start(env!("CARGO_BIN_EXE_operetta"), &control_plane, &HostOptions::default()).await;
    on(&ours);
    let honest = Honest::new(&control_plane, &host).await;
    let canaries = Canaries::plant(&honest.plugins).await;
    let alone = honest.touch("alone", Duration::from_secs(seconds / 10 + 3)).await;
    println!("soak-hostile: {:<22} {alone}", "alone");
    // The short run of `make test` checks that the honest ones go on; its latencies mean little.
    let divisor = if seconds < SETTLED { 10 } else { 1 };
    let stage = Stage { control_plane: &control_plane, host: &host, honest, canaries, alone, divisor };
    for attack in Attack::ALL {
        stage.beside_attack(attack, Duration::from_secs(seconds / 30 + 1)).await;
    }
    stage.beside_corpus(seconds).await;
}

/// The host and the honest plugins, as each attack finds them.
struct Stage<'a> {
    control_plane: &'a ControlPlane,
    host: &'a Host,
    honest: Honest<'a>,
    canaries: Canaries,
    /// The latencies without an attack.
    alone: Times,
    /// What the size of the attacks is divided by.
    divisor: usize,
}

impl Stage<'_> {
    async fn beside_attack(&self, attack: Attack, time: Duration) {
        let ground = Ground::new(self.control_plane, attack, &self.canaries, self.divisor).await;
        attack.start(&ground).await;
        let beside = tokio::select! {
            () = attack.go_on(&ground) => unreachable!("it goes on for ever"),
            beside = self.honest.touch(attack.name(), time) => beside,
        };
        self.host.assert_sound();
        println!("soak-hostile: {:<22} {}", attack.name(), beside.beside(&self.alone));
        self.canaries.assert_unknown_to(self.host, &ground.namespace).await;
        ground.clear().await;
    }

    /// Runs all guests of the corpus beside the honest plugins.
    async fn beside_corpus(&self, seconds: u64) {
        let bad = self.control_plane.namespace("bad").await;
        bad.allow_all("plugin").await;
        for pod in ["a", "b"] {
            let container = json!({"name": "c", "image": "x"});
            bad.create_object(POD, json!({"metadata": {"name": pod}, "spec": {"containers": [container]}})).await;
        }
        let mut dropped = 0;
        for fixture in hostile::all() {
            dropped += u32::from(drop_in(&bad, fixture).await);
        }
        let until = Instant::now() + Duration::from_secs(seconds);
        let waking = async {
            for at in 0_u64.. {
                let labels = json!({"metadata": {"labels": {"at": at.to_string()}}});
                bad.patch(POD, if at % 2 == 0 { "a" } else { "b" }, labels).await;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let third = Duration::from_secs(seconds / 3);
        let watched = async {
            let early = self.honest.touch("early", third).await;
            let then = self.host.memory_bytes();
            let late = self.honest.touch("late", until.saturating_duration_since(Instant::now())).await;
            (early, late, then, self.host.memory_bytes())
        };
        let (early, late, then, now) = tokio::select! {
            () = waking => unreachable!("it goes on for ever"),
            watched = watched => watched,
        };
        self.host.assert_sound();
        self.canaries.assert_unknown_to(self.host, &bad).await;
        let plugins = bad.list(kinds::PLUGIN).await;
        let at_work = |plugin: &&Value| plugin["status"]["controllers"].as_array().is_some_and(|all| !all.is_empty());
        let reconciled = plugins.iter().filter(at_work).count();
        println!(
            "soak-hostile: {dropped} hostile plugins, {reconciled} of them at work, {seconds} s\n\
         soak-hostile: {:<22} {}\n\
         soak-hostile: {:<22} {}\n\
         soak-hostile: the host's memory {} MiB after a third, {} MiB at the end",
            "corpus, first third",
            early.beside(&self.alone),
            "corpus",
            late.beside(&self.alone),
            then >> 20,
            now >> 20
        );
        assert!(now < MOST, "the host has {now} bytes");
        if seconds >= SETTLED {
            assert!(
                now as f64 <= then as f64 * GROWTH + SLACK as f64,
                "the host's memory grows: {then} then, {now} now"
            );
        }
    }
}

/// The processors that this program may use, in two halves; both are all of them where there is but one.
fn halves() -> [CpuSet; 2] {
    let all = sched_getaffinity(None).expect("the processors of this process");
    let each: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|at| all.is_set(*at)).collect();
    let (some, rest) = each.split_at(each.len() / 2);
    [if some.is_empty() { rest } else { some }, rest].map(|part| {
        let mut set = CpuSet::new();
        part.iter().for_each(|at| set.set(*at));
        set
    })
}

/// Drops a fixture in; false where the API server does not take it.
async fn drop_in(namespace: &TestNamespace<'_>, fixture: Fixture) -> bool {
    let component = fixture.build();
    let name = fixture.name.replace('_', "-");
    let compressed = DropIn::compressed(&name, &component);
    // A ConfigMap holds a mebibyte, in base64.
    let fits = compressed.object().to_string().len() < 1_000_000;
    if fits {
        namespace.drop_in(&compressed).await;
    }
    fits
}
