//! The whole hostile corpus on one host with two good plugins, on a real API server: the good ones go on, and the host's memory
//! does not grow. `make soak-hostile SECONDS=1800` does it for half an hour.
//!
//! Every guest of the corpus is dropped in as a plugin of one namespace, where Pods change all the time, so that each that
//! loads is reconciled again and again. The good plugins are in two other namespaces; how long it takes from the creation of
//! a ConfigMap to the plugin's write is measured alone first, and then beside the others. Held are that every object is
//! touched, that the host is up and has said nothing unsound, and, in three minutes and more, that its memory at the end is
//! about what it was after a third of the time. The times are printed, not held: of the third in which the others are
//! loaded and fail for the first time, and of the rest.
//!
//! The hostile plugins' requests keep the API server busy too. So a native controller does in a third namespace what the
//! good plugins do, with a client and a connection of its own: what it takes longer beside the others is the API
//! server's doing, and what the plugins take longer than it does is the host's.
//!
//! As in a cluster, the host has processors of its own, in all of it: half of them, the control plane and this program the
//! others. Guests that spin use all that the host has, and who waits for an API server that waits for a processor
//! measures the kernel's scheduler.
//!
//! In a file of its own: it has a host and a control plane of its own.

use std::{
    fmt,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config, ResourceExt,
    api::{PostParams, WatchEvent, WatchParams},
};
use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, Kind, TestNamespace, guest,
    hostile::{self, Fixture},
    kinds,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};

const POD: Kind = Kind("v1", "Pod");
/// How long an object may wait for a good plugin.
const PATIENCE: Duration = Duration::from_secs(30);
/// What the host may have at the end of what it had after a third of the time, and so much more.
const GROWTH: f64 = 1.25;
const SLACK: u64 = 32 << 20;
/// Before, free places of the pool are still being filled.
const SETTLED: u64 = 180;
/// What it may have in any case: no guest's limit is over 64 MiB, and few run at once.
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
    let mut good = Vec::new();
    for name in ["good-a", "good-b"] {
        let namespace = control_plane.namespace(name).await;
        namespace.allow_all("plugin").await;
        namespace.drop_in(&DropIn::new("touch", guest("fixture-touch-v1"))).await;
        namespace.until_condition("touch", "Ready", "True", "Running").await;
        good.push(namespace);
    }
    let native = control_plane.namespace("native").await;
    touch_natively(control_plane.config().await, native.name().to_owned());
    let alone = touch(&good, &native, "alone", Duration::from_secs(seconds / 10 + 3)).await;

    let bad = control_plane.namespace("bad").await;
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
        let early = touch(&good, &native, "early", third).await;
        let then = host.memory_bytes();
        let late = touch(&good, &native, "late", until.saturating_duration_since(Instant::now())).await;
        (early, late, then, host.memory_bytes())
    };
    let (early, late, then, now) = tokio::select! {
        () = waking => unreachable!("it goes on for ever"),
        watched = watched => watched,
    };
    host.assert_sound();
    let plugins = bad.list(kinds::PLUGIN).await;
    let at_work = |plugin: &&Value| plugin["status"]["controllers"].as_array().is_some_and(|all| !all.is_empty());
    let reconciled = plugins.iter().filter(at_work).count();
    println!(
        "soak-hostile: {dropped} hostile plugins, {reconciled} of them at work, {seconds} s\n\
         soak-hostile: good ones alone {alone}\n\
         soak-hostile: beside them {late}\n\
         soak-hostile: in the third before {early}\n\
         soak-hostile: the host's memory {} MiB after a third, {} MiB at the end",
        then >> 20,
        now >> 20
    );
    assert!(now < MOST, "the host has {now} bytes");
    if seconds >= SETTLED {
        assert!(now as f64 <= then as f64 * GROWTH + SLACK as f64, "the host's memory grows: {then} then, {now} now");
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

/// Creates objects in turn, each when the one before it was touched.
async fn touch(good: &[TestNamespace<'_>], native: &TestNamespace<'_>, round: &str, time: Duration) -> Times {
    let began = Instant::now();
    let mut times = Times::default();
    while began.elapsed() < time {
        for (namespace, is_native) in good.iter().map(|of| (of, false)).chain([(native, true)]) {
            let took = if is_native { &mut times.native } else { &mut times.plugins };
            let name = format!("{round}-{}", took.len());
            let created = Instant::now();
            namespace.create_touchable(&name).await;
            loop {
                let found = namespace.get(kinds::CONFIG_MAP, &name).await.expect("it is there");
                if found["data"]["touched"] == "v1" {
                    break;
                }
                assert!(created.elapsed() < PATIENCE, "{name} of {} was not touched in {PATIENCE:?}", namespace.name());
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            took.push(created.elapsed());
            namespace.delete(kinds::CONFIG_MAP, &name).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    times
}

/// Does what the good plugins do, on a thread of its own until the program ends.
fn touch_natively(config: Config, namespace: String) {
    let touching = async move {
        let client = Client::try_from(config).expect("a client");
        let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
        loop {
            let watch = WatchParams::default().labels("operetta-fixture=true").timeout(290);
            // From what there is; whatever ends it, it starts over.
            let Ok(events) = maps.watch(&watch, "0").await else { continue };
            let mut events = events.boxed();
            while let Ok(Some(event)) = events.try_next().await {
                let (WatchEvent::Added(mut map) | WatchEvent::Modified(mut map)) = event else { continue };
                let value = map.data.get_or_insert_default().insert("touched".to_owned(), "v1".to_owned());
                if value.as_deref() != Some("v1") {
                    // It may be gone by now.
                    let _written = maps.replace(&map.name_any(), &PostParams::default(), &map).await;
                }
            }
        }
    };
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(touching)
    });
}

/// How long each object took.
#[derive(Default)]
struct Times {
    plugins: Vec<Duration>,
    native: Vec<Duration>,
}

impl fmt::Display for Times {
    /// Half and nearly all of them, and over the native ones.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [plugins, native] = [&self.plugins, &self.native].map(|took| {
            let mut took = took.clone();
            took.sort_unstable();
            [50, 99].map(|part| took.get(took.len() * part / 100).map_or(0.0, |took| took.as_secs_f64() * 1e3))
        });
        let [p50, p99] = [0, 1].map(|at| {
            let over = plugins[at] / native[at];
            format!("{:.1} ms ({over:.2}x of native's {:.1})", plugins[at], native[at])
        });
        write!(f, "p50 {p50} p99 {p99}, {} objects and {} native ones", self.plugins.len(), self.native.len())
    }
}
