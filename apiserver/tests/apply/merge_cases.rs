//! Sequences of applies and updates: structured-merge-diff's package `merge`.

use std::{collections::BTreeMap, sync::Arc};

use operetta_apiserver::apply::{
    fieldpath::FieldFilter,
    merge::{
        ConvertError, ManagedSets, ManagerId, Operation, UpdateError, Updater, VersionConverter,
        VersionedSet,
    },
    schema::ObjectType,
    typed::{Duplicates, TypedValue},
    value::equal,
};
use serde_json::Value;

use crate::cases::{Case, Table, expect, field_set, filter, text};

#[test]
fn applies_and_updates_behave_as_in_the_tables() {
    let table = Table::parse(include_str!("data/merge.json"));
    let types = table.object_types();
    table.run(|case| run(&table, &types, case));
}

#[test]
fn random_histories_end_as_in_the_tables() {
    let table = Table::parse(include_str!("data/random.json"));
    let types = table.object_types();
    table.run(|case| run(&table, &types, case));
}

/// Converts like the converter of the recorded test.
struct Recorded<'a> {
    table: &'a Table,
    types: &'a [ObjectType],
    calls: Option<&'a Vec<Value>>,
}

impl VersionConverter for Recorded<'_> {
    fn convert(&self, object: &TypedValue, api_version: &str) -> Result<TypedValue, ConvertError> {
        let Some(calls) = self.calls else {
            return Ok(object.clone());
        };

        let calls = calls
            .iter()
            .map(|at| &self.table.conversions[at.as_u64().expect("an index") as usize]);
        let call = calls
            .into_iter()
            .find(|call| call["version"] == api_version && equal(&call["value"], object.value()));

        let Some(call) = call else {
            return Err(ConvertError::Failed(format!(
                "no conversion of {} to {api_version}",
                object.value()
            )));
        };

        match call["err"].as_str() {
            Some(error) if call["missing"] == true => {
                Err(ConvertError::MissingVersion(error.into()))
            }
            Some(error) => Err(ConvertError::Failed(error.into())),
            None => typed(self.types, &call["type"], call["out"].clone().into())
                .map_err(ConvertError::Failed),
        }
    }
}

fn typed(types: &[ObjectType], index: &Value, value: Arc<Value>) -> Result<TypedValue, String> {
    let object_type = types[index.as_u64().expect("a type") as usize].clone();
    TypedValue::new(value, object_type, Duplicates::Allow).map_err(|error| error.to_string())
}

fn manager(name: &str) -> ManagerId {
    ManagerId {
        name: name.into(),
        operation: Operation::Update,
        api_version: String::new(),
        subresource: String::new(),
    }
}

fn run(table: &Table, types: &[ObjectType], case: &Case) -> Result<(), String> {
    let mut live = Arc::new(Value::Null);
    let mut managers = ManagedSets::new();
    for (at, step) in case.steps.iter().enumerate() {
        let error = |error: String| format!("step {at}: {error}");

        let recorded = Recorded {
            table,
            types,
            calls: conversions(table, step),
        };

        let (new_live, new_managers) =
            run_step(&recorded, step, &live, &managers).map_err(error)?;
        (live, managers) = (new_live, new_managers);
    }

    Ok(())
}

/// The calls of the converter in a step's test. Without any, objects are the same in all versions.
fn conversions<'a>(table: &'a Table, step: &'a Value) -> Option<&'a Vec<Value>> {
    let of_test = step["converter"]
        .as_str()
        .and_then(|name| table.converters.get(name));
    step["conversions"].as_array().or(of_test)
}

type State = (Arc<Value>, ManagedSets);

fn run_step(
    converter: &Recorded<'_>,
    step: &Value,
    live: &Arc<Value>,
    managers: &ManagedSets,
) -> Result<State, String> {
    let api_version = text(step, "version");

    let filters: BTreeMap<String, FieldFilter> = step["filters"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(version, value)| (version.clone(), filter(value)))
        .collect();

    let updater = Updater {
        converter,
        filters: &filters,
    };

    let live_type = step.get("live_type").unwrap_or(&step["type"]);
    let live_typed = typed(converter.types, live_type, live.clone())?;
    // The fixture converts the live object to the request's version.
    let live_typed = converter
        .convert(&live_typed, api_version)
        .map_err(|error| error.to_string())?;

    let object = typed(converter.types, &step["type"], step["value"].clone().into())?;
    let id = manager(text(step, "manager"));

    let result = match text(step, "op") {
        "state_apply" => {
            let by = (&id, step["force"] == true);
            let applied = updater.apply(&live_typed, &object, api_version, managers.clone(), by);
            applied.map(|(new, managers)| (new.unwrap_or(live_typed).value().clone(), managers))
        }
        _ => {
            let updated = updater.update(&live_typed, &object, api_version, managers.clone(), &id);
            updated.map(|managers| (object.value().clone(), managers))
        }
    };

    match (result, step.get("err")) {
        (Ok((live, managers)), None) => {
            if !equal(&live, &step["out"]) {
                return Err(format!("expected {}, got {live}", step["out"]));
            }

            expect("managers", describe(&managers), expected_managers(step))?;
            Ok((live, managers))
        }
        (Err(UpdateError::Conflicts(conflicts)), Some(_)) => {
            let mut actual: Vec<_> = conflicts
                .iter()
                .map(|conflict| (conflict.manager.name.clone(), conflict.path.to_string()))
                .collect();

            let mut expected: Vec<(String, String)> =
                serde_json::from_value(step["conflicts"].clone())
                    .map_err(|error| error.to_string())?;

            actual.sort();
            expected.sort();

            expect("conflicts", actual, expected)?;
            Ok((live.clone(), managers.clone()))
        }
        (result, expected) => Err(format!("expected the error {expected:?}, got {result:?}")),
    }
}

type Described = BTreeMap<String, VersionedSet>;

fn describe(managers: &ManagedSets) -> Described {
    managers
        .iter()
        .map(|(manager, fields)| (manager.name.clone(), fields.clone()))
        .collect()
}

fn expected_managers(step: &Value) -> Described {
    let managers = step["out_managers"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, entry)| {
            let api_version = entry[0].as_str().unwrap_or_default().to_owned();
            (
                name.clone(),
                VersionedSet {
                    set: field_set(&entry[2]),
                    api_version,
                    applied: entry[1] == true,
                },
            )
        });
    managers.collect()
}
