//! A host that may watch only some namespaces, by `operetta grant`: plugins there run, with watches
//! of their namespace. Elsewhere they say which right the host lacks. A right that is given or
//! taken later takes effect without a restart.
//!
//! It is a file of its own because it has a control plane of its own: it kills the API server,
//! which ends every watch.

use std::{collections::BTreeSet, time::Duration};

use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, TestNamespace, digest, eventually, guest, kinds,
    run_what_it_says, throughout, wat_guest::Guest,
};
use serde_json::{Value, json};

const HOST: &str = "system:serviceaccount:operetta-system:operetta";
const SUBJECT: &str = "--serviceaccount=operetta-system:operetta";

/// A plugin that fails for each Secret: its status names the last one, and counts them.
fn watches(namespaces: &str) -> Vec<u8> {
    let controllers = json!([{"name": "c", "for": {"apiVersion": "v1", "kind": "Secret", "namespaces": namespaces}}]);
    let guest = Guest::default().controllers(&controllers);
    guest
        .reconcile("(call $retry (i32.const 64) (i32.const 2))")
        .build()
}

/// A namespace where the plugin `reads` reads the Secret `one` from the cache, and `watches`
/// watches Secrets.
async fn team<'a>(control_plane: &'a ControlPlane, name: &str) -> TestNamespace<'a> {
    let namespace = control_plane.namespace(name).await;
    namespace.allow_all("plugin").await;
    namespace
        .create_object(kinds::SECRET, json!({"metadata": {"name": "one"}}))
        .await;

    let path = format!("/api/v1/namespaces/{}/secrets", namespace.name());
    let requests = json!([
        {"method": "GET", "path": format!("{path}/one"), "cached": true},
        {"method": "GET", "path": path, "cached": true},
        {"method": "GET", "path": "/api/v1/secrets", "cached": true},
    ]);
    let reads = DropIn::new("reads", guest("fixture-misbehave"))
        .config(json!({"do": "send", "requests": requests}));
    namespace.drop_in(&reads).await;
    namespace
        .drop_in(&DropIn::new("watches", watches("Own")))
        .await;

    namespace
}

/// Waits until a plugin has failed for as many Secrets.
async fn until_failing(namespace: &TestNamespace<'_>, plugin: &str, count: u64) {
    namespace
        .until(
            kinds::PLUGIN,
            plugin,
            |found| match found["status"]["controllers"][0]["failing"].as_u64() {
                Some(failing) if failing == count => Ok(()),
                other => Err(format!("{other:?} keys fail, not {count}")),
            },
        )
        .await;
}

/// The informers of Secrets.
fn informers(host: &Host) -> Vec<Value> {
    let output = host.run(&["informers", "--host", host.admin_address(), "-o", "json"]);
    let view: Value = serde_json::from_slice(&output.stdout).expect("JSON");

    let of_secrets = view["informers"]
        .as_array()
        .expect("informers")
        .iter()
        .filter(|one| one["kind"] == "Secret.v1");
    of_secrets.cloned().collect()
}

/// The users of an informer.
fn used_by(informer: &Value) -> Vec<String> {
    serde_json::from_value(informer["users"].clone()).expect("users")
}

async fn until_informers(host: &Host, wanted: &[(Option<&str>, &[String])]) {
    let wanted: BTreeSet<_> = wanted
        .iter()
        .map(|(place, users)| (place.map(str::to_owned), users.to_vec()))
        .collect();

    eventually("the informers of Secrets", async || {
        let informers = informers(host);
        let place = |one: &Value| one["namespace"].as_str().map(str::to_owned);
        let now: BTreeSet<_> = informers
            .iter()
            .map(|one| (place(one), used_by(one)))
            .collect();
        if now == wanted {
            Ok(())
        } else {
            Err(format!("{now:?}, not {wanted:?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn narrow_host_watches_where_it_may() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let options = HostOptions {
        narrow: true,
        ..HostOptions::default()
    };
    let host = Host::start(&control_plane, &options).await;

    let a = team(&control_plane, "a").await;
    let b = team(&control_plane, "b").await;
    let c = team(&control_plane, "c").await;

    let users = |of: &TestNamespace<'_>, plugins: &[&str]| {
        plugins
            .iter()
            .map(|plugin| format!("{}/{plugin}", of.name()))
            .collect::<Vec<_>>()
    };

    for namespace in [&a, &b] {
        host.grant(namespace.name(), &["--allow", "secrets"]);
    }
    // It may act as the plugins there, but watch no Secrets.
    host.grant(c.name(), &[]);

    // Events come, and cached reads are answered, in both.
    for namespace in [&a, &b] {
        until_failing(namespace, "watches", 1).await;
        namespace.create_touchable("go").await;
        reads(&host, namespace, &["200", "200", "200"]).await;
        namespace
            .until_condition("reads", "Ready", "True", "Running")
            .await;
    }

    // Where the host may not watch, the status says what it lacks, and the API server answers
    // reads.
    let place = c.name().to_owned();
    let words = "the host itself may not list and watch Secret.v1 in namespace";
    let message = c
        .until_degraded(
            "watches",
            "HostForbidden",
            &[words, &place, HOST, "--verb=list,watch"],
        )
        .await;
    c.until_condition("watches", "Ready", "False", "HostForbidden")
        .await;

    c.create_touchable("go").await;
    reads(&host, &c, &["200", "200", "403"]).await;

    let both = ["reads", "watches"];
    let in_a_and_b = [
        (Some(a.name()), &*users(&a, &both)),
        (Some(b.name()), &*users(&b, &both)),
    ];
    until_informers(
        &host,
        &[
            in_a_and_b[0],
            in_a_and_b[1],
            (Some(c.name()), &users(&c, &["watches"])),
        ],
    )
    .await;

    // So it is on the wire: only the plugins' own live reads asked for the Secrets of all
    // namespaces.
    let audit = control_plane.audit();
    for verb in ["list", "watch"] {
        let wide = audit.done_by(|event| {
            let of_host =
                event.user.username == HOST && event.impersonated_user.username.is_empty();
            of_host
                && event.verb == verb
                && event.object_ref.resource == "secrets"
                && event.object_ref.namespace.is_empty()
                // A request that the host may not make as the plugin is refused in the host's name.
                && event.response_status.code != 403
        });
        assert_eq!(wide.count(), 0, "{verb}");
    }

    let open = audit
        .open_watches("secrets")
        .into_iter()
        .filter(|event| event.user.username == HOST)
        .collect::<Vec<_>>();
    let open: BTreeSet<_> = open
        .iter()
        .map(|event| event.object_ref.namespace.clone())
        .collect();
    assert_eq!(
        open,
        BTreeSet::from([a.name().to_owned(), b.name().to_owned()])
    );

    // A plugin that watches all namespaces sees those in which it and the host both may watch.
    a.drop_in(&DropIn::new("everywhere", watches("All"))).await;
    b.kubectl(&[
        "create",
        "rolebinding",
        "of-a",
        "--clusterrole=cluster-admin",
        &format!("--serviceaccount={}:plugin", a.name()),
    ]);
    let seen = format!(
        "sees Secret.v1 in these namespaces only: {}, {}",
        a.name(),
        b.name()
    );

    let sees = async |plugin: &str, words: &str| {
        a.until(kinds::PLUGIN, plugin, |found| {
            let conditions = found["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let ready = conditions
                .into_iter()
                .find(|one| one["type"] == "Ready")
                .unwrap_or_default();
            let message = ready["message"].as_str().unwrap_or_default();
            if ready["status"] == "True" && message.contains(words) {
                Ok(())
            } else {
                Err(format!("{ready}"))
            }
        })
        .await;
    };
    sees("everywhere", &seen).await;
    until_failing(&a, "everywhere", 2).await;

    // The administrator does what the status says, and the plugin goes on without a restart.
    let requests = |host: &Host| -> Vec<Value> {
        let others = informers(host)
            .into_iter()
            .filter(|one| one["namespace"] != c.name());
        others
            .map(|one| json!([one["namespace"], one["watches"], one["relists"]]))
            .collect()
    };

    let before = requests(&host);
    run_what_it_says(&control_plane, &[], "kubectl ", &message);
    until_failing(&c, "watches", 1).await;

    let mut of_a = users(&a, &["everywhere"]);
    of_a.extend(users(&a, &both));
    let of_c = [users(&a, &["everywhere"]), users(&c, &["watches"])].concat();
    let of_b = [users(&a, &["everywhere"]), users(&b, &both)].concat();
    until_informers(
        &host,
        &[
            (Some(a.name()), &of_a),
            (Some(b.name()), &of_b),
            (Some(c.name()), &of_c),
        ],
    )
    .await;

    assert_eq!(
        requests(&host),
        before,
        "the watches of the others were disturbed"
    );

    // With a right to all of them, the controllers share one watch, and those that read keep
    // theirs.
    control_plane.kubectl(&[
        "create",
        "clusterrole",
        "operetta-wide",
        "--verb=list,watch",
        "--resource=secrets",
    ]);
    control_plane.kubectl(&[
        "create",
        "clusterrolebinding",
        "wide",
        "--clusterrole=operetta-wide",
        SUBJECT,
    ]);

    let mut of_all = users(&a, &["everywhere", "watches"]);
    of_all.extend([users(&b, &["watches"]), users(&c, &["watches"])].concat());
    until_informers(
        &host,
        &[
            (None, &of_all),
            (Some(a.name()), &users(&a, &["reads"])),
            (Some(b.name()), &users(&b, &["reads"])),
        ],
    )
    .await;

    sees("everywhere", "controllers: c").await;

    // When that is taken away, it ends with the watch; those that still may go on.
    c.kubectl(&["delete", "rolebinding", "operetta-secrets-list-watch"]);
    control_plane.kubectl(&["delete", "clusterrolebinding", "wide"]);
    control_plane.kill_apiserver();
    control_plane.wait_ready().await;
    c.until_degraded("watches", "HostForbidden", &[words, &place])
        .await;

    for (namespace, count) in [(&a, 2), (&b, 2)] {
        namespace
            .create_object(kinds::SECRET, json!({"metadata": {"name": "two"}}))
            .await;
        until_failing(namespace, "watches", count).await;
    }

    until_failing(&a, "everywhere", 4).await;
    sees("everywhere", &seen).await;

    host.assert_sound();
}

/// Waits until the plugin `reads` has got answers with these statuses, in the order of its
/// requests. It may have been reconciled again: after a failed access review, say.
async fn reads(host: &Host, namespace: &TestNamespace<'_>, statuses: &[&str]) {
    eventually("the answers", async || {
        let lines = host.logs(namespace.name(), "reads");
        let status = |line: &operetta_testkit::LogLine| {
            line.fields
                .iter()
                .find(|(name, _)| name == "status")
                .map(|(_, status)| status.clone())
        };
        let found: Vec<String> = lines.iter().filter_map(status).collect();
        let mut rounds = found.chunks(statuses.len());
        if !found.is_empty() && rounds.all(|round| round == statuses) {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn digest_follows_annotation_under_narrow_host() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let options = HostOptions {
        narrow: true,
        ..HostOptions::default()
    };
    let _host = Host::start(&control_plane, &options).await;

    let namespace = control_plane.namespace("pinned").await;
    namespace
        .drop_in(&DropIn::new("pinned", Guest::default().build()))
        .await;

    for pin in [digest(b"one"), digest(b"two")] {
        let annotations = json!({"operetta.dev/component-digest": pin});
        namespace
            .patch(
                kinds::CONFIG_MAP,
                "pinned",
                json!({"metadata": {"annotations": annotations}}),
            )
            .await;
        namespace
            .until(
                kinds::PLUGIN,
                "pinned",
                |found| match &found["spec"]["digest"] {
                    found if *found == pin => Ok(()),
                    other => Err(format!("spec.digest is {other}, not {pin}")),
                },
            )
            .await;
    }
}

/// Sets the resources of the first rule of the host's ClusterRole: those on which consent depends.
fn set_watched(control_plane: &ControlPlane, resources: &[&str]) {
    let patch =
        json!([{"op": "replace", "path": "/rules/0/resources", "value": resources}]).to_string();

    control_plane.kubectl(&[
        "patch",
        "clusterrole",
        "operetta",
        "--type=json",
        "-p",
        &patch,
    ]);
}

#[tokio::test]
async fn plugins_pause_while_host_cannot_watch_consent() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let options = HostOptions {
        narrow: true,
        ..HostOptions::default()
    };
    let host = Host::start(&control_plane, &options).await;

    let namespace = control_plane.namespace("paused").await;
    namespace.allow_all("plugin").await;
    host.grant(namespace.name(), &["plugin"]);

    namespace.create_touchable("before").await;
    namespace
        .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
        .await;
    namespace.until_touched("before", "v1").await;

    // The host's watch of ServiceAccounts ends with the API server, and may not begin again.
    set_watched(&control_plane, &["configmaps", "namespaces"]);
    control_plane.kill_apiserver();
    control_plane.wait_ready().await;
    let line = eventually("the host pauses all plugins", async || {
        let log = host.log();
        let line = log
            .lines()
            .find(|line| line.contains("failed to watch consent, pausing all plugins"));
        line.map(str::to_owned).ok_or(log)
    })
    .await;

    println!("{line}");
    namespace.create_touchable("meanwhile").await;
    throughout(Duration::from_secs(5), "no plugin writes", async || {
        let found = namespace
            .get(kinds::CONFIG_MAP, "meanwhile")
            .await
            .expect("there");
        if found["data"].is_null() {
            Ok(())
        } else {
            Err(found["data"].to_string())
        }
    })
    .await;

    set_watched(
        &control_plane,
        &["configmaps", "namespaces", "serviceaccounts"],
    );
    namespace.until_touched("meanwhile", "v1").await;

    assert!(
        host.log().contains("resuming all plugins"),
        "{}",
        host.log()
    );

    host.assert_sound();
}
