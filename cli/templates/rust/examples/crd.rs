//! Prints the schema of the kind. `operetta generate` runs this program and writes crd.yaml.

use {{ident}}::types;
use schemars::schema_for;

fn main() {
    let kind = serde_json::json!({
        "apiVersion": "{{group}}/{{version}}",
        "kind": "{{kind}}",
        "spec": schema_for!(types::{{kind}}Spec),
        "status": schema_for!(types::{{kind}}Status),
    });
    println!("{kind}");
}
