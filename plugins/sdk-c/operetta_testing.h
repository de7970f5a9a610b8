/*
 * Unit tests of plugins, natively and without a real cluster: an API server for tests, and a small test runner.
 *
 *     OPERETTA_TEST(a_greeting_gets_its_words) {
 *         operetta_test_add_json("{\"apiVersion\":\"example.com/v1\",\"kind\":\"Greeting\",…}");
 *         operetta_result result = operetta_test_reconcile("greeting", "ns", "hi");
 *         EXPECT(result.kind == OPERETTA_RESULT_DONE);
 *         EXPECT_STRING("hello", operetta_string(operetta_test_object(OPERETTA_CONFIG_MAP, "ns", "hi"), "data.words", ""));
 *     }
 *     OPERETTA_TEST_MAIN
 *
 * Each test gets an empty cluster of its own on the test server, a part of the program operetta: an API server with CRDs,
 * validation, defaults, server-side apply and all that reconcilers rely on. A panic becomes a retry, as on the host. If a test
 * fails, the runner prints the objects of its cluster and the calls.
 *
 * `operetta test` starts a server and runs the tests with it. Without it the first call of a test program starts a server,
 * which needs the program operetta on PATH, or its path in the environment variable OPERETTA.
 *
 * The server has the CRDs of the project. It makes a CRD without a schema for each other kind at the first object that a
 * test adds or the plugin creates; operetta_test_define says more about such a kind.
 *
 * Limits: the cluster runs no controllers (nothing is garbage collected, no Pod becomes ready), and does not check the
 * plugin's permissions.
 */
#ifndef OPERETTA_TESTING_H
#define OPERETTA_TESTING_H

#include <string.h>

#include "operetta.h"

#ifdef __wasm__
#error "operetta_testing.h is for native builds: compile the tests without --target=wasm32-wasi"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Ends the cluster, and removes the configuration, events, logs and faults. The next call has a new, empty cluster. The
 * runner calls this before each test. */
void operetta_test_reset(void);

/* Adds an object with its status, and with its deletionTimestamp if it has finalizers. The API server sets the
 * resourceVersion, and uid, generation and creationTimestamp where they are missing. An object that it rejects fails the
 * test. */
void operetta_test_add(const operetta_value *object);
void operetta_test_add_json(const char *text);

/* Sets the Plugin's spec.config, as JSON. */
void operetta_test_config(const char *text);

/* Makes the API server serve a custom resource without a schema: `plural` is its name in URLs (NULL: that which kubectl
 * guesses), and `status` tells whether it has a status subresource. Call it before there is an object of the kind. */
void operetta_test_define(operetta_kind kind, const char *plural, bool namespaced, bool status);

/* Declares that a namespaced custom resource has no status subresource, as operetta_test_define does. */
void operetta_test_without_status(operetta_kind kind);

/* Makes the next call of a verb fail with an error. The verbs are `get`, `list`, `create`, `update`, `update-status`,
 * `patch` and `delete`. */
void operetta_test_fail_next(const char *verb, operetta_error_variant variant, const char *message);

/* Reconciles one key as the host does. */
operetta_result operetta_test_reconcile(const char *controller, const char *namespace_, const char *name);

/* Maps the event of a watched object as the host does; `old` is its old state, NULL if it has not changed. Returns the keys
 * as NAMESPACE/NAME, or NAME for objects of cluster-scoped kinds, separated by blanks; NULL if the function panics or there
 * is no such controller. */
const char *operetta_test_map(const char *controller, const operetta_value *object, const operetta_value *old);

/* Returns the manifest that the plugin declares. The cluster then has its indexes. */
operetta_value *operetta_test_manifest(void);

/* Returns a stored object; NULL if there is none. */
operetta_value *operetta_test_object(operetta_kind kind, const char *namespace_, const char *name);

/* Return the plugin's writes, Events and log lines so far, in order; NULL past the end. Writes that changed nothing
 * count, dry runs do not. */
const char *operetta_test_write(size_t position); /* e.g. `create ConfigMap ns/name`, `update-status Foo ns/name` */
const char *operetta_test_event(size_t position); /* e.g. `Normal Greeted Say: the words are in place` */
const char *operetta_test_log(size_t position);   /* e.g. `info scaled replicas=3` */

/* Returns the objects of the cluster and the calls so far, as text. The runner prints it when a test fails. */
const char *operetta_test_dump(void);

/* ---- The runner ---- */

typedef void (*operetta_test_function)(void);
void operetta_test_register(const char *name, operetta_test_function test);
void operetta_test_failed(const char *file, int line, const char *what);
void operetta_test_expect_string(const char *file, int line, const char *expected, const char *actual);
void operetta_test_expect_int(const char *file, int line, int64_t expected, int64_t actual);

/* Runs all tests, prints each and then `N passed, N failed`. Returns 0 if none failed. */
int operetta_test_main(void);

#ifdef __cplusplus
}
#endif

#define OPERETTA_TEST(name)                                                                                            \
    static void name(void);                                                                                            \
    __attribute__((constructor)) static void register_##name(void) { operetta_test_register(#name, name); }            \
    static void name(void)
#define OPERETTA_TEST_MAIN                                                                                             \
    int main(void) { return operetta_test_main(); }
#define EXPECT(condition) ((condition) ? (void)0 : operetta_test_failed(__FILE__, __LINE__, #condition))
#define EXPECT_STRING(expected, actual) operetta_test_expect_string(__FILE__, __LINE__, expected, actual)
#define EXPECT_INT(expected, actual) operetta_test_expect_int(__FILE__, __LINE__, expected, actual)

#endif
