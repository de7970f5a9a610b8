/* Tests the reconciler with the SDK's test kit, on an API server for tests. */
#include "operetta_testing.h"

static const operetta_kind KIND = {"{{group}}/{{version}}", "{{kind}}"};

/* Adds a {{kind}} and reconciles it once. */
static void reconcile_new_object(void) {
    operetta_value *object = operetta_new(KIND, "default", "hello");
    operetta_set_string(object, "spec.message", "Hello");
    operetta_test_add(object);
    EXPECT_INT(OPERETTA_RESULT_DONE, operetta_test_reconcile("{{singular}}", "default", "hello").kind);
}

static operetta_value *config_map(void) { return operetta_test_object(OPERETTA_CONFIG_MAP, "default", "hello"); }

OPERETTA_TEST(writes_message_into_config_map_and_restores_it) {
    reconcile_new_object();
    operetta_value *object = operetta_test_object(KIND, "default", "hello");
    EXPECT_STRING("Hello", operetta_string(config_map(), "data.message", ""));
    EXPECT(operetta_is_controlled_by(config_map(), object));
    EXPECT_STRING("hello", operetta_string(object, "status.configMap", ""));

    operetta_value *map = config_map();
    operetta_remove(map, "data");
    EXPECT(operetta_update(map, NULL, NULL) != NULL);
    operetta_test_reconcile("{{singular}}", "default", "hello");
    EXPECT_STRING("Hello", operetta_string(config_map(), "data.message", ""));
}

OPERETTA_TEST(second_reconcile_writes_nothing) {
    reconcile_new_object();
    operetta_test_reconcile("{{singular}}", "default", "hello");
    EXPECT_STRING("create ConfigMap default/hello", operetta_test_write(0));
    EXPECT_STRING("update-status {{kind}} default/hello", operetta_test_write(1));
    EXPECT_STRING(NULL, operetta_test_write(2));
}

OPERETTA_TEST_MAIN
