/* The SDK's backend on the test cluster. */
#include <string.h>

#include "testing.h"

static const char *const VERBS[] = {"get", "list", "create", "update", "update-status", "patch", "delete"};

static void set_some(operetta_value *value, const char *path, const char *text) {
    if (text != NULL && *text != '\0') {
        operetta_set_string(value, path, text);
    }
}

static void set_write_options(operetta_value *request, const operetta_write_options *options) {
    operetta_set_bool(request, "options.dryRun", options->dry_run);
    operetta_set_bool(request, "options.strict", options->strict);
    set_some(request, "options.fieldManager", options->field_manager);
}

static const char *text_of(const operetta_value *object) { return object == NULL ? NULL : operetta_to_json(object); }

/* Sends a write and records it, unless it is a dry run. Returns the stored object as text. */
static const char *write_and_record(const operetta_value *request, verb verb, operetta_kind kind,
                                    const char *namespace_, const char *name, bool dry, operetta_error **error) {
    const operetta_value *stored = cluster_call(request, error);
    if (*error == NULL && !dry) {
        /* The API server chooses the name of an object with a generateName. */
        record_add(&test_writes, call_name(VERBS[verb], kind, namespace_, *name == '\0' ? operetta_name(stored) : name));
    }
    return text_of(stored);
}

const char *backend_get(operetta_kind kind, const char *namespace_, const char *name, bool live,
                        operetta_error **error) {
    if (test_fault(VERBS[VERB_GET], error)) {
        return NULL;
    }
    operetta_value *request = cluster_request_for_key("get", kind, namespace_, name);
    operetta_set_string(request, "read", live ? "live" : "cached");
    return text_of(cluster_call(request, error));
}

static operetta_value *list_request(operetta_kind kind, const operetta_list_options *options) {
    operetta_value *request = cluster_request_for_kind("list", kind);
    operetta_set_string(request, "options.read", options->live ? "live" : "cached");
    set_some(request, "options.namespace", options->namespace_);
    set_some(request, "options.labels", options->labels);
    set_some(request, "options.fields", options->fields);
    set_some(request, "options.continueToken", options->continue_token);
    if (options->limit != 0) {
        operetta_set_int(request, "options.limit", options->limit);
    }
    for (const char *const *path = options->keep; path != NULL && *path != NULL; path++) {
        operetta_append_string(request, "options.projection", *path);
    }
    if (options->index != NULL) {
        operetta_set_string(request, "options.selection.type", "by-index");
        operetta_set_string(request, "options.selection.index", options->index);
        operetta_set_string(request, "options.selection.value", options->index_value);
    } else if (options->owner_uid != NULL) {
        operetta_set_string(request, "options.selection.type", "by-owner");
        operetta_set_string(request, "options.selection.uid", options->owner_uid);
    }
    return request;
}

bool backend_list(operetta_kind kind, const operetta_list_options *options, backend_page *page,
                  operetta_error **error) {
    if (test_fault(VERBS[VERB_LIST], error)) {
        return false;
    }
    const operetta_value *found = cluster_call(list_request(kind, options), error);
    if (found == NULL) {
        return false;
    }
    const operetta_value *items = operetta_at(found, "items");
    page->count = operetta_count(items, "");
    page->items = operetta_allocate(page->count * sizeof *page->items);
    for (size_t i = 0; i < page->count; i++) {
        page->items[i] = operetta_to_json(operetta_element(items, i));
    }
    page->resource_version = operetta_string(found, "resourceVersion", "");
    page->continue_token = operetta_string(found, "continueToken", NULL);
    return true;
}

const char *backend_write(verb verb, operetta_kind kind, const char *namespace_, const char *name, const char *object,
                          const operetta_write_options *options, operetta_error **error) {
    if (test_fault(VERBS[verb], error)) {
        return NULL;
    }
    operetta_value *request;
    if (verb == VERB_CREATE) {
        request = cluster_request_for_kind("create", kind);
        set_some(request, "namespace", namespace_);
    } else {
        request = cluster_request_for_key(verb == VERB_UPDATE ? "update" : "updateStatus", kind, namespace_, name);
    }
    operetta_set(request, "object", value_of_host(object, "the test cluster"));
    set_write_options(request, options);
    return write_and_record(request, verb, kind, namespace_, name, options->dry_run, error);
}

const char *backend_patch(operetta_kind kind, const char *namespace_, const char *name,
                          const operetta_patch_request *patch, const char *body, operetta_error **error) {
    static const char *const types[] = {"merge", "json", "apply"};
    if (test_fault(VERBS[VERB_PATCH], error)) {
        return NULL;
    }
    operetta_value *request = cluster_request_for_key("patch", kind, namespace_, name);
    set_some(request, "subresource", patch->subresource);
    operetta_set_string(request, "type", types[patch->type]);
    operetta_set(request, "body", value_of_host(body, "the test cluster"));
    operetta_set_bool(request, "force", patch->force);
    set_write_options(request, &patch->options);
    return write_and_record(request, VERB_PATCH, kind, namespace_, name, patch->options.dry_run, error);
}

bool backend_delete(operetta_kind kind, const char *namespace_, const char *name,
                    const operetta_delete_options *options, operetta_error **error) {
    static const char *const propagations[] = {NULL, "background", "foreground", "orphan"};
    if (test_fault(VERBS[VERB_DELETE], error)) {
        return false;
    }
    operetta_value *request = cluster_request_for_key("delete", kind, namespace_, name);
    set_some(request, "options.uid", options->uid);
    set_some(request, "options.resourceVersion", options->resource_version);
    set_some(request, "options.propagation", propagations[options->propagation]);
    operetta_set_bool(request, "options.dryRun", options->dry_run);
    if (options->has_grace_period) {
        operetta_set_int(request, "options.gracePeriodSeconds", options->grace_period_seconds);
    }
    write_and_record(request, VERB_DELETE, kind, namespace_, name, options->dry_run, error);
    return *error == NULL;
}

const operetta_raw_response *backend_raw(const operetta_raw_request *given) {
    operetta_value *request = cluster_request("send");
    operetta_error *error = NULL;
    operetta_set_string(request, "request.method", given->method);
    operetta_set_string(request, "request.path", given->path);
    operetta_set_string(request, "request.query", given->query == NULL ? "" : given->query);
    operetta_set_bool(request, "request.cached", given->cached);
    set_some(request, "request.contentType", given->content_type);
    set_some(request, "request.accept", given->accept);
    if (given->body != NULL) {
        operetta_set_string(request, "request.body", given->body);
    }
    const operetta_value *answer = cluster_call(request, &error);
    if (answer == NULL) {
        test_end("the call send of the test server failed: %s", error == NULL ? "no response" : error->message);
    }
    operetta_raw_response *response = operetta_allocate(sizeof *response);
    response->status = (uint16_t)operetta_int(answer, "status", 0);
    response->content_type = operetta_string(answer, "contentType", "");
    response->has_retry_after = operetta_type_at(answer, "retryAfterSeconds") == OPERETTA_NUMBER;
    response->retry_after_seconds = (uint32_t)operetta_int(answer, "retryAfterSeconds", 0);
    response->body = operetta_string(answer, "body", "");
    return response;
}

const char *const *backend_take_warnings(void) {
    record_add(&test_warnings, NULL);
    const char **texts = test_warnings.lines;
    test_warnings = (record){0};
    return texts;
}

void backend_event(operetta_kind kind, const char *namespace_, const char *name, const char *uid,
                   operetta_event_type type, const char *reason, const char *action, const char *note) {
    (void)kind, (void)namespace_, (void)name, (void)uid;
    record_add(&test_events, operetta_format("%s %s%s%s: %s", type == OPERETTA_NORMAL ? "Normal" : "Warning", reason,
                                             *action == '\0' ? "" : " ", action, note));
}

bool backend_log_enabled(operetta_level level) {
    (void)level;
    return true;
}

void backend_log(operetta_level level, const char *message, const operetta_field *fields, size_t count) {
    static const char *const levels[] = {"error", "warn", "info", "debug", "trace"};
    const char *line = operetta_format("%s %s", levels[level], message);
    for (size_t i = 0; i < count; i++) {
        line = operetta_format("%s %s=%s", line, fields[i].name, fields[i].value);
    }
    record_add(&test_logs, line);
}

const char *backend_config(void) { return test_config_text(); }

void backend_trap(const char *message) {
    if (test_reconciling) {
        test_panic = operetta_format("%s", message);
        longjmp(test_return, 1);
    }
    test_end("%s", message);
}
