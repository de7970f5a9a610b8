/* The SDK's backend on the test cluster. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"
#include "testing.h"

static const char *const VERBS[] = {"get", "list", "create", "update", "update-status", "patch", "delete"};

static object_id id_of(operetta_kind kind, const char *namespace_, const char *name) {
    return (object_id){kind, namespace_ == NULL ? "" : namespace_, name};
}

static const char *text_of(const operetta_value *object) { return object == NULL ? NULL : operetta_to_json(object); }

static void recorded(verb verb, operetta_kind kind, const char *namespace_, const char *name, bool dry, bool worked) {
    if (worked && !dry) {
        record_add(&test_writes, call_name(VERBS[verb], kind, namespace_, name));
    }
}

const char *backend_get(operetta_kind kind, const char *namespace_, const char *name, bool live,
                        operetta_error **error) {
    (void)live;
    return test_fault(VERBS[VERB_GET], error) ? NULL : text_of(store_get(id_of(kind, namespace_, name), error));
}

static bool chosen_by_fields(const object_id *id, const char *fields, operetta_error **error) {
    for (const char *at = fields; *at != '\0';) {
        size_t length = strcspn(at, ",");
        const char *part = memory_text(at, length);
        const char *value = strchr(part, '=');
        bool by_name = strncmp(part, "metadata.name=", 14) == 0;
        if (value == NULL || (!by_name && strncmp(part, "metadata.namespace=", 19) != 0)) {
            fail_with(error, OPERETTA_BAD_REQUEST, "", "\"%s\" is not a field that cached reads know", part);
            return false;
        }
        value += 1 + (value[1] == '=');
        if (strcmp(value, by_name ? id->name : id->namespace_) != 0) {
            return false;
        }
        at += length + (at[length] == ',');
    }
    return true;
}

static bool chosen(const object_id *id, const operetta_value *object, const operetta_list_options *options,
                   operetta_error **error) {
    const char *malformed = NULL;
    if (options->namespace_ != NULL && strcmp(options->namespace_, id->namespace_) != 0) {
        return false;
    }
    if (options->labels != NULL &&
        !selector_matches(options->labels, operetta_at(object, "metadata.labels"), &malformed)) {
        if (malformed != NULL) {
            fail_with(error, OPERETTA_BAD_REQUEST, "", "failed to parse label selector: %s", malformed);
        }
        return false;
    }
    if (options->fields != NULL && !chosen_by_fields(id, options->fields, error)) {
        return false;
    }
    if (options->index != NULL) {
        const char *value = manifest_indexed(options->index, id->kind, object);
        return value != NULL && strcmp(value, options->index_value) == 0;
    }
    if (options->owner_uid != NULL) {
        operetta_value *owner = operetta_new_object();
        operetta_set_string(owner, "metadata.uid", options->owner_uid);
        return operetta_is_controlled_by(object, owner);
    }
    return true;
}

static operetta_value *projected(const operetta_value *object, const char *const *keep) {
    static const char *const always[] = {"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid",
                                         "metadata.resourceVersion", NULL};
    operetta_value *part = operetta_new_object();
    for (int round = 0; round < 2; round++) {
        for (const char *const *path = round == 0 ? always : keep; *path != NULL; path++) {
            operetta_value *value = operetta_at(object, *path);
            if (value != NULL) {
                operetta_set(part, *path, value);
            }
        }
    }
    return part;
}

bool backend_list(operetta_kind kind, const operetta_list_options *options, backend_page *page,
                  operetta_error **error) {
    if (test_fault(VERBS[VERB_LIST], error)) {
        return false;
    }
    if (options->index != NULL && !manifest_has_index(options->index, kind)) {
        fail_with(error, OPERETTA_BAD_REQUEST, "", "the manifest declares no index \"%s\" for %s", options->index,
                  kind.kind);
        return false;
    }
    if ((options->index != NULL || options->owner_uid != NULL) && options->live) {
        fail_with(error, OPERETTA_BAD_REQUEST, "", "indexes and owners need a cached list");
        return false;
    }
    size_t skip = options->continue_token == NULL ? 0 : strtoul(options->continue_token, NULL, 10);
    size_t seen = 0;
    size_t all = 0;
    for (const stored *at = store_first(); at != NULL; at = at->next) {
        all++;
    }
    page->items = operetta_allocate(all * sizeof *page->items);
    for (const stored *at = store_first(); at != NULL; at = at->next) {
        if (!same_kind(at->id.kind, kind)) {
            continue;
        }
        operetta_value *object = value_of_host(at->text, "the test cluster");
        bool wanted = chosen(&at->id, object, options, error);
        if (*error != NULL) {
            return false;
        }
        if (!wanted || seen++ < skip) {
            continue;
        }
        if (options->limit != 0 && page->count == options->limit) {
            page->continue_token = operetta_format("%zu", skip + page->count);
            break;
        }
        page->items[page->count++] =
            options->keep == NULL ? at->text : operetta_to_json(projected(object, options->keep));
    }
    page->resource_version = store_version();
    return true;
}

const char *backend_write(verb verb, operetta_kind kind, const char *namespace_, const char *name, const char *object,
                          const operetta_write_options *options, operetta_error **error) {
    object_id id = id_of(kind, namespace_, name);
    if (test_fault(VERBS[verb], error)) {
        return NULL;
    }
    if (options->strict) {
        store_unsupported(error, "strict validation");
        return NULL;
    }
    operetta_value *sent = value_of_host(object, "the test cluster");
    operetta_value *result = verb == VERB_CREATE
                                 ? store_create(id, sent, options->dry_run, error)
                                 : store_update(id, sent, verb == VERB_UPDATE_STATUS, options->dry_run, error);
    recorded(verb, kind, namespace_, name, options->dry_run, result != NULL);
    return text_of(result);
}

const char *backend_patch(operetta_kind kind, const char *namespace_, const char *name,
                          const operetta_patch_request *patch, const char *body, operetta_error **error) {
    bool status = patch->subresource != NULL && strcmp(patch->subresource, "status") == 0;
    if (test_fault(VERBS[VERB_PATCH], error)) {
        return NULL;
    }
    if (patch->type == OPERETTA_APPLY_PATCH || patch->options.strict || (patch->subresource != NULL && !status)) {
        store_unsupported(error, patch->type == OPERETTA_APPLY_PATCH ? "server-side apply"
                                 : patch->options.strict             ? "strict validation"
                                                                     : "this subresource");
        return NULL;
    }
    operetta_value *result = store_patch(id_of(kind, namespace_, name), patch->type,
                                         value_of_host(body, "the test cluster"), status, patch->options.dry_run, error);
    recorded(VERB_PATCH, kind, namespace_, name, patch->options.dry_run, result != NULL);
    return text_of(result);
}

bool backend_delete(operetta_kind kind, const char *namespace_, const char *name,
                    const operetta_delete_options *options, operetta_error **error) {
    bool deleted = !test_fault(VERBS[VERB_DELETE], error) && store_delete(id_of(kind, namespace_, name), options, error);
    recorded(VERB_DELETE, kind, namespace_, name, options->dry_run, deleted);
    return deleted;
}

const operetta_raw_response *backend_raw(const operetta_raw_request *request) {
    operetta_raw_response *response = operetta_allocate(sizeof *response);
    response->status = 501;
    response->content_type = "application/json";
    response->body = operetta_format("{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"code\":501,"
                                     "\"message\":\"raw requests (%s %s): not supported by the test kit\"}",
                                     request->method, request->path);
    return response;
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
    fprintf(stderr, "%s\n", message);
    exit(2);
}
