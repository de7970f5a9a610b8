//! Selectors of objects, by label and by field: as texts of a query, and as `metav1.LabelSelector`.

mod fields;
mod labels;
mod lexer;
pub mod objects;
#[cfg(test)]
mod tests;

pub use self::{
    fields::{FieldSelector, unknown_field},
    labels::LabelSelector,
};
