//! Crates that many operators in Rust use and that don't build for wasm32-wasip2, or don't work
//! there: for one build they get a few changed lines.
//!
//! A changed copy of the crate is named to cargo as an override (`paths`). Unlike `[patch]`, that
//! leaves Cargo.lock as it is. The copies are in the target folder, under a name for their content,
//! so that cargo compiles them once.
//! <https://doc.rust-lang.org/cargo/reference/overriding-dependencies.html#paths-overrides>

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use operetta_api::reasons;
use sha2::{Digest, Sha256};

use super::cargo_metadata::{Metadata, Package};

/// The changes of a crate.
struct Change {
    name: &'static str,
    /// A file, and a text in it without which the crate needs no change: a later version does what we
    /// would have done.
    needed: (&'static str, &'static str),
    edits: &'static [Edit],
    added: &'static [(&'static str, &'static str)],
}

/// A text of a file, of which there is one, and its replacement.
struct Edit {
    file: &'static str,
    old: &'static str,
    new: &'static str,
}

const CHANGES: &[Change] = &[
    // There are no threads. The runtime of many threads becomes that of one, and blocking work is
    // done where it is asked for. Signals come from the host.
    Change {
        name: "tokio",
        needed: ("src/lib.rs", "cfg_signal! {"),
        edits: &[
            Edit {
                file: "src/lib.rs",
                old: "cfg_signal! {\n    pub mod signal;\n}\n",
                new: "cfg_signal! {\n    pub mod signal;\n}\n\
                      #[cfg(all(target_os = \"wasi\", feature = \"signal\", feature = \"net\"))]\n\
                      #[path = \"signal_process.rs\"]\n\
                      pub mod signal;\n",
            },
            Edit {
                file: "src/runtime/builder.rs",
                old: "        Builder::new(Kind::MultiThread, 61)\n",
                new: "        if cfg!(target_os = \"wasi\") {\n            \
                      return Builder::new(Kind::CurrentThread, 61);\n        }\n        \
                      Builder::new(Kind::MultiThread, 61)\n",
            },
            Edit {
                file: "src/runtime/blocking/pool.rs",
                old: "        let spawned = self.spawn_task(Task::new(task, is_mandatory), rt);\n",
                new: "        #[cfg(target_os = \"wasi\")]\n        let spawned = {\n            \
                      let _ = (rt, Self::spawn_task);\n            \
                      Task::new(task, is_mandatory).run();\n            Ok(())\n        };\n        \
                      #[cfg(not(target_os = \"wasi\"))]\n        \
                      let spawned = self.spawn_task(Task::new(task, is_mandatory), rt);\n",
            },
            Edit {
                file: "src/task/blocking.rs",
                old: "        crate::runtime::scheduler::block_in_place(f)\n",
                new: "        if cfg!(target_os = \"wasi\") {\n            return f();\n        }\n        \
                      crate::runtime::scheduler::block_in_place(f)\n",
            },
        ],
        added: &[(
            "src/signal_process.rs",
            include_str!("crates/tokio_signal.rs"),
        )],
    },
    // It names the systems that it knows, and refuses all others.
    Change {
        name: "hostname",
        needed: ("src/lib.rs", "compile_error!(\"Unsupported target OS!"),
        edits: &[Edit {
            file: "src/lib.rs",
            old: "    } else {\n        compile_error!(\"Unsupported target OS!",
            new: "    } else if #[cfg(target_os = \"wasi\")] {\n        mod wasi;\n        \
                  use crate::wasi as sys;\n    } else {\n        \
                  compile_error!(\"Unsupported target OS!",
        }],
        added: &[("src/wasi.rs", include_str!("crates/hostname_wasi.rs"))],
    },
    // On WASI std's function panics: it has no separator of paths.
    Change {
        name: "kube-client",
        needed: ("src/config/file_config.rs", "std::env::split_paths"),
        edits: &[Edit {
            file: "src/config/file_config.rs",
            old: "std::env::split_paths(&value)\n",
            new: "value.to_string_lossy().split(':').map(std::path::PathBuf::from)\n",
        }],
        added: &[],
    },
];

/// The crates of a program that are changed.
#[derive(Debug, Default)]
pub struct Changed {
    /// As `NAME@VERSION`.
    pub names: Vec<String>,
    /// The folders of their copies.
    pub paths: Vec<PathBuf>,
}

impl Changed {
    /// Makes the copies that a program needs.
    ///
    /// # Errors
    /// Returns an error if a crate isn't what its change expects, does not come from a registry, or
    /// can't be copied.
    pub fn of(metadata: &Metadata) -> Result<Self> {
        let folder = metadata.target_directory.join("operetta/crates");
        let mut changed = Self::default();

        for package in &metadata.packages {
            let Some(change) = CHANGES.iter().find(|change| change.name == package.name) else {
                continue;
            };
            if !change.is_needed(package.folder()) {
                continue;
            }

            changed.names.push(package.to_string());
            changed.paths.push(change.copy(package, &folder)?);
        }
        Ok(changed)
    }
}

impl Change {
    fn is_needed(&self, folder: &Path) -> bool {
        let (file, text) = self.needed;
        fs::read_to_string(folder.join(file)).is_ok_and(|found| found.contains(text))
    }

    /// The changed files, by their paths in the crate.
    fn files(&self, package: &Package) -> Result<Vec<(&'static str, String)>> {
        let mut files: Vec<(&'static str, String)> = Vec::new();
        for edit in self.edits {
            let path = package.folder().join(edit.file);
            let text = match files.iter().position(|(file, _)| *file == edit.file) {
                Some(index) => files.swap_remove(index).1,
                None => fs::read_to_string(&path).unwrap_or_default(),
            };

            if text.matches(edit.old).count() != 1 {
                bail!(reasons::NOT_PORTABLE.error(format!(
                    "{package} is not as this version of operetta expects it: {} does not contain {:?} exactly once. It \
                     doesn't work on wasm32-wasip2 without a change there: use another version of {}, or a newer operetta",
                    edit.file,
                    edit.old.trim(),
                    self.name
                )));
            }
            files.push((edit.file, text.replace(edit.old, edit.new)));
        }

        let added = self.added.iter();
        files.extend(added.map(|(file, text)| (*file, (*text).to_owned())));
        Ok(files)
    }

    /// Copies a crate with its changes. Returns the copy's folder.
    fn copy(&self, package: &Package, folder: &Path) -> Result<PathBuf> {
        if !package.is_from_registry() {
            bail!(reasons::NOT_PORTABLE.error(format!(
                "{package} does not work on wasm32-wasip2 without changes, which are made only to crates of a registry, and \
                 this one is in {}: depend on the published one for this build",
                package.folder().display()
            )));
        }

        let files = self.files(package)?;
        let mut hash = Sha256::new();
        for (file, text) in &files {
            hash.update(file);
            hash.update(text);
        }
        let hash = hash.finalize();
        let short: String = hash
            .iter()
            .take(6)
            .map(|byte| format!("{byte:02x}"))
            .collect();

        let target = folder.join(format!("{}-{}-{short}", package.name, package.version));
        if target.is_dir() {
            return Ok(target);
        }

        let failed = || format!("failed to copy {package} to {}", folder.display());
        fs::create_dir_all(folder).with_context(failed)?;
        let copy = tempfile::tempdir_in(folder).with_context(failed)?;
        copy_folder(package.folder(), copy.path()).with_context(failed)?;
        for (file, text) in &files {
            fs::write(copy.path().join(file), text).with_context(failed)?;
        }

        // Another build may have been faster.
        let copy = copy.keep();
        match fs::rename(&copy, &target) {
            Err(_) if target.is_dir() => fs::remove_dir_all(&copy).with_context(failed)?,
            renamed => renamed.with_context(failed)?,
        }
        Ok(target)
    }
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate in a folder of its own.
    fn package(root: &Path, name: &str, files: &[(&str, &str)]) -> Package {
        let folder = root.join(name);
        for (file, text) in files {
            let file = folder.join(file);
            fs::create_dir_all(file.parent().expect("a parent")).expect("a folder");
            fs::write(file, text).expect("a file");
        }
        Package::from_registry(name, "1.2.3", &folder)
    }

    fn metadata(root: &Path, package: Package) -> Metadata {
        Metadata {
            packages: vec![package],
            target_directory: root.join("target"),
            ..Metadata::default()
        }
    }

    const KUBE: &str = "let paths = std::env::split_paths(&value)\n    .collect::<Vec<_>>();\n";

    #[test]
    fn crate_is_copied_once_with_its_change() {
        let root = tempfile::tempdir().expect("a folder");
        let files = [
            ("src/config/file_config.rs", KUBE),
            ("src/lib.rs", "mod config;\n"),
        ];
        let package = package(root.path(), "kube-client", &files);
        let metadata = metadata(root.path(), package);

        let changed = Changed::of(&metadata).expect("changed");
        assert_eq!(changed.names, ["kube-client@1.2.3"]);
        let copy = &changed.paths[0];
        let text = fs::read_to_string(copy.join("src/config/file_config.rs")).expect("there");
        assert!(
            text.contains(".split(':')") && text.contains(".collect"),
            "{text}"
        );
        assert!(copy.join("src/lib.rs").is_file());

        fs::write(copy.join("mark"), "").expect("written");
        let again = Changed::of(&metadata).expect("changed");
        assert_eq!(again.paths, changed.paths);
        assert!(copy.join("mark").is_file(), "it was copied again");
    }

    #[test]
    fn crate_that_needs_no_change_is_left_alone() {
        let root = tempfile::tempdir().expect("a folder");
        let files = [("src/config/file_config.rs", "value.split(':')")];
        let package = package(root.path(), "kube-client", &files);
        let changed = Changed::of(&metadata(root.path(), package)).expect("read");
        assert_eq!(changed.names.len(), 0);
        assert!(!root.path().join("target").exists());
    }

    #[test]
    fn crate_in_another_shape_is_named_with_the_text() {
        let root = tempfile::tempdir().expect("a folder");
        for text in [format!("{KUBE}{KUBE}"), KUBE.replace("&value", "&other")] {
            let files = [("src/config/file_config.rs", &*text)];
            let package = package(root.path(), "kube-client", &files);
            let error = Changed::of(&metadata(root.path(), package))
                .expect_err("refused")
                .to_string();
            for part in ["kube-client@1.2.3", "file_config.rs", "split_paths(&value)"] {
                assert!(error.contains(part), "{error}");
            }
        }
    }

    #[test]
    fn changed_fork_is_refused() {
        let root = tempfile::tempdir().expect("a folder");
        let files = [("src/config/file_config.rs", KUBE)];
        let fork = Package {
            source: None,
            ..package(root.path(), "kube-client", &files)
        };
        let error = Changed::of(&metadata(root.path(), fork)).expect_err("refused");
        assert!(
            error.to_string().contains("crates of a registry"),
            "{error}"
        );
    }
}
