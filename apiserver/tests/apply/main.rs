//! Compares server-side apply with the tables of structured-merge-diff and with recordings of a real
//! API server.

mod cases;
mod empty_objects;
mod fieldpath_cases;
mod merge_cases;
mod random;
mod recorded;
mod typed_cases;
mod value_cases;
