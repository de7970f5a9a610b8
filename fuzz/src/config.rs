//! Configuration by a tenant, as JSON or as YAML. Parsed configuration has a bounded number of
//! values and a bounded depth. It does not change when it is serialised as JSON and parsed again.
//! Error messages are short for any text.
//!
//! The input: `config.json` or `config.yaml` on the first line, and the text.

use operetta_manager::plugin::config::text::{MAX_DEPTH, MAX_VALUES, config_object};
use serde_json::Value;

use crate::cut;

/// Checks the module's invariants on one input.
pub fn config(data: &[u8]) {
    let (key, text) = cut(data, b'\n');
    let key = if key.ends_with(b"json") {
        "config.json"
    } else {
        "config.yaml"
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let object = match config_object(key, text) {
        Ok(object) => object,
        Err(error) => {
            assert!(
                error.len() < 200 && !error.contains('\n'),
                "{error:?} is too long"
            );
            return;
        }
    };
    let json = serde_json::to_string(&object).expect("JSON");
    assert_eq!(
        config_object("config.json", &json).as_ref(),
        Ok(&object),
        "{json} is parsed as another object"
    );
    let object = Value::Object(object);
    let (values, depth) = size(&object);
    assert!(
        values <= MAX_VALUES && depth <= MAX_DEPTH,
        "{values} values, {depth} deep"
    );
}

/// Returns the number of values and keys in a value, including itself, and its depth.
fn size(value: &Value) -> (usize, usize) {
    let inner: Vec<(usize, usize)> = match value {
        Value::Array(items) => items.iter().map(size).collect(),
        Value::Object(fields) => fields
            .values()
            .map(size)
            .map(|(values, depth)| (values + 1, depth))
            .collect(),
        _ => return (1, 0),
    };
    let values = inner.iter().map(|(values, _)| values).sum::<usize>() + 1;
    (
        values,
        inner.iter().map(|(_, depth)| depth + 1).max().unwrap_or(1),
    )
}
