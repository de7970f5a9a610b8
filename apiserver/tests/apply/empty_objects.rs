//! Objects before their creation equal the zero values of their Go types.

use operetta_apiserver::apply::manager::{OpenApiTypes, TypeConverter};
use serde_json::{Map, Value, json};

#[test]
fn empty_objects_are_the_zero_values_of_go() {
    let mut types = OpenApiTypes::default();
    types
        .add(&serde_json::from_str(include_str!("data/openapi.json")).expect("definitions"))
        .expect("a schema");

    let zero_values: Map<String, Value> =
        serde_json::from_str(include_str!("data/empty.json")).expect("a table");
    assert!(!zero_values.is_empty());

    for (name, expected) in zero_values {
        let (api_version, kind) = name.split_once(' ').expect("a version and a kind");
        let mut expected = expected;

        expected["apiVersion"] = json!(api_version);
        expected["kind"] = json!(kind);
        assert_eq!(types.empty_object(api_version, kind), expected, "{name}");
    }
}
