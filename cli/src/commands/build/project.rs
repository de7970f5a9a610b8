//! Detects the language of a project, by the file that the language's own tools look for, and the
//! project's name.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use operetta_api::reasons;

use crate::args::Language;

/// The file by which each language is detected.
const MARKS: &[(&str, Language)] = &[
    (RUST_MARK, Language::Rust),
    (GO_MARK, Language::Go),
    ("package.json", Language::TypeScript),
    ("pyproject.toml", Language::Python),
    ("plugin.c", Language::C),
    ("plugin.cpp", Language::Cpp),
    ("plugin.zig", Language::Zig),
];

const GO_MARK: &str = "go.mod";
const RUST_MARK: &str = "Cargo.toml";

/// A plugin's project, or an operator's.
#[derive(Clone)]
pub struct Project {
    /// The folder, absolute.
    pub dir: PathBuf,
    /// The language of the code.
    pub language: Language,
    /// The name in the project's files, or the folder's name.
    pub name: String,
}

impl Project {
    /// Reads the project in a folder.
    ///
    /// # Errors
    /// Returns an error if there is no folder, no project or more than one, or the project's file
    /// does not parse.
    pub fn find(dir: &Path) -> Result<Self> {
        let dir = folder(dir)?;
        let found: Vec<_> = MARKS
            .iter()
            .filter(|(mark, _)| dir.join(mark).is_file())
            .collect();

        let (mark, language) = match found.as_slice() {
            [one] => **one,
            [] => {
                let marks: Vec<_> = MARKS.iter().map(|(mark, _)| *mark).collect();
                bail!(reasons::NO_PROJECT.error(format!(
                    "{} is not a project in a supported language: it has none of {}",
                    dir.display(),
                    marks.join(", ")
                )));
            }
            several => {
                let marks: Vec<_> = several.iter().map(|(mark, _)| *mark).collect();
                let program = if marks.contains(&GO_MARK) {
                    ", or build its Go program with --process"
                } else if marks.contains(&RUST_MARK) {
                    ", or build its Rust program with --process"
                } else {
                    ""
                };
                let message = format!(
                    "{} is in several languages: it has {}; keep one{program}",
                    dir.display(),
                    marks.join(" and ")
                );
                bail!(reasons::NO_PROJECT.error(message));
            }
        };

        Self::read(dir, mark, language)
    }

    /// Reads the Go module in a folder, or else the Rust package, whatever else is there: an
    /// operator's repository often has the files of other languages.
    ///
    /// # Errors
    /// Returns an error if there is no folder, or neither a go.mod nor a Cargo.toml in it.
    pub fn find_program(dir: &Path) -> Result<Self> {
        let dir = folder(dir)?;
        for (mark, language) in [(GO_MARK, Language::Go), (RUST_MARK, Language::Rust)] {
            if dir.join(mark).is_file() {
                return Self::read(dir, mark, language);
            }
        }

        bail!(reasons::NO_PROJECT.error(format!(
            "only programs in Go and Rust can be processes, and {} has neither {GO_MARK} nor {RUST_MARK}: name the folder \
             of the module or package",
            dir.display()
        )))
    }

    /// Reads the Go module in a folder, whatever else is there.
    ///
    /// # Errors
    /// Returns an error if there is no folder, or no go.mod in it.
    pub fn find_go(dir: &Path) -> Result<Self> {
        let dir = folder(dir)?;
        if !dir.join(GO_MARK).is_file() {
            bail!(reasons::NO_PROJECT.error(format!(
                "only operators in Go can be adopted, and {} has no {GO_MARK}: name the folder of the module. `operetta \
                 build --process` builds programs in Rust as well",
                dir.display()
            )));
        }

        Self::read(dir, GO_MARK, Language::Go)
    }

    fn read(dir: PathBuf, mark: &str, language: Language) -> Result<Self> {
        let file = dir.join(mark);
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("failed to read {}", file.display()))?;
        let declared = name_in(language, &text)
            .with_context(|| format!("failed to read the name in {}", file.display()))?;

        let folder = || {
            dir.file_name()
                .map(|name| name.to_string_lossy().into_owned())
        };
        let name = declared
            .or_else(folder)
            .unwrap_or_else(|| "plugin".to_owned());

        Ok(Self {
            dir,
            language,
            name,
        })
    }

    /// Reports whether a folder has the file of a project in a supported language.
    pub fn is_marked(dir: &Path) -> bool {
        MARKS.iter().any(|(mark, _)| dir.join(mark).is_file())
    }

    /// Returns the name of the language, for people.
    pub fn language_name(&self) -> &'static str {
        match self.language {
            Language::Rust => "Rust",
            Language::Go => "Go",
            Language::TypeScript if self.dir.join("tsconfig.json").is_file() => "TypeScript",
            Language::TypeScript => "JavaScript",
            Language::Python => "Python",
            Language::C => "C",
            Language::Cpp => "C++",
            Language::Zig => "Zig",
        }
    }
}

/// The absolute path of a folder.
fn folder(dir: &Path) -> Result<PathBuf> {
    let dir = dir
        .canonicalize()
        .with_context(|| format!("failed to open the folder {}", dir.display()))?;

    if !dir.is_dir() {
        bail!(reasons::NO_PROJECT.error(format!(
            "{} is a file: use the project's folder",
            dir.display()
        )));
    }

    Ok(dir)
}

/// Returns the last part of the name in a project's file, without scope or version.
fn name_in(language: Language, text: &str) -> Result<Option<String>> {
    let name = match language {
        Language::Rust => {
            let manifest: toml::Table = toml::from_str(text)?;
            if !manifest.contains_key("package") {
                bail!(
                    reasons::NO_PROJECT
                        .error("this is a workspace: use the folder of one of its packages")
                );
            }
            manifest["package"]
                .get("name")
                .and_then(toml::Value::as_str)
                .map(str::to_owned)
        }
        Language::Python => {
            let manifest: toml::Table = toml::from_str(text)?;
            manifest
                .get("project")
                .and_then(|project| project.get("name")?.as_str())
                .map(str::to_owned)
        }
        Language::TypeScript => {
            let manifest: serde_json::Value = serde_json::from_str(text)?;
            manifest["name"]
                .as_str()
                .and_then(|name| name.rsplit('/').next())
                .map(str::to_owned)
        }
        Language::Go => text
            .lines()
            .find_map(|line| line.trim().strip_prefix("module "))
            .and_then(|module| {
                let module = module
                    .split("//")
                    .next()
                    .unwrap_or_default()
                    .trim()
                    .trim_matches('"');
                let is_version = |part: &&str| {
                    part.strip_prefix('v').is_some_and(|digits| {
                        !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit())
                    })
                };
                module
                    .rsplit('/')
                    .find(|part| !is_version(part))
                    .map(str::to_owned)
            }),
        Language::C | Language::Cpp | Language::Zig => None,
    };

    // It is used as a file name.
    Ok(name.filter(|name| {
        !name.is_empty() && !name.contains(['/', '\\', '\0']) && name != "." && name != ".."
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(language: Language, text: &str) -> Option<String> {
        name_in(language, text).expect("parses")
    }

    #[test]
    fn a_project_is_called_as_its_own_file_says() {
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(
            name(Language::Rust, "[package]\nname = \"a-b\""),
            some("a-b")
        );
        assert_eq!(
            name(
                Language::Go,
                "// x\nmodule example.com/me/op/v2 // here\n\ngo 1.24\n"
            ),
            some("op")
        );
        assert_eq!(name(Language::Go, "module \"op\"\n"), some("op"));
        assert_eq!(
            name(Language::TypeScript, r#"{"name": "@me/op"}"#),
            some("op")
        );
        assert_eq!(
            name(Language::Python, "[project]\nname = \"op\""),
            some("op")
        );
        assert_eq!(name(Language::Python, "[build-system]\n"), None);
        assert_eq!(name(Language::TypeScript, r#"{"name": ".."}"#), None);
    }

    #[test]
    fn file_name_tells_c_cpp_and_zig_apart() {
        for (file, language) in [
            ("plugin.c", "C"),
            ("plugin.cpp", "C++"),
            ("plugin.zig", "Zig"),
        ] {
            let folder = tempfile::tempdir().expect("folder");
            std::fs::write(folder.path().join(file), "").expect("file");
            let project = Project::find(folder.path()).expect("a project");
            assert_eq!(project.language_name(), language);
        }
    }

    #[test]
    fn what_is_no_project_is_told_apart() {
        let folder = tempfile::tempdir().expect("folder");
        let error = |part: &str| {
            let error = format!(
                "{:#}",
                Project::find(folder.path()).err().expect("no project")
            );
            assert!(error.contains(part), "{error}");
        };

        error("it has none of Cargo.toml, go.mod");
        std::fs::write(folder.path().join("Cargo.toml"), "[workspace]").expect("file");
        error("use the folder of one of its packages");

        std::fs::write(folder.path().join("go.mod"), "module x").expect("file");
        error("it has Cargo.toml and go.mod");
        error("--process");

        let go = Project::find_program(folder.path()).expect("the Go module");
        assert_eq!((go.language, go.name.as_str()), (Language::Go, "x"));

        assert!(
            format!(
                "{:#}",
                Project::find(Path::new("/no/such")).err().expect("none")
            )
            .contains("/no/such")
        );

        std::fs::remove_file(folder.path().join("go.mod")).expect("removed");
        std::fs::write(folder.path().join("Cargo.toml"), "[package]\nname = \"x\"").expect("file");
        let rust = Project::find_program(folder.path()).expect("the package");
        assert_eq!((rust.language, rust.name.as_str()), (Language::Rust, "x"));

        std::fs::remove_file(folder.path().join("Cargo.toml")).expect("removed");
        let error = Project::find_program(folder.path())
            .err()
            .expect("no module");
        assert!(
            error.to_string().contains("neither go.mod nor Cargo.toml"),
            "{error}"
        );
    }
}
