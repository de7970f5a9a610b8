//! The tests of this program.

use std::{collections::HashMap, time::Duration};

use crate::{
    exchange::{Answer, Request, Step},
    own::OwnServer,
    recording,
    rules::RULES,
    runner::{Comparison, Runner, wait_own},
    sources,
};

/// Sends the recorded requests to an embedded server.
async fn replayed(steps: Vec<Step>) -> Comparison {
    if let Some(Step::Exchange { at, .. }) = steps.first() {
        recording::set_now(*at);
    }

    let own = OwnServer::start(recording::now);
    let mut comparison = Comparison::default();
    let mut streams = HashMap::new();

    for step in steps {
        // Lets the embedded server's controllers run. Time is paused, so this takes none.
        tokio::time::sleep(Duration::from_millis(1)).await;
        match step {
            Step::Exchange { source, at, q, a } => {
                recording::set_now(at);
                let answer = own.send(&comparison.to_own(&q)).await;
                comparison.check(&source, &q, &a, &answer, recording::now());
            }
            Step::Begin { begin, at, q } => {
                recording::set_now(at);
                let stream = own.begin(&comparison.to_own(&q)).await;
                streams.insert(begin, (q, stream));
            }
            Step::End { source, end, a } => {
                let (q, (parts, body)) = streams.remove(&end).expect("a stream that has begun");

                let count = a.body.as_array().map_or(0, Vec::len);
                let bytes = OwnServer::events(body, count).await;
                let answer = Answer::new(parts.status.as_u16(), &parts.headers, &bytes, &q);
                comparison.check(&source, &q, &a, &answer, recording::now());
            }
            Step::Wait {
                wait,
                code,
                pointer,
                value,
            } => {
                wait_own(&own, &comparison, &wait, code, &pointer, &value).await;
            }
        }
    }

    comparison
}

#[tokio::test(start_paused = true)]
async fn recorded_requests_get_the_answers_of_kube_apiserver() {
    let report = replayed(recording::read()).await.report;
    report.print();
    assert!(report.requests > 2000, "{} requests", report.requests);
    assert!(
        report.others.is_empty(),
        "{} answers differ",
        report.others.len()
    );
}

#[tokio::test]
#[ignore = "make test-differential runs it: it starts a control plane and takes minutes"]
async fn live_requests_get_the_answers_of_kube_apiserver() {
    let wanted = std::env::var("DIFFERENTIAL").unwrap_or_else(|_| "all".into());
    let mut runner = Runner::start();
    sources::run(&mut runner, &wanted).await;

    runner.comparison.report.print();
    if std::env::var("RECORD").is_ok() {
        recording::write(&runner.steps);
    }

    assert!(
        runner.comparison.report.others.is_empty(),
        "{} answers differ",
        runner.comparison.report.others.len()
    );
}

#[test]
fn recording_keeps_bodies_that_are_no_unicode() {
    for body in [
        &b"{\"a\":\"\xff\xe2\x82\"}"[..],
        b"{\"a\":\"\\ud800\"}",
        b"k8s\0\x0a\xff",
        b"",
    ] {
        let request = Request::new("POST", "/api").bytes(body).literal();
        let text = serde_json::to_string(&request).expect("JSON");
        let read: Request = serde_json::from_str(&text).expect("a request");
        assert_eq!(read, request);
        assert_eq!(read.build("").into_body(), body);
    }
}

#[test]
fn literal_answers_show_how_numbers_and_texts_are_written() {
    let answer = |request: &Request, media: &'static str, body: &str| {
        let mut headers = http::HeaderMap::new();
        headers.insert("content-type", http::HeaderValue::from_static(media));
        Answer::new(200, &headers, body.as_bytes(), request)
    };
    let usual = Request::get("/api");
    let literal = usual.clone().literal();

    for (media, one, two) in [
        (
            "application/json",
            "{\"a\":[1e+20]}",
            "{\"a\":[100000000000000000000]}",
        ),
        ("application/yaml", "a: yes", "a: \"yes\""),
    ] {
        assert_eq!(answer(&usual, media, one), answer(&usual, media, two));
        assert_ne!(answer(&literal, media, one), answer(&literal, media, two));
    }

    let plain = "{\"a\":[1,-2,{\"b\":null}],\"c\":true,\"d\":\"x\"}";
    let json = "application/json";
    assert_eq!(answer(&literal, json, plain), answer(&usual, json, plain));
}

#[test]
fn documentation_lists_each_rule() {
    let page =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/embedded-api-server.md");
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(RULES.len() <= 10);

    for rule in &RULES {
        assert!(
            page.contains(&format!("| {} |", rule.name)),
            "the page does not list the rule {}",
            rule.name
        );
    }
}
