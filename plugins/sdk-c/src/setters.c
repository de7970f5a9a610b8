/* Setters of values. The first failed setter is recorded, and fails the next write to the API server. */
#include <string.h>

#include "values.h"

static const char *first_unset;

const char *unset_field(void) { return first_unset; }

void forget_unset_field(void) { first_unset = NULL; }

static void not_set(const char *path, const char *why) {
    if (first_unset == NULL) {
        first_unset = operetta_format("cannot set %s: %s", path, why);
    }
}

static operetta_type type_of(yyjson_mut_val *value) { return operetta_type_at(outer(value), ""); }

/* Reports whether the step fits the container, and records a failure if it does not. */
static bool fits(yyjson_mut_val *container, const path_step *step, const char *path) {
    if (step->name != NULL ? yyjson_mut_is_obj(container) : yyjson_mut_is_arr(container)) {
        if (step->name != NULL || step->position <= yyjson_mut_arr_size(container)) {
            return true;
        }
        not_set(path, operetta_format("element %zu is past the end of an array of %zu", step->position,
                                      yyjson_mut_arr_size(container)));
        return false;
    }
    const char *found = type_name(type_of(container));
    not_set(path, step->name != NULL ? operetta_format("what holds \"%.*s\" is %s, not an object", (int)step->length,
                                                       step->name, found)
                                     : operetta_format("what holds [%zu] is %s, not an array", step->position, found));
    return false;
}

/* Sets a member or element of the container, or removes it if the value is NULL. The step must fit. */
static void put(yyjson_mut_val *container, const path_step *step, yyjson_mut_val *value) {
    yyjson_mut_val *old = step_down(container, step);
    if (step->name == NULL) {
        if (value == NULL) {
            yyjson_mut_arr_remove(container, step->position);
        } else if (old == NULL) {
            yyjson_mut_arr_append(container, value);
        } else {
            yyjson_mut_arr_replace(container, step->position, value);
        }
    } else if (value == NULL) {
        yyjson_mut_obj_remove_keyn(container, step->name, step->length);
    } else {
        yyjson_mut_val *key = yyjson_mut_strncpy(values_document(), step->name, step->length);
        if (old == NULL) {
            yyjson_mut_obj_add(container, key, value);
        } else {
            yyjson_mut_obj_replace(container, key, value);
        }
    }
}

/* Sets the field at a path to a value that no container holds yet; NULL removes the field. */
static void set(operetta_value *value, const char *path, yyjson_mut_val *what) {
    const char *rest = path;
    yyjson_mut_val *at = inner(value);
    path_step step;
    path_step next;
    if (at == NULL) {
        operetta_panic("cannot set \"%s\" of NULL", path);
    }
    if (!path_next(&rest, &step)) {
        operetta_panic("the empty path cannot be set");
    }
    while (fits(at, &step, path)) {
        if (!path_next(&rest, &next)) {
            put(at, &step, what);
            return;
        }
        yyjson_mut_val *below = step_down(at, &step);
        if (below == NULL || yyjson_mut_is_null(below)) {
            if (what == NULL) {
                return;
            }
            below = next.name != NULL ? yyjson_mut_obj(values_document()) : yyjson_mut_arr(values_document());
            put(at, &step, below);
            below = step_down(at, &step); /* yyjson stores a copy of a member's value */
        }
        at = below;
        step = next;
    }
}

/* Returns the length of the UTF-8 sequence at this position; 0 if it is invalid. */
static size_t sequence(const unsigned char *at) {
    unsigned char first = at[0];
    if (first < 0x80) {
        return 1;
    }
    size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (first == 0xE0 && at[1] < 0xA0) || (first == 0xF0 && at[1] < 0x90);
    bool beyond = (first == 0xED && at[1] > 0x9F) || (first == 0xF4 && at[1] > 0x8F);
    return overlong || beyond ? 0 : length;
}

/* Returns a JSON string. Invalid UTF-8 becomes U+FFFD, because the API server accepts only UTF-8. */
static yyjson_mut_val *new_string(const char *path, const char *text) {
    if (text == NULL) {
        operetta_panic("cannot set \"%s\" to a NULL string", path);
    }
    const unsigned char *at = (const unsigned char *)text;
    size_t wrong = 0;
    for (size_t step; *at != '\0'; at += step == 0 ? 1 : step) {
        step = sequence(at);
        wrong += step == 0;
    }
    if (wrong == 0) {
        return yyjson_mut_strncpy(values_document(), text, strlen(text));
    }
    char *mended = operetta_allocate(strlen(text) + 2 * wrong + 1);
    char *end = mended;
    for (at = (const unsigned char *)text; *at != '\0';) {
        size_t step = sequence(at);
        memcpy(end, step == 0 ? "\xEF\xBF\xBD" : (const char *)at, step == 0 ? 3 : step);
        end += step == 0 ? 3 : step;
        at += step == 0 ? 1 : step;
    }
    return yyjson_mut_strncpy(values_document(), mended, (size_t)(end - mended));
}

void operetta_set(operetta_value *value, const char *path, operetta_value *what) {
    set(value, path, inner(operetta_copy(what)));
}

void operetta_set_string(operetta_value *value, const char *path, const char *text) {
    set(value, path, new_string(path, text));
}

void operetta_set_format(operetta_value *value, const char *path, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    operetta_set_string(value, path, format_text(format, arguments));
    va_end(arguments);
}

void operetta_set_int(operetta_value *value, const char *path, int64_t number) {
    set(value, path, yyjson_mut_sint(values_document(), number));
}

void operetta_set_number(operetta_value *value, const char *path, double number) {
    if (number - number != 0) {
        not_set(path, "the number is not finite");
        return;
    }
    set(value, path, yyjson_mut_real(values_document(), number));
}

void operetta_set_bool(operetta_value *value, const char *path, bool yes) {
    set(value, path, yyjson_mut_bool(values_document(), yes));
}

void operetta_set_null(operetta_value *value, const char *path) { set(value, path, yyjson_mut_null(values_document())); }

void operetta_remove(operetta_value *value, const char *path) { set(value, path, NULL); }

static void append(operetta_value *value, const char *path, yyjson_mut_val *element) {
    operetta_type type = operetta_type_at(value, path);
    if (type == OPERETTA_ABSENT || type == OPERETTA_NULL) {
        set(value, path, yyjson_mut_arr(values_document()));
    }
    yyjson_mut_val *array = inner(operetta_at(value, path));
    if (!yyjson_mut_arr_append(array, element)) {
        not_set(path, operetta_format("it is %s, not an array", type_name(type_of(array))));
    }
}

void operetta_append(operetta_value *value, const char *path, operetta_value *element) {
    if (element == NULL) {
        operetta_panic("cannot append NULL to \"%s\"", path);
    }
    append(value, path, inner(operetta_copy(element)));
}

void operetta_append_string(operetta_value *value, const char *path, const char *text) {
    append(value, path, new_string(path, text));
}
