//! What keeps a host from its work is named within two seconds, in its log and in /readyz: refused
//! credentials, missing permissions, an API server that is away or is not the configured one, and a
//! full cache disk.
//!
//! It is a file of its own because its tests have control planes of their own.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::ByteString;
use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, eventually, guest, tls_server, within,
};
use serde_json::json;

/// The longest time until a failure is named.
const NAMED: Duration = Duration::from_secs(2);

/// A host and what it says about a failure.
async fn until_named(host: &Host, check: &str, words: &[&str]) -> String {
    within(NAMED, &format!("{check} is named"), async || {
        let answer = host.readiness();
        let line = answer
            .lines()
            .find(|line| line.starts_with(&format!("[-]{check} failed: ")))
            .unwrap_or_default();
        let log = host.log();
        let logged = log.lines().any(|entry| {
            entry.contains("readyz check failed: ") && words.iter().all(|word| entry.contains(word))
        });
        match words.iter().all(|word| line.contains(word)) && logged {
            true => {
                println!("{line}");
                Ok(line.to_owned())
            }
            false => Err(format!("{answer}\n{log}")),
        }
    })
    .await
}

/// Writes a kubeconfig for a server that this authority has certified.
fn kubeconfig(folder: &Path, server: SocketAddr, authority: &str) -> PathBuf {
    let path = folder.join(format!("kubeconfig-{}", server.port()));
    let certificate = authority.as_bytes().to_vec();
    let cluster = json!({"server": format!("https://{server}"), "certificate-authority-data": ByteString(certificate)});

    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    });
    std::fs::write(&path, config.to_string()).expect("written");
    path
}

async fn spawn(control_plane: &ControlPlane, options: &HostOptions) -> Host {
    let mut host = Host::spawn(control_plane, options);
    host.until_listening().await;
    host
}

async fn spawn_with(control_plane: &ControlPlane, kubeconfig: PathBuf) -> Host {
    spawn(
        control_plane,
        &HostOptions {
            kubeconfig: Some(kubeconfig),
            ..HostOptions::default()
        },
    )
    .await
}

#[tokio::test]
async fn each_failure_of_the_connection_is_named_in_time() {
    let control_plane = ControlPlane::shared().await;
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();

    // Nobody listens.
    let other = tls_server::serve(false);
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .expect("a port")
        .local_addr()
        .expect("an address");

    let host = spawn_with(control_plane, kubeconfig(folder, nobody, &other.authority)).await;
    until_named(
        &host,
        "api-server",
        &["refuses the connection", "is it running"],
    )
    .await;

    // A server whose certificate another authority has signed, and one whose certificate has
    // expired.
    let strange = tls_server::serve(false);
    let host = spawn_with(
        control_plane,
        kubeconfig(folder, strange.address, &other.authority),
    )
    .await;
    until_named(&host, "api-server", &["wrong CA"]).await;

    let expired = tls_server::serve(true);
    let host = spawn_with(
        control_plane,
        kubeconfig(folder, expired.address, &expired.authority),
    )
    .await;
    until_named(&host, "api-server", &["certificate has expired"]).await;

    // A token that the API server does not know, and one without permissions.
    let namespace = control_plane.namespace("nobody").await;
    let real = control_plane.kubeconfig_of(namespace.name(), "plugin");
    let host = spawn_with(control_plane, real.clone()).await;
    until_named(
        &host,
        "api-server",
        &["403 Forbidden", "leases", "deploy/rbac"],
    )
    .await;

    let text = std::fs::read_to_string(&real).expect("a kubeconfig");
    let wrong = folder.join("kubeconfig-401");
    let lines = text.lines().map(|line| match line.split_once("token: ") {
        Some((indent, _)) => format!("{indent}token: wrong\n"),
        None => format!("{line}\n"),
    });
    std::fs::write(&wrong, lines.collect::<String>()).expect("written");
    let host = spawn_with(control_plane, wrong).await;
    let line = until_named(&host, "api-server", &["401 Unauthorized", "token"]).await;
    assert!(
        host.readiness().ends_with("readyz check failed\n"),
        "{line}"
    );
}

#[tokio::test]
async fn missing_namespace_of_the_host_is_named_in_time() {
    let control_plane = ControlPlane::shared().await;
    let namespace = control_plane.namespace("reader").await;
    control_plane.kubectl(&[
        "create",
        "clusterrolebinding",
        namespace.name(),
        "--clusterrole=cluster-admin",
        &format!("--serviceaccount={}:plugin", namespace.name()),
    ]);

    // Only with all rights is it the namespace that is missing, and not a Role in it.
    let host = spawn(
        control_plane,
        &HostOptions {
            config: "namespace: nowhere".to_owned(),
            kubeconfig: Some(control_plane.kubeconfig_of(namespace.name(), "plugin")),
            ..HostOptions::default()
        },
    )
    .await;
    until_named(&host, "api-server", &["create namespace nowhere"]).await;

    // And it asks once a second, not as often as it can.
    let asked = || {
        let labels = ["code=\"404\"", "method=\"POST\""];
        host.metric("rest_client_requests_total", &labels)
    };
    let before = asked();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let requests = asked() - before;
    assert!(
        requests < 20.0,
        "{requests} requests to create a Lease in 3 s"
    );
}

#[tokio::test]
async fn host_exits_if_the_api_server_is_too_old() {
    let control_plane = ControlPlane::shared().await;
    let folder = tempfile::tempdir().expect("a folder");
    let old = tls_server::serve_version("29");
    let kubeconfig = kubeconfig(folder.path(), old.address, &old.authority);

    let options = HostOptions {
        kubeconfig: Some(kubeconfig),
        ..HostOptions::default()
    };

    let host = Host::spawn(control_plane, &options);
    assert_eq!(host.ended().await.code(), Some(1), "{}", host.log());
    let said = "error: the API server is Kubernetes v1.29.3, and 1.30 or later is needed (APIServerTooOld)";
    assert!(
        host.log().lines().last().is_some_and(|line| line == said),
        "{}",
        host.log()
    );
}

#[tokio::test]
async fn api_server_that_goes_away_is_named_until_it_is_back() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let host = Host::start(&control_plane, &HostOptions::default()).await;
    assert!(
        host.readiness().contains("[+]api-server ok\n[+]lease ok\n"),
        "{}",
        host.readiness()
    );

    control_plane.kill_apiserver();
    until_named(&host, "api-server", &["API server"]).await;
    control_plane.wait_ready().await;
    let _host = host.when_ready().await;
}

#[tokio::test]
async fn host_whose_epoch_was_ended_exits() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let host = Host::start(&control_plane, &HostOptions::default()).await;

    let members = r#"{"metadata": {"annotations": {"operetta.dev/members": ""}}}"#;
    control_plane.kubectl(&[
        "patch",
        "lease",
        "operetta",
        "-n",
        "operetta-system",
        "--type=merge",
        "-p",
        members,
    ]);

    eventually("it ends", async || {
        let log = host.log();
        let said = "error: lost the membership in Lease operetta-system/operetta: another replica has ended its epoch";
        if log.contains(said) { Ok(()) } else { Err(log) }
    })
    .await;
    assert!(!host.ended().await.success());
}

#[tokio::test]
async fn plugin_runs_from_memory_when_the_cache_disk_is_full() {
    let control_plane = ControlPlane::start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let options = HostOptions {
        compiles_anew: true,
        cache_disk_kb: Some(128),
        ..HostOptions::default()
    };

    let host = spawn(&control_plane, &options).await.when_ready().await;
    let namespace = control_plane.namespace("full").await;
    namespace.allow_all("plugin").await;
    namespace.create_touchable("target").await;

    namespace
        .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
        .await;
    namespace.until_touched("target", "v1").await;
    namespace
        .until_condition("touch", "Ready", "True", "Running")
        .await;

    until_named(&host, "code-cache", &["cannot be kept", "runs from memory"]).await;
    assert!(
        host.readiness().ends_with("readyz check passed\n"),
        "{}",
        host.readiness()
    );
    assert!(
        host.metric("operetta_plugin_code_total", &["origin=\"worker\""]) == 1.0,
        "compiled once: {}",
        host.metrics()
    );
}
