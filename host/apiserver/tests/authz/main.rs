//! Holds authentication, authorization and impersonation against answers that kube-apiserver 1.36 gave.
//!
//! The tables are written by the `record_*.py` scripts of this folder.

mod decisions;
mod escalations;
mod impersonation;
mod reviews;
mod store;
mod tokens;

use serde_json::Value;

/// Reads a table.
fn table(text: &str) -> Vec<Value> {
    serde_json::from_str(text).expect("a table is a JSON list")
}

/// Adds the fields that all failed `Status` objects share, and that the tables leave out.
fn status(short: &Value) -> Value {
    let mut status = short.clone();
    status["kind"] = "Status".into();
    status["apiVersion"] = "v1".into();
    status["metadata"] = serde_json::json!({});
    status["status"] = "Failure".into();
    status
}
