//! The chart's values: the table in docs/install.md, and files with what some values render.
//! `UPDATE_GENERATED=1 cargo test --workspace --test install` writes both.

use std::{fmt::Write, fs, path::Path};

use serde_json::Value;

use crate::render::{self, CHART, REPOSITORY, helm_template_text};

const PAGE: &str = "docs/install.md";
const BEGIN: &str = "<!-- values -->\n";
const END: &str = "<!-- /values -->\n";

/// The files with values and their result, and the namespace of each.
const GOLDEN: [(&str, &str); 4] = [
    ("least", "operetta-system"),
    ("all", "plugins"),
    ("class", "plugins"),
    ("scheduled", "operetta-system"),
];

/// Compares a text with a file of the repository, or writes it there.
fn assert_generated(path: &str, text: &str) {
    let file = Path::new(REPOSITORY).join(path);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(&file, text).expect("written");
    }

    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == text,
        "{path} is out of date: run `make generate-install`. It should be:\n{text}"
    );
}

#[test]
fn chart_renders_golden_files() {
    for (name, namespace) in GOLDEN {
        let path = |ending: &str| format!("tests/install/golden/{name}.{ending}");
        let values = path("values.yaml");
        assert_generated(
            &path("yaml"),
            &helm_template_text(namespace, &["--values", &values]),
        );
    }
}

/// A value with a description.
#[derive(Debug, PartialEq, Eq)]
struct Described {
    /// Its keys, joined by dots.
    path: String,
    description: String,
}

/// Finds the values with a comment above them. Those inside of such a value need none.
///
/// # Panics
/// Panics if a value and those around it have no comment.
fn described(text: &str) -> Vec<Described> {
    let mut found = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    // The keys around a line, each with its indentation.
    let mut around: Vec<(usize, &str)> = Vec::new();
    // The indentation of the value whose lines are skipped.
    let mut inside: Option<usize> = None;

    for line in text.lines() {
        let indentation = line.len() - line.trim_start().len();
        let line = line.trim_start();
        if line.is_empty() {
            comment.clear();
            continue;
        }

        if inside.is_some_and(|outer| indentation > outer) {
            continue;
        }

        inside = None;
        if let Some(text) = line.strip_prefix("# ") {
            comment.push(text);
            continue;
        }

        let (key, value) = line
            .split_once(':')
            .unwrap_or_else(|| panic!("not a key: {line}"));
        around.retain(|(outer, _)| *outer < indentation);
        around.push((indentation, key));
        let path = around
            .iter()
            .map(|(_, key)| *key)
            .collect::<Vec<_>>()
            .join(".");

        if comment.is_empty() {
            assert!(value.is_empty(), "{path} has no description");
            continue;
        }

        inside = Some(indentation);
        found.push(Described {
            path,
            description: comment.join(" "),
        });
        comment.clear();
    }

    found
}

#[test]
fn values_are_found_with_their_comments() {
    let text = "# About the file.\n\na:\n  # One\n  # line\n  b: 1\n  # Two\n  c:\n    d: 2\n# Three\ne: {}\n";
    let one = |path: &str, description: &str| Described {
        path: path.to_owned(),
        description: description.to_owned(),
    };

    assert_eq!(
        described(text),
        [one("a.b", "One line"), one("a.c", "Two"), one("e", "Three")]
    );
}

#[test]
fn values_table_matches_chart() {
    let path = format!("{CHART}/values.yaml");
    let defaults: Value = render::yaml(&path);
    let text = fs::read_to_string(Path::new(REPOSITORY).join(&path)).expect("values");

    let mut table = "| value | default | meaning |\n|---|---|---|\n".to_owned();
    for Described { path, description } in described(&text) {
        let default = path.split('.').fold(&defaults, |value, key| &value[key]);
        assert!(!default.is_null(), "{path}");
        writeln!(table, "| `{path}` | `{default}` | {description} |").expect("a string");
    }

    let page = fs::read_to_string(Path::new(REPOSITORY).join(PAGE)).expect(PAGE);
    let (before, rest) = page.split_once(BEGIN).expect("the table");
    let (_, after) = rest.split_once(END).expect("its end");
    assert_generated(PAGE, &format!("{before}{BEGIN}{table}{END}{after}"));
}
