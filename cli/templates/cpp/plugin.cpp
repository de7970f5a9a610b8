// Writes the message of each {{kind}} into a ConfigMap of the same name, and names it in the status.
#include "operetta.h"

#include <string_view>

// The kind that crd.yaml describes.
static const operetta_kind KIND = {"{{group}}/{{version}}", "{{kind}}"};

// The host does not call this for a deleted object: the garbage collector deletes its ConfigMap.
static operetta_result reconcile(const operetta_request *request, operetta_value *object) {
    operetta_error *error = nullptr;
    operetta_value *map = operetta_get_or_new(OPERETTA_CONFIG_MAP, request->namespace_, request->name, &error);
    if (map == nullptr || !operetta_set_controller_reference(object, map, &error)) {
        return operetta_fail(error);
    }
    operetta_set_string(map, "data.message", operetta_string(object, "spec.message", ""));
    operetta_operation_result result; // unchanged: nothing was written
    if (operetta_create_or_update(map, &result, &error) == nullptr) {
        return operetta_fail(error);
    }
    if (result != OPERETTA_UNCHANGED) {
        const char *name = operetta_operation_result_name(result);
        operetta_log(OPERETTA_INFO, OPERETTA_FIELDS({"result", name}), "ConfigMap written");
        operetta_event(object, OPERETTA_NORMAL, "Written", "Write", "The message is in the ConfigMap");
    }

    if (std::string_view(operetta_string(object, "status.configMap", "")) != request->name) {
        operetta_set_string(object, "status.configMap", request->name);
        if (operetta_update_status(object, nullptr, &error) == nullptr) {
            return operetta_fail(error);
        }
    }
    return operetta_done();
}

// Watches the {{kind}}s of the plugin's own namespace and the ConfigMaps that they control.
void operetta_plugin() {
    operetta_controller *controller = operetta_add_object_controller("{{singular}}", KIND, reconcile);
    operetta_own_namespace(operetta_for(controller));
    operetta_own_namespace(operetta_owns(controller, OPERETTA_CONFIG_MAP));
}
