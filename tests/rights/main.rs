//! The host's own rights: they suffice, none of them is too many, and docs/permissions.md shows them.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use operetta_testkit::{
    AuditEvent, ControlPlane, DropIn, Host, HostOptions, TestNamespace, authorizer,
    dead_api_service, eventually, guest, kinds, needs_real_server, wat_guest::Guest,
};
use serde_json::json;

const PERMISSIONS: &str = "../docs/permissions.md";
/// What works takes a few seconds; on a busy machine a few more.
const WORKS: Duration = Duration::from_secs(60);
/// What has not worked after this does not work.
const DOES_NOT: Duration = Duration::from_secs(25);
/// What the host reads about itself in a refusal.
const REFUSED: &str = "is forbidden: User \\\"system:serviceaccount:operetta-system:operetta\\\"";

/// The host's user.
const HOST: &str = "system:serviceaccount:operetta-system:operetta";

/// The life of one plugin, from the ConfigMap to its end, with all that the host does for it.
async fn a_plugin_lives(host: &Host, control_plane: &ControlPlane, name: &str, narrow: bool) {
    let namespace = control_plane.namespace(name).await;
    namespace.allow_all("plugin").await;
    namespace.create_touchable("target").await;
    namespace
        .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
        .await;

    if narrow {
        // It waits for the grant, and notices when it comes.
        namespace
            .until_degraded("touch", "HostForbidden", &["operetta grant plugin -n"])
            .await;
        host.grant(namespace.name(), &[]);
    }

    namespace.until_touched("target", "v1").await;
    if !narrow {
        writes_carry_the_epoch(&namespace).await;
    }

    namespace
        .until_condition("touch", "Ready", "True", "Running")
        .await;
    namespace
        .until_event(kinds::PLUGIN, "touch", "Loaded")
        .await;

    asks_what_everybody_may(host, &namespace).await;
    watches_pods(&namespace).await;
    if narrow {
        says_which_api_is_down(&namespace).await;
    }

    namespace.kubectl(&["label", "configmap", "touch", "operetta.dev/plugin-"]);
    namespace.until_gone(kinds::PLUGIN, "touch").await;
}

/// The API server knows which replica sent a write, and when.
async fn writes_carry_the_epoch(namespace: &TestNamespace<'_>) {
    let audit = || namespace.control_plane().audit();
    eventually("a write with an epoch", async || {
        let audit = audit();
        let mut writes = audit.writes_in(namespace.name());
        let has_epoch = |event: &AuditEvent| {
            event
                .impersonated_user
                .extra
                .contains_key("operetta.dev/epoch")
        };
        if writes.any(has_epoch) {
            Ok(())
        } else {
            Err("none".to_owned())
        }
    })
    .await;
}

/// A plugin asks the API server for its version, and about itself.
async fn asks_what_everybody_may(host: &Host, namespace: &TestNamespace<'_>) {
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();

    let attributes = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
    let access = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": attributes});
    let requests = json!([
        {"method": "GET", "path": "/version"},
        {"method": "POST", "path": "/apis/authentication.k8s.io/v1/selfsubjectreviews", "body": review},
        {"method": "POST", "path": "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "body": access.to_string()},
    ]);

    let asks = DropIn::new("asks", guest("fixture-misbehave"))
        .config(json!({"do": "send", "requests": requests}));
    namespace.drop_in(&asks).await;
    eventually("the answers", async || {
        let lines = host.logs(namespace.name(), "asks");
        let fields = lines
            .iter()
            .flat_map(|line| &line.fields)
            .filter(|(name, _)| name == "status");
        let found: Vec<&str> = fields.map(|(_, status)| status.as_str()).take(3).collect();
        if found == ["200", "201", "201"] {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;

    namespace.kubectl(&["delete", "configmap", "asks"]);
}

/// Drops in a plugin that watches a kind in its own namespace.
async fn watches(namespace: &TestNamespace<'_>, name: &str, api_version: &str, kind: &str) {
    let source = json!({"apiVersion": api_version, "kind": kind, "namespaces": "Own"});
    let controllers = json!([{"name": "c", "for": source}]);
    let guest = Guest::default().controllers(&controllers).build();
    namespace.drop_in(&DropIn::new(name, guest)).await;
}

/// A plugin watches a kind that the host does not watch for itself.
async fn watches_pods(namespace: &TestNamespace<'_>) {
    watches(namespace, "pods", "v1", "Pod").await;
    namespace
        .until_condition("pods", "Ready", "True", "Running")
        .await;
}

/// A plugin watches a kind of an aggregated API server that is down.
async fn says_which_api_is_down(namespace: &TestNamespace<'_>) {
    let control_plane = namespace.control_plane();
    control_plane.apply(&dead_api_service("down.test").to_string());
    watches(namespace, "ghosts", "down.test/v1", "Ghost").await;
    namespace
        .until_degraded("ghosts", "APIUnavailable", &["APIService v1.down.test"])
        .await;
}

async fn needs_each_rule_of(role: &str, narrow: bool) {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let spawn = |without_rules: Vec<usize>| {
        let options = HostOptions {
            without_rules,
            narrow,
            ..HostOptions::default()
        };
        Host::spawn(&control_plane, &options)
    };

    let host = spawn(vec![]);
    let started = Instant::now();
    let lives = a_plugin_lives(&host, &control_plane, "all-rules", narrow);
    tokio::time::timeout(WORKS, lives)
        .await
        .expect("it works with all of them");

    // The first run also compiles the plugins. A run that takes twice as long does not work.
    let does_not = (started.elapsed() * 2).min(DOES_NOT);
    assert!(!host.log().contains(REFUSED), "{}", host.log());
    drop(host);

    let found = control_plane.kubectl(&["get", "clusterrole", role, "-o", "json"]);
    let found: serde_json::Value = serde_json::from_str(&found).expect("a ClusterRole");
    let rules = found["rules"].as_array().expect("rules");
    for (at, rule) in rules.iter().enumerate() {
        let host = spawn(vec![at]);
        let name = format!("without-{at}");
        let lives = a_plugin_lives(&host, &control_plane, &name, narrow);
        let refused = async {
            while !host.log().contains(REFUSED) {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        // Either of the two is enough, and the refusal is mostly seen at once.
        let works = tokio::select! {
            lives = tokio::time::timeout(does_not, lives) => lives.is_ok() && !host.log().contains(REFUSED),
            () = refused => false,
        };

        assert!(!works, "it works without {rule}: take the rule away");
        drop(host);
    }

    let host = spawn(vec![]);
    let lives = a_plugin_lives(&host, &control_plane, "again", narrow);
    tokio::time::timeout(WORKS, lives)
        .await
        .expect("it works with all of them again");
}

#[tokio::test]
async fn narrow_host_needs_each_of_its_rules() {
    needs_each_rule_of("operetta", true).await;
}

#[tokio::test]
async fn unrestricted_host_needs_each_of_its_rules() {
    needs_each_rule_of("operetta-unrestricted", false).await;
}

#[tokio::test]
async fn narrow_host_needs_labelled_config_maps_only() {
    if needs_real_server("its API server asks an authorization webhook") {
        return;
    }
    let page = std::fs::read_to_string(PERMISSIONS).expect("permissions.md");
    let (_, section) = page
        .split_once("### Hold the host to labelled ConfigMaps")
        .expect("the section");
    let condition = section.split("```").nth(1).expect("a condition");

    let control_plane = authorizer::control_plane(condition, |_| true);
    let host = Host::start(
        &control_plane,
        &HostOptions {
            narrow: true,
            ..HostOptions::default()
        },
    )
    .await;

    let can_i = [
        "auth",
        "can-i",
        "list",
        "configmaps",
        "--all-namespaces",
        "--as",
        HOST,
    ];
    assert_eq!(
        String::from_utf8_lossy(&control_plane.kubectl_output(&can_i).stdout).trim(),
        "no"
    );

    let lives = a_plugin_lives(&host, &control_plane, "labelled", true);
    tokio::time::timeout(WORKS, lives).await.expect("it works");
    assert!(!host.log().contains(REFUSED), "{}", host.log());

    let audit = control_plane.audit();
    let of_host = |event: &AuditEvent| {
        event.user.username == HOST
            && event.impersonated_user.username.is_empty()
            && event.object_ref.resource == "configmaps"
            && ["list", "watch"].contains(&event.verb.as_str())
    };

    let open = audit
        .open_watches("configmaps")
        .into_iter()
        .filter(|event| of_host(event));
    let (wide, within): (Vec<_>, Vec<_>) = audit
        .done_by(of_host)
        .chain(open)
        .partition(|event| event.object_ref.namespace.is_empty());
    assert!(
        within.iter().any(|event| event.verb == "watch"),
        "the plugin's own watch"
    );
    assert!(
        wide.iter().any(|event| event.verb == "watch"),
        "the watch of drop-ins"
    );

    let unlabelled = wide
        .iter()
        .find(|event| !event.request_uri.contains("labelSelector=operetta.dev"));
    assert!(unlabelled.is_none(), "{unlabelled:?}");
}

/// The permissions that `kubectl auth can-i --list` prints for the host, one line each.
fn permissions(control_plane: &ControlPlane) -> BTreeSet<String> {
    lines(&control_plane.kubectl(&["auth", "can-i", "--list", "--as", HOST]))
}

/// The lines of such a table, with single blanks, and the verbs in an order that kubectl does not
/// have.
fn lines(table: &str) -> BTreeSet<String> {
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };

    let line = |line: &str| {
        let (before, verbs) = line.rsplit_once('[').unwrap_or((line, ""));
        let mut verbs = words(verbs.trim_end().trim_end_matches(']'));
        verbs.sort();
        [words(before), verbs].concat().join(" ")
    };

    table
        .lines()
        .map(line)
        .filter(|line| !line.is_empty() && line != "...")
        .collect()
}

#[tokio::test]
async fn documented_permissions_of_both_modes_are_those_of_the_host() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let page = std::fs::read_to_string(PERMISSIONS).expect("permissions.md");
    let tables = page
        .split("$ kubectl auth can-i --list --as=system:serviceaccount:operetta-system:operetta\n")
        .skip(1);
    let documented: Vec<_> = tables
        .map(|rest| lines(rest.split("```").next().unwrap_or_default()))
        .collect();

    let host = Host::start(
        &control_plane,
        &HostOptions {
            narrow: true,
            ..HostOptions::default()
        },
    )
    .await;

    let narrow = permissions(&control_plane);
    // The page's own example, in the namespace of the context. Its other tables show only what
    // differs.
    control_plane.apply(include_str!("granted.yaml"));
    host.grant("default", &["tracker"]);
    let granted = &permissions(&control_plane) - &narrow;
    host.grant("default", &["tracker", "--revoke"]);

    assert_eq!(
        permissions(&control_plane),
        narrow,
        "nothing stays of a grant"
    );

    drop(host);
    let _host = Host::start(&control_plane, &HostOptions::default()).await;
    let unrestricted = &permissions(&control_plane) - &narrow;
    assert_eq!([narrow, granted, unrestricted].as_slice(), documented);
}
