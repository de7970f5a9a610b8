//! Raw requests, Events, the log, the configuration, and values that must survive a round trip.

use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
use operetta_sdk::{EventType, Object, Patch, RawRequest, RawResponse, tracing};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::widget::Widget;
use crate::{Case, Seen, word};

impl Case<'_> {
    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace())
    }
}

/// Returns the status, and the string at a JSON pointer of the body.
///
/// # Errors
/// Returns an error if the body is not JSON.
fn status_and(answer: &RawResponse, pointer: &str) -> Seen {
    let body: Value = serde_json::from_str(&answer.body)?;
    Ok(format!(
        "{} {}",
        answer.status,
        body.pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    ))
}

pub(crate) fn raw_get(case: &Case<'_>) -> Seen {
    let path = format!("{}/{}", case.path(), case.wanted("target")?);
    status_and(&case.ctx.raw(&RawRequest::get(path)), "/data/word")
}

pub(crate) fn raw_post(case: &Case<'_>) -> Seen {
    let made = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "raw-made"}});
    let answer = case.ctx.raw(&RawRequest::post(case.path()).json(&made));
    let read: ConfigMap = case.ctx.get(case.map.key().beside("raw-made"))?;
    Ok(format!("{} {}", answer.status, read.name()))
}

pub(crate) fn raw_error(case: &Case<'_>) -> Seen {
    status_and(
        &case
            .ctx
            .raw(&RawRequest::get(format!("{}/no-such-object", case.path()))),
        "/reason",
    )
}

pub(crate) fn raw_watch(case: &Case<'_>) -> Seen {
    status_and(
        &case
            .ctx
            .raw(&RawRequest::get(case.path()).query("watch=true")),
        "/reason",
    )
}

pub(crate) fn event(case: &Case<'_>) -> Seen {
    case.ctx.event_with_action(
        &case.map,
        EventType::Normal,
        "Conformed",
        "Test",
        "it works",
    );
    Ok("emitted".to_owned())
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "all behaviours have the same signature"
)]
pub(crate) fn log(_: &Case<'_>) -> Seen {
    tracing::info!(colour = "red", "a line for conformance");
    Ok("logged".to_owned())
}

pub(crate) fn config(case: &Case<'_>) -> Seen {
    #[derive(Deserialize)]
    struct Config {
        word: String,
    }
    Ok(case.ctx.config::<Config>()?.word)
}

fn copy(case: &Case<'_>, to: &str) -> Seen {
    let word = word(&case.ctx.get(case.target()?)?);
    case.ctx.create(&case.config_map(to, &[("word", &word)]))?;
    Ok(word)
}

pub(crate) fn unicode(case: &Case<'_>) -> Seen {
    copy(case, "unicode-made")
}

pub(crate) fn big(case: &Case<'_>) -> Seen {
    Ok(copy(case, "big-made")?.len().to_string())
}

pub(crate) fn null_or_missing(case: &Case<'_>) -> Seen {
    let note = |widget: Widget| match widget.spec.note {
        None => "missing".to_owned(),
        Some(None) => "null".to_owned(),
        Some(Some(note)) => note,
    };
    let beside = |name: &str| case.map.key().beside(name);
    let null = note(case.ctx.get(beside("null-note"))?);
    let missing = note(case.ctx.get(beside("no-note"))?);
    let patch = Patch::merge(&json!({"spec": {"note": null}}));
    let removed = note(case.ctx.patch(beside("with-note"), patch)?);
    Ok(format!("{null} {missing} {removed}"))
}

/// Reads the Widget `data.target`, changes another field, and returns the stored object.
///
/// # Errors
/// Returns an error if the case has no target, or a call fails.
fn touched(case: &Case<'_>) -> Result<Widget, operetta_sdk::Error> {
    let mut widget: Widget = case.ctx.get(case.target()?)?;
    widget.spec.touched = Some(true);
    Ok(case.ctx.update(&widget)?)
}

pub(crate) fn int64(case: &Case<'_>) -> Seen {
    Ok(touched(case)?
        .spec
        .big
        .map(|big| big.to_string())
        .unwrap_or_default())
}

pub(crate) fn quantity(case: &Case<'_>) -> Seen {
    Ok(touched(case)?.spec.size.unwrap_or_default().0)
}
