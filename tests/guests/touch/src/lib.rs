//! The well-behaved plugin: it sets `data.touched` of a ConfigMap, and writes only if it differs.
//! The touch fixtures are two versions of it, and misbehave does the same unless its config says
//! otherwise.

use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
use operetta_sdk::{Action, Context, Controller, Error, Plugin, Source};

/// Returns a plugin whose one controller, `touch`, writes this value into the ConfigMaps labelled
/// `operetta-fixture=true` of its namespace.
pub fn plugin(value: &'static str) -> Plugin {
    let reconcile = move |ctx: &Context, map: ConfigMap| touch(ctx, map, value);
    Plugin::new().controller(Controller::new("touch", reconcile).for_source(maps()))
}

/// Returns the source of the ConfigMaps labelled `operetta-fixture=true` in the plugin's namespace.
pub fn maps() -> Source {
    Source::of::<ConfigMap>()
        .labels("operetta-fixture=true")
        .own_namespace()
}

/// Sets `data.touched` to this value, and writes only if it differs.
///
/// # Errors
/// Returns an error if the update fails.
pub fn touch(ctx: &Context, mut map: ConfigMap, value: &str) -> Result<Action, Error> {
    let data = map.data.get_or_insert_default();
    if data.get("touched").is_none_or(|touched| touched != value) {
        data.insert("touched".to_owned(), value.to_owned());
        ctx.update(&map)?;
    }
    Ok(Action::done())
}
