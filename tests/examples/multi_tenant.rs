//! multi-tenant: its README is the test. Every command of it is run, in order, and prints what the
//! page shows; then the API server's audit log tells what the hostile plugin really got.

use operetta_testkit::{ControlPlane, Host, HostOptions, eventually, plugin_path};

use crate::page::{Reader, steps};

const FOLDER: &str = "../examples/multi-tenant";

#[tokio::test]
async fn everything_on_its_page_is_as_it_says() {
    // What the page has built.
    for plugin in ["hostile", "sample-controller"] {
        plugin_path(plugin);
    }

    let start = || ControlPlane::start(&["controllers", "scheduler", "kwok"]);
    let control_plane = tokio::task::spawn_blocking(start).await.expect("started");
    let control_plane = control_plane.unwrap_or_else(|error| panic!("{error}"));

    let config = std::fs::read_to_string(format!("{FOLDER}/host.yaml")).expect("host.yaml");
    let options = HostOptions {
        config,
        narrow: true,
        ..HostOptions::default()
    };
    let host = Host::start(&control_plane, &options).await;
    let reader = Reader(&control_plane);
    until_the_policy_is_in_force(&control_plane).await;

    let page = std::fs::read_to_string(format!("{FOLDER}/README.md")).expect("README.md");
    let steps = steps(&page);
    assert!(steps.len() > 40, "{} commands", steps.len());
    let given = steps
        .iter()
        .position(|step| step.command.contains("create rolebinding shown"))
        .expect("a right is given");

    let (before, after) = steps.split_at(given);
    for step in before {
        reader.carry_out(step).await;
    }

    assert_eq!(
        of_team_a(&control_plane),
        Vec::<String>::new(),
        "before team A gave a right"
    );

    for step in after {
        reader.carry_out(step).await;
    }

    assert_eq!(
        of_team_a(&control_plane),
        ["get secrets/database"],
        "after it gave that one"
    );

    host.assert_sound();
}

/// Waits for the policy: when a reader of the page comes to it, it has been in force for a while.
async fn until_the_policy_is_in_force(control_plane: &ControlPlane) {
    control_plane.kubectl(&[
        "create",
        "clusterrole",
        "labels",
        "--verb=get,patch",
        "--resource=namespaces",
    ]);

    control_plane.kubectl(&[
        "create",
        "clusterrolebinding",
        "labels",
        "--clusterrole=labels",
        "--user=nobody",
    ]);

    eventually("the policy is in force", async || {
        let label = [
            "label",
            "namespace",
            "default",
            "operetta.dev/plugins=enabled",
            "--as=nobody",
            "--dry-run=server",
        ];
        let said =
            String::from_utf8_lossy(&control_plane.kubectl_output(&label).stderr).into_owned();
        if said.contains("ask an administrator") {
            Ok(())
        } else {
            Err(said)
        }
    })
    .await;
}

/// What the hostile plugin's account got of team A: verb, resource and name, each once.
fn of_team_a(control_plane: &ControlPlane) -> Vec<String> {
    let audit = control_plane.audit();
    let succeeded = audit.done_by(|event| {
        event.impersonated_user.username == "system:serviceaccount:team-b:hostile"
            && event.object_ref.namespace == "team-a"
            && event.response_status.code < 400
    });

    let mut got: Vec<String> = succeeded
        .map(|event| {
            format!(
                "{} {}/{}",
                event.verb, event.object_ref.resource, event.object_ref.name
            )
        })
        .collect();

    got.sort();
    got.dedup();
    got
}
