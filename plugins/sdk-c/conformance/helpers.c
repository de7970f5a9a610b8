/* Events, the log, the configuration, and the SDK's helpers. */
#include "cases.h"

static const char *event(const case_ *c, operetta_error **error) {
    (void)error;
    operetta_event(c->object, OPERETTA_NORMAL, "Conformed", "Test", "it works");
    return "emitted";
}

static const char *log_line(const case_ *c, operetta_error **error) {
    (void)c, (void)error;
    operetta_log(OPERETTA_INFO, OPERETTA_FIELDS({"colour", "red"}), "a line for conformance");
    return "logged";
}

static const char *config(const case_ *c, operetta_error **error) {
    (void)c, (void)error;
    return operetta_string(operetta_config(), "word", "");
}

static const char *create_or_update(const case_ *c, operetta_error **error) {
    static const char *const words[] = {"1", "1", "2"};
    const char *results = "";
    for (size_t i = 0; i < 3; i++) {
        operetta_operation_result result;
        operetta_value *map = operetta_get_or_new(OPERETTA_CONFIG_MAP, c->namespace_, "cou-made", error);
        if (map == NULL) {
            return NULL;
        }
        operetta_set_string(map, "data.word", words[i]);
        if (operetta_create_or_update(map, &result, error) == NULL) {
            return NULL;
        }
        results = operetta_format("%s%s%s", results, i == 0 ? "" : " ", operetta_operation_result_name(result));
    }
    return results;
}

static const char *owner_reference(const case_ *c, operetta_error **error) {
    operetta_value *map = config_map(c, "owned-made", NULL);
    operetta_set_string(map, "metadata.labels.conformance", "child");
    if (!operetta_set_controller_reference(c->object, map, error)) {
        return NULL;
    }
    return operetta_create(map, NULL, error) == NULL ? NULL : "created";
}

const entry HELPERS[] = {
    {"event", event},
    {"log", log_line},
    {"config", config},
    {"create-or-update", create_or_update},
    {"owner-reference", owner_reference},
    {NULL, NULL},
};
