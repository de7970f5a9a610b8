//! The formats of cells: lists and selectors.

use serde_json::{Map, Value};

use super::super::object::{fields, items, text};

/// The names and the images of containers.
pub(super) fn containers(list: &[Value]) -> [Value; 2] {
    let join = |key: &str| {
        list.iter()
            .map(|item| text(item, key))
            .collect::<Vec<_>>()
            .join(",")
    };

    [join("name").into(), join("image").into()]
}

/// Labels as `a=b,c=d`.
pub(super) fn labels(labels: &Map<String, Value>) -> String {
    if labels.is_empty() {
        return "<none>".to_owned();
    }
    pairs(labels).join(",")
}

fn pairs(labels: &Map<String, Value>) -> Vec<String> {
    let mut pairs: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort_unstable();
    pairs
}

/// A label selector as `a=b,c in (d,e),!f`; empty if it has no requirements.
pub(super) fn selector(selector: &Value) -> String {
    let mut requirements: Vec<(String, String)> = fields(selector, "matchLabels")
        .iter()
        .map(|(key, value)| {
            (
                key.clone(),
                format!("{key}={}", value.as_str().unwrap_or_default()),
            )
        })
        .collect();

    for requirement in items(selector, "matchExpressions") {
        let key = text(requirement, "key");
        let mut values: Vec<&str> = items(requirement, "values")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();

        let values = values.join(",");
        let shown = match text(requirement, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };

        requirements.push((key.to_owned(), shown));
    }

    requirements.sort_by(|left, right| left.0.cmp(&right.0));
    requirements
        .into_iter()
        .map(|(_, shown)| shown)
        .collect::<Vec<_>>()
        .join(",")
}

/// A label selector, or `<none>` if it has no requirements.
pub(super) fn selector_or_none(value: &Value) -> String {
    match selector(value) {
        empty if empty.is_empty() => "<none>".to_owned(),
        shown => shown,
    }
}

/// The first items of a list, and how many more there are.
pub(super) fn shortened(list: &[String], shown: usize) -> String {
    let head = list
        .iter()
        .take(shown)
        .cloned()
        .collect::<Vec<_>>()
        .join(",");

    match list.len().checked_sub(shown) {
        Some(more) if more > 0 => format!("{head} + {more} more..."),
        _ => head,
    }
}
