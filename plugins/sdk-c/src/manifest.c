/* The manifest: collects the plugin's declarations, writes them as JSON, and finds the reconciler of a request. */
#include <string.h>

#include "internal.h"

enum { MOST_WORKERS = 64 };

struct operetta_source {
    operetta_kind kind;
    const char *labels;
    const char *fields;
    bool own_namespace;
    unsigned predicates; /* a bit set of operetta_predicate */
    bool is_watch;
    operetta_mapping mapping;
    operetta_source *next;
};

struct operetta_controller {
    const char *name;
    operetta_reconciler reconcile;               /* exactly one of these two is set */
    operetta_object_reconciler reconcile_object;
    operetta_source source;
    operetta_source *others; /* owned and watched kinds, in the order of declaration */
    operetta_value *finalizers; /* NULL: none */
    uint32_t workers;
    uint32_t resync_seconds;
    bool has_rate_limiter;
    uint32_t base_delay_ms, max_delay_ms, qps, burst;
    operetta_controller *next;
};

typedef struct plugin_index {
    const char *name;
    operetta_kind kind;
    const char *path;
    struct plugin_index *next;
} plugin_index;

static operetta_controller *controllers;
static plugin_index *indexes;

static void declare(void) {
    controllers = NULL;
    indexes = NULL;
    operetta_plugin();
    if (controllers == NULL) {
        operetta_panic("operetta_plugin declares no controller: call operetta_add_controller");
    }
}

static operetta_controller *add_controller(const char *name, operetta_kind kind, bool has_reconciler) {
    operetta_controller **end = &controllers;
    for (; *end != NULL; end = &(*end)->next) {
        if (strcmp((*end)->name, name) == 0) {
            operetta_panic("two controllers are named \"%s\"", name);
        }
    }
    if (!has_reconciler) {
        operetta_panic("the controller \"%s\" has no reconciler", name);
    }
    *end = operetta_allocate(sizeof **end);
    (*end)->name = name;
    (*end)->source.kind = kind;
    return *end;
}

operetta_controller *operetta_add_controller(const char *name, operetta_kind kind, operetta_reconciler reconcile) {
    operetta_controller *controller = add_controller(name, kind, reconcile != NULL);
    controller->reconcile = reconcile;
    return controller;
}

operetta_controller *operetta_add_object_controller(const char *name, operetta_kind kind,
                                                    operetta_object_reconciler reconcile) {
    operetta_controller *controller = add_controller(name, kind, reconcile != NULL);
    controller->reconcile_object = reconcile;
    return controller;
}

operetta_source *operetta_for(operetta_controller *controller) { return &controller->source; }

static operetta_source *add_source(operetta_controller *controller, operetta_kind kind) {
    operetta_source **end = &controller->others;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = operetta_allocate(sizeof **end);
    (*end)->kind = kind;
    return *end;
}

operetta_source *operetta_owns(operetta_controller *controller, operetta_kind kind) {
    return add_source(controller, kind);
}

operetta_source *operetta_watches(operetta_controller *controller, operetta_kind kind, operetta_mapping mapping) {
    operetta_source *source = add_source(controller, kind);
    if (mapping.kind == OPERETTA_MAP_FIELD_PATH && mapping.path == NULL) {
        operetta_panic("the field path mapping of %s has no path", kind.kind);
    }
    source->is_watch = true;
    source->mapping = mapping;
    return source;
}

void operetta_select_labels(operetta_source *source, const char *selector) { source->labels = selector; }

void operetta_select_fields(operetta_source *source, const char *selector) { source->fields = selector; }

void operetta_own_namespace(operetta_source *source) { source->own_namespace = true; }

void operetta_add_predicate(operetta_source *source, operetta_predicate predicate) {
    source->predicates |= 1u << predicate;
}

void operetta_declare_finalizer(operetta_controller *controller, const char *finalizer) {
    if (controller->finalizers == NULL) {
        controller->finalizers = operetta_new_array();
    }
    operetta_append_string(controller->finalizers, "", finalizer);
}

void operetta_workers(operetta_controller *controller, uint32_t workers) {
    if (workers < 1 || workers > MOST_WORKERS) {
        operetta_panic("the controller \"%s\" has %u workers: use 1 to %d", controller->name,
                       (unsigned)workers, MOST_WORKERS);
    }
    controller->workers = workers;
}

void operetta_resync_seconds(operetta_controller *controller, uint32_t seconds) {
    controller->resync_seconds = seconds;
}

void operetta_rate_limiter(operetta_controller *controller, uint32_t base_delay_ms, uint32_t max_delay_ms, uint32_t qps,
                           uint32_t burst) {
    if (qps == 0 || burst == 0) {
        operetta_panic("the rate limiter of \"%s\" needs a qps and a burst of at least 1", controller->name);
    }
    controller->has_rate_limiter = true;
    controller->base_delay_ms = base_delay_ms;
    controller->max_delay_ms = max_delay_ms;
    controller->qps = qps;
    controller->burst = burst;
}

void operetta_add_index(const char *name, operetta_kind kind, const char *path) {
    plugin_index *index = operetta_allocate(sizeof *index);
    *index = (plugin_index){.name = name, .kind = kind, .path = path, .next = indexes};
    indexes = index;
}

const char *manifest_index_path(const char *name, operetta_kind kind) {
    for (plugin_index *index = indexes; index != NULL; index = index->next) {
        if (strcmp(index->name, name) == 0 && strcmp(index->kind.kind, kind.kind) == 0 &&
            strcmp(index->kind.api_version, kind.api_version) == 0) {
            return index->path;
        }
    }
    return NULL;
}

static operetta_value *kind_value(operetta_kind kind) {
    operetta_value *value = operetta_new_object();
    operetta_set_string(value, "apiVersion", kind.api_version);
    operetta_set_string(value, "kind", kind.kind);
    return value;
}

static operetta_value *source_value(const operetta_source *source) {
    static const char *const predicates[] = {"GenerationChanged", "LabelsChanged", "AnnotationsChanged",
                                             "ResourceVersionChanged"};
    operetta_value *value = kind_value(source->kind);
    if (source->labels != NULL) {
        operetta_set_string(value, "labelSelector", source->labels);
    }
    if (source->fields != NULL) {
        operetta_set_string(value, "fieldSelector", source->fields);
    }
    if (source->own_namespace) {
        operetta_set_string(value, "namespaces", "Own");
    }
    for (unsigned i = 0; i < sizeof predicates / sizeof *predicates; i++) {
        if ((source->predicates >> i & 1u) != 0) {
            operetta_append_string(value, "predicates", predicates[i]);
        }
    }
    return value;
}

static operetta_value *mapping_value(const operetta_mapping *mapping) {
    static const char *const types[] = {"Owner", "SameName", "FieldPath"};
    operetta_value *value = operetta_new_object();
    operetta_set_string(value, "type", types[mapping->kind]);
    if (mapping->kind == OPERETTA_MAP_OWNER && mapping->all_owners) {
        operetta_set_bool(value, "allOwners", true);
    }
    if (mapping->kind == OPERETTA_MAP_FIELD_PATH) {
        operetta_set_string(value, "path", mapping->path);
        if (mapping->namespace_path != NULL) {
            operetta_set_string(value, "namespacePath", mapping->namespace_path);
        }
    }
    return value;
}

static operetta_value *controller_value(const operetta_controller *controller) {
    operetta_value *value = operetta_new_object();
    operetta_set_string(value, "name", controller->name);
    operetta_set(value, "for", source_value(&controller->source));
    for (const operetta_source *source = controller->others; source != NULL; source = source->next) {
        if (!source->is_watch) {
            operetta_append(value, "owns", source_value(source));
            continue;
        }
        operetta_value *watch = operetta_new_object();
        operetta_set(watch, "source", source_value(source));
        operetta_set(watch, "map", mapping_value(&source->mapping));
        operetta_append(value, "watches", watch);
    }
    if (controller->finalizers != NULL) {
        operetta_set(value, "finalizers", controller->finalizers);
    }
    if (controller->workers != 0) {
        operetta_set_int(value, "workers", controller->workers);
    }
    if (controller->resync_seconds != 0) {
        operetta_set_int(value, "resyncSeconds", controller->resync_seconds);
    }
    if (controller->has_rate_limiter) {
        operetta_set_int(value, "rateLimiter.baseDelayMs", controller->base_delay_ms);
        operetta_set_int(value, "rateLimiter.maxDelayMs", controller->max_delay_ms);
        operetta_set_int(value, "rateLimiter.qps", controller->qps);
        operetta_set_int(value, "rateLimiter.burst", controller->burst);
    }
    return value;
}

const char *manifest_describe(void) {
    declare();
    operetta_value *manifest = kind_value((operetta_kind){"operetta.dev/v1alpha1", "Manifest"});
    for (const operetta_controller *controller = controllers; controller != NULL; controller = controller->next) {
        operetta_append(manifest, "controllers", controller_value(controller));
    }
    for (const plugin_index *index = indexes; index != NULL; index = index->next) {
        operetta_value *value = kind_value(index->kind);
        operetta_set_string(value, "name", index->name);
        operetta_set_string(value, "path", index->path);
        operetta_append(manifest, "indexes", value);
    }
    return operetta_to_json(manifest);
}

static operetta_result reconcile_key(const operetta_controller *controller, const operetta_request *request) {
    if (controller->reconcile != NULL) {
        return controller->reconcile(request);
    }
    operetta_error *error;
    operetta_value *object = operetta_find(request->kind, request->namespace_, request->name, &error);
    if (error != NULL) {
        return operetta_fail(error);
    }
    return object == NULL ? operetta_done() : controller->reconcile_object(request, object);
}

operetta_result manifest_reconcile(operetta_request *request) {
    declare();
    for (const operetta_controller *controller = controllers; controller != NULL; controller = controller->next) {
        if (strcmp(controller->name, request->controller) == 0) {
            request->kind = controller->source.kind;
            return reconcile_key(controller, request);
        }
    }
    return operetta_terminal("this plugin has no controller named \"%s\"", request->controller);
}
