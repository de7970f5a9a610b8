//! The requests in the table of `tests/http`.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{
    exchange::Request,
    runner::Runner,
    sources::{create, table, tests},
};

pub async fn run(runner: &mut Runner) {
    let text = std::fs::read_to_string(tests("http/widgets.yaml")).expect("widgets.yaml");
    for document in serde_yaml_ng::Deserializer::from_str(&text) {
        create(runner, &Value::deserialize(document).expect("a definition")).await;
    }

    runner
        .wait("/apis/example.com/v1/widgets", 200, "", &Value::Null)
        .await;
    runner.settle(1000).await;

    let mut saved: HashMap<String, String> = HashMap::new();
    for line in table("http/recorded.json") {
        let fill = |text: &str| {
            saved.iter().fold(text.to_owned(), |text, (name, value)| {
                text.replace(&format!("${{{name}}}"), value)
            })
        };

        let text = |key: &str| line[key].as_str().map(&fill);
        let mut request = Request::new(
            line["m"].as_str().expect("a method"),
            text("p").expect("a path"),
        );

        for (name, value) in line["h"].as_object().into_iter().flatten() {
            request = request.header(name, value.as_str().expect("a header"));
        }

        if let Some(body) = line
            .get("b")
            .map(|body| fill(&body.to_string()))
            .or_else(|| text("raw"))
        {
            request = request.text(&body);
        }

        let answer = runner.send(request).await;
        for (name, pointer) in line["save"].as_object().into_iter().flatten() {
            if let Some(value) = answer
                .body
                .pointer(pointer.as_str().expect("a pointer"))
                .and_then(Value::as_str)
            {
                saved.insert(name.clone(), value.to_owned());
            }
        }
    }
}
