//! The proxy itself: that what it says goes wrong is what a client meets.

use std::{io::ErrorKind, time::Duration};

use kube::Client;
use operetta_kube::client::connect::connect;
use operetta_testkit::{Ask, ControlPlane, Fault, FaultProxy, eventually, kinds as of_kind};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};

async fn client(proxy: &FaultProxy) -> Client {
    connect(Some(proxy.kubeconfig()), None)
        .await
        .expect("a client")
}

/// Status, and the body or why there is none.
async fn get(client: &Client, path: &str) -> Result<(u16, String), String> {
    let request = http::Request::get(path)
        .body(kube::client::Body::empty())
        .expect("a request");
    let answer = client
        .send(request)
        .await
        .map_err(|error| format!("no head: {error:?}"))?;
    let code = answer.status().as_u16();
    let body = http_body_util::BodyExt::collect(answer.into_body()).await;
    let body = body
        .map_err(|error| format!("no body: {error:?}"))?
        .to_bytes();
    let body = String::from_utf8_lossy(&body).into_owned();
    // Others write meanwhile.
    let at = body.find("\"resourceVersion\":").unwrap_or(body.len());
    let end = body[at..].find('}').map_or(body.len(), |end| at + end);
    Ok((code, format!("{}{}", &body[..at], &body[end..])))
}

#[tokio::test]
async fn each_fault_affects_one_answer() {
    let control_plane = ControlPlane::shared().await;
    let namespace = control_plane.namespace("proxy").await;
    let proxy = FaultProxy::start(control_plane).await;
    let client = client(&proxy).await;
    let path = format!("/api/v1/namespaces/{}/configmaps", namespace.name());
    let good = get(&client, &path).await.expect("an answer");
    assert_eq!(
        (good.0, good.1.contains("\"items\":[]")),
        (200, true),
        "{good:?}"
    );
    let slow = Fault::Slow {
        bytes: 7,
        every: Duration::from_millis(1),
    };
    for (fault, expected) in [
        (Fault::CloseBeforeHead, Err("no head")),
        (Fault::CloseAfterHead, Err("no body")),
        (Fault::Cut { after: 20 }, Err("no body")),
        (Fault::status(409), Ok((409, "Conflict"))),
        (
            Fault::Status {
                code: 429,
                retry_after: Some(1),
            },
            Ok((429, "TooManyRequests")),
        ),
        (Fault::status(503), Ok((503, "ServiceUnavailable"))),
        (Fault::Html { code: 200 }, Ok((200, "<html>"))),
        (Fault::NullItems, Ok((200, "\"items\":null"))),
        (
            Fault::Delay(Duration::from_millis(5)),
            Ok((200, good.1.as_str())),
        ),
        (Fault::ConnectionClose, Ok((200, good.1.as_str()))),
        (slow, Ok((200, good.1.as_str()))),
    ] {
        proxy.next(Ask::Sync, fault.clone());
        match (get(&client, &path).await, expected) {
            (Ok((code, body)), Ok((wanted, text))) => {
                assert!(
                    code == wanted && body.contains(text),
                    "{fault:?}: {code} {body}"
                );
            }
            (Err(error), Err(wanted)) => assert!(error.contains(wanted), "{fault:?}: {error}"),
            (met, expected) => panic!("{fault:?}: {met:?}, not {expected:?}"),
        }
        assert_eq!(
            get(&client, &path).await.as_ref(),
            Ok(&good),
            "after {fault:?}"
        );
    }
    for stall in [Fault::StallBeforeHead, Fault::Stall { after: 20 }] {
        proxy.next(Ask::Sync, stall.clone());
        let met = timeout(Duration::from_millis(300), get(&client, &path)).await;
        assert!(met.is_err(), "{stall:?}: {met:?}");
    }
    proxy.outage();
    assert!(
        get(&client, &path)
            .await
            .expect_err("no connection")
            .contains("no head")
    );
    proxy.restore();
    assert_eq!(get(&client, &path).await, Ok(good));
}

#[tokio::test]
async fn refused_connections_are_accepted_again_at_the_same_port() {
    let control_plane = ControlPlane::shared().await;
    let proxy = FaultProxy::start(control_plane).await;
    let client = client(&proxy).await;
    get(&client, "/version").await.expect("a connection");

    for end in [FaultProxy::restore, FaultProxy::heal] {
        proxy.refuse();
        let refused = async || match TcpStream::connect(proxy.address()).await {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
            other => Err(format!("{other:?}")),
        };
        eventually("the port is closed", refused).await;
        get(&client, "/version").await.expect_err("no connection");

        end(&proxy);
        eventually("the port is open", async || {
            get(&client, "/version").await.map(drop)
        })
        .await;
    }
}

#[tokio::test]
async fn writes_go_through_and_streams_flow() {
    let control_plane = ControlPlane::shared().await;
    let namespace = control_plane.namespace("proxy").await;
    let proxy = FaultProxy::start(control_plane).await;
    let client = client(&proxy).await;
    let path = format!("/api/v1/namespaces/{}/configmaps", namespace.name());
    let large = "x".repeat(700_000);
    let made = json!({"metadata": {"name": "a"}, "data": {"large": large}});
    let request = http::Request::post(&path).header("content-type", "application/json");
    let made: Value = client
        .request(
            request
                .body(made.to_string().into_bytes())
                .expect("a request"),
        )
        .await
        .expect("made");
    let kept = namespace
        .get(of_kind::CONFIG_MAP, "a")
        .await
        .expect("it exists");
    assert_eq!(
        (&kept["data"]["large"], &kept["metadata"]["uid"]),
        (&json!(large), &made["metadata"]["uid"])
    );
    // A watch brings what is there at once, though its response does not end.
    let request = http::Request::get(format!("{path}?watch=1&timeoutSeconds=60"))
        .body(Vec::new())
        .expect("a request");
    let watch = client.request_stream(request).await.expect("a watch");
    let mut line = String::new();
    let mut watch = std::pin::pin!(watch);
    let read = futures::AsyncBufReadExt::read_line(&mut watch, &mut line);
    timeout(Duration::from_secs(60), read)
        .await
        .expect("in time")
        .expect("a line");
    assert!(line.starts_with(r#"{"type":"ADDED""#), "{}", &line[..100]);
    assert_eq!(
        (
            proxy.count(Ask::Sync),
            proxy.count(Ask::Watch),
            proxy.asked().len()
        ),
        (0, 1, 2)
    );
}
