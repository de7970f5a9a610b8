//! What all kinds of objects and all parts of the server have in common, once: the concepts of
//! `k8s.io/apimachinery`.

pub mod attributes;
pub(crate) mod duration;
pub mod field;
pub mod group_resource;
pub mod json;
pub(crate) mod metadata;
pub(crate) mod names;
pub(crate) mod openapi;
pub mod options;
pub mod quantity;
#[cfg(test)]
pub(crate) mod recorded;
pub(crate) mod selector;
pub mod status;
pub mod yaml;
