//! Extracts the Rust code of docs/first-plugin-rust.md, in the order of the page, and checks the
//! page's Cargo.toml.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    // Relative, so that another clone with the same page need not run this program.
    let page = "../../../docs/first-plugin-rust.md";
    println!("cargo::rerun-if-changed={page}");
    let page = fs::read_to_string(page).expect("the page");

    let code = blocks(&page, "rust");
    assert_eq!(code.len(), 2, "the page has the plugin and its test");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("plugin.rs"), code.join("\n")).expect("writable");

    let manifest = blocks(&page, "toml")
        .pop()
        .expect("the page has a Cargo.toml");
    let sdk = manifest
        .split_once("path = \"../operetta/")
        .and_then(|(_, rest)| rest.split_once('"'));
    let (sdk, _) = sdk.expect("the Cargo.toml has the SDK's path");

    assert!(
        Path::new("../../..").join(sdk).join("Cargo.toml").exists(),
        "{sdk} is the SDK's folder"
    );
}

/// Returns the code blocks of a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("\n```{language}\n");
    let block = |rest: &str| {
        rest.split_once("\n```")
            .map(|(block, _)| block.to_owned() + "\n")
    };
    page.split(&fence)
        .skip(1)
        .map(|rest| block(rest).expect("the block ends"))
        .collect()
}
