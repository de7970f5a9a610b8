//! Makes a component from a language's core module.
//!
//! The runtime of a Go module is initialized once here, and the component contains the memory after
//! that, so that no reconcile has to initialize it.

use anyhow::{Context, Result};
use operetta_wasm::{Allocation, Engine, EngineConfig, SnapshotError};
use wasm_encoder::{ExportKind, ExportSection, Module, RawSection};
use wasmparser::{ExternalKind, Parser, Payload};

use super::{Job, steps::Steps};
use crate::{
    args::Language,
    commands::{
        check::Stderr,
        component::encode::{INITIALIZE, Start, encode},
        output_file::size,
        snapshot_record::SnapshotRecord,
    },
};

/// The name of the initialization function as compilers export it, and as the component has it.
const RENAMED: (&str, &str) = ("_initialize", INITIALIZE);

/// A component, and the outcome of its snapshot; None for a language without snapshots.
pub struct Componentized {
    pub component: Vec<u8>,
    pub snapshot: Option<SnapshotRecord>,
}

/// Makes the component, with a snapshot where the language needs one.
///
/// # Errors
/// Returns an error if the module does not fit the contract's world, or its initialization fails.
pub async fn componentize(
    job: &Job<'_>,
    module: &[u8],
    steps: &mut Steps,
) -> Result<Componentized> {
    let is_go = job.project.language == Language::Go;
    let take = is_go && !job.args.no_snapshot;
    let component = steps.run("componentize", |note| {
        let component = if take {
            encode(&rename(module)?, Start::Exported)
        } else {
            encode(module, Start::Instantiation)
        }?;
        *note = size(component.len());
        Ok(component)
    })?;

    if !take {
        let skipped = is_go.then(|| SnapshotRecord::Skipped("--no-snapshot was given".to_owned()));
        return Ok(Componentized {
            component,
            snapshot: skipped,
        });
    }

    let running = steps.begin("snapshot");
    let engine = EngineConfig {
        allocation: Allocation::OnDemand,
        optimize: false,
        ..EngineConfig::default()
    };
    let engine = Engine::new(&engine)?;
    let snapshot = operetta_wasm::compiler::snapshot(
        &engine,
        &component,
        RENAMED.1,
        std::sync::Arc::new(Stderr("snapshot")),
    )
    .await;

    match snapshot {
        Ok(snapshot) => {
            steps.end(running, &format!("{} -> {}", size(component.len()), size(snapshot.len())));
            Ok(Componentized { component: snapshot, snapshot: Some(SnapshotRecord::Taken) })
        }
        // Such a program also works without a snapshot, but starts slower.
        Err(SnapshotError::Unsupported(reason)) => {
            steps.end(running, &format!("skipped, each reconcile initializes the runtime: {reason}"));
            Ok(Componentized {
                component: encode(module, Start::Instantiation)?,
                snapshot: Some(SnapshotRecord::Skipped(reason)),
            })
        }
        Err(error) => Err(error)
            .context("failed to initialize the runtime at build time (--no-snapshot does it in each reconcile)"),
    }
}

/// Renames the initialisation function, so that instantiating the component does not call it.
fn rename(module: &[u8]) -> Result<Vec<u8>> {
    let mut renamed = Module::new();
    let mut found = false;

    for payload in Parser::new(0).parse_all(module) {
        let payload = payload.context("the compiler's module is malformed")?;
        if let Payload::ExportSection(section) = payload {
            let mut exports = ExportSection::new();
            for export in section {
                let export = export?;
                let is_init = export.name == RENAMED.0;
                found |= is_init;
                exports.export(
                    if is_init { RENAMED.1 } else { export.name },
                    kind(export.kind),
                    export.index,
                );
            }
            renamed.section(&exports);
        } else if let Some((id, range)) = payload.as_section() {
            renamed.section(&RawSection {
                id,
                data: &module[range],
            });
        }
    }

    anyhow::ensure!(
        found,
        "the module exports no {}: is it built with -buildmode=c-shared?",
        RENAMED.0
    );

    Ok(renamed.finish())
}

fn kind(kind: ExternalKind) -> ExportKind {
    match kind {
        ExternalKind::Func | ExternalKind::FuncExact => ExportKind::Func,
        ExternalKind::Table => ExportKind::Table,
        ExternalKind::Memory => ExportKind::Memory,
        ExternalKind::Global => ExportKind::Global,
        ExternalKind::Tag => ExportKind::Tag,
    }
}

#[cfg(test)]
mod tests {
    use operetta_wasm::{LoadLimits, Plugin};

    use super::*;
    use crate::commands::component::encode::tests::MODULE;

    /// A plugin module whose initialization function writes to memory.
    fn module() -> Vec<u8> {
        let initialize =
            r#"(module (func (export "_initialize") i32.const 1024 i32.const 7 i32.store)"#;
        wat::parse_str(MODULE.replacen("(module", initialize, 1)).expect("a module")
    }

    #[test]
    fn a_module_of_the_world_becomes_a_component() {
        let component = encode(&module(), Start::Instantiation).expect("a component");
        let inspection = operetta_wasm::inspect(&component);
        assert_eq!(inspection.exports, ["operetta:controller/reconciler@0.1.0"]);
        assert_eq!(inspection.error, None);
    }

    #[tokio::test]
    async fn a_snapshot_holds_what_the_initialisation_wrote() {
        let component =
            encode(&rename(&module()).expect("renamed"), Start::Exported).expect("a component");

        let engine = Engine::new(&EngineConfig {
            concurrent_calls: 1,
            ..EngineConfig::default()
        })
        .expect("engine");

        let logs = std::sync::Arc::new(Stderr("snapshot"));
        let made = operetta_wasm::compiler::snapshot(&engine, &component, RENAMED.1, logs)
            .await
            .expect("a snapshot");

        let data = |component: &[u8]| {
            Parser::new(0)
                .parse_all(component)
                .any(|payload| matches!(payload, Ok(Payload::DataSection(_))))
        };

        assert!(!data(&component) && data(&made));
        assert_eq!(
            operetta_wasm::inspect(&made).exports,
            operetta_wasm::inspect(&component).exports
        );
    }

    /// A plugin module that prints a line, in its initialisation and again in `describe`.
    fn talkative() -> Vec<u8> {
        let manifest = r#"{"apiVersion":"operetta.dev/v1alpha1","kind":"Manifest","controllers":[{"name":"c","for":{"apiVersion":"v1","kind":"Pod"}}]}"#;
        let text = format!(
            r#"(module
                (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
                (memory (export "memory") 8)
                (global $next (mut i32) (i32.const 65536))
                (func $say (if (call $write (i32.const 1) (i32.const 16) (i32.const 1) (i32.const 24)) (then unreachable)))
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                    (global.set $next (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
                    (global.get $next)
                    (global.set $next (i32.add (global.get $next) (local.get 3))))
                (func (export "operetta:controller/reconciler@0.1.0#describe") (result i32) call $say i32.const 8)
                (func (export "operetta:controller/reconciler@0.1.0#reconcile")
                    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) i32.const 32)
                (func (export "_initialize") call $say)
                (data (i32.const 8) "\00\04\00\00\{length:02x}\00\00\00")
                (data (i32.const 16) "\00\02\00\00\03\00\00\00")
                (data (i32.const 512) "hi\n")
                (data (i32.const 1024) "{manifest}"))"#,
            length = manifest.len(),
            manifest = manifest.replace('"', "\\22"),
        );
        wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    /// The handle of stdout that the initialisation got does not exist in later instances.
    #[tokio::test]
    async fn after_a_snapshot_the_guest_can_still_write() {
        let component =
            encode(&rename(&talkative()).expect("renamed"), Start::Exported).expect("a component");

        let engine = Engine::new(&EngineConfig {
            concurrent_calls: 1,
            ..EngineConfig::default()
        })
        .expect("engine");

        let logs = std::sync::Arc::new(Stderr("snapshot"));
        let made = operetta_wasm::compiler::snapshot(&engine, &component, RENAMED.1, logs.clone())
            .await
            .expect("a snapshot");

        Plugin::load(&engine, made, &LoadLimits::default(), logs)
            .await
            .expect("describes itself");
    }

    #[test]
    fn what_is_no_plugin_is_refused_with_what_it_lacks() {
        let empty = wat::parse_str("(module)").expect("a module");
        let error = format!(
            "{:#}",
            encode(&empty, Start::Instantiation).expect_err("no exports")
        );
        assert!(error.contains("reconciler"), "{error}");

        let error = rename(&empty).expect_err("nothing to rename").to_string();
        assert!(error.contains("-buildmode=c-shared"), "{error}");
        encode(b"hello", Start::Instantiation).expect_err("no module");
    }
}
