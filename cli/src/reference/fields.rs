//! docs/reference/plugin.md and docs/reference/configuration.md: the fields of the Plugin and of
//! the host's configuration, from their schemas.

use kube::CustomResourceExt;
use operetta_manager::{config::HostConfig, plugin::crd::Plugin};
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::{cell, check};

#[test]
fn plugin_page_in_the_repository_matches_crd() {
    let crd = serde_json::to_value(Plugin::crd()).expect("a CRD");
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let rows = |name: &str| table(name, &schema[name]);

    let body = format!(
        "## spec\n\n{}\n## status\n\n{}",
        rows("spec"),
        rows("status")
    );

    let introduction = "The fields of `plugins.operetta.dev/v1alpha1`, as `kubectl explain plugin.spec` shows them. [The Plugin \
                        object](../plugin.md) describes how they are used. Fields in bold are required.";

    check("plugin.md", "Fields of the Plugin", introduction, &body);
}

#[test]
fn configuration_page_in_the_repository_matches_types() {
    let generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator();
    let schema =
        serde_json::to_value(generator.into_root_schema_for::<HostConfig>()).expect("a schema");
    let introduction = "The fields of the YAML file that `--config FILE` of `operetta run` and `operetta-host` names; in the cluster it is the ConfigMap \
                        `operetta`. Each field has a default. A host with an unknown field does not start (`InvalidHostConfig`).";
    check(
        "configuration.md",
        "Configuration of the host",
        introduction,
        &table("", &schema),
    );
}

/// Formats the fields below an object as a table.
fn table(name: &str, schema: &Value) -> String {
    let mut rows = String::from("| field | type | default | meaning |\n|---|---|---|---|\n");
    add_fields(name, schema, &mut rows);
    rows
}

/// Adds a row for each property of an object, and for theirs.
fn add_fields(path: &str, schema: &Value, rows: &mut String) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };

    let required = schema["required"].as_array();
    for (name, property) in properties {
        let property = without_null(property);
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };

        let is_required =
            required.is_some_and(|required| required.iter().any(|other| other == name));
        let mark = if is_required { "**" } else { "" };

        let default = match &property["default"] {
            Value::Null => String::new(),
            Value::Array(all) if all.is_empty() => String::new(),
            Value::Object(fields) if fields.is_empty() => String::new(),
            default => format!("`{default}`"),
        };

        let meaning = format!(
            "{} {}",
            property["description"].as_str().unwrap_or_default(),
            bounds(property)
        );

        *rows += &format!(
            "| {mark}`{path}`{mark} | {} | {default} | {} |\n",
            type_name(property),
            cell(&meaning)
        );

        add_fields(&path, property, rows);
        add_fields(&format!("{path}[]"), without_null(&property["items"]), rows);
    }
}

/// The schema without its alternative `null`. The description and the default stay in the outer
/// schema.
fn without_null(schema: &Value) -> &Value {
    let alternatives = schema["anyOf"]
        .as_array()
        .filter(|_| schema["properties"].is_null());

    let other = alternatives.and_then(|all| all.iter().find(|one| one["type"] != "null"));

    other
        .filter(|_| schema["description"].is_null())
        .unwrap_or(schema)
}

fn type_name(schema: &Value) -> String {
    let name = match &schema["type"] {
        Value::Array(types) => types
            .iter()
            .find_map(|name| name.as_str().filter(|name| *name != "null")),
        one => one.as_str(),
    };

    match name {
        Some("array") => format!("[]{}", type_name(&schema["items"])),
        Some("object") if schema["additionalProperties"]["type"].is_string() => {
            format!("map of {}", type_name(&schema["additionalProperties"]))
        }
        Some(name) => name.to_owned(),
        None if schema["x-kubernetes-int-or-string"] == true => "integer or string".to_owned(),
        None => schema["oneOf"][0]["type"]
            .as_str()
            .unwrap_or("any")
            .to_owned(),
    }
}

/// Describes the values that a schema allows.
fn bounds(schema: &Value) -> String {
    let mut bounds = Vec::new();

    let alternatives = schema["oneOf"].as_array().into_iter().flatten();
    let described: Vec<Value> = alternatives
        .map(|one| one["const"].clone())
        .filter(|value| !value.is_null())
        .collect();

    let plain = schema["enum"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();

    let values = [plain, &described].concat();

    if !values.is_empty() {
        let values: Vec<String> = values
            .iter()
            .filter(|value| !value.is_null())
            .map(|value| format!("`{value}`"))
            .collect();
        bounds.push(format!("One of {}.", values.join(", ")));
    }

    match (
        schema["minimum"].as_f64().filter(|minimum| *minimum != 0.0),
        schema["maximum"].as_f64(),
    ) {
        (Some(minimum), Some(maximum)) => bounds.push(format!("{minimum} to {maximum}.")),
        (Some(minimum), None) => bounds.push(format!("At least {minimum}.")),
        (None, Some(maximum)) => bounds.push(format!("At most {maximum}.")),
        (None, None) => {}
    }

    if let Some(most) = schema["maxItems"].as_u64() {
        bounds.push(format!("At most {most} items."));
    }

    bounds.join(" ")
}
