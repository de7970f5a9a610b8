//! Plugins of Operetta in Rust.
//!
//! A plugin is a set of controllers that a host runs: the host watches, queues, retries and caches,
//! and the plugin reconciles one object at a time. A reconciler is a plain function, without
//! `async` and without a client to set up:
//!
//! ```
//! use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
//! use operetta_sdk::{Action, Context, Controller, Error, Object, Plugin};
//!
//! fn plugin() -> Plugin {
//!     Plugin::new().controller(Controller::new("stamp", stamp).own_namespace())
//! }
//!
//! fn stamp(ctx: &Context, mut map: ConfigMap) -> Result<Action, Error> {
//!     if map.annotation("stamped").is_none() {
//!         map.annotations_mut().insert("stamped".to_owned(), "yes".to_owned());
//!         ctx.update(&map)?;
//!     }
//!     Ok(Action::done())
//! }
//!
//! operetta_sdk::plugin!(plugin);
//! # use operetta_sdk::testing::Cluster;
//! # let map = ConfigMap { metadata: operetta_sdk::object_meta(("ns", "a")), ..ConfigMap::default() };
//! # let cluster = Cluster::new().with(map);
//! # cluster.reconcile(&plugin(), "stamp", ("ns", "a")).unwrap();
//! # assert_eq!(cluster.get::<ConfigMap>(("ns", "a")).unwrap().annotation("stamped"), Some("yes"));
//! ```
//!
//! A custom resource derives [`Resource`] on the struct of its spec. [`testing`] runs reconcilers
//! in `cargo test`, without a cluster.
//!
//! Each reconcile runs in a fresh instance: nothing in memory survives it, so keep state in
//! objects. The host also delivers the keys of deleted objects: a function that takes an `Option`
//! or the [`Request`] is called for them, one that takes the object itself is not (see
//! [`Controller::when_gone`]).
//!
//! Lines of [`tracing`] (and, with the feature `log`, of the `log` crate) appear in `operetta logs
//! PLUGIN`.

// The paths in generated code begin with the crate's name, in the author's crate and in this one.
#[cfg(any(test, target_arch = "wasm32"))]
extern crate self as operetta_sdk;

mod action;
#[cfg(any(test, all(target_arch = "wasm32", not(feature = "system-allocator"))))]
mod allocator;
mod api_error;
mod backend;
mod context;
mod controller;
mod create_or_update;
mod dynamic;
mod error;
mod finalizers;
#[cfg(target_arch = "wasm32")]
mod guest;
mod json;
mod kind;
#[cfg(feature = "kube")]
pub mod kube_rs;
mod logging;
mod manifest;
mod mapping;
mod only_metadata;
mod options;
mod owners;
mod plugin;
mod raw;
mod reconciler;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use action::{Action, Request};
pub use api_error::ApiError;
pub use context::{Context, EventType};
pub use controller::Controller;
pub use create_or_update::OperationResult;
pub use dynamic::{DynamicApi, DynamicObject};
pub use error::{Error, ResultExt};
pub use finalizers::{add_finalizer, finalizer, has_finalizer, remove_finalizer};
pub use k8s_openapi;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
pub use kind::{Kind, Object, object_meta};
pub use logging::Level;
pub use manifest::{Mapping, Predicate, RateLimiter, Source};
pub use mapping::MapEvent;
pub use only_metadata::OnlyMetadata;
pub use operetta_api::{Cause, ErrorKind, GroupVersionKind, ObjectKey, Status};
pub use options::{
    DeleteOptions, ListOptions, Misfit, Page, Patch, Propagation, Read, WriteOptions,
};
pub use owners::{
    AlreadyOwned, controller_of, is_controlled_by, owner_reference, set_controller_reference,
};
pub use plugin::Plugin;
pub use raw::{RawRequest, RawResponse};
pub use reconciler::Reconciler;
pub use tracing;

/// Derives a custom resource from the struct of its spec: the kind's struct with `metadata`, `spec`
/// and `status`, and its [`Kind`].
///
/// | `#[resource(…)]` | |
/// |---|---|
/// | `group`, `version`, `kind` | the names in the CRD; the kind is also the struct's name |
/// | `status = "FooStatus"` | the type of the status; without it the struct has none |
/// | `derive = "Default, PartialEq"` | further traits of the struct, besides `Clone`, `Debug`, `Serialize` and `Deserialize` |
///
/// The attributes are those of kube-rs's `CustomResource`, without its dependencies.
///
/// ```
/// use operetta_sdk::{Kind, Object, Resource};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Resource, Clone, Debug, Serialize, Deserialize)]
/// #[resource(group = "example.com", version = "v1", kind = "Foo", status = "FooStatus")]
/// #[serde(rename_all = "camelCase")]
/// struct FooSpec {
///     deployment_name: String,
/// }
///
/// #[derive(Clone, Debug, Serialize, Deserialize)]
/// struct FooStatus {
///     ready: bool,
/// }
///
/// let foo = Foo::new(("default", "example"), FooSpec { deployment_name: "web".to_owned() });
/// assert_eq!(foo.name(), "example");
/// assert_eq!(Foo::API_VERSION, "example.com/v1");
/// assert!(foo.status.is_none());
/// ```
pub use operetta_sdk_derive::Resource;

/// Exports a plugin: `plugin!(f)`, where `f` is a `fn() -> Plugin`. Use it once in a crate, which
/// must be a `cdylib`.
///
/// The function runs for each reconcile: it should only build the [`Plugin`].
#[macro_export]
macro_rules! plugin {
    ($plugin:path) => {
        const _: () = {
            const PLUGIN: fn() -> $crate::Plugin = $plugin;
            $crate::__export_plugin!(PLUGIN);
        };
    };
}

/// Exports a plugin with [`Controller::watches_mapped`]; otherwise like [`plugin!`].
#[macro_export]
macro_rules! mapping_plugin {
    ($plugin:path) => {
        $crate::plugin!($plugin);

        const _: () = {
            const PLUGIN: fn() -> $crate::Plugin = $plugin;
            $crate::__export_mapper!(PLUGIN);
        };
    };
}

#[doc(hidden)]
#[cfg(target_arch = "wasm32")]
#[macro_export]
macro_rules! __export_mapper {
    ($plugin:path) => {
        struct Exported;

        impl $crate::__private::mapper::Guest for Exported {
            fn map_event(
                event: $crate::__private::mapper::Event,
            ) -> ::std::result::Result<::std::vec::Vec<$crate::__private::mapper::ObjectKey>, ::std::string::String> {
                $crate::__private::map_event($plugin, event)
            }
        }

        $crate::__private::mapping_bindings::export!(Exported with_types_in $crate::__private::mapping_bindings);
    };
}

/// Does nothing natively, like [`__export_plugin!`].
#[doc(hidden)]
#[cfg(not(target_arch = "wasm32"))]
#[macro_export]
macro_rules! __export_mapper {
    ($plugin:path) => {
        let _ = $plugin;
    };
}

#[doc(hidden)]
#[cfg(target_arch = "wasm32")]
#[macro_export]
macro_rules! __export_plugin {
    ($plugin:path) => {
        struct Exported;

        impl $crate::__private::exported::Guest for Exported {
            fn describe() -> ::std::string::String {
                $crate::__private::describe($plugin)
            }

            fn reconcile(
                request: $crate::__private::exported::Request,
            ) -> ::std::result::Result<$crate::__private::exported::Action, $crate::__private::exported::Failure> {
                $crate::__private::reconcile($plugin, request)
            }
        }

        $crate::__private::bindings::export!(Exported with_types_in $crate::__private::bindings);
    };
}

/// Exports nothing natively: unit tests call the plugin through [`testing`].
#[doc(hidden)]
#[cfg(not(target_arch = "wasm32"))]
#[macro_export]
macro_rules! __export_plugin {
    ($plugin:path) => {
        let _ = $plugin;
    };
}

/// The crates and items that generated code names.
#[doc(hidden)]
pub mod __private {
    pub use serde;
    #[cfg(target_arch = "wasm32")]
    pub use wit_bindgen;

    #[cfg(target_arch = "wasm32")]
    pub use crate::guest::bindings::exports::operetta::controller::reconciler as exported;
    #[cfg(target_arch = "wasm32")]
    pub use crate::guest::mapping_bindings::exports::operetta::controller::mapper;
    #[cfg(target_arch = "wasm32")]
    pub use crate::guest::{bindings, describe, map_event, mapping_bindings, reconcile};
}

/// Compiles and runs the README's code.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
