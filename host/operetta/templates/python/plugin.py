"""Each {{kind}} gets a ConfigMap of its own name with its message, and a status that names it."""

import logging

from operetta import Context, Kind, Object, OperationResult, Plugin, kinds, set_controller_reference

# As crd.yaml describes it.
{{kind}} = Kind("{{group}}/{{version}}", "{{kind}}")

# Where the SDK's build looks for the plugin.
plugin = Plugin()


@plugin.controller({{kind}}, owns=[kinds.ConfigMap], own_namespace=True)
def reconcile(ctx: Context, obj: Object) -> None:
    """Brings one {{kind}}'s ConfigMap to what it wants."""
    name, namespace = obj.metadata.name, obj.metadata.namespace

    def mutate(config_map: Object) -> None:
        config_map.data = {"message": obj.spec.message}
        set_controller_reference(obj, config_map)

    # Writes nothing if nothing is to change.
    _, result = ctx.create_or_update(kinds.ConfigMap.new(name, namespace), mutate)
    if result != OperationResult.UNCHANGED:
        logging.info("ConfigMap written", extra={"result": str(result)})
        ctx.event(obj, "Written", "The message is in the ConfigMap")

    if obj.dig("status", "configMap") != name:
        obj.ensure("status")["configMap"] = name
        ctx.update_status(obj)
