//! Bytes that are no request, and requests that are none of an operator's business. Each is answered
//! with a Status that names it, or its connection is closed; none reaches the API server.

use std::time::Duration;

use operetta_kube::endpoint::EndpointLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::stage::{Options, SOON, Stage, get, request, response};

fn stage() -> Stage {
    let options = Options {
        limits: EndpointLimits {
            head: Duration::from_millis(200),
            body: Duration::from_millis(300),
            ..EndpointLimits::default()
        },
        ..Options::default()
    };
    Stage::with(options, |_| {
        Box::pin(async { response(200, "application/json", "{}") })
    })
}

/// The endpoint still serves, and nothing but this request has reached the API server.
async fn assert_sound(stage: &Stage, after: &str) {
    let answer = stage.send(get("/version")).await;
    assert_eq!(answer.status(), 200, "after {after}");
    assert_eq!(stage.received(), ["GET /version"], "after {after}");
    stage.received.lock().clear();
}

#[tokio::test]
async fn bytes_that_are_no_request_close_the_connection() {
    let stage = stage();
    let endless = format!("GET /version HTTP/1.1\r\nx: {}", "y".repeat(1 << 20));
    let many = format!("GET /version HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(200));
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    let cases: &[(&str, &[u8], &[&str])] = &[
        ("garbage", b"GARBAGE\r\n\r\n", &["HTTP/1.1 400"]),
        ("zeros", &[0; 64], &["HTTP/1.1 400"]),
        (
            "another protocol",
            b"SSH-2.0-OpenSSH_9.9\r\n",
            &["HTTP/1.1 400", ""],
        ),
        ("half of TLS", &[0x16, 3, 1, 0xff, 0xff, 0, 0], &[""]),
        ("no TLS", &[0x16; 512], &[""]),
        ("half of HTTP/2", b"PRI * HTTP/2.0\r\n", &[""]),
        (
            "no HTTP/2",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            &[""],
        ),
        ("half a request", b"GET /version HTTP/1.1\r\nhost: k", &[""]),
        ("an endless header", endless.as_bytes(), &["HTTP/1.1 431"]),
        (
            "many headers",
            many.as_bytes(),
            &["HTTP/1.1 431", "HTTP/1.1 400"],
        ),
        (
            "a long path",
            long.as_bytes(),
            &["HTTP/1.1 414", "HTTP/1.1 431"],
        ),
        (
            "a header without a name",
            b"GET /version HTTP/1.1\r\n: x\r\n\r\n",
            &["HTTP/1.1 400"],
        ),
        (
            "a length that is no number",
            b"PUT /api/v1/nodes/a HTTP/1.1\r\ncontent-length: x\r\n\r\n",
            &["HTTP/1.1 400"],
        ),
        (
            "two lengths",
            b"PUT /api/v1/nodes/a HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxy",
            &["HTTP/1.1 400"],
        ),
        (
            "another coding",
            b"PUT /api/v1/nodes/a HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n",
            &["HTTP/1.1 400"],
        ),
        (
            "chunks in HTTP/1.0",
            b"PUT /api/v1/nodes/a HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            &["HTTP/1.1 400", "HTTP/1.0 400"],
        ),
    ];
    for (what, bytes, expected) in cases {
        let text = stage.send_bytes(bytes).await;
        // The end of HTTP/2 is a frame.
        let is_expected = |start: &&str| match *start {
            "" => !text.starts_with("HTTP/1"),
            start => text.starts_with(start),
        };
        assert!(expected.iter().any(is_expected), "{what}: {text:?}");
        assert_sound(&stage, what).await;
    }
}

#[tokio::test]
async fn requests_that_are_not_for_an_api_server_are_answered_with_a_status() {
    let stage = stage();
    for (head, code, why) in [
        (
            "GET http://example.com/version HTTP/1.1",
            400,
            "URL in place of a path",
        ),
        (
            "CONNECT example.com:443 HTTP/1.1",
            400,
            "CONNECT is for a proxy",
        ),
        ("OPTIONS * HTTP/1.1", 405, "OPTIONS"),
        ("TRACE /version HTTP/1.1", 405, "TRACE"),
        (
            "GET /api/v1/namespaces/../secrets HTTP/1.1",
            400,
            "a segment is empty or a dot",
        ),
        (
            "GET /api/v1/namespaces/n/pods/.. HTTP/1.1",
            400,
            "a segment is empty or a dot",
        ),
        (
            "GET //api/v1/pods HTTP/1.1",
            400,
            "a segment is empty or a dot",
        ),
        (
            "GET /api/v1/namespaces/n/pods/a%2Fexec HTTP/1.1",
            400,
            "no object can have the name",
        ),
        (
            "GET /api/v1/namespaces/n/pods/%2e%2e HTTP/1.1",
            400,
            "no object can have the name",
        ),
        (
            "GET /api/v1/namespaces/%2e%2e/pods HTTP/1.1",
            400,
            "has an escape",
        ),
        ("GET /api/v1/pods?a;b HTTP/1.1", 400, "unencoded"),
        ("GET /api/v1/pods?a=%zz HTTP/1.1", 400, "hexadecimal"),
        ("GET /logs/x HTTP/1.1", 405, "node"),
        ("GET /api/v1/watch/pods HTTP/1.1", 405, "watch=true"),
        (
            "POST /api/v1/namespaces/n/pods/a/exec?command=sh HTTP/1.1",
            405,
            "SPDY or WebSocket",
        ),
        (
            "GET /api/v1/pods?watch=true HTTP/1.1\r\nupgrade: websocket",
            405,
            "SPDY or WebSocket",
        ),
        (
            "GET /api/v1/pods HTTP/1.1\r\nimpersonate-user: admin",
            403,
            "impersonate-user",
        ),
        (
            "GET /api/v1/pods HTTP/1.1\r\nimpersonate-group: system:masters",
            403,
            "impersonate-group",
        ),
    ] {
        let bytes = format!("{head}\r\nhost: k\r\nconnection: close, upgrade\r\n\r\n");
        let text = stage.send_bytes(bytes.as_bytes()).await;
        assert!(
            text.starts_with(&format!("HTTP/1.1 {code} ")),
            "{head}: {text}"
        );
        assert!(
            text.contains("\"kind\":\"Status\"") && text.contains(why),
            "{head}: {text}"
        );
        assert_sound(&stage, head).await;
    }
}

#[tokio::test]
async fn request_with_two_lengths_is_taken_by_its_chunks_and_closes_the_connection() {
    let smuggled = "GET /api/v1/secrets HTTP/1.1\r\nhost: k\r\n\r\n";
    for (first, second) in [
        ("content-length: 4", "transfer-encoding: chunked"),
        ("transfer-encoding: chunked", "content-length: 4"),
    ] {
        let stage = stage();
        let bytes = format!(
            "PUT /api/v1/namespaces/n/configmaps/a HTTP/1.1\r\nhost: k\r\n{first}\r\n{second}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n{smuggled}"
        );
        let text = stage.send_bytes(bytes.as_bytes()).await;
        assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{text}");
        assert_eq!(stage.received(), ["PUT /api/v1/namespaces/n/configmaps/a"]);
        let received = stage.received.lock();
        assert_eq!(received[0].body(), "{}");
        assert!(!received[0].headers().contains_key("transfer-encoding"));
    }
}

#[tokio::test]
async fn body_that_does_not_come_is_not_sent() {
    let stage = stage();
    let head = "PUT /api/v1/namespaces/n/configmaps/a HTTP/1.1\r\nhost: k\r\ncontent-length: 100\r\n\r\n{}";

    let mut cut = stage.connect();
    cut.write_all(head.as_bytes()).await.expect("written");
    cut.shutdown().await.expect("shut down");
    let mut text = String::new();
    let read = tokio::time::timeout(SOON, cut.read_to_string(&mut text)).await;
    drop(read.expect("closed"));
    assert!(
        text.is_empty() || text.starts_with("HTTP/1.1 400"),
        "{text}"
    );
    assert_sound(&stage, "a cut body").await;

    let mut late = stage.connect();
    late.write_all(head.as_bytes()).await.expect("written");
    let mut start = [0; 12];
    let read = tokio::time::timeout(SOON, late.read_exact(&mut start)).await;
    read.expect("in time").expect("an answer");
    assert_eq!(&start, b"HTTP/1.1 400");
    assert_sound(&stage, "a late body").await;
}

#[tokio::test]
async fn body_over_the_limit_is_refused() {
    let stage = stage();
    let body = vec![b'x'; (3 << 20) + 1];
    let put = || request("PUT", "/api/v1/namespaces/n/configmaps/a", body.clone());
    let mut sender = stage.http2().await;
    let response = sender.send_request(put()).await.expect("a response");
    assert_eq!(response.status(), 413);

    // By its length, and by what has come.
    let length = body.len();
    let head = "PUT /api/v1/namespaces/n/configmaps/a HTTP/1.1\r\nhost: k\r\nconnection: close";
    let text = stage
        .send_bytes(format!("{head}\r\ncontent-length: {length}\r\n\r\n").as_bytes())
        .await;
    assert!(
        text.starts_with("HTTP/1.1 413") && text.contains("over the limit of 3145728 bytes"),
        "{text}"
    );
    let chunk = format!("{head}\r\ntransfer-encoding: chunked\r\n\r\n{length:x}\r\n");
    let text = stage
        .send_bytes(&[chunk.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat())
        .await;
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
    assert_sound(&stage, "a long body").await;
}

/// Random changes of requests: whatever comes, the endpoint closes the connection or answers, and
/// serves the next one.
#[tokio::test]
async fn mutilated_requests_break_nothing() {
    use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

    let seed = std::env::var("OPERETTA_SEED")
        .map_or_else(|_| rand::random(), |text| text.parse().expect("a number"));
    println!("OPERETTA_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let stage = stage();
    let whole = b"PUT /api/v1/namespaces/n/configmaps/a?fieldManager=m HTTP/1.1\r\nhost: k\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    for _ in 0..60 {
        let mut bytes = whole.to_vec();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..bytes.len());
            match random.random_range(0..3) {
                0 => bytes[at] = random.random(),
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, random.random()),
            }
        }
        let mut stream = stage.connect();
        let exchange = async {
            stream.write_all(&bytes).await?;
            stream.shutdown().await?;
            stream.read_to_end(&mut Vec::new()).await
        };
        let ended = tokio::time::timeout(SOON, exchange).await;
        assert!(ended.is_ok(), "{:?} hangs", String::from_utf8_lossy(&bytes));
    }
    stage.received.lock().clear();
    assert_sound(&stage, "all of them").await;
}
