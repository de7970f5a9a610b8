//! The ConfigMaps and Secrets that `spec.process` names. They are read, authorised and watched as
//! those of `spec.configFrom` are.

use std::{collections::BTreeMap, sync::Arc};

use operetta_api::reasons;
use operetta_core::{authz::access_review::SubjectGrants, object::ObjectKey, status::ApiError};
use tokio::sync::watch;

use super::inputs::{self, Fields};
use crate::{
    context::Context,
    plugin::{
        config::references::{Contents, Reference, References},
        crd::{ConfigKind, Plugin, ProcessSpec},
    },
    problem::Problem,
};

/// The most ConfigMaps and Secrets that one process may name.
const MAX_OBJECTS: usize = 64;

/// The ConfigMaps and Secrets of a Plugin's process, and those who follow their contents.
#[derive(Default)]
pub struct Sources {
    references: References,
    /// The versions that the watches knew at the last read; None if everything must be read again.
    read: Option<String>,
    contents: watch::Sender<Arc<Contents>>,
}

impl Sources {
    /// Returns the contents, which a running process follows.
    pub fn follow(&self) -> watch::Receiver<Arc<Contents>> {
        self.contents.subscribe()
    }

    /// Reads what has changed, and passes it on to those who follow. The inner error says why the
    /// process may not start now. A running process keeps its old content of the parts that the
    /// problem is about.
    ///
    /// # Errors
    /// The API server's error when it doesn't respond; the caller retries.
    pub async fn read(
        &mut self,
        context: &Arc<Context>,
        key: &ObjectKey,
        plugin: &Plugin,
        grants: &SubjectGrants,
    ) -> Result<Result<(), Problem>, ApiError> {
        let Some(spec) = &plugin.spec.process else {
            self.references = References::default();
            self.read = None;
            return Ok(Ok(()));
        };

        let wanted = match objects(spec) {
            Ok(wanted) => wanted,
            Err(problem) => return Ok(Err(problem)),
        };
        self.references.watch(context, key, grants, &wanted).await?;
        if let Some(forbidden) = self.references.forbidden(grants).await? {
            let field = field_of(spec, forbidden);
            return Ok(Err(forbidden.forbidden(grants, &field)));
        }

        let versions = self.references.versions();
        if versions.is_none() || self.read != versions {
            self.read = None;
            let contents = match self.references.read(context, grants).await? {
                Ok(contents) => contents,
                Err(unreadable) => {
                    let field = |reference: &Reference| field_of(spec, reference);
                    return Ok(Err(unreadable.problem(grants, field)));
                }
            };
            self.contents.send_if_modified(|current| {
                let is_new = current.digest() != contents.digest();
                if is_new {
                    *current = Arc::new(contents);
                }
                is_new
            });
            self.read = versions;
        }

        let none = BTreeMap::new();
        let fields = Fields {
            plugin: key,
            uid: plugin.metadata.uid.as_deref().unwrap_or_default(),
            labels: plugin.metadata.labels.as_ref().unwrap_or(&none),
            annotations: plugin.metadata.annotations.as_ref().unwrap_or(&none),
            service_account: &grants.subject().name,
            memory_bytes: context.config.process_memory_bytes(&plugin.spec.limits),
        };
        Ok(inputs::check(spec, &self.contents.borrow(), fields))
    }
}

/// Returns the first field of a spec that names this object.
fn field_of(spec: &ProcessSpec, reference: &Reference) -> String {
    let mut named = inputs::named(spec).into_iter();
    let found = named.find(|named| reference.is(named.kind, named.name));
    found.map_or_else(|| "spec.process".to_owned(), |named| named.field)
}

/// Returns the objects that a spec names, each once.
fn objects(spec: &ProcessSpec) -> Result<Vec<(ConfigKind, String)>, Problem> {
    let named = inputs::named(spec).into_iter();
    let mut objects: Vec<_> = named
        .map(|named| (named.kind, named.name.to_owned()))
        .collect();
    objects.sort_unstable();
    objects.dedup();
    if objects.len() <= MAX_OBJECTS {
        return Ok(objects);
    }
    let message = format!(
        "spec.process names {} ConfigMaps and Secrets; {MAX_OBJECTS} are the most",
        objects.len()
    );
    Err(Problem::new(reasons::CONFIG_TOO_LARGE, message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spec_names_a_bounded_number_of_objects() {
        let spec = |names: usize| -> ProcessSpec {
            let sources: Vec<_> = (0..names)
                .flat_map(|at| {
                    let source = json!({"configMapRef": {"name": format!("c{at}")}});
                    [source.clone(), source]
                })
                .collect();
            serde_json::from_value(json!({"envFrom": sources})).expect("a spec")
        };
        assert_eq!(
            objects(&spec(MAX_OBJECTS)).map(|all| all.len()),
            Ok(MAX_OBJECTS)
        );
        let problem = objects(&spec(MAX_OBJECTS + 1)).expect_err("too many");
        assert_eq!(problem.reason, "ConfigTooLarge");
    }
}
