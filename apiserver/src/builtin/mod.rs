//! The built-in kinds: their schemas, defaults, validation and strategic merge patches.
//!
//! A pure library over JSON values, with the facts of a real API server of the same version:
//! `data/README.md` says where they come from, what is not validated, and how answers may differ. A
//! create is [`decode_body`], the namespace, name, uid and creation time of the store, [`allocate`]
//! for a Service, and [`prepare_create`]; an update is [`decode_value`], [`allocate`] and
//! [`prepare_update`] with the object in the store. Both yield the stored form, which [`write()`]
//! prints in the order of the Go types. Versions of resources, managed fields, deletion, admission
//! (the protection finalizers, tolerations and priorities of Pods) and the allocation of ranges
//! belong to others.
//!
//! ```
//! use operetta_apiserver::apimachinery::options::FieldValidation;
//! use operetta_apiserver::builtin::{Instant, decode_body, prepare_create, resource_of_plural};
//!
//! let resource = resource_of_plural("apps", "v1", "deployments").expect("a built-in resource");
//! let body = br#"{"metadata":{"name":"web","namespace":"default"},"spec":{"replicas":-1}}"#;
//! let decoded = decode_body(resource, body, FieldValidation::Strict)?;
//! let now = Instant { seconds: 0, nanos: 0 };
//! let error = prepare_create("apps/v1", "Deployment", decoded.object, now).expect_err("it has no selector");
//! assert_eq!(error.to_value()["details"]["causes"][0]["field"], "spec.replicas");
//! # Ok::<(), operetta_apiserver::apimachinery::status::Status>(())
//! ```

mod codec;
mod columns;
mod convert;
mod data;
mod defaults;
mod object;
mod openapi;
mod openapi_v2;
mod pod_warnings;
mod qos;
pub(crate) mod registry;
mod request;
mod resources;
mod selectors;
mod service;
mod shown;
mod strategic;
mod strategy;
mod validation;
mod warnings;

pub use codec::{Instant, Quantity, QuantityError, write};
pub use columns::{TableRow, table_columns, table_row};
pub use convert::convert;
pub use defaults::label_as_template;
pub use openapi::{openapi_v3, openapi_v3_index, schema_of_kind, schema_of_reference, schemas};
pub use openapi_v2::openapi_v2_definitions;
pub use request::{
    DecodedObject, decode_body, decode_patched, decode_value, prepare_create, prepare_update,
};
pub use resources::{Resource, Subresource, resource_of_kind, resource_of_plural, resources};
pub use selectors::{field_values, selectable_fields};
pub use service::{ServiceAllocator, allocate, reserve_address};
pub use strategic::{PatchError, merge_with_schema, strategic_merge_patch};
pub use warnings::{deprecation_warning, object_warnings};
