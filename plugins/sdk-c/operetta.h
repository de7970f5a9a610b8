/*
 * The API of Operetta's SDK for plugins in C, C++, Zig and any other language that can call C.
 *
 * Compile operetta.c together with your plugin, and define one function: operetta_plugin, which declares the
 * controllers.
 *
 * Conventions:
 * - Memory: all that this API returns lives until the reconcile ends. The plugin frees nothing. The API copies the text
 *   that it is given.
 * - Errors: a function that can fail takes `operetta_error **error` as its last argument. It sets *error to NULL on
 *   success and to the error on failure. Pass NULL to ignore errors.
 * - Text is UTF-8 and ends with a NUL byte.
 * - A missing field is not an error: a function that reads a field takes the value to return if the field is absent.
 */
#ifndef OPERETTA_H
#define OPERETTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <initializer_list>
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

/* A kind: an `apiVersion` (`group/version`, or only the version for the core group) and a `kind`. */
typedef struct {
    const char *api_version;
    const char *kind;
} operetta_kind;

/* Kinds that operators often use. Other kinds are declared in the same way. */
static const operetta_kind OPERETTA_CONFIG_MAP = {"v1", "ConfigMap"};
static const operetta_kind OPERETTA_SECRET = {"v1", "Secret"};
static const operetta_kind OPERETTA_SERVICE = {"v1", "Service"};
static const operetta_kind OPERETTA_POD = {"v1", "Pod"};
static const operetta_kind OPERETTA_DEPLOYMENT = {"apps/v1", "Deployment"};
static const operetta_kind OPERETTA_STATEFUL_SET = {"apps/v1", "StatefulSet"};
static const operetta_kind OPERETTA_JOB = {"batch/v1", "Job"};

/* A JSON value, for instance a Kubernetes object. Fields that the plugin does not know are preserved. */
typedef struct operetta_value operetta_value;

/* ---- Errors ----------------------------------------------------------------------------------------------------- */

/* The reason for a failed call, as in apimachinery's errors.IsNotFound and its siblings. */
typedef enum {
    OPERETTA_NOT_FOUND,         /* 404: the object, its namespace or its kind does not exist */
    OPERETTA_ALREADY_EXISTS,    /* 409: an object of that name exists */
    OPERETTA_CONFLICT,          /* 409: the resourceVersion is stale, or another manager owns a field; read again */
    OPERETTA_INVALID,           /* 422: rejected; `causes` lists the fields */
    OPERETTA_BAD_REQUEST,       /* 400: malformed; reported by the API server, the host or the SDK */
    OPERETTA_FORBIDDEN,         /* 401, 403: the plugin's ServiceAccount may not do this */
    OPERETTA_EXPIRED,           /* 410: a continue token or resourceVersion is too old; restart the list */
    OPERETTA_TOO_MANY_REQUESTS, /* 429: see retry_after_seconds */
    OPERETTA_UNAVAILABLE,       /* 500, 502, 503, or no connection */
    OPERETTA_TIMED_OUT,         /* 504, or the host's deadline for one call */
    OPERETTA_OTHER              /* any other failure; see `code` and `reason` */
} operetta_error_variant;

/* An entry of metav1.Status's details.causes. */
typedef struct {
    const char *reason;  /* metav1.CauseType, e.g. FieldValueInvalid */
    const char *message; /* the message for people */
    const char *field;   /* the field's path; empty if the cause names none */
} operetta_cause;

/* An error of a call. The fields after `variant` come from the API server's metav1.Status. */
typedef struct operetta_error {
    operetta_error_variant variant;
    uint16_t code;       /* the HTTP status code */
    const char *reason;  /* metav1.StatusReason, e.g. Conflict; may be empty */
    const char *message; /* the message for people */
    const operetta_cause *causes;
    size_t cause_count;
    bool has_retry_after;
    uint32_t retry_after_seconds;
    const char *call; /* the failed call, e.g. `get ConfigMap ns/name` */
} operetta_error;

/* Returns the variant's name in the contract, e.g. `not-found`. */
const char *operetta_error_variant_name(operetta_error_variant variant);

/* Returns the failed call and the reason, e.g. `get ConfigMap ns/name: ConfigMap "name" not found`. */
const char *operetta_error_text(const operetta_error *error);

/* Reports whether the error is not NULL and has this variant. */
bool operetta_is(const operetta_error *error, operetta_error_variant variant);

/* ---- Reconciling ------------------------------------------------------------------------------------------------ */

/* The host's next step for the key. */
typedef enum {
    OPERETTA_RESULT_DONE,
    OPERETTA_RESULT_REQUEUE,
    OPERETTA_RESULT_REQUEUE_AFTER,
    OPERETTA_RESULT_RETRY,
    OPERETTA_RESULT_TERMINAL
} operetta_result_kind;

/* The result of a reconcile. Only the functions below create one. */
typedef struct {
    operetta_result_kind kind;
    uint32_t after_ms;
    const char *message;
} operetta_result;

/* Ends the reconcile with success and forgets the key's retries. */
operetta_result operetta_done(void);

/* Requeues the key after the rate limiter's delay. */
operetta_result operetta_requeue(void);

/* Requeues the key after this time. */
operetta_result operetta_requeue_after_ms(uint32_t milliseconds);

/* Reports a failure. The host retries the key after the rate limiter's delay. */
operetta_result operetta_retry(const char *format, ...) OPERETTA_PRINTF(1, 2);

/* Reports a failure that a retry cannot cure (controller-runtime's TerminalError). The host reconciles the key again
 * when the object changes. */
operetta_result operetta_terminal(const char *format, ...) OPERETTA_PRINTF(1, 2);

/* Reports the error's text as operetta_retry does. */
operetta_result operetta_fail(const operetta_error *error);

/* The key to reconcile. It is never an event, and the object may no longer exist. */
typedef struct {
    const char *controller;   /* the controller's name */
    operetta_kind kind;       /* the controller's kind */
    const char *namespace_;   /* NULL for objects of cluster-scoped kinds */
    const char *name;
    uint32_t retries;         /* consecutive failures of this key (client-go's NumRequeues) */
    const char *reconcile_id; /* the reconcile's unique id in the logs */
} operetta_request;

/* Brings the object of one key to its desired state. Each call starts with fresh memory: static variables do not
 * survive it. */
typedef operetta_result (*operetta_reconciler)(const operetta_request *request);

/* Brings one existing object to its desired state. The object comes from the cache. */
typedef operetta_result (*operetta_object_reconciler)(const operetta_request *request, operetta_value *object);

/* ---- The manifest ----------------------------------------------------------------------------------------------- */

/* Declares the plugin's controllers and indexes with the functions below. The plugin defines this function. */
void operetta_plugin(void);

typedef struct operetta_controller operetta_controller;
typedef struct operetta_source operetta_source;

/* Adds a controller for objects of a kind. `name` is a DNS label. The reconciler also gets the keys of deleted objects.
 * */
operetta_controller *operetta_add_controller(const char *name, operetta_kind kind, operetta_reconciler reconcile);

/* Adds a controller whose reconciler is called with the object. For a deleted object there is nothing to do: the
 * garbage collector deletes the objects that it controls. */
operetta_controller *operetta_add_object_controller(const char *name, operetta_kind kind,
                                                    operetta_object_reconciler reconcile);

/* Returns the source of the controller's own kind, for operetta_select_labels and its siblings. */
operetta_source *operetta_for(operetta_controller *controller);

/* Watches a kind of which the controller creates objects. Their events enqueue the controlling owner. */
operetta_source *operetta_owns(operetta_controller *controller, operetta_kind kind);

/* The keys that an operetta_map_function adds. */
typedef struct operetta_keys operetta_keys;

/* Adds a key, if it is not there yet. `namespace_` is NULL for objects of cluster-scoped kinds. */
void operetta_add_key(operetta_keys *keys, const char *namespace_, const char *name);

/* Adds the keys that the events of a watched object enqueue, at most 1,000 (controller-runtime's
 * EnqueueRequestsFromMapFunc). It is called with the object and, if that has changed, with its old state as well: the keys
 * of both are enqueued. For a deleted object it is called with the last state. It cannot read other objects. If it panics,
 * the host retries it. */
typedef void (*operetta_map_function)(const operetta_value *object, operetta_keys *keys);

/* The mapping from a watched object to the keys that its events enqueue. */
typedef struct {
    enum { OPERETTA_MAP_OWNER, OPERETTA_MAP_SAME_NAME, OPERETTA_MAP_FIELD_PATH, OPERETTA_MAP_CUSTOM } kind;
    bool all_owners;            /* owner: all owners of the kind, not only the controlling one */
    const char *path;           /* field path: the field with the key's name, e.g. `.spec.claimRef.name` */
    const char *namespace_path; /* field path: the field with its namespace; NULL: the object's own */
    operetta_map_function add_keys; /* custom: the function */
} operetta_mapping;

/* Watches another kind. The mapping says which keys its events enqueue. */
operetta_source *operetta_watches(operetta_controller *controller, operetta_kind kind, operetta_mapping mapping);

/* Restricts the source with a selector in the API server's syntax. The API server applies it. */
void operetta_select_labels(operetta_source *source, const char *selector);
void operetta_select_fields(operetta_source *source, const char *selector);

/* Leaves a field of these objects out of the host's cache, which then needs less memory, e.g. `.status` or
 * `.metadata.annotations`. A function of OPERETTA_MAP_CUSTOM gets the objects without it. Reads return whole objects: the API
 * server answers a get, and a list unless it keeps other fields only. Call this once for each field. */
void operetta_prune(operetta_source *source, const char *path);

/* Restricts the source to the Plugin's own namespace. */
void operetta_own_namespace(operetta_source *source);

/* Event filters, as in controller-runtime's `predicate` package. An event must pass all predicates of its source. */
typedef enum {
    OPERETTA_GENERATION_CHANGED,
    OPERETTA_LABELS_CHANGED,
    OPERETTA_ANNOTATIONS_CHANGED,
    OPERETTA_RESOURCE_VERSION_CHANGED
} operetta_predicate;
void operetta_add_predicate(operetta_source *source, operetta_predicate predicate);

/*
 * Declares a finalizer that the controller puts on the objects that it reconciles, e.g. by operetta_add_finalizer. With
 * it, `operetta generate rbac` grants the verbs `update` and `patch` on the kind.
 */
void operetta_declare_finalizer(operetta_controller *controller, const char *finalizer);

/* Sets the number of keys that are reconciled concurrently, 1 to 64. The default is 1. */
void operetta_workers(operetta_controller *controller, uint32_t workers);

/* Sets the interval at which all keys are reconciled again. The default is 0: never. */
void operetta_resync_seconds(operetta_controller *controller, uint32_t seconds);

/* Sets the rate limiter: the greater delay of an exponential backoff per key and a token bucket for all keys. The
 * default is client-go's: 5 ms to 1,000 s, and 10 per second with a burst of 100. */
void operetta_rate_limiter(operetta_controller *controller, uint32_t base_delay_ms, uint32_t max_delay_ms, uint32_t qps,
                           uint32_t burst);

/* Adds an index over cached objects for operetta_list. `path` is the indexed field, e.g. `.spec.nodeName`. */
void operetta_add_index(const char *name, operetta_kind kind, const char *path);

/* Adds an index by the value of a label, e.g. `app.kubernetes.io/name`. Cached lists whose label selector requires one value
 * of that label use it, too. */
void operetta_add_label_index(const char *name, operetta_kind kind, const char *label);

/* Adds an index by the name of the controlling owner, if that is of the kind `owner`. */
void operetta_add_controller_index(const char *name, operetta_kind kind, operetta_kind owner);

/* ---- Values ----------------------------------------------------------------------------------------------------- */

/*
 * Paths: a dot separates members and [N] is an element, as in `spec.containers[0].image`. A dot in a member's name is
 * written `\.`: "metadata.labels.app\\.kubernetes\\.io/name". The empty path is the value itself. A malformed path is a
 * fault of the plugin, and panics.
 */

/* Returns a new object with its apiVersion, kind, name, and namespace (NULL for cluster-scoped kinds). */
operetta_value *operetta_new(operetta_kind kind, const char *namespace_, const char *name);

/* Return {} and []. */
operetta_value *operetta_new_object(void);
operetta_value *operetta_new_array(void);

/* Returns a deep copy. */
operetta_value *operetta_copy(const operetta_value *value);

/* Parses JSON text. Returns NULL and an error with the position if the text is not JSON. */
operetta_value *operetta_parse(const char *text, operetta_error **error);
const char *operetta_to_json(const operetta_value *value);

/* Reports whether two values are equal for the API server: an absent field, null, [] and {} are equal. */
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
 * Reading. A NULL value is an absent one without fields. A field of another type than the requested one counts as
 * absent and logs a warning. `otherwise` is returned for absent fields.
 */

/* Returns the value at a path; NULL if absent. */
operetta_value *operetta_at(const operetta_value *value, const char *path);
const char *operetta_string(const operetta_value *value, const char *path, const char *otherwise);
int64_t operetta_int(const operetta_value *value, const char *path, int64_t otherwise);
double operetta_number(const operetta_value *value, const char *path, double otherwise);
bool operetta_bool(const operetta_value *value, const char *path, bool otherwise);

/* Returns a string, number or boolean as text: for an IntOrString, and for integers of more than 64 bits. */
const char *operetta_text(const operetta_value *value, const char *path, const char *otherwise);

/* Returns a resource.Quantity (a string or a number) in canonical form, e.g. `1536Mi` for `1.5Gi`. */
const char *operetta_quantity(const operetta_value *value, const char *path, const char *otherwise);

/* Returns the number of elements or members; 0 if the value is neither an array nor an object. */
size_t operetta_count(const operetta_value *value, const char *path);

/* Return a member by its literal name (not a path), and an element by its position from 0; NULL if absent. */
operetta_value *operetta_member(const operetta_value *value, const char *name);
operetta_value *operetta_element(const operetta_value *value, size_t position);

/* Returns the name of the member at a position from 0; NULL past the end. operetta_element returns its value. */
const char *operetta_member_name(const operetta_value *value, size_t position);

/*
 * Writing. Setters copy the values that they are given. They create missing objects and arrays on the path, and append
 * the element that is one past the end of an array. If the path leads through another type, nothing is set, and the
 * next write to the API server fails with an error that names the path.
 */

/* Sets a field to a copy of a value; NULL removes the field. */
void operetta_set(operetta_value *value, const char *path, operetta_value *what);
void operetta_set_string(operetta_value *value, const char *path, const char *text);
void operetta_set_format(operetta_value *value, const char *path, const char *format, ...) OPERETTA_PRINTF(3, 4);
void operetta_set_int(operetta_value *value, const char *path, int64_t number);
void operetta_set_number(operetta_value *value, const char *path, double number);
void operetta_set_bool(operetta_value *value, const char *path, bool yes);
void operetta_set_null(operetta_value *value, const char *path);
void operetta_remove(operetta_value *value, const char *path);
void operetta_append(operetta_value *value, const char *path, operetta_value *element);
void operetta_append_string(operetta_value *value, const char *path, const char *text);

/* Returns text formatted as by printf. */
const char *operetta_format(const char *format, ...) OPERETTA_PRINTF(1, 2);

/* Returns zeroed memory that lives until the reconcile ends. */
void *operetta_allocate(size_t bytes);

/* Returns the current time in Kubernetes' format, e.g. 2030-01-01T00:00:00Z. */
const char *operetta_now(void);

/* ---- An object's metadata --------------------------------------------------------------------------------------- */

operetta_kind operetta_kind_of(const operetta_value *object);
const char *operetta_name(const operetta_value *object);             /* empty if absent */
const char *operetta_namespace(const operetta_value *object);        /* NULL if absent or empty */
const char *operetta_uid(const operetta_value *object);              /* empty if absent */
const char *operetta_resource_version(const operetta_value *object); /* empty if absent */

/* Reports whether the object has a deletionTimestamp. */
bool operetta_is_being_deleted(const operetta_value *object);

/* Reports whether the object is not stored yet: it has no uid. */
bool operetta_is_new(const operetta_value *object);

/*
 * Makes `owner` the controlling owner of `child`: the child's events enqueue the owner, and the garbage collector
 * deletes the child after the owner. Fails if another object controls the child, the owner is not stored, or it is in
 * another namespace.
 */
bool operetta_set_controller_reference(const operetta_value *owner, operetta_value *child, operetta_error **error);

/* Reports whether `owner` controls `child`, by the owner's uid. */
bool operetta_is_controlled_by(const operetta_value *child, const operetta_value *owner);

/* Reports whether the object has the finalizer. */
bool operetta_has_finalizer(const operetta_value *object, const char *finalizer);

/*
 * Add the finalizer to the stored object, or remove it, with a patch. The patch fails with a conflict if the object has
 * changed in the meantime. Nothing is written if nothing would change. Removing a finalizer from a deleted object is
 * not an error.
 */
bool operetta_add_finalizer(operetta_value *object, const char *finalizer, operetta_error **error);
bool operetta_remove_finalizer(operetta_value *object, const char *finalizer, operetta_error **error);

/* ---- Reads ------------------------------------------------------------------------------------------------------ */

/* Returns an object from the host's cache, which includes the plugin's own writes. `namespace_` is NULL for
 * cluster-scoped kinds. */
operetta_value *operetta_get(operetta_kind kind, const char *namespace_, const char *name, operetta_error **error);

/* Returns an object from the host's cache; NULL without an error if it does not exist. */
operetta_value *operetta_find(operetta_kind kind, const char *namespace_, const char *name, operetta_error **error);

/* Returns an object from the API server. */
operetta_value *operetta_get_live(operetta_kind kind, const char *namespace_, const char *name, operetta_error **error);

/* The options of a list. All zero: complete objects of all namespaces, in one page, from the cache. */
typedef struct {
    const char *namespace_;
    const char *labels;         /* a label selector, e.g. `app=db,tier in (a, b)` */
    const char *fields;         /* a field selector; cached lists know metadata.name and metadata.namespace only */
    const char *index;          /* the name of a declared index; cached lists only */
    const char *index_value;    /* the value in that index */
    const char *owner_uid;      /* objects whose controlling owner has this uid; cached lists only */
    uint32_t limit;             /* the maximum number of items; 0: all */
    const char *continue_token; /* the previous page's continue token */
    bool live;                  /* read from the API server */
    const char *const *keep;    /* field paths to keep, e.g. `.metadata.labels`, ended by NULL; NULL: whole objects */
} operetta_list_options;

typedef struct {
    operetta_value **items; /* cached lists come in the order of namespace, then name */
    size_t count;
    const char *resource_version;
    const char *continue_token; /* NULL on the last page */
} operetta_page;

/* Returns a page of objects; NULL on failure. `options` may be NULL. */
operetta_page *operetta_list(operetta_kind kind, const operetta_list_options *options, operetta_error **error);

/* ---- Writes ----------------------------------------------------------------------------------------------------- */

/* The options of a write. All zero (or NULL): store the object, with the plugin as field manager, without unknown
 * fields. */
typedef struct {
    bool dry_run;              /* validate and admit, but store nothing */
    bool strict;               /* reject unknown and duplicate fields */
    const char *field_manager; /* the owner of the written fields; NULL: the plugin */
} operetta_write_options;

/* Create or replace an object, or replace its status. The object names its kind and key. All return the object as
 * stored, or NULL on failure. */
operetta_value *operetta_create(const operetta_value *object, const operetta_write_options *options,
                                operetta_error **error);
operetta_value *operetta_update(const operetta_value *object, const operetta_write_options *options,
                                operetta_error **error);
operetta_value *operetta_update_status(const operetta_value *object, const operetta_write_options *options,
                                       operetta_error **error);

/* Replaces the object's status and writes it through the status subresource, unless the status is equal already. On
 * success `object` has the stored status and metadata. */
bool operetta_write_status(operetta_value *object, operetta_value *status, operetta_error **error);

typedef enum {
    OPERETTA_MERGE_PATCH, /* RFC 7386: an object */
    OPERETTA_JSON_PATCH,  /* RFC 6902: an array of operations */
    OPERETTA_APPLY_PATCH  /* server-side apply: an object; apiVersion and kind are added */
} operetta_patch_type;

typedef struct {
    operetta_patch_type type;
    const operetta_value *body;
    const char *subresource; /* `status`, `scale`; NULL: the object itself */
    bool force;              /* take over fields from other managers; apply only */
    operetta_write_options options;
} operetta_patch_request;

/* Patches an object or a subresource. Returns the object as stored, or NULL on failure. */
operetta_value *operetta_patch(operetta_kind kind, const char *namespace_, const char *name,
                               const operetta_patch_request *patch, operetta_error **error);

/* Returns the stored object, or a new one if it does not exist, for operetta_create_or_update. */
operetta_value *operetta_get_or_new(operetta_kind kind, const char *namespace_, const char *name,
                                    operetta_error **error);

typedef enum { OPERETTA_UNCHANGED, OPERETTA_CREATED, OPERETTA_UPDATED } operetta_operation_result;
const char *operetta_operation_result_name(operetta_operation_result result); /* `unchanged`, `created`, `updated` */

/*
 * Writes an object that comes from operetta_get_or_new: creates a new one, updates one that the plugin has changed, and
 * writes nothing otherwise (controller-runtime's CreateOrUpdate). The status is not written. `result` may be NULL.
 * Returns the object as stored, or NULL on failure.
 */
operetta_value *operetta_create_or_update(operetta_value *object, operetta_operation_result *result,
                                          operetta_error **error);

/* metav1.DeleteOptions. All zero (or NULL): the kind's defaults. An unmet precondition is a conflict. */
typedef struct {
    const char *uid;              /* only the object with this uid */
    const char *resource_version; /* only the object at this resourceVersion */
    bool has_grace_period;
    uint32_t grace_period_seconds;
    enum { OPERETTA_DEFAULT_PROPAGATION, OPERETTA_BACKGROUND, OPERETTA_FOREGROUND, OPERETTA_ORPHAN } propagation;
    bool dry_run;
} operetta_delete_options;

/* Deletes an object. It may still exist afterwards, until its finalizers are removed. */
bool operetta_delete(operetta_kind kind, const char *namespace_, const char *name,
                     const operetta_delete_options *options, operetta_error **error);

/* ---- Raw HTTP requests ------------------------------------------------------------------------------------------ */

typedef struct {
    const char *method;       /* GET, POST, PUT, PATCH or DELETE */
    const char *path;         /* e.g. /apis/apps/v1/namespaces/prod/deployments/web */
    const char *query;        /* percent-encoded, without `?`; may be NULL */
    const char *content_type; /* of the body; NULL: application/json */
    const char *accept;       /* NULL: application/json */
    const char *body;         /* NULL: none */
    bool cached;              /* the host's cache may answer a GET */
} operetta_raw_request;

typedef struct {
    uint16_t status; /* the HTTP status code */
    const char *content_type;
    bool has_retry_after;
    uint32_t retry_after_seconds;
    const char *body;
} operetta_raw_response;

/* Sends a request and returns the response. If the host cannot deliver the request, the body is a metav1.Status. */
const operetta_raw_response *operetta_raw(const operetta_raw_request *request);

/* Takes the API server's warnings about the calls since the last time, in order: fields that it dropped, such as `unknown
 * field "spec.colour"`, deprecated versions, remarks of webhooks and policies. The texts end with NULL. The host reports
 * each text once in the plugin's log, so most plugins need not ask. At most 64 texts and 16 KiB are kept until they are
 * taken; later ones are dropped. A call that the host answers itself has none: a cached read, or a write that would change
 * nothing. */
const char *const *operetta_take_warnings(void);

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

/* Reports whether the host keeps lines of this level. */
bool operetta_log_enabled(operetta_level level);

/* Writes a line to the plugin's log. `fields` ends with {NULL, NULL} and may be NULL. printf writes to the log, too. */
void operetta_log(operetta_level level, const operetta_field *fields, const char *format, ...) OPERETTA_PRINTF(3, 4);

/* operetta_log(OPERETTA_INFO, OPERETTA_FIELDS({"replicas", "3"}), "scaled") */
#ifdef __cplusplus
#define OPERETTA_FIELDS(...) (std::initializer_list<operetta_field>{__VA_ARGS__, {NULL, NULL}}.begin())
#else
#define OPERETTA_FIELDS(...) ((const operetta_field[]){__VA_ARGS__, {NULL, NULL}})
#endif

#define operetta_log_error(...) operetta_log(OPERETTA_ERROR, NULL, __VA_ARGS__)
#define operetta_log_warn(...) operetta_log(OPERETTA_WARN, NULL, __VA_ARGS__)
#define operetta_log_info(...) operetta_log(OPERETTA_INFO, NULL, __VA_ARGS__)
#define operetta_log_debug(...) operetta_log(OPERETTA_DEBUG, NULL, __VA_ARGS__)
#define operetta_log_trace(...) operetta_log(OPERETTA_TRACE, NULL, __VA_ARGS__)

/* Returns the Plugin's spec.config; {} if there is none. */
operetta_value *operetta_config(void);

/* Ends the reconcile as a fault of the plugin. The message and the source line go to the log, and the host retries the
 * key. abort() and a failed assert() do the same. */
#define operetta_panic(...) operetta_panic_at(__FILE__, __LINE__, __func__, __VA_ARGS__)
OPERETTA_NORETURN void operetta_panic_at(const char *file, int line, const char *function, const char *format, ...)
    OPERETTA_PRINTF(4, 5);

#ifdef __cplusplus
}
#endif
#endif
