//! Write Operetta plugins in Rust.
//!
//! A plugin is a set of controllers that a host runs for you: it watches, queues, retries and caches; you bring one
//! object to its desired state at a time. A reconciler is a plain function, without `async` and without a client to
//! set up:
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
//! ```
//!
//! Each reconcile runs in a fresh instance: nothing in memory survives it, so keep state in objects. A deleted key is
//! still delivered: a function that takes the object itself is not called then (see [`Controller::when_gone`]), one
//! that takes an `Option` or the [`Request`] is.
//!
//! What is logged with [`tracing`] (or, with the feature `log`, the `log` crate) appears in `operetta logs PLUGIN`.
//! [`testing`] runs reconcilers in `cargo test`, without a cluster.

// wit-bindgen's paths begin with the crate's name, in the author's crate and in this one.
#[cfg(target_arch = "wasm32")]
extern crate self as operetta_sdk;

mod action;
#[cfg(any(test, all(target_arch = "wasm32", not(feature = "system-allocator"))))]
mod allocator;
mod api_error;
mod backend;
mod context;
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
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use action::{Action, Request};
pub use api_error::{ApiError, ApiErrorKind, Cause, Status};
pub use context::{Context, EventType};
pub use create_or_update::OperationResult;
pub use dynamic::{DynamicApi, DynamicObject};
pub use error::{Error, ResultExt};
pub use finalizers::{add_finalizer, finalizer, has_finalizer, remove_finalizer};
pub use k8s_openapi;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
pub use kind::{GroupVersionKind, Kind, Object, ObjectKey};
pub use logging::Level;
pub use manifest::{Mapping, Predicate, RateLimiter, Source};
pub use mapping::MapEvent;
pub use only_metadata::OnlyMetadata;
pub use options::{DeleteOptions, ListOptions, Page, Patch, Propagation, Read, WriteOptions};
pub use owners::{AlreadyOwned, controller_of, is_controlled_by, owner_reference, set_controller_reference};
pub use plugin::{Controller, Plugin, Reconciler};
pub use raw::{RawRequest, RawResponse};
pub use tracing;

/// Exports a plugin: `plugin!(f)`, where `f` is a `fn() -> Plugin`. Once in a crate, which must be a `cdylib`.
///
/// The function runs anew for each reconcile: let it only say what the plugin is.
#[macro_export]
macro_rules! plugin {
    ($plugin:path) => {
        const _: () = {
            const PLUGIN: fn() -> $crate::Plugin = $plugin;
            $crate::__export_plugin!(PLUGIN);
        };
    };
}

/// Exports a plugin that maps events itself, with [`Controller::watches_mapped`]; otherwise as [`plugin!`].
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

/// As [`__export_plugin!`].
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

/// Natively there is nothing to export; unit tests call the plugin through [`testing`].
#[doc(hidden)]
#[cfg(not(target_arch = "wasm32"))]
#[macro_export]
macro_rules! __export_plugin {
    ($plugin:path) => {
        let _ = $plugin;
    };
}

#[doc(hidden)]
#[cfg(target_arch = "wasm32")]
pub mod __private {
    pub use wit_bindgen;

    pub use crate::guest::bindings::exports::operetta::controller::reconciler as exported;
    pub use crate::guest::mapping_bindings::exports::operetta::controller::mapper;
    pub use crate::guest::{bindings, describe, map_event, mapping_bindings, reconcile};
}

/// The README's code compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
