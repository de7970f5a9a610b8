//! Operations on values of a type: structured-merge-diff's package `typed`.

use std::sync::Arc;

use operetta_apiserver::apply::{
    schema::ObjectType,
    typed::{Duplicates, TypedValue, ValidationErrors},
    value::equal,
};
use serde_json::Value;

use crate::cases::{Table, expect, field_set, text};

#[test]
fn typed_values_behave_as_in_the_tables() {
    let table = Table::parse(include_str!("data/typed.json"));
    let types = table.object_types();
    table.run(|case| {
        case.steps.iter().try_for_each(|step| {
            let object_type = &types[step["type"].as_u64().expect("a type") as usize];
            run(object_type, step).map_err(|error| format!("{step}: {error}"))
        })
    });
}

fn run(object_type: &ObjectType, step: &Value) -> Result<(), String> {
    let typed = |field: &str| {
        TypedValue::new(
            Arc::new(step[field].clone()),
            object_type.clone(),
            Duplicates::Allow,
        )
        .map_err(|error| format!("{field} is invalid: {error}"))
    };

    match text(step, "op") {
        "validate" => {
            let duplicates = if step["allowDuplicates"] == true {
                Duplicates::Allow
            } else {
                Duplicates::Deny
            };

            let result = TypedValue::new(
                Arc::new(step["value"].clone()),
                object_type.clone(),
                duplicates,
            );

            outcome(step, result).map(drop)
        }
        "toset" => match outcome(step, typed("value")?.field_set())? {
            Some(set) => expect("set", set, field_set(&step["out"])),
            None => Ok(()),
        },
        "merge" => match outcome(step, typed("lhs")?.merge(&typed("rhs")?))? {
            Some(merged) => same(merged.value(), &step["out"]),
            None => Ok(()),
        },
        "compare" => match outcome(step, typed("lhs")?.compare(&typed("rhs")?))? {
            Some(comparison) => {
                expect("removed", comparison.removed, field_set(&step["removed"]))?;
                expect(
                    "modified",
                    comparison.modified,
                    field_set(&step["modified"]),
                )?;

                expect("added", comparison.added, field_set(&step["added"]))
            }
            None => Ok(()),
        },
        "remove" => same(
            typed("value")?.remove(&field_set(&step["set"])).value(),
            &step["out"],
        ),
        "extract" => {
            let extracted =
                typed("value")?.extract(&field_set(&step["set"]), step["keyFields"] == true);
            same(extracted.value(), &step["out"])
        }
        "reconcile" => {
            let null = TypedValue::new(
                Arc::new(Value::Null),
                object_type.clone(),
                Duplicates::Allow,
            );

            let result = null
                .map_err(|error| error.to_string())?
                .reconcile(&field_set(&step["set"]));

            let expected = step.get("out").map(field_set);
            expect("reconciled", outcome(step, result)?.flatten(), expected)
        }
        other => Err(format!("unknown operation {other}")),
    }
}

fn same(actual: &Value, expected: &Value) -> Result<(), String> {
    if equal(actual, expected) {
        Ok(())
    } else {
        Err(format!("expected {expected}, got {actual}"))
    }
}

/// Returns the result if one was expected. Errors are compared line by line, in any order, because Go
/// iterates over maps randomly.
fn outcome<T>(step: &Value, result: Result<T, ValidationErrors>) -> Result<Option<T>, String> {
    match (result, step["err"].as_str()) {
        (Ok(value), None) => Ok(Some(value)),
        (Ok(_), Some(error)) => Err(format!("expected the error {error}")),
        (Err(error), None) => Err(format!("unexpected error {error}")),
        (Err(error), Some(expected)) => {
            // The tables are YAML, so Go's maps in them have keys of any type.
            let expected = expected.replace("map[interface {}]", "map[string]");
            expect("errors", lines(&error.to_string()), lines(&expected)).map(|()| None)
        }
    }
}

fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}
