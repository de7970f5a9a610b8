//! Paths to fields, sets of them and their encoding `FieldsV1`.

mod element;
mod element_json;
mod filter;
mod from_value;
mod path;
mod set;
mod set_json;
mod set_operations;

pub use element::PathElement;
pub use element_json::ElementError;
pub use filter::{ElementMatcher, FieldFilter, SetMatcher};
pub use from_value::fields_of_value;
pub use path::FieldPath;
pub use set::FieldSet;
pub use set_json::FieldsV1Error;
