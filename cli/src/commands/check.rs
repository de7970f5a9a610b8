//! `operetta check FILE.wasm`: prints a component's contents, and whether the host would accept it.

use std::sync::Arc;

use anyhow::{Context, Result};
use operetta_core::{
    manifest::{Controller, Manifest, Source},
    ports::{LogLevel, LogRecord, LogSink},
};
use operetta_host::terminal;
use operetta_wasm::{
    Allocation, Component, Engine, EngineConfig, Format, LoadError, LoadLimits, Plugin, inspect,
};
use serde_json::json;

use super::{print, print_document, snapshot_record::SnapshotRecord};
use crate::args::{CheckArgs, Output};
use operetta_manager::config::HostConfig;

/// A sink that writes a guest's log lines to stderr, each after the name of the step.
pub struct Stderr(pub &'static str);

impl LogSink for Stderr {
    fn enabled(&self, level: LogLevel) -> bool {
        level <= LogLevel::Info
    }

    fn write(&self, record: LogRecord) {
        terminal::note(format_args!("{}: {}", self.0, record.message));
    }
}

/// Prints a report about the file.
///
/// # Errors
/// Returns an error if the file cannot be read, or with the host's reason if the host would refuse
/// it.
pub async fn check(args: CheckArgs) -> Result<()> {
    let bytes = std::fs::read(&args.file)
        .with_context(|| format!("failed to read {}", args.file.display()))?;

    let inspection = inspect(&bytes);
    let snapshot = SnapshotRecord::read(&bytes);
    let loaded = try_load(bytes).await?;

    let format = match inspection.format {
        Format::Component => "component",
        Format::CoreModule => "core module",
        Format::NotWasm => "not WebAssembly",
    };

    let manifest = match &loaded {
        Ok(Component::Plugin(plugin)) => Some(plugin.manifest()),
        _ => None,
    };

    let report = json!({
        "file": args.file.display().to_string(),
        "format": format,
        "digest": inspection.digest,
        "sizeBytes": inspection.size,
        "imports": inspection.imports,
        "exports": inspection.exports,
        "snapshot": snapshot.as_ref().map(|snapshot| match snapshot {
            SnapshotRecord::Taken => json!({"taken": true}),
            SnapshotRecord::Skipped(reason) => json!({"taken": false, "reason": reason}),
        }),
        "process": matches!(loaded, Ok(Component::Process(_))),
        "manifest": manifest,
        "error": loaded.as_ref().err().map(|error| json!({"reason": error.reason().as_str(), "message": error.to_string()})),
    });

    match args.output {
        Some(Output::Json) => print_document(&(serde_json::to_string_pretty(&report)? + "\n"))?,
        Some(Output::Yaml) => print_document(&serde_yaml_ng::to_string(&report)?)?,
        None => print(&human(&report, manifest))?,
    }

    loaded.map(drop).map_err(refused)
}

/// Loads a plugin as the host does.
///
/// # Errors
/// Returns the host's reason if the host would refuse the component, or an error if it is a process.
pub async fn load(bytes: Vec<u8>) -> Result<Arc<Plugin>> {
    match try_load(bytes).await?.map_err(refused)? {
        Component::Plugin(plugin) => Ok(plugin),
        Component::Process(_) => Err(refused(LoadError::NotPlugin)),
    }
}

/// Checks the format of a component, its imports and exports, and its compile cost.
///
/// # Errors
/// Returns the host's reason if the host would refuse the component for these.
pub fn without_compiling(bytes: &[u8]) -> Result<()> {
    operetta_wasm::check(bytes, &LoadLimits::default())
        .map(drop)
        .map_err(refused)
}

async fn try_load(bytes: Vec<u8>) -> Result<Result<Component, LoadError>> {
    let engine = EngineConfig {
        allocation: Allocation::OnDemand,
        ..EngineConfig::default()
    };
    let engine = Engine::with_code(&engine, HostConfig::default().code()?)?;

    Ok(Component::load(
        &engine,
        bytes,
        &LoadLimits::default(),
        Arc::new(Stderr("describe")),
    )
    .await)
}

fn refused(error: LoadError) -> anyhow::Error {
    error
        .reason()
        .error(format!("the host would refuse it: {error}"))
        .into()
}

/// Names the controllers and their kinds, in one line.
pub fn summary(manifest: &Manifest) -> String {
    let one = |controller: &Controller| {
        format!(
            "{} for {}",
            controller.name,
            controller.for_.group_version_kind()
        )
    };
    let all: Vec<_> = manifest.controllers.iter().map(one).collect();

    format!(
        "{} {}",
        if all.len() == 1 {
            "controller"
        } else {
            "controllers"
        },
        all.join(", ")
    )
}

/// Formats the report for people.
fn human(report: &serde_json::Value, manifest: Option<&Manifest>) -> String {
    let text = |field: &str| report[field].as_str().unwrap_or_default().to_owned();
    let list = |field: &str| {
        let all: Vec<&str> = report[field]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|line| line.as_str())
            .collect();
        if all.is_empty() {
            "none".to_owned()
        } else {
            all.join("\n             ")
        }
    };

    let mut lines = vec![
        format!("File:        {}", text("file")),
        format!("Format:      {}", text("format")),
        format!("Digest:      {}", text("digest")),
        format!("Size:        {} bytes", report["sizeBytes"]),
        format!("Imports:     {}", list("imports")),
        format!("Exports:     {}", list("exports")),
    ];

    match (
        report["snapshot"]["taken"].as_bool(),
        report["snapshot"]["reason"].as_str(),
    ) {
        (Some(true), _) => lines.push("Snapshot:    taken at build time".to_owned()),
        (Some(false), reason) => lines.push(format!(
            "Snapshot:    skipped, each reconcile initializes the runtime: {}",
            reason.unwrap_or_default()
        )),
        (None, _) => {}
    }

    if report["process"] == true {
        lines.push("Process:     runs its own main, with what RBAC permits".to_owned());
    }
    for controller in manifest.iter().flat_map(|manifest| &manifest.controllers) {
        let resync = match controller.resync_seconds {
            0 => String::new(),
            seconds => format!(", resync every {seconds} s"),
        };
        lines.push(format!(
            "Controller:  {}, {} worker(s){resync}",
            controller.name, controller.workers
        ));
        lines.extend(group("For", std::iter::once(&controller.for_)));
        lines.extend(group("Owns", &controller.owns));
        lines.extend(group(
            "Watches",
            controller.watches.iter().map(|watch| &watch.source),
        ));
        if !controller.finalizers.is_empty() {
            lines.push(format!(
                "  Finalizers: {}",
                terminal::line(&controller.finalizers.join(", "))
            ));
        }
    }

    lines.into_iter().map(|line| line + "\n").collect()
}

/// Formats the sources of a controller, one to a line after the group's title.
fn group<'a>(title: &str, sources: impl IntoIterator<Item = &'a Source>) -> Vec<String> {
    let titles = std::iter::once(format!("{title}:")).chain(std::iter::repeat(String::new()));
    sources
        .into_iter()
        .zip(titles)
        .map(|(source, title)| format!("  {title:10} {}", source_line(source)))
        .collect()
}

/// Formats a source: its kind, the namespaces, and the selectors and predicates if it has any.
fn source_line(source: &Source) -> String {
    let namespaces = if source.namespaces.is_all() {
        "all namespaces"
    } else {
        "own namespace"
    };
    let mut line = format!("{}, {namespaces}", source.group_version_kind());

    let selectors = [
        ("labels", &source.label_selector),
        ("fields", &source.field_selector),
    ];
    for (name, selector) in selectors {
        if let Some(selector) = selector.as_deref().filter(|selector| !selector.is_empty()) {
            line += &format!(", {name} {}", terminal::line(selector));
        }
    }

    // As the manifest and spec.controllers have them, to copy from here to there.
    if !source.predicates.is_empty() {
        let predicates = serde_json::to_string(&source.predicates).unwrap_or_default();
        line += &format!(", predicates {}", terminal::line(&predicates));
    }

    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_resync_and_predicates() {
        let manifest = json!({
            "apiVersion": "operetta.dev/v1alpha1",
            "kind": "Manifest",
            "controllers": [{
                "name": "web",
                "for": {
                    "apiVersion": "example.com/v1",
                    "kind": "Site",
                    "predicates": ["GenerationChanged", {"not": {"changed": "$.spec['a b']"}}],
                },
                "workers": 2,
                "resyncSeconds": 600,
            }],
        });
        let manifest: Manifest = serde_json::from_value(manifest).expect("a manifest");

        let printed = human(&json!({"snapshot": null}), Some(&manifest));

        let expected = r#"Controller:  web, 2 worker(s), resync every 600 s
  For:       Site.example.com/v1, all namespaces, predicates ["GenerationChanged",{"not":{"changed":"$.spec['a b']"}}]
"#;
        assert!(printed.ends_with(expected), "{printed}");
    }

    #[test]
    fn report_has_namespaces_and_selectors_of_each_source() {
        let manifest = json!({
            "apiVersion": "operetta.dev/v1alpha1",
            "kind": "Manifest",
            "controllers": [{
                "name": "web",
                "for": {"apiVersion": "example.com/v1", "kind": "Site"},
                "owns": [
                    {"apiVersion": "apps/v1", "kind": "Deployment", "namespaces": "Own", "labelSelector": "app=web"},
                    {"apiVersion": "v1", "kind": "Service"},
                ],
                "finalizers": ["example.com/cleanup", "example.com/\u{1b}[31m"],
                "watches": [{
                    "source": {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "labelSelector": "tier!=db",
                        "fieldSelector": "status.phase=Running\u{1b}[31m",
                    },
                    "map": {"type": "SameName"},
                }],
            }],
        });
        let manifest: Manifest = serde_json::from_value(manifest).expect("a manifest");

        let printed = human(&json!({"snapshot": null}), Some(&manifest));
        let (_, sources) = printed
            .split_once("Controller:  web, 1 worker(s)\n")
            .expect("the controller");

        let expected = r"  For:       Site.example.com/v1, all namespaces
  Owns:      Deployment.apps/v1, own namespace, labels app=web
             Service.v1, all namespaces
  Watches:   Pod.v1, all namespaces, labels tier!=db, fields status.phase=Running\u{1b}[31m
  Finalizers: example.com/cleanup, example.com/\u{1b}[31m
";
        assert_eq!(sources, expected);
        assert!(!printed.contains("Snapshot"), "{printed}");
    }

    #[test]
    fn report_says_what_a_process_is() {
        let printed = human(&json!({"process": true}), None);
        assert!(
            printed.ends_with("Process:     runs its own main, with what RBAC permits\n"),
            "{printed}"
        );
        assert!(!human(&json!({"process": false}), None).contains("Process"));
    }

    #[test]
    fn report_has_the_snapshot_or_the_reason_why_it_was_skipped() {
        let taken = human(&json!({"snapshot": {"taken": true}}), None);
        assert!(
            taken.contains("Snapshot:    taken at build time\n"),
            "{taken}"
        );

        let skipped = human(
            &json!({"snapshot": {"taken": false, "reason": "it is too large"}}),
            None,
        );
        assert!(skipped.contains(
            "Snapshot:    skipped, each reconcile initializes the runtime: it is too large\n"
        ));
    }
}
