//! Replicas share the Plugins: each Plugin runs on one of them, a new replica takes its share, and
//! the others take over from one that stops or is killed.
//!
//! It is a file of its own because its tests kill hosts, and so have control planes of their own.

mod by_hand;
mod installations;
mod service;
mod sessions;
mod shards;
mod stage;

use std::time::{Duration, Instant};

use operetta_testkit::{DropIn, eventually, kinds, wat_guest::Guest, within};
use serde_json::json;
use stage::{
    Replica, control_plane, drop_in, longest_wait, names_for, replica_of, time_until_touched,
    until_run_by,
};

/// The longest time until the Plugins of a killed replica run elsewhere. On an idle machine it is
/// five seconds; a busy one is slower.
const TAKEN_OVER: Duration = Duration::from_secs(30);

/// The user of the hosts.
const HOST: &str = "system:serviceaccount:operetta-system:operetta";

#[tokio::test]
async fn new_replica_takes_its_share_and_watches_only_its_own_kinds() {
    let control_plane = control_plane();
    let first = Replica::start(&control_plane).await;
    let namespace = control_plane.namespace("share").await;
    namespace.allow_all("plugin").await;

    let names: Vec<String> = (0..16).map(|number| format!("touch-{number}")).collect();
    for name in &names {
        drop_in(&namespace, name).await;
    }

    for name in &names {
        until_run_by(&namespace, name, &first).await;
    }

    let second = Replica::start(&control_plane).await;
    let all = [&first, &second];
    let of_second: Vec<_> = names_for(&second, &all, namespace.name(), 16);
    for name in &names {
        let owner = if of_second.contains(name) {
            &second
        } else {
            &first
        };
        until_run_by(&namespace, name, owner).await;
    }
    let taken = names.iter().filter(|name| of_second.contains(name)).count();
    println!("the second replica runs {taken} of {} plugins", names.len());

    namespace.create_touchable("target").await;
    namespace.until_touched("target", "v1").await;
    let wide = control_plane.kubectl(&["get", "plugins", "-A", "-o", "wide"]);
    assert!(
        wide.lines()
            .next()
            .is_some_and(|line| line.contains("REPLICA")),
        "{wide}"
    );
    assert!(wide.contains(&first.identity), "{wide}");

    // A plugin that watches a kind which no other does.
    let source = json!({"apiVersion": "v1", "kind": "Pod", "namespaces": "Own"});
    let controllers = json!([{"name": "c", "for": source}]);
    let name = names_for(&second, &all, namespace.name(), 40)
        .pop()
        .expect("a name");

    namespace
        .drop_in(&DropIn::new(
            &name,
            Guest::default().controllers(&controllers).build(),
        ))
        .await;
    until_run_by(&namespace, &name, &second).await;

    let watched = |replica: &Replica| {
        replica
            .host
            .get("/informers")
            .expect("informers")
            .contains("\"Pod.v1\"")
    };
    eventually("only its own replica watches Pods", async || {
        match (watched(&first), watched(&second)) {
            (false, true) => Ok(()),
            other => Err(format!(
                "{other:?}: {}",
                second.host.get("/informers").unwrap_or_default()
            )),
        }
    })
    .await;

    first.host.assert_sound();
    second.host.assert_sound();
}

#[tokio::test]
async fn plugins_of_a_killed_replica_run_elsewhere() {
    let control_plane = control_plane();
    let first = Replica::start(&control_plane).await;
    let second = Replica::start(&control_plane).await;
    let namespace = control_plane.namespace("killed").await;
    namespace.allow_all("plugin").await;
    let name = names_for(&first, &[&first, &second], namespace.name(), 1).remove(0);
    drop_in(&namespace, &name).await;
    until_run_by(&namespace, &name, &first).await;
    time_until_touched(&namespace, "before", Instant::now()).await;

    let began = Instant::now();
    first.host.kill();
    let took = tokio::time::timeout(TAKEN_OVER, time_until_touched(&namespace, "after", began));

    println!(
        "kill -9: reconciled elsewhere after {:?}",
        took.await.expect("in time")
    );
    until_run_by(&namespace, &name, &second).await;

    within(
        TAKEN_OVER,
        "the Lease of the killed one is gone",
        async || {
            let leases =
                control_plane.kubectl(&["get", "leases", "-n", "operetta-system", "-o", "name"]);
            if leases.lines().count() == 2 {
                Ok(())
            } else {
                Err(leases)
            }
        },
    )
    .await;

    second.host.assert_sound();
}

#[tokio::test]
async fn keys_hardly_wait_for_a_replica_that_stops_or_starts() {
    let control_plane = control_plane();
    let first = Replica::start(&control_plane).await;
    let second = Replica::start(&control_plane).await;
    let namespace = control_plane.namespace("rolling").await;
    namespace.allow_all("plugin").await;
    let name = names_for(&first, &[&first, &second], namespace.name(), 1).remove(0);
    drop_in(&namespace, &name).await;
    until_run_by(&namespace, &name, &first).await;

    let stops = async {
        first.host.signal("TERM");
        let status = first.host.ended().await;
        assert!(status.success(), "{status}: {}", first.host.log());
    };
    let longest = longest_wait(&namespace, "stop", stops, Duration::from_millis(500)).await;
    println!("graceful stop: a key waited for at most {longest:?}");
    assert!(
        first.host.log().contains("handed over"),
        "{}",
        first.host.log()
    );

    until_run_by(&namespace, &name, &second).await;

    // One that starts gets its share in the same way.
    let starts = async {
        let third = Replica::start(&control_plane).await;
        eventually("the plugins are spread", async || {
            let plugin = namespace
                .get(kinds::PLUGIN, &name)
                .await
                .unwrap_or_default();
            let mine = names_for(&third, &[&second, &third], namespace.name(), 64).contains(&name);
            let owner = if mine {
                &third.identity
            } else {
                &second.identity
            };
            if replica_of(&plugin) == owner {
                Ok(())
            } else {
                Err(plugin["status"].to_string())
            }
        })
        .await;
        third.host.signal("TERM");
        assert!(third.host.ended().await.success(), "{}", third.host.log());
    };

    let longest = longest_wait(&namespace, "start", starts, Duration::from_millis(500)).await;
    println!("start and stop of another: a key waited for at most {longest:?}");
    second.host.assert_sound();
}

#[tokio::test]
async fn leases_of_three_replicas_cost_few_requests() {
    let control_plane = control_plane();
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(Replica::start(&control_plane).await);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let count = || {
        let requests = control_plane.audit().requests_of(HOST, ..).into_iter();
        requests
            .filter(|(request, _)| request.ends_with(" leases"))
            .map(|(_, count)| count)
            .sum::<usize>()
    };

    let before = count();
    let began = Instant::now();
    tokio::time::sleep(Duration::from_secs(16)).await;
    let rate = (count() - before) as f64 / began.elapsed().as_secs_f64();
    println!("Leases of three replicas: {rate:.2} requests per second");
    // Each renews its Lease after two fifths of four seconds, and never sooner, however busy the
    // machine is.
    assert!(rate <= 2.0 + 0.2, "{rate} requests per second");
}

#[tokio::test]
async fn stopped_replica_sends_nothing_when_it_goes_on() {
    let control_plane = control_plane();
    let first = Replica::start(&control_plane).await;
    let second = Replica::start(&control_plane).await;
    let namespace = control_plane.namespace("stopped").await;
    namespace.allow_all("plugin").await;
    let name = names_for(&first, &[&first, &second], namespace.name(), 1).remove(0);
    drop_in(&namespace, &name).await;
    until_run_by(&namespace, &name, &first).await;

    // These keys are waiting when it goes on: they were created meanwhile, and the other one has
    // reconciled them.
    first.host.signal("STOP");
    let began = Instant::now();
    let took = tokio::time::timeout(
        TAKEN_OVER,
        time_until_touched(&namespace, "meanwhile", began),
    );
    println!(
        "SIGSTOP: reconciled elsewhere after {:?}",
        took.await.expect("in time")
    );

    until_run_by(&namespace, &name, &second).await;
    namespace
        .patch(
            kinds::CONFIG_MAP,
            "meanwhile",
            json!({"data": {"touched": "not yet"}}),
        )
        .await;
    namespace.until_touched("meanwhile", "v1").await;

    let writes = || control_plane.audit().writes_in(namespace.name()).count();
    let before = writes();
    first.host.signal("CONT");
    let status = first.host.ended().await;
    assert!(
        !status.success() && first.host.log().contains("lost the membership"),
        "{}",
        first.host.log()
    );

    assert_eq!(writes(), before, "the plugin has written");
    second.host.assert_sound();
}

#[tokio::test]
async fn write_of_an_epoch_that_is_over_is_refused() {
    let control_plane = control_plane();
    let first = Replica::start(&control_plane).await;
    let second = Replica::start(&control_plane).await;
    let namespace = control_plane.namespace("epochs").await;
    namespace.allow_all("plugin").await;
    let name = names_for(&first, &[&first, &second], namespace.name(), 1).remove(0);
    drop_in(&namespace, &name).await;
    until_run_by(&namespace, &name, &first).await;
    namespace.create_touchable("target").await;
    namespace.until_touched("target", "v1").await;
    let audit = control_plane.audit();
    let mut writes = audit.writes_in(namespace.name());
    let sent = writes.next().and_then(|event| {
        event.impersonated_user.extra["operetta.dev/epoch"]
            .first()
            .cloned()
    });

    let epoch = sent.expect("an epoch");
    assert_eq!(Some(&epoch), first.host.logged("epoch").as_ref());

    // A write such as the stopped replica would send: of the same user, with the same epoch.
    let write = |word: &str, epoch: &str| {
        let (user, extra) = (
            format!("--as=system:serviceaccount:{}:plugin", namespace.name()),
            format!("--as-user-extra=operetta.dev/epoch={epoch}"),
        );
        let patch = json!({"data": {"by-hand": word}}).to_string();
        let args = [
            "patch",
            "configmap",
            "target",
            "-n",
            namespace.name(),
            "--type=merge",
            "-p",
            &patch,
            &user,
            &extra,
        ];
        control_plane.kubectl_output(&args)
    };

    assert!(
        write("one", &epoch).status.success(),
        "{:?}",
        write("one", &epoch)
    );

    first.host.signal("STOP");
    until_run_by(&namespace, &name, &second).await;
    eventually("the write is refused", async || {
        let output = write("two", &epoch);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if said.contains("is over: another one may run the plugin now") {
            Ok(())
        } else {
            Err(said)
        }
    })
    .await;

    for invalid in ["", "x", "99999999999"] {
        assert!(!write("three", invalid).status.success(), "{invalid:?}");
    }

    first.host.signal("CONT");
    assert!(!first.host.ended().await.success());
}
