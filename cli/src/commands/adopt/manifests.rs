//! Finds the manifests of an operator in its repository.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::helper::Kind;

const KUSTOMIZATION: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Where kubebuilder puts the kustomization.
const DEFAULT: &str = "config/default";

/// Where charts usually are; `*` stands for any name.
const CHARTS: [&str; 7] = [
    "chart",
    "charts/*",
    "dist/chart",
    "deploy/chart*",
    "deploy/charts/*",
    "helm",
    "helm/*",
];

/// Folders of YAML.
const FOLDERS: [&str; 3] = ["deploy", "manifests", "config"];

/// Manifests in a repository.
#[derive(Debug, PartialEq, Eq)]
pub struct Manifests {
    pub kind: Kind,
    pub path: PathBuf,
}

impl Manifests {
    /// Takes the manifests that the user names, or looks where projects usually have them.
    ///
    /// # Errors
    /// Returns an error if there are none, or more than one chart.
    pub fn find(project: &Path, named: Option<&Path>) -> Result<Self> {
        if let Some(named) = named {
            let path = named
                .canonicalize()
                .with_context(|| format!("failed to open the manifests {}", named.display()))?;
            return match Self::of(&path) {
                Some(found) => Ok(found),
                None => bail!(
                    "{} has no kustomization.yaml, no Chart.yaml and no YAML files",
                    named.display()
                ),
            };
        }

        let default = project.join(DEFAULT);
        if is_kustomization(&default) {
            return Ok(Self {
                kind: Kind::Kustomization,
                path: default,
            });
        }

        let charts: Vec<_> = CHARTS
            .iter()
            .flat_map(|pattern| matching(project, pattern))
            .filter(|folder| is_chart(folder))
            .collect();
        match charts.as_slice() {
            [] => {}
            [chart] => {
                return Ok(Self {
                    kind: Kind::Chart,
                    path: chart.clone(),
                });
            }
            several => {
                let names: Vec<_> = several
                    .iter()
                    .map(|chart| chart.strip_prefix(project).unwrap_or(chart))
                    .map(|chart| chart.display().to_string())
                    .collect();
                bail!(
                    "{} has several charts: choose one with --manifests: {}",
                    project.display(),
                    names.join(", ")
                );
            }
        }

        let found = FOLDERS
            .iter()
            .find_map(|folder| Self::of(&project.join(folder)));
        found.with_context(|| {
            format!(
                "found no manifests in {}: no {DEFAULT}/kustomization.yaml, no chart in {}, no YAML in {}; say where they are \
                 with --manifests",
                project.display(),
                CHARTS.join(", "),
                FOLDERS.join(", ")
            )
        })
    }

    /// What kind of manifests a path has; None if it has none.
    fn of(path: &Path) -> Option<Self> {
        let kind = if is_kustomization(path) {
            Kind::Kustomization
        } else if is_chart(path) {
            Kind::Chart
        } else if path.is_file() || has_yaml(path) {
            Kind::Files
        } else {
            return None;
        };
        Some(Self {
            kind,
            path: path.to_owned(),
        })
    }
}

fn is_kustomization(folder: &Path) -> bool {
    KUSTOMIZATION.iter().any(|name| folder.join(name).is_file())
}

fn is_chart(folder: &Path) -> bool {
    folder.join("Chart.yaml").is_file()
}

fn has_yaml(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        path.is_file() && matches!(extension, Some("yaml" | "yml" | "json"))
    })
}

/// The folders that match a pattern whose last part may end in `*`, sorted.
fn matching(project: &Path, pattern: &str) -> Vec<PathBuf> {
    let Some(prefix) = pattern.strip_suffix('*') else {
        return vec![project.join(pattern)];
    };

    let (folder, prefix) = prefix.rsplit_once('/').unwrap_or((".", prefix));
    let entries = std::fs::read_dir(project.join(folder))
        .into_iter()
        .flatten()
        .flatten();
    let mut found: Vec<_> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for name in files {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().expect("a parent")).expect("a folder");
            std::fs::write(file, "").expect("a file");
        }
        folder
    }

    #[test]
    fn manifests_are_found_at_the_usual_places_in_their_order() {
        let all = [
            "config/default/kustomization.yaml",
            "deploy/chart-op/Chart.yaml",
            "deploy/operator.yaml",
        ];
        for (files, kind, path) in [
            (&all[..], Kind::Kustomization, "config/default"),
            (&all[1..], Kind::Chart, "deploy/chart-op"),
            (&all[2..], Kind::Files, "deploy"),
            (&["dist/chart/Chart.yaml"][..], Kind::Chart, "dist/chart"),
            (
                &["deploy/kustomization.yml", "deploy/x.yaml"][..],
                Kind::Kustomization,
                "deploy",
            ),
        ] {
            let project = project(files);
            let path = project.path().join(path);
            let found = Manifests::find(project.path(), None).expect("manifests");
            assert_eq!(found, Manifests { kind, path });
        }
    }

    #[test]
    fn absent_and_ambiguous_manifests_are_errors_that_list_places() {
        let empty = project(&["config/default/notes.txt", "deploy/script.sh"]);
        let error = |project: &Path, named: Option<&Path>| {
            let error = Manifests::find(project, named).expect_err("none");
            format!("{error:#}")
        };
        let said = error(empty.path(), None);
        for part in [
            "config/default/kustomization.yaml",
            "charts/*",
            "--manifests",
        ] {
            assert!(said.contains(part), "{said}");
        }

        let said = error(empty.path(), Some(&empty.path().join("deploy")));
        assert!(
            said.contains("no kustomization.yaml, no Chart.yaml"),
            "{said}"
        );
        let said = error(empty.path(), Some(Path::new("/no/such")));
        assert!(said.contains("/no/such"), "{said}");

        let two = project(&["charts/b/Chart.yaml", "charts/a/Chart.yaml"]);
        let said = error(two.path(), None);
        assert!(said.contains("--manifests: charts/a, charts/b"), "{said}");
        let named = Manifests::find(two.path(), Some(&two.path().join("charts/b")));
        assert_eq!(named.expect("one").kind, Kind::Chart);
    }
}
