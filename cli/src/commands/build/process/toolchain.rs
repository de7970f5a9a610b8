//! The Go that compiles a project: its version and its GOROOT.

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use operetta_api::reasons;
use serde::Deserialize;

use super::super::tools::{Tools, output_of};

/// The minor versions of Go 1 whose standard library the overlay knows.
pub const SUPPORTED: RangeInclusive<u32> = 24..=26;

/// A Go toolchain.
#[derive(Clone, Debug)]
pub struct Toolchain {
    program: PathBuf,
    /// The root of the toolchain that it selects in the project's folder: go.mod may ask for a
    /// newer one.
    pub goroot: PathBuf,
    /// The version as Go prints it: `go1.26.8`.
    pub version: String,
    /// The module's go.mod.
    pub gomod: PathBuf,
    pub gomodcache: PathBuf,
    /// The workspace's go.work; empty, or `off`, if there is none.
    pub gowork: PathBuf,
    /// The variables under which the command selects this toolchain.
    environment: Vec<(&'static str, PathBuf)>,
}

/// What `go env -json` prints.
#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
struct Environment {
    goroot: PathBuf,
    goversion: String,
    gomod: PathBuf,
    gomodcache: PathBuf,
    gowork: PathBuf,
}

impl Toolchain {
    /// Finds the toolchain that compiles the module in a folder.
    ///
    /// # Errors
    /// Returns an error if `go` is missing, or its version is not supported.
    pub fn find(dir: &Path) -> Result<Self> {
        let program = Tools::of(dir).find("go", "see https://go.dev/doc/install")?;
        let mut command = Command::new(&program);
        command.current_dir(dir).args(["env", "-json"]).args([
            "GOROOT",
            "GOVERSION",
            "GOMOD",
            "GOMODCACHE",
            "GOWORK",
        ]);

        let environment: Environment = serde_json::from_str(&output_of(&mut command)?)
            .context("failed to read the output of go env")?;
        check_version(&environment.goversion)?;

        Ok(Self {
            program,
            goroot: environment.goroot,
            version: environment.goversion,
            gomod: environment.gomod,
            gomodcache: environment.gomodcache,
            gowork: environment.gowork,
            environment: Vec::new(),
        })
    }

    /// The command `go` of this toolchain.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.envs(self.environment.iter().cloned());
        command
    }

    /// Gives the toolchain a place at which its files can be overlaid. Go keeps toolchains that it
    /// has downloaded for a go.mod in the module cache, and refuses overlays there since 1.25. Such
    /// a toolchain is used through a link in a folder.
    ///
    /// # Errors
    /// Returns an error if the link can't be made.
    pub fn outside_the_module_cache(mut self, folder: &Path) -> Result<Self> {
        if !self.goroot.starts_with(&self.gomodcache) {
            return Ok(self);
        }

        let link = folder.join("goroot");
        std::os::unix::fs::symlink(&self.goroot, &link)
            .with_context(|| format!("failed to link {}", link.display()))?;

        self.program = link.join("bin/go");
        self.environment = vec![("GOROOT", link.clone()), ("GOTOOLCHAIN", "local".into())];
        self.goroot = link;
        Ok(self)
    }

    /// The go.work of the workspace to which the module belongs.
    pub fn workspace(&self) -> Option<&Path> {
        self.gowork.is_absolute().then_some(self.gowork.as_path())
    }
}

/// Checks that the overlay knows a version of Go.
fn check_version(version: &str) -> Result<()> {
    let minor = version
        .strip_prefix("go1.")
        .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next())
        .and_then(|minor| minor.parse::<u32>().ok());

    let (oldest, newest) = (SUPPORTED.start(), SUPPORTED.end());
    let cure = match minor {
        Some(minor) if SUPPORTED.contains(&minor) => return Ok(()),
        Some(minor) if minor < *oldest => format!(
            "set `toolchain go1.{newest}.0` in go.mod, or build with GOTOOLCHAIN=go1.{newest}.0"
        ),
        Some(_) => format!(
            "build with GOTOOLCHAIN=go1.{newest}.0 if go.mod allows it, or with a newer Operetta"
        ),
        None => format!("build with a release, GOTOOLCHAIN=go1.{newest}.0"),
    };

    Err(reasons::TOOL_UNSUPPORTED
        .error(format!(
            "this is {version}, and a program is built with Go 1.{oldest} to 1.{newest}: {cure}"
        ))
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supported_versions_pass_and_others_get_the_cure() {
        for version in [
            "go1.24.0",
            "go1.25rc1",
            "go1.26",
            "go1.26.8 X:nocoverageredesign",
        ] {
            check_version(version).expect(version);
        }

        for (version, part) in [
            ("go1.23.9", "toolchain go1.26.0"),
            ("go1.27rc1", "newer Operetta"),
            ("devel +abc", "a release"),
            ("go2.1", "a release"),
        ] {
            let error = check_version(version).expect_err(version).to_string();
            assert!(error.contains(part) && error.contains(version), "{error}");
        }
    }
}

#[cfg(test)]
mod with_go {
    use super::*;

    #[test]
    fn toolchain_in_the_module_cache_is_reached_by_a_link() {
        let folder = tempfile::tempdir().expect("folder");
        let mut toolchain =
            Toolchain::find(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("a supported Go");
        let goroot = toolchain.goroot.clone();
        let same = toolchain
            .clone()
            .outside_the_module_cache(folder.path())
            .expect("as it is");
        assert_eq!(same.goroot, goroot);

        toolchain.gomodcache = goroot.parent().expect("a parent").to_owned();
        let linked = toolchain
            .outside_the_module_cache(folder.path())
            .expect("linked");
        assert_eq!(linked.goroot, folder.path().join("goroot"));

        let version = std::fs::read_to_string(linked.goroot.join("VERSION")).expect("VERSION");
        assert!(version.starts_with(&linked.version), "{version}");
        let said = output_of(linked.command().args(["env", "GOROOT", "GOTOOLCHAIN"]));
        let expected = format!("{}\nlocal\n", linked.goroot.display());
        assert_eq!(said.expect("go runs"), expected);
    }
}
