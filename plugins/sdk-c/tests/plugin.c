/* The plugin of the SDK's own tests. A test sets its reconciler. */
#include "../operetta.h"

#include <string.h>

operetta_reconciler under_test;

static operetta_result reconcile(const operetta_request *request) {
    return under_test == NULL ? operetta_done() : under_test(request);
}

static void add_keys(const operetta_value *map, operetta_keys *keys) {
    const char *name = operetta_string(map, "data.foo", "");
    if (strcmp(name, "panic") == 0) {
        operetta_panic("no keys today");
    }
    operetta_add_key(keys, operetta_namespace(map), name);
    operetta_add_key(keys, operetta_namespace(map), name);
    operetta_add_key(keys, NULL, name);
}

void operetta_plugin(void) {
    operetta_controller *controller =
        operetta_add_controller("tested", (operetta_kind){"example.com/v1", "Foo"}, reconcile);
    operetta_source *foos = operetta_for(controller);
    operetta_select_labels(foos, "app=x");
    operetta_select_fields(foos, "metadata.name=a");
    operetta_own_namespace(foos);
    operetta_add_predicate(foos, OPERETTA_GENERATION_CHANGED);
    operetta_add_predicate(foos, OPERETTA_LABELS_CHANGED);
    operetta_owns(controller, OPERETTA_CONFIG_MAP);
    operetta_watches(controller, OPERETTA_SECRET, (operetta_mapping){.kind = OPERETTA_MAP_SAME_NAME});
    operetta_watches(controller, OPERETTA_POD, (operetta_mapping){.kind = OPERETTA_MAP_OWNER, .all_owners = true});
    operetta_watches(controller, OPERETTA_SERVICE,
                     (operetta_mapping){.kind = OPERETTA_MAP_FIELD_PATH, .path = ".spec.foo", .namespace_path = ".spec.ns"});
    operetta_declare_finalizer(controller, "example.com/cleanup");
    operetta_source *maps = operetta_watches(
        controller, OPERETTA_CONFIG_MAP, (operetta_mapping){.kind = OPERETTA_MAP_CUSTOM, .add_keys = add_keys});
    operetta_prune(maps, ".binaryData");
    operetta_prune(maps, ".metadata.annotations");
    operetta_workers(controller, 4);
    operetta_resync_seconds(controller, 60);
    operetta_rate_limiter(controller, 5, 1000, 10, 100);
    operetta_add_index("colour", OPERETTA_CONFIG_MAP, ".data.colour");
    operetta_add_label_index("app", OPERETTA_CONFIG_MAP, "app.io/name");
    operetta_add_controller_index("owner", OPERETTA_CONFIG_MAP, (operetta_kind){"example.com/v1", "Foo"});
}
