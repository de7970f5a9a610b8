/* JSON values: functions that create, read and compare them. One document per reconcile holds all values. */
#include <stdio.h>
#include <string.h>

#include "values.h"

static yyjson_mut_doc *document;

static void *take(void *context, size_t bytes) {
    (void)context;
    return memory_reallocate(NULL, 0, bytes);
}

static void *take_again(void *context, void *old, size_t old_bytes, size_t bytes) {
    (void)context;
    return memory_reallocate(old, old_bytes, bytes);
}

static void give_back(void *context, void *memory) {
    (void)context;
    (void)memory;
}

const yyjson_alc values_memory = {take, take_again, give_back, NULL};

yyjson_mut_doc *values_document(void) {
    if (document == NULL) {
        document = yyjson_mut_doc_new(&values_memory);
    }
    return document;
}

void values_reset(void) { document = NULL; }

operetta_value *operetta_new_object(void) { return outer(yyjson_mut_obj(values_document())); }

operetta_value *operetta_new_array(void) { return outer(yyjson_mut_arr(values_document())); }

operetta_value *operetta_copy(const operetta_value *value) {
    return value == NULL ? NULL : outer(yyjson_mut_val_mut_copy(values_document(), inner(value)));
}

operetta_value *operetta_new(operetta_kind kind, const char *namespace_, const char *name) {
    operetta_value *object = operetta_new_object();
    operetta_set_string(object, "apiVersion", kind.api_version);
    operetta_set_string(object, "kind", kind.kind);
    operetta_set_string(object, "metadata.name", name);
    if (namespace_ != NULL && *namespace_ != '\0') {
        operetta_set_string(object, "metadata.namespace", namespace_);
    }
    return object;
}

/* Parses JSON text. Returns NULL and sets *error if the text is not JSON. */
static operetta_value *parse(const char *text, yyjson_read_err *error) {
    /* yyjson does not change the text without its flag INSITU. */
    yyjson_doc *parsed = yyjson_read_opts((char *)(uintptr_t)text, strlen(text), YYJSON_READ_BIGNUM_AS_RAW,
                                          &values_memory, error);
    return parsed == NULL ? NULL : outer(yyjson_val_mut_copy(values_document(), yyjson_doc_get_root(parsed)));
}

operetta_value *operetta_parse(const char *text, operetta_error **error) {
    yyjson_read_err why = {0};
    operetta_value *value = parse(text, &why);
    if (value == NULL) {
        fail_with(error, OPERETTA_BAD_REQUEST, "parse JSON", "%s at byte %zu", why.msg, why.pos);
    } else if (error != NULL) {
        *error = NULL;
    }
    return value;
}

operetta_value *value_of_host(const char *text, const char *call) {
    yyjson_read_err why = {0};
    operetta_value *value = parse(text, &why);
    if (value == NULL) {
        operetta_panic("%s: the host's response is not JSON: %s at byte %zu", call, why.msg, why.pos);
    }
    return value;
}

const char *operetta_to_json(const operetta_value *value) {
    yyjson_write_err why = {0};
    char *text = yyjson_mut_val_write_opts(inner(value), YYJSON_WRITE_NOFLAG, &values_memory, NULL, &why);
    if (text == NULL) {
        operetta_panic("a value cannot be written as JSON: %s", value == NULL ? "it is NULL" : why.msg);
    }
    return text;
}

operetta_type operetta_type_at(const operetta_value *value, const char *path) {
    switch (yyjson_mut_get_type(inner(operetta_at(value, path)))) {
    case YYJSON_TYPE_NULL:
        return OPERETTA_NULL;
    case YYJSON_TYPE_BOOL:
        return OPERETTA_BOOL;
    case YYJSON_TYPE_NUM:
    case YYJSON_TYPE_RAW:
        return OPERETTA_NUMBER;
    case YYJSON_TYPE_STR:
        return OPERETTA_STRING;
    case YYJSON_TYPE_ARR:
        return OPERETTA_ARRAY;
    case YYJSON_TYPE_OBJ:
        return OPERETTA_OBJECT;
    default:
        return OPERETTA_ABSENT;
    }
}

const char *type_name(operetta_type type) {
    static const char *const names[] = {"absent",   "null",     "a boolean", "a number",
                                        "a string", "an array", "an object"};
    return names[type];
}

/* Logs a warning if a field has another type than the wanted one. An absent field or null is not logged. */
static void mistyped(const operetta_value *value, const char *path, const char *wanted) {
    operetta_type type = operetta_type_at(value, path);
    if (type == OPERETTA_ABSENT || type == OPERETTA_NULL) {
        return;
    }
    const char *name = operetta_string(value, "metadata.name", "");
    operetta_log_warn("%s%s%s%s is %s, not %s: taken as absent", operetta_string(value, "kind", ""),
                      *name == '\0' ? "" : " ", name, *name == '\0' ? path : operetta_format(": %s", path),
                      type_name(type), wanted);
}

const char *operetta_string(const operetta_value *value, const char *path, const char *otherwise) {
    const char *text = yyjson_mut_get_str(inner(operetta_at(value, path)));
    if (text != NULL) {
        return text;
    }
    mistyped(value, path, "a string");
    return otherwise;
}

int64_t operetta_int(const operetta_value *value, const char *path, int64_t otherwise) {
    yyjson_mut_val *at = inner(operetta_at(value, path));
    if (yyjson_mut_is_sint(at) || (yyjson_mut_is_uint(at) && yyjson_mut_get_uint(at) <= INT64_MAX)) {
        return yyjson_mut_get_sint(at);
    }
    if (yyjson_mut_is_real(at)) {
        double real = yyjson_mut_get_real(at);
        if (real >= -9007199254740992.0 && real <= 9007199254740992.0 && (double)(int64_t)real == real) {
            return (int64_t)real;
        }
    }
    mistyped(value, path, "an integer of 64 bits");
    return otherwise;
}

double operetta_number(const operetta_value *value, const char *path, double otherwise) {
    yyjson_mut_val *at = inner(operetta_at(value, path));
    if (yyjson_mut_is_num(at)) {
        return yyjson_mut_get_num(at);
    }
    mistyped(value, path, "a number that fits a double");
    return otherwise;
}

bool operetta_bool(const operetta_value *value, const char *path, bool otherwise) {
    yyjson_mut_val *at = inner(operetta_at(value, path));
    if (yyjson_mut_is_bool(at)) {
        return yyjson_mut_get_bool(at);
    }
    mistyped(value, path, "a boolean");
    return otherwise;
}

const char *operetta_text(const operetta_value *value, const char *path, const char *otherwise) {
    yyjson_mut_val *at = inner(operetta_at(value, path));
    if (yyjson_mut_is_str(at)) {
        return yyjson_mut_get_str(at);
    }
    if (yyjson_mut_is_num(at) || yyjson_mut_is_bool(at) || yyjson_mut_is_raw(at)) {
        return operetta_to_json(outer(at));
    }
    mistyped(value, path, "a string, number or boolean");
    return otherwise;
}

size_t operetta_count(const operetta_value *value, const char *path) {
    yyjson_mut_val *at = inner(operetta_at(value, path));
    return yyjson_mut_is_obj(at) ? yyjson_mut_obj_size(at) : yyjson_mut_arr_size(at);
}

operetta_value *operetta_member(const operetta_value *value, const char *name) {
    return outer(yyjson_mut_obj_get(inner(value), name));
}

/* Returns the key of the member at a position; NULL past the end. */
static yyjson_mut_val *key_at(const operetta_value *value, size_t position) {
    yyjson_mut_obj_iter members = yyjson_mut_obj_iter_with(inner(value));
    yyjson_mut_val *key = yyjson_mut_obj_iter_next(&members);
    while (key != NULL && position-- > 0) {
        key = yyjson_mut_obj_iter_next(&members);
    }
    return key;
}

operetta_value *operetta_element(const operetta_value *value, size_t position) {
    if (yyjson_mut_is_obj(inner(value))) {
        return outer(yyjson_mut_obj_iter_get_val(key_at(value, position)));
    }
    return outer(yyjson_mut_arr_get(inner(value), position));
}

const char *operetta_member_name(const operetta_value *value, size_t position) {
    return yyjson_mut_get_str(key_at(value, position));
}

static bool is_empty(yyjson_mut_val *value) {
    yyjson_mut_obj_iter members = yyjson_mut_obj_iter_with(value);
    for (yyjson_mut_val *key; (key = yyjson_mut_obj_iter_next(&members)) != NULL;) {
        if (!is_empty(yyjson_mut_obj_iter_get_val(key))) {
            return false;
        }
    }
    return value == NULL || yyjson_mut_is_null(value) || yyjson_mut_is_obj(value) ||
           (yyjson_mut_is_arr(value) && yyjson_mut_arr_size(value) == 0);
}

static bool same(yyjson_mut_val *a, yyjson_mut_val *b);

/* Reports whether each member of `a` has an equal member in `b`. */
static bool has_members_of(yyjson_mut_val *a, yyjson_mut_val *b) {
    yyjson_mut_obj_iter members = yyjson_mut_obj_iter_with(a);
    for (yyjson_mut_val *key; (key = yyjson_mut_obj_iter_next(&members)) != NULL;) {
        yyjson_mut_val *other = yyjson_mut_obj_getn(b, yyjson_mut_get_str(key), yyjson_mut_get_len(key));
        if (!same(yyjson_mut_obj_iter_get_val(key), other)) {
            return false;
        }
    }
    return true;
}

static bool same(yyjson_mut_val *a, yyjson_mut_val *b) {
    if (yyjson_mut_is_obj(a) && yyjson_mut_is_obj(b)) {
        return has_members_of(a, b) && has_members_of(b, a);
    }
    if (is_empty(a) || is_empty(b)) {
        return is_empty(a) && is_empty(b);
    }
    if (!yyjson_mut_is_arr(a) || !yyjson_mut_is_arr(b)) {
        return yyjson_mut_equals(a, b);
    }
    yyjson_mut_arr_iter of_a = yyjson_mut_arr_iter_with(a);
    yyjson_mut_arr_iter of_b = yyjson_mut_arr_iter_with(b);
    bool equal = yyjson_mut_arr_size(a) == yyjson_mut_arr_size(b);
    for (yyjson_mut_val *element; equal && (element = yyjson_mut_arr_iter_next(&of_a)) != NULL;) {
        equal = same(element, yyjson_mut_arr_iter_next(&of_b));
    }
    return equal;
}

bool operetta_equal(const operetta_value *a, const operetta_value *b) { return same(inner(a), inner(b)); }
