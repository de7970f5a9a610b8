//! Operators for controller-runtime, as kubebuilder lays them out: the plugin's main has the reconcilers of the operator's.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context, Result, bail};
use operetta_api::reasons;

use super::{
    Imported,
    go_module::GoModule,
    markers::Markers,
    output::Output,
    plugin_name, source_files,
    source_text::{Import, SourceText},
    unsupported::{Finding, MANAGER, Pattern, RECONCILERS},
};
use crate::{args::ImportArgs, commands::roles::About};

/// The package of client-go's own scheme, which every plugin has.
const CLIENT_GO_SCHEME: &str = "k8s.io/client-go/kubernetes/scheme";
/// The package of `ctrl.Manager`.
const CONTROLLER_RUNTIME: &str = "sigs.k8s.io/controller-runtime";
const SETUP: &str = ".SetupWithManager(";

/// Reads the operator and returns the plugin.
///
/// # Errors
/// Returns an error if there is no main with a manager, there are several, or none of its reconcilers is found.
pub fn import(dir: &Path, output: &Output, args: &ImportArgs) -> Result<Imported> {
    let module = GoModule::read(dir)?;
    let files = source_files(dir, "go")?;
    let (main_file, text) = main(&files, args)?;
    let main = SourceText::go(text.clone());
    let name = plugin_name(args, &operator_name(dir, &module))?;
    let mut markers = Markers::default();
    let mut findings = Vec::new();
    let setup = Setup::read(main_file, &main, &mut findings)?;
    findings.extend(found(main_file, &main, MANAGER, &setup.manager));
    let managers = main.find("NewManager(");
    if let Some(second) = managers.get(1) {
        let text = format!(
            "the second of {} managers: all reconcilers are in one plugin, and options of main.go hold for all of them",
            managers.len()
        );
        findings.push(Finding { place: format!("{main_file}:{}", main.line(*second)), text });
    }
    for (file, text) in files.iter().filter(|(file, _)| !file.ends_with("_test.go")) {
        markers.read(file, text)?;
        if file != main_file {
            findings.extend(found(file, &SourceText::go(text.clone()), RECONCILERS, &setup.manager));
        }
    }
    if markers.is_empty() {
        let text = "no marker +kubebuilder:rbac: write the rules of the plugin's Role into rbac.yaml";
        findings.push(Finding { place: "internal/controller".to_owned(), text: text.to_owned() });
    }
    for group in ["", "events.k8s.io"] {
        markers.allow(&About::resource(group, "events"), &["create", "patch"]);
    }
    let mut made = vec![
        ("main.go".to_owned(), setup.render(&name, main_file, args.own_namespace)),
        ("go.mod".to_owned(), module.plugin(&name, dir, output)),
    ];
    if let Ok(sums) = std::fs::read_to_string(dir.join("go.sum")) {
        made.push(("go.sum".to_owned(), sums));
    }
    Ok(Imported { name, files: made, markers, findings, sdk: "go", setup: "go mod tidy", ignored: "/build\n" })
}

/// Returns the operator's name: that in kubebuilder's file PROJECT, or the last part of the module's path.
fn operator_name(dir: &Path, module: &GoModule) -> String {
    let project = std::fs::read_to_string(dir.join("PROJECT")).unwrap_or_default();
    let named = project.lines().find_map(|line| line.strip_prefix("projectName:")).map(|name| name.trim().to_owned());
    named.unwrap_or_else(|| module.path.rsplit('/').next().unwrap_or("plugin").to_owned())
}

/// Finds the program with the manager.
fn main<'a>(files: &'a [(String, String)], args: &ImportArgs) -> Result<(&'a str, &'a String)> {
    let has_manager = |text: &str| !SourceText::go(text.to_owned()).find("NewManager(").is_empty();
    if let Some(wanted) = &args.main {
        let found = files.iter().find(|(file, _)| Path::new(file) == wanted);
        let (file, text) = found.with_context(|| {
            format!("{} is not a Go file in {}: correct --main", wanted.display(), args.dir.display())
        })?;
        if !has_manager(text) {
            bail!("{file} does not call NewManager: name the program with the manager with --main");
        }
        return Ok((file, text));
    }
    let mains: Vec<_> = files
        .iter()
        .filter(|(file, text)| {
            !file.ends_with("_test.go") && text.lines().any(|line| line.trim() == "package main") && has_manager(text)
        })
        .collect();
    match mains.as_slice() {
        [(file, text)] => Ok((file, text)),
        [] => bail!(reasons::NO_PROJECT.error(format!(
            "{} has no program that calls ctrl.NewManager: use the folder of a kubebuilder project",
            args.dir.display()
        ))),
        several => {
            let names: Vec<_> = several.iter().map(|(file, _)| file.as_str()).collect();
            bail!(
                "{} has several programs with a manager, {}: choose one with --main",
                args.dir.display(),
                names.join(", ")
            )
        }
    }
}

/// Returns the parts that the plugin does not have, each once for a file. `manager` is the name of the manager.
fn found(file: &str, text: &SourceText, patterns: &[Pattern], manager: &str) -> Vec<Finding> {
    let imports = text.imports();
    let first = |(names, about): &Pattern| {
        let positions = names.iter().flat_map(|name| text.find(name));
        // Other types have a method `Add`, too.
        let is_it = |at: &usize| !names.contains(&".Add(") || text.part(text.expression_before(*at)..*at) == manager;
        let at = positions.filter(is_it).min()?;
        Some(Finding { place: format!("{file}:{}", text.line(at)), text: (*about).to_owned() })
    };
    let uses_controller_runtime = imports.iter().any(|import| import.path.starts_with(CONTROLLER_RUNTIME));
    patterns.iter().filter(|_| uses_controller_runtime).filter_map(first).collect()
}

/// The setup of the plugin: what the operator's main does with its manager and its scheme.
struct Setup {
    /// The name of the manager in the operator's main.
    manager: String,
    /// The expressions `X.SetupWithManager(mgr)`.
    reconcilers: Vec<String>,
    /// The functions that add API groups to the scheme.
    schemes: Vec<String>,
    imports: BTreeSet<Import>,
    /// The name of controller-runtime's package.
    ctrl: String,
}

impl Setup {
    /// Reads the operator's main.
    ///
    /// # Errors
    /// Returns an error if it sets no reconciler up.
    fn read(file: &str, main: &SourceText, findings: &mut Vec<Finding>) -> Result<Self> {
        let all = main.imports();
        let import = |name: &str| all.iter().find(|import| import.name == name);
        let mut imports = BTreeSet::new();
        let new_manager = main.find("NewManager(").into_iter().next().unwrap_or_default();
        let start = main.expression_before(new_manager);
        let line = main.part(0..start).rsplit('\n').next().unwrap_or_default();
        let manager = line.split([',', ':', '=']).next().unwrap_or_default().trim();
        let manager = if manager.is_empty() || manager.contains(' ') { "mgr" } else { manager };
        let mut reconcilers = Vec::new();
        for at in main.find(SETUP) {
            let begin = main.expression_before(at);
            let Some(end) = main.closing(at + SETUP.len() - 1) else { continue };
            for name in main.names(begin..end) {
                if name == manager {
                } else if let Some(used) = import(name) {
                    imports.insert(used.clone());
                } else {
                    let text = format!("the variable `{name}` of {file}: define it in `setup` of main.go");
                    findings.push(Finding { place: format!("{file}:{}", main.line(at)), text });
                }
            }
            reconcilers.push(main.part(begin..end).to_owned());
        }
        if reconcilers.is_empty() {
            bail!("{file} calls no SetupWithManager: call it for each reconciler there, as kubebuilder does");
        }
        let mut schemes = Vec::new();
        for add in [".AddToScheme(", ".Install("] {
            for at in main.find(add) {
                let package = main.part(main.expression_before(at)..at);
                if let Some(used) = import(package).filter(|used| used.path != CLIENT_GO_SCHEME) {
                    schemes.push(format!("{package}{}", add.trim_end_matches('(')));
                    imports.insert(used.clone());
                }
            }
        }
        let ctrl = all.iter().find(|import| import.path == CONTROLLER_RUNTIME).map_or("ctrl", |import| &import.name);
        Ok(Self { manager: manager.to_owned(), reconcilers, schemes, imports, ctrl: ctrl.to_owned() })
    }

    /// Returns the plugin's main.go.
    fn render(&self, name: &str, from: &str, own_namespace: bool) -> String {
        let Self { manager, ctrl, .. } = self;
        let mut imports = self.imports.clone();
        imports.insert(Import { name: ctrl.clone(), path: CONTROLLER_RUNTIME.to_owned(), is_named: true });
        let sdk = "operetta.dev/sdk-go/controllerruntime".to_owned();
        imports.insert(Import { name: "controllerruntime".to_owned(), path: sdk, is_named: false });
        let mut specs: Vec<_> = imports.iter().collect();
        specs.sort_by_key(|import| &import.path);
        let specs: String = specs
            .iter()
            .map(
                |Import { name, path, is_named }| {
                    if *is_named { format!("\t{name} {path:?}\n") } else { format!("\t{path:?}\n") }
                },
            )
            .collect();
        let schemes = if self.schemes.is_empty() {
            String::new()
        } else {
            // As gofmt aligns the fields.
            let space = if own_namespace { " " } else { "" };
            format!("\tAddToScheme: {space}[]controllerruntime.AddToScheme{{{}}},\n", self.schemes.join(", "))
        };
        let namespace = if own_namespace { "\tOwnNamespace: true,\n" } else { "" };
        let calls: String = self
            .reconcilers
            .iter()
            .map(|call| format!("\tif err := {call}; err != nil {{\n\t\treturn err\n\t}}\n"))
            .collect();
        format!(
            "// {name} as an Operetta plugin. `operetta import` has made this file of {from}.\npackage main\n\nimport (\n{specs})\n\n\
             var options = controllerruntime.Options{{\n{schemes}{namespace}}}\n\nfunc init() {{ controllerruntime.Run(setup, options) \
             }}\n\nfunc main() {{}}\n\nfunc setup({manager} {ctrl}.Manager) error {{\n{calls}\treturn nil\n}}\n"
        )
    }
}
