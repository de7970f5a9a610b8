//! Manifests from `describe()`. A parsed manifest is valid by the published schema, and does not
//! change when it is serialised and parsed again.
//!
//! The input: the text.

use std::sync::OnceLock;

use jsonschema::Validator;
use operetta_core::{
    manifest::{self, Manifest, ManifestError},
    object::prune::Prune,
    predicate,
};

/// Checks the module's invariants on one input.
pub fn manifest(data: &[u8]) {
    static SCHEMA: OnceLock<Validator> = OnceLock::new();
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let manifest = match manifest::parse(text) {
        Ok(manifest) => manifest,
        Err(ManifestError::Field { path, message }) => {
            assert!(
                !path.is_empty() && !message.is_empty(),
                "{path:?}: {message:?}"
            );
            return;
        }
    };
    let schema = SCHEMA.get_or_init(|| {
        let schema = serde_json::to_value(schemars::schema_for!(Manifest)).expect("a schema");
        jsonschema::validator_for(&schema).expect("a valid schema")
    });
    let tree = serde_json::from_str(text).expect("a manifest is JSON");
    assert!(
        schema.is_valid(&tree),
        "the host accepts a manifest that the schema refuses: {text}"
    );
    let written = serde_json::to_string(&manifest).expect("a manifest serialises");
    assert_eq!(
        manifest::parse(&written).expect("a serialised manifest parses"),
        manifest
    );

    assert!(!manifest.controllers.is_empty());
    for controller in &manifest.controllers {
        assert!((1..=64).contains(&controller.workers));
        let watched = controller.watches.iter().map(|watch| &watch.source);
        for source in std::iter::once(&controller.for_)
            .chain(&controller.owns)
            .chain(watched)
        {
            predicate::check(&source.predicates).expect("valid predicates");
            let pruned = Prune::new(&source.prune).expect("valid paths to prune");
            let fields = predicate::fields(&source.predicates);
            assert!(source.prune.is_empty() || !fields.iter().any(|field| pruned.touches(field)));
        }
    }
}
