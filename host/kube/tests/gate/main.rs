//! Checks that the gate answers as the API server does. Two tenants make random calls, with random
//! changes of their RBAC in between. The oracle for each call is the API server, to which the test
//! sends the same call as the same ServiceAccount.
//!
//! A lane is two tenants with a namespace each. The lanes run concurrently and share one set of
//! caches, as plugins in a host do. `GATE_SECONDS` (60) or `GATE_SEQUENCES` limits the run;
//! `OPERETTA_SEED` repeats the choices of an earlier run.

mod call;
mod hostile;
mod lane;
mod oracle;
mod world;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rand::{SeedableRng, rngs::StdRng};

use lane::{Counts, Lane};
use world::World;

/// The number of lanes that run concurrently.
const LANES: u64 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn gate_answers_as_the_api_server() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().expect("a number"))
    };
    let seed = number("OPERETTA_SEED").unwrap_or_else(rand::random);
    let sequences = number("GATE_SEQUENCES").unwrap_or(u64::MAX);
    let unlimited = Duration::from_secs(24 * 60 * 60);
    let limit = match (number("GATE_SECONDS"), sequences) {
        (Some(seconds), _) => Duration::from_secs(seconds),
        (None, u64::MAX) => Duration::from_secs(60),
        (None, _) => unlimited,
    };
    println!("OPERETTA_SEED={seed}");

    let world = Arc::new(World::new().await);
    let started = Instant::now();
    let begun = Arc::new(AtomicU64::new(0));
    let lanes = (0..LANES).map(|number| {
        let (world, begun) = (world.clone(), begun.clone());
        tokio::spawn(async move {
            let random = StdRng::seed_from_u64(seed.wrapping_add(number));
            let mut lane = Lane::new(&world, number, random).await;
            while started.elapsed() < limit && begun.fetch_add(1, Ordering::Relaxed) < sequences {
                lane.sequence().await;
            }
            lane.counts
        })
    });
    let lanes: Vec<_> = lanes.collect();
    let mut total = Counts::default();
    for lane in lanes {
        total.add(
            &lane
                .await
                .expect("the gate answers as the API server in each sequence"),
        );
    }
    println!("gate: {total} in {} s", started.elapsed().as_secs());
    assert!(
        total.sequences >= sequences.min(100),
        "only {} sequences",
        total.sequences
    );
    assert!(total.is_varied(), "an outcome is too rare: {total}");
}
