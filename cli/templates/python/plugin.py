"""Writes the message of each {{kind}} into a ConfigMap of the same name, and names it in the status."""

import logging

from operetta import Context, Kind, Object, Plugin, kinds, set_controller_reference

# The kind that crd.yaml defines.
{{kind}} = Kind("{{group}}/{{version}}", "{{kind}}")

# The build looks for this variable.
plugin = Plugin()


@plugin.controller({{kind}}, owns=[kinds.ConfigMap], own_namespace=True)
def reconcile(ctx: Context, obj: Object) -> None:
    """Brings the ConfigMap and the status of one {{kind}} to the desired state."""
    name, namespace = obj.metadata.name, obj.metadata.namespace

    operation = ctx.create_or_update(kinds.ConfigMap.new(name, namespace))
    with operation as config_map:
        config_map.data = {"message": obj.spec.message}
        set_controller_reference(obj, config_map)
    if operation.changed:
        logging.info("ConfigMap written", extra={"result": operation.result})
        ctx.event(obj, "Written", "The message is in the ConfigMap")

    if obj.get_nested("status", "configMap") != name:
        obj.ensure("status").configMap = name
        ctx.update_status(obj)
