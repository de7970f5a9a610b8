//! What is known of an operator: a YAML file for each.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use serde::Deserialize;

use crate::dump::{Difference, Dump};

/// An operator, how it is built and started, and what it is given to reconcile.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    /// Its name, and that of its folder in `SOURCES`.
    pub name: String,
    /// Where git clones it from, if it is not in `SOURCES`; `.` is this repository.
    #[serde(default)]
    pub repository: String,
    /// The commit that is checked out then.
    #[serde(default)]
    pub commit: String,
    /// The folder of its go.mod within the repository.
    #[serde(default = "here")]
    pub module: String,
    /// Its main package.
    #[serde(default = "here")]
    pub main: String,
    /// Of its Makefile.
    #[serde(default)]
    pub ldflags: String,

    /// Its namespace.
    pub namespace: String,
    /// Its ServiceAccount there.
    pub service_account: String,
    /// Kustomizations of its repository. Workloads and webhooks are left out.
    #[serde(default)]
    pub kustomizations: Vec<String>,
    /// Manifests of its repository, files or folders, in the same way.
    #[serde(default)]
    pub manifests: Vec<String>,
    /// More objects, where its repository has templates only.
    #[serde(default)]
    pub objects: String,
    /// As in its Deployment.
    #[serde(default)]
    pub args: Vec<String>,
    /// As in its Deployment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The files of its volumes.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Its memory, as a quantity.
    #[serde(default = "memory")]
    pub memory: String,
    /// The time without a change after which objects have settled. An operator that works in
    /// intervals needs more than one of them.
    #[serde(default = "quiet_seconds")]
    pub quiet_seconds: u64,

    /// What happens after it has started. After each step, the objects are compared.
    pub steps: Vec<Step>,
    /// Differences that have a reason.
    #[serde(default)]
    pub exceptions: Vec<Exception>,
}

/// A change that a user makes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Files of the repository to apply. Objects without a namespace are applied in `sample`.
    #[serde(default)]
    pub apply: Vec<String>,
    /// Objects to apply in the same way.
    #[serde(default)]
    pub objects: String,
    /// Objects to patch, as kubectl names them, and the merge patch for each.
    #[serde(default)]
    pub patch: BTreeMap<String, serde_json::Value>,
    /// Objects to delete, as kubectl names them: `rabbitmqcluster/hello-world`.
    #[serde(default)]
    pub delete: Vec<String>,
    /// Objects that the operator creates then, as [`Dump`](crate::dump::Dump) names them, so that
    /// nothing is compared before it has begun.
    #[serde(default)]
    pub creates: Vec<String>,
    /// Objects that are gone then.
    #[serde(default)]
    pub removes: Vec<String>,
}

/// A difference that has a reason.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exception {
    /// The object. `*` stands for any text.
    pub object: String,
    /// The path within it: `spec.template.metadata.annotations.*`. Empty if the object exists on
    /// one side only.
    #[serde(default)]
    pub path: String,
    /// Why it differs.
    pub because: String,
}

fn here() -> String {
    ".".to_owned()
}

fn memory() -> String {
    "512Mi".to_owned()
}

fn quiet_seconds() -> u64 {
    8
}

impl Case {
    /// Reads all cases of a folder, by name, or those of these names.
    ///
    /// # Errors
    /// Names the file that cannot be read, or the case that does not exist.
    pub fn read_all(folder: &Path, names: &[&str]) -> Result<Vec<Self>, String> {
        let failed = |path: &Path, error: String| format!("{}: {error}", path.display());
        let mut cases = Vec::new();
        let entries = fs::read_dir(folder).map_err(|error| failed(folder, error.to_string()))?;
        for entry in entries {
            let path = entry
                .map_err(|error| failed(folder, error.to_string()))?
                .path();
            if path.extension().is_none_or(|ending| ending != "yaml") {
                continue;
            }
            let text =
                fs::read_to_string(&path).map_err(|error| failed(&path, error.to_string()))?;
            let case: Self =
                serde_yaml_ng::from_str(&text).map_err(|error| failed(&path, error.to_string()))?;
            cases.push(case);
        }
        cases.sort_by(|a, b| a.name.cmp(&b.name));

        for name in names {
            if !cases.iter().any(|case| case.name == *name) {
                return Err(format!("{} has no case {name}", folder.display()));
            }
        }
        if !names.is_empty() {
            cases.retain(|case| names.contains(&case.name.as_str()));
        }
        Ok(cases)
    }
}

impl Case {
    /// The time without a change after which objects have settled.
    pub fn quiet(&self) -> Duration {
        Duration::from_secs(self.quiet_seconds)
    }

    /// The differences between two dumps that no exception explains.
    pub fn unexplained(&self, native: &Dump, process: &Dump) -> Vec<Difference> {
        let mut differences = native.differences(process);
        differences.retain(|difference| self.exception(difference).is_none());
        differences
    }

    /// The index of the exception that explains a difference.
    pub fn exception(&self, difference: &Difference) -> Option<usize> {
        self.exceptions.iter().position(|exception| {
            fits(&exception.object, &difference.object) && fits(&exception.path, &difference.path)
        })
    }
}

/// Reports whether a text fits a pattern, in which `*` stands for any text.
pub fn fits(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(start) else {
        return false;
    };

    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match text.split_once(part) {
            Some((_, after)) => text = after,
            None => return false,
        }
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*a", "a", false),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c", false),
            ("Secret/*/data", "Secret/x/y/data", true),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn case_with_an_unknown_field_is_refused_with_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "{name: a, namespace: a, serviceAccount: a, steps: [], colour: red}";
        fs::write(folder.path().join("a.yaml"), text).expect("a file");
        let error = Case::read_all(folder.path(), &[]).expect_err("refused");
        assert!(
            error.contains("a.yaml") && error.contains("colour"),
            "{error}"
        );

        let text = text.replace(", colour: red", "");
        fs::write(folder.path().join("a.yaml"), text).expect("a file");
        assert_eq!(
            Case::read_all(folder.path(), &[]).expect("read")[0].name,
            "a"
        );
        let error = Case::read_all(folder.path(), &["b"]).expect_err("refused");
        assert!(error.ends_with("has no case b"), "{error}");
    }
}
