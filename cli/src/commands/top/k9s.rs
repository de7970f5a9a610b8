//! Tests of the files for k9s in `deploy/k9s`: they call commands that exist, and no text of a
//! cluster ends up in a shell script.

use clap::Parser;
use serde_json::Value;

use crate::args::Cli;

const PLUGINS: &str = include_str!("../../../../deploy/k9s/plugins.yaml");
const VIEWS: &str = include_str!("../../../../deploy/k9s/views.yaml");

fn texts(value: &Value) -> Vec<String> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}

/// An argument as k9s passes it.
fn substituted(argument: &str) -> String {
    [
        ("$KUBECONFIG", "/k"),
        ("$CONTEXT", "c"),
        ("$NAMESPACE", "team"),
        ("$NAME", "web"),
        ("$COL-REASON", "ConsentMissing"),
    ]
    .iter()
    .fold(argument.to_owned(), |text, (name, value)| {
        text.replace(name, value)
    })
}

#[test]
fn shortcuts_call_commands_that_exist() {
    let file: Value = serde_yaml_ng::from_str(PLUGINS).expect("YAML");
    let plugins = file["plugins"].as_object().expect("plugins");

    assert_eq!(plugins.len(), 4);
    for (name, plugin) in plugins {
        for field in ["shortCut", "description", "command"] {
            assert!(plugin[field].is_string(), "{name}: {field}");
        }

        assert_eq!(
            texts(&plugin["scopes"])[0],
            "plugins.operetta.dev",
            "{name}"
        );

        let mut args = texts(&plugin["args"]);
        let mut command = vec![plugin["command"].as_str().unwrap_or_default().to_owned()];

        if command[0] == "sh" {
            assert_eq!(args.remove(0), "-c", "{name}");
            let script = args.remove(0);
            assert!(
                !script.replace("\"$@\"", "").contains('$'),
                "{name} has text of a cluster in a script: {script}"
            );

            // The name of the script in its errors.
            args.remove(0);
            command = script
                .split(" \"$@\"")
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .map(str::to_owned)
                .collect();
        }

        command.extend(args.iter().map(|argument| substituted(argument)));
        assert!(
            command.iter().all(|word| !word.contains('$')),
            "{name}: {command:?}"
        );

        if command[0] == "operetta" {
            let parsed = Cli::try_parse_from(&command);
            assert!(parsed.is_ok(), "{name}: {command:?}: {:?}", parsed.err());
        }
    }
}

#[test]
fn columns_are_those_of_the_crd_or_of_its_fields() {
    const CRD: &str = include_str!("../../../../deploy/crd/plugins.yaml");
    let file: Value = serde_yaml_ng::from_str(VIEWS).expect("YAML");
    let crd: Value = serde_yaml_ng::from_str(CRD).expect("YAML");

    let version = &crd["spec"]["versions"][0];
    let kind = format!(
        "operetta.dev/{}/plugins",
        version["name"].as_str().unwrap_or_default()
    );

    let printed: Vec<String> = version["additionalPrinterColumns"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|column| column["name"].as_str().unwrap_or_default().to_uppercase())
        .collect();

    let columns = texts(&file["views"][&kind]["columns"]);
    assert!(columns.len() > 5, "{columns:?}");

    for column in columns {
        let name = column.split('|').next().unwrap_or_default();
        let is_known =
            ["NAMESPACE", "NAME"].contains(&name) || printed.iter().any(|printed| printed == name);
        assert!(
            is_known || name.contains(":.status."),
            "{column}: {printed:?}"
        );
    }
}
