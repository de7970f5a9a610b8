//! The definitions of the built-in kinds in the OpenAPI document of version 2.

use serde_json::{Map, Value};

use super::data;
use crate::apimachinery::openapi::definition;

/// Returns the definitions by name. Of the kinds that all groups have, such as DeleteOptions, only
/// some of their groups are named.
pub fn openapi_v2_definitions() -> Map<String, Value> {
    let schemas: Map<String, Value> = serde_json::from_slice(&data::schemas()).unwrap_or_default();
    schemas
        .into_iter()
        .map(|(name, schema)| (name, definition(schema)))
        .collect()
}
