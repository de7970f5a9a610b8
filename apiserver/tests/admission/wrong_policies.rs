//! Invalid policies and bindings are refused at creation.

use operetta_apiserver::{admission::validation, apimachinery::status::Status};
use serde_json::Value;

use crate::{status, table};

#[test]
fn wrong_policies_are_refused_as_by_kubernetes() {
    let lines = table(include_str!("wrong_policies.json"));
    assert!(lines.len() >= 130);

    let mut failed = Vec::new();
    for line in lines {
        let answer = validate(line["object"].clone());

        let expected = Some(&line["answer"])
            .filter(|answer| !answer.is_null())
            .map(status);
        let given = answer.as_ref().err().map(Status::to_value);
        if given != expected {
            failed.push(format!(
                "{}\n expected {expected:?}\n given    {given:?}\n",
                line["object"]["spec"]
            ));
        }
    }
    assert!(
        failed.is_empty(),
        "{} differ:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

fn validate(mut object: Value) -> Result<(), Status> {
    if object["kind"] == "ValidatingAdmissionPolicy" {
        validation::default_policy(&mut object);
        validation::validate_policy(&object)
    } else {
        validation::default_binding(&mut object);
        validation::validate_binding(&object)
    }
}
