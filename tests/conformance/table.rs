//! docs/conformance.md, from what the plugins did.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::{Behaviour, SDKS, stage::Outcome};

/// Compares the table in the repository with what was found; writes it with UPDATE_GENERATED set.
pub fn check(behaviours: &[Behaviour], found: &BTreeMap<&str, BTreeMap<String, Outcome>>) {
    let path = "../docs/conformance.md";
    let table = table(behaviours, found);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(path, &table).expect("write");
    }

    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == table,
        "docs/conformance.md is out of date: run `make generate-conformance`. It should be:\n{table}"
    );
}

fn table(behaviours: &[Behaviour], found: &BTreeMap<&str, BTreeMap<String, Outcome>>) -> String {
    let mut text = "# What each SDK can do\n\n\
        The test `conformance` writes this table from what the SDKs' plugins did on a real API server.\n\
        [plugins/conformance](../plugins/conformance/README.md) describes the behaviours.\n"
        .to_owned();

    let mut notes: Vec<String> = Vec::new();
    let mut group = "";
    for behaviour in behaviours {
        if behaviour.group != group {
            group = &behaviour.group;
            let _infallible = write!(
                text,
                "\n## {group}\n\n| | {} |\n|---|{}\n",
                SDKS.join(" | "),
                "---|".repeat(SDKS.len())
            );
        }

        let _infallible = write!(text, "| {} |", behaviour.title);
        for sdk in SDKS {
            let cell = match found[sdk].get(&behaviour.id) {
                Some(Outcome::Shown) => "yes".to_owned(),
                Some(Outcome::Unsupported(why)) => {
                    notes.push(format!("{}, {sdk}: {why}", behaviour.title));
                    format!("no ({})", notes.len())
                }
                Some(Outcome::Failed(_)) | None => "fails".to_owned(),
            };
            let _infallible = write!(text, " {cell} |");
        }
        text.push('\n');
    }

    if !notes.is_empty() {
        text.push_str("\n## Why not\n\n");
        for (at, note) in notes.iter().enumerate() {
            let _infallible = writeln!(text, "{}. {note}", at + 1);
        }
    }

    text
}
