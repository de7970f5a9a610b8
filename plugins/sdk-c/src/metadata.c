/* An object's metadata, its owners and its finalizers. */
#include <string.h>

#include "internal.h"

operetta_kind operetta_kind_of(const operetta_value *object) {
    return (operetta_kind){operetta_string(object, "apiVersion", ""), operetta_string(object, "kind", "")};
}

const char *operetta_name(const operetta_value *object) { return operetta_string(object, "metadata.name", ""); }

const char *operetta_namespace(const operetta_value *object) {
    const char *namespace_ = operetta_string(object, "metadata.namespace", "");
    return *namespace_ == '\0' ? NULL : namespace_;
}

const char *operetta_uid(const operetta_value *object) { return operetta_string(object, "metadata.uid", ""); }

const char *operetta_resource_version(const operetta_value *object) {
    return operetta_string(object, "metadata.resourceVersion", "");
}

bool operetta_is_being_deleted(const operetta_value *object) {
    return operetta_string(object, "metadata.deletionTimestamp", NULL) != NULL;
}

bool operetta_is_new(const operetta_value *object) { return *operetta_uid(object) == '\0'; }

bool same_kind(operetta_kind a, operetta_kind b) {
    return strcmp(a.kind, b.kind) == 0 && strcmp(a.api_version, b.api_version) == 0;
}

/* Returns the length of the group in an apiVersion; 0 for the core group. */
static size_t group_length(const char *api_version) {
    const char *slash = strchr(api_version, '/');
    return slash == NULL ? 0 : (size_t)(slash - api_version);
}

/* Reports whether a reference is to a kind, in any version of its group. */
static bool is_of(const operetta_value *reference, operetta_kind kind) {
    const char *api_version = operetta_string(reference, "apiVersion", "");
    size_t group = group_length(kind.api_version);
    return strcmp(operetta_string(reference, "kind", ""), kind.kind) == 0 && group_length(api_version) == group &&
           strncmp(api_version, kind.api_version, group) == 0;
}

/* Reports whether a reference names the owner, in any version of its group. */
static bool names(const operetta_value *reference, const operetta_value *owner) {
    return is_of(reference, operetta_kind_of(owner)) &&
           strcmp(operetta_string(reference, "name", ""), operetta_name(owner)) == 0;
}

static operetta_value *controller_of(const operetta_value *object) {
    operetta_value *references = operetta_at(object, "metadata.ownerReferences");
    for (size_t i = 0; i < operetta_count(references, ""); i++) {
        operetta_value *reference = operetta_element(references, i);
        if (operetta_bool(reference, "controller", false)) {
            return reference;
        }
    }
    return NULL;
}

bool operetta_is_controlled_by(const operetta_value *child, const operetta_value *owner) {
    const char *uid = operetta_uid(owner);
    return *uid != '\0' && strcmp(operetta_string(controller_of(child), "uid", ""), uid) == 0;
}

bool operetta_set_controller_reference(const operetta_value *owner, operetta_value *child, operetta_error **error) {
    operetta_kind kind = operetta_kind_of(owner);
    operetta_kind of_child = operetta_kind_of(child);
    const char *call = operetta_format("make %s %s the owner of %s %s", kind.kind, operetta_name(owner), of_child.kind,
                                       operetta_name(child));
    const char *namespace_ = operetta_namespace(owner);
    const char *of_child_namespace = operetta_namespace(child);
    if (*operetta_uid(owner) == '\0') {
        fail_with(error, OPERETTA_BAD_REQUEST, call, "the owner has no uid: an owner must be read from the API server");
        return false;
    }
    if (namespace_ != NULL && (of_child_namespace == NULL || strcmp(namespace_, of_child_namespace) != 0)) {
        fail_with(error, OPERETTA_BAD_REQUEST, call, "they must be in the same namespace");
        return false;
    }
    const operetta_value *other = controller_of(child);
    if (other != NULL && !names(other, owner)) {
        fail_with(error, OPERETTA_ALREADY_EXISTS, call, "it is already controlled by %s %s",
                  operetta_string(other, "kind", ""), operetta_string(other, "name", ""));
        return false;
    }
    operetta_value *reference = operetta_new_object();
    operetta_set_string(reference, "apiVersion", kind.api_version);
    operetta_set_string(reference, "kind", kind.kind);
    operetta_set_string(reference, "name", operetta_name(owner));
    operetta_set_string(reference, "uid", operetta_uid(owner));
    operetta_set_bool(reference, "controller", true);
    operetta_set_bool(reference, "blockOwnerDeletion", true);
    operetta_value *references = operetta_at(child, "metadata.ownerReferences");
    size_t at = 0;
    while (at < operetta_count(references, "") && !names(operetta_element(references, at), owner)) {
        at++;
    }
    operetta_set(child, operetta_format("metadata.ownerReferences[%zu]", at), reference);
    if (error != NULL) {
        *error = NULL;
    }
    return true;
}

/* Returns the position of the finalizer; the number of finalizers if it is absent. */
static size_t finalizer_position(const operetta_value *object, const char *finalizer) {
    const operetta_value *finalizers = operetta_at(object, "metadata.finalizers");
    size_t count = operetta_count(finalizers, "");
    for (size_t i = 0; i < count; i++) {
        if (strcmp(operetta_string(operetta_element(finalizers, i), "", ""), finalizer) == 0) {
            return i;
        }
    }
    return count;
}

bool operetta_has_finalizer(const operetta_value *object, const char *finalizer) {
    return finalizer_position(object, finalizer) < operetta_count(object, "metadata.finalizers");
}

/* Patches the finalizers of the stored object, and replaces the metadata of `object` with the result. */
static bool write_finalizers(operetta_value *object, operetta_value *finalizers, operetta_error **error) {
    operetta_value *body = operetta_new_object();
    operetta_set(body, "metadata.finalizers", finalizers);
    operetta_set_string(body, "metadata.resourceVersion", operetta_resource_version(object));
    operetta_value *stored = operetta_patch(operetta_kind_of(object), operetta_namespace(object), operetta_name(object),
                                            &(operetta_patch_request){.body = body}, error);
    if (stored != NULL) {
        operetta_set(object, "metadata", operetta_at(stored, "metadata"));
    }
    return stored != NULL;
}

bool operetta_add_finalizer(operetta_value *object, const char *finalizer, operetta_error **error) {
    if (error != NULL) {
        *error = NULL;
    }
    if (operetta_has_finalizer(object, finalizer)) {
        return true;
    }
    operetta_value *copy = operetta_copy(object);
    operetta_append_string(copy, "metadata.finalizers", finalizer);
    return write_finalizers(object, operetta_at(copy, "metadata.finalizers"), error);
}

bool operetta_remove_finalizer(operetta_value *object, const char *finalizer, operetta_error **error) {
    if (error != NULL) {
        *error = NULL;
    }
    if (!operetta_has_finalizer(object, finalizer)) {
        return true;
    }
    operetta_value *finalizers = operetta_copy(operetta_at(object, "metadata.finalizers"));
    operetta_remove(finalizers, operetta_format("[%zu]", finalizer_position(object, finalizer)));
    operetta_error *why = NULL;
    bool removed = write_finalizers(object, finalizers, &why);
    if (operetta_is(why, OPERETTA_NOT_FOUND)) {
        return true;
    }
    if (error != NULL) {
        *error = why;
    }
    return removed;
}
