//! The text of values in messages, as Go's `fmt` prints them.

use crate::golang::quote;
use serde_json::{Map, Number, Value};

/// Formats a value in a path: strings are quoted.
pub fn display(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => number(value),
        Value::String(value) => quote(value),
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(display).collect::<Vec<_>>().join(",")
        ),
        Value::Object(fields) => sorted(fields)
            .into_iter()
            .map(|(key, value)| format!("{key}={}", display(value)))
            .collect(),
    }
}

/// Formats a value as `%v`.
pub fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => number(value),
        Value::String(value) => value.clone(),
        Value::Array(items) => format!(
            "[{}]",
            items.iter().map(go_value).collect::<Vec<_>>().join(" ")
        ),
        Value::Object(fields) => {
            let fields = sorted(fields)
                .into_iter()
                .map(|(key, value)| format!("{key}:{}", go_value(value)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
    }
}

/// Formats a value as `%#v`.
pub fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => number(value),
        Value::String(value) => quote(value),
        Value::Array(items) => {
            format!(
                "[]interface {{}}{{{}}}",
                items.iter().map(go_syntax).collect::<Vec<_>>().join(", ")
            )
        }
        Value::Object(fields) => {
            let fields = sorted(fields)
                .into_iter()
                .map(|(key, value)| format!("{}:{}", quote(key), go_syntax(value)));
            format!(
                "map[string]interface {{}}{{{}}}",
                fields.collect::<Vec<_>>().join(", ")
            )
        }
    }
}

/// Returns the Go type that holds a value.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(value) if value.as_i64().is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn sorted(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_unstable_by_key(|(key, _)| *key);
    fields
}

fn number(value: &Number) -> String {
    match (value.as_i64(), value.as_f64()) {
        (Some(value), _) => value.to_string(),
        (None, Some(value)) => float(value),
        (None, None) => value.to_string(),
    }
}

/// Formats a float as `%v`: with an exponent below -4 and from 21 on.
fn float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));

    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..21).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn formats_values_as_go_does() {
        let value = json!({"b": [1, 2.5, null, "x"], "a": true});

        assert_eq!(go_value(&value), "map[a:true b:[1 2.5 <nil> x]]");
        assert_eq!(
            go_syntax(&value),
            r#"map[string]interface {}{"a":true, "b":[]interface {}{1, 2.5, interface {}(nil), "x"}}"#
        );
        assert_eq!(display(&value), r#"a=trueb=[1,2.5,null,"x"]"#);
    }

    #[test]
    fn formats_floats_with_go_exponents() {
        let texts: Vec<_> = [1.0, 0.0001, 0.00001, 1e20, 1e21, -1.5e-7]
            .map(|value| go_value(&json!(value)))
            .into_iter()
            .collect();

        assert_eq!(
            texts,
            [
                "1",
                "0.0001",
                "1e-05",
                "100000000000000000000",
                "1e+21",
                "-1.5e-07"
            ]
        );
    }

    #[test]
    fn quotes_unprintable_characters() {
        assert_eq!(
            quote("a\"\\'\n\u{7f}\u{200b}éद\u{947}\u{e0001}"),
            "\"a\\\"\\\\'\\n\\x7f\\u200béद\u{947}\\U000e0001\""
        );
    }
}
