//! What one process may use: connections, requests, time, memory.

use std::{sync::atomic::Ordering, time::Duration};

use bytes::Bytes;
use operetta_core::gate::bytes::ByteBudget;
use operetta_kube::endpoint::EndpointLimits;
use operetta_testkit::{eventually, throughout, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::stage::{Options, SOON, Stage, Stream, get, once, piece, request, response};

const WATCH: &str = "/api/v1/namespaces/team/configmaps?watch=true";

fn stage(limits: EndpointLimits) -> Stage {
    let options = Options {
        limits,
        ..Options::default()
    };
    Stage::with(options, |_| {
        Box::pin(async { response(200, "application/json", "{}") })
    })
}

#[tokio::test]
async fn connections_over_the_limit_are_refused_with_a_status() {
    let stage = stage(EndpointLimits {
        connections: 2,
        ..EndpointLimits::default()
    });
    let (first, second) = (stage.http1().await, stage.connect());
    let request = b"GET /version HTTP/1.1\r\nhost: k\r\n\r\n";
    let text = stage.send_bytes(request).await;
    assert!(
        text.starts_with("HTTP/1.1 429")
            && text.contains("\"kind\":\"Status\"")
            && text.contains("2 connections"),
        "{text}"
    );
    assert_eq!(stage.send_bytes(&[0x16, 3, 1]).await, "", "closed");
    assert_eq!(stage.endpoint.connections(), 2);

    drop((first, second));
    eventually("there is room again", async || {
        match stage.endpoint.connections() {
            0 => Ok(()),
            open => Err(format!("{open} are open")),
        }
    })
    .await;
    assert_eq!(stage.send(get("/version")).await.status(), 200);
}

#[tokio::test]
async fn requests_over_the_limit_are_refused_with_a_status() {
    let options = Options {
        limits: EndpointLimits {
            requests: 1,
            ..EndpointLimits::default()
        },
        ..Options::default()
    };
    let (stream, _events, _) = Stream::new();
    let stage = Stage::with(options, once(stream));
    let watch = stage.send(get(WATCH)).await;

    let refused = stage.send(get("/version")).await;
    assert_eq!(
        (
            refused.status().as_u16(),
            refused.headers()["retry-after"].to_str().ok()
        ),
        (429, Some("1"))
    );
    let (code, status) = stage.send_for_json(get("/version")).await;
    let message = status["message"].as_str().unwrap_or_default();
    assert!(
        code == 429 && message.contains("1 requests at once"),
        "{status}"
    );

    drop(watch);
    eventually("there is room again", async || {
        match stage.endpoint.requests() {
            0 => Ok(()),
            open => Err(format!("{open} are open")),
        }
    })
    .await;
    assert_eq!(stage.send(get("/version")).await.status(), 200);
}

#[tokio::test]
async fn head_that_does_not_come_closes_the_connection() {
    let stage = stage(EndpointLimits {
        head: Duration::from_millis(200),
        ..EndpointLimits::default()
    });
    for start in [
        &b"GET /version HTTP/1.1\r\nhost: k"[..],
        b"PRI *",
        &[0x16, 3, 1],
    ] {
        let mut slow = stage.connect();
        slow.write_all(start).await.expect("written");
        let end = tokio::time::timeout(SOON, slow.read_to_end(&mut Vec::new())).await;
        assert!(end.is_ok(), "{start:?}");
    }
}

#[tokio::test]
async fn idle_connection_is_closed_and_an_open_watch_is_not() {
    let options = Options {
        limits: EndpointLimits {
            idle: Duration::from_millis(300),
            ..EndpointLimits::default()
        },
        ..Options::default()
    };
    let (stream, events, _) = Stream::new();
    let stage = Stage::with(options, once(stream));
    let mut watch = stage.send(get(WATCH)).await.into_body();

    let mut unused = stage.connect();
    let mut used = stage.http1().await;
    let mut by_http2 = stage.http2().await;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        for status in [
            used.send_request(get("/version"))
                .await
                .expect("open")
                .status(),
            by_http2
                .send_request(get("/version"))
                .await
                .expect("open")
                .status(),
        ] {
            assert_eq!(status, 200);
        }
    }
    let end = tokio::time::timeout(SOON, unused.read_to_end(&mut Vec::new())).await;
    assert!(end.is_ok(), "nothing was sent");
    within(SOON, "idle connections are closed", async || {
        if used.is_closed() && by_http2.is_closed() {
            Ok(())
        } else {
            Err("open".to_owned())
        }
    })
    .await;

    assert_eq!(stage.endpoint.connections(), 1);
    events.send(Bytes::from_static(b"event")).expect("read");
    assert_eq!(
        piece(&mut watch).await.expect("open").expect("open"),
        "event"
    );
}

#[tokio::test]
async fn client_that_never_reads_its_watch_is_ended_and_bounded() {
    let limits = EndpointLimits {
        stall: Duration::from_millis(500),
        ..EndpointLimits::default()
    };
    for is_http2 in [false, true] {
        let options = Options {
            limits: limits.clone(),
            ..Options::default()
        };
        let (stream, events, watched) = Stream::new();
        for _ in 0..4_096 {
            events.send(Bytes::from(vec![b'x'; 4 << 10])).expect("room");
        }
        let stage = Stage::with(options, once(stream));

        let mut plain = stage.connect_by(4 << 10);
        let unread = if is_http2 {
            Some(
                stage
                    .http2()
                    .await
                    .send_request(get(WATCH))
                    .await
                    .expect("a response"),
            )
        } else {
            let head = format!("GET {WATCH} HTTP/1.1\r\nhost: k\r\n\r\n");
            plain.write_all(head.as_bytes()).await.expect("written");
            None
        };

        within(SOON, "the watch is given up", async || {
            if watched.is_dropped.load(Ordering::Acquire) {
                Ok(())
            } else {
                Err("it is open".to_owned())
            }
        })
        .await;
        // Of 16 MiB, what the buffers between the two hold; the client's own takes 2 MiB by HTTP/2.
        let taken = watched.taken.load(Ordering::Acquire);
        let limit = if is_http2 { 768 } else { 256 };
        assert!(taken < limit, "{taken} events of 4 KiB were read");

        if let Some(unread) = unread {
            let mut body = unread.into_body();
            let end = loop {
                match piece(&mut body).await {
                    Some(Ok(_)) => {}
                    end => break end,
                }
            };
            assert!(matches!(end, Some(Err(_))), "it has missed events: {end:?}");
        } else {
            within(SOON, "its connection is closed", async || {
                match stage.endpoint.connections() {
                    0 => Ok(()),
                    open => Err(format!("{open} are open")),
                }
            })
            .await;
        }
    }
}

#[tokio::test]
async fn client_that_reads_slowly_keeps_its_watch() {
    let options = Options {
        limits: EndpointLimits {
            stall: Duration::from_secs(1),
            ..EndpointLimits::default()
        },
        ..Options::default()
    };
    let (stream, events, watched) = Stream::new();
    for _ in 0..1024 {
        events
            .send(Bytes::from(vec![b'x'; 16 << 10]))
            .expect("room");
    }
    let stage = Stage::with(options, once(stream));
    let mut slow = stage.connect_by(16 << 10);
    let head = format!("GET {WATCH} HTTP/1.1\r\nhost: k\r\n\r\n");
    slow.write_all(head.as_bytes()).await.expect("written");
    let mut bytes = [0; 16 << 10];
    throughout(Duration::from_secs(2), "it is open", async || {
        let read = slow
            .read(&mut bytes)
            .await
            .map_err(|error| error.to_string())?;
        tokio::time::sleep(Duration::from_millis(50)).await;
        if read > 0 && !watched.is_dropped.load(Ordering::Acquire) {
            Ok(())
        } else {
            Err("closed".to_owned())
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_buffered_is_charged_to_the_namespace() {
    let memory = ByteBudget::new("namespace team", 300 << 10);
    let options = Options {
        memory: Some(memory.clone()),
        ..Options::default()
    };
    let (stream, events, _) = Stream::new();
    let stage = Stage::with(options, once(stream));
    let mut watch = stage.send(get(WATCH)).await.into_body();
    // Much more than there is room for goes through.
    for _ in 0..64 {
        events
            .send(Bytes::from(vec![b'x'; 16 << 10]))
            .expect("read");
        piece(&mut watch).await.expect("a piece").expect("a piece");
    }
    assert_eq!(memory.used(), 128 << 10, "a connection and a request");

    let (code, status) = stage
        .send_for_json(request(
            "PUT",
            "/api/v1/namespaces/team/configmaps/a",
            vec![b'x'; 200 << 10],
        ))
        .await;
    let message = status["message"].as_str().unwrap_or_default();
    assert!(
        code == 429 && message.contains("memory quota of namespace team"),
        "{status}"
    );

    drop((events, watch));
    eventually("all is given back", async || match memory.used() {
        0 => Ok(()),
        used => Err(format!("{used} bytes")),
    })
    .await;
}
