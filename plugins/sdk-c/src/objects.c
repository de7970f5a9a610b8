/* Reads and writes of objects, and raw HTTP requests. */
#include <string.h>

#include "internal.h"

/* The result of operetta_get_or_new, to detect changes by the plugin. */
typedef struct opened {
    const operetta_value *object;
    const operetta_value *before; /* NULL: no object was stored */
    struct opened *next;
} opened;

static opened *all_opened;

void objects_reset(void) { all_opened = NULL; }

static operetta_value *get(operetta_kind kind, const char *namespace_, const char *name, bool live,
                           operetta_error **error) {
    operetta_error *why = NULL;
    const char *call = call_name("get", kind, namespace_, name);
    const char *text = backend_get(kind, namespace_, name, live, &why);
    if (why != NULL) {
        why->call = call;
    }
    if (error != NULL) {
        *error = why;
    }
    return text == NULL ? NULL : value_of_host(text, call);
}

operetta_value *operetta_get(operetta_kind kind, const char *namespace_, const char *name, operetta_error **error) {
    return get(kind, namespace_, name, false, error);
}

operetta_value *operetta_get_live(operetta_kind kind, const char *namespace_, const char *name,
                                  operetta_error **error) {
    return get(kind, namespace_, name, true, error);
}

operetta_value *operetta_find(operetta_kind kind, const char *namespace_, const char *name, operetta_error **error) {
    operetta_value *object = get(kind, namespace_, name, false, error);
    if (error != NULL && operetta_is(*error, OPERETTA_NOT_FOUND)) {
        *error = NULL;
    }
    return object;
}

operetta_page *operetta_list(operetta_kind kind, const operetta_list_options *options, operetta_error **error) {
    static const operetta_list_options everything;
    const char *call = operetta_format("list %s", kind.kind);
    const operetta_list_options *wanted = options == NULL ? &everything : options;
    if (wanted->index != NULL && wanted->index_value == NULL) {
        fail_with(error, OPERETTA_BAD_REQUEST, call, "the index \"%s\" is given without an index_value", wanted->index);
        return NULL;
    }
    if (wanted->index != NULL && wanted->owner_uid != NULL) {
        fail_with(error, OPERETTA_BAD_REQUEST, call, "index and owner_uid are mutually exclusive");
        return NULL;
    }
    operetta_error *why = NULL;
    backend_page found = {0};
    bool worked = backend_list(kind, wanted, &found, &why);
    if (why != NULL) {
        why->call = call;
    }
    if (error != NULL) {
        *error = why;
    }
    if (!worked) {
        return NULL;
    }
    operetta_page *page = operetta_allocate(sizeof *page);
    page->items = operetta_allocate(found.count * sizeof *page->items);
    for (size_t i = 0; i < found.count; i++) {
        page->items[i] = value_of_host(found.items[i], call);
    }
    page->count = found.count;
    page->resource_version = found.resource_version;
    page->continue_token = found.continue_token;
    return page;
}

/* Reports whether a value can be sent; sets *error if not. */
static bool sendable(const operetta_value *object, const char *call, operetta_error **error) {
    if (unset_field() != NULL) {
        fail_with(error, OPERETTA_BAD_REQUEST, call, "%s", unset_field());
        return false;
    }
    if (object == NULL) {
        fail_with(error, OPERETTA_BAD_REQUEST, call, "the object is NULL");
        return false;
    }
    return true;
}

static operetta_value *written(const char *text, const char *call, operetta_error *why, operetta_error **error) {
    if (why != NULL) {
        why->call = call;
    }
    if (error != NULL) {
        *error = why;
    }
    return text == NULL ? NULL : value_of_host(text, call);
}

static operetta_value *write_object(verb verb, const char *verb_name, const operetta_value *object,
                                    const operetta_write_options *options, operetta_error **error) {
    static const operetta_write_options defaults;
    operetta_kind kind = operetta_kind_of(object);
    const char *name = operetta_name(object);
    const char *call = call_name(verb_name, kind, operetta_namespace(object), name);
    if (!sendable(object, call, error)) {
        return NULL;
    }
    bool generated = verb == VERB_CREATE && *operetta_string(object, "metadata.generateName", "") != '\0';
    if (*kind.api_version == '\0' || *kind.kind == '\0' || (*name == '\0' && !generated)) {
        fail_with(error, OPERETTA_BAD_REQUEST, call, "the object needs apiVersion, kind and metadata.name");
        return NULL;
    }
    operetta_error *why = NULL;
    const char *text = backend_write(verb, kind, operetta_namespace(object), name, operetta_to_json(object),
                                     options == NULL ? &defaults : options, &why);
    return written(text, call, why, error);
}

operetta_value *operetta_create(const operetta_value *object, const operetta_write_options *options,
                                operetta_error **error) {
    return write_object(VERB_CREATE, "create", object, options, error);
}

operetta_value *operetta_update(const operetta_value *object, const operetta_write_options *options,
                                operetta_error **error) {
    return write_object(VERB_UPDATE, "update", object, options, error);
}

operetta_value *operetta_update_status(const operetta_value *object, const operetta_write_options *options,
                                       operetta_error **error) {
    return write_object(VERB_UPDATE_STATUS, "update the status of", object, options, error);
}

bool operetta_write_status(operetta_value *object, operetta_value *status, operetta_error **error) {
    if (operetta_equal(operetta_at(object, "status"), status)) {
        if (error != NULL) {
            *error = NULL;
        }
        return true;
    }
    operetta_set(object, "status", status);
    operetta_value *stored = operetta_update_status(object, NULL, error);
    if (stored != NULL) {
        operetta_set(object, "metadata", operetta_at(stored, "metadata"));
        operetta_set(object, "status", operetta_at(stored, "status"));
    }
    return stored != NULL;
}

operetta_value *operetta_patch(operetta_kind kind, const char *namespace_, const char *name,
                               const operetta_patch_request *patch, operetta_error **error) {
    const char *call = call_name("patch", kind, namespace_, name);
    const operetta_value *body = patch->body;
    if (!sendable(body, call, error)) {
        return NULL;
    }
    operetta_type wanted = patch->type == OPERETTA_JSON_PATCH ? OPERETTA_ARRAY : OPERETTA_OBJECT;
    if (operetta_type_at(body, "") != wanted) {
        fail_with(error, OPERETTA_BAD_REQUEST, call, "the patch's body must be an %s",
                  wanted == OPERETTA_ARRAY ? "array of operations" : "object");
        return NULL;
    }
    if (patch->type == OPERETTA_APPLY_PATCH) {
        operetta_value *typed = operetta_copy(body);
        operetta_set_string(typed, "apiVersion", kind.api_version);
        operetta_set_string(typed, "kind", kind.kind);
        body = typed;
    }
    operetta_error *why = NULL;
    const char *text = backend_patch(kind, namespace_, name, patch, operetta_to_json(body), &why);
    return written(text, call, why, error);
}

bool operetta_delete(operetta_kind kind, const char *namespace_, const char *name,
                     const operetta_delete_options *options, operetta_error **error) {
    static const operetta_delete_options defaults;
    operetta_error *why = NULL;
    bool deleted = backend_delete(kind, namespace_, name, options == NULL ? &defaults : options, &why);
    if (why != NULL) {
        why->call = call_name("delete", kind, namespace_, name);
    }
    if (error != NULL) {
        *error = why;
    }
    return deleted;
}

operetta_value *operetta_get_or_new(operetta_kind kind, const char *namespace_, const char *name,
                                    operetta_error **error) {
    operetta_error *why = NULL;
    operetta_value *object = operetta_find(kind, namespace_, name, &why);
    if (error != NULL) {
        *error = why;
    }
    if (why != NULL) {
        return NULL;
    }
    opened *entry = operetta_allocate(sizeof *entry);
    entry->before = operetta_copy(object);
    entry->object = object == NULL ? operetta_new(kind, namespace_, name) : object;
    entry->next = all_opened;
    all_opened = entry;
    return (operetta_value *)(uintptr_t)entry->object;
}

const char *operetta_operation_result_name(operetta_operation_result result) {
    static const char *const names[] = {"unchanged", "created", "updated"};
    return names[result];
}

operetta_value *operetta_create_or_update(operetta_value *object, operetta_operation_result *result,
                                          operetta_error **error) {
    operetta_operation_result ignored;
    operetta_operation_result *did = result == NULL ? &ignored : result;
    const char *call = call_name("create or update", operetta_kind_of(object), operetta_namespace(object),
                                 operetta_name(object));
    opened *entry = all_opened;
    while (entry != NULL && entry->object != object) {
        entry = entry->next;
    }
    *did = OPERETTA_UNCHANGED;
    if (!sendable(object, call, error)) {
        return NULL;
    }
    if (entry == NULL) {
        fail_with(error, OPERETTA_BAD_REQUEST, call, "the object does not come from operetta_get_or_new");
        return NULL;
    }
    if (entry->before == NULL) {
        *did = OPERETTA_CREATED;
        return operetta_create(object, NULL, error);
    }
    if (operetta_equal(entry->before, object)) {
        if (error != NULL) {
            *error = NULL;
        }
        return object;
    }
    *did = OPERETTA_UPDATED;
    return operetta_update(object, NULL, error);
}

const operetta_raw_response *operetta_raw(const operetta_raw_request *request) { return backend_raw(request); }

const char *const *operetta_take_warnings(void) { return backend_take_warnings(); }
