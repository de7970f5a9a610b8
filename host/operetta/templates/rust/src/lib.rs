//! Each {{kind}} gets a ConfigMap of its own name with its message, and a status that names it.

pub mod types;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
use operetta_sdk::{
    Action, Context, Controller, Error, EventType, Object, ObjectMeta, OperationResult, Plugin,
    set_controller_reference, tracing,
};

operetta_sdk::plugin!(plugin);

/// The {{kind}}s of the plugin's own namespace, and the ConfigMaps that they control.
pub fn plugin() -> Plugin {
    Plugin::new().controller(Controller::new("{{singular}}", reconcile).owns::<ConfigMap>().own_namespace())
}

fn reconcile(ctx: &Context, mut object: types::{{kind}}) -> Result<Action, Error> {
    let metadata = ObjectMeta {
        name: Some(object.name().to_owned()),
        namespace: object.namespace().map(str::to_owned),
        ..ObjectMeta::default()
    };
    let wanted = ConfigMap { metadata, ..ConfigMap::default() };
    // Writes nothing if nothing is to change.
    let (_, result) = ctx.create_or_update(wanted, |map| {
        map.data = Some(BTreeMap::from([("message".to_owned(), object.spec.message.clone())]));
        set_controller_reference(&object, map)
    })?;
    if result != OperationResult::Unchanged {
        tracing::info!(?result, "ConfigMap written");
        ctx.event(&object, EventType::Normal, "Written", "The message is in the ConfigMap");
    }

    let status = types::{{kind}}Status { config_map: object.name().to_owned() };
    if object.status != status {
        object.status = status;
        ctx.update_status(&object)?;
    }
    Ok(Action::done())
}
