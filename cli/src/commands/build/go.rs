//! Go: compiles a core module with `go build -buildmode=c-shared` for wasip1.

use std::{path::Path, process::Command};

use anyhow::Result;

use super::{Job, Tools, steps::Steps, tools::run};

/// The SDK's module for controller-runtime, which contains the tool `slim`.
pub const CONTROLLER_RUNTIME: &str = "operetta.dev/sdk-go/controllerruntime";

/// The output folder of that tool, in the project's folder.
const SLIM: &str = "build/slim";

/// Compiles the package in the project's folder.
///
/// # Errors
/// Returns an error if `go` is missing or fails.
pub fn compile(job: &Job<'_>, steps: &mut Steps) -> Result<Vec<u8>> {
    let dir = &job.project.dir;
    let go = Tools::of(dir).find("go", "see https://go.dev/doc/install")?;
    let module = job.scratch_file("module.wasm");

    // checklinkname: the SDK's allocator gets its memory from runtime.sbrk, to which Go otherwise
    // refuses to link.
    let symbols = if job.args.debug { "" } else { " -s -w" };
    let mut flags = vec![
        "-buildmode=c-shared".to_owned(),
        "-trimpath".to_owned(),
        format!("-ldflags=-checklinkname=0{symbols}"),
    ];

    if requires(dir, CONTROLLER_RUNTIME) && !job.args.debug {
        // Without `slim`, nine tenths of such a program are unused parts of client-go and
        // apimachinery.
        steps.run("slim", |note| {
            *note = format!("go run {CONTROLLER_RUNTIME}/cmd/slim {SLIM}");
            run(Command::new(&go)
                .current_dir(dir)
                .arg("run")
                .arg(format!("{CONTROLLER_RUNTIME}/cmd/slim"))
                .arg(SLIM))
        })?;
        flags.push(format!("-modfile={SLIM}/go.mod"));
    }

    steps.run("compile", |note| {
        let mut command = Command::new(&go);
        command
            .current_dir(dir)
            .env("GOOS", "wasip1")
            .env("GOARCH", "wasm")
            .env("CGO_ENABLED", "0");
        command
            .arg("build")
            .args(&flags)
            .args(&job.args.compiler_args)
            .arg("-o")
            .arg(&module)
            .arg(".");

        *note = format!("GOOS=wasip1 GOARCH=wasm go build {}", flags.join(" "));
        run(&mut command)?;
        job.read(&module)
    })
}

/// Reports whether go.mod requires a module.
pub fn requires(dir: &Path, module: &str) -> bool {
    let text = std::fs::read_to_string(dir.join("go.mod")).unwrap_or_default();
    text.lines().any(|line| {
        line.trim()
            .trim_start_matches("require ")
            .trim()
            .starts_with(&format!("{module} v"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_requirement_from_replacement() {
        let folder = tempfile::tempdir().expect("folder");
        let requires = |text: &str| {
            std::fs::write(folder.path().join("go.mod"), text).expect("go.mod");
            requires(folder.path(), CONTROLLER_RUNTIME)
        };

        assert!(requires(&format!(
            "module x\nrequire (\n\t{CONTROLLER_RUNTIME} v0.0.0\n)\n"
        )));
        assert!(requires(&format!(
            "require {CONTROLLER_RUNTIME} v0.0.0 // indirect"
        )));
        assert!(!requires(&format!("replace {CONTROLLER_RUNTIME} => ../x")));
        assert!(!requires(&format!(
            "require {CONTROLLER_RUNTIME}/more v0.0.0"
        )));
    }
}
