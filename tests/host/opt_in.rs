//! The opt-in of namespaces: the policy of `deploy/rbac/namespace-opt-in.yaml` on a real API
//! server, where every host of these tests has installed it. The users here may do everything with
//! Namespaces that RBAC can allow, but the label takes more than that.

use std::{path::PathBuf, process::Output};

use operetta_testkit::{ControlPlane, Kind, eventually};
use serde_json::{Value, json};

use crate::host;

const NAMESPACE: Kind = Kind("v1", "Namespace");
const LABEL: &str = "operetta.dev/plugins";
const REFUSED: &str =
    "needs the right to enable plugins.operetta.dev in it: ask an administrator of the cluster";

/// A user who may do everything with Namespaces, and nothing else.
struct User {
    control_plane: &'static ControlPlane,
    name: String,
}

impl User {
    async fn new(name: &str) -> Self {
        host().await;
        let control_plane = ControlPlane::shared().await;
        let user = Self {
            control_plane,
            name: name.to_owned(),
        };

        let role = format!("{name}-namespaces");
        let resources = "--resource=namespaces,namespaces/status,namespaces/finalize";
        control_plane.kubectl(&[
            "create",
            "clusterrole",
            &role,
            "--verb=get,create,update,patch",
            resources,
        ]);

        control_plane.kubectl(&[
            "create",
            "clusterrolebinding",
            &role,
            "--clusterrole",
            &role,
            "--user",
            name,
        ]);

        user.until_the_policy_is_in_force().await;
        user
    }

    fn kubectl(&self, args: &[&str]) -> Output {
        self.control_plane
            .kubectl_output(&[&["--as", &self.name], args].concat())
    }

    /// Waits until the policy is in force: the API server applies it only some time after accepting
    /// it.
    async fn until_the_policy_is_in_force(&self) {
        eventually("the policy is in force", async || {
            let file = self.file("in-force", &namespace("in-force", Some("enabled")));
            let tried = self.kubectl(&[
                "create",
                "--dry-run=server",
                "-f",
                file.to_str().expect("a path"),
            ]);
            let said = text(&tried);
            if said.contains(REFUSED) {
                Ok(())
            } else {
                Err(said)
            }
        })
        .await;
    }

    fn file(&self, name: &str, object: &Value) -> PathBuf {
        let path = self
            .control_plane
            .folder()
            .join(format!("{}-{name}.json", self.name));
        std::fs::write(&path, object.to_string()).expect("written");
        path
    }

    /// Runs `kubectl VERB -f FILE` with an object.
    fn send(&self, args: &[&str], name: &str, object: &Value) -> Output {
        let file = self.file(name, object);
        self.kubectl(&[args, &["-f", file.to_str().expect("a path")]].concat())
    }

    /// Every way to write the label of a namespace that exists, each with a value of its own, and
    /// what came of it.
    fn label(&self, name: &str) -> [(&'static str, Output); 4] {
        let patch = |way: &str| {
            let patch = json!({"metadata": {"labels": {LABEL: way}}}).to_string();
            let merge = ["patch", "namespace", name, "--type=merge", "-p", &patch];
            let subresource: &[&str] = if way == "status" {
                &["--subresource=status"]
            } else {
                &[]
            };
            self.kubectl(&[&merge[..], subresource].concat())
        };

        let replace = |way: &str, args: &[&str]| {
            let object = self
                .control_plane
                .kubectl(&["get", "namespace", name, "-o", "json"]);
            let mut object: Value = serde_json::from_str(&object).expect("a Namespace");
            object["metadata"]["labels"][LABEL] = way.into();
            self.send(args, &format!("{name}-{way}"), &object)
        };

        let finalize = format!("/api/v1/namespaces/{name}/finalize");
        [
            ("patch", patch("patch")),
            ("status", patch("status")),
            (
                "finalize",
                replace("finalize", &["replace", "--raw", &finalize]),
            ),
            ("update", replace("update", &["replace"])),
        ]
    }

    fn label_of(&self, name: &str) -> String {
        let path = format!(
            "jsonpath={{.metadata.labels.{}}}",
            LABEL.replace('.', "\\.")
        );
        self.control_plane
            .kubectl(&["get", "namespace", name, "-o", &path])
    }
}

fn namespace(name: &str, label: Option<&str>) -> Value {
    let labels = label.map_or_else(|| json!({"team": "x"}), |label| json!({LABEL: label}));
    json!({"apiVersion": NAMESPACE.0, "kind": NAMESPACE.1, "metadata": {"name": name, "labels": labels}})
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

fn assert_done(output: &Output) {
    assert!(output.status.success(), "{}", text(output));
}

fn assert_refused(output: &Output, what: &str) {
    assert!(
        !output.status.success() && text(output).contains(REFUSED),
        "{what}: {}",
        text(output)
    );
}

#[tokio::test]
async fn namespace_writer_cannot_opt_in() {
    let user = User::new("opt-in-editor").await;
    assert_refused(
        &user.send(
            &["create"],
            "own",
            &namespace("opt-in-own", Some("enabled")),
        ),
        "create",
    );
    assert_refused(
        &user.send(&["create"], "own", &namespace("opt-in-own", Some("other"))),
        "create with another value",
    );
    assert_done(&user.send(&["create"], "own", &namespace("opt-in-own", None)));

    for (way, output) in user.label("opt-in-own") {
        assert_refused(&output, way);
    }

    assert_refused(
        &user.kubectl(&[
            "label",
            "namespace",
            "opt-in-own",
            "operetta.dev/plugins=enabled",
        ]),
        "kubectl label",
    );

    assert_eq!(user.label_of("opt-in-own"), "");
    // They may change everything else in it.
    assert_done(&user.kubectl(&["label", "namespace", "opt-in-own", "team=y", "--overwrite"]));
    assert_done(&user.kubectl(&[
        "annotate",
        "namespace",
        "opt-in-own",
        "operetta.dev/plugins=enabled",
    ]));
}

#[tokio::test]
async fn opt_in_label_can_be_removed_not_changed() {
    let user = User::new("opt-in-keeper").await;
    let given = namespace("opt-in-given", Some("enabled"));
    user.control_plane.apply(&given.to_string());

    assert_done(&user.kubectl(&["label", "namespace", "opt-in-given", "team=y"]));
    for (way, output) in user.label("opt-in-given") {
        assert_refused(&output, way);
    }

    assert_eq!(user.label_of("opt-in-given"), "enabled");
    assert_done(&user.kubectl(&[
        "label",
        "namespace",
        "opt-in-given",
        "operetta.dev/plugins-",
    ]));

    // Once it is gone, they cannot put it back.
    for (way, output) in user.label("opt-in-given") {
        assert_refused(&output, way);
    }
}

#[tokio::test]
async fn namespace_writer_cannot_change_the_class() {
    let user = User::new("class-editor").await;
    let mut given = namespace("class-given", Some("enabled"));
    given["metadata"]["labels"]["operetta.dev/class"] = "a".into();
    assert_refused(&user.send(&["create"], "class-given", &given), "create");
    user.control_plane.apply(&given.to_string());

    // Without the label, the plugins would run beside those of all namespaces without a class.
    for label in ["operetta.dev/class=b", "operetta.dev/class-"] {
        let output = user.kubectl(&["label", "namespace", "class-given", label, "--overwrite"]);
        assert_refused(&output, label);
    }
    assert_done(&user.kubectl(&["label", "namespace", "class-given", "team=y"]));
    assert_done(&user.kubectl(&["label", "namespace", "class-given", "operetta.dev/plugins-"]));
}

#[tokio::test]
async fn the_verb_enable_gives_the_right_where_it_is_given() {
    let user = User::new("opt-in-enabler").await;
    for name in ["opt-in-here", "opt-in-there"] {
        user.control_plane.apply(&namespace(name, None).to_string());
    }

    let namespaced = ["-n", "opt-in-here"];
    let role = [
        "create",
        "role",
        "enables",
        "--verb=enable",
        "--resource=plugins.operetta.dev",
    ];
    user.control_plane
        .kubectl(&[&role[..], &namespaced].concat());

    let binding = [
        "create",
        "rolebinding",
        "enables",
        "--role=enables",
        "--user",
        &user.name,
    ];
    user.control_plane
        .kubectl(&[&binding[..], &namespaced].concat());

    eventually("the right is known", async || {
        let output = user.kubectl(&[
            "label",
            "namespace",
            "opt-in-here",
            "operetta.dev/plugins=enabled",
        ]);
        if output.status.success() {
            Ok(())
        } else {
            Err(text(&output))
        }
    })
    .await;

    for (way, output) in user.label("opt-in-here") {
        assert!(output.status.success(), "{way}: {}", text(&output));
    }
    assert_eq!(user.label_of("opt-in-here"), "update");

    for (way, output) in user.label("opt-in-there") {
        assert_refused(&output, way);
    }

    assert_refused(
        &user.send(
            &["create"],
            "new",
            &namespace("opt-in-elsewhere", Some("enabled")),
        ),
        "create",
    );
}

#[tokio::test]
async fn an_administrator_of_the_cluster_may() {
    // The admin of the kubeconfig is in system:masters, whom every policy lets pass. This user is
    // an administrator by a binding.
    let user = User::new("opt-in-admin").await;

    let binding = [
        "create",
        "clusterrolebinding",
        "opt-in-admin",
        "--clusterrole=cluster-admin",
        "--user",
        &user.name,
    ];
    user.control_plane.kubectl(&binding);

    eventually("the right is known", async || {
        let output = user.send(
            &["create"],
            "own",
            &namespace("opt-in-by-admin", Some("enabled")),
        );
        if output.status.success() {
            Ok(())
        } else {
            Err(text(&output))
        }
    })
    .await;

    for (way, output) in user.label("opt-in-by-admin") {
        assert!(output.status.success(), "{way}: {}", text(&output));
    }
    assert_eq!(user.label_of("opt-in-by-admin"), "update");
}
