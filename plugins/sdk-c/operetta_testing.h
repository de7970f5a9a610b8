/*
 * Unit tests of plugins, natively and without a cluster: an API server in memory, and a small test runner.
 *
 *     OPERETTA_TEST(a_greeting_gets_its_words) {
 *         operetta_test_add_json("{\"apiVersion\":\"example.com/v1\",\"kind\":\"Greeting\",…}");
 *         operetta_result result = operetta_test_reconcile("greeting", "ns", "hi");
 *         EXPECT(result.kind == OPERETTA_RESULT_DONE);
 *         EXPECT_STRING("hello", operetta_string(operetta_test_object(OPERETTA_CONFIG_MAP, "ns", "hi"), "data.words", ""));
 *     }
 *     OPERETTA_TEST_MAIN
 *
 * It implements what reconcilers rely on: resourceVersions and conflicts, already-exists, uids, generations, the
 * status subresource, finalizers and deletionTimestamps, label selectors, owners and declared indexes, merge and JSON
 * patches. A panic becomes a retry, as on the host.
 *
 * Limits: it has no schemas (it does not validate, default or prune), no controllers (nothing is garbage collected) and no
 * RBAC. It rejects server-side apply, strict validation, generateName, foreground and orphan deletion, the scale
 * subresource and raw requests with an error.
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

/* Empties the cluster, and removes the configuration, events, logs and faults. The runner calls this before each test. */
void operetta_test_reset(void);

/* Adds an object with its status and deletionTimestamp. Sets the fields of the API server (uid, resourceVersion,
 * creationTimestamp, generation) if they are missing. Panics if the object exists or has no name. */
void operetta_test_add(const operetta_value *object);
void operetta_test_add_json(const char *text);

/* Sets the Plugin's spec.config, as JSON. */
void operetta_test_config(const char *text);

/* Declares that a kind has no status subresource. By default ConfigMap, Secret and other kinds without a status have
 * none. */
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

/* Returns the manifest that the plugin declares. */
operetta_value *operetta_test_manifest(void);

/* Returns a stored object; NULL if there is none. */
operetta_value *operetta_test_object(operetta_kind kind, const char *namespace_, const char *name);

/* Return the plugin's writes, Events and log lines so far, in order; NULL past the end. Writes that changed nothing
 * count, dry runs do not. */
const char *operetta_test_write(size_t position); /* e.g. `create ConfigMap ns/name`, `update-status Foo ns/name` */
const char *operetta_test_event(size_t position); /* e.g. `Normal Greeted Say: the words are in place` */
const char *operetta_test_log(size_t position);   /* e.g. `info scaled replicas=3` */

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
