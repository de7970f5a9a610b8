//! Values in Go's messages.

use serde_json::Value;

/// The kind of a value's Go type.
pub(super) fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

/// Formats a value like `%v`.
pub(super) fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_print).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            let items: Vec<String> = keys
                .into_iter()
                .map(|key| format!("{key}:{}", go_print(&map[key])))
                .collect();
            format!("map[{}]", items.join(" "))
        }
        other => other.to_string(),
    }
}
