/* An operator that writes a ConfigMap with `spec.times` lines for each Greeting, and their number to its status. */
#include "operetta.h"

static const operetta_kind GREETING = {"example.operetta.dev/v1", "Greeting"};

enum { MOST_TIMES = 100 };

/* Writes the ConfigMap of a Greeting. Returns NULL and the error if that fails. */
static operetta_value *write_words(const operetta_value *greeting, operetta_operation_result *did,
                                   operetta_error **error) {
    const char *namespace_ = operetta_namespace(greeting);
    const char *words = operetta_string(greeting, "spec.words", "");
    int64_t times = operetta_int(greeting, "spec.times", 1);

    operetta_value *map = operetta_get_or_new(OPERETTA_CONFIG_MAP, namespace_, operetta_name(greeting), error);
    if (map == NULL || !operetta_set_controller_reference(greeting, map, error)) {
        return NULL;
    }
    operetta_value *data = operetta_new_object();
    for (int64_t i = 0; i < times; i++) {
        operetta_set_string(data, operetta_format("line-%lld", (long long)i), words);
    }
    operetta_set(map, "data", data);
    return operetta_create_or_update(map, did, error);
}

static operetta_result reconcile(const operetta_request *request, operetta_value *greeting) {
    operetta_error *error;
    int64_t times = operetta_int(greeting, "spec.times", 1);
    if (times < 1 || times > MOST_TIMES) {
        return operetta_terminal("Greeting %s/%s: spec.times is %lld: 1 to %d are possible", request->namespace_,
                                 request->name, (long long)times, MOST_TIMES);
    }

    operetta_operation_result did;
    operetta_value *map = write_words(greeting, &did, &error);
    if (operetta_is(error, OPERETTA_ALREADY_EXISTS)) {
        operetta_event(greeting, OPERETTA_WARNING, "ErrResourceExists", "Greet", "%s", error->message);
    }
    if (map == NULL) {
        return operetta_fail(error);
    }
    if (did != OPERETTA_UNCHANGED) {
        const char *result = operetta_operation_result_name(did);
        operetta_log(OPERETTA_INFO, OPERETTA_FIELDS({"result", result}), "words written");
        operetta_event(greeting, OPERETTA_NORMAL, "Greeted", "Greet", "The words are in place");
    }

    operetta_value *status = operetta_new_object();
    operetta_set_int(status, "lines", times);
    return operetta_write_status(greeting, status, &error) ? operetta_done() : operetta_fail(error);
}

void operetta_plugin(void) {
    operetta_controller *greetings = operetta_add_object_controller("greeting", GREETING, reconcile);
    operetta_owns(greetings, OPERETTA_CONFIG_MAP);
    operetta_workers(greetings, 2);
}
