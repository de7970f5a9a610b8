//! The tests of this program.

use std::{collections::HashMap, time::Duration};

use crate::{
    exchange::{Answer, Step},
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
                let answer = Answer::new(parts.status.as_u16(), &parts.headers, &bytes, true);
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
