//! The endpoints for users on a real API server: what a token of the cluster opens, and what it
//! does not.

use std::time::Duration;

use operetta_testkit::{
    ControlPlane, DropIn, Host, HostOptions, TestNamespace, guest, https, kinds,
};
use serde_json::json;
use tokio::{net::TcpStream, time::timeout};

/// A namespace in which the plugin `touch` runs and has logged.
async fn stage(control_plane: &'static ControlPlane, prefix: &str) -> TestNamespace<'static> {
    let namespace = control_plane.namespace(prefix).await;
    namespace.allow_all("plugin").await;
    namespace.create_touchable("target").await;
    namespace
        .drop_in(&DropIn::new("touch", guest("fixture-touch-v1")))
        .await;
    namespace.until_touched("target", "v1").await;
    namespace
}

/// A host with all of its endpoints.
async fn open_host(control_plane: &ControlPlane) -> Host {
    let config =
        "{healthAddress: '127.0.0.1:0', secureEndpoints: {address: '127.0.0.1:0'}}".to_owned();
    let options = HostOptions {
        config,
        ..HostOptions::default()
    };
    Host::start(control_plane, &options).await
}

#[tokio::test]
async fn endpoints_open_to_whom_the_api_server_authorizes() {
    let control_plane = ControlPlane::shared().await;
    let host = open_host(control_plane).await;
    let secure = host.logged("secure").expect("an address");
    let own = stage(control_plane, "reader").await;
    let other = stage(control_plane, "other").await;

    own.kubectl(&["create", "serviceaccount", "reader"]);
    let token = own
        .kubectl(&["create", "token", "reader"])
        .trim()
        .to_owned();

    let log_of = |namespace: &TestNamespace<'_>| format!("/logs/{}/touch", namespace.name());
    let authorization = format!("Bearer {token}");
    let get =
        async |path: &str| https::get(&secure, path, &[("authorization", &authorization)]).await;

    let (status, text) = get(&log_of(&own)).await;
    let words = format!(
        "User \"system:serviceaccount:{}:reader\" cannot get resource \"plugins/log\"",
        own.name()
    );
    assert!(
        status == 403 && text.contains(&words),
        "before it was allowed: {status} {text}"
    );

    own.kubectl(&[
        "create",
        "role",
        "reader",
        "--verb=get",
        "--resource=plugins.operetta.dev/log",
    ]);
    let account = format!("--serviceaccount={}:reader", own.name());
    own.kubectl(&["create", "rolebinding", "reader", "--role=reader", &account]);
    // A decision is kept for ten seconds.
    operetta_testkit::eventually("the change of the role", async || {
        match get(&log_of(&own)).await {
            (200, text) if text.contains("\"message\"") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    for path in [
        log_of(&other),
        "/metrics".to_owned(),
        "/informers".to_owned(),
    ] {
        let (status, text) = get(&path).await;
        assert!(
            status == 403 && !text.contains("\"message\""),
            "{path}: {status} {text}"
        );
    }

    // A log that is followed ends with the right to read it.
    let followed = format!("{}?follow=true", log_of(&own));
    let reads = get(&followed);
    let revokes = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        own.kubectl(&["delete", "rolebinding", "reader"]);
    };
    let both = async { tokio::join!(reads, revokes).0 };
    let (status, text) = timeout(Duration::from_secs(60), both)
        .await
        .expect("the log ends");
    assert!(
        status == 200 && text.contains("\"message\""),
        "{status} {text}"
    );
    own.kubectl(&["create", "rolebinding", "reader", "--role=reader", &account]);
    operetta_testkit::eventually("the right is back", async || {
        match get(&log_of(&own)).await {
            (200, _) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;

    // The API server removes the usual header from what it forwards to a Service.
    let forwarded = https::get(
        &secure,
        &log_of(&own),
        &[("x-operetta-authorization", &authorization)],
    )
    .await;
    assert_eq!(forwarded.0, 200, "{}", forwarded.1);

    for headers in [
        vec![],
        vec![("authorization", "Bearer no-token")],
        vec![("authorization", "Basic YTpi")],
    ] {
        let (status, text) = https::get(&secure, &log_of(&own), &headers).await;
        assert!(
            status == 401 && text.contains("token"),
            "{headers:?}: {status} {text}"
        );
    }

    // Only a user who may read a log is told what is wrong with the path to one.
    assert_eq!(get("/logs/nowhere/touch").await.0, 403);

    control_plane.kubectl(&[
        "create",
        "clusterrole",
        "scraper",
        "--verb=get",
        "--non-resource-url=/metrics",
    ]);

    control_plane.kubectl(&[
        "create",
        "clusterrolebinding",
        "scraper",
        "--clusterrole=scraper",
        &account,
    ]);
    operetta_testkit::eventually("the metrics", async || match get("/metrics").await {
        (200, text) if text.contains("controller_runtime_reconcile_total") => Ok(()),
        (status, text) => Err(format!("{status} {text}")),
    })
    .await;

    let health = host.logged("health").expect("an address");
    for (path, status) in [
        ("/livez", 200),
        ("/healthz", 200),
        ("/readyz", 200),
        ("/metrics", 404),
        ("/informers", 404),
    ] {
        assert_eq!(https::get_plain(&health, path).await.0, status, "{path}");
    }

    explanation_names_only_what_the_user_may_get(control_plane, &secure).await;
    host.assert_sound();
}

/// Checks that an explanation names only what the user may get. It uses the host of the other test,
/// because two hosts of one cluster would share the Plugins.
async fn explanation_names_only_what_the_user_may_get(
    control_plane: &'static ControlPlane,
    secure: &str,
) {
    let own = stage(control_plane, "asker").await;
    own.kubectl(&["create", "serviceaccount", "asker"]);
    let token = own.kubectl(&["create", "token", "asker"]).trim().to_owned();
    let authorization = format!("Bearer {token}");
    let get =
        async |path: &str| https::get(secure, path, &[("authorization", &authorization)]).await;

    let path = format!("/why/core/v1/configmaps/{}/target", own.name());
    let reconciles = format!("/reconciles/{}/touch", own.name());

    for path in [&path, &reconciles] {
        let (status, text) = get(path).await;
        assert!(
            status == 403 && text.contains("cannot get resource") && !text.contains("touch-"),
            "{status} {text}"
        );
        assert_eq!(https::get(secure, path, &[]).await.0, 401);
    }
    let account = format!("--serviceaccount={}:asker", own.name());
    let allow = |role: &str, resource: &str| {
        own.kubectl(&["create", "role", role, "--verb=get", "--resource", resource]);
        own.kubectl(&["create", "rolebinding", role, "--role", role, &account]);
    };

    allow("objects", "configmaps");
    let hidden =
        operetta_testkit::eventually("the permission on the object", async || {
            match get(&path).await {
                (200, text) if text.contains("hiddenPlugin") => Ok(text),
                other => Err(format!("{other:?}")),
            }
        })
        .await;

    for word in ["/touch\"", "sha256", "serviceAccount", "reconcile"] {
        assert!(!hidden.contains(word), "{word} in {hidden}");
    }
    assert!(!hidden.contains("\"hidden\":0"), "{hidden}");

    allow("plugins", "plugins.operetta.dev");
    let shown = operetta_testkit::eventually("the permission on the Plugin", async || {
        match get(&path).await {
            (200, text) if !text.contains("hiddenPlugin") => Ok(text),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert!(
        shown.contains(&format!("{}/touch", own.name())) && shown.contains("sha256:"),
        "{shown}"
    );

    let (status, text) = get(&reconciles).await;
    assert!(
        status == 200 && text.contains("ConfigMap"),
        "{status} {text}"
    );

    // A plugin that reads a Secret elsewhere before it writes.
    let name = own.name();
    let elsewhere = "/api/v1/namespaces/kube-system/secrets/treasure";
    let written = format!("/api/v1/namespaces/{name}/configmaps/written");
    let requests = json!([
        {"method": "GET", "path": elsewhere},
        {
            "method": "PATCH", "path": written, "contentType": "application/merge-patch+json",
            "body": r#"{"data":{"number":"1"}}"#,
        },
        {"method": "GET", "path": elsewhere},
    ]);
    own.create_object(kinds::CONFIG_MAP, json!({"metadata": {"name": "written"}}))
        .await;
    let reads = DropIn::new("reads", guest("fixture-misbehave"));
    own.drop_in(&reads.config(json!({"do": "send", "requests": requests})))
        .await;

    let path = format!("/why/core/v1/configmaps/{name}/written");
    let shown =
        operetta_testkit::eventually("the write is explained", async || match get(&path).await {
            (200, text) if text.contains(&format!("{name}/reads")) => Ok(text),
            other => Err(format!("{other:?}")),
        })
        .await;
    assert!(
        !shown.contains("treasure") && !shown.contains("\"hidden\":0"),
        "{shown}"
    );
    let facts = get(&path.replace("/why/", "/facts/")).await.1;
    assert!(
        facts.contains("reads") && !facts.contains("treasure"),
        "{facts}"
    );
}

#[tokio::test]
async fn address_with_many_idle_connections_shuts_nobody_out() {
    let control_plane = ControlPlane::shared().await;
    let host = open_host(control_plane).await;
    let secure = host.logged("secure").expect("an address");
    let health = host.logged("health").expect("an address");

    for (address, limit) in [(&secure, 64), (&health, 16)] {
        // Eight more than one address may have.
        let mut idle = Vec::new();
        for _ in 0..limit + 8 {
            idle.push(TcpStream::connect(address).await.expect("connected"));
        }

        // A busy host takes its time to accept the last one, and may accept some in another order.
        let closed = operetta_testkit::eventually("connections are closed", async || {
            match idle.iter().filter(|idle| is_closed(idle)).count() {
                closed @ 0..8 => Err(format!("{address}: {closed} closed")),
                closed => Ok(closed),
            }
        });
        assert_eq!(closed.await, 8, "{address}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let closed = idle.iter().filter(|idle| is_closed(idle)).count();
        assert_eq!(
            closed, 8,
            "{address}: connections within the limit are closed"
        );

        if *address == secure {
            // Nobody knows the request, but somebody answers.
            assert_eq!(https::get(&secure, "/metrics", &[]).await.0, 401);
        } else {
            assert_eq!(https::get_plain(&health, "/livez").await.0, 200);
        }
        drop(idle);
    }
    host.assert_sound();
}

/// Reports whether the host has closed a connection on which it sends nothing.
fn is_closed(connection: &TcpStream) -> bool {
    let read = connection.try_read(&mut [0; 1]);
    !read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}
