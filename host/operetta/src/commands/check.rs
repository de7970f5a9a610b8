//! `operetta check FILE.wasm`: what a component is, and whether the host would take it.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use operetta_core::{
    manifest::{Controller, Manifest},
    ports::{LogLevel, LogRecord, LogSink},
};
use operetta_wasm::{Allocation, Engine, EngineConfig, Format, LoadError, LoadLimits, Plugin, inspect};
use serde_json::json;

use crate::args::{CheckArgs, Output};
use operetta_manager::config::HostConfig;

/// Writes a guest's log lines to stderr, after the name of what runs.
pub struct Stderr(pub &'static str);

impl LogSink for Stderr {
    fn enabled(&self, level: LogLevel) -> bool {
        level <= LogLevel::Info
    }

    fn write(&self, record: LogRecord) {
        eprintln!("{}: {}", self.0, record.message);
    }
}

/// Prints what the file is; fails with the host's reason if the host would refuse it.
pub async fn check(args: CheckArgs) -> Result<()> {
    let bytes = std::fs::read(&args.file).with_context(|| format!("cannot read {}", args.file.display()))?;
    let inspection = inspect(&bytes);
    let loaded = try_load(bytes).await?;
    let format = match inspection.format {
        Format::Component => "component",
        Format::CoreModule => "core module",
        Format::NotWasm => "no WebAssembly",
    };
    let report = json!({
        "file": args.file.display().to_string(),
        "format": format,
        "digest": inspection.digest,
        "sizeBytes": inspection.size,
        "imports": inspection.imports,
        "exports": inspection.exports,
        "manifest": loaded.as_ref().ok().map(Plugin::manifest),
        "error": loaded.as_ref().err().map(|error| json!({"reason": error.reason(), "message": error.to_string()})),
    });
    match args.output {
        Some(Output::Json) => println!("{}", serde_json::to_string_pretty(&report)?),
        Some(Output::Yaml) => print!("{}", serde_yaml_ng::to_string(&report)?),
        None => print_human(&report, loaded.as_ref().ok()),
    }
    loaded.map(drop).map_err(refused)
}

/// Loads a component as the host does.
///
/// # Errors
/// The host's reason, if it would refuse it.
pub async fn load(bytes: Vec<u8>) -> Result<Plugin> {
    try_load(bytes).await?.map_err(refused)
}

async fn try_load(bytes: Vec<u8>) -> Result<Result<Plugin, LoadError>> {
    let engine = EngineConfig { allocation: Allocation::OnDemand, ..EngineConfig::default() };
    let engine = Engine::with_code(&engine, HostConfig::default().code()?)?;
    Ok(Plugin::load(&engine, bytes, &LoadLimits::default(), Arc::new(Stderr("describe"))).await)
}

fn refused(error: LoadError) -> anyhow::Error {
    anyhow!("the host would refuse it: {error} ({})", error.reason())
}

/// The controllers and the kinds they reconcile, in one line.
pub fn summary(manifest: &Manifest) -> String {
    let one = |controller: &Controller| format!("{} for {}", controller.name, controller.for_.group_version_kind());
    let all: Vec<_> = manifest.controllers.iter().map(one).collect();
    format!("{} {}", if all.len() == 1 { "controller" } else { "controllers" }, all.join(", "))
}

fn print_human(report: &serde_json::Value, plugin: Option<&Plugin>) {
    let text = |field: &str| report[field].as_str().unwrap_or_default().to_owned();
    let lines = |field: &str| {
        let all: Vec<&str> = report[field].as_array().into_iter().flatten().filter_map(|line| line.as_str()).collect();
        if all.is_empty() { "none".to_owned() } else { all.join("\n             ") }
    };
    println!("File:        {}", text("file"));
    println!("Format:      {}", text("format"));
    println!("Digest:      {}", text("digest"));
    println!("Size:        {} bytes", report["sizeBytes"]);
    println!("Imports:     {}", lines("imports"));
    println!("Exports:     {}", lines("exports"));
    for controller in plugin.iter().flat_map(|plugin| &plugin.manifest().controllers) {
        let kinds = |sources: &mut dyn Iterator<Item = &operetta_core::manifest::Source>| {
            sources.map(|source| source.group_version_kind().to_string()).collect::<Vec<_>>().join(", ")
        };
        println!("Controller:  {}, {} worker(s)", controller.name, controller.workers);
        println!("  For:       {}", controller.for_.group_version_kind());
        if !controller.owns.is_empty() {
            println!("  Owns:      {}", kinds(&mut controller.owns.iter()));
        }
        if !controller.watches.is_empty() {
            println!("  Watches:   {}", kinds(&mut controller.watches.iter().map(|watch| &watch.source)));
        }
    }
}
