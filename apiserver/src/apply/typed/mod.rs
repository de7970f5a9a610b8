//! Operations on values of a type: validation, merging, comparison, field sets, removal and
//! extraction.

mod compare;
mod ensure_named;
mod error;
mod field_set;
mod list_items;
mod merge;
mod merge_order;
mod reconcile;
mod remove;
mod typed_value;
mod validate;

pub use compare::Comparison;
pub use error::{ValidationError, ValidationErrors};
pub use typed_value::TypedValue;
pub use validate::Duplicates;
