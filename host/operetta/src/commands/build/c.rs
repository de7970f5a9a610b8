//! C and Zig: compiles the plugin and the SDK to one WASI module, with zig, or C with clang and a WASI sysroot.
//!
//! A plugin in C consists of all .c files of the project's folder except tests (`*_test.c`). A plugin in Zig is `plugin.zig`,
//! which imports the SDK's header as `operetta`. The SDK is the folder `sdk` of the project, or the one in this binary.

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
use crate::commands::new;

const TARGET: &str = "wasm32-wasi";
/// The flags of a library: the host calls functions, never a `main`.
const REACTOR: &str = "-mexec-model=reactor";
const SDK_DIALECT: [&str; 2] = ["-std=c11", "-D_DEFAULT_SOURCE"];
/// The size of the stack, in bytes. zig's default of 16 MiB would be part of each instance's memory.
const STACK: &str = "1048576";
/// The flags with which null pointers trap and `assert` is compiled in.
const C_FLAGS: [&str; 3] = ["-UNDEBUG", "-fsanitize=undefined", "-fno-sanitize-recover=all"];

/// Compiles the project's files with the SDK.
///
/// # Errors
/// Returns an error if a compiler is missing or fails.
pub fn compile(job: &Job<'_>, steps: &mut Steps) -> Result<Vec<u8>> {
    let sdk = sdk(job)?;
    let compiler = compiler(&Tools::of(&job.project.dir))?;
    let module = job.scratch_file("module.wasm");
    if job.project.dir.join("plugin.zig").is_file() {
        zig(job, &compiler, &sdk, &module, steps)?;
    } else {
        c(job, &compiler, &sdk, &module, steps)?;
    }
    job.read(&module)
}

fn c(job: &Job<'_>, compiler: &Compiler, sdk: &Path, module: &Path, steps: &mut Steps) -> Result<()> {
    let mut command = compiler.command();
    let name = match compiler {
        Compiler::Zig(_) => {
            command.arg("cc");
            "zig cc"
        }
        Compiler::Clang { .. } => "clang",
    };
    let optimize = if job.args.debug { "-O1" } else { "-Os" };
    let flags = [&format!("--target={TARGET}"), REACTOR, optimize, "-g0", "-Wall", "-Wextra"].map(str::to_owned);
    command
        .current_dir(&job.project.dir)
        .args(&flags)
        .args(SDK_DIALECT)
        .args(C_FLAGS)
        .arg(format!("-Wl,-z,stack-size={STACK}"))
        .arg("-I")
        .arg(sdk);
    // The SDK comes first: the linker takes its abort and close, not libc's.
    command.arg(sdk.join("operetta.c")).args(sources(&job.project.dir)?).args(&job.args.compiler_args);
    steps.run("compile", |note| {
        *note = format!("{name} {}", flags.join(" "));
        run(command.arg("-o").arg(module))
    })
}

/// Translates the SDK's header, because Zig reads none.
fn zig(job: &Job<'_>, compiler: &Compiler, sdk: &Path, module: &Path, steps: &mut Steps) -> Result<()> {
    let Compiler::Zig(_) = compiler else { return Err(missing("zig", INSTALL_ZIG)) };
    let header = job.scratch_file("operetta.zig");
    let mut command = compiler.command();
    command.args(["translate-c", "-target", TARGET, "-lc", SDK_DIALECT[1], "-I"]).arg(sdk).arg(sdk.join("operetta.h"));
    steps.run("translate", |note| {
        "zig translate-c operetta.h".clone_into(note);
        let text = output_of(command.current_dir(&job.project.dir))?;
        fs::write(&header, text).with_context(|| format!("failed to write {}", header.display()))
    })?;
    let optimize = if job.args.debug { "Debug" } else { "ReleaseSmall" };
    let mut command = compiler.command();
    command.current_dir(&job.project.dir);
    command.args(["build-exe", "-target", TARGET, REACTOR, "-O", optimize, "-lc", "-fno-entry", "--stack", STACK]);
    command.arg(joined("-femit-bin=", module)).args(["--dep", "operetta", "-cflags"]).args(SDK_DIALECT).arg("--");
    command.arg(sdk.join("operetta.c")).arg("-I").arg(sdk).args(&job.args.compiler_args);
    command.arg("-Mroot=plugin.zig").arg(joined("-Moperetta=", &header));
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

/// Returns the folder of the project's SDK, or of the one in this binary.
fn sdk(job: &Job<'_>) -> Result<PathBuf> {
    let own = job.project.dir.join("sdk");
    if own.join("operetta.c").is_file() {
        return Ok(own);
    }
    let ours = job.scratch_file("sdk");
    new::write_sdk("c", &ours).context("the project has no folder sdk with operetta.c")?;
    Ok(ours)
}

/// Returns the plugin's files, sorted.
fn sources(dir: &Path) -> Result<Vec<PathBuf>> {
    let failed = || format!("failed to read {}", dir.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".c") && !name.ends_with("_test.c") {
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

impl Compiler {
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

/// A compiler: zig, which has a libc for WASI and which the Python package `ziglang` calls python-zig, or clang with a sysroot.
fn compiler(tools: &Tools) -> Result<Compiler> {
    if let Some(zig) = tools.look_for("zig").or_else(|| tools.look_for("python-zig")) {
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
        for name in ["plugin.c", "cases.c", "plugin_test.c", "cases.h"] {
            fs::write(folder.path().join(name), "").expect("file");
        }
        let names: Vec<_> =
            sources(folder.path()).expect("read").iter().map(|file| file.file_name().map(OsString::from)).collect();
        assert_eq!(names, [Some("cases.c".into()), Some("plugin.c".into())]);
    }
}
