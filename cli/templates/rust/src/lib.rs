//! Writes the message of each {{kind}} into a ConfigMap of the same name, and names it in the
//! status.

pub mod types;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use operetta_sdk::k8s_openapi::api::core::v1::ConfigMap;
use operetta_sdk::{
    Action, Context, Controller, Error, EventType, Object, OperationResult, Plugin, object_meta,
    set_controller_reference, tracing,
};

use types::{{kind}};
use types::{{kind}}Status;

operetta_sdk::plugin!(plugin);

/// Returns the controller of the {{kind}} objects in the plugin's own namespace, and of the
/// ConfigMaps that they control.
pub fn plugin() -> Plugin {
    Plugin::new().controller(Controller::new("{{singular}}", reconcile).owns::<ConfigMap>().own_namespace())
}

fn reconcile(ctx: &Context, mut object: {{kind}}) -> Result<Action, Error> {
    let wanted = ConfigMap { metadata: object_meta(object.key()), ..ConfigMap::default() };
    // Writes nothing if nothing changes.
    let (_, result) = ctx.create_or_update(wanted, |map| {
        map.data = Some(BTreeMap::from([("message".to_owned(), object.spec.message.clone())]));
        set_controller_reference(&object, map)
    })?;
    if result != OperationResult::Unchanged {
        tracing::info!(?result, "ConfigMap written");
        ctx.event(&object, EventType::Normal, "Written", "The message is in the ConfigMap");
    }

    let status = Some({{kind}}Status { config_map: object.name().to_owned() });
    if object.status != status {
        object.status = status;
        ctx.update_status(&object)?;
    }
    Ok(Action::done())
}
