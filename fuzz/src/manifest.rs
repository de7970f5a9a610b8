//! Manifests from `describe()`. A text that is read as a manifest is one by the published schema, and means the same when it is
//! written and read again.
//!
//! The input: the text.

use std::sync::OnceLock;

use jsonschema::Validator;
use operetta_core::{
    manifest::{self, Manifest, ManifestError},
    object::prune::Prune,
    predicate,
};

/// See the module.
pub fn manifest(data: &[u8]) {
    static SCHEMA: OnceLock<Validator> = OnceLock::new();
    let Ok(text) = std::str::from_utf8(data) else { return };
    let manifest = match manifest::parse(text) {
        Ok(manifest) => manifest,
        Err(ManifestError::Field { path, message }) => {
            assert!(!path.is_empty() && !message.is_empty(), "{path:?}: {message:?}");
            return;
        }
    };
    let schema = SCHEMA.get_or_init(|| {
        let schema = serde_json::to_value(schemars::schema_for!(Manifest)).expect("a schema");
        jsonschema::validator_for(&schema).expect("a valid schema")
    });
    let tree = serde_json::from_str(text).expect("a manifest is JSON");
    assert!(schema.is_valid(&tree), "the schema refuses what the host takes: {text}");
    let written = serde_json::to_string(&manifest).expect("a manifest can be written");
    assert_eq!(manifest::parse(&written).expect("and read again"), manifest);

    assert!(!manifest.controllers.is_empty());
    for controller in &manifest.controllers {
        assert!((1..=64).contains(&controller.workers));
        let watched = controller.watches.iter().map(|watch| &watch.source);
        for source in std::iter::once(&controller.for_).chain(&controller.owns).chain(watched) {
            predicate::check(&source.predicates).expect("predicates were checked");
            let pruned = Prune::new(&source.prune).expect("what is pruned was checked");
            let fields = predicate::fields(&source.predicates);
            assert!(source.prune.is_empty() || !fields.iter().any(|field| pruned.touches(field)));
        }
    }
}
