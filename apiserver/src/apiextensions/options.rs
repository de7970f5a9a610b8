//! How strictly a definition is validated: an update may keep what the old definition violates.

use std::collections::BTreeSet;

use super::{
    list_rules::{self, Strictness},
    model::{Definition, Spec, Version},
    schema::Schema,
    structural,
};
use crate::apimachinery::field::Path;

/// The most fields that a version can select by.
pub const MAX_SELECTABLE_FIELDS: usize = 8;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Reports whether a type is one of OpenAPI v3.
pub fn is_type(kind: &str) -> bool {
    TYPES.contains(&kind)
}

/// Returns the types of OpenAPI v3.
pub fn types() -> &'static [&'static str] {
    &TYPES
}

/// The strictness of a validation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Each version must have a schema.
    pub require_schema: bool,
    /// Types must be those of OpenAPI v3.
    pub require_types: bool,
    /// Schemas must be structural.
    pub require_structural: bool,
    /// Default values must not have unknown fields.
    pub require_pruned_defaults: bool,
    /// The rules for lists.
    pub lists: Strictness,
    /// The scope and the kind must not change.
    pub immutable_names: bool,
    /// The estimated costs of single rules are limited.
    pub limit_rule_costs: bool,
    many_selectable: BTreeSet<String>,
    /// The versions whose schemas an update leaves as they are.
    unchanged: BTreeSet<String>,
}

impl Options {
    /// Returns the strictness for new definitions.
    pub fn for_create() -> Self {
        Self {
            require_schema: true,
            require_types: true,
            require_structural: true,
            require_pruned_defaults: true,
            lists: Strictness {
                atomic_sets: true,
                map_keys: true,
            },
            immutable_names: false,
            limit_rule_costs: true,
            many_selectable: BTreeSet::new(),
            unchanged: BTreeSet::new(),
        }
    }

    /// Returns the strictness for an update.
    pub fn for_update(new: &Definition, old: &Definition) -> Self {
        let before = &old.spec;
        let none = |violates: &dyn Fn(&Schema) -> bool| !schemas(before).any(violates);
        Self {
            require_schema: before
                .versions
                .iter()
                .all(|version| version.schema().is_some()),
            require_types: none(&|s| s.any(&|s| !s.kind.is_empty() && !is_type(&s.kind))),
            require_structural: schemas(before).all(structural::is_structural),
            require_pruned_defaults: none(&|s| {
                structural::is_structural(s) && super::defaults::prune_defaults(s) != *s
            }),
            lists: Strictness {
                atomic_sets: none(&|s| s.any(&list_rules::has_non_atomic_set)),
                map_keys: none(&|s| s.any(&violates_map_keys)),
            },
            immutable_names: old.status.is_true("Established"),
            limit_rule_costs: true,
            many_selectable: many_selectable(&new.spec, before),
            unchanged: unchanged(&new.spec, before),
        }
    }

    /// Returns the strictness for the schema of a version.
    pub fn for_schema_of(&self, version: &str) -> Self {
        Self {
            limit_rule_costs: !self.unchanged.contains(version),
            ..self.clone()
        }
    }

    /// Reports whether a version may keep more selectable fields than allowed; empty names all
    /// versions.
    pub fn allows_many_selectable_fields(&self, version: &str) -> bool {
        self.many_selectable.contains(version)
    }
}

fn violates_map_keys(schema: &Schema) -> bool {
    let mut errors = Vec::new();
    list_rules::check_map_keys(schema, &Path::root(), &mut errors);
    !errors.is_empty()
}

fn schemas(spec: &Spec) -> impl Iterator<Item = &Schema> {
    spec.versions.iter().filter_map(Version::schema)
}

fn find<'a>(spec: &'a Spec, name: &str) -> Option<&'a Version> {
    spec.versions.iter().find(|version| version.name == name)
}

fn unchanged(new: &Spec, old: &Spec) -> BTreeSet<String> {
    let kept = |version: &&Version| {
        find(old, &version.name).is_some_and(|before| before.schema() == version.schema())
    };
    new.versions
        .iter()
        .filter(kept)
        .map(|version| version.name.clone())
        .collect()
}

fn many_selectable(new: &Spec, old: &Spec) -> BTreeSet<String> {
    let kept = |version: &&Version| {
        version.selectable_fields.len() > MAX_SELECTABLE_FIELDS
            && find(old, &version.name)
                .is_some_and(|before| before.selectable_fields == version.selectable_fields)
    };

    let mut names: BTreeSet<_> = new
        .versions
        .iter()
        .filter(kept)
        .map(|version| version.name.clone())
        .collect();
    if !new.versions.is_empty() && names.len() == new.versions.len() {
        names.insert(String::new());
    }

    names
}
