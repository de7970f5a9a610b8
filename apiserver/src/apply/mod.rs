//! Server-side apply: managed fields, merges and conflicts.
//!
//! This is structured-merge-diff 6.3 and apimachinery's `managedfields` of kube-apiserver 1.36, on
//! JSON values. Nothing here does I/O or reads a clock.
//!
//! | module | contents |
//! |---|---|
//! | `value` | the order, equality and text of JSON values |
//! | `fieldpath` | paths, sets of fields, `FieldsV1` |
//! | `schema` | types for merging, from OpenAPI and from CRDs |
//! | `typed` | merge, compare, remove and extract values of a type |
//! | `merge` | the managers after an apply or an update, conflicts, pruning |
//! | `manager` | what a request adds to them; callers start at [`manager::FieldManager`] |
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use operetta_apiserver::apply::manager::{CustomTypes, FieldManager};
//! use serde_json::json;
//!
//! let schema = json!({"type": "object", "properties": {
//!     "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
//! }});
//! let types = CustomTypes::new("Widget", [("example.com/v1".to_owned(), Some(&schema))], false)?;
//! let widgets = FieldManager {
//!     types: &types,
//!     api_version: "example.com/v1",
//!     kind: "Widget",
//!     subresource: "",
//!     filters: &BTreeMap::new(),
//! };
//! let now = "2026-01-01T00:00:00Z".parse()?;
//! let widget = |replicas: u32| json!({
//!     "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"replicas": replicas},
//! });
//! let live = widgets.apply(None, &widget(1), ("deployer", false), now)?;
//! assert_eq!(live["metadata"]["managedFields"][0]["manager"], "deployer");
//! let conflict = widgets.apply(Some(&live), &widget(2), ("autoscaler", false), now).unwrap_err();
//! assert_eq!(conflict.to_string(), r#"Apply failed with 1 conflict: conflict with "deployer": .spec.replicas"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod fieldpath;
pub(crate) mod fields;
pub mod manager;
pub mod merge;
pub mod schema;
pub mod typed;
pub mod value;
