//! Field management of requests: what the API server does around the updater.

mod ancient;
mod entries;
mod error;
mod field_manager;
mod last_applied;
mod metadata;
mod reset_fields;
mod scale;
mod timestamps;
mod types;
mod user_agent;

pub use entries::{DecodeError, Managed, decode_managed_fields, encode_managed_fields};
pub use field_manager::FieldManager;
pub use last_applied::LAST_APPLIED_ANNOTATION;
pub use reset_fields::{built_in_filters, custom_resource_filters};
pub use scale::{ReplicasPaths, ScaleEntries};
pub use timestamps::keep_timestamps_of_unchanged;
pub use types::{CustomTypes, OpenApiTypes, TypeConverter};
pub use user_agent::manager_of_user_agent;
