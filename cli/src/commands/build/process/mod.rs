//! A program that was not written for Operetta, built as it is: an operator's own main runs as a
//! process in the host's sandbox. This file is about programs in Go, and [`rust`] about those in Rust.
//!
//! The module's go.mod, vendor folder, workspace and build tags stay what they are. Go's standard
//! library is overlaid ([`overlay`]), so that connections, names and signals are the host's, as are
//! a few modules that would not build ([`modules`]). The program's core module then becomes a
//! component that exports it ([`wrap`]).

mod cargo_metadata;
mod crates;
mod imports;
mod modules;
mod overlay;
mod packages;
mod rust;
mod toolchain;
mod wrap;

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use operetta_api::reasons;

pub use self::packages::{ImportGraph, Package};
use self::{modules::Patched, overlay::Overlay, packages::MainPackage, toolchain::Toolchain};
use super::{Job, go::requires, project::Project, steps::Steps, tools::output_of};
use crate::{
    args::{BuildArgs, Language},
    commands::output_file::size,
};

/// The SDK's module. A program that doesn't use it is no plugin.
const SDK: &str = "operetta.dev/sdk-go";

/// Reports whether a project is a program rather than a plugin: a Go module that does not require
/// the SDK, a Rust package with a main that does not use it, or any for which the user says so.
pub fn is_process(project: &Project, args: &BuildArgs) -> bool {
    if project.language == Language::Rust {
        return args.process || rust::is_program(project);
    }

    let is_plugin = [SDK, super::go::CONTROLLER_RUNTIME]
        .iter()
        .any(|module| requires(&project.dir, module));

    project.language == Language::Go && (args.process || !is_plugin)
}

/// Compiles a program in Go or Rust and returns the component.
///
/// # Errors
/// As [`rust::compile`]. For Go, returns an error if `go` is missing or not supported, if no main package can be chosen, if a
/// package does not build for wasip1 (with the imports by which it came in), or if the compiler
/// fails.
pub fn compile(job: &Job<'_>, steps: &mut Steps) -> Result<Vec<u8>> {
    if job.project.language == Language::Rust {
        return rust::compile(job, steps);
    }

    let (build, graph) = steps.run("packages", |note| {
        let mut build = GoBuild::new(job)?;
        let graph = build.packages()?;
        // Before the compiler spends minutes on the others.
        graph.check()?;
        *note = build.decision(&graph, job.args.process);
        Ok((build, graph))
    })?;

    let module = steps.run("compile", |note| {
        let file = job.scratch_file("module.wasm");
        *note = build.compile(&file, &graph)?;
        job.read(&file)
    })?;

    steps.run("wrap", |note| {
        *note = size(module.len());
        wrap::wrap(&module)
    })
}

/// The packages that a program's build would take.
pub struct Survey {
    pub graph: ImportGraph,
    /// The folder of the program's module.
    dir: PathBuf,
    /// Why a package can't be built for wasip1, if so.
    pub portable: Result<(), String>,
}

impl Survey {
    /// The packages whose code is the repository's own.
    pub fn own(&self) -> impl Iterator<Item = &Package> {
        self.graph
            .packages()
            .filter(|package| package.is_within(&self.dir))
    }
}

/// Reads the packages of a program as its build would, in seconds.
///
/// # Errors
/// As [`compile`], except that a package that does not build is part of the result.
pub fn survey(project: &Project, args: &BuildArgs) -> Result<Survey> {
    let scratch = tempfile::tempdir().context("failed to create a temporary folder")?;
    let job = Job {
        project,
        args,
        scratch: scratch.path(),
    };

    let graph = GoBuild::new(&job)?.packages()?;
    Ok(Survey {
        portable: graph.check().map_err(|error| error.to_string()),
        graph,
        dir: project.dir.clone(),
    })
}

/// One program's build by `go`.
struct GoBuild<'a> {
    job: &'a Job<'a>,
    toolchain: Toolchain,
    main: MainPackage,
    overlay: Overlay,
    /// Flags of `go list` and `go build` that the user sees.
    flags: Vec<String>,
    patched: Patched,
}

impl<'a> GoBuild<'a> {
    fn new(job: &'a Job<'a>) -> Result<Self> {
        let dir = &job.project.dir;
        let args = &job.args.program;
        let toolchain = Toolchain::find(dir)?.outside_the_module_cache(job.scratch)?;
        let overlay = Overlay::of(&toolchain, job.scratch)?;

        let mut flags = vec!["-trimpath".to_owned()];
        if let Some(tags) = &args.tags {
            flags.push(format!("-tags={tags}"));
        }

        // Listed for this machine's system: a main package that excludes wasip1 is still named.
        let mut list = toolchain.command();
        list.current_dir(dir)
            .args(["list", "-e", "-find", "-json=ImportPath,Dir,Name"])
            .args(&flags)
            .arg("./...");
        let all = packages::read(&output_of(&mut list)?)?;
        let main = MainPackage::choose(job.project, &all, args.main.as_deref())?;

        Ok(Self {
            job,
            toolchain,
            main,
            overlay,
            flags,
            patched: Patched::default(),
        })
    }

    /// A `go` command for wasip1.
    fn go(&self, subcommand: &str) -> Result<Command> {
        let mut command = self.toolchain.command();
        command
            .current_dir(&self.job.project.dir)
            .env("GOOS", "wasip1")
            .env("GOARCH", "wasm")
            .env("CGO_ENABLED", "0")
            .arg(subcommand)
            .args(&self.flags)
            .arg(format!("-overlay={}", self.overlay.write()?.display()))
            .args(&self.patched.flag)
            .args(&self.job.args.compiler_args);
        if let Some(workspace) = &self.patched.workspace {
            command.env("GOWORK", workspace);
        }
        Ok(command)
    }

    /// Reads the packages of the program, and patches those that need it.
    fn packages(&mut self) -> Result<ImportGraph> {
        let mut graph = self.list()?;
        self.patched =
            Patched::apply(&graph, &self.toolchain, &mut self.overlay, self.job.scratch)?;
        if !self.patched.modules.is_empty() {
            graph = self.list()?;
        }

        Ok(graph)
    }

    fn list(&self) -> Result<ImportGraph> {
        let fields = "ImportPath,Dir,Name,Imports,GoFiles,IgnoredGoFiles,Module,Standard,Error";
        let mut list = self.go("list")?;
        list.args(["-deps", "-e", &format!("-json={fields}"), &self.main.path]);
        ImportGraph::read(&output_of(&mut list)?)
    }

    /// What was chosen, and why, in one line.
    fn decision(&self, graph: &ImportGraph, forced: bool) -> String {
        let why = if forced {
            "--process"
        } else if graph.imports(SDK) {
            "go.mod doesn't require the SDK"
        } else {
            "it doesn't import Operetta's SDK"
        };
        let mut decision = format!(
            "{} with {}, as a process: {why}",
            graph.main(),
            self.toolchain.version
        );

        for (what, names) in [
            ("--main chooses another", &self.main.others),
            ("with other files", &self.patched.modules),
            ("not known to work", &self.patched.unknown),
        ] {
            if !names.is_empty() {
                decision += &format!("; {what}: {}", names.join(", "));
            }
        }
        decision
    }

    /// Compiles the program to a file. Returns the command line, without arguments that name this
    /// build's temporary folder.
    fn compile(&self, file: &Path, graph: &ImportGraph) -> Result<String> {
        // DWARF would double the module and nobody reads it. The names of functions stay, for the
        // backtraces of traps.
        let own = self.job.args.program.ldflags.as_deref().unwrap_or_default();
        let ldflags = format!("-ldflags={}", format!("-w {own}").trim_end());

        let mut build = self.go("build")?;
        build.arg(&ldflags).arg("-o").arg(file).arg(&self.main.path);
        self.run(&mut build, graph)?;

        let shown = self
            .flags
            .iter()
            .chain(&self.job.args.compiler_args)
            .map(String::as_str)
            .chain([ldflags.as_str(), self.main.path.as_str()]);
        Ok(format!(
            "GOOS=wasip1 GOARCH=wasm go build -overlay … {}",
            shown.collect::<Vec<_>>().join(" ")
        ))
    }

    /// Runs the compiler, passes its output through, and names who imports what it refuses.
    fn run(&self, build: &mut Command, graph: &ImportGraph) -> Result<()> {
        let mut child = build
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("failed to start go")?;

        let mut refused = Vec::new();
        let output = child.stderr.take().context("go has no stderr")?;
        for line in BufReader::new(output).split(b'\n') {
            let line = line.context("failed to read what go prints")?;
            let line = String::from_utf8_lossy(&line);
            eprintln!("{line}");
            refused.extend(heading(&line).map(str::to_owned));
        }

        let status = child.wait().context("failed to wait for go")?;
        if status.success() {
            return Ok(());
        }
        if refused.is_empty() {
            bail!(
                reasons::COMPILER_FAILED
                    .error(format!("go build failed ({status}): see its output above"))
            );
        }

        refused.sort();
        refused.dedup();
        Err(graph.refused(refused.iter().map(String::as_str)))
    }
}

/// The package in a line above the compiler's errors in it: `# example.com/op/term`.
fn heading(line: &str) -> Option<&str> {
    line.strip_prefix("# ")?.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiler_headings_name_packages() {
        assert_eq!(
            heading("# example.com/op/term"),
            Some("example.com/op/term")
        );
        assert_eq!(heading("# example.com/op [x.test]"), Some("example.com/op"));
        assert_eq!(heading("term/raw.go:7:2: undefined: unix.Termios"), None);
    }
}
