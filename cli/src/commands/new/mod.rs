//! `operetta new NAME --lang LANG`: creates a project that builds, passes its tests and runs.
//!
//! The binary contains the SDKs and writes that of the language to `NAME/sdk`, so no registry is
//! needed. The templates are files in cli/templates with `{{placeholders}}`: `common` is
//! for every language, and files of a language's own folder replace those of `common`. A project is
//! created atomically.

mod language;
mod template;

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use operetta_api::names::is_dns_label;
use operetta_api::reasons;

use self::template::Values;
use super::names::{camel_case, check_group, check_kind, check_version};
use crate::args::NewArgs;

/// A folder in the binary: its name, and its files by their paths.
type Folder = (&'static str, &'static [(&'static str, &'static [u8])]);

/// The files that build.rs found.
#[allow(clippy::redundant_static_lifetimes, reason = "generated")]
mod files {
    use super::Folder;
    include!(concat!(env!("OUT_DIR"), "/files.rs"));
}

/// Writes the project into the current folder and prints the next steps.
///
/// # Errors
/// Returns an error if an argument is wrong, or the folder exists or cannot be written.
pub fn new(args: &NewArgs) -> Result<()> {
    let values = create(args, Path::new("."))?;

    let language = language::of(args.lang);
    let mut steps = vec![format!("cd {}", args.name)];
    steps.extend(
        language
            .setup
            .iter()
            .chain(language.test)
            .map(|step| (*step).to_owned()),
    );

    steps.push("operetta build".to_owned());

    super::print(&format!(
        "{}: a plugin in {}, for {}.{}/{}. Next:\n\n  {}\n\nSee README.md for more.\n",
        args.name,
        language.name,
        values.get("kind"),
        args.group,
        args.version,
        steps.join("\n  ")
    ))
}

fn create(args: &NewArgs, parent: &Path) -> Result<Values> {
    let values = values(args)?;

    let target = parent.join(&args.name);

    if target.symlink_metadata().is_ok() {
        bail!(
            "{:?} already exists: use another name, or remove it",
            args.name
        );
    }

    let language = language::of(args.lang);
    let temporary = tempfile::Builder::new()
        .prefix(".operetta-new-")
        .tempdir_in(parent);
    let temporary = temporary.context("failed to write to this folder")?;

    for (path, text) in template::project(language.template, &values)? {
        put(&temporary.path().join(path), text.as_bytes())?;
    }
    write_sdk(language.sdk, &temporary.path().join("sdk"))?;

    let public = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(temporary.path(), public).context("failed to set the folder's mode")?;
    fs::rename(temporary.path(), &target)
        .with_context(|| format!("failed to create the folder {:?}", args.name))?;

    // The folder was moved: there is nothing to remove.
    let _gone = temporary.keep();

    Ok(values)
}

/// Writes the SDK of a language into a folder.
///
/// # Errors
/// Returns an error if the binary lacks the SDK, or the folder cannot be written.
pub fn write_sdk(name: &str, target: &Path) -> Result<()> {
    let files = folder(files::SDKS, name)
        .with_context(|| format!("this operetta was built without plugins/sdk-{name}"))?;

    for (path, bytes) in files {
        put(&target.join(path), bytes)?;
    }

    Ok(())
}

/// The values of the placeholders.
fn values(args: &NewArgs) -> Result<Values> {
    let name = &args.name;
    // Identifiers begin with a letter.
    if !is_dns_label(name) || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        bail!(reasons::INVALID_NAME.error(format!(
            "{name:?} is not a valid plugin name: use a lower case letter, then letters, digits and '-', at most 63"
        )));
    }

    check_group(&args.group)?;
    check_version(&args.version)?;
    let kind = args.kind.clone().unwrap_or_else(|| camel_case(name));
    check_kind(&kind)?;
    language::check(args.lang, name)?;

    Ok(Values::new(
        name,
        &args.group,
        &args.version,
        &kind,
        &language::of(args.lang),
    ))
}

fn folder(all: &[Folder], name: &str) -> Option<&'static [(&'static str, &'static [u8])]> {
    all.iter()
        .find(|(found, _)| *found == name)
        .map(|(_, files)| *files)
}

fn put(file: &Path, bytes: &[u8]) -> Result<()> {
    let failed = || format!("failed to write {}", file.display());
    fs::create_dir_all(file.parent().unwrap_or(Path::new("."))).with_context(failed)?;
    fs::write(file, bytes).with_context(failed)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::args::Language;

    fn args(name: &str, lang: Language) -> NewArgs {
        NewArgs {
            name: name.into(),
            lang,
            group: "example.com".into(),
            version: "v1".into(),
            kind: None,
        }
    }

    #[test]
    fn every_template_renders_with_nothing_left_to_fill_in() {
        for lang in Language::value_variants() {
            let values = values(&args("my-plugin", *lang)).expect("values");
            let files = template::project(language::of(*lang).template, &values).expect("renders");

            for (path, text) in &files {
                assert!(
                    !path.contains("{{") && !text.contains("{{"),
                    "{lang:?}: {path}\n{text}"
                );
            }

            for wanted in [
                "README.md",
                ".gitignore",
                "crd.yaml",
                "rbac.yaml",
                "object.yaml",
            ] {
                assert!(files.contains_key(wanted), "{lang:?} has no {wanted}");
            }
        }
    }

    #[test]
    fn writes_the_files_that_the_readme_names() {
        for lang in Language::value_variants() {
            let values = values(&args("my-plugin", *lang)).expect("values");
            let files = template::project(language::of(*lang).template, &values).expect("renders");

            let code = language::of(*lang).code;
            let quoted = code.split('`').skip(1).step_by(2);
            let named: Vec<_> = quoted.filter(|name| name.contains(['.', '/'])).collect();
            assert!(!named.is_empty(), "{lang:?} names no file: {code}");

            for path in named {
                let folder = path.strip_suffix('/').map(|name| format!("{name}/"));
                let is_written = |file: &String| {
                    file == path || folder.as_ref().is_some_and(|name| file.starts_with(name))
                };

                assert!(
                    files.keys().any(is_written),
                    "{lang:?} has no {path}: {:?}",
                    files.keys()
                );
            }
        }
    }

    #[test]
    fn the_yaml_is_what_kubernetes_reads() {
        let values = values(&args("my-plugin", Language::Rust)).expect("values");
        let files = template::project("rust", &values).expect("renders");
        for path in ["crd.yaml", "rbac.yaml", "object.yaml"] {
            for document in serde_yaml_ng::Deserializer::from_str(&files[path]) {
                let object =
                    <serde_json::Value as serde::Deserialize>::deserialize(document).expect(path);
                assert!(
                    object["apiVersion"].is_string() && object["metadata"]["name"].is_string(),
                    "{path}: {object}"
                );
            }
        }

        let crd: serde_json::Value = serde_yaml_ng::from_str(&files["crd.yaml"]).expect("crd.yaml");
        assert_eq!(crd["metadata"]["name"], "myplugins.example.com");
        assert!(files["rbac.yaml"].contains("operetta.dev/allow-plugins: my-plugin"));
    }

    #[test]
    fn sample_shares_its_name_with_no_plugin_and_no_other_sample() {
        let names = ["one", "two"].map(|name| {
            let values = values(&args(name, Language::Go)).expect("values");
            let files = template::project("go", &values).expect("renders");

            let object: serde_json::Value =
                serde_yaml_ng::from_str(&files["object.yaml"]).expect("object.yaml");
            object["metadata"]["name"]
                .as_str()
                .expect("a name")
                .to_owned()
        });
        assert_eq!(names, ["one-sample", "two-sample"]);
    }

    #[test]
    fn a_project_appears_whole_and_never_in_place_of_another() {
        let folder = tempfile::tempdir().expect("folder");
        create(&args("mine", Language::Go), folder.path()).expect("made");
        for file in [
            "go.mod",
            "plugin_test.go",
            "README.md",
            ".gitignore",
            "sdk/go.mod",
            "sdk/README.md",
        ] {
            assert!(folder.path().join("mine").join(file).is_file(), "{file}");
        }

        let error = create(&args("mine", Language::Rust), folder.path())
            .err()
            .expect("exists")
            .to_string();
        assert!(error.contains("\"mine\" already exists"), "{error}");

        assert_eq!(fs::read_dir(folder.path()).expect("folder").count(), 1);
    }

    #[test]
    fn what_is_no_name_is_refused_before_anything_is_written() {
        let folder = tempfile::tempdir().expect("folder");
        let error = |args: NewArgs| {
            create(&args, folder.path())
                .err()
                .expect("refused")
                .to_string()
        };

        for name in ["My-Plugin", "1st", "../x", ""] {
            let error = error(args(name, Language::Rust));
            assert!(error.contains("is not a valid plugin name"), "{error}");
        }

        let group = NewArgs {
            group: "k8s.io".into(),
            ..args("x", Language::Go)
        };
        assert!(error(group).contains("reserved for Kubernetes"));
        assert!(error(args("async", Language::Rust)).contains("a Rust keyword"));

        assert_eq!(fs::read_dir(folder.path()).expect("folder").count(), 0);
    }

    #[test]
    fn an_sdk_goes_without_its_tests() {
        for (language, files) in files::SDKS {
            assert!(
                files.iter().any(|(path, _)| path.ends_with("README.md")),
                "{language}"
            );

            let unwanted = files.iter().find(|(path, _)| {
                path.split('/')
                    .any(|part| ["node_modules", "conformance", "target", "tests"].contains(&part))
            });
            assert_eq!(unwanted.map(|(path, _)| path), None, "{language}");
        }
    }
}
