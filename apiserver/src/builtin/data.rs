//! The data that scripts/kinds-data.py reads from a real API server.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;
use serde_json::Value;

const KINDS: &[u8] = include_bytes!("../../data/kinds.zst");
const SCHEMAS: &[u8] = include_bytes!("../../data/schemas.zst");
const OPENAPI: &[u8] = include_bytes!("../../data/openapi.bin");

/// The largest decompressed frame in bytes: the document of core/v1 has 1.6 MB.
const MAX_FRAME: usize = 8 << 20;

/// Discovery, table columns and Go types.
#[derive(Deserialize)]
pub(super) struct Kinds {
    /// The groups below `/api`.
    pub(super) api: Vec<Value>,
    /// The groups below `/apis`.
    pub(super) apis: Vec<Value>,
    /// The columns of tables by `GROUP_VERSION RESOURCE`.
    pub(super) columns: BTreeMap<String, Value>,
    /// The lines that scripts/kinds-data prints.
    pub(super) types: String,
}

/// The parsed data of kinds.
pub(super) static DATA: LazyLock<Kinds> = LazyLock::new(|| {
    serde_json::from_slice(&decompress(KINDS, &[])).unwrap_or_else(|_| Kinds {
        api: Vec::new(),
        apis: Vec::new(),
        columns: BTreeMap::new(),
        types: String::new(),
    })
});

/// All schemas, as one JSON document.
pub(super) fn schemas() -> Vec<u8> {
    decompress(SCHEMAS, &[])
}

/// A published OpenAPI document.
pub(super) struct Document {
    pub(super) name: String,
    /// The URL with the hash of the contents.
    pub(super) url: String,
    frame: &'static [u8],
}

impl Document {
    /// Returns the document's JSON.
    pub(super) fn text(&self) -> Vec<u8> {
        decompress(self.frame, &schemas())
    }
}

/// The published OpenAPI documents in the order of their names.
pub(super) static DOCUMENTS: LazyLock<Vec<Document>> = LazyLock::new(|| {
    let end = OPENAPI.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let header: Vec<(String, String, usize)> =
        serde_json::from_slice(&OPENAPI[..end]).unwrap_or_default();
    let mut rest = OPENAPI.get(end + 1..).unwrap_or_default();
    let mut documents = Vec::with_capacity(header.len());
    for (name, url, length) in header {
        let Some((frame, tail)) = rest.split_at_checked(length) else {
            break;
        };
        rest = tail;
        documents.push(Document { name, url, frame });
    }
    documents
});

/// Decompresses a frame of this crate; the tests decompress each of them.
fn decompress(frame: &[u8], dictionary: &[u8]) -> Vec<u8> {
    zstd::bulk::Decompressor::with_dictionary(dictionary)
        .and_then(|mut decompressor| decompressor.decompress(frame, MAX_FRAME))
        .unwrap_or_default()
}
