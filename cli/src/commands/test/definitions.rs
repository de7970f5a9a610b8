//! The CustomResourceDefinitions of a project.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::commands::{build::Project, dev::read_objects};

/// The file of a project's definitions.
const FILE: &str = "crd.yaml";
const KIND: &str = "CustomResourceDefinition";

/// The definitions of a file.
#[derive(Debug, Default)]
pub struct Definitions {
    /// The file; None if there is none.
    pub file: Option<PathBuf>,
    /// The definitions.
    pub objects: Vec<Value>,
}

impl Definitions {
    /// Reads a project's definitions: its crd.yaml, or the one in the folder above, which projects
    /// in several languages share. `manifests` names another folder.
    ///
    /// # Errors
    /// Returns an error that names the file if it contains anything but definitions.
    pub fn of(project: &Path, manifests: Option<&Path>) -> Result<Self> {
        if let Some(folder) = manifests {
            let file = folder.join(FILE);
            if !file.is_file() {
                bail!(
                    "{} does not exist: --manifests names the folder of crd.yaml",
                    file.display()
                );
            }
            return Self::read(file);
        }

        let folders = [Some(project), project.parent()];
        let files = folders
            .into_iter()
            .flatten()
            .map(|folder| folder.join(FILE));

        files
            .into_iter()
            .find(|file| file.is_file())
            .map_or_else(|| Ok(Self::default()), Self::read)
    }

    /// Reads the definitions of the project around a folder; none if there is no project.
    ///
    /// # Errors
    /// As [`Definitions::of`], and if the folder does not exist.
    pub fn near(dir: &Path, manifests: Option<&Path>) -> Result<Self> {
        let dir = dir
            .canonicalize()
            .with_context(|| format!("failed to open the folder {}", dir.display()))?;
        let project = dir.ancestors().find(|folder| Project::is_marked(folder));
        Self::of(project.unwrap_or(&dir), manifests)
    }

    fn read(file: PathBuf) -> Result<Self> {
        let objects = read_objects(&file)?;

        for object in &objects {
            if object["kind"] != KIND {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                bail!(
                    "{} has {} {name}: only {KIND}s belong there",
                    file.display(),
                    object["kind"]
                );
            }
        }

        Ok(Self {
            file: Some(file),
            objects,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b.c}\n";

    #[test]
    fn definitions_are_those_of_the_project_or_of_the_folder_above() {
        let folder = tempfile::tempdir().expect("a folder");
        let project = folder.path().join("rust");
        let inside = project.join("src/deep");
        std::fs::create_dir_all(&inside).expect("folders");
        std::fs::write(project.join("Cargo.toml"), "").expect("a mark");

        assert!(
            Definitions::near(&inside, None)
                .expect("none is fine")
                .file
                .is_none()
        );

        std::fs::write(folder.path().join(FILE), CRD).expect("written");
        let shared = Definitions::near(&inside, None).expect("read");
        assert_eq!(shared.objects.len(), 1);

        std::fs::write(project.join(FILE), "").expect("written");
        let own = Definitions::near(&inside, None).expect("read");
        assert!(own.objects.is_empty() && own.file.expect("a file").ends_with("rust/crd.yaml"));
    }

    #[test]
    fn other_objects_are_refused_with_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(
            folder.path().join(FILE),
            "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n",
        )
        .expect("written");

        let error = Definitions::of(folder.path(), None)
            .expect_err("refused")
            .to_string();
        assert!(
            error.contains("crd.yaml has \"Secret\" a: only CustomResourceDefinitions"),
            "{error}"
        );

        let error = Definitions::of(folder.path(), Some(&folder.path().join("none")))
            .expect_err("refused")
            .to_string();
        assert!(error.contains("none/crd.yaml does not exist"), "{error}");
    }
}
