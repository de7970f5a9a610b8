//! The examples do what their originals do, on a real control plane: API server, controllers,
//! scheduler, and kwok, which makes Pods ready without running them.

/// The tests of an operator, once for each language it is written in: `in_each_language!(rust:
/// "app-rust"; test, test)`.
macro_rules! in_each_language {
    ($($language:ident: $component:literal),+; $tests:tt) => {
        $(in_each_language!(@one $language: $component; $tests);)+
    };
    (@one $language:ident: $component:literal; ($($test:ident),+ $(,)?)) => {
        mod $language {
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test($component).await;
                }
            )+
        }
    };
}

mod app_service;
mod cloud_manager;
mod guides;
mod k8s_types;
mod multi_tenant;
mod page;
mod pod_tracker;
mod rbac;
mod sample_controller;
mod why;

use std::time::Duration;

use operetta_testkit::{
    ControlPlane, Host, HostOptions, Kind, TestNamespace, eventually, plugin_path, within,
};
use tokio::sync::OnceCell;

/// The host of this test program.
async fn host() -> &'static Host {
    static HOST: OnceCell<Host> = OnceCell::const_new();
    let start = async || {
        let control_plane = ControlPlane::with_controllers().await;
        Host::shared(control_plane, &HostOptions::default()).await
    };
    HOST.get_or_init(start).await
}

/// The host, and a namespace where an example is installed as its README says: its CRD, its RBAC,
/// and what `operetta bundle` makes of a component, which is `target/plugins/COMPONENT.wasm`.
async fn installed(example: &str, component: &str) -> (&'static Host, TestNamespace<'static>) {
    let host = host().await;
    let control_plane = ControlPlane::with_controllers().await;
    let namespace = control_plane.namespace(component).await;
    let folder = "../examples".to_owned() + &format!("/{example}");
    let crd = format!("{folder}/crd.yaml");

    if std::fs::exists(&crd).is_ok_and(|exists| exists) {
        control_plane.apply(&std::fs::read_to_string(&crd).expect("a CRD"));
    }

    namespace.kubectl(&["apply", "-f", &format!("{folder}/rbac.yaml")]);
    install(host, &namespace, component, example).await;
    (host, namespace)
}

/// Installs what `operetta bundle` makes of a component as a plugin whose ServiceAccount has its
/// name, and waits until it runs.
async fn install(host: &Host, namespace: &TestNamespace<'_>, component: &str, plugin: &str) {
    let component = plugin_path(component);
    let component = component.to_str().expect("a path");

    let bundle = host.run(&[
        "bundle",
        component,
        "-n",
        namespace.name(),
        "--name",
        plugin,
        "--service-account",
        plugin,
    ]);
    assert!(bundle.status.success(), "{bundle:?}");

    namespace
        .control_plane()
        .apply(&String::from_utf8_lossy(&bundle.stdout));

    // Without it no Pod is admitted.
    namespace
        .until(Kind("v1", "ServiceAccount"), "default", |_| Ok(()))
        .await;

    // Large components take a while to compile, and tests compile several at once.
    within(
        Duration::from_secs(300),
        &format!("{plugin} runs"),
        async || {
            let ready = namespace.plugin_condition(plugin, "Ready").await;
            if ready.as_ref().is_some_and(|ready| ready.status == "True") {
                Ok(())
            } else {
                Err(format!("{ready:?}"))
            }
        },
    )
    .await;
}

/// Waits until an object's field, by its JSON pointer, has a value.
async fn until_field(
    namespace: &TestNamespace<'_>,
    kind: Kind,
    name: &str,
    pointer: &str,
    wanted: serde_json::Value,
) {
    let look = |found: &serde_json::Value| match found.pointer(pointer) {
        Some(now) if *now == wanted => Ok(()),
        now => Err(format!("{pointer} is {now:?}, not {wanted}")),
    };
    namespace.until(kind, name, look).await;
}

/// Deletes an object and waits until another one has its name.
async fn delete_until_back(namespace: &TestNamespace<'_>, kind: Kind, name: &str) {
    let before = namespace.get(kind, name).await.expect("there")["metadata"]["uid"].clone();
    namespace.delete(kind, name).await;
    eventually(
        &format!("{} {name} is there again", kind.1),
        async || match namespace.get(kind, name).await {
            Some(now) if now["metadata"]["uid"] != before => Ok(()),
            now => Err(format!("{:?}", now.map(|now| now["metadata"].clone()))),
        },
    )
    .await;
}

/// Checks in the API server's audit log that the plugin of a namespace has stopped writing.
async fn comes_to_rest(namespace: &TestNamespace<'_>) {
    let quiet = Duration::from_secs(2);
    eventually("two seconds without a write", async || {
        let count = || {
            namespace
                .control_plane()
                .audit()
                .writes_in(namespace.name())
                .count()
        };
        let before = count();
        tokio::time::sleep(quiet).await;
        let after = count();
        if before == after {
            Ok(())
        } else {
            Err(format!("{} writes in {quiet:?}", after - before))
        }
    })
    .await;
}
