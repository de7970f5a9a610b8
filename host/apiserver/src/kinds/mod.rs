//! The built-in kinds: their schemas, defaults, validation and strategic merge patches.

mod codec;
mod columns;
mod data;
mod defaults;
mod errors;
mod object;
mod openapi;
mod qos;
mod request;
mod resources;
mod selectors;
mod service;
mod strategic;
mod strategy;
mod validation;
mod warnings;

pub use codec::{Instant, Quantity, QuantityError, SyntaxError, write};
pub use columns::{TableRow, table_columns, table_row};
pub use errors::{BadValue, FieldError, FieldErrorType, KindError};
pub use openapi::{openapi_v3, openapi_v3_index, openapi_v3_of_version, schema_of_kind, schema_of_reference};
pub use request::{
    DecodedObject, FieldValidation, decode_body, decode_value, normalize, prepare_create, prepare_update,
};
pub use resources::{
    Resource, Subresource, discovery_of_core, discovery_of_groups, resource_of_kind, resource_of_plural, resources,
};
pub use selectors::FieldSelector;
pub use service::{ServiceAllocator, allocate};
pub use strategic::{PatchError, merge_with_schema, strategic_merge_patch};
pub use strategy::reset_fields;
pub use warnings::{deprecation_warning, object_warnings};
