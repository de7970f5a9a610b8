/* JSON values inside the SDK: an operetta_value is a yyjson_mut_val of one document per reconcile. */
#ifndef OPERETTA_VALUES_H
#define OPERETTA_VALUES_H

#include "../vendor/yyjson/yyjson.h"
#include "internal.h"

static inline yyjson_mut_val *inner(const operetta_value *value) { return (yyjson_mut_val *)(uintptr_t)value; }
static inline operetta_value *outer(yyjson_mut_val *value) { return (operetta_value *)value; }

/* Returns the document that holds all values of this reconcile. */
yyjson_mut_doc *values_document(void);

/* A yyjson allocator that uses this reconcile's memory. */
extern const yyjson_alc values_memory;

/* One step of a path: a member by name, or an element by position. */
typedef struct {
    const char *name; /* NULL: an element */
    size_t length;
    size_t position;
} path_step;

/* Reads the next step of a path and advances; returns false at its end. Skips a leading dot. Panics if the path is
 * malformed. */
bool path_next(const char **path, path_step *step);

/* Returns the value one step down; NULL if absent. */
yyjson_mut_val *step_down(yyjson_mut_val *value, const path_step *step);

/* Returns a type's name for messages, with an article. */
const char *type_name(operetta_type type);

#endif
