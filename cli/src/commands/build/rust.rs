//! Rust: runs `cargo rustc` for wasm32-wasip2, whose linker makes a component.

use std::{path::Path, process::Command};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    Job, Tools,
    steps::Steps,
    tools::{missing, output_of},
};

pub const TARGET: &str = "wasm32-wasip2";
/// The flag that enables the features of tokio on WASI that kube-client needs; it does not affect
/// other projects. It is added to the flags of the author's .cargo/config.toml; RUSTFLAGS overrides
/// both.
pub const FLAGS: [&str; 2] = ["--cfg", "tokio_unstable"];

/// Compiles the project's library.
///
/// # Errors
/// Returns an error if cargo or the target is missing, cargo fails, or the package has no library.
pub fn compile(job: &Job<'_>, steps: &mut Steps) -> Result<Vec<u8>> {
    let dir = &job.project.dir;
    let tools = Tools::of(dir);
    let cargo = tools.find("cargo", "see https://rustup.rs")?;
    let target = target_of(&job.args.compiler_args);

    if let Some(rustc) = tools.look_for("rustc") {
        check_target(&rustc, dir, target)?;
    }

    steps.run("compile", |note| {
        let mut command = Command::new(cargo);
        // The path of the artifact depends on profiles, workspaces and configuration, so cargo's
        // messages are read.
        command.current_dir(dir).args([
            "rustc",
            "--lib",
            "--message-format",
            "json-render-diagnostics",
        ]);
        command.args(["--config", &format!("target.{target}.rustflags={FLAGS:?}")]);

        // Only the .wasm: if an .rlib is built as well, cargo skips link-time optimisation.
        let mut flags = vec!["--crate-type", "cdylib"];
        if target == TARGET {
            flags.extend(["--target", TARGET]);
        }

        let profile = job
            .args
            .compiler_args
            .iter()
            .any(|arg| arg == "-r" || arg.starts_with("--profile"));
        if !job.args.debug && !profile {
            flags.push("--release");
        }
        flags.extend(job.args.compiler_args.iter().map(String::as_str));

        *note = format!("cargo rustc --lib {}", flags.join(" "));
        let messages = output_of(command.args(flags))?;
        let file = artifact(&messages, &dir.join("Cargo.toml"))?;
        job.read(Path::new(&file))
    })
}

/// Checks that the libraries of a target are installed.
///
/// # Errors
/// Returns an error that says how to install them.
pub fn check_target(rustc: &Path, dir: &Path, target: &str) -> Result<()> {
    let libraries = output_of(Command::new(rustc).current_dir(dir).args([
        "--print",
        "target-libdir",
        "--target",
        target,
    ]))?;
    if !Path::new(libraries.trim()).is_dir() {
        return Err(missing(
            &format!("the Rust target {target}"),
            &format!("`rustup target add {target}`"),
        ));
    }
    Ok(())
}

/// Returns the target in the author's arguments, or [`TARGET`].
fn target_of(arguments: &[String]) -> &str {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == "--target" {
            return arguments.next().map_or(TARGET, String::as_str);
        }
        if let Some(target) = argument.strip_prefix("--target=") {
            return target;
        }
    }

    TARGET
}

/// Finds the .wasm of the package in cargo's messages.
fn artifact(messages: &str, manifest: &Path) -> Result<String> {
    let mut of_the_package = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter(|message| {
            message["manifest_path"]
                .as_str()
                .is_some_and(|path| Path::new(path) == manifest)
        })
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().map(str::to_owned));
    let found = of_the_package.find(|file| file.ends_with(".wasm"));

    let what = if messages.contains("compiler-artifact") {
        "no .wasm of this package"
    } else {
        "nothing"
    };

    found.with_context(|| {
        format!("cargo built {what}: check that the package has a library, src/lib.rs")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_artefact_is_the_packages_own_wasm() {
        let message = |manifest: &str, file: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"{manifest}","filenames":["{file}"]}}"#
            )
        };

        let messages = [
            message("/dep/Cargo.toml", "/t/dep.wasm"),
            message("/p/Cargo.toml", "/t/libp.rlib"),
            message("/p/Cargo.toml", "/t/p.wasm"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];

        let manifest = Path::new("/p/Cargo.toml");
        assert_eq!(
            artifact(&messages.join("\n"), manifest).expect("found"),
            "/t/p.wasm"
        );

        let error = artifact(&messages[..2].join("\n"), manifest)
            .expect_err("none")
            .to_string();
        assert!(error.contains("no .wasm of this package"), "{error}");
    }

    #[test]
    fn the_authors_target_goes_before_ours() {
        let arguments = |all: &[&str]| {
            all.iter()
                .map(|argument| (*argument).to_owned())
                .collect::<Vec<_>>()
        };
        for (all, target) in [
            (
                &["--target", "wasm32-unknown-unknown"][..],
                "wasm32-unknown-unknown",
            ),
            (&["--target=x"], "x"),
            (&["--features", "a"], TARGET),
        ] {
            assert_eq!(target_of(&arguments(all)), target);
        }
    }
}
