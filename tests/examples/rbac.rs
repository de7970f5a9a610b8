//! `operetta rbac`: the role that it prints is what the plugin needs, all of it and nothing else;
//! and what it says when there is none to print.

use std::{collections::BTreeSet, process::Output};

use operetta_testkit::{ControlPlane, Host, Kind, TestNamespace, eventually, kinds};
use serde_json::{Value, json};

use crate::{installed, until_field};

const ROLE: Kind = Kind("rbac.authorization.k8s.io/v1", "Role");
const FOO: Kind = Kind("samplecontroller.k8s.io/v1alpha1", "Foo");
const APP_SERVICE: Kind = Kind("batch.example.com/v1alpha1", "AppService");

/// A plugin at work in a namespace of its own.
struct Stage {
    host: &'static Host,
    namespace: TestNamespace<'static>,
    plugin: &'static str,
}

impl Stage {
    async fn new(plugin: &'static str, component: &str) -> Self {
        let (host, namespace) = installed(plugin, component).await;
        Self {
            host,
            namespace,
            plugin,
        }
    }

    /// Runs `operetta rbac` about the plugin. Blocks.
    fn rbac(&self, args: &[&str]) -> (Option<i32>, String, String) {
        outcome(
            self.host
                .run(&[&["rbac", self.plugin, "-n", self.namespace.name()], args].concat()),
        )
    }

    /// The roles that it prints, without the rules that the plugin has and does not need.
    fn printed(&self) -> String {
        let (code, printed, errors) = self.rbac(&["--exact"]);
        assert_eq!((code, errors.as_str()), (Some(0), ""), "{printed}");
        printed
    }

    /// What it says when there is nothing to print: one line.
    fn refused(&self, args: &[&str]) -> String {
        let (code, printed, error) = self.rbac(args);
        assert_eq!(
            (code, printed.as_str(), error.lines().count()),
            (Some(1), "", 1),
            "{error}"
        );

        let (code, _, same) = self.rbac(&[&["--diff"], args].concat());
        assert_eq!(
            (code, same.as_str()),
            (Some(2), error.as_str()),
            "1 would say that there is a difference"
        );

        error
    }

    /// Waits until `--diff` prints these lines and no others: the authorizer hears of a change by a
    /// watch of its own.
    async fn until_different(&self, lines: &[String]) {
        let code = i32::from(!lines.is_empty());

        eventually(&format!("the difference is {lines:?}"), async || {
            let (now, printed, errors) = self.rbac(&["--diff"]);
            let is_it = now == Some(code) && printed.lines().eq(lines.iter().map(String::as_str));
            if is_it {
                Ok(())
            } else {
                Err(format!("{now:?} {printed}{errors}"))
            }
        })
        .await;
    }

    /// Creates an object, and waits for all that the plugin does for it.
    async fn works(&self, name: &str) {
        let namespace = &self.namespace;

        match self.plugin {
            "sample-controller" => {
                let spec = json!({"deploymentName": name, "replicas": 1});
                namespace
                    .create_object(FOO, json!({"metadata": {"name": name}, "spec": spec}))
                    .await;
                until_field(namespace, FOO, name, "/status/availableReplicas", json!(1)).await;
                namespace
                    .patch(FOO, name, json!({"spec": {"replicas": 2}}))
                    .await;
                until_field(
                    namespace,
                    kinds::DEPLOYMENT,
                    name,
                    "/spec/replicas",
                    json!(2),
                )
                .await;
                until_field(namespace, FOO, name, "/status/availableReplicas", json!(2)).await;
                eventually("an Event that was counted", async || {
                    let described = namespace.kubectl(&["describe", &format!("foo/{name}")]);
                    let counted = described
                        .lines()
                        .any(|line| line.contains("Synced") && line.contains("(x"));
                    if counted { Ok(()) } else { Err(described) }
                })
                .await;
            }
            "app-service" => {
                let spec = json!({"replicas": 1});
                namespace
                    .create_object(
                        APP_SERVICE,
                        json!({"metadata": {"name": name}, "spec": spec}),
                    )
                    .await;
                until_field(
                    namespace,
                    APP_SERVICE,
                    name,
                    "/status/availableReplicas",
                    json!(1),
                )
                .await;
                namespace
                    .patch(APP_SERVICE, name, json!({"spec": {"replicas": 2}}))
                    .await;
                until_field(
                    namespace,
                    kinds::DEPLOYMENT,
                    name,
                    "/spec/replicas",
                    json!(2),
                )
                .await;
                until_field(
                    namespace,
                    APP_SERVICE,
                    name,
                    "/status/availableReplicas",
                    json!(2),
                )
                .await;
            }
            _ => {
                let spec = json!({"containers": [{"name": "c", "image": "nginx"}]});
                namespace
                    .create_object(
                        kinds::POD,
                        json!({"metadata": {"name": name}, "spec": spec}),
                    )
                    .await;
                let message = format!("Sync/Add/Update for Pod {name}");
                eventually(&message, async || {
                    let lines = self.host.logs(namespace.name(), self.plugin);
                    if lines.iter().any(|line| line.message == message) {
                        Ok(())
                    } else {
                        Err(format!("{lines:?}"))
                    }
                })
                .await;
            }
        }
    }

    /// The printed role's rights, one at a time: the rules without it, and how a difference names
    /// it.
    fn rights(&self, role: &Value) -> Vec<(Value, String)> {
        let texts = |rule: &Value, field: &str| -> Vec<String> {
            let texts = rule[field].as_array().into_iter().flatten();
            texts
                .map(|text| text.as_str().expect("a text").to_owned())
                .collect()
        };

        let mut all = Vec::new();
        for rule in role["rules"].as_array().expect("rules") {
            for group in texts(rule, "apiGroups") {
                for resource in texts(rule, "resources") {
                    all.extend(
                        texts(rule, "verbs")
                            .into_iter()
                            .map(|verb| (group.clone(), resource.clone(), verb)),
                    );
                }
            }
        }

        let without = |right: &(String, String, String)| -> Value {
            let others = all.iter().filter(|other| *other != right);
            others
                .map(|(group, resource, verb)| json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]}))
                .collect()
        };
        let named = |(group, resource, verb): &(String, String, String)| {
            let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let dot = if group.is_empty() { "" } else { "." };
            let slash = if subresource.is_empty() { "" } else { "/" };
            let place = self.namespace.name();
            format!("lacks: {verb} {plural}{dot}{group}{slash}{subresource} in namespace {place:?}")
        };

        all.iter()
            .map(|right| (without(right), named(right)))
            .collect()
    }
}

fn outcome(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Runs the plugin with far too many rights, then with those that are printed.
async fn the_printed_role_is_all_and_only_what_it_needs(
    plugin: &'static str,
    component: &str,
) -> BTreeSet<String> {
    let stage = Stage::new(plugin, component).await;
    let home = stage.namespace.name();
    stage.namespace.allow_all(plugin).await;
    stage.works("one").await;

    let printed = stage.printed();
    let wide = format!(
        "#   unused: * *.* in namespace {home:?}, which is more than it used (ClusterRole cluster-admin, RoleBinding \
         {home}/{plugin}-may-do-all)"
    );
    assert!(
        printed.lines().any(|line| line == wide),
        "{wide} is not in {printed}"
    );
    assert!(
        !printed.contains("lacks:") && !printed.contains("ClusterRoleBinding\n"),
        "{printed}"
    );

    stage
        .namespace
        .kubectl(&["delete", "role,rolebinding", "--all"]);
    ControlPlane::with_controllers().await.apply(&printed);
    stage.until_different(&[]).await;
    stage.works("two").await;
    stage.until_different(&[]).await;

    let now = stage.printed();
    assert!(
        now.contains("# Its ServiceAccount has exactly these permissions.\n"),
        "{now}"
    );

    let rules = |text: &str| text.split_once("apiVersion").expect("a role").1.to_owned();
    assert_eq!(
        rules(&now),
        rules(&printed),
        "what it needs does not depend on what it has"
    );

    let role = stage.namespace.get(ROLE, plugin).await.expect("applied");
    let rights = stage.rights(&role);

    for (without, line) in &rights {
        stage
            .namespace
            .patch(ROLE, plugin, json!({"rules": without}))
            .await;
        stage.until_different(std::slice::from_ref(line)).await;
    }

    stage
        .namespace
        .patch(ROLE, plugin, json!({"rules": role["rules"]}))
        .await;
    stage.until_different(&[]).await;
    stage.host.assert_sound();

    let place = format!(" in namespace {home:?}");
    rights
        .iter()
        .map(|(_, line)| {
            line.trim_start_matches("lacks: ")
                .trim_end_matches(&place)
                .to_owned()
        })
        .collect()
}

fn set(rights: &[&str]) -> BTreeSet<String> {
    rights.iter().map(|right| (*right).to_owned()).collect()
}

#[tokio::test]
async fn sample_controller_needs_what_is_printed_and_no_more() {
    let rights =
        the_printed_role_is_all_and_only_what_it_needs("sample-controller", "sample-controller")
            .await;

    let mut wanted = set(&[
        "get foos.samplecontroller.k8s.io",
        "list foos.samplecontroller.k8s.io",
        "watch foos.samplecontroller.k8s.io",
        "update foos.samplecontroller.k8s.io/status",
        "get deployments.apps",
        "list deployments.apps",
        "watch deployments.apps",
        "create deployments.apps",
        "update deployments.apps",
        "create events",
    ]);
    wanted.insert("patch events".to_owned());
    assert_eq!(rights, wanted);
}

#[tokio::test]
async fn pod_tracker_needs_what_is_printed_and_no_more() {
    let rights = the_printed_role_is_all_and_only_what_it_needs("pod-tracker", "pod-tracker").await;
    assert_eq!(rights, set(&["get pods", "list pods", "watch pods"]));
}

/// controller-runtime's client asks by raw requests.
#[tokio::test]
async fn controller_runtime_plugin_needs_printed_role_only() {
    let rights =
        the_printed_role_is_all_and_only_what_it_needs("app-service", "app-service-go").await;

    for right in [
        "get appservices.batch.example.com",
        "watch appservices.batch.example.com",
        "update appservices.batch.example.com",
        "update appservices.batch.example.com/status",
        "create deployments.apps",
        "update deployments.apps",
        "create services",
    ] {
        assert!(rights.contains(right), "{right} is not in {rights:?}");
    }

    assert!(
        !rights.iter().any(|right| right.starts_with("delete")),
        "{rights:?}"
    );
}

#[tokio::test]
async fn refused_calls_are_in_the_role() {
    let stage = Stage::new("sample-controller", "sample-controller").await;
    let name = stage.namespace.name();

    let status = json!([{"apiGroups": ["samplecontroller.k8s.io"], "resources": ["foos"], "verbs": ["get", "list", "watch"]},
                        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch"]}]);

    stage
        .namespace
        .patch(ROLE, "sample-controller", json!({"rules": status}))
        .await;
    let spec = json!({"deploymentName": "one", "replicas": 1});
    stage
        .namespace
        .create_object(FOO, json!({"metadata": {"name": "one"}, "spec": spec}))
        .await;

    let words = ["cannot create resource", "kubectl create role"];
    stage
        .namespace
        .until_degraded("sample-controller", "ReconcileFailing", &words)
        .await;

    let (code, difference, _) = stage.rbac(&["--diff"]);
    let lacks = format!("lacks: create deployments.apps in namespace {name:?}\n");
    assert!(
        code == Some(1) && difference.contains(&lacks),
        "{difference}"
    );
    assert!(
        stage
            .printed()
            .contains("verbs: [get, list, watch, create]"),
        "{}",
        stage.printed()
    );
}

#[tokio::test]
async fn prints_role_without_permission_to_read_roles() {
    let stage = Stage::new("pod-tracker", "pod-tracker").await;
    stage.works("one").await;
    let control_plane = ControlPlane::with_controllers().await;
    stage
        .namespace
        .kubectl(&["create", "serviceaccount", "reader"]);

    let reader = format!("{}:reader", stage.namespace.name());
    let see = [
        "create",
        "role",
        "see",
        "--verb=get",
        "--resource=plugins.operetta.dev",
    ];
    stage.namespace.kubectl(&see);

    stage.namespace.kubectl(&[
        "create",
        "rolebinding",
        "see",
        "--role=see",
        &format!("--serviceaccount={reader}"),
    ]);

    let kubeconfig = control_plane.kubeconfig_of(stage.namespace.name(), "reader");
    // The reader may not use the Service of a host in the cluster.
    let as_reader = [
        "--kubeconfig",
        kubeconfig.to_str().expect("a path"),
        "--host",
        stage.host.admin_address(),
    ];

    let (code, printed, warning) = stage.rbac(&as_reader);
    let ask = format!("--user=system:serviceaccount:{reader}");
    assert!(
        warning.contains("may not list roles") && warning.trim_end().ends_with(&ask),
        "{warning}"
    );
    assert_eq!((code, warning.lines().count()), (Some(0), 1));
    assert!(
        printed.contains("verbs: [get, list, watch]") && printed.contains("are unknown"),
        "{printed}"
    );

    let (code, printed, error) = stage.rbac(&[&["--diff"], &as_reader[..]].concat());
    assert!(
        code == Some(2) && printed.is_empty() && error.contains(&ask),
        "{code:?} {printed} {error}"
    );

    // The command in the message gives this right.
    let (_, command) = error.trim_end().split_once("kubectl ").expect("a command");
    for command in format!("kubectl {command}").split(" && ") {
        let args: Vec<&str> = command.split(' ').skip(1).collect();
        control_plane.kubectl(&args);
    }

    eventually("the difference", async || {
        match stage.rbac(&[&["--diff"], &as_reader[..]].concat()) {
            (Some(0), printed, errors) if printed.is_empty() && errors.is_empty() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    control_plane.kubectl(&["delete", "clusterrole,clusterrolebinding", "rbac-reader"]);
}

#[tokio::test]
async fn unknown_permissions_come_with_advice() {
    let stage = Stage::new("pod-tracker", "pod-tracker").await;
    let home = stage.namespace.name();

    let nothing_yet = stage.refused(&[]);
    assert!(
        nothing_yet.contains("\"pod-tracker\" has not used any permission yet")
            && nothing_yet.contains("let it reconcile")
    );

    let (code, _, unknown) = outcome(stage.host.run(&["rbac", "nobody", "-n", home]));
    assert_eq!(
        (code, unknown.trim_end()),
        (
            Some(1),
            format!(
                "error: Plugin \"nobody\" not found in namespace {home:?} (-n selects another one) (PluginNotFound)"
            )
            .as_str()
        )
    );

    let unreachable = stage.refused(&["--host", "127.0.0.1:1"]);
    assert!(
        unreachable.contains("failed to reach the host at 127.0.0.1:1")
            && unreachable.contains("port-forward")
    );

    stage.namespace.kubectl(&[
        "annotate",
        "serviceaccount",
        "pod-tracker",
        "operetta.dev/allow-plugins-",
    ]);
    stage
        .namespace
        .until_degraded("pod-tracker", "ConsentMissing", &["kubectl annotate"])
        .await;

    let refused = stage.refused(&[]);
    assert!(
        refused.contains("\"pod-tracker\" does not run") && refused.contains("kubectl annotate"),
        "{refused}"
    );

    stage.namespace.kubectl(&[
        "annotate",
        "serviceaccount",
        "pod-tracker",
        "operetta.dev/allow-plugins=pod-tracker",
    ]);
    stage
        .namespace
        .until_condition("pod-tracker", "Ready", "True", "Running")
        .await;

    stage.namespace.kubectl(&[
        "annotate",
        "configmap",
        "pod-tracker",
        "operetta.dev/suspend=true",
    ]);
    stage
        .namespace
        .until_condition("pod-tracker", "Ready", "False", "Suspended")
        .await;

    let suspended = stage.refused(&[]);
    assert!(
        suspended.contains("\"pod-tracker\" is suspended") && suspended.contains("spec.suspend"),
        "{suspended}"
    );
}
