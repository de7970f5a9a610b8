/* JSON values as the SDK's own files see them: an operetta_value is a yyjson_mut_val of one document per reconcile. */
#ifndef OPERETTA_VALUES_H
#define OPERETTA_VALUES_H

#include "../vendor/yyjson/yyjson.h"
#include "internal.h"

static inline yyjson_mut_val *inner(const operetta_value *value) { return (yyjson_mut_val *)(uintptr_t)value; }
static inline operetta_value *outer(yyjson_mut_val *value) { return (operetta_value *)value; }

/* The document that all values of this reconcile are made in. */
yyjson_mut_doc *values_document(void);

/* yyjson's allocator over this reconcile's memory. */
extern const yyjson_alc values_memory;

/* One step of a path: a member by name, or an element by position. */
typedef struct {
    const char *name; /* NULL: an element */
    size_t length;
    size_t position;
} path_step;

/* Takes the next step off a path; false at its end. Panics where the path is malformed. A leading dot is skipped. */
bool path_next(const char **path, path_step *step);

/* The value one step down; NULL if absent. */
yyjson_mut_val *step_down(yyjson_mut_val *value, const path_step *step);

/* A type's name for messages, with its article. */
const char *type_name(operetta_type type);

#endif
