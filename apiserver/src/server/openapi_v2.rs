//! The OpenAPI document of version 2. kubectl validates the objects of a `List` with its
//! definitions; it has no paths.

use std::sync::OnceLock;

use http::HeaderMap;
use serde_json::{Map, Value, json};

use super::{negotiate::accept_list, protobuf};
use crate::apimachinery::json;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The name of the same media type that kubectl sends.
const PROTOBUF_DEPRECATED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// A representation of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Representation {
    Json,
    Protobuf,
}

impl Representation {
    /// Returns the representation that a client prefers; None if it accepts neither.
    pub fn accepted(headers: &HeaderMap) -> Option<Self> {
        accept_list(headers)
            .iter()
            .find_map(|media| match media.essence.as_str() {
                "" | "*/*" | "application/*" | JSON => Some(Self::Json),
                PROTOBUF | PROTOBUF_DEPRECATED => Some(Self::Protobuf),
                _ => None,
            })
    }
}

/// The document. Each representation is made when a client first wants it.
pub struct OpenApiV2 {
    json: Vec<u8>,
    protobuf: OnceLock<Vec<u8>>,
}

impl OpenApiV2 {
    /// Creates the document with these definitions.
    #[must_use]
    pub fn new(definitions: Map<String, Value>) -> Self {
        let info = json!({"title": "Kubernetes", "version": "1.36"});
        let document =
            json!({"swagger": "2.0", "info": info, "paths": {}, "definitions": definitions});

        Self {
            json: json::to_vec(&document),
            protobuf: OnceLock::new(),
        }
    }

    /// Returns the bytes of a representation, and their media type.
    pub(super) fn bytes(&self, representation: Representation) -> (Vec<u8>, &'static str) {
        match representation {
            Representation::Json => (self.json.clone(), JSON),
            Representation::Protobuf => {
                let encode = || protobuf::openapi(&json::read(&self.json).unwrap_or_default());
                (self.protobuf.get_or_init(encode).clone(), PROTOBUF)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_gets_the_representation_that_it_prefers() {
        for (accept, expected) in [
            (None, Some(Representation::Json)),
            (Some("*/*"), Some(Representation::Json)),
            (Some(PROTOBUF_DEPRECATED), Some(Representation::Protobuf)),
            (Some(PROTOBUF), Some(Representation::Protobuf)),
            (
                Some("application/yaml, application/json;q=0.5"),
                Some(Representation::Json),
            ),
            (
                Some(
                    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf;q=0.9,application/json",
                ),
                Some(Representation::Json),
            ),
            (Some("application/yaml"), None),
            (Some("application/vnd.kubernetes.protobuf"), None),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert("accept", accept.parse().expect("a header"));
            }
            assert_eq!(Representation::accepted(&headers), expected, "{accept:?}");
        }
    }
}
