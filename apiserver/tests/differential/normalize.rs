//! Removes from answers what differs between runs, apart from UIDs and revisions: times, ages,
//! revisions in messages.

use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use regex::{Captures, Regex};
use serde_json::Value;

use crate::exchange::Answer;

static TIME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").expect("a pattern"));
static AGE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\d+[smhdy]){1,2}$").expect("a pattern"));
static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d+").expect("a pattern"));

pub fn normalize(answer: &mut Answer, now: Timestamp) {
    value("", &mut answer.body, now);
    for warning in &mut answer.warnings {
        *warning = times(warning, now);
    }
}

fn value(key: &str, found: &mut Value, now: Timestamp) {
    match found {
        Value::Object(members) => {
            let is_object = members.contains_key("uid");
            if members
                .get("kind")
                .is_some_and(|kind| kind == "CustomResourceDefinition")
                && let Some(Value::Array(conditions)) = members
                    .get_mut("status")
                    .and_then(|status| status.get_mut("conditions"))
            {
                // Several controllers of the real server add them concurrently.
                conditions.sort_by_key(|condition| condition["type"].as_str().map(str::to_owned));
            }

            if members
                .get("causes")
                .is_some_and(|causes| causes[0]["reason"] == "ResourceVersionTooLarge")
            {
                // The real server names it only if its watch cache answers.
                members.remove("retryAfterSeconds");
            }

            for (name, member) in members {
                match (name.as_str(), &mut *member) {
                    // Revisions of objects are compared: the one server's stands for the other's.
                    ("resourceVersion", Value::String(text)) if !is_object && !text.is_empty() => {
                        *member = "<revision>".into();
                    }
                    ("continue", Value::String(text)) if !text.is_empty() => {
                        *member = "<continue>".into();
                    }
                    ("managedFields", Value::Array(entries)) => {
                        entries.iter_mut().for_each(|entry| value("", entry, now));
                        // Their order depends on their times.
                        entries.sort_by_key(|entry| {
                            let text =
                                |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
                            (
                                text("operation"),
                                text("manager"),
                                text("subresource"),
                                text("apiVersion"),
                            )
                        });
                    }
                    _ => value(name, member, now),
                }
            }
        }
        Value::Array(items) if key == "cells" => {
            for cell in items {
                match cell.as_str() {
                    Some(text) if AGE.is_match(text) => *cell = "<age>".into(),
                    _ => value("", cell, now),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| value("", item, now)),
        Value::String(text) => {
            *text = times(text, now);

            let lower = text.to_lowercase();
            let is_about_revisions =
                lower.contains("resourceversion") || lower.contains("resource version");

            if key == "message" && is_about_revisions {
                *text = NUMBER.replace_all(text, "<n>").into_owned();
            }
        }
        _ => {}
    }
}

/// Replaces the times of a run. Those in requests are of other days.
pub fn times(text: &str, now: Timestamp) -> String {
    let replace = |found: &Captures<'_>| {
        let is_recent = found[0].parse::<Timestamp>().is_ok_and(|time| {
            let distance = time.duration_since(now).abs();
            distance < SignedDuration::from_hours(3)
        });

        match (is_recent, found.get(1)) {
            (true, None) => "<time>".to_owned(),
            (true, Some(_)) => "<time with fraction>".to_owned(),
            _ => found[0].to_owned(),
        }
    };

    TIME.replace_all(text, replace).into_owned()
}
