/* The manifest: collects the plugin's declarations, writes them as JSON, and finds the reconciler of a request. */
#include <string.h>

#include "internal.h"

enum { MOST_WORKERS = 64, MOST_PRUNED = 64 };

struct operetta_source {
    operetta_kind kind;
    const char *labels;
    const char *fields;
    bool own_namespace;
    unsigned predicates; /* a bit set of operetta_predicate */
    const char *pruned[MOST_PRUNED];
    size_t pruned_count;
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
    const char *path; /* exactly one of these three is set */
    const char *label;
    operetta_kind owner;
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
    if (mapping.kind == OPERETTA_MAP_CUSTOM && mapping.add_keys == NULL) {
        operetta_panic("the custom mapping of %s has no function", kind.kind);
    }
    source->is_watch = true;
    source->mapping = mapping;
    return source;
}

void operetta_select_labels(operetta_source *source, const char *selector) { source->labels = selector; }

void operetta_select_fields(operetta_source *source, const char *selector) { source->fields = selector; }

void operetta_prune(operetta_source *source, const char *path) {
    if (source->pruned_count == MOST_PRUNED) {
        operetta_panic("the source of %s prunes more than %d fields", source->kind.kind, MOST_PRUNED);
    }
    source->pruned[source->pruned_count++] = path;
}

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

static void add_index(plugin_index declared) {
    plugin_index *index = operetta_allocate(sizeof *index);
    *index = declared;
    index->next = indexes;
    indexes = index;
}

void operetta_add_index(const char *name, operetta_kind kind, const char *path) {
    add_index((plugin_index){.name = name, .kind = kind, .path = path});
}

void operetta_add_label_index(const char *name, operetta_kind kind, const char *label) {
    add_index((plugin_index){.name = name, .kind = kind, .label = label});
}

void operetta_add_controller_index(const char *name, operetta_kind kind, operetta_kind owner) {
    add_index((plugin_index){.name = name, .kind = kind, .owner = owner});
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
    for (size_t i = 0; i < source->pruned_count; i++) {
        operetta_append_string(value, "prune", source->pruned[i]);
    }
    return value;
}

static operetta_value *mapping_value(const operetta_mapping *mapping) {
    static const char *const types[] = {"Owner", "SameName", "FieldPath", "Custom"};
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

static operetta_value *index_value(const plugin_index *index) {
    operetta_value *value = kind_value(index->kind);
    operetta_set_string(value, "name", index->name);
    if (index->path != NULL) {
        operetta_set_string(value, "path", index->path);
    } else if (index->label != NULL) {
        operetta_set_string(value, "label", index->label);
    } else {
        operetta_set(value, "controller", kind_value(index->owner));
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
        operetta_append(manifest, "indexes", index_value(index));
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

/* Runs operetta_plugin and returns a controller; NULL if there is none of that name. */
static const operetta_controller *declared_controller(const char *name) {
    declare();
    const operetta_controller *controller = controllers;
    while (controller != NULL && strcmp(controller->name, name) != 0) {
        controller = controller->next;
    }
    return controller;
}

operetta_result manifest_reconcile(operetta_request *request) {
    const operetta_controller *controller = declared_controller(request->controller);
    if (controller == NULL) {
        return operetta_terminal("this plugin has no controller named \"%s\"", request->controller);
    }
    request->kind = controller->source.kind;
    return reconcile_key(controller, request);
}

bool manifest_map(const char *name, operetta_kind kind, const operetta_value *object, const operetta_value *old,
                  operetta_keys *keys) {
    const operetta_controller *controller = declared_controller(name);
    if (controller == NULL) {
        return false;
    }
    for (const operetta_source *source = controller->others; source != NULL; source = source->next) {
        if (!source->is_watch || source->mapping.kind != OPERETTA_MAP_CUSTOM || !same_kind(source->kind, kind)) {
            continue;
        }
        source->mapping.add_keys(object, keys);
        if (old != NULL) {
            source->mapping.add_keys(old, keys);
        }
    }
    return true;
}

static bool same_key(const struct operetta_key *key, const char *namespace_, const char *name) {
    bool same_namespace = key->namespace_ == NULL || namespace_ == NULL ? key->namespace_ == namespace_
                                                                        : strcmp(key->namespace_, namespace_) == 0;
    return same_namespace && strcmp(key->name, name) == 0;
}

void operetta_add_key(operetta_keys *keys, const char *namespace_, const char *name) {
    for (size_t i = 0; i < keys->count; i++) {
        if (same_key(&keys->items[i], namespace_, name)) {
            return;
        }
    }
    if (keys->count == keys->room) {
        size_t room = keys->room == 0 ? 16 : keys->room * 2;
        keys->items = memory_reallocate(keys->items, keys->room * sizeof *keys->items, room * sizeof *keys->items);
        keys->room = room;
    }
    keys->items[keys->count++] = (struct operetta_key){
        .namespace_ = namespace_ == NULL ? NULL : memory_text(namespace_, strlen(namespace_)),
        .name = memory_text(name, strlen(name)),
    };
}
