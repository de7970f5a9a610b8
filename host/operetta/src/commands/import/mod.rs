//! `operetta import DIR`: makes a plugin project of an operator for controller-runtime or kube-rs.
//!
//! The project gets a new folder. A Go plugin is a module of its own, which uses the packages of the operator where they are.
//! A Rust plugin has a copy of the operator's code, because parts of it have to change. No existing file is changed.

mod go_module;
mod kube_rs;
mod kubebuilder;
mod markers;
mod output;
mod source_text;
mod unsupported;

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use operetta_api::{names::is_dns_label, reasons};

use self::{
    markers::{Account, Markers},
    output::Output,
    unsupported::Finding,
};
use super::print;
use crate::args::ImportArgs;

/// The files of a plugin project, and what an author has to know.
struct Imported {
    /// The name of the operator, which becomes that of the plugin.
    name: String,
    /// The files by their paths in the project.
    files: Vec<(String, String)>,
    markers: Markers,
    /// The parts of the operator that the plugin does not have.
    findings: Vec<Finding>,
    /// The SDK's folder in plugins/, after `sdk-`.
    sdk: &'static str,
    /// The command before `operetta build`.
    setup: &'static str,
    /// The content of .gitignore.
    ignored: &'static str,
}

/// Writes the plugin project, and prints what it leaves out and the next steps.
///
/// # Errors
/// Returns an error if the folder has no operator that can be imported, or a file exists already.
pub fn import(args: &ImportArgs) -> Result<()> {
    let dir = args.dir.canonicalize().with_context(|| format!("failed to open the folder {}", args.dir.display()))?;
    if let Some(namespace) = args.namespace.as_deref().filter(|namespace| !is_dns_label(namespace)) {
        bail!(reasons::INVALID_NAME.error(format!(
            "{namespace:?} is not a valid namespace: use lower case letters, digits and '-', at most 63"
        )));
    }
    let output = Output::new(args, &dir)?;
    let imported = match (dir.join("go.mod").is_file(), dir.join("Cargo.toml").is_file()) {
        (true, _) => kubebuilder::import(&dir, &output, args),
        (false, true) => kube_rs::import(&dir, &output, args),
        (false, false) => bail!(reasons::NO_PROJECT.error(format!(
            "{} is not an operator that can be imported: it has neither go.mod nor Cargo.toml",
            args.dir.display()
        ))),
    }?;
    let name = &imported.name;
    let account = Account { name, namespace: args.namespace.as_deref(), own_namespace: args.own_namespace };
    let mut files = imported.files;
    files.push((".gitignore".to_owned(), imported.ignored.to_owned()));
    files.push(("rbac.yaml".to_owned(), imported.markers.yaml(&account, RBAC)));
    let steps = steps(name, imported.setup, &output, args.namespace.as_deref());
    let report = unsupported::report(&imported.findings);
    files.push(("README.md".to_owned(), readme(name, &args.dir, &steps, &report)));
    output.write(&files, imported.sdk)?;
    print(&format!(
        "{}: the plugin {name}, from {}\n\n{report}\nNext:\n\n  {}\n",
        output.shown(),
        args.dir.display(),
        steps.join("\n  ")
    ))
}

const RBAC: &str = "# The ServiceAccount that the plugin acts as, with the permissions of the operator. `operetta rbac`\n\
                    # prints which of them the running plugin has used.\n";

/// Returns the commands that build and install the plugin.
fn steps(name: &str, setup: &str, output: &Output, namespace: Option<&str>) -> Vec<String> {
    let flag = namespace.map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    vec![
        format!("cd {}", output.shown()),
        setup.to_owned(),
        "operetta build".to_owned(),
        "kubectl apply -f rbac.yaml".to_owned(),
        format!("operetta bundle build/{name}.wasm --service-account {name}{flag} | kubectl apply --server-side -f -"),
    ]
}

fn readme(name: &str, from: &Path, steps: &[String], report: &str) -> String {
    let from = from.file_name().map_or_else(|| name.to_owned(), |folder| folder.to_string_lossy().into_owned());
    let commands: String = steps[1..].iter().map(|step| format!("$ {step}\n")).collect();
    format!(
        "# {name}\n\nAn Operetta plugin, which `operetta import` made of the operator in the folder `{from}`.\n\n## Build and \
         run\n\nThe CRDs of the operator have to be installed.\n\n```console\n{commands}```\n\n`operetta bundle` prints \
         ConfigMaps, of which the host makes the Plugin.\n\n## Not imported\n\n{report}"
    )
}

/// Returns the name of the plugin: the flag's, or the operator's in the form of a name in Kubernetes.
///
/// # Errors
/// Returns an error if it is no DNS label.
fn plugin_name(args: &ImportArgs, operator: &str) -> Result<String> {
    let name = args.name.clone().unwrap_or_else(|| operator.to_lowercase().replace('_', "-"));
    if !is_dns_label(&name) || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        bail!(reasons::INVALID_NAME.error(format!(
            "{name:?} is not a valid plugin name: use a lower case letter, then letters, digits and '-', at most 63 (--name \
             overrides it)"
        )));
    }
    Ok(name)
}

/// Returns the files of a project with this extension, by their paths in it, sorted. Folders of tools are left out.
///
/// # Errors
/// Returns an error if a folder or a file cannot be read.
fn source_files(dir: &Path, extension: &str) -> Result<Vec<(String, String)>> {
    const LEFT_OUT: &[&str] = &["vendor", "testdata", "target", "node_modules", "bin"];
    let mut files = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = || format!("failed to read {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(failed)? {
            let entry = entry.with_context(failed)?;
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let kind = entry.file_type().with_context(failed)?;
            if kind.is_dir() {
                // A folder with a module of its own is another project, as a plugin that was imported before.
                let is_other = path.join("go.mod").is_file() || path.join("Cargo.toml").is_file();
                if !name.starts_with('.') && !LEFT_OUT.contains(&name.as_str()) && !is_other {
                    folders.push(path);
                }
            } else if kind.is_file() && path.extension().is_some_and(|found| found == extension) {
                let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
                let inner = path.strip_prefix(dir).unwrap_or(&path).display().to_string();
                files.push((inner, text));
            }
        }
    }
    files.sort();
    Ok(files)
}
