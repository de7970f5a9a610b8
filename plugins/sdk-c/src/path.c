/* Field paths: members separated by dots, `\.` for a dot in a name, `[N]` for elements. */
#include <string.h>

#include "values.h"

static const char *read_position(const char *at, const char *whole, size_t *position) {
    const char *digits = at;
    *position = 0;
    while (*at >= '0' && *at <= '9' && at - digits < 9) {
        *position = *position * 10 + (size_t)(*at++ - '0');
    }
    if (at == digits || *at != ']') {
        operetta_panic("the path \"%s\" is malformed: [ needs a position and ]", whole);
    }
    return at + 1;
}

static const char *read_name(const char *at, const char *whole, path_step *step) {
    const char *end = at;
    size_t escapes = 0;
    while (*end != '\0' && *end != '.' && *end != '[') {
        if (*end == '\\' && end[1] != '\0') {
            escapes++;
            end++;
        }
        end++;
    }
    if (end == at) {
        operetta_panic("the path \"%s\" is malformed: a member's name is empty", whole);
    }
    step->name = at;
    step->length = (size_t)(end - at) - escapes;
    if (escapes > 0) {
        char *plain = operetta_allocate(step->length + 1);
        step->name = plain;
        for (; at != end; at++) {
            at += *at == '\\' && at + 1 != end;
            *plain++ = *at;
        }
    }
    return end;
}

bool path_next(const char **path, path_step *step) {
    const char *whole = *path;
    const char *at = whole;
    *step = (path_step){0};
    if (*at == '\0') {
        return false;
    }
    if (*at == '[') {
        *path = read_position(at + 1, whole, &step->position);
        return true;
    }
    *path = read_name(at + (*at == '.'), whole, step);
    return true;
}

yyjson_mut_val *step_down(yyjson_mut_val *value, const path_step *step) {
    if (step->name != NULL) {
        return yyjson_mut_obj_getn(value, step->name, step->length);
    }
    return yyjson_mut_arr_get(value, step->position);
}

operetta_value *operetta_at(const operetta_value *value, const char *path) {
    yyjson_mut_val *at = inner(value);
    path_step step;
    while (path_next(&path, &step)) {
        at = step_down(at, &step);
    }
    return outer(at);
}
