//! `operetta build [DIR]`: compiles a project in any of the languages to a component that the host
//! accepts.
//!
//! The language's own toolchain compiles. If the output is a core module, a component is made from
//! it here. The component is then stripped, checked as the host checks it, and written atomically.
//!
//! A program in Go or Rust that was not written for Operetta takes its own way, see [`process`].

mod c;
mod component;
mod go;
pub mod helper;
mod process;
mod project;
pub mod python;
mod rust;
mod steps;
mod strip;
mod tools;
mod typescript;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use operetta_wasm::Format;

pub use process::{ImportGraph, Package, Survey, survey};
pub use project::Project;
pub use steps::Progress;
pub use tools::{Tools, missing, output_of, run_quietly};

use self::{component::Componentized, steps::Steps};
use super::{
    check,
    output_file::{size, write},
    packed::{Level, Packer},
};
use crate::args::{BuildArgs, Language, ProgramArgs};

/// Builds the project and prints each step to stdout.
///
/// # Errors
/// As [`build_with`].
pub async fn build(args: &BuildArgs) -> Result<()> {
    build_with(args, Progress::Stdout).await
}

/// Builds the project and prints each step.
///
/// # Errors
/// Returns an error if a tool is missing, the compiler fails, or the host would refuse the
/// component.
pub async fn build_with(args: &BuildArgs, progress: Progress) -> Result<()> {
    let project = if args.process {
        Project::find_program(&args.dir)
    } else {
        Project::find(&args.dir)
    }?;
    let scratch = tempfile::tempdir().context("failed to create a temporary folder")?;
    let job = Job {
        project: &project,
        args,
        scratch: scratch.path(),
    };
    let mut steps = Steps::new(&project, progress);

    if process::is_process(&project, args) {
        let component = process::compile(&job, &mut steps)?;
        // Its backtraces need the names of functions.
        let component = stripped(&component, true, &mut steps)?;
        // Compiling it takes minutes, which the host does anyway.
        check::without_compiling(&component)?;
        return finish(&job, &component, progress);
    }
    if args.program != ProgramArgs::default() {
        anyhow::bail!(
            "{} is a plugin, and --main, --tags and --ldflags are for a program: give the compiler's arguments after --, or \
             build it as a program with --process",
            project.name
        );
    }

    let compiled = match project.language {
        Language::Rust => rust::compile(&job, &mut steps),
        Language::Go => go::compile(&job, &mut steps),
        Language::TypeScript => typescript::compile(&job, &mut steps),
        Language::Python => python::compile(&job, &mut steps),
        Language::C | Language::Cpp | Language::Zig => c::compile(&job, &mut steps),
    }?;

    let Componentized {
        component,
        snapshot,
    } = match operetta_wasm::inspect(&compiled).format {
        Format::Component => Componentized {
            component: compiled,
            snapshot: None,
        },
        Format::CoreModule => component::componentize(&job, &compiled, &mut steps).await?,
        Format::NotWasm => anyhow::bail!("the compiler's output is not WebAssembly"),
    };

    let mut component = stripped(&component, args.debug, &mut steps)?;
    if let Some(snapshot) = snapshot {
        snapshot.append_to(&mut component);
    }

    let running = steps.begin("check");
    let found = if args.fast {
        check::without_compiling(&component)?;
        "not compiled (--fast): the host does it".to_owned()
    } else {
        check::summary(check::load(component.clone()).await?.manifest())
    };
    steps.end(running, &found);

    finish(&job, &component, progress)
}

/// Strips a component; `names` keeps the names of functions.
fn stripped(component: &[u8], names: bool, steps: &mut Steps) -> Result<Vec<u8>> {
    steps.run("strip", |note| {
        let stripped = strip::strip(component, names)?;
        *note = format!("{} -> {}", size(component.len()), size(stripped.len()));
        Ok(stripped)
    })
}

/// Writes the component and prints its sizes.
fn finish(job: &Job<'_>, component: &[u8], progress: Progress) -> Result<()> {
    let Job { project, args, .. } = job;

    let output = args
        .output
        .clone()
        .unwrap_or_else(|| args.dir.join(format!("build/{}.wasm", project.name)));
    write(&output, component)?;

    let packed = Packer::new(Level::of(args.fast)).pack(component)?;
    progress.line(&format!(
        "{}: {}, {} with zstd",
        output.display(),
        size(component.len()),
        size(packed.len())
    ));
    Ok(())
}

/// The input of a language's compiler.
struct Job<'a> {
    project: &'a Project,
    args: &'a BuildArgs,
    /// A folder for temporary files.
    scratch: &'a Path,
}

impl Job<'_> {
    /// Reads the file that a compiler has written.
    ///
    /// # Errors
    /// Returns an error if there is no such file.
    fn read(&self, file: &Path) -> Result<Vec<u8>> {
        std::fs::read(file).with_context(|| {
            format!(
                "the compiler succeeded but did not write {}",
                file.display()
            )
        })
    }

    fn scratch_file(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }
}
