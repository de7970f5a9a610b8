//! The types of Operetta's API, which the host and the SDKs share.
//!
//! - [`manifest`]: the document in which a plugin declares its controllers.
//! - [`GroupVersionKind`] and [`ObjectKey`]: the names of kinds and of objects.
//! - [`Class`]: the name of a trust class.
//! - [`ErrorKind`] and [`Status`]: the error of a failed API call.
//! - [`names`]: Kubernetes' rules for names.
//! - [`labels`], [`annotations`] and [`finalizers`]: the names under `operetta.dev/`.
//! - [`conditions`] and [`reasons`]: the types and reasons of a Plugin's conditions and Events.
//! - `plugin`, with the feature `crd`: the custom resource Plugin.
//!
//! All types are plain data with serde's traits. The host does the checks that need more than one
//! value (limits, JSONPaths, pruned fields).
//!
//! ```
//! use operetta_api::GroupVersionKind;
//! use operetta_api::manifest::{Controller, Manifest, Source};
//! use serde_json::json;
//!
//! let foos = Source::new(GroupVersionKind::new("example.com/v1", "Foo"));
//! let deployments = Source::new(GroupVersionKind::new("apps/v1", "Deployment"));
//! let controller = Controller { owns: vec![deployments], ..Controller::new("foo", foos) };
//! let manifest: Manifest = Manifest::new(vec![controller]);
//!
//! assert_eq!(
//!     serde_json::to_value(&manifest)?,
//!     json!({
//!         "apiVersion": "operetta.dev/v1alpha1",
//!         "kind": "Manifest",
//!         "controllers": [{
//!             "name": "foo",
//!             "for": {"apiVersion": "example.com/v1", "kind": "Foo"},
//!             "owns": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
//!         }],
//!     })
//! );
//! # Ok::<(), serde_json::Error>(())
//! ```

pub mod annotations;
mod class;
pub mod conditions;
pub mod finalizers;
mod key;
mod kind;
pub mod labels;
pub mod manifest;
pub mod names;
#[cfg(feature = "crd")]
pub mod plugin;
pub mod reasons;
mod status;

pub use class::{Class, InvalidClass};
pub use key::ObjectKey;
pub use kind::{GroupVersionKind, check_api_version};
pub use status::{Cause, ErrorKind, Status};

/// The API group of Operetta's own objects, and the prefix of its labels and annotations.
pub const GROUP: &str = "operetta.dev";

/// The `apiVersion` of a Plugin and of a manifest.
pub const API_VERSION: &str = "operetta.dev/v1alpha1";

/// Compiles and runs the README's code.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
