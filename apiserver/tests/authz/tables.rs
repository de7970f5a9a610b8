//! The recorded tables.

use serde_json::Value;

/// Reads a table.
pub fn table(text: &str) -> Vec<Value> {
    serde_json::from_str(text).expect("a table is a JSON list")
}

/// Adds the fields that all failed `Status` objects share and that the tables leave out.
pub fn status(short: &Value) -> Value {
    let mut status = short.clone();
    status["kind"] = "Status".into();
    status["apiVersion"] = "v1".into();
    status["metadata"] = serde_json::json!({});
    status["status"] = "Failure".into();
    status
}
