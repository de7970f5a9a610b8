//! The pages of docs/reference that are generated from code: `make generate` writes them, and a
//! test fails when one is out of date.

mod commands;
mod emitted;
mod fields;
mod reasons;

use std::{fs, path::Path};

/// Compares a page of docs/reference with the one in the repository. With UPDATE_GENERATED set,
/// writes it first.
fn check(name: &str, title: &str, introduction: &str, body: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs/reference")
        .join(name);

    let page = format!(
        "# {title}\n\n<!-- Generated from the code: run `make generate`. -->\n\n{introduction}\n\n{body}"
    );

    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(&path, &page).expect("the page is written");
    }

    let kept = fs::read_to_string(&path).unwrap_or_default();

    assert!(
        kept == page,
        "docs/reference/{name} is out of date: run `make generate`"
    );
}

/// Formats a text as a table cell.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}
