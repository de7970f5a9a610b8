//! docs/quick-start.md and docs/troubleshooting.md: their commands are run, in order, and print
//! what the pages show. The codes at the end of errors are those that `operetta explain` knows.

use std::process::Command;

use operetta_testkit::{ControlPlane, Host, HostOptions, plugin_path};

use crate::page::{Reader, steps};

/// A control plane of its own, because the pages name their namespaces, and a host.
async fn stage() -> (ControlPlane, Host) {
    let start = || ControlPlane::start(&["controllers", "scheduler", "kwok"]);
    let control_plane = tokio::task::spawn_blocking(start).await.expect("started");
    let control_plane = control_plane.unwrap_or_else(|error| panic!("{error}"));
    let host = Host::start(&control_plane, &HostOptions::default()).await;
    (control_plane, host)
}

/// Returns the sections of a page of docs/, each with its heading.
fn sections(page: &str) -> Vec<(String, String)> {
    let path = format!("../docs/{page}");
    let text = std::fs::read_to_string(path).expect("the page");

    let sections = text
        .split("\n## ")
        .skip(1)
        .filter_map(|section| section.split_once('\n'));
    sections
        .map(|(heading, text)| (heading.to_owned(), text.to_owned()))
        .collect()
}

#[tokio::test]
async fn quick_start_is_as_it_says() {
    plugin_path("sample-controller");
    let (control_plane, host) = stage().await;
    let reader = Reader(&control_plane);

    let mut count = 0;
    for (heading, text) in sections("quick-start.md") {
        // The test has built the program, and started the host.
        if ["What you need", "Start a host"].contains(&heading.as_str()) {
            continue;
        }
        for step in steps(&text) {
            reader.carry_out(&step).await;
            count += 1;
        }
    }

    assert!(count > 15, "{count} commands");
    host.assert_sound();
}

/// Returns the commands that bring about the symptom of a section of docs/troubleshooting.md, after
/// those of the sections before it.
fn symptom(heading: &str) -> &'static [&'static str] {
    match heading {
        "The Plugin is not created" => &[
            "kubectl create namespace team",
            "operetta bundle target/plugins/pod-tracker.wasm --name tracker --service-account tracker -n team \
             | kubectl apply --server-side -f -",
        ],
        "The Plugin is not ready" => &["kubectl label namespace team operetta.dev/plugins=enabled"],
        "A permission is missing" => &[
            "kubectl create serviceaccount tracker -n team",
            "kubectl annotate serviceaccount tracker -n team operetta.dev/allow-plugins=tracker",
        ],
        "Nothing is reconciled" => &[
            "kubectl create role tracker -n team --verb=get,list,watch --resource=pods",
            "kubectl create rolebinding tracker -n team --role=tracker --serviceaccount=team:tracker",
            "kubectl wait --for=condition=Ready plugin/tracker -n team --timeout=90s",
            "kubectl wait --for=create serviceaccount/default -n team --timeout=90s",
            "kubectl run mypod -n team --image=nginx",
        ],
        "Reconciles fail" => &[
            "kubectl run broken -n team --image=nginx --annotations=pod-tracker.operetta.dev/fail=true",
        ],
        "New code does not run" => &[
            "kubectl delete pod broken -n team --force",
            r#"kubectl patch configmap tracker -n team --type merge -p '{"binaryData":{"tracker.wasm.zst":"aGVsbG8="}}'"#,
        ],
        // The commands of the others show what there is, and in a healthy cluster that is nothing.
        _ => &[],
    }
}

#[tokio::test]
async fn troubleshooting_is_as_it_says() {
    plugin_path("pod-tracker");
    let (control_plane, host) = stage().await;
    let reader = Reader(&control_plane);
    let mut count = 0;

    for (heading, text) in sections("troubleshooting.md") {
        for command in symptom(&heading) {
            let (success, said) = reader.run(command);
            assert!(success, "{heading}: {command}: {said}");
        }

        for step in steps(&text) {
            reader.carry_out(&step).await;
            count += 1;
        }
    }

    assert!(count > 12, "{count} commands");
    host.assert_sound();
}

/// Runs `operetta` without a cluster: whether it succeeded, and what it printed.
fn operetta(args: &[&str]) -> (bool, String) {
    let mut command = Command::new(operetta_testkit::program("operetta"));
    let output = command
        .args(args)
        .env("KUBECONFIG", "/nonexistent/kubeconfig")
        .output()
        .expect("it starts");

    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

#[test]
fn error_ends_with_code_that_explain_knows() {
    for (args, code) in [
        (
            &["run", "--config", "/nonexistent/host.yaml"][..],
            "InvalidHostConfig",
        ),
        (&["run"][..], "InvalidKubeconfig"),
        (&["build", "/"][..], "NoProject"),
        (&["bundle", "/dev/null"][..], "NotWasm"),
        (&["check", "/dev/null"][..], "NotWasm"),
        (
            &["logs", "p", "-n", "n", "--host", "127.0.0.1:1"][..],
            "HostUnreachable",
        ),
    ] {
        let (success, text) = operetta(args);
        let error = text.lines().last().unwrap_or_default();
        assert!(
            !success && error.starts_with("error: ") && error.ends_with(&format!(" ({code})")),
            "{args:?}: {text}"
        );
        let (success, entry) = operetta(&["explain", code]);
        assert!(
            success && entry.starts_with(&format!("CODE:    {code}\n")) && entry.contains("CURE:"),
            "{entry}"
        );
    }
}

#[test]
fn unknown_code_is_refused_with_the_similar_one() {
    let (success, text) = operetta(&["explain", "ConsentMissing1"]);
    assert!(
        !success && text.contains("did you mean ConsentMissing? "),
        "{text}"
    );
}
