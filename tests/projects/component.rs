//! `operetta component` on the module of docs/without-an-sdk.md.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use tempfile::TempDir;

use crate::repository;

/// Writes the page's module as core.wasm, with a part of its text replaced.
fn module(part: &str, by: &str) -> TempDir {
    let page = fs::read_to_string(repository().join("docs/without-an-sdk.md")).expect("the page");
    let text = page
        .split("```wat\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("a module");
    assert!(text.contains(part), "{part}");

    let folder = tempfile::tempdir().expect("a folder");
    fs::write(
        folder.path().join("core.wasm"),
        wat::parse_str(text.replacen(part, by, 1)).expect("a module"),
    )
    .expect("written");
    folder
}

fn component(folder: &TempDir, args: &[&str]) -> Output {
    Command::new(operetta_testkit::program("operetta"))
        .arg("component")
        .args(args)
        .current_dir(folder.path())
        .output()
        .expect("starts")
}

/// Returns the error message of a command that fails with exit code 1.
fn error(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn files(folder: &TempDir) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.path()).expect("a folder");
    entries
        .map(|entry| entry.expect("an entry").file_name().into())
        .collect()
}

#[test]
fn module_of_the_page_becomes_component_that_the_host_takes() {
    let folder = module("", "");
    let output = component(&folder, &["core.wasm"]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("core.component.wasm: "), "{said}");

    assert!(
        said.ends_with("controller configmaps for ConfigMap.v1\n"),
        "{said}"
    );

    let mut check = Command::new(operetta_testkit::program("operetta"));
    let check = check
        .args(["check", "core.component.wasm"])
        .current_dir(folder.path())
        .output()
        .expect("starts");
    assert!(check.status.success(), "{check:?}");
}

#[test]
fn output_may_replace_the_module_but_not_twice() {
    let folder = module("", "");
    let args = ["core.wasm", "-o", "core.wasm"];
    assert!(component(&folder, &args).status.success());
    assert_eq!(
        error(&component(&folder, &args)),
        "error: core.wasm: it is a component already: check it with `operetta check`\n"
    );
}

#[test]
fn component_that_the_host_refuses_is_not_written() {
    let folder = module("operetta.dev/v1alpha1", "operetta.dev/v9alpha9");
    let said = error(&component(&folder, &["core.wasm"]));

    assert!(
        said.starts_with("error: core.wasm: the host would refuse it: ")
            && said.contains("v9alpha9"),
        "{said}"
    );
    assert_eq!(files(&folder), [PathBuf::from("core.wasm")]);
}

#[test]
fn missing_file_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = error(&component(&folder, &["core.wasm"]));
    assert!(
        said.starts_with("error: failed to read core.wasm: "),
        "{said}"
    );
}
