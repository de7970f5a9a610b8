/*
 * The backend of a component: the calls of the contract, through the bindings in src/generated. Values from the host
 * are copied into the reconcile's memory and freed at once. Values passed to the host are only borrowed.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

void output_flush(void); /* output.c */

/* The bindings reference this symbol. The build embeds the description of the world instead. */
void __component_type_object_force_link_plugin(void);
void __component_type_object_force_link_plugin(void) {}

static plugin_string_t lend(const char *text) {
    return (plugin_string_t){(uint8_t *)(uintptr_t)text, text == NULL ? 0 : strlen(text)};
}

static plugin_option_string_t lend_option(const char *text) {
    return (plugin_option_string_t){.is_some = text != NULL, .val = lend(text)};
}

static plugin_string_t *lend_maybe(plugin_string_t *place, const char *text) {
    *place = lend(text);
    return text == NULL ? NULL : place;
}

/* Copies text of the host into the reconcile's memory, and frees the original. */
static const char *take_text(plugin_string_t *text) {
    const char *copy = memory_text((const char *)text->ptr, text->len);
    plugin_string_free(text);
    return copy;
}

static const char *take_option(plugin_option_string_t *text) { return text->is_some ? take_text(&text->val) : NULL; }

static operetta_controller_types_group_version_kind_t lend_kind(operetta_kind kind) {
    return (operetta_controller_types_group_version_kind_t){lend(kind.api_version), lend(kind.kind)};
}

static operetta_controller_types_object_key_t lend_key(const char *namespace_, const char *name) {
    bool scoped = namespace_ != NULL && *namespace_ != '\0';
    return (operetta_controller_types_object_key_t){lend_option(scoped ? namespace_ : NULL), lend(name)};
}

static operetta_controller_objects_write_options_t lend_options(const operetta_write_options *options) {
    return (operetta_controller_objects_write_options_t){options->dry_run, lend_option(options->field_manager),
                                                         options->strict};
}

/* Converts an error. The contract's variants have the order of operetta_error_variant, and all have a status. */
static operetta_error *take_error(operetta_controller_types_error_t *given) {
    operetta_controller_types_status_t *status = &given->val.other;
    operetta_error *error = operetta_allocate(sizeof *error);
    operetta_cause *causes = operetta_allocate(status->causes.len * sizeof *causes);
    error->variant = given->tag <= OPERETTA_OTHER ? (operetta_error_variant)given->tag : OPERETTA_OTHER;
    error->code = status->code;
    error->reason = memory_text((const char *)status->reason.ptr, status->reason.len);
    error->message = memory_text((const char *)status->message.ptr, status->message.len);
    for (size_t i = 0; i < status->causes.len; i++) {
        operetta_controller_types_cause_t *cause = &status->causes.ptr[i];
        causes[i].reason = memory_text((const char *)cause->reason.ptr, cause->reason.len);
        causes[i].message = memory_text((const char *)cause->message.ptr, cause->message.len);
        causes[i].field = memory_text((const char *)cause->field.ptr, cause->field.len);
    }
    error->causes = causes;
    error->cause_count = status->causes.len;
    error->has_retry_after = status->retry_after_seconds.is_some;
    error->retry_after_seconds = error->has_retry_after ? status->retry_after_seconds.val : 0;
    error->call = "";
    operetta_controller_types_error_free(given);
    return error;
}

_Static_assert(OPERETTA_NOT_FOUND == OPERETTA_CONTROLLER_TYPES_ERROR_NOT_FOUND &&
                   OPERETTA_CONFLICT == OPERETTA_CONTROLLER_TYPES_ERROR_CONFLICT &&
                   OPERETTA_FORBIDDEN == OPERETTA_CONTROLLER_TYPES_ERROR_FORBIDDEN &&
                   OPERETTA_TIMED_OUT == OPERETTA_CONTROLLER_TYPES_ERROR_TIMED_OUT &&
                   OPERETTA_OTHER == OPERETTA_CONTROLLER_TYPES_ERROR_OTHER,
               "operetta_error_variant has the order of the contract's types.error");

static const char *answer(bool worked, plugin_string_t *text, operetta_controller_types_error_t *failed,
                          operetta_error **error) {
    if (worked) {
        return take_text(text);
    }
    *error = take_error(failed);
    return NULL;
}

const char *backend_get(operetta_kind kind, const char *namespace_, const char *name, bool live,
                        operetta_error **error) {
    operetta_controller_types_group_version_kind_t lent_kind = lend_kind(kind);
    operetta_controller_types_object_key_t key = lend_key(namespace_, name);
    operetta_controller_objects_error_t failed;
    plugin_string_t text;
    bool worked = operetta_controller_objects_get(&lent_kind, &key,
                                                  live ? OPERETTA_CONTROLLER_OBJECTS_READ_LIVE
                                                       : OPERETTA_CONTROLLER_OBJECTS_READ_CACHED,
                                                  &text, &failed);
    return answer(worked, &text, &failed, error);
}

static operetta_controller_objects_selection_t lend_selection(const operetta_list_options *options) {
    operetta_controller_objects_selection_t selection = {.tag = OPERETTA_CONTROLLER_OBJECTS_SELECTION_ALL};
    if (options->index != NULL) {
        selection.tag = OPERETTA_CONTROLLER_OBJECTS_SELECTION_BY_INDEX;
        selection.val.by_index.f0 = lend(options->index);
        selection.val.by_index.f1 = lend(options->index_value);
    } else if (options->owner_uid != NULL) {
        selection.tag = OPERETTA_CONTROLLER_OBJECTS_SELECTION_BY_OWNER;
        selection.val.by_owner = lend(options->owner_uid);
    }
    return selection;
}

static plugin_list_string_t lend_paths(const char *const *paths) {
    plugin_list_string_t list = {NULL, 0};
    while (paths != NULL && paths[list.len] != NULL) {
        list.len++;
    }
    list.ptr = operetta_allocate(list.len * sizeof *list.ptr);
    for (size_t i = 0; i < list.len; i++) {
        list.ptr[i] = lend(paths[i]);
    }
    return list;
}

bool backend_list(operetta_kind kind, const operetta_list_options *options, backend_page *page,
                  operetta_error **error) {
    operetta_controller_types_group_version_kind_t lent_kind = lend_kind(kind);
    operetta_controller_objects_list_options_t lent = {
        .namespace_ = lend_option(options->namespace_),
        .labels = lend_option(options->labels),
        .fields = lend_option(options->fields),
        .selection = lend_selection(options),
        .limit = {options->limit != 0, options->limit},
        .continue_token = lend_option(options->continue_token),
        .read = options->live ? OPERETTA_CONTROLLER_OBJECTS_READ_LIVE : OPERETTA_CONTROLLER_OBJECTS_READ_CACHED,
        .projection = lend_paths(options->keep),
    };
    operetta_controller_objects_page_t found;
    operetta_controller_objects_error_t failed;
    if (!operetta_controller_objects_list(&lent_kind, &lent, &found, &failed)) {
        *error = take_error(&failed);
        return false;
    }
    page->count = found.items.len;
    page->items = operetta_allocate(page->count * sizeof *page->items);
    for (size_t i = 0; i < page->count; i++) {
        page->items[i] = take_text(&found.items.ptr[i]);
    }
    page->resource_version = take_text(&found.resource_version);
    page->continue_token = take_option(&found.continue_token);
    if (page->count > 0) {
        free(found.items.ptr);
    }
    return true;
}

const char *backend_write(verb verb, operetta_kind kind, const char *namespace_, const char *name, const char *object,
                          const operetta_write_options *options, operetta_error **error) {
    operetta_controller_types_group_version_kind_t lent_kind = lend_kind(kind);
    operetta_controller_types_object_key_t key = lend_key(namespace_, name);
    operetta_controller_objects_write_options_t lent = lend_options(options);
    operetta_controller_objects_error_t failed;
    plugin_string_t body = lend(object);
    plugin_string_t text;
    bool worked;
    if (verb == VERB_CREATE) {
        worked = operetta_controller_objects_create(&lent_kind, key.namespace_.is_some ? &key.namespace_.val : NULL,
                                                    &body, &lent, &text, &failed);
    } else if (verb == VERB_UPDATE) {
        worked = operetta_controller_objects_update(&lent_kind, &key, &body, &lent, &text, &failed);
    } else {
        worked = operetta_controller_objects_update_status(&lent_kind, &key, &body, &lent, &text, &failed);
    }
    return answer(worked, &text, &failed, error);
}

_Static_assert(OPERETTA_MERGE_PATCH == OPERETTA_CONTROLLER_OBJECTS_PATCH_BODY_MERGE &&
                   OPERETTA_JSON_PATCH == OPERETTA_CONTROLLER_OBJECTS_PATCH_BODY_JSON &&
                   OPERETTA_APPLY_PATCH == OPERETTA_CONTROLLER_OBJECTS_PATCH_BODY_APPLY,
               "operetta_patch_type has the order of the contract's patch-body");

const char *backend_patch(operetta_kind kind, const char *namespace_, const char *name,
                          const operetta_patch_request *patch, const char *body, operetta_error **error) {
    operetta_controller_types_group_version_kind_t lent_kind = lend_kind(kind);
    operetta_controller_types_object_key_t key = lend_key(namespace_, name);
    operetta_controller_objects_write_options_t lent = lend_options(&patch->options);
    operetta_controller_objects_patch_body_t lent_body = {.tag = (uint8_t)patch->type, .val.merge = lend(body)};
    operetta_controller_objects_error_t failed;
    plugin_string_t subresource;
    plugin_string_t text;
    bool worked = operetta_controller_objects_patch(&lent_kind, &key, lend_maybe(&subresource, patch->subresource),
                                                    &lent_body, patch->force, &lent, &text, &failed);
    return answer(worked, &text, &failed, error);
}

bool backend_delete(operetta_kind kind, const char *namespace_, const char *name,
                    const operetta_delete_options *options, operetta_error **error) {
    operetta_controller_types_group_version_kind_t lent_kind = lend_kind(kind);
    operetta_controller_types_object_key_t key = lend_key(namespace_, name);
    operetta_controller_objects_delete_options_t lent = {
        .uid = lend_option(options->uid),
        .resource_version = lend_option(options->resource_version),
        .grace_period_seconds = {options->has_grace_period, options->grace_period_seconds},
        .dry_run = options->dry_run,
    };
    if (options->propagation != OPERETTA_DEFAULT_PROPAGATION) {
        lent.propagation.is_some = true;
        lent.propagation.val = (uint8_t)(options->propagation - OPERETTA_BACKGROUND);
    }
    operetta_controller_objects_error_t failed;
    if (!operetta_controller_objects_delete(&lent_kind, &key, &lent, &failed)) {
        *error = take_error(&failed);
        return false;
    }
    return true;
}

const operetta_raw_response *backend_raw(const operetta_raw_request *request) {
    operetta_controller_raw_request_t lent = {
        .method = lend(request->method),
        .path = lend(request->path),
        .query = lend(request->query),
        .content_type = lend_option(request->content_type),
        .accept = lend_option(request->accept),
        .body = lend_option(request->body),
        .cached = request->cached,
    };
    operetta_controller_raw_response_t given;
    operetta_raw_response *response = operetta_allocate(sizeof *response);
    operetta_controller_raw_send(&lent, &given);
    response->status = given.status;
    response->content_type = take_text(&given.content_type);
    response->has_retry_after = given.retry_after_seconds.is_some;
    response->retry_after_seconds = given.retry_after_seconds.is_some ? given.retry_after_seconds.val : 0;
    response->body = take_text(&given.body);
    return response;
}

const char *const *backend_take_warnings(void) {
    plugin_list_string_t given;
    operetta_controller_warnings_take(&given);
    const char **texts = operetta_allocate((given.len + 1) * sizeof *texts);
    for (size_t i = 0; i < given.len; i++) {
        texts[i] = take_text(&given.ptr[i]);
    }
    texts[given.len] = NULL;
    if (given.len > 0) {
        free(given.ptr);
    }
    return texts;
}

void backend_event(operetta_kind kind, const char *namespace_, const char *name, const char *uid,
                   operetta_event_type type, const char *reason, const char *action, const char *note) {
    operetta_controller_types_group_version_kind_t lent_kind = lend_kind(kind);
    operetta_controller_types_object_key_t key = lend_key(namespace_, name);
    plugin_string_t lent_uid;
    plugin_string_t lent[] = {lend(reason), lend(action), lend(note)};
    operetta_controller_events_emit(&lent_kind, &key, lend_maybe(&lent_uid, *uid == '\0' ? NULL : uid),
                                    type == OPERETTA_NORMAL ? OPERETTA_CONTROLLER_EVENTS_KIND_NORMAL
                                                            : OPERETTA_CONTROLLER_EVENTS_KIND_WARNING,
                                    &lent[0], &lent[1], &lent[2]);
}

_Static_assert(OPERETTA_ERROR == OPERETTA_CONTROLLER_LOG_LEVEL_ERROR &&
                   OPERETTA_INFO == OPERETTA_CONTROLLER_LOG_LEVEL_INFO &&
                   OPERETTA_TRACE == OPERETTA_CONTROLLER_LOG_LEVEL_TRACE,
               "operetta_level has the order of the contract's log.level");

bool backend_log_enabled(operetta_level level) { return operetta_controller_log_enabled((uint8_t)level); }

/* Writes a log line. A line without fields allocates nothing, so a panic can log when memory is exhausted. */
void backend_log(operetta_level level, const char *message, const operetta_field *fields, size_t count) {
    plugin_string_t lent = lend(message);
    plugin_list_tuple2_string_string_t pairs = {NULL, count};
    if (count > 0) {
        pairs.ptr = operetta_allocate(count * sizeof *pairs.ptr);
    }
    for (size_t i = 0; i < count; i++) {
        pairs.ptr[i] = (plugin_tuple2_string_string_t){lend(fields[i].name), lend(fields[i].value)};
    }
    operetta_controller_log_write((uint8_t)level, &lent, &pairs);
}

const char *backend_config(void) {
    plugin_string_t text;
    operetta_controller_config_get(&text);
    return take_text(&text);
}

void backend_trap(const char *message) {
    (void)message;
    __builtin_trap();
}

/* Frees the memory of the previous call. The host reads the result after that call returns, so it is kept until now. */
static void begin(void) {
    values_reset();
    objects_reset();
    forget_unset_field();
    memory_reset();
}

void exports_operetta_controller_reconciler_describe(plugin_string_t *ret) {
    begin();
    plugin_string_dup(ret, manifest_describe());
    output_flush();
}

bool exports_operetta_controller_reconciler_reconcile(exports_operetta_controller_reconciler_request_t *given,
                                                      exports_operetta_controller_reconciler_action_t *action,
                                                      exports_operetta_controller_reconciler_failure_t *failure) {
    begin();
    operetta_request request = {
        .controller = take_text(&given->controller),
        .namespace_ = take_option(&given->key.namespace_),
        .name = take_text(&given->key.name),
        .retries = given->retries,
        .reconcile_id = take_text(&given->reconcile_id),
    };
    if (request.namespace_ != NULL && *request.namespace_ == '\0') {
        request.namespace_ = NULL;
    }
    operetta_result result = manifest_reconcile(&request);
    output_flush();
    switch (result.kind) {
    case OPERETTA_RESULT_DONE:
        action->tag = EXPORTS_OPERETTA_CONTROLLER_RECONCILER_ACTION_DONE;
        return true;
    case OPERETTA_RESULT_REQUEUE:
        action->tag = EXPORTS_OPERETTA_CONTROLLER_RECONCILER_ACTION_REQUEUE;
        return true;
    case OPERETTA_RESULT_REQUEUE_AFTER:
        action->tag = EXPORTS_OPERETTA_CONTROLLER_RECONCILER_ACTION_REQUEUE_AFTER_MS;
        action->val.requeue_after_ms = result.after_ms;
        return true;
    case OPERETTA_RESULT_RETRY:
        failure->tag = EXPORTS_OPERETTA_CONTROLLER_RECONCILER_FAILURE_RETRY;
        break;
    case OPERETTA_RESULT_TERMINAL:
        failure->tag = EXPORTS_OPERETTA_CONTROLLER_RECONCILER_FAILURE_TERMINAL;
        break;
    }
    plugin_string_dup(&failure->val.retry, result.message);
    return false;
}

/* Copies the keys to memory that the bindings free. */
static void give_keys(const operetta_keys *keys, exports_operetta_controller_mapper_list_object_key_t *given) {
    given->len = keys->count;
    given->ptr = keys->count == 0 ? NULL : malloc(keys->count * sizeof *given->ptr);
    if (keys->count > 0 && given->ptr == NULL) {
        operetta_panic("out of memory");
    }
    for (size_t i = 0; i < keys->count; i++) {
        const struct operetta_key *key = &keys->items[i];
        given->ptr[i].namespace_.is_some = key->namespace_ != NULL;
        if (key->namespace_ != NULL) {
            plugin_string_dup(&given->ptr[i].namespace_.val, key->namespace_);
        }
        plugin_string_dup(&given->ptr[i].name, key->name);
    }
}

bool exports_operetta_controller_mapper_map_event(exports_operetta_controller_mapper_event_t *given,
                                                  exports_operetta_controller_mapper_list_object_key_t *ret,
                                                  plugin_string_t *err) {
    begin();
    const char *controller = take_text(&given->controller);
    operetta_kind kind = {.api_version = take_text(&given->kind.api_version), .kind = take_text(&given->kind.kind)};
    take_option(&given->key.namespace_);
    take_text(&given->key.name);
    const operetta_value *object = value_of_host(take_text(&given->object), "map-event");
    const char *old = take_option(&given->old);
    operetta_keys keys = {0};
    bool found = manifest_map(controller, kind, object, old == NULL ? NULL : value_of_host(old, "map-event"), &keys);
    output_flush();
    if (!found) {
        plugin_string_dup(err, operetta_format("this plugin has no controller named \"%s\"", controller));
        return false;
    }
    give_keys(&keys, ret);
    return true;
}
