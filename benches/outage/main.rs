//! `make bench-outage`: how long keys take to recover from an outage of the API server, beside
//! controller-runtime.
//!
//! `outage.Ts.SCENARIO` is the time in seconds from the end of an outage of T seconds until all
//! [`OBJECTS`] objects are reconciled. Both controllers have the defaults of their libraries and do
//! the same: they set a field of ConfigMaps, the plugin `fixture-touch-v1` and
//! benches/peers/go/outage. Each works in a namespace of its own, behind a proxy of its own, and
//! both meet the same outage of one real API server at the same time. The scenarios:
//!
//! - `failing`: all keys fail when the outage begins, and nothing changes meanwhile. The proxy
//!   answers writes with 503 until each key has failed once, and then closes its port.
//! - `changed`: nothing fails when it begins. Somebody else, who reaches the API server, changes
//!   all objects every second.
//! - `failing_changed`: both.
//! - `writes`: only the controllers' writes fail, with 503, as behind a broken admission webhook.
//!   Reads and watches work, and somebody else changes all objects every second.
//!
//! `LIMIT` is how many seconds to wait for a recovery; a recovery that takes
//! longer counts as this long. controller-runtime's longest delay is 1,000 s.

mod side;

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use operetta_testkit::{
    ControlPlane,
    bench::{Report, Row, Samples, is_chosen, number, numbers, only_starts},
    peers::Peers,
};

use crate::side::{Name, Side};

const ROUNDS: usize = 3;
/// The lengths of the outages, in seconds.
const OUTAGES: [usize; 2] = [5, 30];
/// The objects of each controller.
const OBJECTS: usize = 20;
/// The longest recovery, in seconds.
const LIMIT: usize = 1_100;
/// The time between two changes of all objects.
const CHANGE: Duration = Duration::from_secs(1);
/// The time before an outage in which nothing happens.
const SETTLE: Duration = Duration::from_secs(3);

/// What happens when an outage begins, and while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scenario {
    Failing,
    Changed,
    FailingChanged,
    Writes,
}

impl Scenario {
    const ALL: [Self; 4] = [
        Self::Failing,
        Self::Changed,
        Self::FailingChanged,
        Self::Writes,
    ];

    /// All keys fail when it begins.
    fn begins_failing(self) -> bool {
        self != Self::Changed
    }

    /// Somebody else changes the objects while it lasts.
    fn changes(self) -> bool {
        self != Self::Failing
    }

    /// Nothing reaches the API server, not only writes.
    fn is_unreachable(self) -> bool {
        self != Self::Writes
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failing => "failing",
            Self::Changed => "changed",
            Self::FailingChanged => "failing_changed",
            Self::Writes => "writes",
        })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if only_starts() {
        return Ok(());
    }
    let peers = Peers::build_part(&["consistency"]);
    let limit = Duration::from_secs(number("LIMIT", LIMIT) as u64);
    let mut times: BTreeMap<(usize, Scenario, Name), Vec<f64>> = BTreeMap::new();

    for seconds in numbers("OUTAGES", &OUTAGES) {
        for _ in 0..number("ROUNDS", ROUNDS) {
            for scenario in Scenario::ALL {
                if !is_chosen(&scenario.to_string()) {
                    continue;
                }
                let outage = Duration::from_secs(seconds as u64);
                for (name, took) in turn(&peers, scenario, outage, limit).await? {
                    let text = took.map_or_else(
                        || format!("not within {limit:?}"),
                        |took| format!("{took:.2?}"),
                    );
                    println!("{seconds} s, {scenario}, {name}: {text}");
                    times
                        .entry((seconds, scenario, name))
                        .or_default()
                        .push(took.unwrap_or(limit).as_secs_f64());
                }
            }
        }
    }

    let mut report = Report::new("outage");
    for ((seconds, scenario, name), ours) in &times {
        if *name != Name::Operetta {
            continue;
        }
        let metric = format!("outage.{seconds}s.{scenario}");
        let mut row = Row::new(metric, "s", Samples::new(ours.clone()));
        if let Some(theirs) = times.get(&(*seconds, *scenario, Name::ControllerRuntime)) {
            row = row.peer(
                Name::ControllerRuntime.to_string(),
                &Samples::new(theirs.clone()),
            );
        }
        report.row(row);
    }
    report.finish()?;
    Ok(())
}

/// Plays one outage. Returns the recovery of each controller; None if it takes longer than the
/// limit.
async fn turn(
    peers: &Peers,
    scenario: Scenario,
    outage: Duration,
    limit: Duration,
) -> anyhow::Result<Vec<(Name, Option<Duration>)>> {
    let control_plane = ControlPlane::start(&[]).map_err(anyhow::Error::msg)?;
    control_plane.install_host();
    let mut sides = Vec::new();
    for name in [Name::Operetta, Name::ControllerRuntime] {
        sides.extend(Side::start(name, &control_plane, peers).await?);
    }
    for side in &sides {
        side.create().await;
        side.until_reconciled().await;
    }
    tokio::time::sleep(SETTLE).await;

    if scenario.begins_failing() {
        for side in &sides {
            side.fail_writes(outage);
            side.change("begin").await;
        }
        for side in &sides {
            side.until_all_failed().await;
        }
    }
    let began = Instant::now();
    if scenario.is_unreachable() {
        sides.iter().for_each(|side| side.proxy.refuse());
    }

    let mut changes = tokio::time::interval(CHANGE);
    changes.tick().await;
    while began.elapsed() < outage {
        let rest = outage.saturating_sub(began.elapsed());
        tokio::select! {
            _at = changes.tick(), if scenario.changes() => {
                let tick = format!("{:.0?}", began.elapsed());
                for side in &sides {
                    side.change(&tick).await;
                }
            }
            () = tokio::time::sleep(rest) => {}
        }
    }

    for side in &sides {
        side.assert_nothing_written().await?;
    }
    let ended = Instant::now();
    sides.iter().for_each(|side| side.proxy.heal());
    let recoveries = sides.iter().map(|side| async move {
        let took = side.recovery(ended, limit).await;
        (side.name, took)
    });
    let recoveries = futures::future::join_all(recoveries).await;
    for side in &mut sides {
        side.assert_sound()?;
    }
    Ok(recoveries)
}
