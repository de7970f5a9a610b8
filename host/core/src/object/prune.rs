//! Pruned fields, which a cache leaves out: managedFields always, others where a watch says so.
//!
//! A path is steps through object fields, like `.spec.template`; where a step goes through a list or a scalar, nothing is
//! left out. What tells one object and version from another, and what the host goes by, always stays.

/// The fields that cannot be pruned: a path to one of these, into one or above one is refused.
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

/// Fields that are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prune {
    /// Without the dot in front.
    pub(crate) paths: Vec<String>,
}

/// The reason why a field cannot be pruned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PruneError {
    /// Not a path.
    #[error("{0:?} is not a field path like \".spec.template\"")]
    NotAPath(String),
    /// The host goes by it.
    #[error("{path:?} cannot be pruned: the host needs .{kept} of every object")]
    Kept {
        /// The path to prune.
        path: String,
        /// The field that would be lost.
        kept: &'static str,
    },
}

impl Prune {
    /// Leaves nothing out.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Leaves metadata.managedFields out.
    pub fn managed_fields() -> Self {
        Self { paths: vec!["metadata.managedFields".to_owned()] }
    }

    /// Leaves the fields at these paths out, and managedFields.
    ///
    /// # Errors
    /// For the first path that is none, or that would take what the host needs.
    pub fn new(paths: &[String]) -> Result<Self, PruneError> {
        let mut prune = Self::managed_fields();
        for path in paths {
            prune.paths.push(checked(path)?.to_owned());
        }
        Ok(prune)
    }

    /// Reports whether nothing is pruned besides managedFields.
    pub fn is_plain(&self) -> bool {
        self.paths.iter().all(|path| path == "metadata.managedFields")
    }

    /// Reports whether a path leads to, into or above a pruned field.
    pub fn touches(&self, path: &str) -> bool {
        self.paths.iter().any(|pruned| related(pruned, path.trim_start_matches('.')))
    }
}

fn checked(path: &str) -> Result<&str, PruneError> {
    let steps = path.strip_prefix('.').filter(|steps| !steps.split('.').any(str::is_empty));
    let steps = steps.ok_or_else(|| PruneError::NotAPath(path.to_owned()))?;
    match KEPT.into_iter().find(|kept| related(kept, steps)) {
        Some(kept) => Err(PruneError::Kept { path: path.to_owned(), kept }),
        None => Ok(steps),
    }
}

/// Reports whether one of two paths begins with all the steps of the other.
fn related(one: &str, other: &str) -> bool {
    let begins =
        |path: &str, with: &str| path.strip_prefix(with).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
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
        let prune = Prune::new(&[".metadata.annotations".into(), ".metadata.labelsX".into()]).expect("may be pruned");
        assert!(prune.touches(".metadata.annotations.a") && prune.touches(".metadata") && !prune.touches(".metadatas"));
        assert!(!prune.is_plain() && Prune::managed_fields().is_plain());
    }
}
