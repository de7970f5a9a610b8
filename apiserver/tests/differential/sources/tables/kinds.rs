//! The requests of `tests/kinds_requests.zst`.

use serde_json::Value;

use crate::{
    exchange::Request,
    runner::Runner,
    sources::{namespace, tests},
};

/// A recorded request: method, path, content type, body, code, response, warnings.
type Entry = (String, String, String, Value, u16, Value, Vec<String>);

pub async fn run(runner: &mut Runner) {
    namespace(runner, "kinds").await;
    namespace(runner, "kinds-limits").await;

    let packed = std::fs::read(tests("kinds_requests.zst")).expect("kinds_requests.zst");
    let text = zstd::bulk::decompress(&packed, 64 << 20).expect("the recorded requests decompress");
    let entries: Vec<Entry> =
        serde_json::from_slice(&text).expect("the recorded requests are JSON");

    let mut made = Value::Null;
    for (method, path, content, body, code, answer, _) in entries {
        let mut request =
            Request::new(&method, path.replace("table=1&", "")).header("Content-Type", &content);
        if path.contains("table=1") {
            request = request.header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
        }

        request = match &body {
            Value::Null => request,
            Value::String(text) => request.text(text),
            _ => request.text(&renewed(&body, &made).to_string()),
        };

        let real = runner.send(request).await;
        if method == "POST" && code < 300 && answer["metadata"]["uid"].is_string() {
            made = real.body;
        }
    }
}

/// Updates a body with the UID and revision of the object made by the request before.
fn renewed(body: &Value, made: &Value) -> Value {
    let mut body = body.clone();

    let is_update =
        body["metadata"]["uid"].is_string() && body["metadata"]["name"] == made["metadata"]["name"];

    if is_update {
        for key in ["uid", "resourceVersion", "creationTimestamp"] {
            if body["metadata"][key].is_string() && made["metadata"][key].is_string() {
                body["metadata"][key] = made["metadata"][key].clone();
            }
        }
    }

    body
}
