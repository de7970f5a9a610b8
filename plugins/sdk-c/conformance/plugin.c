/* The conformance suite in C: finds the behaviour of a case, runs it, and writes the result. */
#include "cases.h"

const char *words_of(const operetta_error *error) {
    if (error == NULL) {
        return "no error";
    }
    return operetta_format("%s %u %s", operetta_error_variant_name(error->variant), error->code, error->reason);
}

operetta_value *config_map(const case_ *case_, const char *name, const char *word) {
    operetta_value *map = operetta_new(OPERETTA_CONFIG_MAP, case_->namespace_, name);
    if (word != NULL) {
        operetta_set_string(map, "data.word", word);
    }
    return map;
}

const char *argument(const case_ *case_, const char *name) {
    return operetta_string(operetta_member(operetta_at(case_->object, "data"), name), "", "");
}

const char *join_names(const char *before, const operetta_page *page) {
    for (size_t i = 0; i < page->count; i++) {
        before = operetta_format("%s%s%s", before, *before == '\0' ? "" : ",", operetta_name(page->items[i]));
    }
    return before;
}

static behaviour find(const char *id) {
    const entry *const groups[] = {READS, WRITES, ERRORS, HELPERS, DATA};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        for (const entry *entry = groups[i]; entry->id != NULL; entry++) {
            if (strcmp(entry->id, id) == 0) {
                return entry->run;
            }
        }
    }
    return NULL;
}

static operetta_result reconcile(const operetta_request *request) {
    operetta_error *error;
    operetta_result result;
    case_ case_ = {.namespace_ = request->namespace_};
    case_.object = operetta_find(request->kind, request->namespace_, request->name, &error);
    if (error != NULL) {
        return operetta_fail(error);
    }
    if (case_.object == NULL) {
        return operetta_done();
    }
    case_.target = argument(&case_, "target");
    if (special_case(&case_, request, &result)) {
        return result;
    }
    if (operetta_at(case_.object, "data.result") != NULL) {
        return operetta_done();
    }
    behaviour run = find(request->name);
    const char *saw = run == NULL ? NULL : run(&case_, &error);
    operetta_value *answer = operetta_new_object();
    if (run == NULL) {
        operetta_set_string(answer, "data.result", "unsupported: this plugin has no such behaviour");
    } else if (saw == NULL) {
        operetta_set_format(answer, "data.result", "failed: %s", operetta_error_text(error));
    } else {
        operetta_set_string(answer, "data.result", "ok");
        operetta_set_string(answer, "data.saw", saw);
    }
    operetta_patch_request patch = {.body = answer};
    if (operetta_patch(request->kind, request->namespace_, request->name, &patch, &error) == NULL) {
        return operetta_fail(error);
    }
    return operetta_done();
}

/* Adds the keys whose names are in a text, separated by blanks. */
static void add_named(operetta_keys *keys, const char *namespace_, const char *names) {
    while (*names != '\0') {
        int length = (int)strcspn(names, " ");
        if (length > 0) {
            operetta_add_key(keys, namespace_, operetta_format("%.*s", length, names));
        }
        names += length + (names[length] == ' ');
    }
}

/* Adds the keys that a ConfigMap names. The cache has pruned one of the two fields. */
static void woken(const operetta_value *waker, operetta_keys *keys) {
    if (operetta_at(waker, "data.fail") != NULL) {
        operetta_panic("no keys today");
    }
    add_named(keys, operetta_namespace(waker), operetta_string(waker, "data.wakes", ""));
    add_named(keys, operetta_namespace(waker), operetta_string(waker, "data.pruned", ""));
}

void operetta_plugin(void) {
    operetta_controller *cases = operetta_add_controller("cases", OPERETTA_CONFIG_MAP, reconcile);
    operetta_own_namespace(operetta_for(cases));
    operetta_select_labels(operetta_for(cases), "conformance=case");
    operetta_source *children = operetta_owns(cases, OPERETTA_CONFIG_MAP);
    operetta_own_namespace(children);
    operetta_select_labels(children, "conformance=child");
    operetta_source *wakers = operetta_watches(
        cases, OPERETTA_CONFIG_MAP, (operetta_mapping){.kind = OPERETTA_MAP_CUSTOM, .add_keys = woken});
    operetta_own_namespace(wakers);
    operetta_select_labels(wakers, "conformance=wake");
    operetta_prune(wakers, ".data.pruned");
    operetta_workers(cases, 4);
    operetta_rate_limiter(cases, 5, 1000, 1000, 1000);
    operetta_add_index("colour", OPERETTA_CONFIG_MAP, ".data.colour");
    operetta_add_label_index("app", OPERETTA_CONFIG_MAP, "app");
    operetta_add_controller_index("owner", OPERETTA_CONFIG_MAP, OPERETTA_CONFIG_MAP);
}
