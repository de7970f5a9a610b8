//! Types for merging: what is a leaf, what is a set, and by which keys the items of a list are
//! known.

mod custom_resource;
mod empty_object;
mod object_meta;
mod openapi;
mod types;

pub use custom_resource::custom_resource_schema;
pub use empty_object::empty_object;
pub use openapi::{Definitions, SchemaError, group_version_kinds, schema_of_definitions};
pub use types::{
    Atom, DEDUCED_TYPE, ListType, MapType, ObjectType, Relationship, Scalar, Schema, StructField,
    TypeRef, UNTYPED_TYPE,
};
