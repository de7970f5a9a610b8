//! Pruned fields, left out of the cache: always managedFields, others if a watch asks for it.
//!
//! A path is a sequence of object fields, like `.spec.template`. A path through a list or a scalar
//! prunes nothing. Fields needed by the host, or to identify an object and its version, are never
//! pruned.

/// Fields that cannot be pruned. Paths to, into or above one of them are rejected.
const KEPT: [&str; 11] = [
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.generation",
    "metadata.labels",
    "metadata.ownerReferences",
    "metadata.finalizers",
    "metadata.deletionTimestamp",
];

/// A set of fields to leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prune {
    /// Paths without the leading dot.
    pub(crate) paths: Vec<String>,
}

/// Why a field cannot be pruned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PruneError {
    /// The text is not a path.
    #[error("{0:?} is not a field path like \".spec.template\"")]
    NotAPath(String),
    /// The host needs the field.
    #[error("{path:?} cannot be pruned: the host needs .{kept} of every object")]
    Kept {
        /// The path to prune.
        path: String,
        /// The field that would be lost.
        kept: &'static str,
    },
}

impl Prune {
    /// Prunes nothing.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Prunes metadata.managedFields.
    pub fn managed_fields() -> Self {
        Self {
            paths: vec!["metadata.managedFields".to_owned()],
        }
    }

    /// Prunes managedFields and the fields at these paths.
    ///
    /// # Errors
    /// Returns an error for the first text that is not a path, or names a field the host needs.
    pub fn new(paths: &[String]) -> Result<Self, PruneError> {
        let mut prune = Self::managed_fields();
        for path in paths {
            prune.paths.push(checked(path)?.to_owned());
        }
        Ok(prune)
    }

    /// Whether nothing is pruned besides managedFields.
    pub fn is_plain(&self) -> bool {
        self.paths
            .iter()
            .all(|path| path == "metadata.managedFields")
    }

    /// Whether a path leads to, into or above a pruned field.
    pub fn touches(&self, path: &str) -> bool {
        self.paths
            .iter()
            .any(|pruned| related(pruned, path.trim_start_matches('.')))
    }
}

fn checked(path: &str) -> Result<&str, PruneError> {
    let steps = path
        .strip_prefix('.')
        .filter(|steps| !steps.split('.').any(str::is_empty));
    let steps = steps.ok_or_else(|| PruneError::NotAPath(path.to_owned()))?;

    match KEPT.into_iter().find(|kept| related(kept, steps)) {
        Some(kept) => Err(PruneError::Kept {
            path: path.to_owned(),
            kept,
        }),
        None => Ok(steps),
    }
}

/// Whether one of two paths begins with all steps of the other.
fn related(one: &str, other: &str) -> bool {
    let begins = |path: &str, with: &str| {
        path.strip_prefix(with)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    begins(one, other) || begins(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_to_prune_fields_the_host_needs() {
        for (path, part) in [
            (".metadata.name", ".metadata.name"),
            (".metadata.labels", "needs .metadata.labels"),
            (".metadata.labels.app", "needs .metadata.labels"),
            (".metadata.ownerReferences", "ownerReferences"),
            (".metadata.finalizers", "finalizers"),
            (".metadata.deletionTimestamp", "deletionTimestamp"),
            (".metadata.resourceVersion", "resourceVersion"),
            (".metadata.uid", "uid"),
            (".metadata.namespace", "namespace"),
            (".metadata", "needs .metadata.name"),
            (".kind", ".kind"),
            ("status", "not a field path"),
            (".spec..a", "not a field path"),
            ("", "not a field path"),
            (".", "not a field path"),
        ] {
            let error = Prune::new(&[path.to_owned()]).expect_err(path).to_string();
            assert!(error.contains(part), "{path}: {error}");
        }
        let prune = Prune::new(&[".metadata.annotations".into(), ".metadata.labelsX".into()])
            .expect("may be pruned");
        assert!(
            prune.touches(".metadata.annotations.a")
                && prune.touches(".metadata")
                && !prune.touches(".metadatas")
        );
        assert!(!prune.is_plain() && Prune::managed_fields().is_plain());
    }
}
