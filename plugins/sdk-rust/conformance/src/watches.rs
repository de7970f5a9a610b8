//! A watch with a mapping function and a pruned field.

use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
use operetta_sdk::{Object, ObjectKey, Source};

use crate::{Case, Seen, word_of};

pub(crate) fn wakers() -> Source {
    Source::of::<ConfigMap>()
        .labels("conformance=wake")
        .prune([".data.pruned"])
}

/// Returns the keys that a ConfigMap names. The cache has pruned one of the two fields.
pub(crate) fn woken(map: ConfigMap) -> Vec<ObjectKey> {
    assert!(word_of(&map, "fail").is_none(), "no keys today");
    let names = ["wakes", "pruned"]
        .into_iter()
        .filter_map(|field| word_of(&map, field));
    names
        .flat_map(str::split_whitespace)
        .map(|name| map.key().beside(name))
        .collect()
}

pub(crate) fn get_pruned(case: &Case<'_>) -> Seen {
    let map: ConfigMap = case.ctx.get(case.target()?)?;
    Ok(word_of(&map, "pruned").unwrap_or_default().to_owned())
}
