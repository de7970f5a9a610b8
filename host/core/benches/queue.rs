//! Costs of the workqueue: `make bench-queue`.
//!
//! `queue.per_key` is add + get + forget + done of one key, single thread, [`KEYS`] keys at once in
//! the queue: the key's copy for the queue is included, as informers make one. `queue.add_after` is
//! one call with a delay that does not end, the others of the batch waiting already. Both are
//! microseconds; a round's value is the median of its passes over all keys, so that being preempted
//! now and then does not count.
//!
//! tokio's clock is slower here than in the host, because benches share the tests'
//! feature `test-util`.

#[path = "../../../tests/testkit/src/bench.rs"]
mod bench;
#[path = "../../../tests/testkit/src/peers.rs"]
mod peers;

use std::time::{Duration, Instant};

use bench::{Report, Row, Samples, number, only_starts};
use operetta_core::{object::ObjectKey, queue::WorkQueue};
use peers::Peers;
use serde_json::json;

const KEYS: usize = 10_000;
const PASSES: usize = 20;
const ROUNDS: usize = 15;

fn main() -> std::io::Result<()> {
    if only_starts() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let keys: Vec<ObjectKey> = (0..KEYS)
        .map(|at| ObjectKey::namespaced(format!("team-{}", at % 100), format!("web-{at:05}")))
        .collect();
    let mut report = Report::new("queue");
    // One queue throughout: growing its tables is not what is measured.
    let queue = WorkQueue::new();
    let peers = Peers::build();
    let mut measure = |metric: &str, target: Option<f64>, pass: &dyn Fn() -> Duration| {
        let question = json!({"metric": metric, "size": KEYS, "passes": PASSES});
        let (ours, theirs) = peers.beside(
            number("ROUNDS", ROUNDS),
            &["client-go", "controller-runtime"],
            &question,
            || passes(pass),
        );
        let row = theirs
            .iter()
            .fold(Row::new(metric, "us", ours), |row, (name, samples)| {
                row.peer(*name, samples)
            });
        report.row(target.into_iter().fold(row, Row::target));
    };
    measure("queue.per_key", Some(0.6), &|| {
        runtime.block_on(per_key(&queue, &keys))
    });
    measure("queue.add_after", None, &|| {
        runtime.block_on(add_after(&keys))
    });
    println!("{}", report.finish()?.display());
    Ok(())
}

fn passes(pass: &dyn Fn() -> Duration) -> f64 {
    Samples::of(PASSES, || pass().as_secs_f64() * 1e6 / KEYS as f64).median()
}

async fn per_key(queue: &WorkQueue<ObjectKey>, keys: &[ObjectKey]) -> Duration {
    let start = Instant::now();
    for key in keys {
        queue.add(key.clone());
    }
    for _ in keys {
        let Some(key) = queue.get().await else { break };
        queue.forget(&key);
        queue.done(&key);
    }
    start.elapsed()
}

async fn add_after(keys: &[ObjectKey]) -> Duration {
    let queue = WorkQueue::new();
    let start = Instant::now();
    for (at, key) in keys.iter().enumerate() {
        // Spread over a thousand seconds without order.
        let millis = (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44;
        queue.add_after(key.clone(), Duration::from_millis(10_000 + millis));
    }
    start.elapsed()
}
