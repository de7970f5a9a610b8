//! Objects as JSON text. Every object that is sent has apiVersion and kind, even if its type has no such fields.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ApiError, GroupVersionKind, Object};

/// Writes an object as the API server expects it.
///
/// # Errors
/// Returns a malformed error if the object cannot be written as a JSON object.
pub(crate) fn encode(object: &impl Object) -> Result<String, ApiError> {
    let kind = object.group_version_kind();
    let text = serde_json::to_string(object)
        .map_err(|error| ApiError::malformed(format!("this {kind} cannot be written as JSON: {error}")))?;
    with_type(text, &kind)
}

/// Adds apiVersion and kind to an object's text if they are missing.
///
/// # Errors
/// Returns a malformed error if the text is not a JSON object.
pub(crate) fn with_type(text: String, kind: &GroupVersionKind) -> Result<String, ApiError> {
    #[derive(Deserialize)]
    struct TypeMeta {
        #[serde(rename = "apiVersion")]
        api_version: Option<IgnoredAny>,
        kind: Option<IgnoredAny>,
    }
    // The text of k8s-openapi's types begins like this: it need not be parsed.
    if text.starts_with("{\"apiVersion\":\"") && text.get(15..).and_then(after_string) == Some(",\"kind\":\"") {
        return Ok(text);
    }
    let has: TypeMeta = serde_json::from_str(&text)
        .map_err(|error| ApiError::malformed(format!("this {kind} is not a JSON object: {error}")))?;
    let mut members = String::new();
    if has.api_version.is_none() {
        members.push_str(&member("apiVersion", &kind.api_version));
    }
    if has.kind.is_none() {
        members.push_str(&member("kind", &kind.kind));
    }
    let rest = text.trim_start().get(1..).unwrap_or_default();
    if rest.trim_start().starts_with('}') {
        members.pop();
    }
    Ok(format!("{{{members}{rest}"))
}

/// Returns the nine bytes after the string literal whose content begins here.
fn after_string(text: &str) -> Option<&str> {
    let end = text.find('"')?;
    text.get(end + 1..end + 10)
}

fn member(name: &str, value: &str) -> String {
    format!("\"{name}\":{},", Value::from(value))
}

/// Reads an object of a kind as a `T`.
///
/// # Errors
/// Returns a malformed error if the object does not fit the type.
pub(crate) fn decode<T: DeserializeOwned>(kind: &GroupVersionKind, text: &str) -> Result<T, ApiError> {
    serde_json::from_str(text).map_err(|error| {
        let name = std::any::type_name::<T>();
        let name = name.rsplit("::").next().unwrap_or(name);
        ApiError::malformed(format!("this {kind} does not fit the type {name}: {error}"))
    })
}

/// Reports whether two objects are semantically equal: an absent field, `null`, `[]` and `{}` do not differ
/// (apimachinery's `equality.Semantic`).
///
/// # Errors
/// Returns a malformed error if one of them is not JSON.
pub(crate) fn semantically_equal(a: &impl Serialize, b: &str) -> Result<bool, ApiError> {
    let failed = |error: serde_json::Error| ApiError::malformed(format!("not JSON: {error}"));
    let a = serde_json::to_string(a).map_err(failed)?;
    if a == b {
        return Ok(true);
    }
    Ok(same(&serde_json::from_str(&a).map_err(failed)?, &serde_json::from_str(b).map_err(failed)?))
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let one_way = |a: &serde_json::Map<String, Value>, b: &serde_json::Map<String, Value>| {
                a.iter().all(|(name, a)| b.get(name).map_or_else(|| is_empty(a), |b| same(a, b)))
            };
            one_way(a, b) && one_way(b, a)
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => a == b || (is_empty(a) && is_empty(b)),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_empty),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn typed(text: &str) -> String {
        with_type(text.to_owned(), &GroupVersionKind::new("e.dev/v1", "Foo")).expect(text)
    }

    #[test]
    fn adds_missing_api_version_and_kind() {
        for (given, sent) in [
            (r#"{"spec":1}"#, r#"{"apiVersion":"e.dev/v1","kind":"Foo","spec":1}"#),
            ("{}", r#"{"apiVersion":"e.dev/v1","kind":"Foo"}"#),
            (r#"{"kind":"Bar"}"#, r#"{"apiVersion":"e.dev/v1","kind":"Bar"}"#),
            (r#"{"apiVersion":"v1","kind":"Pod"}"#, r#"{"apiVersion":"v1","kind":"Pod"}"#),
            (r#"{"apiVersion":"v1","a":"b"}"#, r#"{"kind":"Foo","apiVersion":"v1","a":"b"}"#),
        ] {
            assert_eq!(typed(given), sent);
        }
        assert!(with_type("[]".to_owned(), &GroupVersionKind::new("v1", "Pod")).is_err());
    }

    #[test]
    fn absent_null_and_empty_are_equal() {
        for (a, b, equal) in [
            (json!({}), json!({"a": null, "b": [], "c": {"d": {}}}), true),
            (json!({"a": [1, {"b": []}]}), json!({"a": [1, {}]}), true),
            (json!({"a": 0}), json!({}), false),
            (json!({"a": ""}), json!({}), false),
            (json!({"a": [1]}), json!({"a": [1, 1]}), false),
            (json!({"a": [null]}), json!({"a": []}), false),
        ] {
            assert_eq!(same(&a, &b), equal, "{a} {b}");
            assert_eq!(same(&b, &a), equal, "{b} {a}");
        }
    }
}
