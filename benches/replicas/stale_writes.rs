//! The writes of a replica that is stopped for longer than its Lease and then goes on.
//!
//! A reconciler waits 300 ms between its read and its patch, as if it asked some other service: the
//! fixture `misbehave` with `{"do": "slow"}`, and benches/peers/go/leader on controller-runtime.
//! Objects change all the time. In each round the replica that reconciles is stopped, another one
//! takes over and writes, and then the first one goes on. Each of its writes that the API server
//! accepts after that first write counts. `STOPPED=30` stops it for 30 seconds at least.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use operetta_testkit::{
    AuditEvent, AuditLog, ControlPlane, DropIn, TestNamespace, bench::number, eventually, guest,
    kinds, peers::Peers,
};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use crate::stage::{Replica, replica_of};

/// The objects that change.
const OBJECTS: usize = 4;
/// The time between two changes of an object.
const TICK: Duration = Duration::from_millis(200);
/// The time that the replica runs before it is stopped, and the time after it goes on.
const RUN: Duration = Duration::from_secs(1);
/// See [`RUN`].
const AFTER: Duration = Duration::from_secs(2);

/// Waits while the first replica is stopped: until the second one writes, and for as long as
/// `STOPPED` says.
async fn while_stopped(round: Round<'_>, second: impl Fn(&AuditEvent) -> bool) {
    let until = Instant::now() + Duration::from_secs(number("STOPPED", 0) as u64);
    until_written(round, second).await;
    sleep_until(until).await;
}

/// Changes the objects of a namespace all the time.
async fn tick(namespace: &TestNamespace<'_>) {
    for tick in 0.. {
        for number in 0..OBJECTS {
            let patch = json!({"data": {"tick": format!("{tick}-{number}")}});
            namespace
                .patch(kinds::CONFIG_MAP, &format!("object-{number}"), patch)
                .await;
        }
        sleep(TICK).await;
    }
}

/// Runs a round while the objects change.
async fn while_ticking<T>(namespace: &TestNamespace<'_>, round: impl Future<Output = T>) -> T {
    for number in 0..OBJECTS {
        namespace
            .create_touchable(&format!("object-{number}"))
            .await;
    }
    tokio::select! {
        done = round => done,
        () = tick(namespace) => unreachable!("it never ends"),
    }
}

/// Returns the accepted writes of a replica to the objects, by a test of its requests.
fn writes<'a>(
    audit: &'a AuditLog,
    namespace: &str,
    of: impl Fn(&AuditEvent) -> bool,
) -> Vec<&'a AuditEvent> {
    let is_write = |event: &AuditEvent| {
        let object = &event.object_ref;
        let is_object = object.namespace == namespace
            && object.resource == "configmaps"
            && object.name.starts_with("object-");
        is_object && event.verb == "patch" && event.response_status.code < 300 && of(event)
    };
    audit.done_by(is_write).collect()
}

/// Counts the accepted writes of the first replica after the first one of the second.
fn stale(
    round: Round<'_>,
    first: impl Fn(&AuditEvent) -> bool,
    second: impl Fn(&AuditEvent) -> bool,
) -> usize {
    let audit = round.audit();
    let taken = writes(&audit, round.namespace, second)
        .into_iter()
        .map(AuditEvent::at)
        .min()
        .expect("it has written");
    writes(&audit, round.namespace, first)
        .into_iter()
        .filter(|event| event.at() > taken)
        .count()
}

/// A round: its namespace, and the part of the audit log that is about it.
#[derive(Clone, Copy)]
struct Round<'a> {
    control_plane: &'a ControlPlane,
    namespace: &'a str,
    audited: u64,
}

impl<'a> Round<'a> {
    fn begin(namespace: &'a TestNamespace<'a>) -> Self {
        let control_plane = namespace.control_plane();
        Self {
            control_plane,
            namespace: namespace.name(),
            audited: control_plane.audit_length(),
        }
    }

    fn audit(&self) -> AuditLog {
        self.control_plane.audit_from(self.audited)
    }
}

/// Waits until a replica has written.
async fn until_written(round: Round<'_>, of: impl Fn(&AuditEvent) -> bool) {
    eventually("the replica writes", async || {
        match writes(&round.audit(), round.namespace, &of).len() {
            0 => Err("no write yet".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
}

/// Returns the sum over all rounds for two replicas of the host.
pub async fn of_hosts(control_plane: &ControlPlane, rounds: usize) -> f64 {
    let mut replicas = vec![Replica::start(control_plane).await];
    let mut sum = 0;
    for round in 0..rounds {
        replicas.push(Replica::start(control_plane).await);
        let namespace = control_plane.namespace(&format!("ours-{round}")).await;
        namespace.allow_all("plugin").await;
        let plugin = DropIn::new("slow", guest("fixture-misbehave")).config(json!({"do": "slow"}));
        namespace.drop_in(&plugin).await;
        namespace
            .until_condition("slow", "Ready", "True", "Running")
            .await;
        let found = namespace
            .get(kinds::PLUGIN, "slow")
            .await
            .expect("a Plugin");
        let owner = replicas
            .iter()
            .position(|replica| replica.identity == replica_of(&found))
            .expect("an owner");
        let first = replicas.remove(owner);
        let epochs = [&first, &replicas[0]]
            .map(|replica| replica.host.logged("epoch").expect("it has joined"));
        let of = |epoch: &str| {
            let epoch = epoch.to_owned();
            move |event: &AuditEvent| {
                let sent = event.impersonated_user.extra.get("operetta.dev/epoch");
                sent.is_some_and(|values| values.first() == Some(&epoch))
            }
        };
        let this = Round::begin(&namespace);
        let stopped = async {
            until_written(this, of(&epochs[0])).await;
            sleep(RUN).await;
            first.host.signal("STOP");
            while_stopped(this, of(&epochs[1])).await;
            first.host.signal("CONT");
            sleep(AFTER).await;
        };
        while_ticking(&namespace, stopped).await;
        sum += stale(this, of(&epochs[0]), of(&epochs[1]));
        println!("operetta, round {round}: {sum} stale writes so far");
        namespace.delete_all(kinds::PLUGIN).await;
        namespace.delete_all(kinds::CONFIG_MAP).await;
    }
    sum as f64
}

/// Builds the peer; None if that fails.
pub fn peer() -> Option<PathBuf> {
    Peers::build_part(&["go"]).program("controller-runtime", "peer-leader")
}

/// A replica of the peer, which ends with this.
struct Peer(Child);

impl Peer {
    fn start(program: &Path, round: Round<'_>, id: &str) -> Self {
        let mut command = Command::new(program);
        command
            .arg("--kubeconfig")
            .arg(round.control_plane.kubeconfig());
        command
            .args(["--namespace", round.namespace, "--id", id, "--lease", "4s"])
            .stdin(Stdio::null());
        Self(command.spawn().expect("the peer starts"))
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &self.0.id().to_string()])
            .status();
        assert!(
            sent.is_ok_and(|status| status.success()),
            "the peer has ended"
        );
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _already_over = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Returns the sum over all rounds for two replicas of the peer, the first of which leads.
pub async fn of_peers(control_plane: &ControlPlane, program: &Path, rounds: usize) -> f64 {
    let mut sum = 0;
    for round in 0..rounds {
        let namespace = control_plane.namespace(&format!("theirs-{round}")).await;
        let this = Round::begin(&namespace);
        let of = |id: &'static str| move |event: &AuditEvent| event.user_agent == id;
        let stopped = async {
            let first = Peer::start(program, this, "peer-first");
            until_written(this, of("peer-first")).await;
            let _second = Peer::start(program, this, "peer-second");
            sleep(RUN).await;
            first.signal("STOP");
            while_stopped(this, of("peer-second")).await;
            first.signal("CONT");
            sleep(AFTER).await;
        };
        while_ticking(&namespace, stopped).await;
        sum += stale(this, of("peer-first"), of("peer-second"));
        println!("controller-runtime, round {round}: {sum} stale writes so far");
    }
    sum as f64
}
