//! What passes: bodies and headers as they are, under the operator's account, and the gate's records.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use operetta_core::{
    authz::recorded_permissions::Names,
    gate::{in_flight::Seats, throttle::Throttle},
};
use operetta_testkit::eventually;
use tokio::sync::Semaphore;

use crate::stage::{
    Content, Options, Stage, Stream, get, header, once, piece, request, response, whole,
};

const CONFIG_MAPS: &str = "/api/v1/namespaces/team/configmaps";

/// Bytes that are no text in any encoding.
fn binary(length: usize) -> Bytes {
    let bytes = (0..length).map(|at| (at * 7 % 256) as u8);
    bytes.collect()
}

/// A response with headers that clients look at.
fn answered(status: u16, content_type: &str, body: Bytes) -> Response<Content> {
    let mut answered = response(status, content_type, body);
    for (name, value) in [
        ("audit-id", "a-1"),
        ("warning", "299 - \"v1 ConfigMap is old\""),
        ("retry-after", "7"),
        ("x-kubernetes-pf-flowschema-uid", "f-1"),
        ("connection", "keep-alive"),
        ("set-cookie", "of-the-host=1"),
    ] {
        answered
            .headers_mut()
            .append(name, value.parse().expect("a value"));
    }
    answered
}

#[tokio::test]
async fn bodies_pass_byte_for_byte_in_both_directions() {
    let cases = [
        (200, "application/vnd.kubernetes.protobuf", binary(300_000)),
        (201, "application/cbor", binary(3)),
        (200, "application/yaml", Bytes::from_static(b"a: 1\n")),
        (422, "application/vnd.kubernetes.protobuf", binary(99)),
        (429, "text/plain", Bytes::from_static(b"slow down")),
        (
            200,
            "application/json;as=Table;v=v1;g=meta.k8s.io",
            Bytes::from_static(b"{ \"kind\": \"Table\" }"),
        ),
    ];
    for (status, content_type, body) in cases {
        let stage = Stage::new({
            let body = body.clone();
            move |_| answered(status, content_type, body.clone())
        });
        let sent = || {
            let mut sent = request("PUT", &format!("{CONFIG_MAPS}/a?dryRun=All"), body.clone());
            sent.headers_mut()
                .insert("content-type", content_type.parse().expect("a type"));
            sent.headers_mut()
                .insert("authorization", "Bearer secret".parse().expect("a token"));
            sent
        };
        let by_http1 = stage.send(sent()).await;
        let mut sender = stage.http2().await;
        let by_http2 = sender.send_request(sent()).await.expect("a response");

        for response in [by_http1, by_http2] {
            let headers = response.headers().clone();
            assert_eq!(response.status(), status);
            assert_eq!(header(&headers, "content-type"), content_type);
            assert_eq!(header(&headers, "audit-id"), "a-1");
            assert_eq!(header(&headers, "retry-after"), "7");
            assert_eq!(header(&headers, "warning"), "299 - \"v1 ConfigMap is old\"");
            assert_eq!(header(&headers, "x-kubernetes-pf-flowschema-uid"), "f-1");
            assert!(!headers.contains_key("set-cookie"), "{headers:?}");
            assert_eq!(whole(response).await, body, "{content_type}");
        }
        let received = stage.received.lock();
        assert_eq!(received.len(), 2);
        for request in received.iter() {
            assert_eq!(request.body(), &body, "{content_type}");
            assert_eq!(
                request.uri(),
                format!("{CONFIG_MAPS}/a?dryRun=All").as_str()
            );
            assert_eq!(header(request.headers(), "content-type"), content_type);
            assert!(!request.headers().contains_key("authorization"));
        }
    }
}

#[tokio::test]
async fn compressed_answers_pass_compressed() {
    let stage = Stage::new(|request| {
        assert_eq!(header(request.headers(), "accept-encoding"), "gzip");
        let mut answer = response(200, "application/json", binary(500));
        answer
            .headers_mut()
            .insert("content-encoding", "gzip".parse().expect("an encoding"));
        answer
    });
    for method in ["GET", "PUT"] {
        let mut sent = request(method, &format!("{CONFIG_MAPS}/a"), "");
        sent.headers_mut()
            .insert("accept-encoding", "gzip".parse().expect("an encoding"));
        let answer = stage.send(sent).await;
        assert_eq!(header(answer.headers(), "content-encoding"), "gzip");
        assert_eq!(whole(answer).await, binary(500));
    }
}

#[tokio::test]
async fn requests_are_sent_as_the_account_and_writes_in_its_epoch() {
    let options = Options {
        epoch: Some("team/7".to_owned()),
        ..Options::default()
    };
    let stage = Stage::with(options, |_| {
        Box::pin(async { response(200, "application/json", "{}") })
    });
    for method in ["GET", "PATCH"] {
        let sent = stage
            .send(request(method, &format!("{CONFIG_MAPS}/a"), "{}"))
            .await;
        assert_eq!(sent.status(), 200);
    }

    let received = stage.received.lock();
    let epochs: Vec<_> = received
        .iter()
        .map(|request| {
            let user = header(request.headers(), "impersonate-user");
            assert_eq!(user, "system:serviceaccount:team:operator");
            header(request.headers(), "impersonate-extra-operetta.dev%2fepoch")
        })
        .collect();
    assert_eq!(epochs, ["", "team/7"]);
}

#[tokio::test]
async fn paths_outside_of_resources_pass_or_are_refused() {
    let stage = Stage::new(|_| response(200, "text/plain", "ok"));
    for path in [
        "/version",
        "/openapi/v2",
        "/openapi/v3",
        "/healthz",
        "/readyz",
        "/.well-known/openid-configuration",
        "/apis",
    ] {
        let answer = stage.send(get(path)).await;
        assert_eq!(
            (answer.status().as_u16(), &whole(answer).await[..]),
            (200, &b"ok"[..]),
            "{path}"
        );
    }
    let (code, status) = stage.send_for_json(get("/debug/pprof")).await;
    assert_eq!(
        (code, &status["kind"], &status["reason"]),
        (405, &"Status".into(), &"MethodNotAllowed".into())
    );

    assert_eq!(stage.received().len(), 7);
    let (kept, _) = stage.recorded.kept();
    let paths: Vec<_> = kept.needs.keys().map(|need| need.path.as_str()).collect();
    assert!(
        paths.contains(&"/version") && !paths.contains(&"/debug/*"),
        "{paths:?}"
    );
}

#[tokio::test]
async fn needed_permissions_and_denials_are_recorded() {
    let words = "configmaps is forbidden: User \"system:serviceaccount:team:operator\" cannot watch resource \"configmaps\" in API group \"\" in the namespace \"team\"";
    let stage = Stage::new(move |request| {
        if request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch"))
        {
            let status = serde_json::json!({"kind": "Status", "reason": "Forbidden", "message": words, "code": 403});
            return response(403, "application/json", status.to_string());
        }
        response(200, "application/json", "{}")
    });

    stage.send(get(&format!("{CONFIG_MAPS}/a"))).await;
    stage.send(get(CONFIG_MAPS)).await;
    let (code, status) = stage
        .send_for_json(get(&format!(
            "{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name%3Da"
        )))
        .await;
    assert_eq!((code, &status["message"]), (403, &words.into()));

    let (kept, _) = stage.recorded.kept();
    let needs: Vec<_> = kept
        .needs
        .iter()
        .map(|(need, names)| (need.verb.as_str(), need.resource.as_str(), names.clone()))
        .collect();
    let only_a = || Names::Only(["a".to_owned()].into());
    assert_eq!(
        needs,
        [
            ("get", "configmaps", only_a()),
            ("list", "configmaps", Names::Any),
            ("watch", "configmaps", only_a())
        ]
    );
    let refused = stage.refused.all();
    assert_eq!(refused.len(), 1, "{refused:?}");
}

#[tokio::test]
async fn writes_are_audited_even_if_their_client_is_gone() {
    let (is_asked, may_answer) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let stage = Stage::with(Options::default(), {
        let (is_asked, may_answer) = (is_asked.clone(), may_answer.clone());
        move |_| {
            let (is_asked, may_answer) = (is_asked.clone(), may_answer.clone());
            Box::pin(async move {
                is_asked.add_permits(1);
                may_answer.acquire().await.expect("open").forget();
                response(201, "application/json", "{}")
            })
        }
    });

    let mut sender = stage.http1().await;
    let sending = tokio::spawn(async move {
        sender
            .send_request(request("POST", CONFIG_MAPS, "{}"))
            .await
            .is_ok()
    });
    is_asked.acquire().await.expect("open").forget();
    sending.abort();
    eventually("the connection is closed", async || {
        match stage.endpoint.connections() {
            0 => Ok(()),
            open => Err(format!("{open} are open")),
        }
    })
    .await;
    assert!(stage.audited.all().is_empty());
    assert_eq!(stage.endpoint.requests(), 1, "it is still under way");

    may_answer.add_permits(1);
    eventually("the write is recorded", async || {
        let all = stage.audited.all();
        if all == [format!("create {CONFIG_MAPS} ok")] {
            Ok(())
        } else {
            Err(format!("{all:?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn large_answer_is_only_read_as_fast_as_its_client_reads() {
    const PIECES: usize = 4096;
    let taken = Arc::new(AtomicUsize::new(0));
    let stage = Stage::new({
        let taken = taken.clone();
        move |_| {
            let taken = taken.clone();
            let pieces = (0..PIECES).map(move |_| {
                taken.fetch_add(1, Ordering::AcqRel);
                Ok::<_, tower::BoxError>(http_body::Frame::data(Bytes::from(vec![b'x'; 16 << 10])))
            });
            let body = StreamBody::new(futures::stream::iter(pieces)).boxed_unsync();
            Response::builder().body(body).expect("a response")
        }
    });

    for is_http2 in [false, true] {
        let response = if is_http2 {
            let mut sender = stage.http2().await;
            sender
                .send_request(get(CONFIG_MAPS))
                .await
                .expect("a response")
        } else {
            stage.send(get(CONFIG_MAPS)).await
        };
        tokio::time::sleep(Duration::from_millis(300)).await;
        // Of 64 MiB, what the buffers of the pipe and of both sides hold.
        let early = taken.swap(0, Ordering::AcqRel);
        assert!((1..256).contains(&early), "{early} pieces were read");

        let mut body = response.into_body();
        let mut length = 0;
        while let Some(piece) = piece(&mut body).await {
            length += piece.expect("a piece").len();
        }
        assert_eq!(length, PIECES * (16 << 10));
        taken.store(0, Ordering::Release);
    }
}

#[tokio::test]
async fn events_of_a_watch_arrive_as_they_are_sent() {
    for is_http2 in [false, true] {
        let (stream, events, watched) = Stream::new();
        let stage = Stage::with(Options::default(), once(stream));
        let watch = get(&format!("{CONFIG_MAPS}?watch=true"));
        let response = if is_http2 {
            stage
                .http2()
                .await
                .send_request(watch)
                .await
                .expect("a response")
        } else {
            stage.send(watch).await
        };

        let mut body = response.into_body();
        for event in ["{\"type\":\"ADDED\"}\n", "{\"type\":\"BOOKMARK\"}\n"] {
            events
                .send(Bytes::from_static(event.as_bytes()))
                .expect("read");
            assert_eq!(
                piece(&mut body).await.expect("an event").expect("an event"),
                event
            );
        }
        drop(events);
        assert!(
            piece(&mut body).await.is_none(),
            "it ends when the API server ends it"
        );
        assert!(watched.is_dropped.load(Ordering::Acquire));
    }
}

#[tokio::test]
async fn watch_that_nobody_wants_any_more_is_given_up() {
    let (stream, _events, watched) = Stream::new();
    let stage = Stage::with(Options::default(), once(stream));
    let mut sender = stage.http2().await;
    let response = sender
        .send_request(get(&format!("{CONFIG_MAPS}?watch=true")))
        .await
        .expect("a response");
    drop(response);
    eventually("the watch is given up", async || {
        if watched.is_dropped.load(Ordering::Acquire) && stage.endpoint.requests() == 0 {
            Ok(())
        } else {
            Err("it is open".to_owned())
        }
    })
    .await;
}

#[tokio::test]
async fn open_watches_are_not_in_flight() {
    let options = Options {
        throttle: Throttle {
            in_flight: Some(Seats::new(4).flow(100, 1)),
            ..Throttle::default()
        },
        ..Options::default()
    };
    let (stream, events, _) = Stream::new();
    let stage = Stage::with(options, once(stream));
    let watch = stage.send(get(&format!("{CONFIG_MAPS}?watch=true"))).await;
    let (code, _) = stage.send_for_json(get(CONFIG_MAPS)).await;
    assert_eq!(code, 200, "beside the watch");
    drop((events, watch));
}

#[tokio::test]
async fn unread_answers_are_in_flight() {
    let options = Options {
        throttle: Throttle {
            in_flight: Some(Seats::new(4).flow(100, 1)),
            ..Throttle::default()
        },
        ..Options::default()
    };
    let (stream, pieces, _) = Stream::new();
    let stage = Stage::with(options, once(stream));
    let list = stage.send(get(CONFIG_MAPS)).await;
    let other = tokio::time::timeout(Duration::from_millis(300), stage.send(get(CONFIG_MAPS)));
    assert!(other.await.is_err(), "one is in flight");
    drop(pieces);
    assert!(whole(list).await.is_empty());
    assert_eq!(stage.send(get(CONFIG_MAPS)).await.status(), 200);
}

#[tokio::test]
async fn answer_that_breaks_off_is_no_whole_one() {
    for method in ["GET", "PUT"] {
        let stage = Stage::new(|_| {
            let pieces = [
                Ok(http_body::Frame::data(Bytes::from_static(b"{\"items\":["))),
                Err::<_, tower::BoxError>("reset by peer".into()),
            ];
            let body = StreamBody::new(futures::stream::iter(pieces)).boxed_unsync();
            Response::builder().body(body).expect("a response")
        });
        let response = stage
            .send(request(method, &format!("{CONFIG_MAPS}/a"), "{}"))
            .await;
        if method == "PUT" {
            assert_eq!(response.status(), 503, "its answer is read first");
            continue;
        }
        let mut body = response.into_body();
        let end = loop {
            match piece(&mut body).await {
                Some(Ok(_)) => {}
                end => break end,
            }
        };
        assert!(matches!(end, Some(Err(_))), "{end:?}");
    }
}

#[tokio::test]
async fn body_that_is_expected_is_asked_for() {
    let stage = Stage::new(|_| response(200, "application/json", "{}"));
    let text = stage
        .send_bytes(b"PUT /api/v1/namespaces/team/configmaps/a HTTP/1.1\r\nhost: k\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n{}")
        .await;
    assert!(
        text.starts_with("HTTP/1.1 100 Continue") && text.contains("HTTP/1.1 200 OK"),
        "{text}"
    );
}

#[tokio::test]
async fn denial_of_the_host_s_impersonation_is_worded_as_one_of_the_account() {
    let words = "serviceaccounts \"operator\" is forbidden: User \"host\" cannot impersonate resource \"serviceaccounts\" in API group \"\" in the namespace \"team\"";
    for content_type in ["application/json", "application/vnd.kubernetes.protobuf"] {
        let stage = Stage::new(move |_| {
            let status = serde_json::json!({"kind": "Status", "reason": "Forbidden", "message": words, "code": 403}).to_string();
            if content_type == "application/json" {
                return response(403, content_type, status);
            }
            response(403, content_type, protobuf_status(words))
        });
        let (code, status) = stage.send_for_json(get(CONFIG_MAPS)).await;
        let message = status["message"].as_str().unwrap_or_default();
        assert!(
            code == 403 && message.contains("operetta grant operator -n team"),
            "{status}"
        );
    }
}

/// A Status in Protobuf.
fn protobuf_status(message: &str) -> Bytes {
    let field = |number: u8, value: &[u8]| {
        let mut bytes = vec![number << 3 | 2];
        bytes.extend((value.len() >= 128).then_some((value.len() % 128) as u8 | 128));
        bytes.push(if value.len() >= 128 {
            (value.len() / 128) as u8
        } else {
            value.len() as u8
        });
        bytes.extend_from_slice(value);
        bytes
    };
    let status = [field(3, message.as_bytes()), field(4, b"Forbidden")].concat();
    let type_meta = [field(1, b"v1"), field(2, b"Status")].concat();
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, &status)]
        .concat()
        .into()
}

#[tokio::test]
async fn logs_are_streams() {
    let (stream, lines, _) = Stream::new();
    let stage = Stage::with(Options::default(), once(stream));
    let response = stage
        .send(get("/api/v1/namespaces/team/pods/a/log?follow=true"))
        .await;
    let mut body = response.into_body();
    for line in ["one\n", "two\n"] {
        lines
            .send(Bytes::from_static(line.as_bytes()))
            .expect("read");
        assert_eq!(
            piece(&mut body).await.expect("a line").expect("a line"),
            line
        );
    }
    let (kept, _) = stage.recorded.kept();
    assert!(
        kept.needs
            .keys()
            .any(|need| need.resource == "pods/log" && need.verb == "get")
    );
}

#[tokio::test]
async fn answer_without_a_body_has_none() {
    for status in [204, 304] {
        let stage = Stage::new(move |_| {
            Response::builder()
                .status(status)
                .header("etag", "\"1\"")
                .body(crate::stage::content(Full::default()))
                .expect("a response")
        });
        let request: Request<Full<Bytes>> = get("/openapi/v3");
        let response = stage.send(request).await;
        assert_eq!(
            (
                response.status().as_u16(),
                header(response.headers(), "etag")
            ),
            (status, "\"1\"")
        );
        assert!(whole(response).await.is_empty());
    }
}
