/* The store of the test cluster, with the API server's semantics of writes. It keeps objects as JSON text in its own
 * memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/values.h"
#include "store.h"

enum { MOST_WITHOUT_STATUS = 16 };

static stored *first;
static unsigned long version;
static operetta_kind without_status[MOST_WITHOUT_STATUS];
static size_t without_status_count;

/* The metadata fields that only the API server sets. */
static const char *const SYSTEM_FIELDS[] = {"uid", "resourceVersion", "creationTimestamp", "generation",
                                            "deletionTimestamp", "deletionGracePeriodSeconds", NULL};

static bool is_one_of(const char *text, const char *const *list) {
    while (*list != NULL && strcmp(*list, text) != 0) {
        list++;
    }
    return *list != NULL;
}

static bool is_built_in(operetta_kind kind) {
    static const char *const groups[] = {"apps", "batch", "autoscaling", "policy", "networking.k8s.io",
                                         "rbac.authorization.k8s.io", "storage.k8s.io", NULL};
    const char *slash = strchr(kind.api_version, '/');
    return slash == NULL || is_one_of(memory_text(kind.api_version, (size_t)(slash - kind.api_version)), groups);
}

/* Reports whether a built-in kind has neither a status nor a generation. */
static bool is_plain(operetta_kind kind) {
    static const char *const kinds[] = {"ConfigMap", "Secret", "ServiceAccount", "Endpoints", "Event", "Role",
                                        "RoleBinding", "ClusterRole", "ClusterRoleBinding", "StorageClass",
                                        "LimitRange", "PodTemplate", NULL};
    return is_built_in(kind) && is_one_of(kind.kind, kinds);
}

static bool has_status(operetta_kind kind) {
    for (size_t i = 0; i < without_status_count; i++) {
        if (same_kind(without_status[i], kind)) {
            return false;
        }
    }
    return !is_plain(kind);
}

void store_without_status(operetta_kind kind) {
    if (without_status_count == MOST_WITHOUT_STATUS) {
        operetta_panic("operetta_test_without_status: at most %d kinds", MOST_WITHOUT_STATUS);
    }
    without_status[without_status_count++] = kind;
}

const stored *store_first(void) { return first; }

const char *store_version(void) { return operetta_format("%lu", version); }

static char *own(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    if (copy == NULL) {
        operetta_panic("out of memory");
    }
    return strcpy(copy, text);
}

static void release(stored *object) {
    free((char *)(uintptr_t)object->id.kind.api_version);
    free((char *)(uintptr_t)object->id.kind.kind);
    free((char *)(uintptr_t)object->id.namespace_);
    free((char *)(uintptr_t)object->id.name);
    free(object->text);
    free(object);
}

void store_reset(void) {
    while (first != NULL) {
        stored *next = first->next;
        release(first);
        first = next;
    }
    version = 0;
    without_status_count = 0;
}

static int compare(object_id a, object_id b) {
    int order = strcmp(a.kind.api_version, b.kind.api_version);
    order = order != 0 ? order : strcmp(a.kind.kind, b.kind.kind);
    order = order != 0 ? order : strcmp(a.namespace_, b.namespace_);
    return order != 0 ? order : strcmp(a.name, b.name);
}

/* Returns the position of the object in the list, or the position to insert it at. */
static stored **place(object_id id) {
    stored **at = &first;
    while (*at != NULL && compare((*at)->id, id) < 0) {
        at = &(*at)->next;
    }
    return at;
}

static bool stands(stored *const *at, object_id id) { return *at != NULL && compare((*at)->id, id) == 0; }

static void insert(object_id id, const operetta_value *object) {
    stored **at = place(id);
    if (stands(at, id)) {
        free((*at)->text);
        (*at)->text = own(operetta_to_json(object));
        return;
    }
    stored *made = calloc(1, sizeof *made);
    if (made == NULL) {
        operetta_panic("out of memory");
    }
    made->id = (object_id){{own(id.kind.api_version), own(id.kind.kind)}, own(id.namespace_), own(id.name)};
    made->text = own(operetta_to_json(object));
    made->next = *at;
    *at = made;
}

static void drop(object_id id) {
    stored **at = place(id);
    if (stands(at, id)) {
        stored *gone = *at;
        *at = gone->next;
        release(gone);
    }
}

static const char *described(object_id id) { return operetta_format("%s \"%s\"", id.kind.kind, id.name); }

static void conflict(operetta_error **error, object_id id, const char *why) {
    fail_with(error, OPERETTA_CONFLICT, "", "Operation cannot be fulfilled on %s: %s", described(id), why);
}

void store_unsupported(operetta_error **error, const char *what) {
    fail_with(error, OPERETTA_OTHER, "", "%s: not supported by the test kit; test it on an API server", what);
    (*error)->code = 501;
}

/* Returns the time of a clock that advances with each write and is the same in each run. */
static const char *now(void) {
    unsigned long seconds = version % 86400;
    return operetta_format("2030-01-01T%02lu:%02lu:%02luZ", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

/* Removes nulls, which built-in kinds read as absent fields. Rejects them in custom resources, where the schema
 * decides. */
static bool drop_nulls(yyjson_mut_val *value, bool built_in, const char *path, operetta_error **error) {
    yyjson_mut_obj_iter members = yyjson_mut_obj_iter_with(value);
    for (yyjson_mut_val *key; (key = yyjson_mut_obj_iter_next(&members)) != NULL;) {
        yyjson_mut_val *member = yyjson_mut_obj_iter_get_val(key);
        const char *below = operetta_format("%s.%s", path, yyjson_mut_get_str(key));
        if (yyjson_mut_is_null(member) && !built_in) {
            store_unsupported(error, operetta_format("null at %s (leave the field out)", below));
            return false;
        }
        if (yyjson_mut_is_null(member)) {
            yyjson_mut_obj_iter_remove(&members);
        } else if (!drop_nulls(member, built_in, below, error)) {
            return false;
        }
    }
    yyjson_mut_arr_iter elements = yyjson_mut_arr_iter_with(value);
    for (yyjson_mut_val *element; (element = yyjson_mut_arr_iter_next(&elements)) != NULL;) {
        if (!drop_nulls(element, built_in, operetta_format("%s[]", path), error)) {
            return false;
        }
    }
    return true;
}

/* Checks the object against the kind and key of the request, sets its namespace, and removes nulls. */
static bool accept(object_id id, operetta_value *object, operetta_error **error) {
    operetta_kind kind = operetta_kind_of(object);
    const char *namespace_ = operetta_namespace(object);
    const char *wrong = NULL;
    if (!same_kind(kind, id.kind)) {
        wrong = operetta_format("the object is a %s %s, the request is about a %s %s", kind.api_version, kind.kind,
                                id.kind.api_version, id.kind.kind);
    } else if (strcmp(operetta_name(object), id.name) != 0) {
        wrong = operetta_format("the name of the object (%s) does not match the name on the URL (%s)",
                                operetta_name(object), id.name);
    } else if (namespace_ != NULL && strcmp(namespace_, id.namespace_) != 0) {
        wrong = "the namespace of the provided object does not match the namespace sent on the request";
    }
    if (wrong != NULL) {
        fail_with(error, OPERETTA_BAD_REQUEST, "", "%s", wrong);
        return false;
    }
    if (*id.namespace_ != '\0') {
        operetta_set_string(object, "metadata.namespace", id.namespace_);
    }
    drop_nulls(inner(operetta_at(object, "metadata")), true, "", error);
    return drop_nulls(inner(object), is_built_in(id.kind), "", error);
}

/* Sets the system fields of a new object; `keep` preserves those that are set. */
static void stamp(object_id id, operetta_value *object, bool keep, bool dry) {
    version += !dry;
    const char *const fields[] = {"metadata.uid", "metadata.resourceVersion", "metadata.creationTimestamp"};
    const char *const values[] = {operetta_format("00000000-0000-4000-8000-%012lu", version), store_version(), now()};
    for (size_t i = 0; i < 3; i++) {
        if (!keep || operetta_at(object, fields[i]) == NULL) {
            operetta_set_string(object, fields[i], values[i]);
        }
    }
    if (!is_plain(id.kind) && (!keep || operetta_at(object, "metadata.generation") == NULL)) {
        operetta_set_int(object, "metadata.generation", 1);
    }
}

operetta_value *store_seed(object_id id, operetta_value *object, operetta_error **error) {
    if (*id.name == '\0') {
        fail_with(error, OPERETTA_BAD_REQUEST, "", "the object has no name");
        return NULL;
    }
    if (!accept(id, object, error)) {
        return NULL;
    }
    if (stands(place(id), id)) {
        fail_with(error, OPERETTA_ALREADY_EXISTS, "", "%s already exists", described(id));
        return NULL;
    }
    stamp(id, object, true, false);
    insert(id, object);
    return object;
}

operetta_value *store_get(object_id id, operetta_error **error) {
    stored **at = place(id);
    if (!stands(at, id)) {
        fail_with(error, OPERETTA_NOT_FOUND, "", "%s not found", described(id));
        return NULL;
    }
    return value_of_host((*at)->text, "the test cluster");
}

operetta_value *store_create(object_id id, operetta_value *object, bool dry, operetta_error **error) {
    if (*id.name == '\0') {
        store_unsupported(error, "generateName");
        return NULL;
    }
    if (!accept(id, object, error)) {
        return NULL;
    }
    if (*operetta_resource_version(object) != '\0') {
        fail_with(error, OPERETTA_UNAVAILABLE, "", "resourceVersion should not be set on objects to be created");
        (*error)->code = 500;
        (*error)->reason = "";
        return NULL;
    }
    if (stands(place(id), id)) {
        fail_with(error, OPERETTA_ALREADY_EXISTS, "", "%s already exists", described(id));
        return NULL;
    }
    operetta_remove(object, "metadata.deletionTimestamp");
    operetta_remove(object, "metadata.deletionGracePeriodSeconds");
    operetta_remove(object, "metadata.managedFields");
    if (has_status(id.kind)) {
        operetta_remove(object, "status");
    }
    stamp(id, object, false, dry);
    if (!dry) {
        insert(id, object);
    }
    return object;
}

/* Checks the uid and resourceVersion of an update against the stored object. */
static bool is_current(object_id id, const operetta_value *old, const operetta_value *given, operetta_error **error) {
    const char *uid = operetta_uid(given);
    const char *given_version = operetta_resource_version(given);
    if (*uid != '\0' && strcmp(uid, operetta_uid(old)) != 0) {
        conflict(error, id, operetta_format("Precondition failed: UID in precondition: %s", uid));
        return false;
    }
    if (*given_version == '\0' && !is_built_in(id.kind)) {
        static const operetta_cause cause = {"FieldValueInvalid", "must be specified for an update",
                                             "metadata.resourceVersion"};
        fail_with(error, OPERETTA_INVALID, "", "%s is invalid: metadata.resourceVersion: must be specified for an update",
                  described(id));
        (*error)->causes = &cause;
        (*error)->cause_count = 1;
        return false;
    }
    if (*given_version != '\0' && strcmp(given_version, operetta_resource_version(old)) != 0) {
        conflict(error, id,
                 "the object has been modified; please apply your changes to the latest version and try again");
        return false;
    }
    return true;
}

/* Returns the part of an object whose changes increase the generation. */
static operetta_value *desired(object_id id, const operetta_value *object) {
    operetta_value *part = operetta_copy(object);
    operetta_remove(part, "metadata");
    if (has_status(id.kind)) {
        operetta_remove(part, "status");
    }
    return part;
}

/* Stores a new version of an object. Removes an object that is being deleted and has no finalizers. */
static void store_version_of(object_id id, operetta_value *object, bool dry) {
    version += !dry;
    operetta_set_string(object, "metadata.resourceVersion", store_version());
    if (dry) {
        return;
    }
    if (operetta_is_being_deleted(object) && operetta_count(object, "metadata.finalizers") == 0) {
        drop(id);
    } else {
        insert(id, object);
    }
}

static bool keeps_finalizers(object_id id, const operetta_value *old, const operetta_value *new,
                             operetta_error **error) {
    const operetta_value *finalizers = operetta_at(new, "metadata.finalizers");
    for (size_t i = 0; operetta_is_being_deleted(old) && i < operetta_count(finalizers, ""); i++) {
        if (!operetta_has_finalizer(old, operetta_string(operetta_element(finalizers, i), "", ""))) {
            fail_with(error, OPERETTA_INVALID, "",
                      "%s is invalid: metadata.finalizers: no new finalizers can be added if the object is being deleted",
                      described(id));
            return false;
        }
    }
    return true;
}

operetta_value *store_update(object_id id, operetta_value *object, bool status, bool dry, operetta_error **error) {
    operetta_value *old = store_get(id, error);
    if (old == NULL || !accept(id, object, error)) {
        return NULL;
    }
    if (status && !has_status(id.kind)) {
        fail_with(error, OPERETTA_NOT_FOUND, "", "%s has no status subresource", id.kind.kind);
        return NULL;
    }
    if (!is_current(id, old, object, error)) {
        return NULL;
    }
    operetta_value *new = operetta_copy(status ? old : object);
    if (has_status(id.kind)) {
        operetta_set(new, "status", operetta_at(status ? object : old, "status"));
    }
    for (const char *const *field = SYSTEM_FIELDS; *field != NULL; field++) {
        const char *path = operetta_format("metadata.%s", *field);
        operetta_set(new, path, operetta_at(old, path));
    }
    if (!keeps_finalizers(id, old, new, error)) {
        return NULL;
    }
    if (yyjson_mut_equals(inner(old), inner(new))) {
        return old;
    }
    if (!is_plain(id.kind) && !yyjson_mut_equals(inner(desired(id, old)), inner(desired(id, new)))) {
        operetta_set_int(new, "metadata.generation", operetta_int(old, "metadata.generation", 0) + 1);
    }
    store_version_of(id, new, dry);
    return new;
}

operetta_value *store_patch(object_id id, operetta_patch_type type, operetta_value *body, bool status, bool dry,
                            operetta_error **error) {
    operetta_value *old = store_get(id, error);
    if (old == NULL) {
        return NULL;
    }
    yyjson_mut_val *new = NULL;
    if (type == OPERETTA_MERGE_PATCH) {
        new = yyjson_mut_merge_patch(values_document(), inner(old), inner(body));
    } else {
        yyjson_patch_err why = {0};
        new = yyjson_mut_patch(values_document(), inner(old), inner(body), &why);
        if (new == NULL) {
            fail_with(error, OPERETTA_INVALID, "", "cannot apply operation %zu of the patch: %s", why.idx, why.msg);
            return NULL;
        }
    }
    return store_update(id, outer(new), status, dry, error);
}

bool store_delete(object_id id, const operetta_delete_options *options, operetta_error **error) {
    if (options->propagation == OPERETTA_FOREGROUND || options->propagation == OPERETTA_ORPHAN) {
        store_unsupported(error, "foreground and orphan deletion");
        return false;
    }
    operetta_value *object = store_get(id, error);
    if (object == NULL) {
        return false;
    }
    const char *const wanted[] = {options->uid, options->resource_version};
    const char *const actual[] = {operetta_uid(object), operetta_resource_version(object)};
    for (size_t i = 0; i < 2; i++) {
        if (wanted[i] != NULL && strcmp(wanted[i], actual[i]) != 0) {
            conflict(error, id, operetta_format("Precondition failed: %s in precondition: %s, in object meta: %s",
                                                i == 0 ? "UID" : "ResourceVersion", wanted[i], actual[i]));
            return false;
        }
    }
    if (options->dry_run) {
        return true;
    }
    if (operetta_count(object, "metadata.finalizers") == 0) {
        version++;
        drop(id);
    } else if (!operetta_is_being_deleted(object)) {
        operetta_set_string(object, "metadata.deletionTimestamp", now());
        operetta_set_int(object, "metadata.deletionGracePeriodSeconds", 0);
        if (!is_plain(id.kind)) {
            operetta_set_int(object, "metadata.generation", operetta_int(object, "metadata.generation", 0) + 1);
        }
        store_version_of(id, object, false);
    }
    return true;
}
