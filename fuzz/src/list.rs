//! A list that arrives in chunks. The items and the result do not depend on chunk boundaries. If
//! the list is JSON, its items are those that serde_json finds.
//!
//! The input: a seed byte for the chunks, and the list.

use operetta_core::{
    object::{kind::GroupVersionKind, prune::Prune},
    status::ErrorKind,
};
use operetta_kube::informer::{
    frames::read_item,
    list::{Items, ListMeta},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::chunkings;

#[derive(Deserialize)]
struct List<'a> {
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

/// Checks the module's invariants on one input.
pub fn list(data: &[u8]) {
    let Some((seed, data)) = data.split_first() else {
        return;
    };
    let (items, end) = read(&[data]);
    for chunks in chunkings(data, *seed) {
        let (found, ended) = read(&chunks);
        assert_eq!(found, items, "the items depend on chunk boundaries");
        assert_eq!(
            ended.as_ref().ok(),
            end.as_ref().ok(),
            "the result depends on chunk boundaries: {ended:?} {end:?}"
        );
    }
    if let Ok(List {
        metadata,
        items: expected,
    }) = serde_json::from_slice(data)
    {
        let expected: Vec<Vec<u8>> = expected
            .iter()
            .flatten()
            .map(|item| item.get().into())
            .collect();
        match end {
            Ok(found) => assert_eq!((items.as_slice(), found), (expected.as_slice(), metadata)),
            // A field whose name has an escape is reported as missing.
            Err(_) => assert!(items.is_empty() && !expected.is_empty()),
        }
    }
    let kind = GroupVersionKind::new("v1", "ConfigMap");
    for item in &items {
        match read_item(item, &kind, &Prune::managed_fields()) {
            Ok(object) => assert!(!object.resource_version().is_empty()),
            Err(unreadable) => assert!(!unreadable.why.is_empty()),
        }
    }
}

/// Reads a list from chunks. Returns its items and its result.
fn read(chunks: &[&[u8]]) -> (Vec<Vec<u8>>, Result<ListMeta, ErrorKind>) {
    let mut items = Items::default();
    let mut found = Vec::new();
    for chunk in chunks {
        if let Err(error) = items.feed(chunk, |item| found.push(item.to_vec())) {
            return (found, Err(error.kind));
        }
    }
    (found, items.end().map_err(|error| error.kind))
}
