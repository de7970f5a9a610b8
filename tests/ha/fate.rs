//! What happens to the replicas of a history.

use std::{sync::Arc, time::Duration};

use operetta_testkit::{ControlPlane, FaultProxy, Held, history::Process};
use rand::{Rng, rngs::StdRng};
use serde_json::json;
use tokio::time::sleep;

use crate::replica::{LEASE, Leases, Replica};

/// What happens to one replica, or through one to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// kill -9.
    Kill,
    /// SIGTERM.
    Terminate,
    /// SIGSTOP for longer than its Lease lasts.
    Stop,
    /// SIGSTOP for less than that.
    Pause,
    /// Another one starts, and this one is terminated as in a rolling update.
    Roll,
    /// All are replaced in this way, one after another.
    RollAll,
    /// All its connections are closed, and it gets no new ones, for less time than its Lease lasts.
    CutShort,
    /// The same for longer than that.
    CutLong,
    /// Nothing arrives in either direction, and the connections stay open, for less time than its
    /// Lease lasts.
    HalfOpenShort,
    /// The same for longer than that.
    HalfOpenLong,
    /// Its requests arrive only when the partition is over, for longer than its Lease lasts.
    RequestsHeld,
    /// The API server does what it asks for, but it gets no responses for longer than its Lease
    /// lasts.
    ResponsesHeld,
    /// Each of its requests takes 50 to 1500 ms longer.
    SlowOne,
    /// Each request of all takes 50 to 1500 ms longer.
    SlowAll,
    /// Its CLOCK_REALTIME is an hour later.
    ClockForward,
    /// Its CLOCK_REALTIME is an hour earlier.
    ClockBack,
    /// It is stopped for less time than its Lease lasts, and somebody deletes the Lease.
    DeleteLease,
    /// The same, and somebody edits the Lease.
    EditLease,
    /// The same, and somebody deletes the Lease of the group.
    DeleteGroup,
    /// The same, and somebody removes it from the group.
    EditGroup,
}

/// All fates, in the order in which the seeds draw them.
pub const FATES: [Fate; 20] = [
    Fate::Kill,
    Fate::HalfOpenLong,
    Fate::DeleteLease,
    Fate::Stop,
    Fate::ClockBack,
    Fate::DeleteGroup,
    Fate::CutLong,
    Fate::SlowAll,
    Fate::EditLease,
    Fate::Terminate,
    Fate::RequestsHeld,
    Fate::EditGroup,
    Fate::RollAll,
    Fate::CutShort,
    Fate::Pause,
    Fate::ResponsesHeld,
    Fate::ClockForward,
    Fate::SlowOne,
    Fate::Roll,
    Fate::HalfOpenShort,
];

/// A replica after its fate.
pub enum Met {
    /// It runs, or will have ended because its epoch is over.
    Lives(Replica),
    /// It has ended. What it did, if it had joined.
    Ended(Option<Process>),
    /// The same, and another one has replaced it.
    Replaced(Replica, Option<Process>),
}

/// What a fate needs besides its replica.
pub struct Scene<'a> {
    pub control_plane: &'a ControlPlane,
    pub leases: &'a Leases,
    /// The proxies of all replicas.
    pub proxies: Vec<Arc<FaultProxy>>,
}

/// The random times of a fate.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    short: Duration,
    long: Duration,
    /// Chooses among ways to edit a Lease.
    way: u32,
}

impl Times {
    /// Draws them.
    pub fn draw(random: &mut StdRng) -> Self {
        let mut millis = |from: u64, to: u64| Duration::from_millis(random.random_range(from..to));
        let short = millis(300, 1_400);
        let long = LEASE + millis(500, 1_500);

        Self {
            short,
            long,
            way: random.random_range(0..3),
        }
    }
}

/// Lets a replica meet its fate.
pub async fn meet(scene: &Scene<'_>, mut replica: Replica, fate: Fate, times: Times) -> Met {
    let Times { short, long, way } = times;

    match fate {
        Fate::Kill => return Met::Ended(replica.kill().await),
        Fate::Terminate => return Met::Ended(replica.terminate().await),
        Fate::Stop => replica.stop_for(long, true).await,
        Fate::Pause => replica.stop_for(short, false).await,
        Fate::Roll | Fate::RollAll => {
            let next = Replica::start(scene.control_plane).await;
            let ended = replica.terminate().await;
            return Met::Replaced(next, ended);
        }
        Fate::CutShort | Fate::CutLong => {
            replica.proxy.outage();
            sleep(if fate == Fate::CutLong { long } else { short }).await;
            replica.proxy.restore();
        }
        Fate::HalfOpenShort => hold(&replica, Held::BOTH, short).await,
        Fate::HalfOpenLong => hold(&replica, Held::BOTH, long).await,
        Fate::RequestsHeld => {
            hold(
                &replica,
                Held {
                    requests: true,
                    responses: false,
                },
                long,
            )
            .await;
        }
        Fate::ResponsesHeld => {
            hold(
                &replica,
                Held {
                    requests: false,
                    responses: true,
                },
                long,
            )
            .await;
        }
        Fate::SlowOne => slow(&[replica.proxy.clone()], long).await,
        Fate::SlowAll => slow(&scene.proxies, long).await,
        Fate::ClockForward => step(&replica, 3_600).await,
        Fate::ClockBack => step(&replica, -3_600).await,
        Fate::DeleteLease | Fate::EditLease | Fate::DeleteGroup | Fate::EditGroup => {
            let identity = replica.identity();
            let by_hand = edit_by_hand(scene.leases, fate, &identity, way);
            tokio::join!(replica.stop_for(short, false), by_hand);
        }
    }

    Met::Lives(replica)
}

async fn hold(replica: &Replica, held: Held, time: Duration) {
    replica.proxy.hold(held);
    sleep(time).await;
    replica.proxy.hold(Held::default());
}

async fn slow(proxies: &[Arc<FaultProxy>], time: Duration) {
    proxies.iter().for_each(|proxy| proxy.slow_down(true));
    sleep(time).await;
    proxies.iter().for_each(|proxy| proxy.slow_down(false));
}

/// Steps the clock for the rest of the history.
async fn step(replica: &Replica, seconds: i64) {
    replica.clock.step(seconds);
    sleep(LEASE / 2).await;
}

/// Deletes or edits a Lease of the group while its member is stopped.
async fn edit_by_hand(leases: &Leases, fate: Fate, identity: &str, way: u32) {
    match (fate, way) {
        (Fate::DeleteLease, _) => leases.delete(Some(identity)).await,
        (Fate::DeleteGroup, _) => leases.delete(None).await,
        (Fate::EditLease, 0) => {
            leases
                .edit(Some(identity), json!({"spec": {"holderIdentity": ""}}))
                .await;
        }
        (Fate::EditLease, 1) => {
            leases
                .edit(
                    Some(identity),
                    json!({"spec": {"holderIdentity": "somebody"}}),
                )
                .await;
        }
        // It looks as if it had expired long ago.
        (Fate::EditLease, _) => {
            let spec =
                json!({"leaseDurationSeconds": 1, "renewTime": "2020-01-01T00:00:00.000000Z"});
            leases.edit(Some(identity), json!({"spec": spec})).await;
        }
        _ => {
            let members = leases.members_without(identity).await;
            leases
                .edit(
                    None,
                    json!({"metadata": {"annotations": {"operetta.dev/members": members}}}),
                )
                .await;
        }
    }
}
