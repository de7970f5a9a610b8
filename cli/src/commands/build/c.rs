//! C, C++ and Zig: the plugin and the SDK in one module for WASI, by zig, or C and C++ by clang
//! with a WASI sysroot.
//!
//! A plugin in C consists of every .c file of the project's folder except tests (`*_test.c`); one
//! in C++ also of every .cpp, .cc and .cxx file. In Zig it is `plugin.zig`, which imports the SDK's
//! header as `operetta`. The SDK is the folder `sdk` of the project, or else the one in this
//! binary.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{
    Job, Tools,
    steps::Steps,
    tools::{missing, output_of, run},
};
use crate::{args::Language, commands::new};

const TARGET: &str = "wasm32-wasi";
/// The flags of a library: the host calls functions, never a `main`.
const REACTOR: &str = "-mexec-model=reactor";
const SDK_DIALECT: [&str; 2] = ["-std=c11", "-D_DEFAULT_SOURCE"];
/// The size of the stack, in bytes. zig's default of 16 MiB would be part of each instance's
/// memory.
const STACK: &str = "1048576";
/// The flags with which null pointers trap and `assert` is compiled in.
const C_FLAGS: [&str; 3] = [
    "-UNDEBUG",
    "-fsanitize=undefined",
    "-fno-sanitize-recover=all",
];

/// A component has neither exceptions nor RTTI: both need a runtime that WASI's C++ library lacks.
const CPP_FLAGS: [&str; 3] = ["-std=c++20", "-fno-exceptions", "-fno-rtti"];
const C_FILES: &[&str] = &["c"];
const CPP_FILES: &[&str] = &["cpp", "cc", "cxx"];

/// Compiles the project's files with the SDK.
///
/// # Errors
/// Returns an error if a compiler is missing or fails.
pub fn compile(job: &Job<'_>, steps: &mut Steps) -> Result<Vec<u8>> {
    let sdk = sdk(job)?;
    let compiler = compiler(&Tools::of(&job.project.dir))?;

    let module = job.scratch_file("module.wasm");
    match job.project.language {
        Language::Zig => zig(job, &compiler, &sdk, &module, steps),
        Language::Cpp => cpp(job, &compiler, &sdk, &module, steps),
        _ => c(job, &compiler, &sdk, &module, steps),
    }?;

    job.read(&module)
}

fn c(
    job: &Job<'_>,
    compiler: &Compiler,
    sdk: &Path,
    module: &Path,
    steps: &mut Steps,
) -> Result<()> {
    let mut command = compiler.driver(Driver::C);
    let flags = flags(job);
    command
        .current_dir(&job.project.dir)
        .args(&flags)
        .args(SDK_DIALECT);
    link(&mut command, sdk, module);

    // The SDK comes first: the linker takes its abort and close, not libc's.
    command
        .arg(sdk.join("operetta.c"))
        .args(sources(&job.project.dir, C_FILES)?)
        .args(&job.args.compiler_args);

    steps.run("compile", |note| {
        *note = format!("{} {}", compiler.name(Driver::C), flags.join(" "));
        run(&mut command)
    })
}

/// Compiles the SDK and the other C files as C, then the C++ files, and links them.
fn cpp(
    job: &Job<'_>,
    compiler: &Compiler,
    sdk: &Path,
    module: &Path,
    steps: &mut Steps,
) -> Result<()> {
    let dir = &job.project.dir;
    let flags = flags(job);

    // The SDK comes first: the linker takes its abort and close, not libc's.
    let mut c_files = vec![sdk.join("operetta.c")];
    c_files.extend(sources(dir, C_FILES)?);

    let mut command = compiler.driver(Driver::Cpp);
    command
        .current_dir(dir)
        .args(&flags)
        .args(CPP_FLAGS)
        .arg(SDK_DIALECT[1]);
    link(&mut command, sdk, module);

    steps.run("compile", |note| {
        *note = format!(
            "{} {} {}",
            compiler.name(Driver::Cpp),
            flags.join(" "),
            CPP_FLAGS.join(" ")
        );

        for (number, file) in c_files.iter().enumerate() {
            let object = job.scratch_file(&format!("{number}.o"));
            let mut compile = compiler.driver(Driver::C);
            compile
                .current_dir(dir)
                .args(&flags)
                .args(SDK_DIALECT)
                .args(C_FLAGS)
                .arg("-I")
                .arg(sdk);
            run(compile.arg("-c").arg(file).arg("-o").arg(&object))?;
            command.arg(object);
        }

        run(command
            .args(sources(dir, CPP_FILES)?)
            .args(&job.args.compiler_args))
    })
}

/// The flags shared by compiling and linking, which the build prints.
fn flags(job: &Job<'_>) -> [String; 5] {
    let optimize = if job.args.debug { "-O1" } else { "-Os" };
    [
        &format!("--target={TARGET}"),
        optimize,
        "-g0",
        "-Wall",
        "-Wextra",
    ]
    .map(str::to_owned)
}

/// Makes the output a reactor with runtime checks and a small stack.
fn link(command: &mut Command, sdk: &Path, module: &Path) {
    command
        .arg(REACTOR)
        .args(C_FLAGS)
        .arg(format!("-Wl,-z,stack-size={STACK}"));
    command.arg("-I").arg(sdk).arg("-o").arg(module);
}

/// Translates the SDK's header to Zig.
fn zig(
    job: &Job<'_>,
    compiler: &Compiler,
    sdk: &Path,
    module: &Path,
    steps: &mut Steps,
) -> Result<()> {
    let Compiler::Zig(_) = compiler else {
        return Err(missing("zig", INSTALL_ZIG));
    };

    let header = job.scratch_file("operetta.zig");
    let mut command = compiler.command();
    command
        .args([
            "translate-c",
            "-target",
            TARGET,
            "-lc",
            SDK_DIALECT[1],
            "-I",
        ])
        .arg(sdk)
        .arg(sdk.join("operetta.h"));

    steps.run("translate", |note| {
        "zig translate-c operetta.h".clone_into(note);
        let text = output_of(command.current_dir(&job.project.dir))?;
        fs::write(&header, text).with_context(|| format!("failed to write {}", header.display()))
    })?;

    let optimize = if job.args.debug {
        "Debug"
    } else {
        "ReleaseSmall"
    };

    let mut command = compiler.command();
    command.current_dir(&job.project.dir);
    command.args([
        "build-exe",
        "-target",
        TARGET,
        REACTOR,
        "-O",
        optimize,
        "-lc",
        "-fno-entry",
        "--stack",
        STACK,
    ]);
    command
        .arg(joined("-femit-bin=", module))
        .args(["--dep", "operetta", "-cflags"])
        .args(SDK_DIALECT)
        .arg("--");
    command
        .arg(sdk.join("operetta.c"))
        .arg("-I")
        .arg(sdk)
        .args(&job.args.compiler_args);
    command
        .arg("-Mroot=plugin.zig")
        .arg(joined("-Moperetta=", &header));

    steps.run("compile", |note| {
        *note = format!("zig build-exe -target {TARGET} {REACTOR} -O {optimize} plugin.zig");
        run(&mut command)
    })
}

fn joined(flag: &str, path: &Path) -> OsString {
    let mut argument = OsString::from(flag);
    argument.push(path);
    argument
}

/// The project's own SDK, or else the one in this binary.
fn sdk(job: &Job<'_>) -> Result<PathBuf> {
    let own = job.project.dir.join("sdk");
    if own.join("operetta.c").is_file() {
        return Ok(own);
    }

    let ours = job.scratch_file("sdk");
    new::write_sdk("c", &ours).context("the project has no folder sdk with operetta.c")?;
    Ok(ours)
}

/// The plugin's files with one of these extensions, sorted.
fn sources(dir: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let failed = || format!("failed to read {}", dir.display());
    let mut found = Vec::new();

    for entry in fs::read_dir(dir).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if extensions.contains(&&*extension) && !stem.ends_with("_test") {
            found.push(path);
        }
    }

    found.sort();
    Ok(found)
}

const INSTALL_ZIG: &str = "`pip install ziglang`, or see https://ziglang.org";

enum Compiler {
    Zig(PathBuf),
    Clang { program: PathBuf, sysroot: OsString },
}

/// The language in which a compiler reads its files.
#[derive(Clone, Copy)]
enum Driver {
    C,
    Cpp,
}

impl Compiler {
    fn name(&self, driver: Driver) -> &'static str {
        match (self, driver) {
            (Self::Zig(_), Driver::C) => "zig cc",
            (Self::Zig(_), Driver::Cpp) => "zig c++",
            (Self::Clang { .. }, Driver::C) => "clang",
            (Self::Clang { .. }, Driver::Cpp) => "clang++",
        }
    }

    /// The command that compiles and links files of a language.
    fn driver(&self, driver: Driver) -> Command {
        let mut command = self.command();

        match (self, driver) {
            (Self::Zig(_), Driver::C) => command.arg("cc"),
            (Self::Zig(_), Driver::Cpp) => command.arg("c++"),
            (Self::Clang { .. }, Driver::C) => &mut command,
            (Self::Clang { .. }, Driver::Cpp) => command.arg("--driver-mode=g++"),
        };

        command
    }

    fn command(&self) -> Command {
        match self {
            Self::Zig(program) => Command::new(program),
            Self::Clang { program, sysroot } => {
                let mut command = Command::new(program);
                command.arg(joined("--sysroot=", Path::new(sysroot)));
                command
            }
        }
    }
}

/// Finds zig, which brings a libc for WASI, or else clang with a sysroot. The Python package
/// `ziglang` installs zig as `python-zig`.
fn compiler(tools: &Tools) -> Result<Compiler> {
    if let Some(zig) = tools
        .look_for("zig")
        .or_else(|| tools.look_for("python-zig"))
    {
        return Ok(Compiler::Zig(zig));
    }

    let sysroot = std::env::var_os("WASI_SYSROOT").filter(|sysroot| !sysroot.is_empty());
    match (tools.look_for("clang"), sysroot) {
        (Some(program), Some(sysroot)) => Ok(Compiler::Clang { program, sysroot }),
        (Some(_), None) => Err(missing(
            "zig, or a WASI sysroot for clang,",
            &format!("{INSTALL_ZIG}; or set WASI_SYSROOT to the sysroot's folder in a wasi-sdk"),
        )),
        (None, _) => Err(missing("zig", INSTALL_ZIG)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_files_exclude_tests() {
        let folder = tempfile::tempdir().expect("folder");
        let all = [
            "plugin.c",
            "cases.c",
            "plugin_test.c",
            "cases.h",
            "x.cpp",
            "x_test.cpp",
            "a.cc",
            "b.cxx",
        ];

        for name in all {
            fs::write(folder.path().join(name), "").expect("file");
        }

        let names = |extensions| -> Vec<_> {
            let files = sources(folder.path(), extensions).expect("read");
            files
                .iter()
                .map(|file| {
                    file.file_name()
                        .expect("a name")
                        .to_string_lossy()
                        .into_owned()
                })
                .collect()
        };

        assert_eq!(names(C_FILES), ["cases.c", "plugin.c"]);
        assert_eq!(names(CPP_FILES), ["a.cc", "b.cxx", "x.cpp"]);
    }
}
