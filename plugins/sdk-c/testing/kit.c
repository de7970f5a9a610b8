/* The test kit's API and its runner. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

typedef struct fault {
    const char *verb;
    operetta_error *error;
    struct fault *next;
} fault;

typedef struct test {
    const char *name;
    operetta_test_function function;
    struct test *next;
} test;

record test_writes, test_events, test_logs, test_warnings;
bool test_reconciling;
jmp_buf test_return;
const char *test_panic;

static fault *faults;
static const char *config;
static unsigned reconciles;
static test *tests;
static unsigned failures;
static bool running;      /* whether the runner runs a test */
static jmp_buf test_ends; /* the point to return to when a test ends early */

void test_end(const char *format, ...) {
    static char message[1024]; /* memory may be exhausted */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    test_reconciling = false;
    if (!running) {
        fprintf(stderr, "%s\n", message);
        exit(2);
    }
    failures++;
    printf("  %s\n", message);
    longjmp(test_ends, 1);
}

void record_add(record *record, const char *line) {
    if (record->count == record->room) {
        size_t room = record->room == 0 ? 16 : record->room * 2;
        record->lines = memory_reallocate(record->lines, record->room * sizeof *record->lines,
                                          room * sizeof *record->lines);
        record->room = room;
    }
    record->lines[record->count++] = line;
}

static const char *record_line(const record *record, size_t position) {
    return position < record->count ? record->lines[position] : NULL;
}

const char *operetta_test_write(size_t position) { return record_line(&test_writes, position); }

const char *operetta_test_event(size_t position) { return record_line(&test_events, position); }

const char *operetta_test_log(size_t position) { return record_line(&test_logs, position); }

void operetta_test_reset(void) {
    cluster_close();
    values_reset();
    objects_reset();
    forget_unset_field();
    memory_reset();
    test_writes = test_events = test_logs = test_warnings = (record){0};
    faults = NULL;
    config = "{}";
    reconciles = 0;
}

const char *test_config_text(void) { return config == NULL ? "{}" : config; }

void operetta_test_config(const char *text) {
    value_of_host(text, "operetta_test_config");
    config = operetta_format("%s", text);
}

void operetta_test_define(operetta_kind kind, const char *plural, bool namespaced, bool status) {
    operetta_error *error = NULL;
    operetta_value *request = cluster_request_for_kind("define", kind);
    operetta_set_bool(request, "namespaced", namespaced);
    operetta_set_bool(request, "status", status);
    if (plural != NULL) {
        operetta_set_string(request, "plural", plural);
    }
    cluster_call(request, &error);
    if (error != NULL) {
        operetta_panic("operetta_test_define: %s", error->message);
    }
}

void operetta_test_without_status(operetta_kind kind) { operetta_test_define(kind, NULL, true, false); }

void operetta_test_add(const operetta_value *object) {
    operetta_error *error = NULL;
    operetta_value *request = cluster_request("add");
    operetta_set(request, "object", operetta_copy(object));
    cluster_call(request, &error);
    if (error != NULL) {
        operetta_panic("operetta_test_add: %s", error->message);
    }
}

void operetta_test_add_json(const char *text) { operetta_test_add(value_of_host(text, "operetta_test_add_json")); }

operetta_value *operetta_test_object(operetta_kind kind, const char *namespace_, const char *name) {
    operetta_error *error = NULL;
    operetta_value *request = cluster_request_for_key("get", kind, namespace_, name);
    operetta_set_string(request, "read", "live");
    return cluster_call(request, &error);
}

const char *operetta_test_dump(void) {
    operetta_error *error = NULL;
    return cluster_is_open() ? operetta_string(cluster_call(cluster_request("dump"), &error), "", "") : "";
}

void operetta_test_fail_next(const char *verb, operetta_error_variant variant, const char *message) {
    static const char *const verbs[] = {"get", "list", "create", "update", "update-status", "patch", "delete"};
    size_t known = 0;
    while (known < sizeof verbs / sizeof *verbs && strcmp(verbs[known], verb) != 0) {
        known++;
    }
    if (known == sizeof verbs / sizeof *verbs) {
        operetta_panic("operetta_test_fail_next: \"%s\" is not a verb", verb);
    }
    fault **end = &faults;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = operetta_allocate(sizeof **end);
    (*end)->verb = verbs[known];
    fail_with(&(*end)->error, variant, "", "%s", message);
}

bool test_fault(const char *verb, operetta_error **error) {
    for (fault **at = &faults; *at != NULL; at = &(*at)->next) {
        if (strcmp((*at)->verb, verb) == 0) {
            *error = (*at)->error;
            *at = (*at)->next;
            return true;
        }
    }
    return false;
}

operetta_result operetta_test_reconcile(const char *controller, const char *namespace_, const char *name) {
    operetta_request request = {.controller = controller, .namespace_ = namespace_, .name = name,
                                .reconcile_id = operetta_format("test-%u", ++reconciles)};
    operetta_result result;
    forget_unset_field();
    test_reconciling = true;
    if (setjmp(test_return) == 0) {
        cluster_declare(manifest_describe());
        test_warnings = (record){0}; /* those of earlier calls are not about this reconcile */
        result = manifest_reconcile(&request);
    } else {
        result = operetta_retry("%s", test_panic);
    }
    test_reconciling = false;
    return result;
}

static const char *text_of_keys(const operetta_keys *keys) {
    const char *text = "";
    for (size_t i = 0; i < keys->count; i++) {
        const struct operetta_key *key = &keys->items[i];
        const char *namespace_ = key->namespace_ == NULL ? "" : key->namespace_;
        text = operetta_format("%s%s%s%s%s", text, i == 0 ? "" : " ", namespace_, *namespace_ == '\0' ? "" : "/", key->name);
    }
    return text;
}

const char *operetta_test_map(const char *controller, const operetta_value *object, const operetta_value *old) {
    operetta_keys keys = {0};
    const char *text = NULL;
    test_reconciling = true;
    if (setjmp(test_return) == 0 && manifest_map(controller, operetta_kind_of(object), object, old, &keys)) {
        text = text_of_keys(&keys);
    }
    test_reconciling = false;
    return text;
}

operetta_value *operetta_test_manifest(void) {
    const char *text = manifest_describe();
    cluster_declare(text);
    return value_of_host(text, "describe");
}

void operetta_test_register(const char *name, operetta_test_function function) {
    test **end = &tests;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = calloc(1, sizeof **end);
    if (*end == NULL) {
        abort();
    }
    (*end)->name = name;
    (*end)->function = function;
}

void operetta_test_failed(const char *file, int line, const char *what) {
    failures++;
    printf("  %s:%d: %s\n", file, line, what);
}

void operetta_test_expect_string(const char *file, int line, const char *expected, const char *actual) {
    bool equal = expected == NULL || actual == NULL ? expected == actual : strcmp(expected, actual) == 0;
    if (!equal) {
        operetta_test_failed(file, line, operetta_format("expected \"%s\", got \"%s\"", expected == NULL ? "NULL" : expected,
                                                         actual == NULL ? "NULL" : actual));
    }
}

void operetta_test_expect_int(const char *file, int line, int64_t expected, int64_t actual) {
    if (expected != actual) {
        operetta_test_failed(file, line, operetta_format("expected %lld, got %lld", (long long)expected,
                                                         (long long)actual));
    }
}

/* Runs a test, and then prints its cluster if the test failed. Reports whether it passed. */
static bool passes(const test *test) {
    failures = 0;
    operetta_test_reset();
    running = true;
    if (setjmp(test_ends) == 0) {
        test->function();
    }
    if (failures > 0 && setjmp(test_ends) == 0 && cluster_is_open()) {
        printf("the cluster at the end of the test:\n%s\n", operetta_test_dump());
    }
    running = false;
    return failures == 0;
}

int operetta_test_main(void) {
    unsigned passed = 0;
    unsigned failed = 0;
    for (const test *test = tests; test != NULL; test = test->next) {
        bool pass = passes(test);
        printf("%s %s\n", pass ? "ok  " : "FAIL", test->name);
        *(pass ? &passed : &failed) += 1;
    }
    operetta_test_reset();
    printf("%u passed, %u failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
