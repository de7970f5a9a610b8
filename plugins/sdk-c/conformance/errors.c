/* Errors, and raw HTTP requests. */
#include "cases.h"

static const char *not_found(const case_ *c, operetta_error **error) {
    operetta_get(OPERETTA_CONFIG_MAP, c->namespace_, "no-such-object", error);
    return words_of(*error);
}

static const char *already_exists(const case_ *c, operetta_error **error) {
    operetta_create(config_map(c, c->target, NULL), NULL, error);
    return words_of(*error);
}

static const char *conflict(const case_ *c, operetta_error **error) {
    operetta_value *map = config_map(c, c->target, NULL);
    operetta_set_string(map, "metadata.resourceVersion", "1");
    operetta_update(map, NULL, error);
    return words_of(*error);
}

static const char *invalid(const case_ *c, operetta_error **error) {
    operetta_value *map = config_map(c, "error-invalid-made", NULL);
    operetta_set_string(map, "metadata.labels.conformance", "not/a/label");
    operetta_create(map, NULL, error);
    bool cause = *error != NULL && (*error)->cause_count > 0;
    return operetta_format("%s %s", words_of(*error), cause ? (*error)->causes[0].field : "");
}

static const char *bad_request(const case_ *c, operetta_error **error) {
    operetta_list_options options = {.namespace_ = c->namespace_, .index = "no-such-index", .index_value = "x"};
    operetta_list(OPERETTA_CONFIG_MAP, &options, error);
    return words_of(*error);
}

static const char *forbidden(const case_ *c, operetta_error **error) {
    operetta_get_live(OPERETTA_SECRET, c->namespace_, "hidden", error);
    return words_of(*error);
}

static const char *refused(const case_ *c, operetta_error **error) {
    operetta_value *map = config_map(c, c->target, NULL);
    operetta_set_string(map, "metadata.labels.conformance", "refuse");
    operetta_create(map, NULL, error);
    return words_of(*error);
}

static const char *too_many_requests(const case_ *c, operetta_error **error) {
    const char *words = refused(c, error);
    bool told = *error != NULL && (*error)->has_retry_after;
    return operetta_format("%s %s", words, told ? operetta_format("%u", (*error)->retry_after_seconds) : "");
}

static const char *path_of(const case_ *c, const char *name) {
    return operetta_format("/api/v1/namespaces/%s/configmaps%s%s", c->namespace_, *name == '\0' ? "" : "/", name);
}

/* Returns the status code and a field of the body, separated by a space. */
static const char *answer(const operetta_raw_response *response, const char *path, operetta_error **error) {
    operetta_value *body = operetta_parse(response->body, error);
    return body == NULL ? NULL : operetta_format("%u %s", response->status, operetta_string(body, path, ""));
}

static const char *raw_get(const case_ *c, operetta_error **error) {
    operetta_raw_request request = {.method = "GET", .path = path_of(c, c->target)};
    return answer(operetta_raw(&request), "data.word", error);
}

static const char *raw_post(const case_ *c, operetta_error **error) {
    operetta_raw_request request = {.method = "POST", .path = path_of(c, ""), .content_type = "application/json",
                                    .body = operetta_to_json(config_map(c, "raw-made", NULL))};
    const operetta_raw_response *response = operetta_raw(&request);
    operetta_value *map = operetta_get(OPERETTA_CONFIG_MAP, c->namespace_, "raw-made", error);
    return map == NULL ? NULL : operetta_format("%u %s", response->status, operetta_name(map));
}

static const char *raw_error(const case_ *c, operetta_error **error) {
    operetta_raw_request request = {.method = "GET", .path = path_of(c, "no-such-object")};
    return answer(operetta_raw(&request), "reason", error);
}

static const char *raw_watch(const case_ *c, operetta_error **error) {
    operetta_raw_request request = {.method = "GET", .path = path_of(c, ""), .query = "watch=true"};
    return answer(operetta_raw(&request), "reason", error);
}

const entry ERRORS[] = {
    {"error-not-found", not_found},
    {"error-already-exists", already_exists},
    {"error-conflict", conflict},
    {"error-invalid", invalid},
    {"error-bad-request", bad_request},
    {"error-forbidden", forbidden},
    {"error-expired", refused},
    {"error-too-many-requests", too_many_requests},
    {"error-unavailable", refused},
    {"error-timed-out", refused},
    {"error-other", refused},
    {"raw-get", raw_get},
    {"raw-post", raw_post},
    {"raw-error", raw_error},
    {"raw-watch", raw_watch},
    {NULL, NULL},
};
