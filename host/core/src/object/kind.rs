//! Names of kinds; the type is operetta-api's.

pub use operetta_api::{GroupVersionKind, check_api_version};
