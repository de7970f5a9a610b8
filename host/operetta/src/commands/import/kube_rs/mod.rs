//! Operators for kube-rs. The plugin has a copy of the operator's code in which each function that runs a `Controller` returns
//! one of the SDK instead, the imports of `kube::runtime` are those of the SDK, and `main` is left out.

mod cargo;
mod chain;
mod permissions;
mod uses;

use std::path::Path;

use anyhow::{Result, bail};
use operetta_api::reasons;

use self::{cargo::Cargo, chain::Found};
use super::{Imported, output::Output, plugin_name, source_files, source_text::SourceText, unsupported::Finding};
use crate::args::ImportArgs;

/// Reads the operator and returns the plugin.
///
/// # Errors
/// Returns an error if the package does not use kube, or no call of `Controller::run` is found.
pub fn import(dir: &Path, output: &Output, args: &ImportArgs) -> Result<Imported> {
    let cargo = Cargo::read(dir)?;
    let name = plugin_name(args, &cargo.name)?;
    let all = source_files(&dir.join("src"), "rs")?;
    let root = if all.iter().any(|(file, _)| file == "lib.rs") { "lib.rs" } else { "main.rs" };
    let is_copied = |file: &str| !file.starts_with("bin/") && (file == root || file != "main.rs");
    let mut findings = Vec::new();
    let mut files = Vec::new();
    let mut controllers = Vec::new();
    for (file, text) in all.iter().filter(|(file, _)| is_copied(file)) {
        let shown = format!("src/{file}");
        let found = chain::replaced(&shown, text, args.own_namespace, &mut findings)?;
        controllers
            .extend(found.iter().flat_map(|found| found.functions.iter().map(|f| format!("{}{f}", module(file)))));
        let text = Found::replace_in(text, &found);
        let text = if file == root { chain::without_main(&text) } else { text };
        let text = uses::rewritten(&shown, &text, &mut findings);
        files.push((if file == root { "src/lib.rs".to_owned() } else { shown }, text));
    }
    if controllers.is_empty() {
        bail!(reasons::NO_PROJECT.error(format!(
            "{}/src calls no `Controller::new(…)….run(…)`: only operators that run a kube::runtime::Controller can be imported",
            args.dir.display()
        )));
    }
    let texts: Vec<SourceText> = files.iter().map(|(_, text)| SourceText::rust(text.clone())).collect();
    let markers = permissions::read(&texts, &mut findings);
    if let Some((_, lib)) = files.iter_mut().find(|(file, _)| file == "src/lib.rs") {
        lib.truncate(lib.trim_end().len());
        lib.push_str(&plugin(&controllers));
    }
    let manifest = cargo.plugin(&name, dir, output, &texts, &mut findings);
    files.push(("Cargo.toml".to_owned(), manifest));
    Ok(Imported {
        name,
        files,
        markers,
        findings,
        sdk: "rust",
        setup: "rustup target add wasm32-wasip2",
        ignored: "/build\n/target\n",
    })
}

/// Returns the path of a file's module.
fn module(file: &str) -> String {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    if ["lib", "main"].contains(&path) { "crate::".to_owned() } else { format!("crate::{}::", path.replace('/', "::")) }
}

/// Returns the function that declares the controllers.
fn plugin(controllers: &[String]) -> String {
    let calls: String = controllers.iter().map(|path| format!("\n        .controller({path}())")).collect();
    format!(
        "\n\noperetta_sdk::plugin!(operetta_plugin);\n\n/// Returns the controllers of the plugin.\nfn operetta_plugin() -> \
         operetta_sdk::Plugin {{\n    operetta_sdk::Plugin::new(){calls}\n}}\n"
    )
}

/// Adds a finding about a position of a file.
fn note(findings: &mut Vec<Finding>, file: &str, text: &SourceText, at: usize, about: impl Into<String>) {
    findings.push(Finding { place: format!("{file}:{}", text.line(at)), text: about.into() });
}
