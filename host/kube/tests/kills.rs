//! `kill -9` of the API server and of etcd, while informers watch and somebody writes.
//!
//! In a program of its own, for it has a control plane of its own: it kills it.

#[path = "faults/compare.rs"]
mod compare;
#[path = "faults/notes.rs"]
mod notes;
#[path = "faults/scene.rs"]
mod scene;
#[path = "faults/truth.rs"]
mod truth;

use std::time::Duration;

use operetta_kube::client::connect::connect;
use operetta_testkit::{ControlPlane, needs_real_server};
use rand::{Rng, SeedableRng, rngs::StdRng};

use scene::{Kinds, Scene};

#[tokio::test(flavor = "multi_thread")]
async fn killed_api_server_and_etcd_lose_no_object() {
    if needs_real_server("it kills etcd") {
        return;
    }
    let seed = std::env::var("OPERETTA_SEED")
        .ok()
        .map(|text| text.parse().expect("OPERETTA_SEED is a number"));
    let seed: u64 = seed.unwrap_or_else(rand::random);
    println!("OPERETTA_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let kinds = Kinds::install(&control_plane).await;
    let namespace = control_plane.namespace("kills").await;
    let watching = connect(Some(control_plane.kubeconfig()), None)
        .await
        .expect("a client");
    let direct = control_plane.client().await;
    let streaming_lists = random.random();
    let mut scene = Scene::begin(
        direct,
        watching,
        &kinds,
        namespace.name(),
        streaming_lists,
        None,
    )
    .await;
    let period = Duration::from_secs(2);
    let pause = Duration::from_millis(10);
    scene.write(&mut random, period, pause, true).await;
    for kill in [
        ControlPlane::kill_apiserver,
        ControlPlane::kill_etcd,
        ControlPlane::kill_apiserver,
    ] {
        kill(&control_plane);
        scene.write(&mut random, period, pause, true).await;
        scene.add_late_handlers();
    }
    control_plane.wait_ready().await;
    // A busy machine writes less in this time.
    for _ in 0..10 {
        scene.write(&mut random, period, pause, true).await;
        if scene.delivered() > 500 {
            break;
        }
    }
    // Of a write whose response was lost nobody knows whether it was done: the writers' notes are
    // not the whole truth.
    assert!(scene.delivered() > 500, "{} events", scene.delivered());
    let violations = scene.end(false, false).await;
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}
