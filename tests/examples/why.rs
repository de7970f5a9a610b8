//! `operetta why`: the chain from a change back to the person who caused it.

use std::collections::BTreeMap;

use operetta_testkit::{Host, Kind, TestNamespace, eventually, kinds};
use serde_json::{Value, json};

use crate::installed;

const FOO: Kind = Kind("samplecontroller.k8s.io/v1alpha1", "Foo");
const DEPLOYMENT: Kind = kinds::DEPLOYMENT;
const REPLICAS: &str = ".spec.replicas";

/// The number of changes by people, each of which the plugin reverts.
const ROUNDS: u32 = 50;

/// The sample-controller in a namespace of its own, with the Foo `foo` whose Deployment `web` has
/// two replicas.
async fn running() -> (&'static Host, TestNamespace<'static>) {
    let (host, namespace) = installed("sample-controller", "sample-controller").await;
    let spec = json!({"deploymentName": "web", "replicas": 2});
    namespace
        .create_object(FOO, json!({"metadata": {"name": "foo"}, "spec": spec}))
        .await;
    namespace.until(DEPLOYMENT, "web", |_| Ok(())).await;
    (host, namespace)
}

/// Runs `operetta why` and returns what it prints.
fn why(host: &Host, namespace: &TestNamespace<'_>, args: &[&str]) -> String {
    let output = host.run(&[&["why", "-n", namespace.name()], args].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn changes(host: &Host, namespace: &TestNamespace<'_>) -> Vec<Value> {
    let args = [
        "deployment/web",
        "--field",
        REPLICAS,
        "--limit",
        "1000",
        "-o",
        "json",
    ];

    let answer: Value = serde_json::from_str(&why(host, namespace, &args)).expect("JSON");
    answer["changes"].as_array().expect("changes").clone()
}

/// Returns the field manager outside that made a change; None if a plugin did, or one of several
/// managers.
fn manager(change: &Value) -> Option<&str> {
    match change["by"]["outside"]["managers"].as_array()?.as_slice() {
        [one] => one.as_str(),
        _ => None,
    }
}

async fn until_reverted(namespace: &TestNamespace<'_>, after: &str) {
    namespace
        .until(DEPLOYMENT, "web", |deployment| {
            let version = deployment["metadata"]["resourceVersion"].as_str() != Some(after);
            match deployment["spec"]["replicas"].as_u64() {
                Some(2) if version => Ok(()),
                now => Err(format!("{now:?}")),
            }
        })
        .await;
}

#[tokio::test]
async fn chain_of_a_scaled_deployment_ends_at_the_person() {
    let (host, namespace) = running().await;
    namespace.kubectl(&["scale", "deployment", "web", "--replicas=7"]);
    until_reverted(&namespace, "").await;

    let text = eventually("the revert is recorded", async || {
        let text = why(
            host,
            &namespace,
            &["deploy/web", "--field", REPLICAS, "--limit", "1"],
        );
        if text.contains("by field manager kubectl/scale") {
            Ok(text)
        } else {
            Err(text)
        }
    })
    .await;

    let plugin = format!(
        "by Plugin {}/sample-controller, controller foo",
        namespace.name()
    );

    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let place = |wanted: &str| {
        lines
            .iter()
            .position(|line| line.contains(wanted))
            .unwrap_or_else(|| panic!("{wanted}\n{text}"))
    };

    assert!(lines[0].contains("web changed .spec.replicas"), "{text}");
    assert!(
        place(&plugin) < place("because")
            && place("because") < place("by field manager kubectl/scale"),
        "{text}"
    );
    assert!(
        lines[place("after get")].contains(&format!("get Foo {}/foo@", namespace.name())),
        "{text}"
    );

    let mermaid = why(
        host,
        &namespace,
        &["deploy/web", "--field", REPLICAS, "-o", "mermaid"],
    );
    assert!(
        mermaid.starts_with("sequenceDiagram\n") && mermaid.contains("as kubectl/scale\n"),
        "{mermaid}"
    );
}

#[tokio::test]
async fn each_of_a_hundred_changes_has_its_cause() {
    let (host, namespace) = running().await;
    let mut people = BTreeMap::new();
    for round in 0..ROUNDS {
        let person = format!("person-{round}");
        let patch = json!({"spec": {"replicas": 3 + round}}).to_string();
        let args = [
            "patch",
            "deployment",
            "web",
            "--field-manager",
            &person,
            "-p",
            &patch,
            "-o",
            "json",
        ];

        let patched: Value = serde_json::from_str(&namespace.kubectl(&args)).expect("JSON");
        let version = patched["metadata"]["resourceVersion"]
            .as_str()
            .expect("a version")
            .to_owned();

        until_reverted(&namespace, &version).await;
        people.insert(version, person);
    }

    let changes = eventually("all changes are recorded", async || {
        let changes = changes(host, &namespace);
        if changes.len() as u32 > 2 * ROUNDS {
            Ok(changes)
        } else {
            Err(format!("{} changes", changes.len()))
        }
    })
    .await;
    assert_eq!(
        changes.len() as u32,
        2 * ROUNDS + 1,
        "each change, its revert, and the creation"
    );

    let mut explained = 0;
    for change in &changes[..2 * ROUNDS as usize] {
        let version = change["resourceVersion"].as_str().expect("a version");
        if let Some(person) = people.get(version) {
            assert_eq!(manager(change), Some(person.as_str()), "{change}");
            explained += 1;
            continue;
        }

        let plugin = format!("{}/sample-controller", namespace.name());
        assert_eq!(
            change["by"]["plugin"]["plugin"],
            plugin.as_str(),
            "{change}"
        );

        // The person whose change is the newest one before the revert.
        let at: u64 = version.parse().expect("a number");
        let older = people
            .iter()
            .filter(|(version, _)| version.parse::<u64>().is_ok_and(|version| version < at));
        let newest = older.max_by_key(|(version, _)| version.parse::<u64>().unwrap_or_default());
        let (version, person) = newest.expect("a person");
        let because = change["because"].as_array().expect("causes");

        // A change that is also a cause of a later one is explained there.
        let is_cause = |because: &Value| {
            manager(&because["change"]) == Some(person)
                || because["seen"]["resourceVersion"] == version.as_str()
        };
        assert!(
            because.iter().any(is_cause),
            "{person} is not a cause of {change}"
        );
        explained += 1;
    }

    assert_eq!(explained, 2 * ROUNDS);
}

#[tokio::test]
async fn key_shows_why_it_is_not_reconciled_and_what_it_did() {
    let (host, namespace) = running().await;
    let text = eventually("the reconcile that created the Deployment", async || {
        let text = why(host, &namespace, &["sample-controller", "foo"]);
        if text.contains("create Deployment") {
            Ok(text)
        } else {
            Err(text)
        }
    })
    .await;
    assert!(text.contains(" ms of processor time)"), "{text}");

    eventually("the key waits for nothing", async || {
        let text = why(host, &namespace, &["sample-controller", "foo"]);
        if text.contains("is not waiting for a reconcile") {
            Ok(())
        } else {
            Err(text)
        }
    })
    .await;

    let absent = why(host, &namespace, &["sample-controller", "absent"]);
    assert!(
        absent.contains("No reconcile of absent is recorded"),
        "{absent}"
    );

    // A Deployment of somebody else is an error that the plugin retries.
    let labels = json!({"app": "other"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    let spec = json!({"selector": {"matchLabels": labels}, "template": template});

    namespace
        .create_object(
            DEPLOYMENT,
            json!({"metadata": {"name": "taken"}, "spec": spec}),
        )
        .await;

    let spec = json!({"deploymentName": "taken", "replicas": 1});
    namespace
        .create_object(FOO, json!({"metadata": {"name": "blocked"}, "spec": spec}))
        .await;

    eventually("the key waits", async || {
        let text = why(host, &namespace, &["sample-controller", "blocked"]);
        let words = [
            "last failure: ",
            "operetta retry sample-controller",
            "error (ReconcileFailing)",
        ];
        if words.iter().all(|words| text.contains(words)) {
            Ok(())
        } else {
            Err(text)
        }
    })
    .await;
}

#[tokio::test]
async fn wrong_questions_are_errors_with_the_fix() {
    let (host, namespace) = running().await;
    let fails = |args: &[&str]| {
        let output = host.run(&[&["why", "-n", namespace.name()], args].concat());
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).expect("text")
    };

    for (args, words) in [
        (
            &["web"][..],
            "use KIND/NAME such as deploy/web, or PLUGIN and KEY",
        ),
        (&["deploy/web", "foo"], "too many names"),
        (
            &["nonsense/web"],
            "the server doesn't have a resource type \"nonsense\"",
        ),
        (&["absent", "foo"], "Plugin \"absent\" not found"),
        (
            &["deploy/web", "--field", "spec.replicas"],
            "a field is a path such as .spec.replicas",
        ),
        (
            &["sample-controller", "foo", "-o", "mermaid"],
            "use KIND/NAME",
        ),
    ] {
        let error = fails(args);
        assert!(error.contains(words), "{args:?}: {error}");
    }
}
