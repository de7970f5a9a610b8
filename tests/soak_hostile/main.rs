//! Runs honest plugins beside hostile tenants, on one host and a real API server. The honest
//! plugins must keep working, the host's memory must not grow, and no tenant may read the honest
//! plugins' objects. `make soak-hostile SECONDS=1800` runs it for half an hour.
//!
//! The honest plugins are in two namespaces. Their latency is the time from the creation of a
//! ConfigMap to the plugin's write. The test measures it three times:
//!
//! 1. alone, for a tenth of the time;
//! 2. beside each attack of attacks.rs in turn, which a tenant makes as a user and with plugins,
//!    together for four tenths. Those of people.rs are requests to the endpoints for users; beside
//!    them an honest user reads a log, and the test prints how long that took;
//! 3. beside the whole hostile corpus, for half of the time. Each of its guests is a plugin in one
//!    namespace, where Pods change continually, so that each guest that loads is reconciled
//!    repeatedly.
//!
//! The test asserts that every object is touched, that the host is up and has logged nothing
//! unsound, and that nothing that a hostile tenant received contains a canary (canaries.rs). In
//! runs of six minutes or longer it also asserts that the host's memory at the end is about the
//! same as after a third of the corpus's time. The latencies are printed, not asserted. `make
//! soak-hostile ATTACKS="allocators corpus"` runs only these.
//!
//! The hostile requests load the API server too. For comparison, a native controller with its own
//! client and connection does the work of the honest plugins in a third namespace. Its latency is
//! the API server's part; the rest is the host's.
//!
//! As in a cluster, the host has its own processors. It gets half of them; the control plane and
//! this program share the others.
//!
//! The test is a separate program because it has its own host and control plane.

mod attacks;
mod canaries;
mod latency;
mod people;

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
use parking_lot::Mutex;
use people::{Crowd, Reader, Visits};

const POD: Kind = Kind("v1", "Pod");
/// The factor by which the host's memory may grow between the first third and the end.
const GROWTH: f64 = 1.25;
/// The growth that is allowed in addition, in bytes.
const SLACK: u64 = 32 << 20;
/// The shortest time beside the corpus, in seconds, after which the growth of memory is checked. In
/// a shorter time the instance pool is still filling its free slots.
const SETTLED: u64 = 180;
/// The shortest run, in seconds, with attacks of full size.
const FULL: u64 = 180;
/// The name of the whole corpus among the attacks.
const CORPUS: &str = "corpus";
/// The most memory that the host may use in any run, in bytes.
const MOST: u64 = 512 << 20;
/// The memory of a host that has given back what an attack has left, in bytes.
const QUIET: u64 = 160 << 20;
/// The longest time that giving back takes: the allocator returns unused pages within ten seconds.
const GIVEN_BACK: Duration = Duration::from_secs(15);

#[tokio::test]
async fn honest_plugins_keep_working_beside_hostile_tenants() {
    let seconds =
        std::env::var("SOAK_SECONDS").map_or(10, |text| text.parse().expect("a number of seconds"));

    let [ours, the_host_s] = halves();
    let on = |processors: &CpuSet| {
        sched_setaffinity(None, processors).expect("processors that this process has");
    };

    // A child process inherits the processors of the thread that starts it.
    on(&ours);
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    on(&the_host_s);

    // The whole corpus runs in one namespace.
    let config = "{quotas: {namespace: {plugins: 1000, controllers: 1000}}, \
                  secureEndpoints: {address: '127.0.0.1:0'}}"
        .to_owned();
    let options = HostOptions {
        config,
        ..HostOptions::default()
    };

    let host = Host::start(&control_plane, &options).await;
    on(&ours);
    let honest = Honest::new(&control_plane, &host).await;
    let canaries = Canaries::plant(&honest.plugins).await;

    let alone = honest
        .touch("alone", Duration::from_secs(seconds / 10 + 3))
        .await;
    println!("soak-hostile: {:<22} {alone}", "alone");

    // The short run of `make test` only checks that the honest plugins keep working; its latencies
    // mean little.
    let divisor = if seconds < FULL { 10 } else { 1 };
    let reader = Reader::new(&host, &honest.plugins[0]);
    let stage = Stage {
        control_plane: &control_plane,
        host: &host,
        honest,
        reader,
        canaries,
        alone,
        divisor,
    };

    let chosen = Chosen::from_environment();
    let attacks = Attack::ALL.len() as u64;
    for attack in Attack::ALL
        .into_iter()
        .filter(|attack| chosen.contains(attack.name()))
    {
        stage
            .beside_attack(attack, Duration::from_secs(seconds * 2 / 5 / attacks + 1))
            .await;
    }

    if chosen.contains(CORPUS) {
        stage.beside_corpus(seconds / 2).await;
    }
}

/// The attacks that run, by name: those that the variable `SOAK_ATTACKS` lists, or all.
struct Chosen(Vec<String>);

impl Chosen {
    fn from_environment() -> Self {
        let text = std::env::var("SOAK_ATTACKS").unwrap_or_default();
        let chosen: Vec<String> = text.split_whitespace().map(str::to_owned).collect();

        let is_known = |name: &String| {
            name == CORPUS || Attack::ALL.iter().any(|attack| attack.name() == name)
        };

        let unknown: Vec<&String> = chosen.iter().filter(|name| !is_known(name)).collect();
        assert!(unknown.is_empty(), "no attack is named {unknown:?}");
        Self(chosen)
    }

    fn contains(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|chosen| chosen == name)
    }
}

/// The host and the honest plugins, which all attacks share.
struct Stage<'a> {
    control_plane: &'a ControlPlane,
    host: &'a Host,
    honest: Honest<'a>,
    reader: Reader,
    canaries: Canaries,
    /// The latencies without an attack.
    alone: Times,
    /// The divisor of the attacks' sizes.
    divisor: usize,
}

impl Stage<'_> {
    /// Runs an attack for `time` beside the honest plugins.
    async fn beside_attack(&self, attack: Attack, time: Duration) {
        let ground = Ground::new(self.control_plane, attack, &self.canaries, self.divisor).await;

        attack.start(&ground).await;
        let crowd = Crowd::start(attack, &ground.namespace, self.host, self.divisor);
        let visits = Mutex::<Visits>::default();
        let beside = tokio::select! {
            () = attack.go_on(&ground) => unreachable!("an attack never ends by itself"),
            () = self.reader.visit(&visits) => unreachable!("the visits never end"),
            beside = self.honest.touch(attack.name(), time) => beside,
        };
        let is_by_people = crowd.is_some();
        drop(crowd);

        self.host.assert_sound();
        println!(
            "soak-hostile: {:<22} {}",
            attack.name(),
            beside.beside(&self.alone)
        );
        if is_by_people {
            println!("soak-hostile: {:<22} {}", attack.name(), visits.lock());
        }

        assert!(
            beside.host_bytes < MOST,
            "the host used {} bytes beside {}",
            beside.host_bytes,
            attack.name()
        );
        self.canaries
            .assert_unknown_to(self.host, &ground.namespace)
            .await;

        ground.clear().await;
        self.settle().await;
    }

    /// Waits until the host has given back what an attack has left, or for as long as its allocator
    /// takes for that: an attack of a second must not count for the next ones.
    async fn settle(&self) {
        let end = tokio::time::Instant::now() + GIVEN_BACK;
        while self.host.memory_bytes() > QUIET && tokio::time::Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Runs all guests of the corpus for `seconds` beside the honest plugins.
    async fn beside_corpus(&self, seconds: u64) {
        let bad = self.control_plane.namespace("bad").await;
        bad.allow_all("plugin").await;

        for pod in ["a", "b"] {
            let container = json!({"name": "c", "image": "x"});
            bad.create_object(
                POD,
                json!({"metadata": {"name": pod}, "spec": {"containers": [container]}}),
            )
            .await;
        }

        let mut dropped = 0;
        for fixture in hostile::all() {
            dropped += u32::from(drop_in(&bad, fixture).await);
        }

        let until = Instant::now() + Duration::from_secs(seconds);
        let waking = async {
            for at in 0_u64.. {
                let labels = json!({"metadata": {"labels": {"at": at.to_string()}}});
                bad.patch(POD, if at % 2 == 0 { "a" } else { "b" }, labels)
                    .await;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };

        let third = Duration::from_secs(seconds / 3);
        let watched = async {
            let early = self.honest.touch("early", third).await;
            let then = self.host.memory_bytes();
            let late = self
                .honest
                .touch("late", until.saturating_duration_since(Instant::now()))
                .await;
            (early, late, then, self.host.memory_bytes())
        };

        let (early, late, then, now) = tokio::select! {
            () = waking => unreachable!("the changes of Pods never end"),
            watched = watched => watched,
        };

        self.host.assert_sound();
        self.canaries.assert_unknown_to(self.host, &bad).await;

        let plugins = bad.list(kinds::PLUGIN).await;
        let at_work = |plugin: &&Value| {
            plugin["status"]["controllers"]
                .as_array()
                .is_some_and(|all| !all.is_empty())
        };
        let reconciled = plugins.iter().filter(at_work).count();

        println!(
            "soak-hostile: {dropped} hostile plugins, {reconciled} of them running, {seconds} s\n\
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

        let most = early.host_bytes.max(late.host_bytes);
        assert!(most < MOST, "the host used {most} bytes beside the corpus");
        if seconds >= SETTLED {
            assert!(
                now as f64 <= then as f64 * GROWTH + SLACK as f64,
                "the host's memory grew from {then} to {now} bytes"
            );
        }
    }
}

/// Returns the processors that this program may use, in two halves. If there is only one, both
/// halves have it.
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

/// Creates a drop-in ConfigMap of a fixture. Returns false, and creates nothing, if the component
/// does not fit.
async fn drop_in(namespace: &TestNamespace<'_>, fixture: Fixture) -> bool {
    let component = fixture.build();
    let name = fixture.name.replace('_', "-");
    let compressed = DropIn::compressed(&name, &component);

    // A ConfigMap holds at most a mebibyte, including the overhead of base64.
    let fits = compressed.object().to_string().len() < 1_000_000;
    if fits {
        let mut object = compressed.object();
        if fixture.is_warm() {
            object["metadata"]["annotations"]["operetta.dev/warm"] = json!("true");
        }
        namespace.create_object(kinds::CONFIG_MAP, object).await;
    }
    fits
}
