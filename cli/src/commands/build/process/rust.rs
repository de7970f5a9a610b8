//! A Rust program that was not written for Operetta, built as it is for wasm32-wasip2: a command of
//! WASI 0.2, which runs as a process.
//!
//! Cargo.toml, Cargo.lock and the configuration of cargo stay what they are. A few crates get changed
//! lines for this build alone ([`crates`](super::crates)).

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use operetta_api::reasons::{self, CodedError};
use serde_json::Value;

use super::{
    cargo_metadata::{Metadata, Package},
    crates::Changed,
};
use crate::commands::{
    build::{
        Job, Tools,
        project::Project,
        rust::{FLAGS, TARGET, check_target},
        steps::Steps,
        tools::output_of,
    },
    check,
};

/// The SDK's crate. A package that uses it is a plugin.
const SDK: &str = "operetta-sdk";

/// The first version of Rust whose library for WASI lets tokio accept connections.
const MINIMUM: (u32, u32) = (1, 97);

/// Crates that compile C or assembler, or link a library of the system.
const NATIVE: [&str; 4] = ["aws-lc-sys", "ring", "openssl-sys", "libz-sys"];

/// Reports whether a package is a program rather than a plugin: it has a main, and nothing of a
/// plugin.
pub fn is_program(project: &Project) -> bool {
    let text = std::fs::read_to_string(project.dir.join("Cargo.toml")).unwrap_or_default();
    let Ok(manifest) = text.parse::<toml::Table>() else {
        return false;
    };
    let has_main = manifest.contains_key("bin")
        || ["src/main.rs", "src/bin"]
            .iter()
            .any(|place| project.dir.join(place).exists());
    has_main && !is_plugin(&manifest)
}

/// Whether a manifest is a plugin's: it depends on the SDK, or makes a component of its library.
fn is_plugin(manifest: &toml::Table) -> bool {
    let tables = ["dependencies", "dev-dependencies"];
    let depends = tables
        .iter()
        .filter_map(|table| manifest.get(*table)?.as_table())
        .flatten()
        .any(|(name, dependency)| {
            let package = dependency.get("package").and_then(toml::Value::as_str);
            package.unwrap_or(name) == SDK
        });

    let types = manifest
        .get("lib")
        .and_then(|lib| lib.get("crate-type")?.as_array());
    let is_component = types
        .into_iter()
        .flatten()
        .any(|kind| kind.as_str() == Some("cdylib"));
    depends || is_component
}

/// Compiles the program and returns the component.
///
/// # Errors
/// Returns an error if cargo, its target or a new enough Rust is missing, if no program can be
/// chosen, if a crate isn't what its change expects, if cargo fails, or if the host would refuse the
/// component.
pub fn compile(job: &Job<'_>, steps: &mut Steps) -> Result<Vec<u8>> {
    if job.args.program.tags.is_some() || job.args.program.ldflags.is_some() {
        bail!(
            "--tags and --ldflags are for programs in Go: give cargo's arguments after --, such as `-- --features NAME`"
        );
    }

    let build = steps.run("packages", |note| {
        let build = CargoBuild::new(job)?;
        *note = build.decision();
        Ok(build)
    })?;

    let component = steps.run("compile", |note| {
        let (component, command) = build.compile()?;
        *note = command;
        Ok(component)
    })?;
    check::without_compiling(&component)?;
    Ok(component)
}

/// One program's build by `cargo`.
struct CargoBuild<'a> {
    job: &'a Job<'a>,
    cargo: PathBuf,
    /// As `rustc --version` prints it.
    rustc: String,
    metadata: Metadata,
    package: Package,
    program: String,
    changed: Changed,
}

impl<'a> CargoBuild<'a> {
    fn new(job: &'a Job<'a>) -> Result<Self> {
        let dir = &job.project.dir;
        let tools = Tools::of(dir);
        let cargo = tools.find("cargo", "see https://rustup.rs")?;
        let rustc = tools.find("rustc", "see https://rustup.rs")?;
        check_target(&rustc, dir, TARGET)?;
        let rustc = output_of(Command::new(rustc).current_dir(dir).arg("--version"))?;
        check_version(rustc.trim())?;

        let output = output_of(
            Command::new(&cargo)
                .current_dir(dir)
                .args(["metadata", "--format-version", "1"])
                .args(["--filter-platform", TARGET])
                .args(features(&job.args.compiler_args)),
        )?;
        let metadata: Metadata =
            serde_json::from_str(&output).context("failed to read the output of cargo metadata")?;
        let manifest = dir.join("Cargo.toml");
        let package = metadata.package(&manifest).cloned();
        let package =
            package.with_context(|| format!("cargo knows no package in {}", manifest.display()))?;

        let program = choose(&package, job.args.program.main.as_deref())?;
        let changed = Changed::of(&metadata)?;
        Ok(Self {
            job,
            cargo,
            rustc: rustc.trim().to_owned(),
            metadata,
            package,
            program,
            changed,
        })
    }

    /// What was chosen, and why, in one line.
    fn decision(&self) -> String {
        let why = if self.job.args.process {
            "--process"
        } else {
            "it doesn't use Operetta's SDK"
        };
        let mut decision = format!("{} with {}, as a process: {why}", self.program, self.rustc);

        let mut others = self.package.programs();
        others.retain(|program| *program != self.program);
        if !others.is_empty() {
            decision += &format!("; --main chooses another: {}", others.join(", "));
        }
        if !self.changed.names.is_empty() {
            decision += &format!("; with changes: {}", self.changed.names.join(", "));
        }
        decision
    }

    /// Compiles the program. Returns the component and the command line, without arguments that name
    /// a folder.
    fn compile(&self) -> Result<(Vec<u8>, String)> {
        let mut flags = vec!["--bin", &self.program, "--target", TARGET];
        let own = &self.job.args.compiler_args;
        let has_profile = own
            .iter()
            .any(|arg| arg == "-r" || arg == "--release" || arg.starts_with("--profile"));
        if !self.job.args.debug && !has_profile {
            flags.push("--release");
        }
        flags.extend(own.iter().map(String::as_str));

        let mut cargo = Command::new(&self.cargo);
        cargo
            .current_dir(&self.job.project.dir)
            .args(["build", "--message-format", "json-render-diagnostics"])
            .args(["--config", &format!("target.{TARGET}.rustflags={FLAGS:?}")])
            .args(["--config", &format!("paths={:?}", self.changed.paths)])
            .args(&flags);
        let messages = output_of(&mut cargo).map_err(|error| match self.native() {
            Some(native) => error.context(native),
            None => error,
        })?;

        let file = artifact(&messages, &self.package, &self.program)?;
        let component = self.job.read(Path::new(&file))?;
        Ok((component, format!("cargo build {}", flags.join(" "))))
    }

    /// What may have stopped the compiler: crates that need more than Rust.
    fn native(&self) -> Option<CodedError> {
        let chains: Vec<String> = NATIVE
            .iter()
            .map(|name| self.metadata.chain(&self.package, name))
            .filter(|chain| !chain.is_empty())
            .map(|chain| format!("\n    {}", chain.join(" -> ")))
            .collect();
        if chains.is_empty() {
            return None;
        }

        Some(reasons::NOT_PORTABLE.error(format!(
            "the program uses crates that compile C or assembler, for which clang must know wasm32-wasip2:{}\n  The API \
             server that a process sees needs no TLS. Without it, kube is `default-features = false, features = \
             [\"client\", \"runtime\"]`; a feature of your package can choose, with `-- --no-default-features`",
            chains.concat()
        )))
    }
}

/// Checks that this version of Rust is new enough.
fn check_version(version: &str) -> Result<()> {
    let numbers = version.split(' ').nth(1).unwrap_or_default();
    let mut numbers = numbers.split('.').map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        bail!("rustc says that it is {version:?}, which is no version of Rust");
    };
    if (major, minor) < MINIMUM {
        bail!(reasons::TOOL_UNSUPPORTED.error(format!(
            "{version} is too old for a program that runs as a process, which needs Rust {}.{}: before it, a listener of \
             tokio can't accept on {TARGET}",
            MINIMUM.0, MINIMUM.1
        )));
    }
    Ok(())
}

/// The arguments that choose features, which decide which crates are used.
fn features(arguments: &[String]) -> Vec<&str> {
    let mut chosen = Vec::new();
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument {
            "--features" | "-F" => {
                chosen.push("--features");
                chosen.extend(arguments.next());
            }
            "--all-features" | "--no-default-features" | "--locked" | "--frozen" | "--offline" => {
                chosen.push(argument);
            }
            _ if argument.starts_with("--features=") => chosen.push(argument),
            _ => {}
        }
    }
    chosen
}

/// Chooses one of a package's programs.
fn choose(package: &Package, main: Option<&str>) -> Result<String> {
    let programs = package.programs();
    let named = |name: &str| programs.contains(&name).then(|| name.to_owned());

    let chosen = match (main, programs.as_slice()) {
        (Some(main), _) => named(main),
        (None, [only]) => Some((*only).to_owned()),
        (None, _) => package
            .default_run
            .as_deref()
            .and_then(named)
            .or_else(|| named(&package.name)),
    };

    if let Some(chosen) = chosen {
        return Ok(chosen);
    }
    let package = &package.name;
    let why = match (main, programs.as_slice()) {
        (_, []) => format!("{package} has no program: it needs src/main.rs, or a [[bin]]"),
        (Some(main), _) => format!(
            "{package} has no program {main}: it has {}",
            programs.join(", ")
        ),
        (None, _) => format!(
            "{package} has several programs: choose one with --main: {}",
            programs.join(", ")
        ),
    };
    bail!(reasons::NO_MAIN_PACKAGE.error(why))
}

/// Finds the program's file in cargo's messages.
fn artifact(messages: &str, package: &Package, program: &str) -> Result<String> {
    let mut files = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter(|message| {
            let manifest = message["manifest_path"].as_str().map(Path::new);
            manifest == Some(&package.manifest_path) && message["target"]["name"] == program
        })
        .filter_map(|message| message["executable"].as_str().map(str::to_owned));
    files
        .find(|file| file.ends_with(".wasm"))
        .with_context(|| format!("cargo succeeded but built no {program}.wasm"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::build::process::cargo_metadata::Target;

    fn package(programs: &[&str]) -> Package {
        let targets = programs.iter().map(|name| Target {
            name: (*name).to_owned(),
            kind: vec!["bin".to_owned()],
        });
        let library = Target {
            name: "library".to_owned(),
            kind: vec!["lib".to_owned()],
        };
        Package {
            targets: targets.chain([library]).collect(),
            ..Package::from_registry("op", "1.0.0", Path::new("/op"))
        }
    }

    #[test]
    fn program_is_chosen_as_cargo_run_does() {
        let chosen = |programs: &[&str], main| choose(&package(programs), main).ok();
        assert_eq!(chosen(&["manager"], None).as_deref(), Some("manager"));
        assert_eq!(chosen(&["tool", "op"], None).as_deref(), Some("op"));
        assert_eq!(
            chosen(&["tool", "op"], Some("tool")).as_deref(),
            Some("tool")
        );
        let default = Package {
            default_run: Some("b".to_owned()),
            ..package(&["a", "b"])
        };
        assert_eq!(choose(&default, None).ok().as_deref(), Some("b"));

        for (programs, main, why) in [
            (&[][..], None, "has no program"),
            (&["a", "b"], None, "choose one with --main: a, b"),
            (&["a", "b"], Some("c"), "has no program c: it has a, b"),
        ] {
            let error = choose(&package(programs), main).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn plugins_are_told_from_programs() {
        for (manifest, plugin) in [
            ("[dependencies]\nkube = \"5\"", false),
            ("[dependencies]\noperetta-sdk = \"0.1\"", true),
            (
                "[dependencies]\nsdk = {package = \"operetta-sdk\", path = \"x\"}",
                true,
            ),
            ("[lib]\ncrate-type = [\"cdylib\"]", true),
            ("[lib]\nname = \"x\"", false),
        ] {
            let table = manifest.parse::<toml::Table>().expect("toml");
            assert_eq!(is_plugin(&table), plugin, "{manifest}");
        }
    }

    #[test]
    fn old_versions_of_rust_are_refused() {
        check_version("rustc 1.97.1 (abc 2026-07-01)").expect("new enough");
        check_version("rustc 2.0.0-nightly (abc 2026-07-01)").expect("new enough");
        for version in ["rustc 1.95.0 (abc 2026-04-01)", "gcc", ""] {
            let error = check_version(version).expect_err(version).to_string();
            assert!(error.contains("Rust"), "{error}");
        }
    }

    #[test]
    fn features_are_passed_to_metadata() {
        let arguments = [
            "--features",
            "a,b",
            "-q",
            "--no-default-features",
            "-F",
            "c",
            "--features=d",
        ];
        let arguments = arguments.map(str::to_owned);
        assert_eq!(
            features(&arguments),
            [
                "--features",
                "a,b",
                "--no-default-features",
                "--features",
                "c",
                "--features=d"
            ]
        );
    }

    #[test]
    fn artifact_is_the_programs_own_wasm() {
        let message = |manifest: &str, name: &str, file: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"{manifest}","target":{{"name":"{name}"}},"executable":{file}}}"#
            )
        };
        let messages = [
            message("/dep/Cargo.toml", "op", "\"/t/dep.wasm\""),
            message("/op/Cargo.toml", "op", "null"),
            message("/op/Cargo.toml", "tool", "\"/t/tool.wasm\""),
            message("/op/Cargo.toml", "op", "\"/t/op.wasm\""),
        ];
        let package = package(&["op"]);
        let found = artifact(&messages.join("\n"), &package, "op");
        assert_eq!(found.expect("found"), "/t/op.wasm");
        artifact(&messages[..3].join("\n"), &package, "op").expect_err("none");
    }
}
