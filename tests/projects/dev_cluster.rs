//! `operetta dev` on a real control plane that others use: what it refuses, what it does, and what
//! it leaves.

use std::{fs, path::Path, process::Command, time::Duration};

use operetta_testkit::{ControlPlane, Host, HostOptions, eventually};

use crate::{
    Project,
    dev::{Session, replace},
};

/// Runs `operetta dev` on a cluster that it must refuse, and returns its message.
fn refused(project: &Path, kubeconfig: &str) -> String {
    let mut command = Command::new(operetta_testkit::program("operetta"));
    command
        .arg("dev")
        .arg(project)
        .args(["--kubeconfig", kubeconfig, "--namespace", "dev"]);

    let output = command.output().expect("it runs");
    assert_eq!(
        output.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn shared_cluster_is_used_and_left_as_kubectl_users_expect() {
    let control_plane =
        ControlPlane::start(&["controllers"]).unwrap_or_else(|error| panic!("{error}"));
    let kubeconfig = control_plane.kubeconfig().display().to_string();
    let kubectl = |args: &[&str]| control_plane.kubectl(args);
    let project = Project::new_in("dev-cluster", "c", "shared-dev", "SharedGreeting");
    let args = ["--kubeconfig", kubeconfig.as_str(), "--namespace", "dev"];

    // The Plugin of another namespace is not run, though it would be allowed to.
    kubectl(&["create", "namespace", "others"]);
    kubectl(&[
        "label",
        "namespace",
        "others",
        "operetta.dev/plugins=enabled",
    ]);
    let mut session = Session::start_with(&project, &args);
    session.until("using the cluster of kubeconfig");
    session.until("reconciled dev/shared-dev-sample");

    let message = "jsonpath={.data.message}";
    assert_eq!(
        kubectl(&[
            "get",
            "configmap",
            "shared-dev-sample",
            "-n",
            "dev",
            "-o",
            message
        ]),
        "Hello"
    );

    let other = r#"{"apiVersion": "operetta.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": "other", "namespace": "others"},
        "spec": {"source": {"path": "shared-dev.wasm"}, "serviceAccountName": "other"}}"#;
    control_plane.apply(other);
    replace(&project.dir.join("object.yaml"), "Hello", "Hi");
    session.until("update ConfigMap.v1 dev/shared-dev-sample");
    assert_eq!(
        kubectl(&[
            "get",
            "plugin",
            "other",
            "-n",
            "others",
            "-o",
            "jsonpath={.status}"
        ]),
        ""
    );

    let said = refused(&project.dir, &kubeconfig);
    assert!(
        said.contains("runs the Plugins of namespace dev: end that `operetta dev`"),
        "{said}"
    );

    // The Plugin, the Leases and the opt-in go; all else stays.
    session.quit();
    assert_eq!(
        kubectl(&["get", "plugins,leases", "-n", "dev", "-o", "name"]),
        ""
    );

    let labels = kubectl(&[
        "get",
        "namespace",
        "dev",
        "-o",
        "jsonpath={.metadata.labels}",
    ]);
    assert!(!labels.contains("operetta.dev/plugins"), "{labels}");
    assert_eq!(
        kubectl(&[
            "get",
            "configmap",
            "shared-dev-sample",
            "-n",
            "dev",
            "-o",
            message
        ]),
        "Hi"
    );

    kubectl(&["get", "sharedgreeting", "shared-dev-sample", "-n", "dev"]);
    kubectl(&["delete", "plugin", "other", "-n", "others"]);

    // A Plugin that somebody else has created is not taken over.
    control_plane.apply(
        &other
            .replace("others", "dev")
            .replace("\"other\"", "\"shared-dev\""),
    );
    let said = refused(&project.dir, &kubeconfig);
    assert!(
        said.contains("Plugin dev/shared-dev exists and was not created by `operetta dev`"),
        "{said}"
    );
    kubectl(&["delete", "plugin", "shared-dev", "-n", "dev"]);

    // An installed host would run the Plugin as well, and its definitions must be those of this
    // program.
    let options = HostOptions {
        config: "replicas: {leaseSeconds: 4}".to_owned(),
        ..HostOptions::default()
    };
    let host = Host::start(&control_plane, &options).await;
    let said = refused(&project.dir, &kubeconfig);
    assert!(
        said.contains(
            "of namespace operetta-system runs on this cluster, and would run the plugin as well"
        ),
        "{said}"
    );

    host.kill();
    let patch = r#"[{"op": "add", "path": "/spec/names/shortNames", "value": ["oldplugin"]}]"#;
    kubectl(&[
        "patch",
        "crd",
        "plugins.operetta.dev",
        "--type=json",
        "--patch",
        patch,
    ]);

    eventually("the definitions are refused", async || {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let said = refused(&project.dir, &kubeconfig);
        if said
            .contains("plugins.operetta.dev on this cluster belongs to another version of Operetta")
        {
            Ok(())
        } else {
            Err(said)
        }
    })
    .await;

    assert!(
        fs::read(project.dir.join(".operetta/kubeconfig")).is_err(),
        "no server was started in the process"
    );
}
