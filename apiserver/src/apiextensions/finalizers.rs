//! The warnings about finalizers of custom resources.

use crate::{
    apimachinery::{metadata::Metadata, names},
    golang,
};

/// Lists the warnings about new finalizers that are not qualified by a domain.
pub fn finalizer_warnings(new: Metadata<'_>, old: Option<Metadata<'_>>) -> Vec<String> {
    let mut warnings = Vec::new();

    for name in new.finalizers_added_to(old) {
        let quoted = golang::quote(name);
        warnings.extend(
            names::qualified_name(name)
                .into_iter()
                .map(|detail| format!("metadata.finalizers: {quoted}: {detail}")),
        );

        let standard = ["orphan", "foregroundDeletion", "kubernetes"].contains(&name);
        if !name.contains('/') && !standard {
            let path = if name.contains('.') {
                " including a path (/)"
            } else {
                ""
            };

            warnings.push(format!(
                "metadata.finalizers: {quoted}: prefer a domain-qualified finalizer name{path} \
                 to avoid accidental conflicts with other finalizer writers"
            ));
        }
    }

    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn warns_of_unqualified_finalizers_once_they_are_new() {
        let (old, new) = (
            json!({"finalizers": ["old"]}),
            json!({"finalizers": ["old", "new", "a.b", "a.b/c"]}),
        );
        let warnings = finalizer_warnings(Metadata::new(&new), Some(Metadata::new(&old)));
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].contains("\"a.b\": prefer") && warnings[1].contains("\"new\": prefer"));
    }
}
