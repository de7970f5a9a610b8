/*
 * Operetta plugins in C (and in any language that calls C, such as Zig): the whole API of the SDK.
 *
 * Compile operetta.c with your plugin, and define one function: operetta_plugin, which declares the controllers.
 *
 * Promises:
 * - Memory: everything this API returns lives until the reconcile ends; there is nothing to free. Text that is given
 *   to it is copied.
 * - Errors: a function that can fail takes `operetta_error **error` last. It sets *error to NULL when it worked, else
 *   to what went wrong; NULL may be passed by who does not want to know.
 * - Text is UTF-8 and ends with a NUL byte.
 * - A missing field is never an error: the function that reads it takes what to return instead.
 */
#ifndef OPERETTA_H
#define OPERETTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define OPERETTA_PRINTF(position, first) __attribute__((format(printf, position, first)))
#define OPERETTA_NORETURN __attribute__((noreturn))
#else
#define OPERETTA_PRINTF(position, first)
#define OPERETTA_NORETURN
#endif

/* ---- Kinds ------------------------------------------------------------------------------------------------------ */

/* A kind: its `apiVersion` (`group/version`, or the version alone for the core group) and its `kind`. */
typedef struct {
    const char *api_version;
    const char *kind;
} operetta_kind;

/* Kinds that operators often use; any other is written the same way. */
static const operetta_kind OPERETTA_CONFIG_MAP = {"v1", "ConfigMap"};
static const operetta_kind OPERETTA_SECRET = {"v1", "Secret"};
static const operetta_kind OPERETTA_SERVICE = {"v1", "Service"};
static const operetta_kind OPERETTA_POD = {"v1", "Pod"};
static const operetta_kind OPERETTA_DEPLOYMENT = {"apps/v1", "Deployment"};
static const operetta_kind OPERETTA_STATEFUL_SET = {"apps/v1", "StatefulSet"};
static const operetta_kind OPERETTA_JOB = {"batch/v1", "Job"};

/* ---- Errors ----------------------------------------------------------------------------------------------------- */

/* Why a call failed, as apimachinery's errors.IsNotFound and its siblings tell it. */
typedef enum {
    OPERETTA_NOT_FOUND,         /* 404: the object, its namespace or its kind does not exist */
    OPERETTA_ALREADY_EXISTS,    /* 409: an object of that name exists */
    OPERETTA_CONFLICT,          /* 409: the resourceVersion is stale, or another manager owns a field; read again */
    OPERETTA_INVALID,           /* 422: rejected; `causes` says by which fields */
    OPERETTA_BAD_REQUEST,       /* 400: malformed, by the API server or before it was sent */
    OPERETTA_FORBIDDEN,         /* 401, 403: the plugin's ServiceAccount may not do this */
    OPERETTA_EXPIRED,           /* 410: a continue token or resourceVersion is too old; begin the list again */
    OPERETTA_TOO_MANY_REQUESTS, /* 429: see retry_after_seconds */
    OPERETTA_UNAVAILABLE,       /* 500, 502, 503, or no connection */
    OPERETTA_TIMED_OUT,         /* 504, or the host's deadline on one call */
    OPERETTA_OTHER              /* any other; `code` and `reason` tell which */
} operetta_error_variant;

/* One of metav1.Status's details.causes. */
typedef struct {
    const char *reason;  /* metav1.CauseType, e.g. FieldValueInvalid */
    const char *message; /* for people */
    const char *field;   /* the field's path; empty when the cause names none */
} operetta_cause;

/* What went wrong. The fields below `variant` are those of the API server's metav1.Status. */
typedef struct operetta_error {
    operetta_error_variant variant;
    uint16_t code;       /* the HTTP status code */
    const char *reason;  /* metav1.StatusReason, e.g. Conflict; may be empty */
    const char *message; /* for people */
    const operetta_cause *causes;
    size_t cause_count;
    bool has_retry_after;
    uint32_t retry_after_seconds;
    const char *call; /* what was being done, e.g. `get ConfigMap ns/name` */
} operetta_error;

/* The variant's name in the contract, e.g. `not-found`. */
const char *operetta_error_variant_name(operetta_error_variant variant);

/* One sentence: what was being done, and why it failed. */
const char *operetta_error_text(const operetta_error *error);

/* Whether there is an error, and it is of this variant. */
bool operetta_is(const operetta_error *error, operetta_error_variant variant);

/* ---- What a reconcile answers ----------------------------------------------------------------------------------- */

/* Made by the functions below only. */
typedef struct {
    enum { OPERETTA_RESULT_DONE, OPERETTA_RESULT_REQUEUE, OPERETTA_RESULT_REQUEUE_AFTER, OPERETTA_RESULT_RETRY,
           OPERETTA_RESULT_TERMINAL } kind;
    uint32_t after_ms;
    const char *message;
} operetta_result;

operetta_result operetta_done(void);                             /* nothing more to do */
operetta_result operetta_requeue(void);                          /* again, after the rate limiter's delay */
operetta_result operetta_requeue_after_ms(uint32_t milliseconds); /* again, after this time */

/* It failed: again, after the rate limiter's delay. */
operetta_result operetta_retry(const char *format, ...) OPERETTA_PRINTF(1, 2);

/* It failed, and no retry can help: not again until the object changes (controller-runtime's TerminalError). */
operetta_result operetta_terminal(const char *format, ...) OPERETTA_PRINTF(1, 2);

/* operetta_retry with the error's text. */
operetta_result operetta_fail(const operetta_error *error);

/* What to reconcile: a key, never an event. The object may be gone. */
typedef struct {
    const char *controller;   /* the controller's name */
    operetta_kind kind;       /* the controller's kind */
    const char *namespace_;   /* NULL for objects of cluster-scoped kinds */
    const char *name;
    uint32_t retries;         /* how often in a row this key has failed (client-go's NumRequeues) */
    const char *reconcile_id; /* unique for each reconcile, as in the logs */
} operetta_request;

/* Brings one object to its desired state. Each call begins with fresh memory: static variables do not survive it. */
typedef operetta_result (*operetta_reconciler)(const operetta_request *request);

/* ---- What a plugin declares (the manifest) ---------------------------------------------------------------------- */

/* Defined by the plugin: declares its controllers and indexes with the functions below. */
void operetta_plugin(void);

typedef struct operetta_controller operetta_controller;
typedef struct operetta_source operetta_source;

/* A controller: a queue of keys of one kind. `name` is a DNS label. */
operetta_controller *operetta_add_controller(const char *name, operetta_kind kind, operetta_reconciler reconcile);

/* The objects of the controller's own kind, to be narrowed by operetta_select_labels and its siblings. */
operetta_source *operetta_for(operetta_controller *controller);

/* Kinds this controller makes: their events enqueue the controlling owner. */
operetta_source *operetta_owns(operetta_controller *controller, operetta_kind kind);

/* Which keys the events of a watched object enqueue. */
typedef struct {
    enum { OPERETTA_MAP_OWNER, OPERETTA_MAP_SAME_NAME, OPERETTA_MAP_FIELD_PATH } kind;
    bool all_owners;            /* owner: every owner of the kind, not only the controlling one */
    const char *path;           /* field path: where the key's name stands, e.g. `.spec.claimRef.name` */
    const char *namespace_path; /* field path: where its namespace stands; NULL: the watched object's own */
} operetta_mapping;

/* Other kinds, whose events enqueue keys by a mapping. */
operetta_source *operetta_watches(operetta_controller *controller, operetta_kind kind, operetta_mapping mapping);

/* Selectors in the API server's syntax, which the API server applies. */
void operetta_select_labels(operetta_source *source, const char *selector);
void operetta_select_fields(operetta_source *source, const char *selector);

/* Only objects of the Plugin's own namespace. */
void operetta_own_namespace(operetta_source *source);

/* Event filters, as in controller-runtime's `predicate` package; an event must pass all of a source's. */
typedef enum {
    OPERETTA_GENERATION_CHANGED,
    OPERETTA_LABELS_CHANGED,
    OPERETTA_ANNOTATIONS_CHANGED,
    OPERETTA_RESOURCE_VERSION_CHANGED
} operetta_predicate;
void operetta_add_predicate(operetta_source *source, operetta_predicate predicate);

void operetta_workers(operetta_controller *controller, uint32_t workers);        /* keys at once, 1 to 64; default 1 */
void operetta_resync_seconds(operetta_controller *controller, uint32_t seconds); /* every key again; default 0: never */

/* max(per-key exponential backoff, overall token bucket); client-go's default, 5 ms to 1,000 s, 10/s, burst 100. */
void operetta_rate_limiter(operetta_controller *controller, uint32_t base_delay_ms, uint32_t max_delay_ms, uint32_t qps,
                           uint32_t burst);

/* An index over cached objects, for operetta_list: `path` is where the value stands, e.g. `.spec.nodeName`. */
void operetta_add_index(const char *name, operetta_kind kind, const char *path);

/* ---- Values: objects and what is in them ------------------------------------------------------------------------ */

/* A JSON value. Kubernetes objects are JSON objects. Fields the plugin does not know stay as they are. */
typedef struct operetta_value operetta_value;

/*
 * Where paths are taken, members are joined by dots and elements are [N]: `spec.containers[0].image`. A dot in a
 * member's name is written `\.`: "metadata.labels.app\\.kubernetes\\.io/name". The empty path is the value itself.
 * A malformed path is a fault of the plugin, and panics.
 */

/* A new object with its apiVersion, kind, name, and namespace (NULL for cluster-scoped kinds). */
operetta_value *operetta_new(operetta_kind kind, const char *namespace_, const char *name);
operetta_value *operetta_new_object(void); /* {} */
operetta_value *operetta_new_array(void);  /* [] */
operetta_value *operetta_copy(const operetta_value *value);

/* JSON text to a value; NULL if it is not JSON, and the error says where. */
operetta_value *operetta_parse(const char *text, operetta_error **error);
const char *operetta_to_json(const operetta_value *value);

/* Whether two values mean the same to the API server: an absent field, null, [] and {} do not differ. */
bool operetta_equal(const operetta_value *a, const operetta_value *b);

typedef enum {
    OPERETTA_ABSENT,
    OPERETTA_NULL,
    OPERETTA_BOOL,
    OPERETTA_NUMBER,
    OPERETTA_STRING,
    OPERETTA_ARRAY,
    OPERETTA_OBJECT
} operetta_type;
operetta_type operetta_type_at(const operetta_value *value, const char *path);

/*
 * Reading. NULL is an absent value, and has nothing in it. A field of another type than the one asked for counts as
 * absent, and is logged as a warning.
 */
operetta_value *operetta_at(const operetta_value *value, const char *path); /* NULL if absent */
const char *operetta_string(const operetta_value *value, const char *path, const char *otherwise);
int64_t operetta_int(const operetta_value *value, const char *path, int64_t otherwise);
double operetta_number(const operetta_value *value, const char *path, double otherwise);
bool operetta_bool(const operetta_value *value, const char *path, bool otherwise);

/* A string, number or boolean as text: for an IntOrString, and for integers of more than 64 bits. */
const char *operetta_text(const operetta_value *value, const char *path, const char *otherwise);

/* A resource.Quantity (a string or a number) in canonical form, e.g. `1536Mi` for `1.5Gi`. */
const char *operetta_quantity(const operetta_value *value, const char *path, const char *otherwise);

/* How many elements or members there are; 0 if it is neither an array nor an object. */
size_t operetta_count(const operetta_value *value, const char *path);

/* A member by its literal name (no path), and an element by its position from 0; NULL if absent. */
operetta_value *operetta_member(const operetta_value *value, const char *name);
operetta_value *operetta_element(const operetta_value *value, size_t position);

/* The name of the member at a position from 0; NULL past the end. Its value is operetta_element's. */
const char *operetta_member_name(const operetta_value *value, size_t position);

/*
 * Writing. Values are copied in. Objects and arrays on the way are made, and so is the element one past an array's end.
 * Where the path leads through something that is neither, nothing is set: the next write to the API server fails, and
 * says so.
 */
void operetta_set(operetta_value *value, const char *path, operetta_value *what); /* NULL removes */
void operetta_set_string(operetta_value *value, const char *path, const char *text);
void operetta_set_format(operetta_value *value, const char *path, const char *format, ...) OPERETTA_PRINTF(3, 4);
void operetta_set_int(operetta_value *value, const char *path, int64_t number);
void operetta_set_number(operetta_value *value, const char *path, double number);
void operetta_set_bool(operetta_value *value, const char *path, bool yes);
void operetta_set_null(operetta_value *value, const char *path);
void operetta_remove(operetta_value *value, const char *path);
void operetta_append(operetta_value *value, const char *path, operetta_value *element);
void operetta_append_string(operetta_value *value, const char *path, const char *text);

/* Text of this reconcile, by printf's rules. */
const char *operetta_format(const char *format, ...) OPERETTA_PRINTF(1, 2);

/* Memory of this reconcile, zeroed. */
void *operetta_allocate(size_t bytes);

/* The time as Kubernetes writes it, e.g. 2030-01-01T00:00:00Z. */
const char *operetta_now(void);

/* ---- An object's metadata --------------------------------------------------------------------------------------- */

operetta_kind operetta_kind_of(const operetta_value *object);
const char *operetta_name(const operetta_value *object);             /* empty if absent */
const char *operetta_namespace(const operetta_value *object);        /* NULL if absent or empty */
const char *operetta_uid(const operetta_value *object);              /* empty if absent */
const char *operetta_resource_version(const operetta_value *object); /* empty if absent */
bool operetta_is_being_deleted(const operetta_value *object);

/*
 * Makes `owner` the controlling owner of `child`: the child's events enqueue it, and it takes the child with it when it
 * goes. Fails when another object controls the child, the owner is not stored, or it is in another namespace.
 */
bool operetta_set_controller_reference(const operetta_value *owner, operetta_value *child, operetta_error **error);

/* Whether `owner` controls `child`; two objects of one name are told apart by their uids. */
bool operetta_is_controlled_by(const operetta_value *child, const operetta_value *owner);

bool operetta_has_finalizer(const operetta_value *object, const char *finalizer);

/*
 * Gives the stored object the finalizer, or takes it away, by a patch that fails with a conflict if the object has
 * changed meanwhile; writes nothing if it is so already. Removing it from an object that is gone is no error.
 */
bool operetta_add_finalizer(operetta_value *object, const char *finalizer, operetta_error **error);
bool operetta_remove_finalizer(operetta_value *object, const char *finalizer, operetta_error **error);

/* ---- Reads ------------------------------------------------------------------------------------------------------ */

/* From the host's cache, which sees the plugin's own writes. `namespace_` is NULL for cluster-scoped kinds. */
operetta_value *operetta_get(operetta_kind kind, const char *namespace_, const char *name, operetta_error **error);

/* The same, but an object that does not exist is no error: NULL, and no error. */
operetta_value *operetta_find(operetta_kind kind, const char *namespace_, const char *name, operetta_error **error);

/* From the API server. */
operetta_value *operetta_get_live(operetta_kind kind, const char *namespace_, const char *name, operetta_error **error);

/* Which objects. All zero: every object of every namespace, whole, in one page, from the cache. */
typedef struct {
    const char *namespace_;
    const char *labels;         /* a label selector, e.g. `app=db,tier in (a, b)` */
    const char *fields;         /* a field selector; cached lists know metadata.name and metadata.namespace only */
    const char *index;          /* the name of a declared index, and */
    const char *index_value;    /*   the value there; cached only */
    const char *owner_uid;      /* objects whose controlling owner has this uid; cached only */
    uint32_t limit;             /* at most this many; 0: all */
    const char *continue_token; /* the one of the page before */
    bool live;                  /* from the API server */
    const char *const *keep;    /* field paths to keep, e.g. `.metadata.labels`, ended by NULL; NULL: whole objects */
} operetta_list_options;

typedef struct {
    operetta_value **items; /* cached lists come in the order of namespace, then name */
    size_t count;
    const char *resource_version;
    const char *continue_token; /* NULL on the last page */
} operetta_page;

/* One page of objects; `options` may be NULL. NULL if it failed. */
operetta_page *operetta_list(operetta_kind kind, const operetta_list_options *options, operetta_error **error);

/* ---- Writes ----------------------------------------------------------------------------------------------------- */

/* All zero (or NULL): store it, as the plugin's own field manager, dropping unknown fields. */
typedef struct {
    bool dry_run;              /* validate and admit, but store nothing */
    bool strict;               /* reject unknown and duplicate fields */
    const char *field_manager; /* who owns the fields; NULL: the plugin */
} operetta_write_options;

/* All return the object as stored, or NULL if they failed. Kind and key are those of the object. */
operetta_value *operetta_create(const operetta_value *object, const operetta_write_options *options,
                                operetta_error **error);
operetta_value *operetta_update(const operetta_value *object, const operetta_write_options *options,
                                operetta_error **error);
operetta_value *operetta_update_status(const operetta_value *object, const operetta_write_options *options,
                                       operetta_error **error);

typedef enum {
    OPERETTA_MERGE_PATCH, /* RFC 7386: an object */
    OPERETTA_JSON_PATCH,  /* RFC 6902: an array of operations */
    OPERETTA_APPLY_PATCH  /* server-side apply: an object; apiVersion and kind are added */
} operetta_patch_type;

typedef struct {
    operetta_patch_type type;
    const operetta_value *body;
    const char *subresource; /* `status`, `scale`; NULL: the object itself */
    bool force;              /* take fields over from other managers; apply only */
    operetta_write_options options;
} operetta_patch_request;

operetta_value *operetta_patch(operetta_kind kind, const char *namespace_, const char *name,
                               const operetta_patch_request *patch, operetta_error **error);

/* The stored object of this kind and key, or a new one if there is none; for operetta_create_or_update. */
operetta_value *operetta_get_or_new(operetta_kind kind, const char *namespace_, const char *name,
                                    operetta_error **error);

typedef enum { OPERETTA_UNCHANGED, OPERETTA_CREATED, OPERETTA_UPDATED } operetta_operation_result;
const char *operetta_operation_result_name(operetta_operation_result result); /* `unchanged`, `created`, `updated` */

/*
 * Writes what operetta_get_or_new returned and the plugin then changed: creates it if it was new, updates it if it now
 * differs, and writes nothing if not (controller-runtime's CreateOrUpdate). The status is not written.
 * `result` may be NULL. Returns the object as stored, or NULL if it failed.
 */
operetta_value *operetta_create_or_update(operetta_value *object, operetta_operation_result *result,
                                          operetta_error **error);

/* metav1.DeleteOptions; all zero (or NULL): as the kind does by default. Unmet preconditions are a conflict. */
typedef struct {
    const char *uid;              /* only the object with this uid */
    const char *resource_version; /* only the object at this resourceVersion */
    bool has_grace_period;
    uint32_t grace_period_seconds;
    enum { OPERETTA_DEFAULT_PROPAGATION, OPERETTA_BACKGROUND, OPERETTA_FOREGROUND, OPERETTA_ORPHAN } propagation;
    bool dry_run;
} operetta_delete_options;

bool operetta_delete(operetta_kind kind, const char *namespace_, const char *name,
                     const operetta_delete_options *options, operetta_error **error);

/* ---- Requests as HTTP has them ---------------------------------------------------------------------------------- */

typedef struct {
    const char *method;       /* GET, POST, PUT, PATCH or DELETE */
    const char *path;         /* e.g. /apis/apps/v1/namespaces/prod/deployments/web */
    const char *query;        /* percent-encoded, without `?`; may be NULL */
    const char *content_type; /* of the body; NULL: application/json */
    const char *accept;       /* NULL: application/json */
    const char *body;         /* NULL: none */
    bool cached;              /* a GET may be answered by the host's cache */
} operetta_raw_request;

typedef struct {
    uint16_t status; /* the HTTP status code */
    const char *content_type;
    bool has_retry_after;
    uint32_t retry_after_seconds;
    const char *body;
} operetta_raw_response;

/* Never fails: what cannot be delivered comes back as a metav1.Status, as from the API server. */
const operetta_raw_response *operetta_raw(const operetta_raw_request *request);

/* ---- Events, log, configuration, faults ------------------------------------------------------------------------- */

typedef enum { OPERETTA_NORMAL, OPERETTA_WARNING } operetta_event_type;

/* Records an Event about an object, for `kubectl describe`. `reason` and `action` are short CamelCase words. */
void operetta_event(const operetta_value *regarding, operetta_event_type type, const char *reason, const char *action,
                    const char *format, ...) OPERETTA_PRINTF(5, 6);

typedef enum { OPERETTA_ERROR, OPERETTA_WARN, OPERETTA_INFO, OPERETTA_DEBUG, OPERETTA_TRACE } operetta_level;

typedef struct {
    const char *name;
    const char *value;
} operetta_field;

/* Whether a line of this level would be kept. */
bool operetta_log_enabled(operetta_level level);

/* Writes one line to the plugin's log; `fields` end with {NULL, NULL}, and may be NULL. printf's lines go there too. */
void operetta_log(operetta_level level, const operetta_field *fields, const char *format, ...) OPERETTA_PRINTF(3, 4);

/* operetta_log(OPERETTA_INFO, OPERETTA_FIELDS({"replicas", "3"}), "scaled") */
#define OPERETTA_FIELDS(...) ((const operetta_field[]){__VA_ARGS__, {NULL, NULL}})

#define operetta_log_error(...) operetta_log(OPERETTA_ERROR, NULL, __VA_ARGS__)
#define operetta_log_warn(...) operetta_log(OPERETTA_WARN, NULL, __VA_ARGS__)
#define operetta_log_info(...) operetta_log(OPERETTA_INFO, NULL, __VA_ARGS__)
#define operetta_log_debug(...) operetta_log(OPERETTA_DEBUG, NULL, __VA_ARGS__)
#define operetta_log_trace(...) operetta_log(OPERETTA_TRACE, NULL, __VA_ARGS__)

/* The Plugin's spec.config; {} when there is none. */
operetta_value *operetta_config(void);

/* Ends this reconcile as a fault of the plugin: the log says what and where, the key is retried. abort() and a failed
 * assert() do the same. */
#define operetta_panic(...) operetta_panic_at(__FILE__, __LINE__, __func__, __VA_ARGS__)
OPERETTA_NORETURN void operetta_panic_at(const char *file, int line, const char *function, const char *format, ...)
    OPERETTA_PRINTF(4, 5);

#ifdef __cplusplus
}
#endif
#endif
