//! Somebody deletes or edits the Leases of the replicas by hand, or a replica's clock is wrong: no
//! other replica acts too early because of that.

use std::time::{Duration, Instant};

use operetta_testkit::{ControlPlane, HostOptions, SteppedClock, TestNamespace};
use serde_json::Value;

use crate::stage::{
    Replica, control_plane, drop_in, names_for, options, time_until_touched, until_run_by,
};

/// The time for which a stopped replica of deploy/base could still act when it goes on. Its last
/// renewal was sent up to 1.6 seconds before the stop, and the others count from when they find
/// out.
const FENCED: Duration = Duration::from_millis(3_500);

/// Two replicas, and a namespace whose plugin runs on the first of them, which is stopped.
async fn stopped_owner(control_plane: &ControlPlane) -> (Replica, Replica, TestNamespace<'_>) {
    let first = Replica::start(control_plane).await;
    let second = Replica::start(control_plane).await;
    let namespace = control_plane.namespace("by-hand").await;
    namespace.allow_all("plugin").await;

    let name = names_for(&first, &[&first, &second], namespace.name(), 1).remove(0);
    drop_in(&namespace, &name).await;
    until_run_by(&namespace, &name, &first).await;
    time_until_touched(&namespace, "before", Instant::now()).await;

    first.host.signal("STOP");
    (first, second, namespace)
}

/// Resumes a stopped replica that has lost its membership.
async fn goes_on(replica: &Replica) {
    replica.host.signal("CONT");
    assert!(!replica.host.ended().await.success());
    assert!(
        replica.host.log().contains("lost the membership"),
        "{}",
        replica.host.log()
    );
}

/// Returns the name of a replica's Lease.
fn lease_of(control_plane: &ControlPlane, replica: &Replica) -> String {
    let text = control_plane.kubectl(&["get", "leases", "-n", "operetta-system", "-o", "json"]);
    let leases: Value = serde_json::from_str(&text).expect("JSON");
    let all = leases["items"].as_array().expect("items");

    let found = all
        .iter()
        .find(|lease| lease["spec"]["holderIdentity"] == replica.identity.as_str());
    found.expect("a Lease")["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned()
}

#[tokio::test]
async fn nobody_acts_for_a_replica_whose_lease_was_deleted_before_it_has_ended() {
    let control_plane = control_plane();
    let (first, second, namespace) = stopped_owner(&control_plane).await;

    let began = Instant::now();
    let lease = lease_of(&control_plane, &first);
    control_plane.kubectl(&["delete", "lease", &lease, "-n", "operetta-system"]);
    let took = time_until_touched(&namespace, "meanwhile", began).await;

    assert!(took >= FENCED, "another one acts after {took:?}");
    goes_on(&first).await;
    second.host.assert_sound();
}

#[tokio::test]
async fn nobody_acts_for_a_replica_that_was_removed_from_the_group_before_its_lease_ends() {
    let control_plane = control_plane();
    let (first, second, namespace) = stopped_owner(&control_plane).await;

    let began = Instant::now();
    let epoch = second.host.logged("epoch").expect("it has joined");
    let members = format!(
        r#"{{"metadata":{{"annotations":{{"operetta.dev/members":"{epoch}={}"}}}}}}"#,
        second.identity
    );
    control_plane.kubectl(&[
        "patch",
        "lease",
        "operetta",
        "-n",
        "operetta-system",
        "--type=merge",
        "-p",
        &members,
    ]);

    let took = time_until_touched(&namespace, "meanwhile", began).await;
    assert!(took >= FENCED, "another one acts after {took:?}");
    goes_on(&first).await;
    second.host.assert_sound();
}

#[tokio::test]
async fn nobody_acts_in_a_new_group_before_the_leases_of_the_deleted_one_have_ended() {
    let control_plane = control_plane();
    let (first, second, namespace) = stopped_owner(&control_plane).await;

    let began = Instant::now();
    control_plane.kubectl(&["delete", "leases", "--all", "-n", "operetta-system"]);
    assert!(!second.host.ended().await.success());
    let third = Replica::start(&control_plane).await;

    let took = time_until_touched(&namespace, "meanwhile", began).await;
    assert!(took >= FENCED, "another one acts after {took:?}");
    goes_on(&first).await;
    third.host.assert_sound();
}

#[tokio::test]
async fn epochs_of_a_group_do_not_depend_on_the_clocks_of_replicas() {
    let control_plane = control_plane();
    let first = Replica::start(&control_plane).await;
    // Epochs begin with the time of the group's creation, in seconds.
    tokio::time::sleep(Duration::from_secs(1)).await;

    control_plane.kubectl(&["delete", "lease", "operetta", "-n", "operetta-system"]);
    assert!(!first.host.ended().await.success());

    let clock = SteppedClock::new(&control_plane);
    clock.step(-3_600);
    let options = HostOptions {
        environment: clock.environment(),
        ..options()
    };
    let second = Replica::start_with(&control_plane, options).await;

    let epoch = |replica: &Replica| {
        replica
            .host
            .logged("epoch")
            .and_then(|text| text.parse::<u32>().ok())
    };
    assert!(
        epoch(&second) > epoch(&first),
        "{:?} after {:?}",
        epoch(&second),
        epoch(&first)
    );

    let logged = second
        .host
        .logged("timestamp")
        .and_then(|text| text.parse().ok());
    let behind = k8s_openapi::jiff::Timestamp::now().duration_since(logged.expect("a time"));
    assert!(
        (3_500..3_700).contains(&behind.as_secs()),
        "the clock is not stepped: {behind}"
    );
}
