//! Selectors of objects, by label and by field.

mod fields;
mod labels;
mod lexer;
#[cfg(test)]
mod tests;

pub use self::{
    fields::{FieldSelector, unknown_field},
    labels::LabelSelector,
};
