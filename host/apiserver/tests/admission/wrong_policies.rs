//! Policies and bindings that are refused when they are created.

use operetta_apiserver::{admission::validation, authz::error::ApiError};
use serde_json::Value;

use crate::{status, table};

#[test]
fn wrong_policies_are_refused_as_by_kubernetes() {
    let lines = table(include_str!("wrong_policies.json"));
    assert!(lines.len() >= 130);
    let mut failed = Vec::new();
    for line in lines {
        let answer = validate(line["object"].clone());
        let expected = Some(&line["answer"]).filter(|answer| !answer.is_null()).map(status);
        let given = answer.as_ref().err().map(ApiError::status);
        if given != expected {
            failed.push(format!("{}\n expected {expected:?}\n given    {given:?}\n", line["object"]["spec"]));
        }
    }
    assert!(failed.is_empty(), "{} differ:\n{}", failed.len(), failed.join("\n"));
}

fn validate(mut object: Value) -> Result<(), ApiError> {
    if object["kind"] == "ValidatingAdmissionPolicy" {
        validation::default_policy(&mut object);
        validation::validate_policy(&object)
    } else {
        validation::default_binding(&mut object);
        validation::validate_binding(&object)
    }
}
