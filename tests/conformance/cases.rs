//! The needs of each behaviour, what its plugin must have seen, and what the API server must hold
//! afterwards.

use std::time::Duration;

use operetta_testkit::{LogLine, kinds};
use serde_json::{Value, json};

use crate::{
    stage::{Ended, Outcome, Stage, WIDGET},
    watches,
};

/// How long something must stay away before a test believes that it does not come.
pub const QUIET: Duration = Duration::from_millis(1_500);

/// Runs one behaviour.
pub async fn run(stage: &Stage, id: &str) -> Outcome {
    match shown(stage, id).await {
        Ok(()) => Outcome::Shown,
        Err(Ended::Unsupported(why)) => Outcome::Unsupported(why),
        Err(Ended::Failed(why)) => Outcome::Failed(why),
    }
}

async fn shown(stage: &Stage, id: &str) -> Result<(), Ended> {
    match id.split_once('-') {
        Some(("map", _) | (_, "pruned")) => watches::shown(stage, id).await,
        Some(("get" | "list" | "read", _)) => reads(stage, id).await,
        Some(("error", _)) => errors(stage, id).await,
        Some(("raw", _)) => raw(stage, id).await,
        Some(("result", _)) => results(stage, id).await,
        Some(("create" | "update" | "patch" | "delete", _)) if id != "create-or-update" => {
            writes(stage, id).await
        }
        _ => match id {
            "create" | "update" | "delete" => writes(stage, id).await,
            "unicode" | "big" | "null-or-missing" | "int64" | "quantity" => data(stage, id).await,
            _ => helpers(stage, id).await,
        },
    }
}

fn same(what: &str, saw: impl AsRef<str>, expected: impl AsRef<str>) -> Result<(), Ended> {
    let saw = saw.as_ref();
    let expected = expected.as_ref();
    let short = |text: &str| text.chars().take(200).collect::<String>();

    if saw == expected {
        Ok(())
    } else {
        Err(format!("{what} is {:?}, not {:?}", short(saw), short(expected)).into())
    }
}

impl Stage {
    pub async fn saw(&self, id: &str, arguments: Value, expected: &str) -> Result<(), Ended> {
        same("what it saw", self.case(id, arguments).await?, expected)
    }

    /// A field of a ConfigMap's data, as the API server has it.
    async fn holds(&self, name: &str, field: &str, expected: &str) -> Result<(), Ended> {
        let found = self
            .namespace
            .get(kinds::CONFIG_MAP, name)
            .await
            .ok_or(format!("{name} does not exist"))?;
        same(
            &format!("data.{field} of {name}"),
            found["data"][field].as_str().unwrap_or_default(),
            expected,
        )
    }

    /// Waits until the target of a case has these runs.
    pub async fn ran(&self, target: &str, expected: &str) -> Result<(), String> {
        let runs = |found: &Value| match found["data"]["runs"].as_str() {
            Some(now) if now == expected => Ok(()),
            now => Err(format!("runs are {now:?}, not {expected:?}")),
        };
        self.look(target, runs).await
    }

    async fn is_gone(&self, name: &str) -> Result<(), Ended> {
        let found = self.namespace.get(kinds::CONFIG_MAP, name).await;
        found.map_or(Ok(()), |_| Err(Ended::Failed(format!("{name} exists"))))
    }
}

async fn reads(stage: &Stage, id: &str) -> Result<(), Ended> {
    let (arguments, expected) = match id {
        "get-cached" | "get-live" => (json!({"target": "item-a"}), "word-a"),
        "list-labels" => (json!({"selector": "app=x"}), "item-a,item-b,item-c"),
        "list-fields" => (json!({"target": "item-d"}), "item-d"),
        "list-empty" => (json!({"selector": "app=nobody"}), "0"),
        "list-paged" => (
            json!({"selector": "conformance=item"}),
            "item-a,item-b,item-c,item-d,item-e 3",
        ),
        "list-index" => return by_index(stage, id).await,
        "list-label-index" => (json!({"app": "x"}), "item-a,item-b,item-c"),
        "list-owner-index" => (json!({"owner": "o"}), "item-a,item-b"),
        "list-owner" => (json!({"uid": "uid-o"}), "item-a,item-b"),
        "list-projection" => (
            json!({"selector": "app=x"}),
            "item-a=word-a,item-b=word-b,item-c=word-c false",
        ),
        "read-own-write" => (json!({}), "1 2 true not-found"),
        other => return Err(Ended::Failed(format!("the test does not know {other}"))),
    };

    stage.saw(id, arguments, expected).await
}

/// The case has that colour, too: the informer of all ConfigMaps may not have heard of it when the
/// one of cases has.
async fn by_index(stage: &Stage, id: &str) -> Result<(), Ended> {
    let saw = stage.case(id, json!({"colour": "red"})).await?;
    same(
        "what it saw",
        saw.trim_end_matches(",list-index"),
        "item-a,item-c,item-e",
    )
}

async fn writes(stage: &Stage, id: &str) -> Result<(), Ended> {
    let target = &format!("{id}-target");
    let argument = json!({"target": target});

    match id {
        "create" => {
            let saw = stage.case(id, json!({"word": "a new one"})).await?;
            stage.holds("create-made", "word", "a new one").await?;
            let made = stage
                .namespace
                .get(kinds::CONFIG_MAP, "create-made")
                .await
                .unwrap_or_default();
            same(
                "the uid it saw",
                saw,
                made["metadata"]["uid"].as_str().unwrap_or_default(),
            )
        }
        "create-dry-run" => {
            stage.saw(id, json!({}), "dry-made").await?;
            stage.is_gone("dry-made").await
        }
        "create-strict" => {
            stage
                .saw(id, json!({}), "bad-request 400 BadRequest")
                .await?;
            let made = stage.namespace.get(WIDGET, "strict-made").await;
            made.map_or(Ok(()), |_| {
                Err(Ended::Failed("the Widget was made".to_owned()))
            })
        }
        "create-warning" => {
            stage
                .saw(id, json!({}), r#"unknown field "spec.wrong""#)
                .await?;
            let made = stage.namespace.get(WIDGET, "warned-made").await;
            let spec = made.map(|made| made["spec"].to_string());
            same("spec of warned-made", spec.unwrap_or_default(), "{}")
        }
        "update" => {
            stage
                .config_map(target, json!({"word": "old", "kept": "yes"}))
                .await;
            stage.saw(id, argument, "updated").await?;
            stage.holds(target, "kept", "yes").await?;
            stage.holds(target, "word", "updated").await
        }
        "update-status" => {
            stage.widget(target, json!({"big": 1})).await;
            stage.saw(id, argument, "ready false").await?;
            let now = stage
                .namespace
                .get(WIDGET, target)
                .await
                .unwrap_or_default();
            same(
                "the Widget",
                json!([now["spec"], now["status"]]).to_string(),
                r#"[{"big":1},{"phase":"ready"}]"#,
            )
        }
        "patch-merge" => {
            stage
                .config_map(target, json!({"word": "old", "other": "x", "kept": "yes"}))
                .await;
            stage.saw(id, argument, "kept=yes,word=merged").await
        }
        "patch-json" => {
            stage.config_map(target, json!({"word": "old"})).await;
            stage.saw(id, argument, "patched").await?;
            stage.holds(target, "word", "patched").await
        }
        "patch-apply" => {
            let metadata = json!({"name": target, "namespace": stage.namespace.name()});
            let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"word": "theirs"}});
            stage.namespace.control_plane().apply(&theirs.to_string());
            stage
                .saw(id, argument, "conflict 409 Conflict; applied")
                .await?;
            stage.holds(target, "word", "applied").await
        }
        "patch-scale" => {
            let labels = json!({"app": target});
            let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
            let spec =
                json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
            let deployment = json!({"metadata": {"name": target}, "spec": spec});
            stage
                .namespace
                .create_object(kinds::DEPLOYMENT, deployment)
                .await;
            stage.saw(id, argument, "3").await?;
            let now = stage
                .namespace
                .get(kinds::DEPLOYMENT, target)
                .await
                .unwrap_or_default();
            same("spec.replicas", now["spec"]["replicas"].to_string(), "3")
        }
        "delete" => {
            stage.config_map(target, json!({})).await;
            stage.saw(id, argument, "deleted").await?;
            stage.is_gone(target).await
        }
        "delete-precondition" => {
            stage
                .config_map(target, json!({"word": "still here"}))
                .await;
            stage.saw(id, argument, "conflict 409 Conflict").await?;
            stage.holds(target, "word", "still here").await
        }
        "delete-orphan" => {
            stage.config_map(target, json!({})).await;
            stage.saw(id, argument, "deleted").await?;
            // It waits for a garbage collector, and this control plane has none.
            let now = stage
                .namespace
                .get(kinds::CONFIG_MAP, target)
                .await
                .unwrap_or_default();
            same(
                "metadata.finalizers",
                now["metadata"]["finalizers"].to_string(),
                r#"["orphan"]"#,
            )
        }
        other => Err(Ended::Failed(format!("the test does not know {other}"))),
    }
}

async fn errors(stage: &Stage, id: &str) -> Result<(), Ended> {
    let variant = id.trim_start_matches("error-");

    let (target, expected) = match variant {
        "not-found" => ("", "not-found 404 NotFound"),
        "already-exists" => ("item-a", "already-exists 409 AlreadyExists"),
        "conflict" => ("item-e", "conflict 409 Conflict"),
        "invalid" => ("", "invalid 422 Invalid metadata.labels"),
        "bad-request" => ("", "bad-request 400 BadRequest"),
        "forbidden" => ("", "forbidden 403 Forbidden"),
        "expired" => ("refused-expired", "expired 410 Expired"),
        "too-many-requests" => (
            "refused-too-many-requests",
            "too-many-requests 429 TooManyRequests 7",
        ),
        "unavailable" => ("refused-unavailable", "unavailable 503 ServiceUnavailable"),
        "timed-out" => ("refused-timed-out", "timed-out 504 Timeout"),
        "other" => ("refused-other", "other 405 MethodNotAllowed"),
        other => return Err(Ended::Failed(format!("the test does not know {other}"))),
    };

    if target.starts_with("refused-") {
        stage.refuse().await;
    }

    stage.saw(id, json!({"target": target}), expected).await
}

async fn raw(stage: &Stage, id: &str) -> Result<(), Ended> {
    let expected = match id {
        "raw-get" => "200 word-a",
        "raw-post" => "201 raw-made",
        "raw-error" => "404 NotFound",
        "raw-watch" => "405 MethodNotAllowed",
        other => return Err(Ended::Failed(format!("the test does not know {other}"))),
    };

    stage.saw(id, json!({"target": "item-a"}), expected).await
}

async fn helpers(stage: &Stage, id: &str) -> Result<(), Ended> {
    match id {
        "event" => {
            stage.saw(id, json!({}), "emitted").await?;
            same(
                "the note",
                stage
                    .namespace
                    .until_event(kinds::CONFIG_MAP, id, "Conformed")
                    .await,
                "it works",
            )
        }
        "log" => {
            stage.saw(id, json!({}), "logged").await?;
            let field = ("colour".to_owned(), "red".to_owned());
            let wanted = |line: &LogLine| {
                line.level == "info"
                    && line.message == "a line for conformance"
                    && line.fields.contains(&field)
            };
            stage.until_logged("the line with its field", wanted).await;
            Ok(())
        }
        "config" => stage.saw(id, json!({}), "from the config").await,
        "create-or-update" => {
            stage
                .saw(id, json!({}), "created unchanged updated")
                .await?;
            stage.holds("cou-made", "word", "2").await
        }
        "owner-reference" => {
            stage.saw(id, json!({}), "created").await?;
            let owner = stage
                .namespace
                .get(kinds::CONFIG_MAP, id)
                .await
                .unwrap_or_default();

            let made = stage
                .namespace
                .get(kinds::CONFIG_MAP, "owned-made")
                .await
                .ok_or("owned-made does not exist".to_owned())?;

            let found = &made["metadata"]["ownerReferences"][0];
            let found =
                ["apiVersion", "kind", "name", "uid", "controller"].map(|field| &found[field]);
            let expected = json!(["v1", "ConfigMap", id, owner["metadata"]["uid"], true]);
            same(
                "the owner reference",
                json!(found).to_string(),
                expected.to_string(),
            )
        }
        "finalizer" => {
            stage.begin(id, json!({})).await;
            let ours = json!(["conformance.operetta.dev/cleanup"]);
            let added = |case: &Value| {
                let now = &case["metadata"]["finalizers"];
                if *now == ours {
                    Ok(())
                } else {
                    Err(format!("finalizers are {now}"))
                }
            };

            stage.look(id, added).await?;
            stage.is_gone("finalizer-cleaned").await?;
            stage.namespace.delete(kinds::CONFIG_MAP, id).await;
            stage.look("finalizer-cleaned", |_| Ok(())).await?;
            stage.namespace.until_gone(kinds::CONFIG_MAP, id).await;
            Ok(())
        }
        other => Err(Ended::Failed(format!("the test does not know {other}"))),
    }
}

async fn data(stage: &Stage, id: &str) -> Result<(), Ended> {
    let target = &format!("{id}-target");
    let argument = json!({"target": target});
    match id {
        "unicode" => {
            let word = "Grüße, 世界, 🎭, e\u{301}, \u{202e}, \"quotes\", back\\slash, tab\t, line\nend, \u{1}, \u{10ffff}";
            stage.config_map(target, json!({"word": word})).await;
            stage.saw(id, argument, word).await?;
            stage.holds("unicode-made", "word", word).await
        }
        "big" => {
            let word: String = "0123456789abcdef".chars().cycle().take(1_000_000).collect();
            stage.config_map(target, json!({"word": word})).await;
            stage.saw(id, argument, "1000000").await?;
            stage.holds("big-made", "word", &word).await
        }
        "null-or-missing" => {
            stage.widget("null-note", json!({"note": null})).await;
            stage.widget("no-note", json!({})).await;
            stage
                .widget("with-note", json!({"note": "x", "big": 1}))
                .await;
            stage.saw(id, argument, "null missing missing").await?;
            let now = stage
                .namespace
                .get(WIDGET, "with-note")
                .await
                .unwrap_or_default();
            same("spec of with-note", now["spec"].to_string(), r#"{"big":1}"#)
        }
        "int64" => {
            // One more than what a double can tell apart.
            stage
                .widget(target, json!({"big": 9_007_199_254_740_993_i64}))
                .await;
            stage.saw(id, argument, "9007199254740993").await?;
            let now = stage
                .namespace
                .get(WIDGET, target)
                .await
                .unwrap_or_default();
            same(
                "the spec",
                now["spec"].to_string(),
                r#"{"big":9007199254740993,"touched":true}"#,
            )
        }
        "quantity" => {
            stage.widget(target, json!({"size": "1500m"})).await;
            stage.saw(id, argument, "1500m").await?;
            let now = stage
                .namespace
                .get(WIDGET, target)
                .await
                .unwrap_or_default();
            same(
                "the spec",
                now["spec"].to_string(),
                r#"{"size":"1500m","touched":true}"#,
            )
        }
        other => Err(Ended::Failed(format!("the test does not know {other}"))),
    }
}

async fn results(stage: &Stage, id: &str) -> Result<(), Ended> {
    let target = &format!("{id}-target");
    stage.config_map(target, json!({"runs": ""})).await;
    stage.begin(id, json!({"target": target})).await;
    let (expected, said) = match id {
        "result-done" => ("0 ", None),
        "result-requeue" => ("0 1 2 ", None),
        "result-requeue-after" => ("0 0 ", None),
        "result-error" => ("0 1 2 ", Some("no luck yet")),
        "result-terminal" => ("0 ", Some("no use to retry")),
        "result-panic" => ("0 1 ", Some("boom at the opera")),
        other => return Err(Ended::Failed(format!("the test does not know {other}"))),
    };

    stage.ran(target, expected).await?;
    tokio::time::sleep(QUIET).await;
    stage.ran(target, expected).await?;

    if let Some(words) = said {
        let key = format!("{}/{id}", stage.namespace.name());
        let says = |line: &LogLine, words: &str| {
            line.message.contains(words)
                || line.fields.iter().any(|(_, value)| value.contains(words))
        };
        stage
            .until_logged(words, |line| line.key == key && says(line, words))
            .await;

        // Those languages tell where it came from.
        if id == "result-panic" && ["go", "typescript", "python"].contains(&stage.sdk) {
            stage
                .until_logged("the stack with `sing`", |line| {
                    line.key == key && says(line, "sing")
                })
                .await;
        }
    }

    Ok(())
}
