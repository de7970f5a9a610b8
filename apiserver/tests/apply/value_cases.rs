//! The order and equality of values: structured-merge-diff's package `value`.

use std::cmp::Ordering;

use operetta_apiserver::apply::value::{compare, equal};
use serde_json::Value;

use crate::cases::{Table, expect};

#[test]
fn values_compare_as_in_the_tables() {
    Table::parse(include_str!("data/value.json")).run(|case| case.steps.iter().try_for_each(step));
}

fn step(step: &Value) -> Result<(), String> {
    let left = &step["lhs"];
    let right = &step["rhs"];
    match step["op"].as_str() {
        Some("value_compare") => {
            let order = match step["out"].as_i64() {
                Some(-1) => Ordering::Less,
                Some(0) => Ordering::Equal,
                _ => Ordering::Greater,
            };
            expect(&format!("{left} with {right}"), compare(left, right), order)
        }
        Some("value_equals") => expect(
            &format!("{left} = {right}"),
            equal(left, right),
            step["out"] == true,
        ),
        other => Err(format!("unknown operation {other:?}")),
    }
}
