//! Modules that many operators import and that don't build for wasip1, or don't work there: their
//! packages get other files.
//!
//! Go refuses overlays of files in its module cache. So such a module is replaced, for this build
//! alone, by a folder that exists only in the overlay: its files are those of the module cache, but
//! for the ones that change. A module in a vendor folder or a local replacement is overlaid in place.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{
    overlay::Overlay,
    packages::{ImportGraph, Module, Package},
    toolchain::Toolchain,
};
use crate::commands::build::tools::{output_of, run_quietly};

/// The root of replaced modules. It is the same on each machine, because Go writes the folders of
/// replacements into the program.
const ROOT: &str = "/operetta/modules";

/// The changes of a package.
struct Patch {
    /// The import path.
    package: &'static str,
    /// A file of the package, and a text in it by which the versions are recognised that this patch
    /// fits.
    fits: (&'static str, &'static str),
    removed: &'static [&'static str],
    added: &'static [(&'static str, &'static str)],
}

const FSNOTIFY_POLL: (&str, &str) = (
    "poll_wasip1.go",
    include_str!("modules/fsnotify_poll_wasip1.go"),
);

const PATCHES: &[Patch] = &[
    // It builds, but NewWatcher fails, and with it controller-runtime's servers that read their
    // certificate from files: webhooks and metrics.
    Patch {
        package: "github.com/fsnotify/fsnotify",
        fits: (
            "backend_other.go",
            "\nfunc newBackend(ev chan Event, errs chan error) (backend, error) {\n",
        ),
        removed: &["backend_other.go"],
        added: &[
            FSNOTIFY_POLL,
            (
                "backend_wasip1.go",
                include_str!("modules/fsnotify_backend_wasip1.go"),
            ),
        ],
    },
    Patch {
        package: "github.com/fsnotify/fsnotify",
        fits: (
            "backend_other.go",
            "\nfunc NewWatcher() (*Watcher, error) {\n",
        ),
        removed: &["backend_other.go"],
        added: &[
            FSNOTIFY_POLL,
            (
                "watcher_wasip1.go",
                include_str!("modules/fsnotify_watcher_wasip1.go"),
            ),
        ],
    },
    // It takes every system but Windows for one with termios.
    Patch {
        package: "github.com/moby/term",
        fits: (
            "term_unix.go",
            "\nfunc getWinsize(fd uintptr) (*Winsize, error) {\n",
        ),
        removed: &["term_unix.go", "termios_unix.go", "termios_nonbsd.go"],
        added: &[("term_wasip1.go", include_str!("modules/term_wasip1.go"))],
    },
    // Up to 1.9.3, it takes every system but a few for one with termios.
    Patch {
        package: "github.com/sirupsen/logrus",
        fits: (
            "terminal_check_notappengine.go",
            "\t\treturn isTerminal(int(v.Fd()))\n",
        ),
        removed: &[],
        added: &[(
            "terminal_check_process_wasip1.go",
            include_str!("modules/logrus_terminal_wasip1.go"),
        )],
    },
    // It waits for SIGWINCH, which wasip1 doesn't have.
    Patch {
        package: "k8s.io/kubectl/pkg/util/term",
        fits: (
            "resizeevents.go",
            "\nfunc monitorResizeEvents(fd uintptr, resizeEvents chan<- TerminalSize, stop chan struct{}) {\n",
        ),
        removed: &["resizeevents.go"],
        added: &[(
            "resizeevents_wasip1.go",
            include_str!("modules/kubectl_resizeevents_wasip1.go"),
        )],
    },
    // It has files for each system that it knows, and one for those without routes.
    Patch {
        package: "github.com/hashicorp/go-sockaddr",
        fits: ("route_info_default.go", "//go:build nacl || plan9 || js\n"),
        removed: &["route_info_default.go"],
        added: &[(
            "route_info_wasip1.go",
            include_str!("modules/sockaddr_route_info_wasip1.go"),
        )],
    },
    // Operators import it for its configuration, and never open a database.
    Patch {
        package: "github.com/prometheus/prometheus/tsdb/fileutil",
        fits: (
            "mmap_unix.go",
            "\nfunc mmap(f *os.File, length int) ([]byte, error) {\n",
        ),
        removed: &["mmap_unix.go"],
        added: &[(
            "fileutil_wasip1.go",
            include_str!("modules/prometheus_fileutil_wasip1.go"),
        )],
    },
    // It maps memory for the buffers of its uploads and downloads.
    Patch {
        package: "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/internal/shared",
        fits: ("mmf_unix.go", "\nfunc NewMMB(size int64) (Mmb, error) {\n"),
        removed: &["mmf_unix.go"],
        added: &[(
            "mmf_wasip1.go",
            include_str!("modules/azblob_mmf_wasip1.go"),
        )],
    },
];

/// What became of a program's modules.
#[derive(Default)]
pub struct Patched {
    /// Those with other files, as `PATH@VERSION`.
    pub modules: Vec<String>,
    /// Those that would need other files, in a version for which there are none.
    pub unknown: Vec<String>,
    /// A flag of `go list` and `go build`.
    pub flag: Option<String>,
    /// A variable of their environment.
    pub workspace: Option<PathBuf>,
}

impl Patched {
    /// Adds to an overlay what the packages of a program need. Files for this build alone go to
    /// `folder`.
    ///
    /// # Errors
    /// Returns an error if a file can't be read or written, or go.mod not be edited.
    pub fn apply(
        graph: &ImportGraph,
        toolchain: &Toolchain,
        overlay: &mut Overlay,
        folder: &Path,
    ) -> Result<Self> {
        let mut patched = Self::default();
        let mut replaced = Vec::new();

        for name in names() {
            let Some(package) = graph.package(name) else {
                continue;
            };
            if knows_wasip1(&package.dir) {
                continue;
            }
            let module = package.module.clone().unwrap_or_default();
            let Some(patch) = PATCHES.iter().find(|patch| patch.fit(name, package)) else {
                if PATCHES.iter().any(|patch| patch.may_fit(name, package)) {
                    patched.unknown.push(module.to_string());
                }
                continue;
            };

            patched.modules.push(module.to_string());
            if package.dir.starts_with(&toolchain.gomodcache) {
                let root = Path::new(ROOT).join(module.to_string());
                let inner = package.dir.strip_prefix(&module.dir).with_context(|| {
                    format!("{} is not in its module's folder", package.dir.display())
                })?;

                mirror(&module.dir, &root, overlay)?;
                if !module.dir.join("go.mod").exists() {
                    overlay.add_text(root.join("go.mod"), &format!("module {}\n", module.path))?;
                }
                patch.change(&root.join(inner), overlay)?;
                replaced.push(format!("-replace={module}={}", root.display()));
            } else {
                patch.change(&package.dir, overlay)?;
            }
        }

        if !replaced.is_empty() {
            patched.replace(&replaced, toolchain, folder)?;
        }
        Ok(patched)
    }

    /// Writes a go.mod, or a go.work, with these replacements.
    fn replace(
        &mut self,
        replacements: &[String],
        toolchain: &Toolchain,
        folder: &Path,
    ) -> Result<()> {
        let go = || toolchain.command();

        let Some(work) = toolchain.workspace() else {
            let file = folder.join("go.mod");
            copy(&toolchain.gomod, &file)?;
            copy_if_there(
                &toolchain.gomod.with_extension("sum"),
                &folder.join("go.sum"),
            )?;
            run_quietly(go().args(["mod", "edit"]).args(replacements).arg(&file))?;
            self.flag = Some(format!("-modfile={}", file.display()));
            return Ok(());
        };

        let file = folder.join("go.work");
        copy(work, &file)?;
        let mut sum = work.as_os_str().to_owned();
        sum.push(".sum");
        copy_if_there(Path::new(&sum), &folder.join("go.work.sum"))?;

        // Its folders are relative to the file.
        let json = output_of(go().args(["work", "edit", "-json"]).arg(work))?;
        let text: Workspace =
            serde_json::from_str(&json).context("failed to read the output of go work edit")?;
        let base = work.parent().unwrap_or(Path::new("/"));
        let mut edits = Vec::new();
        for entry in text.uses {
            let absolute = absolute(base, &entry.disk_path);
            edits.push(format!("-dropuse={}", entry.disk_path.display()));
            edits.push(format!("-use={}", absolute.display()));
        }
        for replacement in text.replace.into_iter().flatten() {
            if let Some(edit) = replacement.absolute(base) {
                edits.push(edit);
            }
        }

        run_quietly(
            go().args(["work", "edit"])
                .args(edits)
                .args(replacements)
                .arg(&file),
        )?;
        self.workspace = Some(file);
        Ok(())
    }
}

/// What `go work edit -json` prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Workspace {
    #[serde(rename = "Use")]
    uses: Vec<Use>,
    replace: Option<Vec<Replacement>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Use {
    disk_path: PathBuf,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Replacement {
    old: Side,
    new: Side,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Side {
    path: String,
    #[serde(default)]
    version: String,
}

impl Replacement {
    /// The edit that makes the replacement's folder absolute; None if it is a module.
    fn absolute(&self, base: &Path) -> Option<String> {
        let Side { path, version } = &self.old;
        let at = if version.is_empty() { "" } else { "@" };
        let local = self.new.version.is_empty() && Path::new(&self.new.path).is_relative();
        local.then(|| {
            let folder = absolute(base, Path::new(&self.new.path));
            format!("-replace={path}{at}{version}={}", folder.display())
        })
    }
}

impl Patch {
    fn may_fit(&self, name: &str, package: &Package) -> bool {
        self.package == name && package.dir.join(self.fits.0).exists()
    }

    fn fit(&self, name: &str, package: &Package) -> bool {
        self.package == name
            && fs::read_to_string(package.dir.join(self.fits.0))
                .is_ok_and(|text| text.contains(self.fits.1))
    }

    fn change(&self, package: &Path, overlay: &mut Overlay) -> Result<()> {
        for file in self.removed {
            overlay.remove(package.join(file));
        }
        for (file, text) in self.added {
            overlay.add_text(package.join(file), text)?;
        }
        Ok(())
    }
}

/// Reports whether a version of a package has files for wasip1 by itself.
fn knows_wasip1(package: &Path) -> bool {
    let has_constraint = |file: &Path| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let mut lines = text
            .lines()
            .take_while(|line| !line.starts_with("package "));
        let constraint = lines.find_map(|line| line.strip_prefix("//go:build "));
        constraint.is_some_and(|constraint| {
            constraint
                .split(|character: char| !character.is_alphanumeric() && character != '!')
                .any(|tag| tag == "wasip1")
        })
    };

    let files = fs::read_dir(package).into_iter().flatten().flatten();
    files.map(|entry| entry.path()).any(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with("_wasip1.go") || name.ends_with(".go") && has_constraint(&file)
    })
}

/// A path relative to a folder, without the `./` that Go requires.
fn absolute(base: &Path, path: &Path) -> PathBuf {
    base.join(path).components().collect()
}

/// The packages with patches, each once.
fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = PATCHES.iter().map(|patch| patch.package).collect();
    names.dedup();
    names
}

/// Adds all files of a folder to an overlay, at another place.
fn mirror(from: &Path, to: &Path, overlay: &mut Overlay) -> Result<()> {
    let failed = || format!("failed to read {}", from.display());
    for entry in fs::read_dir(from).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let target = to.join(entry.file_name());
        if entry.file_type().with_context(failed)?.is_dir() {
            mirror(&entry.path(), &target, overlay)?;
        } else {
            overlay.add_file(target, entry.path());
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let failed = || format!("failed to copy {} to {}", from.display(), to.display());
    let text = fs::read(from).with_context(failed)?;
    fs::write(to, text).with_context(failed)
}

fn copy_if_there(from: &Path, to: &Path) -> Result<()> {
    if from.exists() {
        copy(from, to)
    } else {
        Ok(())
    }
}

impl std::fmt::Display for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.path)?;
        if !self.version.is_empty() {
            write!(f, "@{}", self.version)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod with_go {
    use super::*;

    const TERM: &str = "github.com/moby/term";

    /// A program that imports moby/term, whose files are in a folder of this name.
    struct Program {
        root: tempfile::TempDir,
        toolchain: Toolchain,
    }

    impl Program {
        fn new() -> Self {
            let root = tempfile::tempdir().expect("folder");
            let mut toolchain =
                Toolchain::find(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("a supported Go");
            toolchain.gomod = root.path().join("go.mod");
            toolchain.gomodcache = root.path().join("cache");

            let program = Self { root, toolchain };
            program.write("scratch/.keep", "");
            program.write(
                "go.mod",
                "module op\n\ngo 1.24.0\n\nrequire github.com/moby/term v0.5.2\n",
            );
            program.write("go.sum", "the sums\n");
            program
        }

        fn write(&self, file: &str, text: &str) -> PathBuf {
            let file = self.root.path().join(file);
            fs::create_dir_all(file.parent().expect("a parent")).expect("a folder");
            fs::write(&file, text).expect("a file");
            file
        }

        /// The files of the package, of which one has this text.
        fn term(&self, folder: &str, text: &str) -> PathBuf {
            for file in ["term.go", "termios_unix.go", "inner/x.go"] {
                self.write(&format!("{folder}/{file}"), "package term\n");
            }
            let file = self.write(&format!("{folder}/term_unix.go"), text);
            file.parent().expect("a parent").to_owned()
        }

        /// Patches the program. Returns the overlay's entries outside of GOROOT as well.
        fn apply(&self, package: &Path, module: &Path) -> (Patched, Vec<(String, String)>) {
            let list = format!(
                r#"{{"ImportPath": "{TERM}", "Dir": {package:?},
                     "Module": {{"Path": "{TERM}", "Version": "v0.5.2", "Dir": {module:?}}}}}
                   {{"ImportPath": "op", "Imports": ["{TERM}"]}}"#
            );
            let graph = ImportGraph::read(&list).expect("packages");

            let scratch = self.root.path().join("scratch");
            let mut overlay = Overlay::of(&self.toolchain, &scratch).expect("an overlay");
            let patched = Patched::apply(&graph, &self.toolchain, &mut overlay, &scratch)
                .expect("is patched");

            let text = fs::read_to_string(overlay.write().expect("written")).expect("overlay.json");
            let overlay: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let goroot = self.toolchain.goroot.to_string_lossy().into_owned();
            let entries = overlay["Replace"].as_object().expect("an object");
            let others = entries
                .iter()
                .filter(|(file, _)| !file.starts_with(&goroot))
                .map(|(file, by)| (file.clone(), by.as_str().expect("a path").to_owned()));
            (patched, others.collect())
        }
    }

    /// A text that only versions with the known shape have.
    fn known() -> String {
        format!("package term\n{}}}\n", PATCHES[2].fits.1)
    }

    #[test]
    fn vendored_package_is_overlaid_in_place() {
        let program = Program::new();
        let vendored = program.term("vendor/github.com/moby/term", &known());
        let (patched, entries) = program.apply(&vendored, Path::new(""));

        assert_eq!(patched.modules, ["github.com/moby/term@v0.5.2"]);
        assert!(patched.flag.is_none() && patched.workspace.is_none());
        let hidden: Vec<_> = entries.iter().filter(|(_, by)| by.is_empty()).collect();
        assert_eq!((entries.len(), hidden.len()), (4, 3), "{entries:?}");
        assert!(
            entries
                .iter()
                .all(|(file, _)| Path::new(file).starts_with(&vendored))
        );
    }

    #[test]
    fn module_of_the_cache_is_replaced_for_this_build() {
        let program = Program::new();
        let cached = program.term("cache/github.com/moby/term@v0.5.2", &known());
        let (patched, entries) = program.apply(&cached, &cached);

        let file = |name: &str| {
            let path = format!("/operetta/modules/github.com/moby/term@v0.5.2/{name}");
            entries
                .iter()
                .find(|(file, _)| *file == path)
                .map(|(_, by)| by.as_str())
        };
        assert_eq!(file("term.go"), cached.join("term.go").to_str());
        assert_eq!(file("inner/x.go"), cached.join("inner/x.go").to_str());
        assert_eq!(file("term_unix.go"), Some(""));
        let added = fs::read_to_string(file("term_wasip1.go").expect("added")).expect("a file");
        assert!(added.starts_with("package term\n"));
        assert!(file("go.mod").is_some());

        let scratch = program.root.path().join("scratch");
        let flag = patched.flag.expect("a flag");
        assert_eq!(
            flag,
            format!("-modfile={}", scratch.join("go.mod").display())
        );
        let text = fs::read_to_string(scratch.join("go.mod")).expect("go.mod");
        let replace =
            "replace github.com/moby/term v0.5.2 => /operetta/modules/github.com/moby/term@v0.5.2";
        assert!(text.contains(replace), "{text}");
        assert_eq!(
            fs::read_to_string(scratch.join("go.sum")).expect("go.sum"),
            "the sums\n"
        );
        let own = fs::read_to_string(&program.toolchain.gomod).expect("go.mod");
        assert!(!own.contains("replace"), "{own}");
    }

    #[test]
    fn workspace_is_copied_with_its_folders() {
        let mut program = Program::new();
        let work = "go 1.24.0\n\nuse ./op\n\nreplace example.com/x v1.0.0 => ./fork\n";
        program.toolchain.gowork = program.write("go.work", work);
        let cached = program.term("cache/github.com/moby/term@v0.5.2", &known());
        let (patched, _) = program.apply(&cached, &cached);

        assert!(patched.flag.is_none());
        let text = fs::read_to_string(patched.workspace.expect("a workspace")).expect("go.work");
        let root = program.root.path().display();
        for line in [
            format!("use {root}/op"),
            format!("example.com/x v1.0.0 => {root}/fork"),
            "github.com/moby/term v0.5.2 => /operetta/modules".to_owned(),
        ] {
            assert!(text.contains(&line), "{line}: {text}");
        }
    }

    #[test]
    fn version_that_knows_wasip1_is_left_as_it_is() {
        let program = Program::new();
        let cached = program.term("cache/github.com/moby/term@v0.5.2", &known());
        for (file, text, is_known) in [
            (
                "term_js.go",
                "//go:build js && !wasip1\n\npackage term\n",
                false,
            ),
            (
                "term_js.go",
                "//go:build js || wasip1\n\npackage term\n",
                true,
            ),
            ("term_js.go", "package term\n// wasip1\n", false),
            ("term_wasip1.go", "package term\n", true),
        ] {
            let file = program.write(&format!("cache/github.com/moby/term@v0.5.2/{file}"), text);
            let (patched, _) = program.apply(&cached, &cached);
            assert_eq!(patched.modules.is_empty(), is_known, "{text}");
            assert!(patched.unknown.is_empty());
            fs::remove_file(file).expect("removed");
        }
    }

    #[test]
    fn unknown_version_is_named_and_a_portable_one_is_not() {
        let program = Program::new();
        let cached = program.term("cache/github.com/moby/term@v0.5.2", "package term\n");
        let (patched, entries) = program.apply(&cached, &cached);
        assert_eq!(patched.unknown, ["github.com/moby/term@v0.5.2"]);
        assert!(patched.modules.is_empty() && entries.is_empty());

        fs::remove_file(cached.join("term_unix.go")).expect("removed");
        let (patched, _) = program.apply(&cached, &cached);
        assert!(patched.unknown.is_empty() && patched.modules.is_empty());
    }
}
