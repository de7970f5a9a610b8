/* Results of a reconcile, and finalizers: the cases that write no result to their ConfigMap. */
#include "cases.h"

static const char FINALIZER[] = "conformance.operetta.dev/cleanup";

/* Appends a run to the target. Returns the number of runs, or -1 and the error. */
static int append_run(const case_ *c, const operetta_request *request, operetta_error **error) {
    operetta_value *map = operetta_get_live(OPERETTA_CONFIG_MAP, c->namespace_, c->target, error);
    if (map == NULL) {
        return -1;
    }
    const char *runs = operetta_string(map, "data.runs", "");
    int count = 1;
    for (const char *at = runs; *at != '\0'; at++) {
        count += *at == ' ';
    }
    operetta_value *body = operetta_new_object();
    operetta_set_format(body, "data.runs", "%s%u ", runs, request->retries);
    operetta_patch_request patch = {.body = body};
    return operetta_patch(OPERETTA_CONFIG_MAP, c->namespace_, c->target, &patch, error) == NULL ? -1 : count;
}

static void sing(void) { operetta_panic("boom at the opera"); }

static operetta_result answer(const char *how, int runs) {
    if (strcmp(how, "requeue") == 0 && runs < 3) {
        return operetta_requeue();
    }
    if (strcmp(how, "requeue-after") == 0 && runs < 2) {
        return operetta_requeue_after_ms(300);
    }
    if (strcmp(how, "error") == 0 && runs < 3) {
        return operetta_retry("no luck yet");
    }
    if (strcmp(how, "terminal") == 0) {
        return operetta_terminal("no use to retry");
    }
    if (strcmp(how, "panic") == 0 && runs < 2) {
        sing();
    }
    return operetta_done();
}

static operetta_result finalizer(const case_ *c) {
    operetta_error *error;
    if (!operetta_is_being_deleted(c->object)) {
        return operetta_add_finalizer(c->object, FINALIZER, &error) ? operetta_done() : operetta_fail(error);
    }
    if (!operetta_has_finalizer(c->object, FINALIZER)) {
        return operetta_done();
    }
    operetta_value *made = operetta_create(config_map(c, "finalizer-cleaned", NULL), NULL, &error);
    if (made == NULL && !operetta_is(error, OPERETTA_ALREADY_EXISTS)) {
        return operetta_fail(error);
    }
    return operetta_remove_finalizer(c->object, FINALIZER, &error) ? operetta_done() : operetta_fail(error);
}

bool special_case(const case_ *c, const operetta_request *request, operetta_result *result) {
    if (strcmp(request->name, "finalizer") == 0) {
        *result = finalizer(c);
        return true;
    }
    bool mapped = strncmp(request->name, "map-", 4) == 0;
    if (!mapped && strncmp(request->name, "result-", 7) != 0) {
        return false;
    }
    operetta_error *error = NULL;
    *result = operetta_done();
    if (operetta_at(c->object, "data.result") == NULL) {
        int runs = append_run(c, request, &error);
        *result = runs < 0 ? operetta_fail(error) : mapped ? operetta_done() : answer(request->name + 7, runs);
    }
    return true;
}
