/* The store of the test cluster, with the API server's semantics of writes. */
#ifndef OPERETTA_STORE_H
#define OPERETTA_STORE_H

#include "../src/internal.h"

typedef struct {
    operetta_kind kind;
    const char *namespace_; /* empty for cluster-scoped kinds */
    const char *name;
} object_id;

typedef struct stored {
    object_id id;
    char *text;
    struct stored *next; /* in the order of kind, namespace, name */
} stored;

void store_reset(void);
const stored *store_first(void);
const char *store_version(void);

/* Each function returns the object as stored, or NULL and sets *error. `dry` stores nothing. */
operetta_value *store_seed(object_id id, operetta_value *object, operetta_error **error);
operetta_value *store_get(object_id id, operetta_error **error);
operetta_value *store_create(object_id id, operetta_value *object, bool dry, operetta_error **error);
operetta_value *store_update(object_id id, operetta_value *object, bool status, bool dry, operetta_error **error);
operetta_value *store_patch(object_id id, operetta_patch_type type, operetta_value *body, bool status, bool dry,
                            operetta_error **error);
bool store_delete(object_id id, const operetta_delete_options *options, operetta_error **error);

void store_without_status(operetta_kind kind);

/* Sets *error to that of a call that the kit does not support. */
void store_unsupported(operetta_error **error, const char *what);

/* Reports whether a label selector matches these labels; sets *malformed if it does not parse. */
bool selector_matches(const char *selector, const operetta_value *labels, const char **malformed);

#endif
