//! Paths and sets of fields: structured-merge-diff's package `fieldpath`.

use std::cmp::Ordering;

use operetta_apiserver::apply::{
    fieldpath::{FieldPath, FieldSet, PathElement, fields_of_value},
    schema::ObjectType,
    typed::{Duplicates, TypedValue},
};
use serde_json::Value;

use crate::cases::{Table, expect, field_set, matcher, path, text};

#[test]
fn field_sets_behave_as_in_the_tables() {
    let table = Table::parse(include_str!("data/fieldpath.json"));
    let types = table.object_types();
    table.run(|case| {
        case.steps
            .iter()
            .try_for_each(|step| run(&types, step).map_err(|error| format!("{step}: {error}")))
    });
}

fn run(types: &[ObjectType], step: &Value) -> Result<(), String> {
    let left = || field_set(&step["lhs"]);
    let right = || field_set(&step["rhs"]);
    let set = || field_set(&step["set"]);
    let out = || field_set(&step["out"]);

    match text(step, "op") {
        "union" => expect("union", left().union(&right()), out()),
        "intersection" => expect("intersection", left().intersection(&right()), out()),
        "difference" => expect("difference", left().difference(&right()), out()),
        "recursive_difference" => {
            expect("difference", left().recursive_difference(&right()), out())
        }
        "leaves" => expect("leaves", set().leaves(), out()),
        "set_equals" => expect("equality", left() == right(), step["out"] == true),
        "filter_include" => expect("matches", matcher(&step["pattern"]).filter(&set()), out()),
        "has" => expect(
            "membership",
            set().contains(&path(&step["path"])),
            step["out"] == true,
        ),
        "size" => expect(
            "size",
            set().len() as u64,
            step["out"].as_u64().unwrap_or(u64::MAX),
        ),
        "set_string" => expect("text", set().to_string(), text(step, "out").to_owned()),
        "to_json" => expect("JSON", set().to_fields_text(), text(step, "out").to_owned()),
        "from_json" => from_json(step),
        "from_value" => expect("fields", fields_of_value(&step["value"]), out()),
        "element_decode" => element_decode(step),
        "element_compare" => {
            let pair = path(&step["pair"]);
            expect("order", pair[0].cmp(&pair[1]), order(step))
        }
        "path_compare" => expect(
            "order",
            path(&step["lhs"]).cmp(&path(&step["rhs"])),
            order(step),
        ),
        "path_string" => expect(
            "text",
            FieldPath(path(&step["path"])).to_string(),
            text(step, "out").to_owned(),
        ),
        "ensure" => {
            let object_type = types[step["type"].as_u64().expect("a type") as usize].clone();

            let value = TypedValue::new(Value::Null.into(), object_type, Duplicates::Allow);
            expect(
                "set",
                value
                    .map_err(|error| error.to_string())?
                    .ensure_named_fields(&set()),
                out(),
            )
        }
        "managers_difference" => managers_difference(step),
        other => Err(format!("unknown operation {other}")),
    }
}

fn order(step: &Value) -> Ordering {
    step["out"].as_i64().unwrap_or_default().cmp(&0)
}

fn from_json(step: &Value) -> Result<(), String> {
    let parsed = serde_json::from_str(text(step, "text")).map_err(|error| error.to_string());
    let decoded =
        parsed.and_then(|fields| FieldSet::from_fields(&fields).map_err(|error| error.to_string()));
    match decoded {
        Ok(set) if step["ok"] == true => expect("set", set, field_set(&step["out"])),
        decoded => expect("validity", decoded.is_ok(), step["ok"] == true),
    }
}

fn element_decode(step: &Value) -> Result<(), String> {
    match PathElement::from_key(text(step, "text")) {
        Ok(element) if step["ok"] == true => {
            expect("text", element.to_string(), text(step, "string").to_owned())?;
            expect("key", element.to_key(), text(step, "out").to_owned())
        }
        decoded => expect("validity", decoded.is_ok(), step["ok"] == true),
    }
}

/// Checks the difference of two states of managers: the union of both differences of their sets.
fn managers_difference(step: &Value) -> Result<(), String> {
    let fields =
        |side: &str, manager: &str| step[side].get(manager).map(|entry| field_set(&entry[2]));

    let both = [&step["lhs"], &step["rhs"]];
    for manager in both
        .into_iter()
        .filter_map(Value::as_object)
        .flat_map(|managers| managers.keys())
    {
        let version = |side: &str| step[side][manager].get(0).cloned();
        let left = fields("lhs", manager).unwrap_or_default();
        let right = fields("rhs", manager).unwrap_or_default();
        let other_version =
            matches!((version("lhs"), version("rhs")), (Some(left), Some(right)) if left != right);

        let difference = match other_version {
            true => right,
            false => left.difference(&right).union(&right.difference(&left)),
        };

        expect(
            manager,
            difference,
            fields("out", manager).unwrap_or_default(),
        )?;
    }

    Ok(())
}
