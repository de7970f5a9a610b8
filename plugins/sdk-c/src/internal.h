/*
 * Declarations that the SDK's own files share. A plugin never includes this header.
 *
 * The SDK makes all its calls through the backend below: it is the host in a component (src/guest.c) and an API
 * server for tests in a native build (testing/). Objects are passed as JSON text.
 */
#ifndef OPERETTA_INTERNAL_H
#define OPERETTA_INTERNAL_H

#include <stdarg.h>

#include "../operetta.h"

/* ---- Memory (memory.c) ---- */

/* Frees all memory of the previous reconcile. */
void memory_reset(void);
void *memory_reallocate(void *old, size_t old_bytes, size_t bytes);
char *memory_text(const char *text, size_t length); /* a copy that ends with NUL */
const char *format_text(const char *format, va_list arguments);

/* ---- Values (values.c) ---- */

/* Drops the document. memory_reset frees its memory. */
void values_reset(void);

/* Parses JSON text of the host or the test kit. Panics if it is not JSON. */
operetta_value *value_of_host(const char *text, const char *call);

/* Returns the message of the first setter that failed since the last reset; NULL if none failed. */
const char *unset_field(void);
void forget_unset_field(void);

/* ---- Objects (objects.c) ---- */

void objects_reset(void);

/* ---- Errors (errors.c) ---- */

/* Sets *out to an error that the SDK reports itself. `out` may be NULL. */
void fail_with(operetta_error **out, operetta_error_variant variant, const char *call, const char *format, ...)
    OPERETTA_PRINTF(4, 5);

/* Returns the name of a call for messages, e.g. `get ConfigMap ns/name`. */
const char *call_name(const char *verb, operetta_kind kind, const char *namespace_, const char *name);

/* ---- The manifest (manifest.c) ---- */

/* Runs operetta_plugin and returns the manifest as JSON. */
const char *manifest_describe(void);

/* Runs operetta_plugin and then the reconciler that the request names. */
operetta_result manifest_reconcile(operetta_request *request);

/* Runs operetta_plugin and then the functions of the controller's watches of a kind, for the object and for its old state
 * (NULL if there is none). Returns false if there is no such controller. */
bool manifest_map(const char *controller, operetta_kind kind, const operetta_value *object, const operetta_value *old,
                  operetta_keys *keys);

struct operetta_keys {
    struct operetta_key {
        const char *namespace_; /* NULL for objects of cluster-scoped kinds */
        const char *name;
    } *items;
    size_t count;
    size_t room;
};

/* ---- Metadata (metadata.c) ---- */

bool same_kind(operetta_kind a, operetta_kind b);

/* ---- The backend (guest.c or testing/backend.c) ---- */

typedef enum { VERB_GET, VERB_LIST, VERB_CREATE, VERB_UPDATE, VERB_UPDATE_STATUS, VERB_PATCH, VERB_DELETE } verb;

typedef struct {
    const char **items;
    size_t count;
    const char *resource_version;
    const char *continue_token;
} backend_page;

/* Functions that return text return NULL on failure and set *error. `error` is never NULL here. */
const char *backend_get(operetta_kind kind, const char *namespace_, const char *name, bool live,
                        operetta_error **error);
bool backend_list(operetta_kind kind, const operetta_list_options *options, backend_page *page,
                  operetta_error **error);
const char *backend_write(verb verb, operetta_kind kind, const char *namespace_, const char *name, const char *object,
                          const operetta_write_options *options, operetta_error **error);
const char *backend_patch(operetta_kind kind, const char *namespace_, const char *name,
                          const operetta_patch_request *patch, const char *body, operetta_error **error);
bool backend_delete(operetta_kind kind, const char *namespace_, const char *name,
                    const operetta_delete_options *options, operetta_error **error);
const operetta_raw_response *backend_raw(const operetta_raw_request *request);
const char *const *backend_take_warnings(void); /* ends with NULL */
void backend_event(operetta_kind kind, const char *namespace_, const char *name, const char *uid,
                   operetta_event_type type, const char *reason, const char *action, const char *note);
bool backend_log_enabled(operetta_level level);
void backend_log(operetta_level level, const char *message, const operetta_field *fields, size_t count);
const char *backend_config(void);

/* Ends the reconcile. The caller has logged the cause. */
OPERETTA_NORETURN void backend_trap(const char *message);

#endif
