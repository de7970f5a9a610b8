//! A table of requests with the answers of kube-apiserver 1.36.
//!
//! `recorded.json` has one request per line. To record the answers again, run `kubectl proxy` for a
//! new cluster without controllers, apply `widgets.yaml`, and run this test with
//! `RECORD_FROM=127.0.0.1:PORT`.

use std::{collections::HashMap, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    client::{Answer, request, send, send_to},
    kinds,
    normalize::normalize,
};

/// A request and its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Exchange {
    /// The method.
    m: String,
    /// The path, with `${name}` in place of saved values.
    p: String,
    /// The headers.
    #[serde(default, skip_serializing_if = "HashMap::is_empty")]
    h: HashMap<String, String>,
    /// The body as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    b: Option<Value>,
    /// The body as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
    /// What later requests use of the answer, by JSON pointer.
    #[serde(default, skip_serializing_if = "HashMap::is_empty")]
    save: HashMap<String, String>,
    /// The status code of the answer.
    #[serde(default)]
    s: u16,
    /// The media type of the answer, if it is not JSON.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    t: String,
    /// The warnings of the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    w: Vec<String>,
    /// The answer, normalized. A stream is a list of events.
    #[serde(default)]
    r: Value,
}

fn file() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http/recorded.json")
}

fn substitute(text: &str, saved: &HashMap<String, String>) -> String {
    saved.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("${{{name}}}"), value)
    })
}

fn build(
    exchange: &Exchange,
    saved: &HashMap<String, String>,
) -> http::Request<http_body_util::Full<bytes::Bytes>> {
    let json = exchange
        .b
        .as_ref()
        .map(|body| substitute(&body.to_string(), saved));

    let body = json.as_deref().or(exchange.raw.as_deref());
    request(
        &exchange.m,
        &substitute(&exchange.p, saved),
        &exchange.h,
        body,
    )
}

/// Fills in the answer of an exchange.
fn answered(exchange: &Exchange, answer: &Answer, saved: &mut HashMap<String, String>) -> Exchange {
    let text = String::from_utf8_lossy(&answer.body);
    let is_watch = exchange.p.contains("watch=1")
        || exchange.p.contains("watch=true")
        || exchange.p.contains("/watch/");

    let mut body = match serde_json::from_str::<Value>(&text) {
        Ok(value) if !(is_watch && value["type"].is_string()) => value,
        _ if is_watch => text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("an event"))
            .collect(),
        _ if text.starts_with("apiVersion: ") => serde_yaml_ng::from_str(&text).expect("YAML"),
        _ => Value::String(text.into_owned()),
    };

    for (name, pointer) in &exchange.save {
        if let Some(value) = body.pointer(pointer).and_then(Value::as_str) {
            saved.insert(name.clone(), value.to_owned());
        }
    }

    normalize(&mut body);

    let header = |value: &http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let media = answer
        .headers
        .get("content-type")
        .map(header)
        .unwrap_or_default();

    Exchange {
        s: answer.status,
        t: if media == "application/json" {
            String::new()
        } else {
            media
        },
        w: answer
            .headers
            .get_all("warning")
            .iter()
            .map(header)
            .collect(),
        r: body,
        ..exchange.clone()
    }
}

fn read() -> Vec<Exchange> {
    let text = std::fs::read_to_string(file()).expect("recorded.json");
    serde_json::from_str(&text).expect("recorded exchanges")
}

async fn record(address: &str) {
    let mut saved = HashMap::new();
    let mut lines = Vec::new();
    for exchange in read() {
        let mut answer = send_to(address, build(&exchange, &saved)).await;
        while answer.status == 429 {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            answer = send_to(address, build(&exchange, &saved)).await;
        }

        let exchange = answered(&exchange, &answer, &mut saved);
        lines.push(
            serde_json::to_string(&serde_json::to_value(&exchange).expect("JSON")).expect("JSON"),
        );
    }

    std::fs::write(file(), format!("[\n{}\n]\n", lines.join(",\n"))).expect("written");
}

#[tokio::test(start_paused = true)]
async fn answers_equal_recorded_answers_of_kube_apiserver() {
    if let Ok(address) = std::env::var("RECORD_FROM") {
        tokio::time::resume();
        return record(&address).await;
    }
    let server = kinds::server().await;
    let mut saved = HashMap::new();
    let mut differences = Vec::new();
    let exchanges = read();
    assert!(
        exchanges.len() >= 150,
        "the table has {} requests",
        exchanges.len()
    );

    for (index, expected) in exchanges.iter().enumerate() {
        let answer = send(&server, build(expected, &saved)).await;
        let found = answered(expected, &answer, &mut saved);

        if (found.s, &found.t, &found.w, &found.r)
            != (expected.s, &expected.t, &expected.w, &expected.r)
        {
            differences.push(format!(
                "{index} {} {} {}\n  expected {} {} {:?} {}\n  found    {} {} {:?} {}",
                expected.m,
                expected.p,
                expected
                    .raw
                    .clone()
                    .or(expected.b.as_ref().map(Value::to_string))
                    .unwrap_or_default(),
                expected.s,
                expected.t,
                expected.w,
                expected.r,
                found.s,
                found.t,
                found.w,
                found.r
            ));
        }
    }

    let count = differences.len();
    assert!(
        differences.is_empty(),
        "{count} of {} differ:\n{}",
        exchanges.len(),
        differences.join("\n")
    );
}
